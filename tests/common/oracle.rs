//! What every operation must give, by its definition, in arithmetic that is arkworks': the CPU
//! backend's is blst's, so that the two share nothing but the limbs they are compared by.

use std::ops::Range;

use ark_ec::short_weierstrass::{Affine as ArkAffine, Projective, SWCurveConfig};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, BigInt, FftField, Field, PrimeField};
use forebay::backend::{Output, Quotient, Transform};
use forebay::curve::{Affine, Coordinate, Point};
use forebay::field::{Fp, Fp2, Fr};

/// arkworks' Fr.
pub type Scalar = ark_bls12_381::Fr;
/// arkworks' affine point over the coordinates `F`.
pub type Base<F> = ArkAffine<<F as Group>::Config>;

/// Both sides keep x 2^256 mod r (2^384 mod q for coordinates) as little-endian limbs, so limbs are
/// copied, not converted: an element in another form, or not reduced, compares as different.
pub fn to_ark(x: &Fr) -> Scalar {
    Scalar::new_unchecked(BigInt(bytemuck::cast(*x)))
}

/// The other way.
pub fn from_ark(x: &Scalar) -> Fr {
    Fr::from_montgomery_limbs(x.0.0).expect("arkworks keeps elements reduced")
}

/// [`to_ark`] of many.
pub fn to_ark_all(values: &[Fr]) -> Vec<Scalar> {
    values.iter().map(to_ark).collect()
}

/// [`from_ark`] of many.
pub fn from_ark_all(values: &[Scalar]) -> Vec<Fr> {
    values.iter().map(from_ark).collect()
}

/// The number with these little-endian limbs, unless it is r or above.
pub fn canonical(limbs: [u64; 4]) -> Option<Scalar> {
    Scalar::from_bigint(BigInt(limbs))
}

/// 2^i mod r.
pub fn power_of_two(i: usize) -> Scalar {
    Scalar::from(2u64).pow([i as u64])
}

/// One of the two groups, by its coordinate field.
pub trait Group: Coordinate {
    /// arkworks' curve.
    type Config: SWCurveConfig<ScalarField = Scalar>;

    /// The element with these Montgomery limbs, 6 for each of its coefficients.
    fn coordinate(limbs: &[u64]) -> <Self::Config as ark_ec::CurveConfig>::BaseField;
    /// The limbs of an element.
    fn limbs(coordinate: &<Self::Config as ark_ec::CurveConfig>::BaseField) -> Vec<u64>;

    /// A base as it stands in buffers; infinity is (0, 0).
    fn base(base: &Base<Self>) -> Affine<Self> {
        let element = |coordinate| {
            let coefficient = |limbs: &[u64; 6]| Fp::from_montgomery_limbs(*limbs);
            let limbs = Self::limbs(&coordinate);
            let coefficients = limbs.as_chunks::<6>().0.iter().map(coefficient);
            Self::from_coefficients(&coefficients.collect::<Option<Vec<_>>>().expect("reduced"))
        };
        match base.xy() {
            Some((x, y)) => Affine::from_xy_unchecked(element(x), element(y)),
            None => Affine::INFINITY,
        }
    }

    /// A backend's sum. Jacobian on both sides; must lie on the curve.
    fn point(point: &Point<Self>) -> Base<Self> {
        let limbs: &[u64] = bytemuck::cast_slice(std::slice::from_ref(point));
        let [x, y, z] = [0, 1, 2].map(|i| {
            let len = limbs.len() / 3;
            Self::coordinate(&limbs[i * len..(i + 1) * len])
        });
        let point = Projective::<Self::Config>::new_unchecked(x, y, z).into_affine();
        assert!(point.is_on_curve(), "a sum that is not on the curve of {}: {point}", Self::GROUP);
        point
    }
}

impl Group for Fp {
    type Config = ark_bls12_381::g1::Config;

    fn coordinate(limbs: &[u64]) -> ark_bls12_381::Fq {
        ark_bls12_381::Fq::new_unchecked(BigInt(limbs.try_into().expect("6 limbs")))
    }
    fn limbs(coordinate: &ark_bls12_381::Fq) -> Vec<u64> {
        coordinate.0.0.to_vec()
    }
}

impl Group for Fp2 {
    type Config = ark_bls12_381::g2::Config;

    fn coordinate(limbs: &[u64]) -> ark_bls12_381::Fq2 {
        ark_bls12_381::Fq2::new(Fp::coordinate(&limbs[..6]), Fp::coordinate(&limbs[6..]))
    }
    fn limbs(coordinate: &ark_bls12_381::Fq2) -> Vec<u64> {
        [Fp::limbs(&coordinate.c0), Fp::limbs(&coordinate.c1)].concat()
    }
}

/// `index` with its lowest `log_n` bits in the opposite order, bit by bit.
pub fn bit_reverse(index: usize, log_n: u32) -> usize {
    (0..log_n).fold(0, |reversed, bit| reversed << 1 | (index >> bit & 1))
}

/// The transforms of 2^log_n elements by their definition: each element is a sum of n terms.
pub struct Definition {
    log_n: u32,
    /// v^0..v^(2n - 1), for v the primitive 2n-th root of unity.
    roots: Vec<Scalar>,
    /// 1/n.
    scale: Scalar,
}

impl Definition {
    /// For 2^log_n elements.
    pub fn new(log_n: u32) -> Self {
        let v = Scalar::get_root_of_unity(2 << log_n).expect("a power of two up to 2^32");
        let powers = std::iter::successors(Some(Scalar::ONE), |power| Some(*power * v));
        let scale = Scalar::from(1u64 << log_n).inverse().expect("not 0");
        Self { log_n, roots: powers.take(2 << log_n).collect(), scale }
    }

    /// Element `index` of what `transform` makes of `data`. Evaluation i is at v^(2i), or at
    /// v^(2i + 1) on the odd coset.
    pub fn element(&self, transform: Transform, data: &[Scalar], index: usize) -> Scalar {
        let n = 1usize << self.log_n;
        assert_eq!(data.len(), n);
        let odd = matches!(transform, Transform::InterpolateOdd | Transform::EvaluateOdd) as usize;
        match transform {
            Transform::Evaluate | Transform::EvaluateOdd => {
                let power = |j| self.roots[(2 * index + odd) * j % (2 * n)];
                (0..n).map(|j| data[bit_reverse(j, self.log_n)] * power(j)).sum()
            }
            // With n points x_i that are the n-th roots of 1, or of -1, the sum of x_i^(k - j) is
            // n for k = j and 0 for all other k below n; so coefficient j is 1/n times the sum of
            // e_i x_i^-j.
            Transform::Interpolate | Transform::InterpolateOdd => {
                let j = bit_reverse(index, self.log_n);
                let power = |i| self.roots[(2 * i + odd) * (2 * n - j) % (2 * n)];
                let sum: Scalar = (0..n).map(|i| data[i] * power(i)).sum();
                sum * self.scale
            }
        }
    }
}

/// A matrix row: column and coefficient of each entry.
pub type Row = Vec<(u32, Scalar)>;

/// What `out` holds after the product of `rows` and `x`; rows that are not there are empty.
pub fn matvec(rows: &[Row], x: &[Scalar], output: Output, out: &[Scalar]) -> Vec<Scalar> {
    let sum = |row: usize| -> Scalar {
        rows.get(row).into_iter().flatten().map(|(column, c)| *c * x[*column as usize]).sum()
    };
    let element = |(row, old): (usize, &Scalar)| match output {
        Output::Set => sum(row),
        Output::Multiply => sum(row) * old,
    };
    out.iter().enumerate().map(element).collect()
}

/// One step of the quotient, element by element.
pub fn quotient(step: Quotient, a: &[Scalar], x: &[Scalar]) -> Vec<Scalar> {
    let half = Scalar::from(2u64).inverse().expect("not 0");
    let element = |(a, x): (&Scalar, &Scalar)| match step {
        Quotient::Product => *a * x,
        Quotient::Difference => *a - x,
        Quotient::HalfDifference => (*x - a) * half,
    };
    a.iter().zip(x).map(element).collect()
}

/// Bases whose logarithms to the generator are known, so that any sum of multiples of them is one
/// multiple of the generator.
#[derive(Clone)]
pub struct Bases<F: Group> {
    /// The points.
    pub points: Vec<Base<F>>,
    /// Point i is `logs[i]` times the generator; 0 stands for infinity.
    pub logs: Vec<Scalar>,
}

impl<F: Group> Bases<F> {
    /// `first + i step` times the generator for i below `len`.
    pub fn new(first: Scalar, step: Scalar, len: usize) -> Self {
        let generator = Base::<F>::generator();
        let (mut point, step_point) = (generator * first, (generator * step).into_affine());
        let mut points = Vec::with_capacity(len);
        for _ in 0..len {
            points.push(point);
            point += step_point;
        }
        let logs = (0..len as u64).map(|i| first + step * Scalar::from(i)).collect();
        Self { points: Projective::normalize_batch(&points), logs }
    }

    /// The bases that `choose(i)` names: an index and a factor of 0, 1 or -1.
    pub fn rearranged(&self, len: usize, choose: impl Fn(usize) -> (usize, i8)) -> Self {
        let signed = |i| {
            let (index, sign) = choose(i);
            let (point, log) = (self.points[index], self.logs[index]);
            match sign {
                0 => (Base::<F>::zero(), Scalar::ZERO),
                1 => (point, log),
                _ => (-point, -log),
            }
        };
        let (points, logs) = (0..len).map(signed).unzip();
        Self { points, logs }
    }
}

/// The scalars that an MSM pairs with its bases, in the order of the bases.
pub fn selected(scalars: &[Scalar], range: Range<usize>, density: Option<&[bool]>) -> Vec<Scalar> {
    let selected =
        |(p, scalar): (usize, &Scalar)| density.is_none_or(|density| density[p]).then_some(*scalar);
    scalars[range].iter().enumerate().filter_map(selected).collect()
}

/// `scalar` times the generator.
pub fn multiple<F: Group>(scalar: Scalar) -> Base<F> {
    (Base::<F>::generator() * scalar).into_affine()
}

/// The sum of `scalars[i] bases[i]` from the logarithms: one multiplication of the generator.
pub fn msm_by_logarithms<F: Group>(bases: &Bases<F>, scalars: &[Scalar]) -> Base<F> {
    assert_eq!(bases.logs.len(), scalars.len());
    let log: Scalar = bases.logs.iter().zip(scalars).map(|(log, scalar)| *log * scalar).sum();
    multiple::<F>(log)
}

/// The same sum from the points themselves, one after another.
pub fn msm_naive<F: Group>(bases: &Bases<F>, scalars: &[Scalar]) -> Base<F> {
    assert_eq!(bases.points.len(), scalars.len());
    let terms = bases.points.iter().zip(scalars).map(|(base, scalar)| *base * scalar);
    terms.fold(Projective::ZERO, |sum, term| sum + term).into_affine()
}
