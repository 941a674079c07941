//! arkworks' verifying keys and proofs: a file that is read is the only one of its key or proof in its form.
#![no_main]

use forebay::format::Kind;
use forebay::format::arkworks::{Form, read_proof, read_vk, write_proof, write_vk};
use forebay::format::json::{read_verifying_key, write_verifying_key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The flag of a file's first point.
    let compressed = data.first().is_some_and(|byte| byte & 0x80 != 0);
    let form = if compressed { Form::Compressed } else { Form::Uncompressed };
    if let Ok(vk) = read_vk(data) {
        assert_eq!(Kind::of(data).ok(), Some(Kind::ArkworksVk));
        assert_eq!(write_vk(&vk, form), data);
        let text = write_verifying_key(&vk);
        assert_eq!(read_verifying_key(&text).expect("an exported key is read"), vk);
    }
    if let Ok(proof) = read_proof(data) {
        let kind = if compressed { Kind::Proofs } else { Kind::ArkworksProof };
        assert_eq!(Kind::of(data).ok(), Some(kind));
        assert_eq!(write_proof(&proof, form), data);
    }
});
