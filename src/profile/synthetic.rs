//! A key and an assignment with a circuit's counts and kinds of values, without the circuit: to measure whole proofs of any size.
//!
//! Values are pseudo-random. So are the key's points, of which only 2^17 are distinct in each query: their logarithms are
//! known. The verifying key is made to fit: its point for the constant 1 is the one with which the proof of this very assignment
//! verifies. It needs the logarithms of all five sums, which are computed in Fr, so verification compares every sum and the
//! quotient of a backend with another way to compute them.
//!
//! Whoever has such a key can forge proofs, and it is a key to no circuit.

use std::sync::Arc;

use rayon::prelude::*;

use super::{Kinds, Profile};
use crate::Result;
use crate::compact::Compact;
use crate::curve::{Affine, Coordinate, FixedBase, G1Affine, Point};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::groth16::Task;
use crate::key::{Basis, Density, ProvingKey, Query, VerifyingKey};
use crate::plan::QueryShape;
use crate::witness::{Assignment, Rows};

/// Distinct points of a query. Equal ones are added so seldom that it does not count (once in as many additions).
const TILE: usize = 1 << 17;

/// Variables that one thread takes at a time: whole words of densities.
const BLOCK: usize = 1 << 16;

/// A key and the assignment that it fits, both made from `seed`. The points of 2^log_n rows take some 350 bytes a row of
/// host memory.
///
/// # Errors
/// If the host's memory does not hold the quotient.
pub fn synthesise(profile: &Profile, seed: u64) -> Result<(ProvingKey, Assignment)> {
    let Profile { log_n, inputs, aux, .. } = *profile;
    let variables = profile.variables();
    let (a_aux, b_aux) = (evenly(profile.a - inputs, aux), evenly(profile.b - 1, aux));
    let source = |stream: u64| Source(mix(seed ^ mix(stream)));

    let values = values(profile, source(0), &a_aux, &b_aux);
    let side = |side: usize| {
        let (kinds, source) = (Ladder::new(&profile.sides[side]), source(1 + side as u64));
        let values: Vec<Fr> =
            (0..profile.rows).into_par_iter().map(|row| source.value(row, &kinds)).collect();
        Arc::new(Compact::pack(&values))
    };
    let b_inputs = Density::from_bits((0..inputs).map(|input| input == 0));
    let rows = Rows { a: side(0), b: side(1), a_aux, b_inputs, b_aux };
    let assignment = Assignment { values: Arc::new(Compact::pack(&values)), rows: Some(rows) };

    let log = |stream: u64| source(16 + stream).wide(0);
    let (alpha, beta, delta) = (log(0), log(1), log(2));
    let in_g1 = FixedBase::new(&Fp::generator(), 4 * TILE);
    let in_g2 = FixedBase::new(&Fp2::generator(), TILE);
    let logs = |stream: u64, len: usize| -> Vec<Fr> {
        (0..len.min(TILE)).map(|i| source(32 + stream).wide(i)).collect()
    };
    let h = (1 << log_n) - 1;
    let tiles = [(0, h), (1, aux), (2, profile.a), (3, profile.b)].map(|(i, len)| logs(i, len));
    let [of_h, of_l, of_a, of_b] = &tiles;
    let g1 = in_g1.multiply(&[alpha, beta, delta]);
    let g2 = in_g2.multiply(&[beta, Fr::ONE, delta]);
    let mut key = ProvingKey {
        log_n,
        inputs,
        variables,
        basis: Basis::Coefficients,
        vk: VerifyingKey {
            alpha_g1: g1[0],
            beta_g2: g2[0],
            gamma_g2: g2[1],
            delta_g2: g2[2],
            ic: in_g1.multiply(&logs(4, inputs)),
        },
        beta_g1: g1[1],
        delta_g1: g1[2],
        a: query(&in_g1, of_a, profile.a),
        b_g1: query(&in_g1, of_b, profile.b),
        b_g2: query(&in_g2, of_b, profile.b),
        l: Query { density: Some(Density::full(aux)), ..query(&in_g1, of_l, aux) },
        h: query(&in_g1, of_h, h).points,
        matrices: None,
    };
    key.vk.ic[0] = fitting(&key, &assignment, &values, &tiles, [alpha, beta, delta])?;
    Ok((key, assignment))
}

/// The point for the constant 1 with which e(A, B) = e(alpha, beta) e(inputs, gamma) e(C, delta) holds, gamma being 1: blinding
/// cancels out, so what is left is a b = alpha beta + ic + (l + h) delta, with a and b the sums and alpha or beta.
fn fitting(
    key: &ProvingKey,
    assignment: &Assignment,
    values: &[Fr],
    [of_h, of_l, of_a, of_b]: &[Vec<Fr>; 4],
    [alpha, beta, delta]: [Fr; 3],
) -> Result<G1Affine> {
    let task = Task::new(key, assignment)?;
    let [_, a, b, _] = &task.shape().queries;
    let (a, b) = (alpha + sum(values, a, of_a), beta + sum(values, b, of_b));
    let aux = &values[key.inputs..];
    let l = sum(aux, &QueryShape::unknown(aux.len(), aux.len()), of_l);
    let h = task.quotient_on_host()?;
    let h = sum(&h[..key.h.len()], &QueryShape::unknown(key.h.len(), key.h.len()), of_h);
    let all = a * b - alpha * beta - (l + h) * delta;
    let of_inputs: Point<Fp> = key.vk.ic[1..]
        .iter()
        .zip(&values[1..key.inputs])
        .fold(Point::INFINITY, |sum, (point, value)| sum + point.to_point().scale(value));
    Ok((Fp::generator().to_point().scale(&all) + of_inputs.scale(&-Fr::ONE)).to_affine())
}

/// The sum of those of `values` that have a point, times the points' logarithms, which repeat.
fn sum(values: &[Fr], query: &QueryShape, tile: &[Fr]) -> Fr {
    let of_block = |(block, values): (usize, &[Fr])| {
        let first = block * BLOCK;
        let mut rank = query.rank(first);
        let mut sum = Fr::ZERO;
        for (i, value) in values.iter().enumerate() {
            if query.has(first + i) {
                if !value.is_zero() {
                    sum += *value * tile[rank % tile.len()];
                }
                rank += 1;
            }
        }
        sum
    };
    let sums = values.par_chunks(BLOCK).enumerate().map(of_block);
    sums.reduce(|| Fr::ZERO, |a, b| a + b)
}

/// `len` points, multiples of a generator by the logarithms of `tile`, again and again. Its density is the assignment's.
fn query<F: Coordinate>(base: &FixedBase<F>, tile: &[Fr], len: usize) -> Query<F> {
    let tile = base.multiply(tile);
    let points: Vec<Affine<F>> =
        (0..len).into_par_iter().with_min_len(1 << 12).map(|i| tile[i % tile.len()]).collect();
    Query { points: points.into(), density: None }
}

/// A set of `members` of `len` variables, as evenly spread as can be.
fn evenly(members: usize, len: usize) -> Density {
    let before = |i: usize| (i as u128 * members as u128 / len.max(1) as u128) as usize;
    let word = |word: usize| {
        let bits = word * 64..(word * 64 + 64).min(len);
        bits.fold(0u64, |bits, i| bits | u64::from(before(i + 1) > before(i)) << (i % 64))
    };
    Density {
        words: (0..len.div_ceil(64)).into_par_iter().map(word).collect::<Vec<_>>().into(),
        len,
    }
}

/// The constant 1, wide public inputs, and private values of the profile's kinds. Private variables outside A are wide, as
/// nearly all of those are in the circuits that were measured.
fn values(profile: &Profile, source: Source, a_aux: &Density, b_aux: &Density) -> Vec<Fr> {
    let [all, in_b] = &profile.values;
    let share = |members: usize| members as f64 / profile.aux as f64;
    let (outside, share_of_b) = (1.0 - share(profile.a - profile.inputs), share(profile.b - 1));
    let others = all.without(share_of_b, in_b);
    let [in_b, others] =
        [in_b, &others].map(|kinds| Ladder::new(&kinds.without(outside, &Kinds::WIDE)));
    let wide = Ladder::new(&Kinds::WIDE);
    let is_in = |density: &Density, i: usize| density.words[i / 64] >> (i % 64) & 1 == 1;
    let value = |i: usize| match i.checked_sub(profile.inputs) {
        None if i == 0 => Fr::ONE,
        None => source.value(i, &wide),
        Some(aux) if !is_in(a_aux, aux) => source.value(i, &wide),
        Some(aux) if is_in(b_aux, aux) => source.value(i, &in_b),
        Some(_) => source.value(i, &others),
    };
    (0..profile.variables()).into_par_iter().with_min_len(BLOCK).map(value).collect()
}

/// Kinds as limits: a uniform number below the first is a 0, below the second a 1, and so on.
struct Ladder([u64; 4]);

impl Ladder {
    fn new(kinds: &Kinds) -> Self {
        let mut sum = 0.0;
        Self([kinds.zero, kinds.one, kinds.minus_one, kinds.small].map(|share| {
            sum += share;
            (sum * 2f64.powi(64)) as u64
        }))
    }
}

/// Pseudo-random values by their index: splitmix64.
#[derive(Clone, Copy)]
struct Source(u64);

impl Source {
    fn value(self, index: usize, Ladder(limits): &Ladder) -> Fr {
        let kind = mix(self.0 ^ mix(index as u64));
        match limits.iter().position(|limit| kind < *limit) {
            Some(0) => Fr::ZERO,
            Some(1) => Fr::ONE,
            Some(2) => -Fr::ONE,
            Some(_) => Fr::from(2 + mix(kind) % ((1 << 32) - 2)),
            None => self.wide(index),
        }
    }

    /// 254 random bits.
    fn wide(self, index: usize) -> Fr {
        let mut state = mix(self.0.rotate_left(32) ^ mix(index as u64));
        let mut limbs = [0; 4];
        for limb in &mut limbs {
            state = mix(state);
            *limb = state;
        }
        limbs[3] >>= 2;
        Fr::from_montgomery_limbs(limbs).expect("2^254 is below r")
    }
}

/// One step of splitmix64 (Steele, Lea, Flood 2014).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::backend::cpu::Cpu;
    use crate::format::Silent;
    use crate::groth16::{Blinding, prove};

    #[test]
    fn proofs_verify_and_only_right_ones() {
        for name in ["porep-32gib", "window-post-32gib", "dense-10", "bits-10"] {
            let profile = Profile::named(name).unwrap().scaled(10).unwrap();
            let (mut key, assignment) = synthesise(&profile, 7).unwrap();
            let prove = |key: &ProvingKey| {
                prove(&Cpu::open(), key, &assignment, &Blinding::random()?, &Silent)
            };
            prove(&key).expect(name);
            let mut points = key.h.to_vec();
            points.swap(1, 2);
            key.h = points.into();
            assert!(matches!(prove(&key), Err(Error::SelfVerify(_))), "{name}");
        }
    }

    #[test]
    fn counts_and_kinds_are_the_profiles() {
        let profile = Profile::named("porep-32gib").unwrap().scaled(18).unwrap();
        let (key, assignment) = synthesise(&profile, 1).unwrap();
        let found =
            [key.a.points.len(), key.b_g1.points.len(), key.b_g2.points.len(), key.l.points.len()];
        assert_eq!(found, [profile.a, profile.b, profile.b, profile.aux]);
        let rows = assignment.rows.as_ref().unwrap();
        let expect = |vector: &Compact, kinds: &Kinds| {
            let (bytes, want) = (vector.bytes() as f64 / vector.len() as f64, kinds.bytes());
            assert!((bytes / want - 1.0).abs() < 0.03, "{bytes} bytes a value, not {want}");
        };
        expect(&assignment.values, &profile.values[0]);
        expect(&rows.a, &profile.sides[0]);
        expect(&rows.b, &profile.sides[1]);
        // Those in B are wide more often.
        let values = assignment.values.unpack();
        let in_b = rows.b_density();
        let wide_in_b = in_b.bits().zip(&values);
        let wide =
            wide_in_b.filter(|(in_b, value)| *in_b && value.to_canonical_limbs()[3] != 0).count();
        assert!((wide as f64 / profile.b as f64 / profile.values[1].wide() - 1.0).abs() < 0.1);
    }
}
