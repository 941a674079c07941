//! Whole proofs on a card, by forebay's engine and by the peer that this program is built for: the same system, the same
//! key, the same blinding, in turns, in one process. Prints rows of a Markdown table; proofs that differ or do not verify end
//! the run.

#[cfg(not(any(feature = "bellperson", feature = "supraseal")))]
compile_error!("build with ../build.sh, which knows the features");

mod peer;
#[path = "../../src/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use forebay::backend::cuda::{self, Cuda, devices};
use forebay::engine::{Devices, Engine, Job, Options, Partition};
use forebay::key::ProvingKey;
use forebay::witness::Assignment;
use peers::forebay::{blinding, key_and_assignment};
use peers::prover::Blinding;
use peers::system::{Kind, System};

use crate::peer::{NAME, Peer};
use crate::table::{Row, Table, milliseconds};

/// Measures whole proofs of forebay's engine beside a peer's, on the first card
#[derive(Parser)]
struct Arguments {
    /// Size of the domain, as a power of two
    #[arg(long, default_value_t = 20)]
    log_n: u32,

    /// Systems to prove
    #[arg(long, value_enum, value_delimiter = ',', default_value = "dense,bits")]
    kind: Vec<Kind>,

    /// Timed proofs of each prover on each system; an odd number
    #[arg(long, default_value_t = 5)]
    runs: usize,

    /// Folder for the proving keys, which are made if they are not there
    #[arg(long, value_name = "DIR")]
    keys: PathBuf,

    /// File to write all runs to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // The peer takes its memory from the driver, beside what we lease.
    let vram = devices()?.first().map(|card| card.memory_bytes / 2);
    let mut cards = Devices::new();
    cards.add(move || Cuda::open(0, cuda::Options { vram, ..Default::default() }))?;
    let engine = Engine::new(cards, Options::default())?;
    let mut table = Table::new(&engine.devices()[0].name);
    for &kind in &arguments.kind {
        table.push(measure(&engine, kind, &arguments)?);
    }
    arguments.json.map_or(Ok(()), |path| table.write(&path))
}

fn measure(engine: &Engine, kind: Kind, arguments: &Arguments) -> Result<Row> {
    let log_n = arguments.log_n;
    let system = System::new(kind, log_n)?;
    let path = arguments.keys.join(format!("{kind}-{log_n}.params"));
    make_key(&system, &path)?;
    let started = Instant::now();
    let (key, assignment) = key_and_assignment(&system, &std::fs::read(&path)?)?;
    let ours = Ours { engine, key: Arc::new(key), assignment: Arc::new(assignment) };
    let peer = Peer::new(&system, &path)?;
    eprintln!("{kind} 2^{log_n}: loaded in {:.1?}", started.elapsed());

    let mut row = Row {
        what: format!("proof, {kind}, against {NAME}"),
        log_n,
        ours: Vec::new(),
        peer: Vec::new(),
        bar: None,
    };
    // The first turn loads what stays on the card, and is not counted.
    for run in 0..=arguments.runs {
        let blinding = Blinding::of_run(run as u64);
        let (our_time, our_proof) = ours.prove(&blinding)?;
        let (peer_time, peer_proof) = peer.prove(&blinding)?;
        ensure!(our_proof == peer_proof, "the proofs of run {run} differ");
        eprintln!("{kind} 2^{log_n} run {run}: ours {our_time:.1?}, {NAME} {peer_time:.1?}");
        if run > 0 {
            row.ours.push(milliseconds(our_time));
            row.peer.push(milliseconds(peer_time));
        }
    }
    Ok(row)
}

/// Makes the key of `system`, in bellperson's format, unless it is there.
fn make_key(system: &System, path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let started = Instant::now();
    let params = peers::key::parameters(&peers::key::make(system)?)?;
    let partial = path.with_extension("partial");
    std::fs::write(&partial, params)?;
    std::fs::rename(&partial, path)?;
    eprintln!("{}: made in {:.1?}", path.display(), started.elapsed());
    Ok(())
}

/// Our engine, with a key and an assignment.
struct Ours<'a> {
    engine: &'a Engine,
    key: Arc<ProvingKey>,
    assignment: Arc<Assignment>,
}

impl Ours<'_> {
    /// The time from a job's submission to its verified proof, and the proof.
    fn prove(&self, with: &Blinding) -> Result<(Duration, [u8; 192])> {
        let partition = Partition::new(self.assignment.clone())?.blinding(blinding(with));
        let job = Job::new("proof", self.key.clone(), vec![partition]);
        let started = Instant::now();
        let proved = self.engine.submit(job)?.wait()?;
        let time = started.elapsed();
        ensure!(proved[0].backend == "cuda", "proved on {}", proved[0].backend);
        Ok((time, proved[0].proof.to_bytes()))
    }
}
