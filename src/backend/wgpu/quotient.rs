//! The pointwise steps of the quotient.

use bytemuck::{Pod, Zeroable};

use super::Gpu;
use super::commands::{Binding, Commands};
use super::kernels::{Kernel, LANES};
use super::memory::Memory;
use crate::Result;
use crate::backend::Quotient;

/// `Parameters` in shaders/quotient.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Parameters {
    step: u32,
    len: u32,
    a_at: u32,
    x_at: u32,
}

pub(super) fn quotient(gpu: &Gpu, step: Quotient, a: &Memory, x: &Memory) -> Result<()> {
    let mut commands = Commands::new(gpu);
    let most = gpu.groups_at_once(Kernel::Quotient) as usize * LANES as usize;
    let mut start = 0;
    while start < a.len() {
        let end = a.len().min(a.segment_end(start)).min(x.segment_end(start)).min(start + most);
        let (left, right) =
            ((a.segment_of(start), a.place(start)), (x.segment_of(start), x.place(start)));
        step_on(&mut commands, step, left, right, end - start)?;
        start = end;
    }
    commands.submit()
}

/// The step on `len` elements from a place in a segment on; of `a` and of `x`.
pub(super) fn step_on(
    commands: &mut Commands<'_>,
    step: Quotient,
    a: (&wgpu::Buffer, usize),
    x: (&wgpu::Buffer, usize),
    len: usize,
) -> Result<()> {
    let parameters = Parameters {
        step: match step {
            Quotient::Product => 0,
            Quotient::Difference => 1,
            Quotient::HalfDifference => 2,
        },
        len: len as u32,
        a_at: a.1 as u32,
        x_at: x.1 as u32,
    };
    let bindings = [Binding::whole(a.0), Binding::whole(x.0)];
    commands.run(Kernel::Quotient, &bindings, &parameters, (len as u32).div_ceil(LANES))
}
