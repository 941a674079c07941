//! Transforms of vectors that stand on the host, larger than the device has room for.
//!
//! n = k m: the device transforms blocks of m elements, the host does the k-point transforms across them. In
//! bit-reversed order block j holds the coefficients whose index is `bit_reverse(j)` modulo k, which are a polynomial P_r
//! of their own: P(x) = sum over r of x^r P_r(x^k), r = `bit_reverse(j)`. With x = v_2n^(2i+1) (or w_n^i), x^k is
//! v_2m^(2i+1) (or w_m^i): the same transform, of m elements. And the points i + m t share x^k, so that they are a k-point
//! transform of x^r P_r.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::backend::{Backend, Transform, bit_reverse};
use crate::budget::Lease;
use crate::field::{Field, Fr};
use crate::{Error, Result};

/// Elements of each block that one task joins: 64 blocks' parts are half a megabyte.
const TILE: usize = 1 << 8;

/// The device's part: two blocks, each on a stream of its own, so that one is copied while the other is transformed.
pub(super) struct Blocks<'a, B: Backend> {
    backend: &'a B,
    log_block: u32,
    table: B::Buffer<Fr>,
    slots: [(B::Stream, B::Buffer<Fr>); 2],
}

impl<'a, B: Backend> Blocks<'a, B> {
    pub(super) fn new(backend: &'a B, lease: &Lease, log_block: u32) -> Result<Self> {
        let stream = backend.stream()?;
        let table = backend.ntt_table(&stream, lease, log_block)?;
        let slot = || {
            let own = backend.stream()?;
            backend.join(&own, &stream)?;
            let buffer = backend.alloc(lease, "block of a vector", 1 << log_block)?;
            Ok::<_, Error>((own, buffer))
        };
        Ok(Self { backend, log_block, table, slots: [slot()?, slot()?] })
    }

    /// [`Backend::ntt`] of a vector on the host.
    pub(super) fn ntt(&mut self, transform: Transform, data: &mut [Fr]) -> Result<()> {
        match transform {
            Transform::Interpolate | Transform::InterpolateOdd => {
                join_blocks(transform, self.log_block, data);
                self.transform_blocks(transform, data)
            }
            Transform::Evaluate | Transform::EvaluateOdd => {
                self.transform_blocks(transform, data)?;
                join_blocks(transform, self.log_block, data);
                Ok(())
            }
        }
    }

    fn transform_blocks(&mut self, transform: Transform, data: &mut [Fr]) -> Result<()> {
        let Self { backend, table, slots, .. } = self;
        let mut waiting: [Option<&mut [Fr]>; 2] = [None, None];
        let blocks = data.chunks_exact_mut(1 << self.log_block);
        for (i, block) in blocks.map(Some).chain([None, None]).enumerate() {
            let (stream, buffer) = &mut slots[i % 2];
            if let Some(done) = waiting[i % 2].take() {
                backend.download(stream, buffer, 0, done)?;
            }
            if let Some(block) = block {
                backend.upload(stream, block, buffer, 0)?;
                backend.ntt(stream, transform, table, buffer)?;
                waiting[i % 2] = Some(block);
            }
        }
        Ok(())
    }
}

/// The k-point transforms across blocks of 2^log_block elements: before the blocks' own to interpolate, after them
/// to evaluate.
fn join_blocks(transform: Transform, log_block: u32, data: &mut [Fr]) {
    let log_n = data.len().ilog2();
    let log_k = log_n - log_block;
    let inverse = matches!(transform, Transform::Interpolate | Transform::InterpolateOdd);
    let odd = matches!(transform, Transform::InterpolateOdd | Transform::EvaluateOdd);
    let invert = |root: Fr| if inverse { root.inverse() } else { root };
    // x of element i of a block is first * step^i.
    let step = invert(Fr::root_of_unity(log_n));
    let first = if odd { invert(Fr::root_of_unity(log_n + 1)) } else { Fr::ONE };
    let w = invert(Fr::root_of_unity(log_k));
    let turns: Vec<Fr> =
        std::iter::successors(Some(Fr::ONE), |turn| Some(*turn * w)).take(1 << log_k).collect();
    let scale = if inverse { Fr::from(1 << log_k).inverse() } else { Fr::ONE };

    // Tile t has the elements from t * TILE of every block.
    let mut tiles: Vec<Vec<&mut [Fr]>> = Vec::new();
    for block in data.chunks_exact_mut(1 << log_block) {
        for (t, part) in block.chunks_mut(TILE).enumerate() {
            if t == tiles.len() {
                tiles.push(Vec::with_capacity(1 << log_k));
            }
            tiles[t].push(part);
        }
    }
    tiles.into_par_iter().enumerate().for_each(|(t, mut tile)| {
        let mut points = Zeroizing::new(vec![Fr::ZERO; 1 << log_k]);
        let mut powers = vec![Fr::ZERO; 1 << log_k];
        let mut x = first * step.pow((t * TILE) as u64);
        for i in 0..tile[0].len() {
            let mut power = scale;
            for entry in &mut powers {
                *entry = power;
                power *= x;
            }
            points.iter_mut().zip(&tile).for_each(|(point, part)| *point = part[i]);
            if inverse {
                split(&turns, &mut points);
                turn(&powers, log_k, &mut points);
            } else {
                turn(&powers, log_k, &mut points);
                merge(&turns, &mut points);
            }
            points.iter().zip(&mut tile).for_each(|(point, part)| part[i] = *point);
            x *= step;
        }
    });
}

/// Multiplies the element of residue r, at place `bit_reverse(r)`, by x^r.
fn turn(powers: &[Fr], log_k: u32, points: &mut [Fr]) {
    for (j, point) in points.iter_mut().enumerate() {
        *point *= powers[bit_reverse(j, log_k)];
    }
}

/// Natural to bit-reversed, on powers of the inverse root; not scaled.
fn split(turns: &[Fr], points: &mut [Fr]) {
    let k = points.len();
    for m in std::iter::successors(Some(k / 2), |m| Some(m / 2)).take_while(|m| *m > 0) {
        for block in points.chunks_exact_mut(2 * m) {
            let (low, high) = block.split_at_mut(m);
            for (i, (a, b)) in low.iter_mut().zip(high).enumerate() {
                (*a, *b) = (*a + *b, (*a - *b) * turns[i * (k / (2 * m))]);
            }
        }
    }
}

/// Bit-reversed to natural, on powers of the root.
fn merge(turns: &[Fr], points: &mut [Fr]) {
    let k = points.len();
    for m in std::iter::successors(Some(1), |m| Some(m * 2)).take_while(|m| *m < k) {
        for block in points.chunks_exact_mut(2 * m) {
            let (low, high) = block.split_at_mut(m);
            for (i, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let turned = *b * turns[i * (k / (2 * m))];
                (*a, *b) = (*a + turned, *a - turned);
            }
        }
    }
}
