//! Transforms in place without a permutation: interpolation is decimation in frequency (natural to
//! bit-reversed), evaluation is decimation in time (bit-reversed to natural).
//!
//! With v the primitive 2n-th root, a butterfly of half-width m at position j turns on v^e with
//! e = j n/m on the subgroup and e = (2j + 1) n/(2m) on the odd coset: both are entries of one table
//! of v's powers, so the coset costs no multiplication of its own. The inverse factor is
//! v^-e = -v^(n - e), the same table read from its end.

use rayon::prelude::*;

use crate::backend::Transform;
use crate::field::{Field, Fr};

/// Blocks up to 2^12 elements (128 KiB) are transformed by one thread: with their table they stay
/// in a second-level cache of 512 KiB and more, and 2^20 elements still make 256 tasks.
const LOG_BLOCK: u32 = 12;

/// v^0..=v^n, and behind it, for n above a block, the same for a block's size, so that the inner
/// levels read a dense table.
pub(in crate::backend) fn table_len(log_n: u32) -> usize {
    let block = if log_n > LOG_BLOCK { (1 << LOG_BLOCK) + 1 } else { 0 };
    (1 << log_n) + 1 + block
}

pub(in crate::backend) fn fill_table(log_n: u32, table: &mut [Fr]) {
    let (whole, block) = table.split_at_mut((1 << log_n) + 1);
    let v = Fr::root_of_unity(log_n + 1);
    let len = 1 << LOG_BLOCK;
    whole.par_chunks_mut(len).enumerate().for_each(|(i, chunk)| {
        let mut power = v.pow((i * len) as u64);
        for entry in chunk {
            *entry = power;
            power *= v;
        }
    });
    for (i, entry) in block.iter_mut().enumerate() {
        *entry = whole[i << (log_n - LOG_BLOCK)];
    }
}

pub(in crate::backend) fn ntt(transform: Transform, table: &[Fr], data: &mut [Fr]) {
    let n = data.len();
    let (whole, block) = table.split_at(n + 1);
    let tables = Tables { whole, block: if block.is_empty() { whole } else { block } };
    match transform {
        Transform::Interpolate => interpolate(&tables, false, data),
        Transform::InterpolateOdd => interpolate(&tables, true, data),
        Transform::Evaluate => evaluate(&tables, false, data),
        Transform::EvaluateOdd => evaluate(&tables, true, data),
    }
    if matches!(transform, Transform::Interpolate | Transform::InterpolateOdd) {
        let scale = Fr::from(n as u64).inverse();
        data.par_iter_mut().with_min_len(1 << LOG_BLOCK).for_each(|x| *x *= scale);
    }
}

struct Tables<'a> {
    whole: &'a [Fr],
    block: &'a [Fr],
}

/// The exponents of a level in a table of v^0..=v^n: position j turns on `first + j step`.
fn exponents(table: &[Fr], m: usize, odd: bool) -> (usize, usize) {
    let n = table.len() - 1;
    (if odd { n / (2 * m) } else { 0 }, n / m)
}

/// One level of decimation in frequency on the halves of a block: (a + b, (a - b) v^-e).
fn split(table: &[Fr], odd: bool, low: &mut [Fr], high: &mut [Fr], m: usize, at: usize) {
    let (first, step) = exponents(table, m, odd);
    let inverse = table[..=table.len() - 1 - first - at * step].iter().rev().step_by(step);
    for ((a, b), factor) in low.iter_mut().zip(high).zip(inverse) {
        (*a, *b) = (*a + *b, (*b - *a) * *factor);
    }
}

/// One level of decimation in time on the halves of a block: (a + b v^e, a - b v^e).
fn merge(table: &[Fr], odd: bool, low: &mut [Fr], high: &mut [Fr], m: usize, at: usize) {
    let (first, step) = exponents(table, m, odd);
    let factors = table[first + at * step..].iter().step_by(step);
    for ((a, b), factor) in low.iter_mut().zip(high).zip(factors) {
        let turned = *b * *factor;
        (*a, *b) = (*a + turned, *a - turned);
    }
}

/// One level on the halves of a block or of a part of one: table, odd, low, high, half-width, first position.
type Butterflies = fn(&[Fr], bool, &mut [Fr], &mut [Fr], usize, usize);

/// One level of one block, its positions shared out among threads.
fn level(butterflies: Butterflies, table: &[Fr], odd: bool, low: &mut [Fr], high: &mut [Fr]) {
    let (m, len) = (low.len(), 1 << LOG_BLOCK);
    let halves = low.par_chunks_mut(len).zip(high.par_chunks_mut(len)).enumerate();
    halves.for_each(|(i, (low, high))| butterflies(table, odd, low, high, m, i * len));
}

fn interpolate(tables: &Tables<'_>, odd: bool, data: &mut [Fr]) {
    let m = data.len() / 2;
    if data.len() > 1 << LOG_BLOCK {
        let (low, high) = data.split_at_mut(m);
        level(split, tables.whole, odd, low, high);
        rayon::join(|| interpolate(tables, odd, low), || interpolate(tables, odd, high));
        return;
    }
    for m in std::iter::successors(Some(m), |m| Some(m / 2)).take_while(|m| *m > 0) {
        for block in data.chunks_exact_mut(2 * m) {
            let (low, high) = block.split_at_mut(m);
            split(tables.block, odd, low, high, m, 0);
        }
    }
}

fn evaluate(tables: &Tables<'_>, odd: bool, data: &mut [Fr]) {
    let half = data.len() / 2;
    if data.len() > 1 << LOG_BLOCK {
        let (low, high) = data.split_at_mut(half);
        rayon::join(|| evaluate(tables, odd, low), || evaluate(tables, odd, high));
        level(merge, tables.whole, odd, low, high);
        return;
    }
    for m in std::iter::successors(Some(1), |m| Some(m * 2)).take_while(|m| *m <= half) {
        for block in data.chunks_exact_mut(2 * m) {
            let (low, high) = block.split_at_mut(m);
            merge(tables.block, odd, low, high, m, 0);
        }
    }
}
