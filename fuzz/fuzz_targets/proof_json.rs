//! `proof.json`: a proof that is read survives both of its encodings, and is written with the digits it had.
#![no_main]

use forebay::format::json::{read_proof, write_proof};
use forebay::proof::Proof;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(proof) = read_proof(data) else { return };
    let text = write_proof(&proof);
    assert_eq!(read_proof(&text).expect("a written proof is read"), proof);
    let bytes = proof.to_bytes();
    assert_eq!(Proof::from_bytes(&bytes).expect("a written proof is read"), proof);
    forebay_fuzz::assert_same_numbers(&text, data);
});
