//! Whole proofs through the engine: `cargo bench --bench engine -- BACKEND LOG_N dense|bits [VRAM]`, such as `cuda 20 dense` or
//! `cuda 20 bits 4GiB`.
//!
//! A circuit that fills the domain gets a development key. One job warms up (kernels, the resident key); then single proofs
//! are timed from submission to the verified proof, and a job of twelve partitions as a whole.
#![allow(missing_docs, reason = "not a library")]

#[path = "../tests/common/circuit.rs"]
mod circuit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use circuit::Circuit;
use forebay::backend::cpu::Cpu;
use forebay::engine::{Devices, Engine, Job, Options, Partition, Proved};
use forebay::field::{Field, Fr};
use forebay::format::zkey::{Options as ReadOptions, Zkey};
use forebay::format::{Silent, r1cs::R1cs};
use forebay::key::ProvingKey;
use forebay::setup::{Secrets, write_zkey};
use forebay::witness::Assignment;

fn main() -> forebay::Result<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (backend, log_n, kind, vram) = match words[..] {
        [backend, log_n, kind] => (backend, log_n, kind, None),
        [backend, log_n, kind, vram] => (backend, log_n, kind, Some(forebay::bytes::parse(vram)?)),
        _ => ("cpu", "14", "dense", None),
    };
    let circuit = circuit_of(kind, log_n.parse().expect("LOG_N"));
    let started = Instant::now();
    let (key, assignment) = key_of(&circuit)?;
    println!("{kind} 2^{log_n}: key made in {:.1?}", started.elapsed());

    let started = Instant::now();
    let engine =
        Engine::new(devices(backend, vram)?, Options { record: true, ..Options::default() })?;
    println!("opened in {:.2?}: {}", started.elapsed(), engine.devices()[0].name);
    let prove = |partitions: usize| -> forebay::Result<(Duration, Vec<Proved>)> {
        let partition = || Partition::new(assignment.clone());
        let partitions = (0..partitions).map(|_| partition()).collect::<forebay::Result<_>>()?;
        let started = Instant::now();
        let proved = engine.submit(Job::new(kind, key.clone(), partitions))?.wait()?;
        Ok((started.elapsed(), proved))
    };
    let (first, proved) = prove(1)?;
    println!("plan: {}", proved[0].plan);
    let mut times = (0..7).map(|_| Ok(prove(1)?.0)).collect::<forebay::Result<Vec<_>>>()?;
    times.sort_unstable();
    let (many, _) = prove(12)?;
    println!(
        "{backend} {kind} 2^{log_n}: first {first:.2?}, then {:.2?} ({:.2?}..{:.2?}); twelve in {many:.2?}, {:.2?} each; {:?}",
        times[3],
        times[0],
        times[6],
        many / 12,
        engine.stats()
    );
    if let (Some(folder), Some(timeline)) = (std::env::var_os("OUT"), engine.timeline()) {
        let path =
            std::path::Path::new(&folder).join(format!("engine-{}.svg", arguments.join("-")));
        std::fs::write(&path, timeline.to_svg()).map_err(forebay::Error::io(&path))?;
    }
    Ok(())
}

fn devices(backend: &str, vram: Option<u64>) -> forebay::Result<Devices> {
    let mut devices = Devices::new();
    match backend {
        #[cfg(feature = "cuda")]
        "cuda" => {
            use forebay::backend::cuda::{Cuda, Options};
            devices.add(move || Cuda::open(0, Options { vram, record: true }))?;
        }
        "cpu" => {
            devices.add(move || Ok(Cpu::with_capacity(vram.unwrap_or_else(Cpu::host_bytes))))?
        }
        other => return Err(forebay::Error::Usage(format!("no backend {other}"))),
    }
    Ok(devices)
}

/// Rows that fill a domain of 2^log_n: a chain of wide values, or nine bits to each of its rows.
fn circuit_of(kind: &str, log_n: u32) -> Circuit {
    let (wide, rows) = (Fr::from(3).inverse(), (1usize << log_n) - 2);
    if kind == "dense" {
        return Circuit::chain(rows, 1, wide, wide);
    }
    let mut circuit = Circuit::chain(rows / 10, 1, wide, wide);
    let first = circuit.witness.len() as u32;
    for i in circuit.rows.len()..rows {
        let (wire, bit) = (first + (i - rows / 10) as u32, Fr::from(i as u64 % 2));
        let b = vec![(wire, Fr::ONE)];
        circuit.rows.push([b.clone(), vec![(wire, Fr::ONE), (0, -Fr::ONE)], vec![]]);
        circuit.witness.push(bit);
    }
    circuit
}

fn key_of(circuit: &Circuit) -> forebay::Result<(Arc<ProvingKey>, Arc<Assignment>)> {
    let r1cs = circuit.r1cs();
    let r1cs = R1cs::read(&r1cs[..])?;
    let mut file = Vec::new();
    write_zkey(&Cpu::open(), &r1cs, &Secrets::random()?, Default::default(), &Silent, &mut file)?;
    let options = ReadOptions { check_points: false, scratch: None, progress: &Silent };
    let key = Zkey::open(&file[..])?.read(options)?;
    Ok((Arc::new(key), Arc::new(Assignment::from_witness(&circuit.witness))))
}
