//! Many multiples of one point.

use std::sync::Arc;

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::batch::{Adder, BATCH, booth_digit};
use super::{Affine, Coordinate};
use crate::field::Fr;

/// 10 bits: 26 windows of 512 points are 1.2 MiB in G1, still near a core.
const MAX_WINDOW_BITS: u32 = 10;

/// A point, as a table of its multiples: a multiplication is then an addition for each window of the scalar.
#[derive(Clone, Debug)]
pub struct FixedBase<F> {
    /// The bits of a window, w.
    pub window_bits: u32,
    /// For window i, the multiples 1..=2^(w-1) of 2^(w i) times the point; windows one behind the other, 255/w + 1 of
    /// them.
    pub table: Arc<Vec<Affine<F>>>,
}

fn windows(window_bits: u32) -> usize {
    255 / window_bits as usize + 1
}

/// Points of a table.
pub(crate) fn table_len(window_bits: u32) -> usize {
    windows(window_bits) << (window_bits - 1)
}

impl<F: Coordinate> FixedBase<F> {
    /// The table for about `count` scalars.
    pub fn new(point: &Affine<F>, count: usize) -> Self {
        let cost = |w: &u32| windows(*w) as u64 * (count as u64 + (1 << (w - 1)));
        Self::with_window(point, (2..=MAX_WINDOW_BITS).min_by_key(cost).unwrap_or(2))
    }

    /// The table with windows of `window_bits`, from 2 to 16.
    pub fn with_window(point: &Affine<F>, window_bits: u32) -> Self {
        assert!((2..=16).contains(&window_bits), "a window of {window_bits} bits");
        let len = 1 << (window_bits - 1);
        let mut table = vec![Affine::INFINITY; table_len(window_bits)];
        let mut base = point.to_point();
        for window in table.chunks_mut(len) {
            window[0] = base.to_affine();
            base = (0..window_bits).fold(base, |base, _| base.double());
        }
        table.par_chunks_mut(len).for_each(fill);
        Self { window_bits, table: Arc::new(table) }
    }

    /// `scalars[i]` times the point, for each i.
    pub fn multiply(&self, scalars: &[Fr]) -> Vec<Affine<F>> {
        let mut out = vec![Affine::INFINITY; scalars.len()];
        multiples(&self.table, self.window_bits, scalars, &mut out);
        out
    }
}

/// From the first multiple of a point in `multiples[0]` all others: from m of them, the next m in one batch.
fn fill<F: Coordinate>(multiples: &mut [Affine<F>]) {
    let mut adder = Adder::new();
    let mut done = 1;
    while done < multiples.len() {
        let step = done.min(multiples.len() - done);
        let last = multiples[done - 1];
        for i in 0..step {
            adder.push(multiples[i], last, done + i, multiples);
        }
        adder.flush(multiples);
        done += step;
    }
}

/// `out[i]` = `scalars[i]` times the point of a [`FixedBase`]: 255/w additions each, 256 scalars sharing every inversion.
pub(crate) fn multiples<F: Coordinate>(
    table: &[Affine<F>],
    window_bits: u32,
    scalars: &[Fr],
    out: &mut [Affine<F>],
) {
    out.par_chunks_mut(BATCH).zip(scalars.par_chunks(BATCH)).for_each(|(out, scalars)| {
        let limbs: Zeroizing<Vec<[u64; 4]>> =
            Zeroizing::new(scalars.iter().map(Fr::to_canonical_limbs).collect());
        let mut adder = Adder::new();
        out.fill(Affine::INFINITY);
        for (i, window) in table.chunks(1 << (window_bits - 1)).enumerate() {
            for (slot, limbs) in limbs.iter().enumerate() {
                let digit = booth_digit(limbs, i, window_bits);
                if digit != 0 {
                    let multiple = window[digit.unsigned_abs() as usize - 1];
                    let multiple = if digit < 0 { multiple.neg() } else { multiple };
                    adder.push(out[slot], multiple, slot, out);
                }
            }
            adder.flush(out);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Fp};

    #[test]
    fn multiples_are_right_with_any_window() {
        let g = Fp::generator();
        let wide = Fr::from(3).inverse();
        let scalars = [Fr::ZERO, Fr::ONE, -Fr::ONE, wide, -wide, Fr::from(1 << 40)];
        let by_count = [1, 300, 100_000].map(|count| FixedBase::new(&g, count));
        let by_window = (2..=16).map(|window_bits| FixedBase::with_window(&g, window_bits));
        for FixedBase { window_bits, table } in by_count.into_iter().chain(by_window) {
            let mut out = [g; 6];
            multiples(&table, window_bits, &scalars, &mut out);
            for (scalar, multiple) in scalars.iter().zip(out) {
                let want = g.to_point().scale(scalar).to_affine();
                assert_eq!(multiple, want, "{scalar:?}, windows of {window_bits} bits");
            }
        }
    }
}
