//! `verification_key.json`: a key that is read survives being written, and is written with the digits it had.
#![no_main]

use forebay::format::json::{read_verifying_key, write_verifying_key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(vk) = read_verifying_key(data) else { return };
    assert_eq!(vk.public_inputs() + 1, vk.ic.len());
    let text = write_verifying_key(&vk);
    assert_eq!(read_verifying_key(&text).expect("a written key is read"), vk);
    // The pairing, between the points and IC, is written even where it was left out.
    let find = |name: &[u8]| text.windows(name.len()).position(|window| window == name);
    let (Some(pairing), Some(ic)) = (find(b"\"vk_alphabeta_12\""), find(b"\"IC\"")) else {
        panic!("a written key lacks a field");
    };
    forebay_fuzz::assert_same_numbers(&text[..pairing], data);
    forebay_fuzz::assert_same_numbers(&text[ic..], data);
});
