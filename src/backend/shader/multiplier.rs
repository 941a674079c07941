//! Montgomery multiplication in WGSL, for each [`Core`].
//!
//! Every core takes and gives the host's form, R = 2^(32 WORDS). One that works on n limbs of w bits divides by
//! 2^(w n); so it takes one of the factors times 2^(w n - 32 WORDS), a shift while its limbs are unpacked, and no value
//! ever changes its form.

use std::fmt::Write;

use num_bigint::BigUint;

use super::Core;
use super::field::{Prime, limbs, list};

/// `f_mul` of a module.
pub(super) fn text(core: Core, prime: Prime) -> String {
    match (core, prime) {
        (Core::Wide, Prime::Fr) => columns(prime, "u64", "lu", 29, 9),
        (Core::Wide, Prime::Fp) => columns(prime, "u64", "lu", 28, 14),
        (Core::Narrow, Prime::Fr) => columns(prime, "u32", "u", 13, 20),
        (Core::Narrow, Prime::Fp) => columns(prime, "u32", "u", 13, 30),
        (Core::Halves, _) => halves(prime),
    }
}

/// -1/m mod 2^bits, by Newton's iteration: an odd m is its own inverse mod 8, and each step doubles the bits.
fn negative_inverse(modulus: &BigUint, bits: usize) -> u32 {
    let low = limbs(modulus, 32, 1)[0];
    let inverse = (0..4).fold(low, |x, _| x.wrapping_mul(2u32.wrapping_sub(low.wrapping_mul(x))));
    inverse.wrapping_neg() & (u32::MAX >> (32 - bits))
}

/// Limb `i` of `bits` bits of `name` times 2^shift, from its words.
fn limb(name: &str, words: usize, bits: usize, shift: usize, i: usize) -> String {
    let mask = (1u32 << bits) - 1;
    let Some(start) = (bits * i).checked_sub(shift) else {
        return format!("({name}[0] << {}u) & {mask:#x}u", shift - bits * i);
    };
    let (word, offset) = (start / 32, start % 32);
    if word >= words {
        return "0u".into();
    }
    let low = format!("({name}[{word}] >> {offset}u)");
    if offset + bits > 32 && word + 1 < words {
        format!("({low} | ({name}[{}] << {}u)) & {mask:#x}u", word + 1, 32 - offset)
    } else {
        format!("{low} & {mask:#x}u")
    }
}

/// Word `k` from limbs `name0`, `name1`, ... of `bits` bits.
fn word(name: &str, count: usize, bits: usize, k: usize) -> String {
    let (start, end) = (32 * k, 32 * (k + 1));
    let overlapping = (0..count).filter(|i| bits * i < end && bits * (i + 1) > start);
    let terms = overlapping.map(|i| match (bits * i).checked_sub(start) {
        Some(up) => format!("({name}{i} << {up}u)"),
        None => format!("({name}{i} >> {}u)", start - bits * i),
    });
    terms.collect::<Vec<_>>().join(" | ")
}

/// The product in columns of type `column`, without carries but for the one out of each column that becomes 0, in straight
/// lines. A column is the sum of at most 2n products below 2^(2w), and of a carry:
/// 18 2^58 < 2^63, 28 2^56 < 2^61, and 60 (2^13 - 1)^2 + 2^19 < 2^32.
fn columns(prime: Prime, column: &str, suffix: &str, bits: usize, count: usize) -> String {
    let words = prime.words();
    let shift = bits * count - 32 * words;
    let modulus = limbs(&prime.modulus(), bits, count);
    let inverse = negative_inverse(&prime.modulus(), bits);
    let mask = (1u32 << bits) - 1;
    let mut text = String::from("fn f_mul(x: Element, y: Element) -> Element {\n");
    let mut line = |line: String| writeln!(text, "    {line}").expect("a string");
    for i in 0..count {
        line(format!("let a{i} = {column}({});", limb("x", words, bits, 0, i)));
        line(format!("let b{i} = {column}({});", limb("y", words, bits, shift, i)));
    }
    // Column k of x y + q m, which the q make 0 below n.
    for i in 0..count {
        for j in 0..count {
            let k = i + j;
            // The columns that this row is the first to reach.
            let first = i == 0 || j + 1 == count;
            line(match first {
                true => format!("var c{k} = a{i} * b{j};"),
                false => format!("c{k} += a{i} * b{j};"),
            });
        }
        line(format!("let q{i} = {column}((u32(c{i}) * {inverse:#x}u) & {mask:#x}u);"));
        for (j, limb) in modulus.iter().enumerate() {
            line(format!("c{} += q{i} * {limb:#x}{suffix};", i + j));
        }
        line(format!("c{} += c{i} >> {bits}u;", i + 1));
    }
    // Limbs of a value below 2m: x y 2^shift / 2^(w n) + m, and x y < m R.
    for i in 0..count - 1 {
        let k = count + i;
        line(format!("let l{i} = u32(c{k}) & {mask:#x}u;"));
        if i + 2 < count {
            line(format!("c{} += c{k} >> {bits}u;", k + 1));
        } else {
            line(format!("let l{} = u32(c{k} >> {bits}u);", i + 1));
        }
    }
    for (i, limb) in modulus.iter().enumerate() {
        match i {
            0 => line(format!("let d0 = l0 - {limb:#x}u;")),
            _ => line(format!("let d{i} = l{i} - {limb:#x}u - (d{} >> 31u);", i - 1)),
        }
    }
    line(format!("let below = (d{} >> 31u) != 0u;", count - 1));
    for i in 0..count {
        line(format!("let r{i} = select(d{i} & {mask:#x}u, l{i}, below);"));
    }
    line(format!("return Element({});", list(words, |k| word("r", count, bits, k))));
    text + "}\n"
}

/// The product by rows, word by word of x, every product of words in four of halves.
///
/// The loop's bound is the number of words, since an element's top bit is clear; but no compiler knows, and so none
/// unrolls it.
fn halves(prime: Prime) -> String {
    let words = prime.words();
    let last = words - 1;
    let modulus = limbs(&prime.modulus(), 32, words);
    let inverse = negative_inverse(&prime.modulus(), 32);
    // a b + c + d < 2^64, low word first.
    let mut text = String::from(
        "fn f_word(a: u32, b: u32, c: u32, d: u32) -> vec2<u32> {
    let a0 = a & 0xffffu;
    let a1 = a >> 16u;
    let b0 = b & 0xffffu;
    let b1 = b >> 16u;
    let lowest = a0 * b0;
    let middle = a0 * b1 + (lowest >> 16u);
    let other = a1 * b0 + (middle & 0xffffu);
    let product = (other << 16u) | (lowest & 0xffffu);
    let once = product + c;
    let twice = once + d;
    let high = a1 * b1 + (middle >> 16u) + (other >> 16u);
    return vec2<u32>(twice, high + u32(once < c) + u32(twice < d));
}
fn f_mul(x: Element, y: Element) -> Element {
",
    );
    let mut line = |line: String| writeln!(text, "    {line}").expect("a string");
    for i in 0..words {
        line(format!("var a{i} = x[{i}];"));
        line(format!("var t{i} = 0u;"));
    }
    line(format!("let turns = {words}u + (x[{last}] >> 31u);"));
    line("for (var i = 0u; i < turns; i++) {".into());
    line("    let p0 = f_word(a0, y[0], t0, 0u);".into());
    for i in 1..words {
        line(format!("    let p{i} = f_word(a0, y[{i}], t{i}, p{}.y);", i - 1));
    }
    line(format!("    let q = p0.x * {inverse:#x}u;"));
    line(format!("    let r0 = f_word(q, {:#x}u, p0.x, 0u);", modulus[0]));
    for (i, limb) in modulus.iter().enumerate().skip(1) {
        let before = i - 1;
        line(format!("    let r{i} = f_word(q, {limb:#x}u, p{i}.x, r{before}.y);"));
        line(format!("    t{before} = r{i}.x;"));
    }
    // t stays below 2m, which fits.
    line(format!("    t{last} = p{last}.y + r{last}.y;"));
    for i in 0..last {
        line(format!("    a{i} = a{};", i + 1));
    }
    line("}".into());
    line(format!("return f_reduce(Element({}));", list(words, |i| format!("t{i}"))));
    text + "}\n"
}

#[cfg(test)]
mod tests {
    use ark_ff::{BigInteger, PrimeField};

    use super::super::harness::Harness;
    use super::super::module;
    use super::*;

    /// Pairs of elements in, for each the results of every function out.
    const KERNEL: &str = "
@group(0) @binding(0) var<storage, read_write> operands: array<Element>;
@group(0) @binding(1) var<storage, read_write> results: array<Element>;
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if 2u * i >= arrayLength(&operands) { return; }
    let x = operands[2u * i];
    let y = operands[2u * i + 1u];
    results[7u * i] = f_mul(x, y);
    results[7u * i + 1u] = f_add(x, y);
    results[7u * i + 2u] = f_sub(x, y);
    results[7u * i + 3u] = f_half(x);
    var flag = f_zero();
    if f_is_zero(x) { flag = f_one(); }
    results[7u * i + 4u] = flag;
    results[7u * i + 5u] = f_mul(x, f_unit());
    results[7u * i + 6u] = f_mul(f_sub(f_zero(), x), y);
}
";

    /// The words of an element in the host's form.
    fn words<P: PrimeField>(x: P) -> Vec<u32> {
        let r = P::from(2u8).pow([P::MODULUS_BIT_SIZE.next_multiple_of(64) as u64]);
        canonical(x * r)
    }

    fn canonical<P: PrimeField>(x: P) -> Vec<u32> {
        let bytes = x.into_bigint().to_bytes_le();
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    fn agrees<P: PrimeField>(prime: Prime) {
        let device = Harness::lavapipe();
        let two = P::from(2u8);
        let half = two.inverse().expect("2 is not 0");
        // Words of all ones, the largest element, and what has only zeros in its words below.
        let top = two.pow([P::MODULUS_BIT_SIZE as u64 - 1]);
        let mut values =
            vec![P::ZERO, P::ONE, -P::ONE, two, half, half - P::ONE, top, top - P::ONE, -top];
        // Others that are as good as random.
        values.extend((0..23).scan(P::from(7u8).inverse().expect("7 is not 0"), |x, _| {
            *x = x.square() + P::ONE;
            Some(*x)
        }));
        let pairs: Vec<_> =
            values.iter().flat_map(|x| values.iter().map(move |y| (*x, *y))).collect();
        let operands: Vec<_> =
            pairs.iter().flat_map(|(x, y)| [words(*x), words(*y)].concat()).collect();
        let want: Vec<_> = pairs
            .iter()
            .map(|(x, y)| {
                let flag = if x.is_zero() { P::ONE } else { P::ZERO };
                let mut want = [*x * y, *x + y, *x - y, *x * half, flag].map(words).to_vec();
                want.extend([canonical(*x), words(-*x * y)]);
                want.concat()
            })
            .collect();
        for core in device.cores() {
            let module = module(core, prime, &[], &[KERNEL]);
            let results = vec![0; want.len() * want[0].len()];
            let groups = pairs.len().div_ceil(32) as u32;
            let got = device.run(&module, groups, &[&operands, &results]);
            for (i, (got, want)) in got[1].chunks(want[0].len()).zip(&want).enumerate() {
                assert_eq!(got, want, "{core:?}: {:?}", pairs[i]);
            }
        }
    }

    #[test]
    #[ignore = "needs a software adapter: -- --include-ignored lavapipe"]
    fn fields_are_right_on_lavapipe() {
        agrees::<ark_bls12_381::Fr>(Prime::Fr);
        agrees::<ark_bls12_381::Fq>(Prime::Fp);
    }

    /// Plain modules need nothing of a device, those of the wide core one thing.
    #[test]
    fn modules_are_valid() {
        for (core, prime) in
            Core::ALL.into_iter().flat_map(|core| [(core, Prime::Fr), (core, Prime::Fp)])
        {
            let module = naga::front::wgsl::parse_str(&module(core, prime, &[], &[KERNEL]))
                .unwrap_or_else(|error| panic!("{core:?} {prime:?}: {error}"));
            let validate = |capabilities| {
                let flags = naga::valid::ValidationFlags::all();
                naga::valid::Validator::new(flags, capabilities).validate(&module).is_ok()
            };
            assert_eq!(validate(naga::valid::Capabilities::empty()), !core.needs_int64());
            assert!(validate(naga::valid::Capabilities::SHADER_INT64), "{core:?} {prime:?}");
        }
    }
}
