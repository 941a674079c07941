//! Failing inputs of `forebay compare`: what is read is written and read the same, and can be done.
#![no_main]

use forebay::backend::cpu::Cpu;
use forebay::compare::{Backends, Failing, replay};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let _ = Failing::from_json(data);
    // No fuzzer finds digests: the bytes are the part of a file that is digested.
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return };
    let digest = blake3::hash(input.to_string().as_bytes());
    let file = json!({
        "format": "forebay failing input",
        "version": 1,
        "blake3": digest.to_hex().as_str(),
        "input": input,
    });
    let Ok(failing) = Failing::from_json(file.to_string().as_bytes()) else { return };
    let text = failing.to_json().expect("no larger than it was");
    let again = Failing::from_json(&text).expect("a written input is read");
    assert_eq!(again.to_json(), Some(text));
    let mut backends = Backends::new();
    backends.add(Cpu::open());
    backends.add(Cpu::open());
    replay(&backends, &failing).and_then(|report| report.outcome()).expect("the CPU can do it");
});
