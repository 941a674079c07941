//! Scalars, and points whose logarithms are known.

use forebay::curve::{Affine, Coordinate, Point};
use forebay::field::{Field, Fr, batch_inverse};
use rayon::prelude::*;

/// What scalars a sum has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scalars {
    /// Uniform below r.
    Random,
    /// 45 % zeros, 45 % ones, the rest uniform.
    Bits,
    /// One uniform value in all.
    Same,
    /// Uniform below 2^32.
    Small,
}

impl Scalars {
    /// `len` of them, always the same.
    pub fn make(self, len: usize) -> Vec<Fr> {
        let make = |i: usize| {
            let i = i as u64;
            match self {
                Self::Random => uniform(i),
                Self::Bits => match hash(i) % 20 {
                    0..9 => Fr::ZERO,
                    9..18 => Fr::ONE,
                    _ => uniform(i),
                },
                Self::Same => uniform(0),
                Self::Small => Fr::from(hash(i) >> 32),
            }
        };
        (0..len).into_par_iter().map(make).collect()
    }
}

/// The mixing function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn hash(i: u64) -> u64 {
    let z = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The i-th uniform scalar, by rejection.
pub fn uniform(i: u64) -> Fr {
    let mut seed = hash(!i);
    loop {
        let mut limbs = std::array::from_fn(|_| {
            seed = hash(seed);
            seed
        });
        limbs[3] >>= 1;
        // Limbs that are uniform in Montgomery form are uniform.
        if let Some(value) = Fr::from_montgomery_limbs(limbs) {
            return value;
        }
    }
}

/// Points P_k = (start + (k mod distinct) step) G.
pub struct Progression<F> {
    pub points: Vec<Affine<F>>,
    start: Fr,
    step: Fr,
    distinct: usize,
}

/// Points of a row of [`Progression::new`].
const ROW: usize = 1 << 11;

impl<F: Coordinate> Progression<F> {
    /// `len` points, of which `distinct`, a multiple of 2^11, differ, or all if they are fewer.
    ///
    /// The points of a row are its first plus the same small multiples, which takes one inversion a row.
    pub fn new(len: usize, distinct: usize) -> Self {
        let (start, step) = (uniform(1 << 40), uniform(1 << 41));
        let distinct = distinct.min(len);
        let point = |scalar: Fr| F::generator().to_point().scale(&scalar);
        let (first, stride) = (point(start), point(step));
        let small = multiples(Point::INFINITY, stride, ROW);
        let rows = multiples(first, point(step * Fr::from(ROW as u64)), distinct / ROW);
        let tile: Vec<_> =
            rows.par_iter().flat_map_iter(|first| translated(first, &small)).collect();
        let points = (0..len).into_par_iter().map(|k| tile[k % distinct]).collect();
        Self { points, start, step, distinct }
    }

    /// The sum of the first points, each times its scalar: one multiplication, by the sum of the logarithms.
    pub fn sum(&self, scalars: &[Fr]) -> Point<F> {
        let part = |(at, scalars): (usize, &[Fr])| {
            // From the back: the running sums add up to the sum of (place + 1) scalar.
            let (mut sum, mut weighted) = (Fr::ZERO, Fr::ZERO);
            for scalar in scalars.iter().rev() {
                sum += *scalar;
                weighted += sum;
            }
            let first = Fr::from((at * ROW % self.distinct) as u64);
            self.start * sum + self.step * (weighted - sum + first * sum)
        };
        let parts = scalars.par_chunks(ROW).enumerate().map(part);
        let logarithm = parts.reduce(|| Fr::ZERO, |a, b| a + b);
        F::generator().to_point().scale(&logarithm)
    }
}

/// `first`, `first + step`, ..., `count` of them.
fn multiples<F: Coordinate>(first: Point<F>, step: Point<F>, count: usize) -> Vec<Affine<F>> {
    let points = std::iter::successors(Some(first), |point| Some(*point + step));
    points.take(count).map(|point| point.to_affine()).collect()
}

/// `first` plus each of `small`, of which the first is infinity, and none of the others has the x of `first`.
fn translated<F: Coordinate>(first: &Affine<F>, small: &[Affine<F>]) -> Vec<Affine<F>> {
    let mut inverses: Vec<F> = small.iter().map(|point| point.x() - first.x()).collect();
    batch_inverse(&mut inverses);
    let sum = |(point, inverse): (&Affine<F>, &F)| {
        if point.is_infinity() {
            return *first;
        }
        let slope = (point.y() - first.y()) * *inverse;
        let x = slope.square() - first.x() - point.x();
        Affine::from_xy_unchecked(x, slope * (first.x() - x) - first.y())
    };
    small.iter().zip(&inverses).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::field::{Fp, Fp2};

    fn sums_are_those_of_the_points<F: Coordinate>() {
        let points = Progression::<F>::new(3 * ROW, 2 * ROW);
        assert_eq!(points.points[2 * ROW..], points.points[..ROW]);
        assert!(points.points.iter().step_by(500).all(Affine::is_valid));
        let scalars = Scalars::Random.make(3 * ROW);
        let terms = points.points.iter().zip(&scalars);
        let sum = terms.fold(Point::INFINITY, |sum, (p, s)| sum + p.to_point().scale(s));
        assert_eq!(points.sum(&scalars), sum);
    }

    #[test]
    fn sums_are_known() {
        sums_are_those_of_the_points::<Fp>();
        sums_are_those_of_the_points::<Fp2>();
    }
}
