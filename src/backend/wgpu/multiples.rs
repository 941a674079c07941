//! Multiples of one point: an addition for each window of a scalar, then affine forms by batched inversions.
//!
//! So many scalars at a time as the card's working memory holds: their canonical forms, their sums in XYZZ coordinates, and
//! products of a batch. What the table has in one of its segments is added at a time.

use std::ops::Range;
use std::sync::PoisonError;

use bytemuck::{Pod, Zeroable};

use super::Gpu;
use super::commands::{Binding, Commands};
use super::kernels::{Kernel, LANES};
use super::memory::{ALIGNMENT, Memory, Piece};
use crate::Result;
use crate::curve::Coordinate;
use crate::field::{Fp, Fr};

/// Sums that share an inversion of 570 products, which one sum otherwise has twice as many of as additions.
const BATCH: usize = 8;

/// Windows of a launch: all loops of a thread together have at most 65,535 turns on some software, and an addition in G2 has up to 500
/// where products are loops.
const WINDOWS: usize = 64;

/// `Parameters` in shaders/multiples_scalars.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Scalars {
    len: u32,
    scalars_at: u32,
    unused: [u32; 2],
}

/// `Parameters` in shaders/multiples_add.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Add {
    len: u32,
    window_bits: u32,
    first_window: u32,
    windows: u32,
    table_begin: u32,
    table_end: u32,
    first: u32,
    first_sum: u32,
}

/// `Parameters` in shaders/multiples_affine.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Affine {
    /// Little-endian.
    exponent: [u64; 6],
    len: u32,
    threads: u32,
    batch: u32,
    out_at: u32,
}

/// What is multiplied: see [`Multiples`](crate::backend::Multiples).
pub(super) struct Factors<'a> {
    pub table: &'a Memory,
    pub window_bits: u32,
    pub scalars: &'a Memory,
    pub range: Range<usize>,
}

/// Where a stretch of scalars has its parts of the working memory, one behind the other.
struct Parts {
    canonical: Binding,
    sums: Binding,
    products: Binding,
    /// Bytes of all.
    bytes: u64,
}

/// Scalars that the working memory holds.
fn most<F: Coordinate>(bytes: u64) -> usize {
    let each = Fr::BYTES + size_of::<[F; 4]>() + Fp::BYTES;
    (bytes as usize - 3 * ALIGNMENT as usize) / each
}

impl Parts {
    fn of<F: Coordinate>(work: &wgpu::Buffer, len: usize) -> Self {
        let mut offset = 0;
        let mut take = |bytes: usize| {
            let size = (bytes as u64).next_multiple_of(ALIGNMENT);
            let piece = Piece { buffer: work, offset, size, start: 0, len };
            offset += size;
            Binding::of(&piece, ALIGNMENT).0
        };
        let canonical = take(len * Fr::BYTES);
        let sums = take(len * size_of::<[F; 4]>());
        let products = take(len * Fp::BYTES);
        Self { canonical, sums, products, bytes: offset }
    }
}

pub(super) fn multiples<F: Coordinate>(
    gpu: &Gpu,
    factors: &Factors<'_>,
    out: &Memory,
) -> Result<()> {
    let mut commands = Commands::new(gpu);
    // Until what reads the sums is in the queue, nobody else may write there.
    let work = gpu.sums.lock().unwrap_or_else(PoisonError::into_inner);
    let most = most::<F>(work.size());
    let Range { start, end } = factors.range;
    let mut used = 0;
    let mut at = start;
    while at < end {
        let next = end
            .min(at + most)
            .min(factors.scalars.segment_end(at))
            .min(start + out.segment_end(at - start));
        let parts = Parts::of::<F>(&work, next - at);
        sums::<F>(gpu, &mut commands, factors, at..next, &parts)?;
        affine::<F>(gpu, &mut commands, next - at, &parts, (out, at - start))?;
        used = parts.bytes.max(used);
        at = next;
    }
    // Scalars are secret.
    if used > 0 {
        commands.clear_bytes(&work, 0, used);
    }
    commands.submit()
}

/// The multiples in XYZZ coordinates.
fn sums<F: Coordinate>(
    gpu: &Gpu,
    commands: &mut Commands<'_>,
    factors: &Factors<'_>,
    range: Range<usize>,
    parts: &Parts,
) -> Result<()> {
    let len = range.len() as u32;
    let scalars = Binding::whole(factors.scalars.segment_of(range.start));
    let scalars_at = factors.scalars.place(range.start) as u32;
    let parameters = Scalars { len, scalars_at, unused: [0; 2] };
    let bindings = [scalars, parts.canonical.clone()];
    commands.run(Kernel::MultiplesScalars, &bindings, &parameters, len.div_ceil(LANES))?;
    let w = factors.window_bits;
    let curve = gpu.curve::<F>();
    let kernel = Kernel::MultiplesAdd(curve);
    let lanes = curve.registers.lanes();
    for (segment, entries) in factors.table.segments() {
        let windows = entries.start >> (w - 1)..((entries.end - 1) >> (w - 1)) + 1;
        let bindings = [
            Binding::whole(segment),
            parts.canonical.clone(),
            parts.sums.clone(),
            gpu.program(curve),
        ];
        let step = gpu.groups_at_once(kernel).min(len) * lanes;
        for first_window in windows.clone().step_by(WINDOWS) {
            for first_sum in (0..len).step_by(step as usize) {
                let parameters = Add {
                    len,
                    window_bits: w,
                    first_window: first_window as u32,
                    windows: WINDOWS.min(windows.end - first_window) as u32,
                    table_begin: entries.start as u32,
                    table_end: entries.end as u32,
                    first: (first_window == 0 && entries.start == 0).into(),
                    first_sum,
                };
                let groups = step.min(len - first_sum).div_ceil(lanes);
                commands.run(kernel, &bindings, &parameters, groups)?;
            }
        }
    }
    Ok(())
}

/// From the sums to the elements of `out` from an index on.
fn affine<F: Coordinate>(
    gpu: &Gpu,
    commands: &mut Commands<'_>,
    len: usize,
    parts: &Parts,
    (out, at): (&Memory, usize),
) -> Result<()> {
    let curve = gpu.curve::<F>();
    let threads = len.div_ceil(BATCH);
    let mut exponent = Fp::MODULUS;
    exponent[0] -= 2;
    let parameters = Affine {
        exponent,
        len: len as u32,
        threads: threads as u32,
        batch: BATCH as u32,
        out_at: out.place(at) as u32,
    };
    let bindings = [
        parts.sums.clone(),
        parts.products.clone(),
        Binding::whole(out.segment_of(at)),
        gpu.program(curve),
    ];
    let groups = threads.div_ceil(curve.registers.lanes() as usize) as u32;
    commands.run(Kernel::MultiplesAffine(curve), &bindings, &parameters, groups)
}
