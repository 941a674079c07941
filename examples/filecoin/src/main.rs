//! The command line: a statement, its key, its proofs, and whether bellperson accepts them.
//!
//! Exit codes are forebay's: 0 accepted, 1 refused, or an input is invalid, 2 usage, 3 the machine failed.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use bellperson::Circuit;
use blstrs::Scalar;
use clap::{Args, Parser, Subcommand, ValueEnum};
use filecoin::statement::Statement;
use filecoin::{key, porep, prove, window_post, winning_post};
use forebay::backend::cpu::Cpu;
use forebay::backend::cuda;
use forebay::bytes;
use forebay::engine::{Devices, Engine};
use rand::rngs::OsRng;

#[derive(Parser)]
#[command(
    about = "Filecoin's circuits, from storage-proofs, proved by forebay and verified by bellperson"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Window PoSt over sectors of 256 bytes: 848 rows a partition, 3 partitions.
    WindowPost(Options),
    /// Winning PoSt over a 32 GiB sector, as miners prove it: 370,723 rows, 1 partition.
    WinningPost(Options),
    /// PoRep of a sector of 256 bytes, in two layers: 1,199,642 rows a partition, 4 partitions.
    Porep(Options),
}

#[derive(Args)]
struct Options {
    /// What computes.
    #[arg(long, default_value = "auto")]
    backend: Backend,
    /// The memory to use of each device, such as 16GiB, instead of all that is free.
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    vram: Option<u64>,
    /// Another number of partitions.
    #[arg(long, value_name = "COUNT")]
    partitions: Option<NonZeroUsize>,
    /// Where keys are kept; one that is not there is made.
    #[arg(long, value_name = "DIR", default_value = "target/params")]
    params: PathBuf,
    /// Draw what ran when, and the memory that was leased.
    #[arg(long, value_name = "OUT.SVG")]
    svg: Option<PathBuf>,
}

impl Options {
    fn partitions(&self, usual: usize) -> usize {
        self.partitions.map_or(usual, NonZeroUsize::get)
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    /// NVIDIA cards where there are any, else the CPU, which is said.
    Auto,
    /// The processor.
    Cpu,
    /// All NVIDIA cards.
    Cuda,
}

fn main() -> ExitCode {
    let rng = &mut OsRng;
    let done = match Arguments::parse().command {
        Command::WindowPost(options) => window_post::statement(options.partitions(3), rng)
            .and_then(|statement| run(statement, &options)),
        Command::WinningPost(options) => winning_post::statement(options.partitions(1), rng)
            .and_then(|statement| run(statement, &options)),
        Command::Porep(options) => porep::statement(options.partitions(4), rng)
            .and_then(|statement| run(statement, &options)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("filecoin: {error:#}");
            let code = error.downcast_ref::<forebay::Error>().map(forebay::Error::exit_code);
            ExitCode::from(code.unwrap_or(3))
        }
    }
}

/// Proves a statement and prints what it took; whether bellperson accepts the proofs.
fn run<C>(statement: Statement<C>, options: &Options) -> Result<bool>
where
    C: Circuit<Scalar> + Send + 'static,
{
    let Statement { label, params, blank, circuits, verifier } = statement;
    let record = options.svg.is_some();
    let engine = Engine::new(
        devices(options, record)?,
        forebay::engine::Options { record, ..Default::default() },
    )?;

    let path = options.params.join(&params);
    let (was_there, start) = (path.exists(), Instant::now());
    key::make(&options.params, &params, blank)?;
    println!("{}", path.display());
    let file_bytes = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
    match was_there {
        true => println!("  key of {file_bytes} bytes, made before"),
        false => println!("  key of {file_bytes} bytes, made in {:.2?}", start.elapsed()),
    }
    let start = Instant::now();
    let key = key::load(&path)?;
    println!("  loaded in {:.2?}, domain 2^{}", start.elapsed(), key.proving.log_n);

    let start = Instant::now();
    let done = prove::prove(&engine, label, &key.proving, circuits)?;
    let wall = start.elapsed();
    for (k, done) in done.iter().enumerate() {
        let prove::Done { rows, synthesis, proved } = done;
        println!("{label}, partition {k}: {rows} rows, synthesised in {synthesis:.2?}");
        println!("  proved in {:.2?} on {} ({})", proved.elapsed, proved.backend, proved.device);
        println!("  plan: {}", proved.plan);
        println!("  high water: {} of {} bytes planned", proved.used_bytes, proved.planned_bytes);
    }
    println!("all proofs in {wall:.2?}, synthesis and checks included");
    for usage in engine.usage() {
        let (used, of) = (bytes::text(usage.high_water), bytes::text(usage.capacity));
        println!("{}: {used} of {of} leased at most", usage.name);
    }
    if let (Some(path), Some(timeline)) = (&options.svg, engine.timeline()) {
        std::fs::write(path, timeline.to_svg()).with_context(|| path.display().to_string())?;
        println!("{}: written", path.display());
    }

    let proofs = done.iter().map(prove::Done::proof).collect::<Result<_>>()?;
    let start = Instant::now();
    let accepted = verifier.accepts(proofs, &key.verifying)?;
    let verdict = if accepted { "accepted" } else { "REFUSED" };
    println!("{verdict} by bellperson as one multi-proof, in {:.2?}", start.elapsed());
    Ok(accepted)
}

/// The devices that were asked for.
fn devices(options: &Options, record: bool) -> forebay::Result<Devices> {
    let cpu = || {
        let capacity = options.vram.unwrap_or_else(Cpu::host_bytes);
        let mut devices = Devices::new();
        devices.add(move || Ok(Cpu::with_capacity(capacity)))?;
        Ok(devices)
    };
    let cards = || {
        let options = cuda::Options { vram: options.vram, record };
        let mut devices = Devices::new();
        devices.add_cards(options)?;
        Ok(devices)
    };
    match options.backend {
        Backend::Cpu => cpu(),
        Backend::Cuda => cards(),
        Backend::Auto => cards().or_else(|error: forebay::Error| {
            eprintln!("{error}; computing on the CPU");
            cpu()
        }),
    }
}
