//! bellman's `.vk`: a file that is read is the only one of its key.
#![no_main]

use forebay::format::Kind;
use forebay::format::bellman::{read_vk, write_vk};
use forebay::format::json::{read_verifying_key, write_verifying_key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(key) = read_vk(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::BellmanVk));
    assert_eq!(write_vk(&key), data);
    let text = write_verifying_key(&key.vk);
    assert_eq!(read_verifying_key(&text).expect("an exported key is read"), key.vk);
});
