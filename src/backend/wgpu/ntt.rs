//! Transforms: how the levels of butterflies are cut into passes, and the tables of powers.
//!
//! The bits of an index that tell places within a segment apart are cut into digits, one pass each: a pass takes the levels of one
//! digit, through workgroup memory, where a tile holds some transforms over that digit. Each bit above is a level between pairs
//! of segments. Between two passes every element turns by a power of v, the primitive 2n-th root of unity: with `low` bits
//! below the digit, the element whose bits there are l and whose digit, reversed, is d turns by the power (2 l) d of the
//! 2^(low + bits + 1)-th root; on the odd coset by (2 l + 1) d, so that the coset costs nothing between passes, and one product an
//! element in the lowest pass. That pass also divides by n.

use std::sync::PoisonError;

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;

use super::Gpu;
use super::commands::{Binding, Commands};
use super::kernels::{self, Kernel};
use super::memory::Memory;
use crate::Result;
use crate::backend::Transform;
use crate::field::{Field, Fr};

/// Bits of the lowest digit at most: its transforms fill a tile.
const LOG_TILE: u32 = 9;

/// Elements of a tile, 16 KiB: what every adapter has of workgroup memory.
pub(super) const TILE: u32 = 1 << LOG_TILE;

/// Threads of a workgroup: each has two elements of a tile, or one butterfly.
pub(super) const LANES: u32 = TILE / 2;

/// Bits of the other digits at most, so that a tile has four neighbours of each, 128 bytes. With two, at 8 bits, there is a pass less and
/// the whole takes 2.5 times as long (2^24 on an H200).
const DIGIT: u32 = 7;

/// The levels over one digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digit {
    /// Bits below it.
    low: u32,
    /// Bits of it.
    bits: u32,
}

/// `Parameters` in shaders/ntt.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Parameters {
    inverse: u32,
    low: u32,
    bits: u32,
    columns: u32,
    odd: u32,
    factors: u32,
    direct: u32,
    direct_base: u32,
    direct_stride: u32,
    shift: u32,
    mask: u32,
    split: u32,
    coarse: u32,
    fine: u32,
    first_tile: u32,
    tiles: u32,
}

/// `Parameters` in shaders/ntt_across.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct AcrossParameters {
    inverse: u32,
    odd: u32,
    at: u32,
    len: u32,
    between: u32,
    shift: u32,
    mask: u32,
    split: u32,
    coarse: u32,
    fine: u32,
    factors: u32,
    unused: u32,
}

/// How 2^log_n elements in segments of 2^log_segment are transformed, and where what stands in the table.
#[derive(Debug)]
struct Layout {
    log_n: u32,
    /// Bits that tell places within a segment apart.
    within: u32,
    /// The highest first.
    digits: Vec<Digit>,
    /// Bits of an exponent that index the fine table, the rest the coarse one: if there are digits between the first and the
    /// last, as many as are above the second, so that these digits' exponents need the coarse table alone.
    split: u32,
    /// 1/n.
    scale: u32,
    /// Powers of the lowest digit's 2^bits-th root of -1, and the inverses of that by n.
    odd: u32,
    odd_inverse: u32,
    /// v^(e 2^split) for e below 2^(log_n + 1 - split).
    coarse: u32,
    /// v^e for e below 2^split.
    fine: u32,
    /// Elements of all of the table.
    len: u32,
}

impl Layout {
    fn new(log_n: u32, log_segment: u32) -> Self {
        let within = log_n.min(log_segment);
        let lowest = within.min(LOG_TILE);
        let others = (within - lowest).div_ceil(DIGIT);
        let mut digits = Vec::new();
        let mut high = within;
        for left in (1..=others).rev() {
            let bits = (high - lowest).div_ceil(left);
            high -= bits;
            digits.push(Digit { low: high, bits });
        }
        digits.push(Digit { low: 0, bits: lowest });
        let split = match digits.len() {
            1 | 2 => log_n.div_ceil(2),
            _ => log_n - digits[0].low,
        };
        // The powers of the 512th root come first, 0 to 256.
        let scale = TILE / 2 + 1;
        let odd = scale + 1;
        let odd_inverse = odd + (1 << lowest);
        let coarse = odd_inverse + (1 << lowest);
        // A lowest digit alone needs neither.
        let is_one_pass = digits.len() == 1 && within == log_n;
        let fine = coarse + if is_one_pass { 0 } else { 1 << (log_n + 1 - split) };
        let len = fine + if is_one_pass { 0 } else { 1 << split };
        Self { log_n, within, digits, split, scale, odd, odd_inverse, coarse, fine, len }
    }

    /// All exponents of v are below this + 1.
    fn mask(&self) -> u32 {
        u32::MAX >> (31 - self.log_n)
    }

    fn table(&self) -> Vec<Fr> {
        let v = Fr::root_of_unity(self.log_n + 1);
        let scale = Fr::from(1 << self.log_n).inverse();
        let lowest = self.digits[self.digits.len() - 1].bits;
        let root = Fr::root_of_unity(lowest + 1);
        let mut table = powers(Fr::root_of_unity(LOG_TILE), Fr::ONE, TILE as usize / 2 + 1);
        table.push(scale);
        table.extend(powers(root, Fr::ONE, 1 << lowest));
        table.extend(powers(root.inverse(), scale, 1 << lowest));
        if self.len > self.coarse {
            let coarse = v.pow(1 << self.split);
            table.extend(powers(coarse, Fr::ONE, (self.fine - self.coarse) as usize));
            table.extend(powers(v, Fr::ONE, (self.len - self.fine) as usize));
        }
        table
    }
}

/// `first` times the powers of `base` from 0 on.
fn powers(base: Fr, first: Fr, len: usize) -> Vec<Fr> {
    const CHUNK: usize = 1 << 12;
    let mut powers = vec![Fr::ZERO; len];
    powers.par_chunks_mut(CHUNK).enumerate().for_each(|(i, chunk)| {
        let mut power = first * base.pow((i * CHUNK) as u64);
        for entry in chunk {
            *entry = power;
            power *= base;
        }
    });
    powers
}

/// Elements of the table for 2^log_n elements.
pub(super) fn table_len(log_n: u32, log_segment: u32) -> usize {
    Layout::new(log_n, log_segment).len as usize
}

/// The table's elements; made once for each size.
pub(super) fn table(gpu: &Gpu, log_n: u32, log_segment: u32) -> std::sync::Arc<Vec<Fr>> {
    let mut tables = gpu.tables.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || std::sync::Arc::new(Layout::new(log_n, log_segment).table());
    tables.entry((log_n, log_segment)).or_insert_with(make).clone()
}

pub(super) fn ntt(gpu: &Gpu, transform: Transform, table: &Memory, data: &Memory) -> Result<()> {
    let log_n = data.len().ilog2();
    let layout = Layout::new(log_n, data.log_segment());
    debug_assert_eq!(table.len(), layout.len as usize, "a table of this size");
    let inverse = matches!(transform, Transform::Interpolate | Transform::InterpolateOdd);
    let odd = matches!(transform, Transform::InterpolateOdd | Transform::EvaluateOdd);
    let run = Run { gpu, layout, inverse, odd, table: Binding::whole(table.segment_of(0)), data };
    let mut commands = Commands::new(gpu);
    let (within, digits) = (run.layout.within, run.layout.digits.clone());
    if inverse {
        (within..log_n).rev().try_for_each(|low| run.across(&mut commands, low))?;
        digits.iter().try_for_each(|digit| run.pass(&mut commands, *digit))?;
    } else {
        digits.iter().rev().try_for_each(|digit| run.pass(&mut commands, *digit))?;
        (within..log_n).try_for_each(|low| run.across(&mut commands, low))?;
    }
    commands.submit()
}

struct Run<'a> {
    gpu: &'a Gpu,
    layout: Layout,
    inverse: bool,
    odd: bool,
    table: Binding,
    data: &'a Memory,
}

impl Run<'_> {
    /// The levels over a digit, in every segment.
    fn pass(&self, commands: &mut Commands<'_>, digit: Digit) -> Result<()> {
        let Layout { log_n, within, split, scale, odd, odd_inverse, coarse, fine, .. } =
            self.layout;
        let Digit { low, bits } = digit;
        let columns = low.min(LOG_TILE - bits);
        let shift = log_n - low - bits;
        let (factors, direct_base, direct_stride) = match (low, self.inverse, self.odd) {
            (0, true, false) => (1, scale, 0),
            (0, true, true) => (1, odd_inverse, 1),
            (0, false, false) => (0, 0, 0),
            (0, false, true) => (1, odd, 1),
            _ => (if shift >= split { 1 } else { 2 }, 0, 0),
        };
        let all = 1 << (within - bits - columns);
        let most = self.gpu.groups_at_once(Kernel::Ntt);
        for (segment, _) in self.data.segments() {
            let mut first_tile = 0;
            while first_tile < all {
                let tiles = most.min(all - first_tile);
                let parameters = Parameters {
                    inverse: self.inverse.into(),
                    low,
                    bits,
                    columns,
                    odd: self.odd.into(),
                    factors,
                    direct: (low == 0).into(),
                    direct_base,
                    direct_stride,
                    shift,
                    mask: self.layout.mask(),
                    split,
                    coarse,
                    fine,
                    first_tile,
                    tiles,
                };
                let bindings = [self.table.clone(), Binding::whole(segment)];
                commands.run(Kernel::Ntt, &bindings, &parameters, tiles)?;
                first_tile += tiles;
            }
        }
        Ok(())
    }

    /// The level of bit `low` of the index, which tells segments apart.
    fn across(&self, commands: &mut Commands<'_>, low: u32) -> Result<()> {
        let Layout { log_n, within, split, coarse, fine, .. } = self.layout;
        let distance = 1usize << (low - within);
        let segments: Vec<_> = self.data.segments().map(|(segment, _)| segment).collect();
        let len = 1u32 << within;
        let most = self.gpu.groups_at_once(Kernel::NttAcross).saturating_mul(kernels::LANES);
        for (i, segment) in segments.iter().enumerate().filter(|(i, _)| i & distance == 0) {
            let mut at = 0;
            while at < len {
                let part = most.min(len - at);
                let parameters = AcrossParameters {
                    inverse: self.inverse.into(),
                    odd: self.odd.into(),
                    at,
                    len: part,
                    between: ((i & (distance - 1)) << within) as u32,
                    shift: log_n - low - 1,
                    mask: self.layout.mask(),
                    split,
                    coarse,
                    fine,
                    factors: 2,
                    unused: 0,
                };
                let bindings = [
                    self.table.clone(),
                    Binding::whole(segment),
                    Binding::whole(segments[i + distance]),
                ];
                let groups = part.div_ceil(kernels::LANES);
                commands.run(Kernel::NttAcross, &bindings, &parameters, groups)?;
                at += part;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_cover_every_bit_once() {
        for log_n in 1..=31 {
            for log_segment in [5, 7, 9, 12, 22, 25] {
                let layout = Layout::new(log_n, log_segment);
                let mut high = layout.within;
                for digit in &layout.digits {
                    assert_eq!(digit.low + digit.bits, high, "{layout:?}");
                    assert!((1..=LOG_TILE).contains(&digit.bits), "{layout:?}");
                    high = digit.low;
                }
                assert_eq!(high, 0, "{layout:?}");
                // All but the first and the last turn by one factor.
                let inner = layout.digits.iter().skip(1).rev().skip(1);
                let is_coarse = |digit: &Digit| log_n - digit.low - digit.bits >= layout.split;
                assert!(inner.into_iter().all(is_coarse), "{layout:?}");
                assert!(u64::from(layout.len) * 32 <= 64 << 20, "a table that may be bound");
            }
        }
    }
}
