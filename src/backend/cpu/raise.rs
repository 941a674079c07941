//! Multiples beside a key's points: each copy from the one before, by affine doublings that share their inversions.

use rayon::prelude::*;

use crate::backend::Raised;
use crate::curve::batch::{Adder, BATCH};
use crate::curve::{Affine, Coordinate};

/// Copy k of the points that stand first becomes 2^(w k) times these.
pub(in crate::backend) fn raise<F: Coordinate>(raised: Raised, points: &mut [Affine<F>]) {
    let len = points.len() / raised.windows();
    for window in 1..raised.windows() {
        let (done, rest) = points.split_at_mut(window * len);
        let last = done[(window - 1) * len..].par_chunks(BATCH);
        rest[..len].par_chunks_mut(BATCH).zip(last).for_each(|(points, last)| {
            points.copy_from_slice(last);
            let mut adder = Adder::new();
            for _ in 0..raised.window_bits() {
                for slot in 0..points.len() {
                    adder.push(points[slot], points[slot], slot, points);
                }
                adder.flush(points);
            }
        });
    }
}
