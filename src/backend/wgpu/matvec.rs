//! Sparse matrix times vector: parts of rows, window by window of the entries.
//!
//! A launch has a stretch of rows, a window of entries, a segment of the coefficients' table and one of the vector, and adds
//! what it finds of them to the rows' sums. A window is short enough for one workgroup to add up all of it within the time
//! that a submission may take, should it be one row. Where the output is multiplied, the sums are collected apart.

use std::sync::PoisonError;

use bytemuck::{Pod, Zeroable};

use super::commands::{Binding, Commands};
use super::kernels::{Kernel, ROWS};
use super::memory::Memory;
use super::{Gpu, quotient};
use crate::Result;
use crate::backend::{Output, Quotient};
use crate::field::Fr;

/// Entries of a window for each thread of a workgroup. Software adapters end loops silently after 65,535 turns of all loops
/// together, and a product may have 32.
const WINDOW: usize = 1 << 14;
const WINDOW_OF_SOFTWARE: usize = 1 << 9;

/// Rows whose sums are collected apart at a time.
const SUMS: usize = 1 << 20;

/// Bytes of the memory in which sums are collected.
pub(super) const SUMS_BYTES: u64 = (SUMS * Fr::BYTES) as u64;

/// The arrays of a matrix.
pub(super) struct Arrays<'a> {
    pub row_start: &'a Memory,
    pub column: &'a Memory,
    pub coefficient: &'a Memory,
    pub table: &'a Memory,
}

/// `Parameters` in shaders/matvec.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Parameters {
    rows: u32,
    starts_at: u32,
    ends_at: u32,
    sums_at: u32,
    entry_begin: u32,
    entry_end: u32,
    entry_bound: u32,
    table_begin: u32,
    table_end: u32,
    x_begin: u32,
    x_end: u32,
    first: u32,
}

pub(super) fn matvec(
    gpu: &Gpu,
    matrix: &Arrays<'_>,
    x: &Memory,
    output: Output,
    out: &Memory,
) -> Result<()> {
    let mut commands = Commands::new(gpu);
    let starts = matrix.row_start;
    let rows = match matrix.column.len() {
        0 => 0,
        _ => starts.len().saturating_sub(1).min(out.len()),
    };
    // Until what reads the sums is in the queue, nobody else may write there.
    let sums = gpu.sums.lock().unwrap_or_else(PoisonError::into_inner);
    let most = gpu.groups_at_once(Kernel::Matvec) as usize * ROWS as usize;
    let mut start = 0;
    while start < rows {
        let end = rows
            .min(out.segment_end(start))
            .min(starts.segment_end(start))
            .min(starts.segment_end(start + 1) - 1)
            .min(start + most.min(SUMS));
        let target = (out.segment_of(start), out.place(start));
        match output {
            Output::Set => stretch(&mut commands, matrix, x, start..end, target)?,
            Output::Multiply => {
                stretch(&mut commands, matrix, x, start..end, (&sums, 0))?;
                let step = Quotient::Product;
                quotient::step_on(&mut commands, step, target, (&sums, 0), end - start)?;
            }
        }
        start = end;
    }
    if output == Output::Multiply && rows > 0 {
        commands.clear_bytes(&sums, 0, (rows.min(SUMS) * Fr::BYTES) as u64);
    }
    // Sums of rows that are not there are 0, and so is what they are multiplied with.
    out.pieces(rows..out.len()).for_each(|piece| commands.clear(&piece));
    commands.submit()
}

/// The sums of `rows`, all of whose bounds are in one segment, to a place in a buffer.
fn stretch(
    commands: &mut Commands<'_>,
    matrix: &Arrays<'_>,
    x: &Memory,
    rows: std::ops::Range<usize>,
    sums: (&wgpu::Buffer, usize),
) -> Result<()> {
    let starts = matrix.row_start;
    let each = match commands.is_software() {
        true => WINDOW_OF_SOFTWARE,
        false => WINDOW,
    };
    let mut first = true;
    let mut begin = 0;
    while begin < matrix.column.len() {
        let bound = matrix.column.segment_end(begin) - (1 << matrix.column.log_segment());
        let end = matrix
            .column
            .len()
            .min(matrix.column.segment_end(begin))
            .min(begin + each * ROWS as usize);
        for (table, entries) in matrix.table.segments() {
            for (vector, elements) in x.segments() {
                let parameters = Parameters {
                    rows: rows.len() as u32,
                    starts_at: starts.place(rows.start) as u32,
                    ends_at: starts.place(rows.start + 1) as u32,
                    sums_at: sums.1 as u32,
                    entry_begin: begin as u32,
                    entry_end: end as u32,
                    entry_bound: bound as u32,
                    table_begin: entries.start as u32,
                    table_end: entries.end as u32,
                    x_begin: elements.start as u32,
                    x_end: elements.end as u32,
                    first: first.into(),
                };
                let bindings = [
                    starts.segment_of(rows.start),
                    starts.segment_of(rows.start + 1),
                    matrix.column.segment_of(begin),
                    matrix.coefficient.segment_of(begin),
                    table,
                    vector,
                    sums.0,
                ];
                let groups = (rows.len() as u32).div_ceil(ROWS);
                let bindings = bindings.map(Binding::whole);
                commands.run(Kernel::Matvec, &bindings, &parameters, groups)?;
                first = false;
            }
        }
        begin = end;
    }
    Ok(())
}
