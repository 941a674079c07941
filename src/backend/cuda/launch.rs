//! One function a kernel: arguments as the kernel has them, lengths checked, the grid computed, and the launch.
#![allow(unsafe_code, reason = "a kernel's arguments are untyped")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use super::driver::{Driver, Function, Module, Stream};
use super::module::Cubin;
use super::msm::MsmKernels;
use super::ntt::{Pass, TILE, Tables};
use crate::backend::{Output, Quotient, Raised};
use crate::compact::{BLOCK, Block};
use crate::curve::{Affine, Coordinate, fixed_base};
use crate::field::Fr;
use crate::{Error, Result};

/// Elements in device memory, as a kernel sees them.
pub(super) struct Slice<T> {
    pub address: u64,
    pub len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<T> {}

impl<T> Slice<T> {
    /// `len` elements from `address` on.
    pub fn new(address: u64, len: usize) -> Self {
        Self { address, len, element: PhantomData }
    }

    /// `len` of the elements, from the one at `start` on.
    pub fn part(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "{len} elements from {start} on of {}", self.len);
        Self::new(self.address + (start * size_of::<T>()) as u64, len)
    }
}

/// Roots of unity and 1/n, for the kernel that fills tables. `Roots` in cuda/ntt.cu.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Roots {
    /// The 2^k-th at place k.
    pub unity: [Fr; 33],
    /// 1/n.
    pub inverse_n: Fr,
}
const _: () = assert!(size_of::<Roots>() == 34 * 32);

/// All kernels of the backend, loaded.
pub(super) struct Kernels {
    expand: Function,
    matvec: Function,
    quotient: Function,
    ntt_table: Function,
    interpolate: Function,
    evaluate: Function,
    pub msm: MsmKernels,
    /// Over Fp, over Fp2.
    raise: [Function; 2],
    /// Likewise.
    multiples: [Function; 2],
    _modules: Vec<Module>,
}

/// Threads of a block where nothing else decides.
const THREADS: u32 = 256;

/// Threads of a block of cuda/raise.cu and cuda/multiples.cu.
const POINT_THREADS: u32 = 128;

/// Pointers to a kernel's arguments, as the driver takes them.
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => {
        &mut [$(std::ptr::from_ref(&$argument).cast_mut().cast::<c_void>()),*]
    };
}
pub(super) use arguments;

impl Kernels {
    pub fn load(driver: &Arc<Driver>, cubins: &[Cubin]) -> Result<Self> {
        let load = |cubin: &Cubin| driver.module(cubin.name, &cubin.bytes);
        let modules = cubins.iter().map(load).collect::<Result<Vec<_>>>()?;
        let module = |file: &'static str| {
            modules.iter().find(|module| module.name() == file).ok_or_else(|| Error::Kernel {
                backend: "cuda",
                name: file.into(),
                log: "is not among the compiled files".into(),
            })
        };
        let ntt = module("ntt.cu")?;
        let tile_bytes = (TILE * Fr::BYTES) as u32;
        Ok(Self {
            expand: module("expand.cu")?.function("expand", 0)?,
            matvec: module("matvec.cu")?.function("matvec", 0)?,
            quotient: module("quotient.cu")?.function("quotient", 0)?,
            ntt_table: ntt.function("table", 0)?,
            interpolate: ntt.function("interpolate", tile_bytes)?,
            evaluate: ntt.function("evaluate", tile_bytes)?,
            msm: MsmKernels::load(module)?,
            raise: [
                module("raise_g1.cu")?.function("raise", 0)?,
                module("raise_g2.cu")?.function("raise", 0)?,
            ],
            multiples: [
                module("multiples_g1.cu")?.function("multiples", 0)?,
                module("multiples_g2.cu")?.function("multiples", 0)?,
            ],
            _modules: modules,
        })
    }

    pub fn expand(
        &self,
        stream: &Stream,
        blocks: Slice<Block>,
        small: Slice<u32>,
        wide: Slice<Fr>,
        output: Output,
        out: Slice<Fr>,
    ) -> Result<()> {
        if out.len == 0 {
            return Ok(());
        }
        let count = blocks.len.min(out.len.div_ceil(BLOCK)) as u64;
        let (multiply, len) = ((output == Output::Multiply) as u32, out.len as u64);
        // SAFETY: expand.cu: expand(const Block *, u64 count, const u32 *small, const Fr *wide, u32 multiply,
        // Fr *out, u64 len). A thread touches its own element of `out`, below `len`, and reads a block below `count`;
        // a block's indices are below the lengths of `small` and `wide` by the form of a compact vector, all of which is
        // there.
        unsafe {
            stream.launch(
                &self.expand,
                grid(len),
                THREADS,
                arguments![
                    blocks.address,
                    count,
                    small.address,
                    wide.address,
                    multiply,
                    out.address,
                    len
                ],
            )
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the arrays of a sparse matrix, and two vectors")]
    pub fn matvec(
        &self,
        stream: &Stream,
        row_start: Slice<u32>,
        column: Slice<u32>,
        coefficient: Slice<u32>,
        table: Slice<Fr>,
        x: Slice<Fr>,
        output: Output,
        out: Slice<Fr>,
    ) -> Result<()> {
        if out.len == 0 {
            return Ok(());
        }
        assert_eq!(column.len, coefficient.len, "columns and coefficients");
        let rows = row_start.len.saturating_sub(1).min(out.len) as u64;
        let (multiply, len) = ((output == Output::Multiply) as u32, out.len as u64);
        // SAFETY: matvec.cu: matvec(const u32 *row_start, u64 rows, const u32 *column, const u32 *coefficient,
        // const Fr *table, const Fr *x, u32 multiply, Fr *out, u64 len). A thread writes its own element of `out`, below
        // `len`, and reads row starts up to `rows`; entries, columns and coefficients are below the lengths of their
        // arrays, which is what makes a `Matrix`, checked above the seam.
        unsafe {
            stream.launch(
                &self.matvec,
                grid(len),
                THREADS,
                arguments![
                    row_start.address,
                    rows,
                    column.address,
                    coefficient.address,
                    table.address,
                    x.address,
                    multiply,
                    out.address,
                    len
                ],
            )
        }
    }

    pub fn quotient(
        &self,
        stream: &Stream,
        step: Quotient,
        accumulator: Slice<Fr>,
        operand: Slice<Fr>,
    ) -> Result<()> {
        if accumulator.len == 0 {
            return Ok(());
        }
        assert!(operand.len >= accumulator.len, "an operand shorter than the accumulator");
        let step: u32 = match step {
            Quotient::Product => 0,
            Quotient::Difference => 1,
            Quotient::HalfDifference => 2,
        };
        let len = accumulator.len as u64;
        // SAFETY: quotient.cu: quotient(u32 step, Fr *accumulator, const Fr *operand, u64 len). A thread touches its own
        // element of both, below `len`, and both have so many.
        unsafe {
            stream.launch(
                &self.quotient,
                grid(len),
                THREADS,
                arguments![step, accumulator.address, operand.address, len],
            )
        }
    }

    /// Fills `tables` for 2^log_n elements.
    pub fn ntt_table(
        &self,
        stream: &Stream,
        log_n: u32,
        tables: &Tables,
        roots: &Roots,
    ) -> Result<()> {
        let Tables { turns, coarse, fine, fine_inverse, split } = tables;
        let entries = (turns.len + coarse.len + fine.len) as u64;
        // SAFETY: ntt.cu: table(u32 log_n, u32 split, uint4 *turns, uint4 *coarse, uint4 *fine, uint4 *fine_inverse, Roots). A
        // thread writes a factor of one table, or one of each of the last two: below 2 `TURNS`, 2^(log_n - split) and
        // 2^split, the lengths in `Tables`.
        unsafe {
            stream.launch(
                &self.ntt_table,
                grid(entries),
                THREADS,
                arguments![
                    log_n,
                    *split,
                    turns.address,
                    coarse.address,
                    fine.address,
                    fine_inverse.address,
                    *roots
                ],
            )
        }
    }

    /// One pass of a transform of `data`, 2^log_n elements.
    pub fn ntt_pass(
        &self,
        stream: &Stream,
        inverse: bool,
        log_n: u32,
        pass: Pass,
        tables: &Tables,
        data: Slice<Fr>,
    ) -> Result<()> {
        assert!(data.len == 1 << log_n && pass.low + pass.bits <= log_n, "a pass beyond the data");
        let function = if inverse { &self.interpolate } else { &self.evaluate };
        let tiles = data.len.div_ceil(TILE) as u32;
        let Pass { low, bits, odd, twiddle } = pass;
        let (odd, twiddle) = (odd as u32, twiddle as u32);
        let is_top = low + bits == log_n;
        let fine = if inverse && is_top { &tables.fine_inverse } else { &tables.fine };
        // SAFETY: ntt.cu: interpolate and evaluate(Fr *data, u32 log_n, u32 low, u32 bits, u32 odd, u32 twiddle,
        // const uint4 *turns, const uint4 *fine, const uint4 *coarse, u32 split). A block touches its own tile, elements
        // below 2^log_n, and reads what exponents below 2^(log_n + 1) index in the tables, which `Tables` holds.
        unsafe {
            stream.launch(
                function,
                [tiles, 1, 1],
                TILE as u32 / 8,
                arguments![
                    data.address,
                    log_n,
                    low,
                    bits,
                    odd,
                    twiddle,
                    tables.turns.address,
                    fine.address,
                    tables.coarse.address,
                    tables.split
                ],
            )
        }
    }

    /// `points` has a whole number of copies.
    pub fn raise<F: Coordinate>(
        &self,
        stream: &Stream,
        raised: Raised,
        points: Slice<Affine<F>>,
    ) -> Result<()> {
        if points.len == 0 {
            return Ok(());
        }
        let windows = raised.windows();
        assert!(points.len.is_multiple_of(windows), "{} points, {windows} windows", points.len);
        let (len, window_bits) = ((points.len / windows) as u64, raised.window_bits());
        let windows = windows as u32;
        // SAFETY: raise.cu: raise(Affine *points, u64 len, u32 window_bits, u32 windows). A thread touches a point of its own, below
        // `len`, and that of each of the `windows` copies, all of which `points` has.
        unsafe {
            stream.launch(
                &self.raise[F::DEGREE - 1],
                point_grid::<F>(len),
                POINT_THREADS,
                arguments![points.address, len, window_bits, windows],
            )
        }
    }

    pub fn multiples<F: Coordinate>(
        &self,
        stream: &Stream,
        table: Slice<Affine<F>>,
        window_bits: u32,
        scalars: Slice<Fr>,
        out: Slice<Affine<F>>,
    ) -> Result<()> {
        if out.len == 0 {
            return Ok(());
        }
        assert_eq!(table.len, fixed_base::table_len(window_bits), "the table's length");
        assert_eq!(scalars.len, out.len, "scalars and results");
        let len = out.len as u64;
        // SAFETY: multiples.cu: multiples(const Affine *table, u32 window_bits, const Fr *scalars, u64 len, Affine *out). A
        // thread reads a scalar and writes an element of `out` of its own, below `len`; in each window it reads one of the
        // 2^(window_bits - 1) multiples of the table, which has as many windows as 256 bits do.
        unsafe {
            stream.launch(
                &self.multiples[F::DEGREE - 1],
                point_grid::<F>(len),
                POINT_THREADS,
                arguments![table.address, window_bits, scalars.address, len, out.address],
            )
        }
    }
}

/// Blocks of [`POINT_THREADS`] threads, for `len` points: see cuda/fp2.cuh for the threads of one.
fn point_grid<F: Coordinate>(len: u64) -> [u32; 3] {
    let blocks = (len * F::DEGREE as u64).div_ceil(POINT_THREADS as u64);
    [u32::try_from(blocks).expect("at most 2^38 points"), 1, 1]
}

/// Blocks of [`THREADS`] threads, one for each of `len` elements.
fn grid(len: u64) -> [u32; 3] {
    let blocks = len.div_ceil(THREADS as u64);
    [u32::try_from(blocks).expect("at most 2^39 elements"), 1, 1]
}
