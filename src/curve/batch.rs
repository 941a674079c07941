//! Many affine additions at once, and many multiples of one point.

use rayon::prelude::*;

use super::{Affine, Coordinate};
use crate::field::Fr;

/// Additions that share one inversion. An inversion costs about 65 multiplications, so 256 make it a quarter
/// of one each, while the batch (5 coordinates and a prefix, 72 KiB in G1) stays in a second-level cache.
pub(crate) const BATCH: usize = 256;
/// Affine additions that wait for one shared inversion.
///
/// A sum goes to `out[slot]` at once if it needs no inversion, else at the next flush; within a
/// batch no summand may be a slot that is still to be written.
pub(crate) struct Adder<F> {
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
        Self { len: 0, product: F::ONE, pending: vec![empty; BATCH] }
    }

    /// Puts a + b on the way to `out[slot]`.
    #[inline(always)]
    pub(crate) fn push(&mut self, a: Affine<F>, b: Affine<F>, slot: usize, out: &mut [Affine<F>]) {
        let (x1, y1, x2) = (a.x(), a.y(), b.x());
        let (mut numerator, mut denominator) = (b.y() - y1, x2 - x1);
        if a.is_infinity() {
            out[slot] = b;
            return;
        } else if b.is_infinity() {
            out[slot] = a;
            return;
        } else if denominator.is_zero() {
            // P + P, but for y = 0 (order 2, only off the subgroup), or P - P
            if !numerator.is_zero() || y1.is_zero() {
                out[slot] = Affine::INFINITY;
                return;
            }
            let square = x1.square();
            (numerator, denominator) = (square.double() + square, y1.double());
        }
        let prefix = self.product;
        self.product *= denominator;
        self.pending[self.len] = Pending { slot, prefix, numerator, denominator, x1, y1, x2 };
        self.len += 1;
        if self.len == BATCH {
            self.flush(out);
        }
    }

    /// Writes all sums that wait.
    pub(crate) fn flush(&mut self, out: &mut [Affine<F>]) {
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

/// Multiples of one point by many scalars, from tables of its multiples: 255/c additions a scalar,
/// 256 scalars sharing each inversion.
pub(crate) struct FixedBase<F> {
    c: u32,
    /// For window i, the multiples 1..=2^(c-1) of 2^(c i) times the point.
    windows: Vec<Vec<Affine<F>>>,
}

impl<F: Coordinate> FixedBase<F> {
    /// Tables for about `count` scalars.
    pub(crate) fn new(point: &Affine<F>, count: usize) -> Self {
        let windows = |c: u32| 255 / c as usize + 1;
        let cost = |c: &u32| windows(*c) * (count + (1 << (c - 1)));
        // 10 bits: 26 tables of 512 points are 1.2 MiB in G1, still near a core.
        let c = (2..=10).min_by_key(cost).unwrap_or(2);
        let mut base = point.to_point();
        let mut tables = Vec::with_capacity(windows(c));
        for _ in 0..windows(c) {
            let first = base.to_affine();
            tables.push(multiples(first, 1 << (c - 1)));
            base = (0..c).fold(base, |base, _| base.double());
        }
        Self { c, windows: tables }
    }

    /// `scalars[i]` times the point, for each i.
    pub(crate) fn multiply(&self, scalars: &[Fr]) -> Vec<Affine<F>> {
        let mut out = vec![Affine::INFINITY; scalars.len()];
        out.par_chunks_mut(BATCH).zip(scalars.par_chunks(BATCH)).for_each(|(out, scalars)| {
            let limbs: Vec<[u64; 4]> = scalars.iter().map(Fr::to_canonical_limbs).collect();
            let mut adder = Adder::new();
            for (i, table) in self.windows.iter().enumerate() {
                for (slot, limbs) in limbs.iter().enumerate() {
                    let digit = booth_digit(limbs, i, self.c);
                    if digit != 0 {
                        let multiple = table[digit.unsigned_abs() as usize - 1];
                        let multiple = if digit < 0 { multiple.neg() } else { multiple };
                        adder.push(out[slot], multiple, slot, out);
                    }
                }
                adder.flush(out);
            }
        });
        out
    }
}

/// 1..=count times a point: from m multiples, the next m in one batch.
fn multiples<F: Coordinate>(point: Affine<F>, count: usize) -> Vec<Affine<F>> {
    let mut out = vec![Affine::INFINITY; count];
    out[0] = point;
    let mut adder = Adder::new();
    let mut done = 1;
    while done < count {
        let step = done.min(count - done);
        let last = out[done - 1];
        for i in 0..step {
            adder.push(out[i], last, done + i, &mut out);
        }
        adder.flush(&mut out);
        done += step;
    }
    out
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
