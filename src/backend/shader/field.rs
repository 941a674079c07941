//! A prime field in WGSL, but for its multiplication: what all cores share.

use std::fmt::Write;

use num_bigint::BigUint;

use crate::field::{Field, Fp, Fr};

/// The field of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Prime {
    /// Scalars: 8 words.
    Fr,
    /// Coordinates: 12 words.
    Fp,
}

impl Prime {
    /// Words of 32 bits of an element.
    pub fn words(self) -> usize {
        match self {
            Self::Fr => Fr::BYTES / 4,
            Self::Fp => Fp::BYTES / 4,
        }
    }

    /// The modulus.
    pub(super) fn modulus(self) -> BigUint {
        match self {
            Self::Fr => integer(&Fr::MODULUS),
            Self::Fp => integer(&Fp::MODULUS),
        }
    }

    /// 1 in Montgomery form.
    fn one(self) -> BigUint {
        match self {
            Self::Fr => integer(&Fr::ONE.0),
            Self::Fp => integer(&Fp::ONE.0),
        }
    }
}

fn integer(limbs: &[u64]) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64u32) + *limb)
}

/// The `count` lowest limbs of `bits` bits of `value`.
pub(super) fn limbs(value: &BigUint, bits: usize, count: usize) -> Vec<u32> {
    let mask = (BigUint::from(1u8) << bits) - 1u8;
    let limb = |i: usize| (value >> (bits * i)) & &mask;
    (0..count).map(|i| u32::try_from(limb(i)).expect("at most 32 bits")).collect()
}

/// A comma-separated list of `count` terms.
pub(super) fn list(count: usize, term: impl Fn(usize) -> String) -> String {
    (0..count).map(term).collect::<Vec<_>>().join(", ")
}

/// Constants, and everything that needs no product, word by word.
///
/// Both moduli leave the top bit of their words clear, so that the sum of two elements fits.
pub(super) fn text(prime: Prime) -> String {
    let words = prime.words();
    let constant = |value: &BigUint| {
        let value = limbs(value, 32, words);
        move |i: usize| format!("{:#x}u", value[i])
    };
    let modulus = constant(&prime.modulus());
    let masked = |mask: &'static str| {
        let modulus = &modulus;
        move |i: usize| format!("({} & {mask})", modulus(i))
    };
    let (x, y) = (|i: usize| format!("x[{i}]"), |i: usize| format!("y[{i}]"));
    let element = |term: &dyn Fn(usize) -> String| format!("Element({})", list(words, term));
    let last = words - 1;
    let halved = |i: usize| match i {
        _ if i == last => format!("s{i} >> 1u"),
        _ => format!("(s{i} >> 1u) | (s{} << 31u)", i + 1),
    };
    let any: Vec<_> = (0..words).map(x).collect();
    let mut text = format!("const WORDS: u32 = {words}u;\nalias Element = array<u32, {words}>;\n");
    let mut function = |signature: &str, body: &str, result: &str| {
        writeln!(text, "fn {signature} {{\n{body}    return {result};\n}}").expect("a string");
    };
    function("f_zero() -> Element", "", &element(&|_| "0u".into()));
    function("f_one() -> Element", "", &element(&constant(&prime.one())));
    // The integer 1: a product with it is the canonical form.
    function("f_unit() -> Element", "", &element(&constant(&BigUint::from(1u8))));
    function("f_is_zero(x: Element) -> bool", "", &format!("({}) == 0u", any.join(" | ")));
    // From below 2m.
    function(
        "f_reduce(x: Element) -> Element",
        &(difference(words, x, &modulus) + &format!("    let below = borrow{last} != 0u;\n")),
        &element(&|i| format!("select(d{i}, x[{i}], below)")),
    );
    function(
        "f_add(x: Element, y: Element) -> Element",
        &sum(words, x, y),
        &format!("f_reduce({})", element(&|i| format!("s{i}"))),
    );
    function(
        "f_sub(x: Element, y: Element) -> Element",
        &(difference(words, x, y)
            + &format!("    let wrap = 0u - borrow{last};\n")
            + &sum(words, |i| format!("d{i}"), masked("wrap"))),
        &element(&|i| format!("s{i}")),
    );
    // x or x + m is even.
    function(
        "f_half(x: Element) -> Element",
        &(String::from("    let odd = 0u - (x[0] & 1u);\n") + &sum(words, x, masked("odd"))),
        &element(&halved),
    );
    text
}

/// Lines that add y to x: words `s0`, `s1`, ... of the sum, whose last carry is dropped.
fn sum(words: usize, x: impl Fn(usize) -> String, y: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0..words {
        let (x, y) = (x(i), y(i));
        let lines = match i.checked_sub(1) {
            None => format!("    let s0 = {x} + {y};\n    let carry0 = u32(s0 < {x});\n"),
            Some(before) => format!(
                "    let t{i} = {x} + {y};\n    let s{i} = t{i} + carry{before};\n    \
                 let carry{i} = u32(t{i} < {x}) | u32(s{i} < t{i});\n"
            ),
        };
        text += &lines;
    }
    text
}

/// Lines that take y from x: words `d0`, `d1`, ... of the difference, and `borrow0`, `borrow1`, ... behind each.
fn difference(words: usize, x: impl Fn(usize) -> String, y: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0..words {
        let (x, y) = (x(i), y(i));
        let lines = match i.checked_sub(1) {
            None => format!("    let d0 = {x} - {y};\n    let borrow0 = u32({x} < {y});\n"),
            Some(before) => format!(
                "    let u{i} = {x} - {y};\n    let d{i} = u{i} - borrow{before};\n    \
                 let borrow{i} = u32({x} < {y}) | u32(u{i} < borrow{before});\n"
            ),
        };
        text += &lines;
    }
    text
}
