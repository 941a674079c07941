//! Many affine additions at once.

use super::{Affine, Coordinate};

/// Additions that share one inversion. An inversion costs about 65 multiplications, so 256 make it a quarter
/// of one each, while the batch (5 coordinates and a prefix, 72 KiB in G1) stays in a second-level cache.
pub(crate) const BATCH: usize = 256;

/// Affine additions that wait for one shared inversion, eight at a time where the CPU can.
///
/// A sum goes to `out[slot]` at once if it needs no inversion, else at the next flush; within a
/// batch no summand may be a slot that is still to be written.
pub(crate) struct Adder<F> {
    #[cfg(target_arch = "x86_64")]
    lanes: Option<super::ifma::Lanes<F>>,
    len: usize,
    product: F,
    pending: Vec<Pending<F>>,
}

#[derive(Clone, Copy)]
struct Pending<F> {
    slot: usize,
    /// The product of the denominators before this one.
    prefix: F,
    /// The slope is numerator / denominator.
    numerator: F,
    denominator: F,
    /// x1, y1 and x2.
    x1: F,
    y1: F,
    x2: F,
}

impl<F: Coordinate> Adder<F> {
    pub(crate) fn new() -> Self {
        let empty = Pending {
            slot: 0,
            prefix: F::ZERO,
            numerator: F::ZERO,
            denominator: F::ZERO,
            x1: F::ZERO,
            y1: F::ZERO,
            x2: F::ZERO,
        };
        Self {
            #[cfg(target_arch = "x86_64")]
            lanes: vectorised().then(super::ifma::Lanes::new),
            len: 0,
            product: F::ONE,
            pending: vec![empty; BATCH],
        }
    }

    /// Puts a + b on the way to `out[slot]`.
    #[inline(always)]
    pub(crate) fn push(&mut self, a: Affine<F>, b: Affine<F>, slot: usize, out: &mut [Affine<F>]) {
        let (x1, y1, x2) = (a.x(), a.y(), b.x());
        if a.is_infinity() {
            out[slot] = b;
            return;
        } else if b.is_infinity() {
            out[slot] = a;
            return;
        }
        let (numerator, denominator);
        if x1 == x2 {
            // P - P, or P + P; y = 0 has order 2, and is only off the subgroup
            if y1 != b.y() || y1.is_zero() {
                out[slot] = Affine::INFINITY;
                return;
            }
            let square = x1.square();
            (numerator, denominator) = (square.double() + square, y1.double());
        } else {
            #[cfg(target_arch = "x86_64")]
            if let Some(lanes) = &mut self.lanes {
                if lanes.push(&a, &b, slot) {
                    lanes.flush(out);
                }
                return;
            }
            (numerator, denominator) = (b.y() - y1, x2 - x1);
        }
        let prefix = self.product;
        self.product *= denominator;
        self.pending[self.len] = Pending { slot, prefix, numerator, denominator, x1, y1, x2 };
        self.len += 1;
        if self.len == BATCH {
            self.flush_scalar(out);
        }
    }

    /// Writes all sums that wait.
    pub(crate) fn flush(&mut self, out: &mut [Affine<F>]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = &mut self.lanes {
            lanes.flush(out);
        }
        self.flush_scalar(out);
    }

    fn flush_scalar(&mut self, out: &mut [Affine<F>]) {
        if self.len == 0 {
            return;
        }
        let mut inverse = self.product.inverse();
        for p in self.pending[..self.len].iter().rev() {
            let slope = p.numerator * (inverse * p.prefix);
            inverse *= p.denominator;
            let x3 = slope.square() - p.x1 - p.x2;
            let y3 = slope * (p.x1 - x3) - p.y1;
            out[p.slot] = Affine([x3, y3]);
        }
        self.len = 0;
        self.product = F::ONE;
    }
}

/// Whether additions go through vector registers: where the CPU has AVX512-IFMA, unless FOREBAY_SCALAR is set
/// (for comparisons, and to test the other path on such a CPU).
#[cfg(target_arch = "x86_64")]
fn vectorised() -> bool {
    static ANSWER: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ANSWER
        .get_or_init(|| super::ifma::is_available() && std::env::var_os("FOREBAY_SCALAR").is_none())
}

/// The signed digit of window `window` of c bits, in -2^(c-1)..=2^(c-1), by Booth's rule: the window's
/// bits and the one below them decide, so that no carry travels. A value below 2^b has `b/c + 1` digits.
pub(crate) fn booth_digit(limbs: &[u64; 4], window: usize, c: u32) -> i32 {
    let low = window * c as usize;
    let bits = |at: usize| {
        let word = |i: usize| limbs.get(i).copied().unwrap_or(0);
        let (limb, shift) = (at / 64, at % 64);
        (word(limb) >> shift) | (word(limb + 1) << 1 << (63 - shift))
    };
    let raw = if low == 0 { bits(0) << 1 } else { bits(low - 1) };
    let raw = (raw & ((2 << c) - 1)) as i32;
    ((raw + 1) >> 1) - ((raw >> c) << c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Fp, Fp2, Fr};

    /// Sums of many pairs, with the special ones strewn in, against complete Jacobian additions.
    fn sums_are_right<F: Coordinate>(mut adder: Adder<F>) {
        let g = F::generator().to_point();
        let multiple = |k: u64| g.scale(&(Fr::from(k).inverse() + Fr::from(k))).to_affine();
        for len in [1, 7, 8, 9, 255, 256, 257, 1000] {
            let pairs: Vec<_> = (0..len as u64)
                .map(|i| match i % 11 {
                    3 => (multiple(i), multiple(i)),
                    5 => (multiple(i), multiple(i).neg()),
                    7 => (Affine::INFINITY, multiple(i)),
                    9 => (multiple(i), Affine::INFINITY),
                    _ => (multiple(i), multiple(2 * i + 1)),
                })
                .collect();
            let mut out = vec![Affine::INFINITY; len];
            for (i, (a, b)) in pairs.iter().enumerate() {
                adder.push(*a, *b, len - 1 - i, &mut out);
            }
            adder.flush(&mut out);
            for ((a, b), sum) in pairs.iter().zip(out.iter().rev()) {
                assert_eq!(*sum, (a.to_point() + *b).to_affine(), "{} pairs in {}", len, F::GROUP);
                assert!(sum.is_canonical());
            }
        }
    }

    fn scalar<F: Coordinate>() -> Adder<F> {
        let mut adder = Adder::new();
        #[cfg(target_arch = "x86_64")]
        {
            adder.lanes = None;
        }
        adder
    }

    #[test]
    fn scalar_sums_are_right() {
        sums_are_right::<Fp>(scalar());
        sums_are_right::<Fp2>(scalar());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vector_sums_are_right() {
        if !super::super::ifma::is_available() {
            eprintln!("not run: this CPU has no AVX512-IFMA");
            return;
        }
        let vector = || Adder { lanes: Some(super::super::ifma::Lanes::new()), ..scalar() };
        sums_are_right::<Fp>(vector());
        sums_are_right::<Fp2>(Adder { lanes: Some(super::super::ifma::Lanes::new()), ..scalar() });
    }

    #[test]
    fn digits_add_up_to_the_scalar() {
        let samples = [Fr::ZERO, Fr::ONE, -Fr::ONE, Fr::from(u64::MAX), Fr::from(7).inverse()];
        for (limbs, c) in samples.iter().flat_map(|s| (1..=17).map(|c| (s.to_canonical_limbs(), c)))
        {
            let windows = 255 / c as usize + 1;
            let sum = (0..windows).rev().fold(Fr::ZERO, |sum, window| {
                let digit = booth_digit(&limbs, window, c);
                assert!(digit.unsigned_abs() <= 1 << (c - 1));
                let shifted = (0..c).fold(sum, |sum, _| sum.double());
                let magnitude = Fr::from(u64::from(digit.unsigned_abs()));
                if digit < 0 { shifted - magnitude } else { shifted + magnitude }
            });
            assert_eq!(sum.to_canonical_limbs(), limbs, "{c} bits");
        }
    }
}
