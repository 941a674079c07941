//! What several targets check.

use std::collections::BTreeSet;

/// That every number of `written` stands in `read` with the same digits: numbers are canonical, so there is no
/// other way to write them. Escapes, which could hide digits, are left alone.
pub fn assert_same_numbers(written: &[u8], read: &[u8]) {
    if read.contains(&b'\\') {
        return;
    }
    let strings = |text: &[u8]| -> BTreeSet<Vec<u8>> {
        text.split(|byte| *byte == b'"').map(<[u8]>::to_vec).collect()
    };
    let is_number = |text: &Vec<u8>| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let known = strings(read);
    for number in strings(written).into_iter().filter(is_number) {
        let digits = String::from_utf8_lossy(&number);
        assert!(known.contains(&number), "{digits:?} is written but was not read");
    }
}
