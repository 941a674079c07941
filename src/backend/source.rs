//! What the CUDA modules are made of: constants generated from [`crate::field`], headers, kernel files. The only code
//! that names files in `cuda/`.

use std::fmt::Write;

use num_bigint::BigUint;

use crate::field::{Field, Fp, Fr};

/// One file of `cuda/`: its name, as `#include` has it, and its text.
pub(crate) type File = (&'static str, &'static str);

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../cuda/", $name)))),*]
    };
}

/// A file whose kernels are compiled for a coordinate field: Fp for G1, Fp2 for G2.
macro_rules! over {
    ($file:literal, $group:literal, $coordinate:literal) => {
        (
            concat!($file, "_", $group, ".cu"),
            concat!(
                "#define COORDINATE ",
                $coordinate,
                "\n",
                include_str!(concat!("../../cuda/", $file, ".cu"))
            ),
        )
    };
}

/// Each of these is compiled to a module of its own.
pub(crate) const KERNELS: &[File] = &[
    ("expand.cu", include_str!("../../cuda/expand.cu")),
    ("matvec.cu", include_str!("../../cuda/matvec.cu")),
    ("ntt.cu", include_str!("../../cuda/ntt.cu")),
    ("quotient.cu", include_str!("../../cuda/quotient.cu")),
    ("digits.cu", include_str!("../../cuda/digits.cu")),
    over!("levels", "g1", "Fp"),
    over!("levels", "g2", "Fp2"),
    over!("accumulate", "g1", "Fp"),
    over!("accumulate", "g2", "Fp2"),
    over!("reduce", "g1", "Fp"),
    over!("reduce", "g2", "Fp2"),
    over!("raise", "g1", "Fp"),
    over!("raise", "g2", "Fp2"),
    over!("multiples", "g1", "Fp"),
    over!("multiples", "g2", "Fp2"),
];

/// What kernels include, besides [`prelude`] under the name [`PRELUDE`].
pub(crate) const HEADERS: &[File] = files![
    "field.cuh",
    "loose.cuh",
    "inverse.cuh",
    "fp2.cuh",
    "curve.cuh",
    "shape.cuh",
    "points.cuh",
    "sum.cuh"
];

/// The name under which `field.cuh` includes the text of [`prelude`].
pub(crate) const PRELUDE: &str = "prelude.cuh";

/// The constants of the two prime fields as macros, limbs little-endian: `F_MODULUS`, `F_TWICE` (2m), `F_ONE`
/// (R mod m), `F_R2` (R^2 mod m), `F_INVERSE` (-m^-1 mod 2^32), for F in FR (8 limbs, R = 2^256) and FP (12
/// limbs, R = 2^384). And three factors as cuda/loose.cuh has them: `FR_FOURTH_ROOT` w^2, `FR_HALF_SUM` (w + w^3)/2
/// and `FR_HALF_DIFFERENCE` (w - w^3)/2 of the eighth root of unity w.
pub(crate) fn prelude() -> String {
    let mut text = String::from("#pragma once\n");
    field(&mut text, "FR", &Fr::MODULUS);
    field(&mut text, "FP", &Fp::MODULUS);
    for (name, value) in ["FOURTH_ROOT", "HALF_SUM", "HALF_DIFFERENCE"].iter().zip(eighths()) {
        let words: Vec<u32> = bytemuck::pod_collect_to_vec(&factor(value));
        define(&mut text, "FR", name, &words);
    }
    text
}

/// What transforms of eight elements multiply by: w^2, (w + w^3)/2, (w - w^3)/2.
fn eighths() -> [Fr; 3] {
    let (w, half) = (Fr::root_of_unity(3), Fr::from(2).inverse());
    let (square, cube) = (w.square(), w.square() * w);
    [square, (w + cube) * half, (w - cube) * half]
}

/// 2^128 w and 2^256 w mod r, canonical: `Factor` in cuda/loose.cuh.
fn factor(w: Fr) -> [[u64; 4]; 2] {
    let half = Fr::from(1 << 32).square().square();
    [(w * half).to_canonical_limbs(), w.0]
}

fn field(text: &mut String, name: &str, modulus: &[u64]) {
    let words = |value: &BigUint| {
        let mut words = value.to_u32_digits();
        words.resize(2 * modulus.len(), 0);
        words
    };
    let m = modulus.iter().rev().fold(BigUint::ZERO, |m, limb| (m << 64u32) + *limb);
    let r = BigUint::from(1u8) << (64 * modulus.len());
    for (what, value) in
        [("MODULUS", m.clone()), ("TWICE", &m + &m), ("ONE", &r % &m), ("R2", &r * &r % &m)]
    {
        define(text, name, what, &words(&value));
    }
    // Newton's iteration for 1/m doubles the bits that are right; m m = 1 mod 8, so m has 3 to start with.
    let low = modulus[0] as u32;
    let inverse = (0..4).fold(low, |x, _| x.wrapping_mul(2u32.wrapping_sub(low.wrapping_mul(x))));
    writeln!(text, "#define {name}_INVERSE {:#010x}u", inverse.wrapping_neg()).expect("a string");
}

fn define(text: &mut String, name: &str, what: &str, words: &[u32]) {
    let words: Vec<_> = words.iter().map(|word| format!("{word:#010x}u")).collect();
    writeln!(text, "#define {name}_{what} {{{}}}", words.join(", ")).expect("a string");
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use bytemuck::Pod;

    use super::*;
    use crate::curve::{Affine, Coordinate, Point};
    use crate::field::{Field, Fp2};

    /// What tests/cuda/host.cc, the headers compiled as C++ for this machine, answers to each line; `None`
    /// without a compiler.
    fn host_twin(lines: &[String]) -> Option<Vec<Vec<u32>>> {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(PRELUDE, &prelude());
        HEADERS.iter().for_each(|(name, text)| write(name, text));
        write("host.cc", include_str!("../../tests/cuda/host.cc"));
        let mut compile = Command::new(std::env::var_os("CXX").unwrap_or("c++".into()));
        let options = "-std=c++17 -O1 -Wall -Wextra -Werror -o host host.cc";
        match compile.current_dir(&folder).args(options.split(' ')).status() {
            Ok(status) => assert!(status.success(), "the headers do not compile as C++"),
            Err(error) => {
                eprintln!("not run: no C++ compiler: {error}");
                return None;
            }
        }
        let mut host = Command::new(folder.path().join("host"));
        let mut host = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = host.stdin.take().unwrap();
        let input = lines.join("\n");
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = host.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success());
        let word = |word: &str| u32::from_str_radix(word, 16).unwrap();
        let answer = |line: &str| -> Vec<u32> { line.split_whitespace().map(word).collect() };
        Some(String::from_utf8(output.stdout).unwrap().lines().map(answer).collect())
    }

    fn words<T: Pod>(values: &[T]) -> Vec<u32> {
        bytemuck::cast_slice(values).to_vec()
    }

    fn line<T: Pod>(command: &str, operands: &[T]) -> String {
        words(operands).iter().fold(command.to_owned(), |line, word| format!("{line} {word:x}"))
    }

    /// Edge values, and others that are as good as random.
    fn samples<F: Field>(random: F) -> Vec<F> {
        let half = F::ONE.double().inverse();
        let edges = [F::ZERO, F::ONE, -F::ONE, F::ONE.double(), half, half - F::ONE];
        let others = (0..20).scan(random, |x, _| {
            *x = x.square() + F::ONE;
            Some(*x)
        });
        edges.into_iter().chain(others).collect()
    }

    fn pairs<T: Copy>(values: &[T]) -> Vec<[T; 2]> {
        values.iter().flat_map(|a| values.iter().map(move |b| [*a, *b])).collect()
    }

    fn field_matches<F: Field>(command: &str, values: &[F]) {
        let pairs = pairs(values);
        let lines: Vec<_> = pairs.iter().map(|pair| line(command, pair)).collect();
        let Some(answers) = host_twin(&lines) else { return };
        assert_eq!(answers.len(), pairs.len());
        for ([a, b], answer) in pairs.iter().zip(answers) {
            let want = [*a + *b, *a - *b, *a * *b, a.square(), a.inverse(), -*a];
            assert_eq!(answer, words(&want), "{command} {a:?} {b:?}");
        }
    }

    #[test]
    fn host_twin_of_the_fields_is_right() {
        let fr = Fr::from(7).inverse();
        field_matches("fr", &samples(fr));
        let fp = samples(Fp::from(7).inverse());
        field_matches("fp", &fp);
        let fp2: Vec<_> = fp.iter().zip(fp.iter().rev()).map(|(a, b)| Fp2::new(*a, *b)).collect();
        field_matches("fp2", &fp2);

        let lines: Vec<_> = samples(fr).iter().map(|a| line("fr_forms", &[*a])).collect();
        for (a, answer) in samples(fr).iter().zip(host_twin(&lines).into_iter().flatten()) {
            let to = Fr::from_canonical_limbs(a.0).unwrap();
            let want = [*a * Fr::from(2).inverse(), Fr(a.to_canonical_limbs()), to];
            assert_eq!(answer, words(&want), "fr_forms {a:?}");
        }
        let lines: Vec<_> = fp.iter().map(|a| line("fp_forms", &[*a])).collect();
        for (a, answer) in fp.iter().zip(host_twin(&lines).into_iter().flatten()) {
            let to = Fp::from_canonical_limbs(a.0).unwrap();
            let want = [*a * Fp::from(2).inverse(), Fp(a.to_canonical_limbs()), to];
            assert_eq!(answer, words(&want), "fp_forms {a:?}");
        }
    }

    fn integer(limbs: &[u64]) -> BigUint {
        limbs.iter().rev().fold(BigUint::ZERO, |x, limb| (x << 64u32) + *limb)
    }

    #[test]
    fn host_twin_of_loose_elements_is_right() {
        let r = integer(&Fr::MODULUS);
        // Each also as itself and r.
        let both = |x: &Fr| {
            let mut above = (integer(&x.0) + &r).to_u64_digits();
            above.resize(4, 0);
            [(*x, x.0), (*x, above.try_into().expect("below 2^256"))]
        };
        let pairs =
            pairs(&samples(Fr::from(7).inverse()).iter().flat_map(both).collect::<Vec<_>>());
        let lines: Vec<_> = pairs.iter().map(|[a, b]| line("loose", &[a.1, b.1].map(Fr))).collect();
        let [fourth_root, half_sum, half_difference] = eighths();
        for ([(a, _), (b, _)], answer) in pairs.iter().zip(host_twin(&lines).into_iter().flatten())
        {
            let (a, b) = (*a, *b);
            let products = [a * b, -(a * b)];
            let by_constants = [a * fourth_root, a * half_sum, a * half_difference];
            let want: Vec<_> =
                [a + b, a - b].into_iter().chain(products).chain(by_constants).collect();
            assert_eq!(answer, words(&want), "loose {a:?} {b:?}");
        }
    }

    /// What cuda/loose.cuh wants of a `SmallFactor`.
    #[test]
    fn factors_of_eighths_are_small() {
        let r = integer(&Fr::MODULUS);
        for factor in eighths().map(factor) {
            let [low, high] = factor.map(|limbs| integer(&limbs));
            assert!(&low + ((&high * &r) >> 255u32) + 1u32 < r);
            assert!(low + high < (BigUint::from(1u8) << 256u32) - &r);
        }
    }

    /// A point in XYZZ coordinates as the kernels have it.
    fn affine<F: Coordinate>([x, y, zz, zzz]: [F; 4]) -> Affine<F> {
        assert_eq!(zz.square() * zz, zzz.square());
        Affine([x * zz.inverse(), y * zzz.inverse()])
    }

    fn curve_matches<F: Coordinate>(command: &str) {
        let g = F::generator().to_point();
        let multiples = [1, 2, 3, 4].map(|k| g.scale(&Fr::from(k)).to_affine());
        let mut points = multiples.map(|p| p.neg()).to_vec();
        points.extend(multiples);
        points.push(Affine::INFINITY);
        let pairs = pairs(&points);
        let lines: Vec<_> = pairs.iter().map(|pair| line(command, pair)).collect();
        let Some(answers) = host_twin(&lines) else { return };
        assert_eq!(answers.len(), pairs.len());
        for ([p, q], answer) in pairs.iter().zip(answers) {
            let got: Vec<[F; 4]> = bytemuck::pod_collect_to_vec(&answer);
            // P + Q, 2P, and P + 2P + (P + Q): sums of XYZZ points that are different, equal, opposite or infinity
            let (sum, twice) = (p.to_point() + *q, p.to_point().double());
            let want: [Point<F>; 3] = [sum, twice, p.to_point() + twice + sum];
            for (got, want) in got[..3].iter().zip(want) {
                assert_eq!(affine(*got), want.to_affine(), "{command} {p:?} {q:?}");
            }
            // 8P by way of a chain of doublings
            let [x, y, ..] = got[3];
            let want = twice.double().double().to_affine();
            assert_eq!(Affine([x, y]), want, "{command} {p:?}");
        }
    }

    #[test]
    fn host_twin_of_the_curves_is_right() {
        curve_matches::<Fp>("g1");
        curve_matches::<Fp2>("g2");
    }
}
