//! Compact vectors to plain ones. Values may be in other segments than their tags' place suggests: a launch for each segment of
//! small and wide values writes what it has the value of.

use bytemuck::{Pod, Zeroable};

use super::Gpu;
use super::commands::{Binding, Commands};
use super::kernels::{Kernel, LANES};
use super::memory::Memory;
use crate::Result;
use crate::backend::Output;
use crate::compact::BLOCK;
use crate::field::{Field, Fr};

/// `Parameters` in shaders/expand.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Parameters {
    square: Fr,
    out_at: u32,
    len: u32,
    block_at: u32,
    small_begin: u32,
    small_end: u32,
    wide_begin: u32,
    wide_end: u32,
    first: u32,
    rounds: u32,
    unused: [u32; 3],
}

pub(super) fn expand(
    gpu: &Gpu,
    blocks: &Memory,
    small: &Memory,
    wide: &Memory,
    output: Output,
    out: &Memory,
) -> Result<()> {
    let mut commands = Commands::new(gpu);
    let covered = out.len().min(blocks.len() * BLOCK);
    let most = gpu.groups_at_once(Kernel::Expand) as usize * LANES as usize;
    // R = 2^256, as it is in memory, in Montgomery form: R^2.
    let square = Fr::from(1 << 32).square().square().square();
    let mut start = 0;
    while start < covered {
        let block = start / BLOCK;
        let end = covered
            .min(out.segment_end(start))
            .min(blocks.segment_end(block) * BLOCK)
            .min(start + most);
        let (mut small_segments, mut wide_segments) = (small.segments(), wide.segments());
        let mut first = true;
        loop {
            let next = (small_segments.next(), wide_segments.next());
            if !first && next.0.is_none() && next.1.is_none() {
                break;
            }
            let bound = |segment: Option<(&wgpu::Buffer, std::ops::Range<usize>)>| match segment {
                Some((buffer, range)) => {
                    (Binding::whole(buffer), range.start as u32, range.end as u32)
                }
                None => (Binding::whole(&gpu.nothing), 0, 0),
            };
            let (small, small_begin, small_end) = bound(next.0);
            let (wide, wide_begin, wide_end) = bound(next.1);
            let parameters = Parameters {
                square,
                out_at: out.place(start) as u32,
                len: (end - start) as u32,
                block_at: blocks.place(block) as u32,
                small_begin,
                small_end,
                wide_begin,
                wide_end,
                first: first.into(),
                rounds: match output {
                    Output::Set => 1,
                    Output::Multiply => 2,
                },
                unused: [0; 3],
            };
            let bindings = [
                Binding::whole(blocks.segment_of(block)),
                small,
                wide,
                Binding::whole(out.segment_of(start)),
            ];
            let groups = ((end - start) as u32).div_ceil(LANES);
            commands.run(Kernel::Expand, &bindings, &parameters, groups)?;
            first = false;
        }
        start = end;
    }
    // Set or multiplied, what has no element becomes 0.
    out.pieces(covered..out.len()).for_each(|piece| commands.clear(&piece));
    commands.submit()
}
