//! Telling the formats apart: a magic is enough, and whatever else is there, an answer or an error is. That each
//! reader's files are told to be its own is a property of that reader's target.
#![no_main]

use forebay::format::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let kind = Kind::of(data);
    for (magic, expected) in [(b"zkey", Kind::Zkey), (b"wtns", Kind::Wtns), (b"r1cs", Kind::R1cs)] {
        if data.starts_with(magic) {
            assert_eq!(kind.as_ref().ok(), Some(&expected));
        }
    }
});
