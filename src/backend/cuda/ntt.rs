//! Transforms: how the levels of butterflies are cut into passes, and the tables of powers.
//!
//! An index of log_n bits is cut into digits of at most [`DIGIT`] bits, one pass each. A pass takes the levels of one
//! digit, through shared memory: a tile holds some transforms over that digit. Between two passes every element turns by a power of
//! v, the primitive 2n-th root of unity: with `low` bits below the digit, the element whose bits there are l and whose
//! digit, reversed, is d turns by the power 2 l d of the 2^(low + bits + 1)-th root; on the odd coset by (2 l + 1) d, so that
//! the coset costs nothing between passes, and one product an element in the lowest pass.

use super::driver::Stream;
use super::launch::{Kernels, Roots, Slice};
use crate::Result;
use crate::backend::Transform;
use crate::field::{Field, Fr};

/// Elements of a tile: 32 KiB of shared memory, eight elements a thread. With 64 KiB a block waits more than others
/// work (H200, 2026-11-30: 6 to 9 % slower from 2^20 to 2^27).
pub(super) const TILE: usize = 1 << DIGIT;

/// Bits of a digit at most: a transform over a digit fits a tile.
const DIGIT: u32 = 10;

/// A known factor as the kernels have it, as long as two elements: `Factor` in cuda/loose.cuh.
pub(super) type Factor = [Fr; 2];

/// Factors of the table of turns, `TURNS` in cuda/ntt.cu: what elements turn by inside a digit with 1 to DIGIT - 3 bits
/// below three levels, seven rows of all bits and values, and the inverses of that.
const TURNS: usize = 2 * 7 * (2 << (DIGIT - 3));

/// The levels over one digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// Bits below the digit.
    pub low: u32,
    /// Bits of the digit.
    pub bits: u32,
    /// On the odd coset.
    pub odd: bool,
    /// The powers of v that the elements turn by.
    pub twiddle: Twiddle,
}

/// Where the power of v for an element comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Twiddle {
    /// All are 1.
    None = 0,
    /// An entry of the fine table.
    Fine = 1,
    /// An entry of the coarse table.
    Coarse = 2,
    /// The product of one of each, an extra product.
    Both = 3,
}

/// Parts of a transform table. Powers v^e for e below n; those from n on are the negatives, since v^n = -1.
pub(super) struct Tables {
    /// Powers of roots of unity of small order: see cuda/ntt.cu.
    pub turns: Slice<Factor>,
    /// v^(e 2^split) for e below 2^(log_n - split).
    pub coarse: Slice<Factor>,
    /// v^e for e below 2^split.
    pub fine: Slice<Factor>,
    /// The same divided by n, for the topmost pass of the inverse transforms.
    pub fine_inverse: Slice<Factor>,
    /// See [`split`].
    pub split: u32,
}

impl Tables {
    fn new(log_n: u32, whole: Slice<Fr>) -> Self {
        let split = split(log_n);
        let (fine, coarse) = (1 << split, 1 << (log_n - split));
        let whole = Slice::<Factor>::new(whole.address, whole.len / 2);
        Self {
            turns: whole.part(0, TURNS),
            coarse: whole.part(TURNS, coarse),
            fine: whole.part(TURNS + coarse, fine),
            fine_inverse: whole.part(TURNS + coarse + fine, fine),
            split,
        }
    }
}

/// How many bits of an exponent index the fine table, the rest the coarse one: those of the topmost digit, so that all
/// exponents of the other passes are multiples of 2^split and need the coarse table alone.
fn split(log_n: u32) -> u32 {
    digit(log_n, 0).1
}

/// Elements of the tables for 2^log_n elements.
pub(super) fn table_len(log_n: u32) -> usize {
    let split = split(log_n);
    2 * (TURNS + (1 << (log_n - split)) + (2 << split))
}

pub(super) fn fill_table(
    kernels: &Kernels,
    stream: &Stream,
    log_n: u32,
    whole: Slice<Fr>,
) -> Result<()> {
    let n = Fr::from(1u64 << log_n);
    let unity = std::array::from_fn(|k| Fr::root_of_unity(k as u32));
    let roots = Roots { unity, inverse_n: n.inverse() };
    kernels.ntt_table(stream, log_n, &Tables::new(log_n, whole), &roots)
}

pub(super) fn ntt(
    kernels: &Kernels,
    stream: &Stream,
    transform: Transform,
    table: Slice<Fr>,
    data: Slice<Fr>,
) -> Result<()> {
    let log_n = data.len.ilog2();
    let tables = Tables::new(log_n, table);
    let odd = matches!(transform, Transform::InterpolateOdd | Transform::EvaluateOdd);
    let inverse = matches!(transform, Transform::Interpolate | Transform::InterpolateOdd);
    passes(log_n, inverse, odd)
        .into_iter()
        .try_for_each(|pass| kernels.ntt_pass(stream, inverse, log_n, pass, &tables, data))
}

fn digits(log_n: u32) -> u32 {
    log_n.div_ceil(DIGIT)
}

/// The lowest bit of digit `index`, counted from the top, and its bits: as even as can be, longer ones on top.
fn digit(log_n: u32, index: u32) -> (u32, u32) {
    let count = digits(log_n);
    let (bits, longer) = (log_n / count, log_n % count);
    let above = |index: u32| index * bits + index.min(longer);
    (log_n - above(index + 1), above(index + 1) - above(index))
}

/// The passes in their order: interpolation from the top digit down, evaluation from the lowest up.
fn passes(log_n: u32, inverse: bool, odd: bool) -> Vec<Pass> {
    let pass = |index| {
        let (low, bits) = digit(log_n, index);
        // The topmost pass of an inverse transform divides by n as well.
        let twiddle = match index {
            0 if low == 0 && !odd && !inverse => Twiddle::None,
            0 if low == 0 => Twiddle::Fine,
            0 => Twiddle::Both,
            _ if low == 0 && !odd => Twiddle::None,
            _ => Twiddle::Coarse,
        };
        Pass { low, bits, odd, twiddle }
    };
    let from_the_top = (0..digits(log_n)).map(pass);
    if inverse { from_the_top.collect() } else { from_the_top.rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_cover_every_bit_once_and_fit_a_tile() {
        for log_n in 1..=31 {
            let mut end = log_n;
            for index in 0..digits(log_n) {
                let (low, bits) = digit(log_n, index);
                assert_eq!(low + bits, end, "digit {index} of {log_n} bits");
                assert!((1..=DIGIT).contains(&bits));
                // Exponents of this pass, as powers of v, are multiples of 2^(log_n - low - bits).
                assert!(index == 0 || log_n - low - bits >= split(log_n));
                end = low;
            }
            assert_eq!(end, 0);
        }
    }
}
