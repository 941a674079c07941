//! Development keys: `cargo bench --bench setup -- BACKEND LOG_N FOLDER`, such as `cuda 22 /dev/shm`.
//!
//! Writes the `.r1cs` of 2^LOG_N constraints and the key made from it to FOLDER, where they stay: `forebay setup` can be timed on the
//! same file. The time is that of reading the constraints, computing and writing; the device is opened before.
#![allow(missing_docs, reason = "not a library")]

#[path = "../tests/common/circuit.rs"]
mod circuit;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use circuit::Circuit;
use forebay::backend::Backend;
use forebay::backend::cpu::Cpu;
use forebay::field::{Field, Fr};
use forebay::format::r1cs::R1cs;
use forebay::format::{FileSource, Silent};
use forebay::setup::{Secrets, write_zkey};
use forebay::{Error, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let temporary = std::env::temp_dir();
    let (backend, log_n, folder) = match words[..] {
        [backend, log_n, folder] => (backend, log_n, Path::new(folder)),
        _ => ("cpu", "12", temporary.as_path()),
    };
    let path = folder.join(format!("chain-{log_n}.r1cs"));
    let wide = Fr::from(3).inverse();
    let rows = 1usize << log_n.parse::<u32>().expect("LOG_N");
    let r1cs = Circuit::chain(rows, 1, wide, wide).r1cs();
    std::fs::write(&path, r1cs).map_err(Error::io(&path))?;
    match backend {
        #[cfg(feature = "cuda")]
        "cuda" => {
            use forebay::backend::cuda::{Cuda, Options};
            time(&Cuda::open(0, Options::default())?, &path)
        }
        "cpu" => time(&Cpu::open(), &path),
        other => Err(Error::Usage(format!("no backend {other}"))),
    }
}

fn time<B: Backend>(backend: &B, path: &Path) -> Result<()> {
    let key = path.with_extension("zkey");
    let secrets = Secrets::random()?;
    // The second key finds pages and files where the first has left them.
    for _ in 0..2 {
        let started = Instant::now();
        let source = FileSource::open(path)?;
        let r1cs = R1cs::read(&source)?;
        let mut out = BufWriter::new(File::create(&key).map_err(Error::io(&key))?);
        write_zkey(backend, &r1cs, &secrets, Default::default(), &Silent, &mut out)?;
        out.into_inner().map_err(|error| Error::io(&key)(error.into_error()))?;
        let bytes = std::fs::metadata(&key).map_err(Error::io(&key))?.len();
        println!(
            "{}: {} constraints, {bytes} bytes of key in {:.2?}",
            backend.info().name,
            r1cs.header.constraints,
            started.elapsed()
        );
    }
    Ok(())
}
