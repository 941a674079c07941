//! Known-answer tests of the arithmetic, short enough for every start: a miscompiled library, a bad
//! driver or failing memory must not wait for a proof to be noticed.

use std::sync::Arc;

use num_bigint::BigUint;

use crate::backend::{Backend, Msm, Pending, Quotient, Transform};
use crate::blst::{pairing_one, pairing_product};
use crate::curve::{Affine, Coordinate, G1Affine, G2Affine, Point};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::{Error, Result};

/// A test's name and whether its answer was right.
pub type Outcome = (String, bool);

/// Tests of the host's fields, curves and pairing.
pub fn host() -> Vec<Outcome> {
    let g1 = Fp::generator();
    let g2 = Fp2::generator();
    let five = Fr::from(5);
    let (p, q) = (g1.to_point().scale(&five).to_affine(), g2.to_point().scale(&five).to_affine());
    vec![
        (
            "host: Fr against integers".into(),
            field_agrees(&Fr::MODULUS, Fr::from_biguint, Fr::to_biguint),
        ),
        (
            "host: Fp against integers".into(),
            field_agrees(&Fp::MODULUS, Fp::from_biguint, Fp::to_biguint),
        ),
        (
            "host: the generator of G1".into(),
            hex(&g1.to_compressed()).starts_with("97f1d3a73197d7942695638c4fa9ac0f"),
        ),
        (
            "host: the generator of G2".into(),
            hex(&g2.to_compressed()).starts_with("93e02b6052719f607dacd3a088274f65"),
        ),
        ("host: G1 has order r".into(), order_is_r(&g1)),
        ("host: G2 has order r".into(), order_is_r(&g2)),
        ("host: the pairing is bilinear".into(), {
            let same = pairing_product(&[(p, g2), (g1.neg(), q)]) == pairing_one();
            let differs = pairing_product(&[(p, g2), (g1, q)]) != pairing_one();
            same && differs
        }),
        ("host: encodings".into(), {
            G1Affine::from_compressed(&p.to_compressed()) == Some(p)
                && G2Affine::from_compressed(&q.to_compressed()) == Some(q)
        }),
    ]
}

/// Tests of a backend's transforms, quotient and sums, 2^6 elements each.
pub fn backend<B: Backend>(backend: &B) -> Result<Vec<Outcome>> {
    const LOG_N: u32 = 6;
    let n = 1usize << LOG_N;
    let name = |what: &str| format!("{}: {what}", backend.info().backend);
    let bytes = backend.msm_scratch::<Fp>(n).max(backend.msm_scratch::<Fp2>(n));
    let vectors = 4 * (n * Fr::BYTES) as u64 + (n * 192) as u64 + backend.ntt_table_bytes(LOG_N);
    let lease = backend.budget().lease("self-test", bytes + vectors)?;
    let stream = backend.stream()?;

    // The polynomial X + 2: evaluation i is x_i + 2.
    let table = backend.ntt_table(&stream, &lease, LOG_N)?;
    let transform = |transform, input: &[Fr]| -> Result<Vec<Fr>> {
        let mut data = backend.alloc(&lease, "data", n)?;
        backend.upload(&stream, input, &mut data, 0)?;
        backend.ntt(&stream, transform, &table, &mut data)?;
        let mut out = vec![Fr::ZERO; n];
        backend.download(&stream, &data, 0, &mut out)?;
        Ok(out)
    };
    let mut coefficients = vec![Fr::ZERO; n];
    coefficients[0] = Fr::from(2);
    coefficients[crate::backend::bit_reverse(1, LOG_N)] = Fr::ONE;
    let v = Fr::root_of_unity(LOG_N + 1);
    let evaluations =
        |odd: u64| (0..n as u64).map(|i| v.pow(2 * i + odd) + Fr::from(2)).collect::<Vec<_>>();
    let mut outcomes = Vec::new();
    for (what, direct, inverse, odd) in [
        ("transforms on the subgroup", Transform::Evaluate, Transform::Interpolate, 0),
        ("transforms on the odd coset", Transform::EvaluateOdd, Transform::InterpolateOdd, 1),
    ] {
        let values = transform(direct, &coefficients)?;
        let back = transform(inverse, &values)?;
        outcomes.push((name(what), values == evaluations(odd) && back == coefficients));
    }

    let (a, x) = (evaluations(0), evaluations(1));
    let half = Fr::from(2).inverse();
    let expected = |step, a: Fr, x: Fr| match step {
        Quotient::Product => a * x,
        Quotient::Difference => a - x,
        Quotient::HalfDifference => (x - a) * half,
    };
    let mut right = true;
    for step in [Quotient::Product, Quotient::Difference, Quotient::HalfDifference] {
        let (mut left, mut operand) =
            (backend.alloc(&lease, "a", n)?, backend.alloc(&lease, "x", n)?);
        backend.upload(&stream, &a, &mut left, 0)?;
        backend.upload(&stream, &x, &mut operand, 0)?;
        backend.quotient(&stream, step, &mut left, &operand)?;
        let mut out = vec![Fr::ZERO; n];
        backend.download(&stream, &left, 0, &mut out)?;
        right &=
            out.iter().zip(a.iter().zip(&x)).all(|(out, (a, x))| *out == expected(step, *a, *x));
    }
    outcomes.push((name("quotient"), right));
    outcomes.push((name("sum in G1"), msm_agrees::<B, Fp>(backend, &stream, &lease, &a)?));
    outcomes.push((name("sum in G2"), msm_agrees::<B, Fp2>(backend, &stream, &lease, &a)?));
    Ok(outcomes)
}

/// Sums of multiples of the generator, among them equal, opposite and infinite points.
fn msm_agrees<B: Backend, F: Coordinate>(
    backend: &B,
    stream: &B::Stream,
    lease: &crate::budget::Lease,
    scalars: &[Fr],
) -> Result<bool> {
    let g = F::generator();
    let kinds = [
        (g, Fr::ONE),
        (g.neg(), -Fr::ONE),
        (Affine::INFINITY, Fr::ZERO),
        (g.to_point().double().to_affine(), Fr::from(2)),
    ];
    let bases: Vec<Affine<F>> = (0..scalars.len()).map(|i| kinds[i % 4].0).collect();
    let log = scalars
        .iter()
        .zip(kinds.iter().cycle())
        .fold(Fr::ZERO, |sum, (s, (_, log))| sum + *s * *log);
    let bases = backend.adopt(stream, lease, "bases", Arc::new(bases))?;
    let scalars = backend.adopt(stream, lease, "scalars", Arc::new(scalars.to_vec()))?;
    let len = crate::backend::Buffer::len(&scalars);
    let words = backend.msm_scratch::<F>(len).div_ceil(8) as usize;
    let mut scratch = backend.alloc(lease, "scratch", words)?;
    let msm = Msm {
        bases: &bases,
        base_range: 0..len,
        scalars: &scalars,
        range: 0..len,
        density: None,
        raised: None,
    };
    let sum: Point<F> = backend.msm::<F>(stream, msm, &mut scratch)?.wait()?;
    Ok(sum == g.to_point().scale(&log))
}

fn field_agrees<F: Field>(
    modulus: &[u64],
    from: fn(&BigUint) -> Option<F>,
    to: fn(&F) -> BigUint,
) -> bool {
    let modulus = modulus.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64u32) + *limb);
    // Full-size values that no shortcut gets right, and the edges.
    let samples = [
        BigUint::ZERO,
        BigUint::from(1u8),
        &modulus - 1u8,
        (&modulus * 5u8) / 7u8,
        (&modulus * 3u8) / 11u8,
    ];
    samples.iter().all(|x| {
        samples.iter().all(|y| {
            let (Some(a), Some(b)) = (from(x), from(y)) else { return false };
            let inverted = b.is_zero() || (b * b.inverse()) == F::ONE;
            to(&(a * b)) == x * y % &modulus
                && to(&(a + b)) == (x + y) % &modulus
                && to(&(a - b)) == (x + &modulus - y) % &modulus
                && a.square() == a * a
                && inverted
        })
    }) && from(&modulus).is_none()
}

/// (r - 1) G = -G, and the subgroup check agrees.
fn order_is_r<F: Coordinate>(g: &Affine<F>) -> bool {
    g.to_point().scale(&-Fr::ONE).to_affine() == g.neg() && g.is_valid()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error unless every answer was right.
pub fn require(outcomes: &[Outcome]) -> Result<()> {
    let wrong: Vec<&str> =
        outcomes.iter().filter(|(_, passed)| !passed).map(|(name, _)| name.as_str()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Error::WrongArithmetic(wrong.join(", "))) }
}
