//! Values of polynomials, on the host and by sums alone: what transforms are compared with.

use forebay::field::{Field, Fr, batch_inverse};
use rayon::prelude::*;

/// Elements of a task.
const CHUNK: usize = 1 << 12;

/// The value at `z`, by Horner's rule, of the polynomial with these coefficients in natural order.
pub fn at_natural(coefficients: &[Fr], z: Fr) -> Fr {
    let part = |(at, coefficients): (usize, &[Fr])| {
        let value = coefficients.iter().rev().fold(Fr::ZERO, |value, c| value * z + *c);
        value * z.pow((at * CHUNK) as u64)
    };
    let parts = coefficients.par_chunks(CHUNK).enumerate().map(part);
    parts.reduce(|| Fr::ZERO, |a, b| a + b)
}

/// The value at `z` of the polynomial whose coefficients, a power of two, are in bit-reversed order: even ones in
/// the first half, odd ones in the second, and each half the same again.
pub fn at_reversed(coefficients: &[Fr], z: Fr) -> Fr {
    let (even, odd) = match coefficients {
        [only] => return *only,
        _ => coefficients.split_at(coefficients.len() / 2),
    };
    let square = z.square();
    let (even, odd) = if odd.len() > CHUNK {
        rayon::join(|| at_reversed(even, square), || at_reversed(odd, square))
    } else {
        (at_reversed(even, square), at_reversed(odd, square))
    };
    even + z * odd
}

/// The value at `z` of the polynomial with these values on the subgroup, in natural order:
/// (z^n - 1)/n times the sum of values w^i/(z - w^i).
pub fn at_evaluations(values: &[Fr], z: Fr) -> Fr {
    let n = values.len();
    let w = Fr::root_of_unity(n.ilog2());
    let part = |(at, values): (usize, &[Fr])| {
        let first = w.pow((at * CHUNK) as u64);
        let powers = std::iter::successors(Some(first), |power| Some(*power * w));
        let powers: Vec<_> = powers.take(values.len()).collect();
        let mut inverses: Vec<_> = powers.iter().map(|power| z - *power).collect();
        batch_inverse(&mut inverses);
        let terms = values.iter().zip(powers).zip(inverses);
        terms.fold(Fr::ZERO, |sum, ((value, power), inverse)| sum + *value * power * inverse)
    };
    let parts = values.par_chunks(CHUNK).enumerate().map(part);
    let sum = parts.reduce(|| Fr::ZERO, |a, b| a + b);
    (z.pow(n as u64) - Fr::ONE) * Fr::from(n as u64).inverse() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::uniform;
    use forebay::backend::bit_reverse;

    #[test]
    fn values_agree() {
        let log_n = 14;
        let n = 1usize << log_n;
        let natural: Vec<_> = (0..n as u64).map(uniform).collect();
        let reversed: Vec<_> = (0..n).map(|i| natural[bit_reverse(i, log_n)]).collect();
        let z = uniform(n as u64);
        let (mut value, mut power) = (Fr::ZERO, Fr::ONE);
        for coefficient in &natural {
            value += *coefficient * power;
            power *= z;
        }
        assert_eq!(at_natural(&natural, z), value);
        assert_eq!(at_reversed(&reversed, z), value);
        let w = Fr::root_of_unity(log_n);
        let values: Vec<_> =
            (0..n).into_par_iter().map(|i| at_natural(&natural, w.pow(i as u64))).collect();
        assert_eq!(at_evaluations(&values, z), value);
    }
}
