//! `.wtns`: values that are read must be those that stand in the file, and read the same from the plainest file.
#![no_main]

use forebay::field::Fr;
use forebay::format::Kind;
use forebay::format::wtns::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(values) = read(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::Wtns));
    assert!(values.len() * Fr::BYTES < data.len(), "more values than bytes");
    assert_eq!(*read(&plain(&values)[..]).expect("a plain file is read"), *values);
});

/// The file that snarkjs would write: version 2 and two sections in order.
fn plain(values: &[Fr]) -> Vec<u8> {
    let mut out = b"wtns\x02\0\0\0\x02\0\0\0".to_vec();
    let mut section = |id: u32, body: &[u8]| {
        out.extend(id.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
    };
    let mut header = 32u32.to_le_bytes().to_vec();
    header.extend(Fr::MODULUS.iter().flat_map(|limb| limb.to_le_bytes()));
    header.extend((values.len() as u32).to_le_bytes());
    section(1, &header);
    section(2, &values.iter().flat_map(Fr::to_le_bytes).collect::<Vec<_>>());
    out
}
