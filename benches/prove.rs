//! A proof from the files, end to end: `cargo bench --bench prove [-- LOG_N]`, by default 18.
//!
//! A chain of 2^log_n constraints gets a development key in a temporary file. Then fresh processes, whose peak memory
//! is their own, load it with its points checked, load it again (the file is remembered by digest), and load
//! and prove. Each prints its time and peak beside the bytes that it must hold.
#![allow(missing_docs, reason = "not a library")]

#[path = "../tests/common/circuit.rs"]
mod circuit;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use forebay::backend::{Backend, cpu::Cpu};
use forebay::field::{Field, Fr};
use forebay::format::{Silent, r1cs::R1cs, wtns};
use forebay::groth16::{Blinding, prove};
use forebay::key::{Check, CheckedKeys, load_key};
use forebay::setup::{Secrets, write_zkey};
use forebay::witness::Assignment;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", folder, what] => child(Path::new(folder), what),
        [log_n] => parent(log_n.parse().expect("log_n")),
        _ => parent(18),
    }
}

fn parent(log_n: u32) {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let file = |name: &str| folder.path().join(name);
    let wide = Fr::from(3).inverse();
    // With one public signal and the constant 1 the rows fill the domain.
    let circuit = circuit::Circuit::chain((1 << log_n) - 2, 1, wide, wide);
    let started = Instant::now();
    let bytes = circuit.r1cs();
    let mut zkey =
        std::io::BufWriter::new(std::fs::File::create(file("key.zkey")).expect("a file"));
    let r1cs = R1cs::read(&bytes[..]).expect("our own file");
    write_zkey(
        &Cpu::open(),
        &r1cs,
        &Secrets::random().expect("secrets"),
        Default::default(),
        &Silent,
        &mut zkey,
    )
    .expect("setup");
    zkey.flush().expect("the key");
    std::fs::write(file("witness.wtns"), circuit.wtns()).expect("the witness");
    let size = std::fs::metadata(file("key.zkey")).expect("the key").len();
    println!(
        "2^{log_n} constraints, key of {:.1} MB made in {:.2?}",
        size as f64 / 1e6,
        started.elapsed()
    );
    println!("{:24} {:>9} {:>14} {:>14}", "", "seconds", "peak MB", "must hold MB");
    for what in ["load, points checked", "load, known by digest", "load and prove"] {
        let me = std::env::current_exe().expect("this program");
        let done =
            Command::new(me).args(["child", &folder.path().display().to_string(), what]).status();
        assert!(done.expect("a child").success());
    }
}

fn child(folder: &Path, what: &str) {
    let before = peak_bytes();
    let started = Instant::now();
    let check = Check::Once(CheckedKeys::in_folder(folder.join("checked")));
    let loaded = load_key(&folder.join("key.zkey"), &check, &Silent).expect("the key");
    let mut must_hold = loaded.key.bytes();
    if what == "load and prove" {
        let values = wtns::read_file(&folder.join("witness.wtns")).expect("the witness");
        let assignment = Assignment::from_witness(&values);
        let cpu = Cpu::open();
        let blinding = Blinding::random().expect("random numbers");
        prove(&cpu, &loaded.key, &assignment, &blinding, &Silent).expect("a proof");
        // The working set counts those parts of the key that a stage uses, which are held already.
        must_hold += cpu.budget().high_water();
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let peak = peak_bytes().saturating_sub(before);
    println!(
        "{what:24} {:>9.2} {:>14.1} {:>14.1}",
        started.elapsed().as_secs_f64(),
        mb(peak),
        mb(must_hold)
    );
}

/// The process's peak resident memory, where the system tells (Linux).
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
