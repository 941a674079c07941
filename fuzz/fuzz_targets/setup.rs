//! Development keys: one that is made from a constraint system must be read, every point of it checked.
#![no_main]

use forebay::backend::cpu::Cpu;
use forebay::field::Fr;
use forebay::format::Silent;
use forebay::format::r1cs::R1cs;
use forebay::format::zkey::{self, Zkey};
use forebay::setup::{Options, Secrets, write_zkey};
use libfuzzer_sys::fuzz_target;

/// Larger systems take longer and show no more.
const SMALL: u32 = 32;

fuzz_target!(|data: &[u8]| {
    let Ok(r1cs) = R1cs::read(data) else { return };
    let header = r1cs.header;
    if header.wires > SMALL || header.constraints > SMALL {
        return;
    }
    let [tau, alpha, beta, delta] = [3, 5, 7, 11].map(Fr::from);
    let secrets = Secrets { tau, alpha, beta, delta };
    let mut key = Vec::new();
    if write_zkey(&Cpu::open(), &r1cs, &secrets, Options::default(), &Silent, &mut key).is_err() {
        return;
    }
    let zkey = Zkey::open(&key[..]).expect("a new key is opened");
    assert_eq!((zkey.header.variables, zkey.header.public), (header.wires, header.public()));
    zkey.read(zkey::Options { check_points: true, scratch: None, progress: &Silent })
        .expect("a new key is read");
});
