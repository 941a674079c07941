//! Synthesis and keys of the PoRep's circuit, beside bellperson's in the same run. Each figure wants a process of its own, since memory
//! that was once used stays with a process:
//!
//!     cargo run --release --bin measure -- synthesis forebay|bellperson
//!     cargo run --release --bin measure -- load forebay|bellperson-checked|bellperson-mapped
//!     cargo run --release --bin measure -- first-proof forebay|bellperson [--cpu]

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bellperson::groth16::{ParameterSource, Parameters, create_random_proof};
use blstrs::Bls12;
use clap::{Parser, Subcommand, ValueEnum};
use filecoin::{key, porep, prove, window_post};
use forebay::bellpepper02::record;
use forebay::engine::{Devices, Engine, Options};
use forebay::format::Silent;
use forebay::format::fbkey::{self, Facts};
use forebay::key::{Check, Checked, CheckedKeys, load_key};
use rand::rngs::OsRng;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Where keys are kept; the PoRep's is made if it is not there.
    #[arg(long, global = true, default_value = "target/params")]
    params: PathBuf,
}

#[derive(Subcommand)]
enum What {
    /// One partition: seconds, and the most memory beyond the key.
    Synthesis { prover: Prover },
    /// The key's file, whole: seconds.
    Load { reader: Reader },
    /// From the key's file to a proof, and to another one, points unchecked by bellperson: seconds.
    FirstProof {
        prover: Prover,
        /// The processor, also where there are NVIDIA cards, which bellperson does not use here.
        #[arg(long)]
        cpu: bool,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Prover {
    Forebay,
    Bellperson,
}

#[derive(Clone, Copy, ValueEnum)]
enum Reader {
    /// `.fbkey`, whose points were checked when it was made and whose digests are compared now.
    Forebay,
    /// `Parameters::read`, every point checked.
    BellpersonChecked,
    /// `MappedParameters`, no point checked, and all points decoded as the first proof does.
    BellpersonMapped,
}

fn main() -> Result<()> {
    let Arguments { what, params } = Arguments::parse();
    let statement = porep::statement(2, &mut OsRng)?;
    let path = key::make(&params, &statement.params, statement.blank)?;
    let mut circuits = statement.circuits;
    let other = circuits.pop().context("two partitions")?;
    let circuit = circuits.pop().context("two partitions")?;
    match what {
        What::Synthesis { prover: Prover::Forebay } => {
            let before = memory("VmRSS")?;
            reset_peak()?;
            let start = Instant::now();
            let assignment = record(circuit)?;
            let (elapsed, peak) = (start.elapsed(), memory("VmHWM")?);
            let rows = assignment.rows.as_ref().map_or(0, |rows| rows.a.len());
            synthesised("forebay", rows, elapsed, peak - before);
            println!("  {} bytes wait for the device", assignment.bytes());
        }
        What::Synthesis { prover: Prover::Bellperson } => {
            let key = Parameters::<Bls12>::read(BufReader::new(open(&path)?), false)?;
            log::set_logger(&Log).map_err(|error| anyhow::anyhow!("{error}"))?;
            log::set_max_level(log::LevelFilter::Info);
            let before = memory("VmRSS")?;
            reset_peak()?;
            START.get_or_init(Instant::now);
            create_random_proof(circuit, &key, &mut OsRng)?;
            let (elapsed, peak) = *SYNTHESISED.get().context("bellperson says when it is done")?;
            synthesised("bellperson", porep::ROWS, elapsed, peak - before);
            println!("  {} MiB in the whole proof", (memory("VmHWM")? - before) >> 20);
        }
        What::Load { reader } => {
            let converted = converted(&path, &params)?;
            cache(&path)?;
            cache(&converted)?;
            let start = Instant::now();
            let points = match reader {
                Reader::Forebay => {
                    let known = CheckedKeys::in_folder(params.join("checked"));
                    load_key(&converted, &Check::Once(known), &Silent)?.key.h.len()
                }
                Reader::BellpersonChecked => {
                    Parameters::<Bls12>::read(BufReader::new(open(&path)?), true)?.h.len()
                }
                Reader::BellpersonMapped => {
                    let mapped = Parameters::<Bls12>::build_mapped_parameters(path, false)?;
                    let key = &mapped;
                    key.get_l(0)?;
                    key.get_a(0, 0)?;
                    key.get_b_g1(0, 0)?;
                    key.get_b_g2(0, 0)?;
                    key.get_h(0)?.0.len()
                }
            };
            println!("{points} points of H and all others: {:.3?}", start.elapsed());
        }
        What::FirstProof { prover: Prover::Forebay, cpu } => {
            let converted = converted(&path, &params)?;
            cache(&converted)?;
            let devices = if cpu { Devices::cpu() } else { Devices::fastest()? };
            let engine = Engine::new(devices, Options::default())?;
            // The device warms up on a small key.
            let small = window_post::statement(1, &mut OsRng)?;
            let small_key = key::load(&key::make(&params, &small.params, small.blank)?)?;
            prove::prove(&engine, "warm-up", &small_key.proving, small.circuits)?;
            let start = Instant::now();
            let known = CheckedKeys::in_folder(params.join("checked"));
            let key = Arc::new(load_key(&converted, &Check::Once(known), &Silent)?.key);
            let loaded = start.elapsed();
            let first = prove::prove(&engine, "first", &key, vec![circuit])?;
            let device = first.first().context("a proof")?.proved.backend;
            let until_first = start.elapsed();
            prove::prove(&engine, "second", &key, vec![other])?;
            proved(&format!("forebay, {device}"), [loaded, until_first, start.elapsed()]);
        }
        What::FirstProof { prover: Prover::Bellperson, .. } => {
            cache(&path)?;
            let start = Instant::now();
            let key = Parameters::<Bls12>::build_mapped_parameters(path, false)?;
            let loaded = start.elapsed();
            create_random_proof(circuit, &key, &mut OsRng)?;
            let until_first = start.elapsed();
            create_random_proof(other, &key, &mut OsRng)?;
            proved("bellperson, cpu", [loaded, until_first, start.elapsed()]);
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| path.display().to_string())
}

/// Reads a file, so that it is in the system's cache: whoever reads one for the first time waits for the disk, and here nobody does.
fn cache(path: &Path) -> Result<u64> {
    Ok(std::io::copy(&mut open(path)?, &mut std::io::sink())?)
}

/// The key as a `.fbkey` beside it, made if it is not there.
fn converted(path: &Path, params: &Path) -> Result<PathBuf> {
    let converted = path.with_extension("fbkey");
    if !converted.exists() {
        let known = CheckedKeys::in_folder(params.join("checked"));
        let loaded = load_key(path, &Check::Once(known), &Silent)?;
        let facts =
            Facts { points_checked: loaded.checked != Checked::Skipped, contributions: None };
        let mut file = tempfile::NamedTempFile::new_in(params)?;
        let mut out = BufWriter::new(file.as_file_mut());
        fbkey::write(&loaded.key, facts, &Silent, &mut out)?;
        out.flush()?;
        drop(out);
        file.persist(&converted)?;
    }
    Ok(converted)
}

fn synthesised(who: &str, rows: usize, elapsed: Duration, bytes: u64) {
    let each = elapsed.as_nanos() as f64 / rows as f64;
    println!("{who}: {rows} rows synthesised in {elapsed:.2?}, {each:.0} ns a row");
    println!("  {} MiB at most, beyond what was there before", bytes >> 20);
}

/// Until the key was loaded, and until either proof was there.
fn proved(who: &str, [loaded, first, second]: [Duration; 3]) {
    let next = second - first;
    println!(
        "{who}: key loaded in {loaded:.2?}, first proof after {first:.2?}, the next in {next:.2?}"
    );
}

/// A line of /proc/self/status, in bytes.
fn memory(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let of = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
    let kib = of.and_then(|text| text.trim().strip_suffix(" kB")).context("VmRSS of Linux")?;
    Ok(kib.trim().parse::<u64>()? << 10)
}

/// Forgets the most memory that was in use (proc(5), clear_refs).
fn reset_peak() -> Result<()> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

/// When bellperson was called, and what had happened when it said that synthesis was done.
static START: OnceLock<Instant> = OnceLock::new();
static SYNTHESISED: OnceLock<(Duration, u64)> = OnceLock::new();

struct Log;

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.args().to_string().starts_with("synthesis time")
            && let (Some(start), Ok(peak)) = (START.get(), memory("VmHWM"))
        {
            SYNTHESISED.get_or_init(|| (start.elapsed(), peak));
        }
    }

    fn flush(&self) {}
}
