//! `public.json`: each signal that is read is written with the digits it had.
#![no_main]

use forebay::format::json::{read_public, write_public};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(public) = read_public(data) else { return };
    let text = write_public(&public);
    assert_eq!(read_public(&text).expect("written signals are read"), public);
    forebay_fuzz::assert_same_numbers(&text, data);
});
