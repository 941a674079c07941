//! Compact vectors to plain ones, block by block.

use rayon::prelude::*;

use crate::backend::Output;
use crate::compact::{BLOCK, Block};
use crate::field::{Field, Fr};

pub(in crate::backend) fn expand(
    blocks: &[Block],
    small: &[u32],
    wide: &[Fr],
    output: Output,
    out: &mut [Fr],
) {
    let covered = out.len().min(blocks.len() * BLOCK);
    let (covered, rest) = out.split_at_mut(covered);
    let each = covered.par_chunks_mut(BLOCK).zip(blocks).with_min_len(16);
    each.for_each(|(out, block)| match output {
        Output::Set => block.expand(small, wide, out),
        Output::Multiply => {
            let mut factors = [Fr::ZERO; BLOCK];
            block.expand(small, wide, &mut factors);
            out.iter_mut().zip(&factors).for_each(|(out, factor)| *out *= *factor);
            factors.fill(Fr::ZERO);
        }
    });
    // Set or multiplied, what has no element becomes 0.
    rest.par_chunks_mut(1 << 12).for_each(|rest| rest.fill(Fr::ZERO));
}
