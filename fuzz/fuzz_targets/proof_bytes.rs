//! Proofs of 192 bytes each: bytes that are read are the only ones of their proofs.
#![no_main]

use forebay::format::Kind;
use forebay::format::json::{read_proof, write_proof};
use forebay::proof::Proof;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(proofs) = Proof::many_from_bytes(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::Proofs));
    assert_eq!(proofs.iter().flat_map(Proof::to_bytes).collect::<Vec<_>>(), data);
    for proof in proofs {
        assert_eq!(read_proof(&write_proof(&proof)).expect("a written proof is read"), proof);
    }
});
