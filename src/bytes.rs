//! Sizes in bytes as people write them: `16GiB`, `512MiB`, `0.5GiB`, `4096B`, `4096`.

use crate::{Error, Result};

/// The units, largest first, with the power of two that each stands for.
const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
/// The most digits before and after the point; 2^64 bytes and any fraction worth typing have fewer.
const MAX_DIGITS: usize = 18;

/// Reads a size: digits, perhaps a fraction, then B, KiB, MiB, GiB, TiB or nothing for
/// bytes. No sign, no space, no other spelling, and the whole must be a whole number of bytes.
///
/// # Errors
/// [`Error::Usage`] that says what is wrong.
pub fn parse(text: &str) -> Result<u64> {
    let wrong = |why: &str| {
        Error::Usage(format!("{text:?} is no size in bytes: {why} (say 16GiB, 512MiB or 4096)"))
    };
    let (number, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| {
        if part.is_empty() || part.len() > MAX_DIGITS || !part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong("not a plain decimal number with a unit of B, KiB, MiB, GiB or TiB"));
        }
        part.parse::<u128>().map_err(|_| wrong("not a number"))
    };
    let scale = 10u128.pow(fraction.len().min(MAX_DIGITS) as u32);
    // Below 10^36 + 10^18, so far below 2^128; the unit may be too much.
    let scaled = digits(whole)? * scale + digits(fraction)?;
    let scaled = scaled.checked_mul(1 << shift).ok_or_else(|| wrong("more than 2^64 bytes"))?;
    if !scaled.is_multiple_of(scale) {
        return Err(wrong("not a whole number of bytes"));
    }
    u64::try_from(scaled / scale).map_err(|_| wrong("more than 2^64 bytes"))
}

/// A size for people: two digits after the point, in the largest unit that is not below one.
pub fn text(bytes: u64) -> String {
    for (unit, shift) in UNITS {
        if shift > 0 && bytes >> shift > 0 {
            return format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_strictly() {
        let good = [
            ("16GiB", 16 << 30),
            ("0.5GiB", 1 << 29),
            ("13.75GiB", 55 << 28),
            ("4096", 4096),
            ("7B", 7),
            ("1TiB", 1 << 40),
            ("0", 0),
        ];
        for (text, bytes) in good {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
        let bad = [
            "",
            "GiB",
            "16 GiB",
            "16GB",
            "16gib",
            "-1",
            "+1",
            "1e9",
            "0x10",
            "1.GiB",
            ".5GiB",
            "1.5B",
            "4.17GiB",
            "1_000",
            " 1",
            "1 ",
            "16777216TiB",
            "999999999999999999.5TiB",
            "99999999999999999999",
            "1.5.5GiB",
            "16GiBB",
            "٣",
        ];
        for text in bad {
            let error = parse(text).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{text}");
        }
    }

    #[test]
    fn sizes_are_written_in_their_own_unit() {
        assert_eq!(text(16 << 30), "16.00 GiB");
        assert_eq!(text((1 << 30) - 1), "1024.00 MiB");
        assert_eq!(text(1023), "1023 B");
    }
}
