//! Whether many points of the curve are all of order r, much faster than one by one.
//!
//! Random sums of the points, with coefficients -1, 0 and 1, are checked instead. If a point P is not of order r, r P is not
//! infinity, has an order of at least 3, and for any choice of the other coefficients at most one of P's three
//! gives a sum of order r. So 40 sums miss it with a probability of at most 2^-63 (3^-40 for uniform coefficients; the
//! ones drawn here are uniform but for a factor below 2). Eight coefficients are one balanced ternary digit, and all points
//! with the same digit are summed first: five additions a point, where the check of a single point
//! costs about 130 doublings.

use rayon::prelude::*;

use super::batch::Adder;
use super::buckets::Buckets;
use super::{Affine, Coordinate};
use crate::{Error, Result};

/// Coefficients in one digit.
const TRITS: u32 = 8;
/// Digits of a point.
const DIGITS: usize = 5;
/// Digits are in -BUCKETS..=BUCKETS.
const BUCKETS: usize = (3usize.pow(TRITS) - 1) / 2;
/// Points sorted at a time.
const CHUNK: usize = 1 << 14;
/// Below this many points the sums over the buckets cost more than single checks.
const FEW: usize = 1 << 12;

/// Whether all of `points`, which are on the curve, are of order r (infinity is). A wrong "yes" has a probability of at
/// most 2^-63 over the system's random numbers; "no" is certain.
pub(crate) fn all_in_subgroup<F: Coordinate>(points: &[Affine<F>]) -> Result<bool> {
    if points.len() < FEW {
        return Ok(points.par_iter().all(F::in_subgroup));
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|e| Error::Entropy(e.to_string()))?;
    let drawn = points.len().div_ceil(CHUNK);
    let sums_are_in_subgroup = (0..DIGITS).into_par_iter().all(|digit| {
        let mut scratch = vec![0; Buckets::<F>::words(BUCKETS, CHUNK)];
        let mut buckets = Buckets::<F>::new(BUCKETS, CHUNK, &mut scratch);
        buckets.sums.fill(Affine::INFINITY);
        for chunk in 0..drawn {
            let first = chunk * CHUNK;
            let len = CHUNK.min(points.len() - first);
            let digits = draw(&seed, chunk, len, digit);
            let indexed = digits.iter().enumerate().map(|(i, digit)| ((first + i) as u32, *digit));
            buckets.add(points, indexed);
        }
        (0..TRITS).all(|trit| {
            let signed =
                (1..=BUCKETS).zip(buckets.sums.iter()).filter_map(
                    |(digit, sum)| match coefficient(digit as i32, trit) {
                        0 => None,
                        1 => Some(*sum),
                        _ => Some(sum.neg()),
                    },
                );
            F::in_subgroup(&tree_sum(signed.collect()))
        })
    });
    Ok(sums_are_in_subgroup)
}

/// The digits at place `digit` of the points of one chunk.
fn draw(seed: &[u8; 32], chunk: usize, len: usize, digit: usize) -> Vec<i32> {
    let mut bytes = vec![0; 8 * len];
    let mut stream =
        blake3::Hasher::new_keyed(seed).update(&(chunk as u64).to_le_bytes()).finalize_xof();
    stream.fill(&mut bytes);
    let base = 3u64.pow(TRITS);
    let value = |bytes: &[u8; 8]| {
        // Uniform below 3^40 but for a factor below 2, since 3^40 is above 2^63.
        let scaled =
            (u128::from(u64::from_le_bytes(*bytes)) * u128::from(base.pow(DIGITS as u32))) >> 64;
        let place = (scaled as u64 / base.pow(digit as u32)) % base;
        place as i32 - BUCKETS as i32
    };
    bytes.as_chunks::<8>().0.iter().map(value).collect()
}

/// Coefficient `trit` of a balanced ternary digit.
fn coefficient(digit: i32, trit: u32) -> i32 {
    (digit + BUCKETS as i32) / 3i32.pow(trit) % 3 - 1
}

fn tree_sum<F: Coordinate>(mut points: Vec<Affine<F>>) -> Affine<F> {
    let mut adder = Adder::new();
    while points.len() > 1 {
        let half = points.len() / 2;
        for i in 0..half {
            adder.push(points[2 * i], points[2 * i + 1], i, &mut points);
        }
        adder.flush(&mut points);
        if points.len() % 2 == 1 {
            points[half] = points[points.len() - 1];
        }
        points.truncate(points.len().div_ceil(2));
    }
    points.pop().unwrap_or(Affine::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::fixed_base::{FixedBase, multiples};
    use crate::field::{Field, Fp, Fp2, Fr};

    fn points<F: Coordinate>(len: usize) -> Vec<Affine<F>> {
        let scalars: Vec<Fr> = (1..=len as u64).map(|i| Fr::from(i).inverse()).collect();
        let FixedBase { window_bits, table } = FixedBase::new(&F::generator(), len);
        let mut points = vec![Affine::INFINITY; len];
        multiples(&table, window_bits, &scalars, &mut points);
        points
    }

    #[test]
    fn coefficients_are_balanced_ternary() {
        for digit in -(BUCKETS as i32)..=BUCKETS as i32 {
            let trits = (0..TRITS).map(|trit| coefficient(digit, trit) * 3i32.pow(trit));
            assert_eq!(trits.sum::<i32>(), digit);
        }
    }

    /// Points of small order are the hardest to catch: 3 divides G1's cofactor, 13 that of G2.
    #[test]
    fn one_point_outside_the_subgroup_is_caught() {
        let mut in_g1 = points::<Fp>(FEW + 100);
        in_g1[77] = Affine::INFINITY;
        assert!(all_in_subgroup(&in_g1).unwrap());
        let of_order_three = Affine([Fp::ZERO, Fp::from(2)]);
        for place in [0, 1234, FEW + 99] {
            let mut spoiled = in_g1.clone();
            spoiled[place] = (spoiled[place].to_point() + of_order_three).to_affine();
            assert!(Fp::on_curve(&spoiled[place]) && !all_in_subgroup(&spoiled).unwrap());
        }
        assert!(!all_in_subgroup(&[of_order_three]).unwrap());

        // Any x with a point on the curve of G2: the cofactor is 2^250, so it is not of order r.
        let mut in_g2 = points::<Fp2>(FEW);
        assert!(all_in_subgroup(&in_g2).unwrap());
        let on_curve = (1..64).find_map(|x| {
            let mut bytes = [0; 96];
            (bytes[0], bytes[95]) = (0x80, x);
            crate::curve::G2Affine::from_compressed(&bytes)
        });
        in_g2[FEW - 1] = on_curve.unwrap();
        assert!(!all_in_subgroup(&in_g2).unwrap());
    }
}
