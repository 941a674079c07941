//! Loads a key and a witness, proves, verifies, and prints the proof: `cargo run --release --example prove`.

use std::path::Path;

use forebay::backend::cpu::Cpu;
use forebay::format::{Silent, json, wtns};
use forebay::groth16::{Blinding, prove};
use forebay::key::{Check, load_key};
use forebay::proof::verify;
use forebay::witness::Assignment;

fn main() -> forebay::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/circom/perm");
    let key = load_key(&folder.join("perm.zkey"), &Check::Always, &Silent)?.key;
    let values = wtns::read_file(&folder.join("perm.wtns"))?;
    let assignment = Assignment::from_witness(&values);

    let proof = prove(&Cpu::open(), &key, &assignment, &Blinding::random()?, &Silent)?;

    // `prove` has done this already; here is how anyone does it.
    assert!(verify(&key.vk, &values[1..key.inputs], &proof)?);
    println!("{}", String::from_utf8_lossy(&json::write_proof(&proof)));
    Ok(())
}
