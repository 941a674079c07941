//! The seam: what the prover asks of a device.
//!
//! A [`Backend`] has typed buffers and whole operations on explicit streams: `matvec`, `ntt`, `quotient`,
//! `msm`; `expand`, which unpacks what was staged in compact form; `raise`, which puts multiples beside a key's points; and
//! `multiples`, which makes these points. Scratch is asked for first, by pure queries, and handed in: an operation
//! allocates nothing. Each promise is an **Invariant:** line of `backends.md`, and
//! `tests/backend.rs` holds every backend to them.
//!
//! Element form is one rule: field elements in buffers are in Montgomery form, fully reduced.
//! Lengths and domains are checked by the prover, above the seam; here a violation is a bug.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "wgpu")]
pub(crate) mod shader;
#[cfg(feature = "cuda")]
mod source;
pub mod virtual_card;
#[cfg(feature = "wgpu")]
pub mod wgpu;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytemuck::Pod;

use crate::Result;
use crate::array::Array;
use crate::budget::{Budget, Lease};
use crate::compact::{self, Block, Compact};
use crate::curve::{Affine, Coordinate, Point};
use crate::field::Fr;
use crate::timeline::Class;

/// Host data that buffers may share: a vector, a vector that is wiped, or a map of a file.
pub type Shared<T> = Arc<dyn AsRef<[T]> + Send + Sync>;

/// A device that the prover can run on. `src/backend/cpu.rs` is the reference.
pub trait Backend: Send + Sync + 'static {
    /// Device memory holding elements of `T`.
    type Buffer<T: Pod + Send + Sync>: Buffer<T>;
    /// An in-order queue of work. Work on different streams has no order but through [`Backend::join`].
    type Stream: Send;
    /// A result that the device is still working on.
    type Pending<R: Send + 'static>: Pending<R>;

    /// What the device is.
    fn info(&self) -> &DeviceInfo;
    /// The budget of the physical device, shared by all who use that device.
    fn budget(&self) -> &Budget;
    /// Bytes of the budget that others use now, by the driver's own count. It may be slow: at start, and when the
    /// device is idle.
    fn foreign_bytes(&self) -> Result<u64>;
    /// Calls of the driver so far that concern the whole device: memory taken, given back or asked about, waits for all work. A
    /// device that has done its work once needs none to do it again.
    fn device_wide_calls(&self) -> u64 {
        0
    }
    /// What the device has done so far, by its own clock, in no order; nothing if it was not opened to record that.
    fn spans(&self) -> Vec<DeviceSpan> {
        Vec::new()
    }
    /// A new stream.
    fn stream(&self) -> Result<Self::Stream>;
    /// Work put on `waiter` from now on starts after all work put on `on` until now.
    fn join(&self, waiter: &Self::Stream, on: &Self::Stream) -> Result<()>;

    /// A buffer of `len` zero elements out of `lease`, called `label` in messages and traces.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory) if the lease has less left, before the driver is asked.
    fn alloc<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
    ) -> Result<Self::Buffer<T>>;
    /// A read-only buffer with the contents of `data`. A device whose memory is the host's shares
    /// `data` instead of copying; the lease is charged either way.
    fn adopt<T: Pod + Send + Sync>(
        &self,
        stream: &Self::Stream,
        lease: &Lease,
        label: &'static str,
        data: Shared<T>,
    ) -> Result<Self::Buffer<T>>;
    /// Copies `source` to the elements of `target` that start at index `at`. `source` may be reused on return.
    fn upload<T: Pod + Send + Sync>(
        &self,
        stream: &Self::Stream,
        source: &[T],
        target: &mut Self::Buffer<T>,
        at: usize,
    ) -> Result<()>;
    /// Copies the elements of `source` that start at index `at` to `target`, after all earlier work of
    /// `stream`. Blocks.
    fn download<T: Pod + Send + Sync>(
        &self,
        stream: &Self::Stream,
        source: &Self::Buffer<T>,
        at: usize,
        target: &mut [T],
    ) -> Result<()>;

    /// The elements of a compact vector to the first places of `out`, with 0 in the rest; or `out` times those.
    fn expand(
        &self,
        stream: &Self::Stream,
        packed: Packed<'_, Self>,
        output: Output,
        out: &mut Self::Buffer<Fr>,
    ) -> Result<()>;

    /// Rows of `matrix` times `x`: `out[i] = sum_j M[i][j] x[j]`, or that times the old `out[i]`.
    /// Rows of `out` beyond the matrix's count as empty rows (the sum is 0).
    fn matvec(
        &self,
        stream: &Self::Stream,
        matrix: &DeviceMatrix<Self>,
        x: &Self::Buffer<Fr>,
        output: Output,
        out: &mut Self::Buffer<Fr>,
    ) -> Result<()>;

    /// Transforms `data`, 2^log_n elements, in place; see [`Transform`] for order and domain. `table` is
    /// [`Backend::ntt_table`] of the same `log_n`.
    fn ntt(
        &self,
        stream: &Self::Stream,
        transform: Transform,
        table: &Self::Buffer<Fr>,
        data: &mut Self::Buffer<Fr>,
    ) -> Result<()>;
    /// The twiddle factors for [`Backend::ntt`] of 2^log_n elements, in the backend's own layout:
    /// [`Backend::ntt_table_bytes`] of `lease`. `log_n` is from 1 to 31.
    fn ntt_table(
        &self,
        stream: &Self::Stream,
        lease: &Lease,
        log_n: u32,
    ) -> Result<Self::Buffer<Fr>>;
    /// Bytes of [`Backend::ntt_table`]. Pure: allocates nothing.
    fn ntt_table_bytes(&self, log_n: u32) -> u64;

    /// One pointwise step of the quotient, in place in `accumulator`; see [`Quotient`].
    fn quotient(
        &self,
        stream: &Self::Stream,
        step: Quotient,
        accumulator: &mut Self::Buffer<Fr>,
        operand: &Self::Buffer<Fr>,
    ) -> Result<()>;

    /// The sum of `s_i P_i` over the selected scalars and the bases; see [`Msm`].
    /// `scratch` has at least [`Backend::msm_scratch`] bytes and is wiped by the caller's dropping it.
    fn msm<F: Coordinate>(
        &self,
        stream: &Self::Stream,
        msm: Msm<'_, Self, F>,
        scratch: &mut Self::Buffer<u64>,
    ) -> Result<Self::Pending<Point<F>>>;
    /// Bytes of scratch for [`Backend::msm`] over `len` scalars. Pure: allocates nothing, and never
    /// falls when `len` grows.
    fn msm_scratch<F: Coordinate>(&self, len: usize) -> u64;
    /// The same over bases that are raised.
    fn raised_scratch<F: Coordinate>(&self, raised: Raised, len: usize) -> u64;

    /// The multiples of `points` that make it raised: it has room for `raised.windows()` copies of its first
    /// elements, the bases, and copy k becomes 2^(w k) times these, affine. Done once for many sums.
    fn raise<F: Coordinate>(
        &self,
        stream: &Self::Stream,
        raised: Raised,
        points: &mut Self::Buffer<Affine<F>>,
    ) -> Result<()>;
    /// The multiples with which sums over all of `len` bases are fastest; `None` if they are no faster with any. Pure.
    fn raised_for<F: Coordinate>(&self, len: usize) -> Option<Raised>;

    /// Many multiples of one point: `out[i] = scalars[range.start + i] P`, affine, for every i below `range.len()`; see
    /// [`Multiples`].
    fn multiples<F: Coordinate>(
        &self,
        stream: &Self::Stream,
        multiples: Multiples<'_, Self, F>,
        out: &mut Self::Buffer<Affine<F>>,
    ) -> Result<()>;
}

/// Device memory holding `len` elements. Dropping it returns its bytes to the lease when the device
/// is done with them, wiped.
pub trait Buffer<T>: Send + Sync {
    /// Elements.
    fn len(&self) -> usize;
    /// Whether there is no element.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A result that the device may still be working on.
pub trait Pending<R>: Send {
    /// Blocks until the result is there.
    fn wait(self) -> Result<R>;
}

/// What a device is, as far as plans and messages need it.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The backend: "cpu", ...
    pub backend: &'static str,
    /// The device's own name.
    pub name: String,
    /// Bytes of memory that may be leased.
    pub memory_bytes: u64,
    /// The largest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// Whether device memory is the host's, so that [`Backend::adopt`] copies nothing.
    pub unified: bool,
    /// How fast it is, roughly: plans are compared by it.
    pub rates: Rates,
}

/// A piece of a device's work.
#[derive(Clone, Debug)]
pub struct DeviceSpan {
    /// The stream that it was in.
    pub stream: String,
    /// What it was.
    pub label: &'static str,
    /// How much.
    pub detail: String,
    /// The kind of work.
    pub class: Class,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

/// Rough speeds of a device, per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Bytes from the host to the device.
    pub upload: f64,
    /// Bytes from the device to the host.
    pub download: f64,
    /// Butterflies of a transform.
    pub butterflies: f64,
    /// Terms of a large sum in G1, full scalars.
    pub g1_terms: f64,
    /// Terms of a large sum in G2, full scalars.
    pub g2_terms: f64,
    /// Seconds that a sum costs whatever its length: launches, bucket reduction.
    pub seconds_per_sum: f64,
    /// The time of a sum over raised bases, as a share of the time over plain ones.
    pub raised_share: f64,
    /// The time that raising takes, in sums over as many terms.
    pub raise_sums: f64,
}

/// What [`Backend::matvec`] and [`Backend::expand`] do with a value: a row's sum, or an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// `out[i] = value`.
    Set,
    /// `out[i] *= value`.
    Multiply,
}

/// The four transforms over n = 2^log_n points. With w the primitive n-th root of unity of
/// [`Fr::root_of_unity`] and v the 2n-th (v^2 = w), evaluation i is at w^i on the subgroup and at
/// v^(2i+1) on the odd coset (its points are the odd 2n-th roots of unity).
///
/// Evaluations are in natural order, coefficients in bit-reversed order: coefficient j is element
/// `bit_reverse(j)`. No transform permutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transform {
    /// Evaluations on the subgroup to coefficients (scaled by 1/n).
    Interpolate,
    /// Coefficients to evaluations on the subgroup.
    Evaluate,
    /// Evaluations on the odd coset to coefficients (scaled by 1/n).
    InterpolateOdd,
    /// Coefficients to evaluations on the odd coset.
    EvaluateOdd,
}

/// The pointwise steps of the quotient: `a` is the accumulator, `x` the operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quotient {
    /// `a = a x`: A B on the odd coset.
    Product,
    /// `a = a - x`: A B - C on the odd coset, snarkjs' P.
    Difference,
    /// `a = (x - a)/2`: with a the coefficients of A B reduced mod X^n + 1 and x those of C, the
    /// quotient h = (A B - C)/(X^n - 1), since X^n - 1 = -2 on the odd coset.
    HalfDifference,
}

/// A sparse matrix in compressed rows with a table of distinct coefficients.
///
/// Row i has the entries `row_start[i]..row_start[i + 1]`; entry e is `table[coefficient[e]]` in
/// column `column[e]`. The table starts with 1 and -1. Duplicated columns of a row add up.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// Rows + 1 offsets.
    pub row_start: Array<u32>,
    /// Column of each entry.
    pub column: Array<u32>,
    /// Index into `table` of each entry.
    pub coefficient: Array<u32>,
    /// The distinct coefficients, Montgomery; `table[0] = 1`, `table[1] = -1`.
    pub table: Array<Fr>,
}

impl Matrix {
    /// The rows; later rows of a longer vector count as empty.
    pub fn rows(&self) -> usize {
        self.row_start.len().saturating_sub(1)
    }

    /// Device bytes of the four arrays.
    pub fn bytes(&self) -> u64 {
        let words = self.row_start.len() + self.column.len() + self.coefficient.len();
        4 * words as u64 + (self.table.len() * Fr::BYTES) as u64
    }
}

/// A [`Compact`] vector in device memory: its three arrays.
pub struct Packed<'a, B: Backend + ?Sized> {
    /// Tags, and where values start.
    pub blocks: &'a B::Buffer<Block>,
    /// Small values.
    pub small: &'a B::Buffer<u32>,
    /// Wide values, Montgomery.
    pub wide: &'a B::Buffer<Fr>,
}

/// The buffers of a [`Compact`] vector.
pub struct DeviceCompact<B: Backend + ?Sized> {
    blocks: B::Buffer<Block>,
    small: B::Buffer<u32>,
    wide: B::Buffer<Fr>,
}

impl<B: Backend> DeviceCompact<B> {
    /// Brings `compact` to the device: [`Compact::bytes`] of `lease`.
    pub fn adopt(
        backend: &B,
        stream: &B::Stream,
        lease: &Lease,
        label: &'static str,
        compact: &Arc<Compact>,
    ) -> Result<Self> {
        let part = || compact::Part(compact.clone());
        Ok(Self {
            blocks: backend.adopt::<Block>(stream, lease, label, Arc::new(part()))?,
            small: backend.adopt::<u32>(stream, lease, label, Arc::new(part()))?,
            wide: backend.adopt::<Fr>(stream, lease, label, Arc::new(part()))?,
        })
    }

    /// The arrays, for [`Backend::expand`].
    pub fn packed(&self) -> Packed<'_, B> {
        Packed { blocks: &self.blocks, small: &self.small, wide: &self.wide }
    }
}

/// A [`Matrix`] in device memory.
pub struct DeviceMatrix<B: Backend + ?Sized> {
    /// See [`Matrix::row_start`].
    pub row_start: B::Buffer<u32>,
    /// See [`Matrix::column`].
    pub column: B::Buffer<u32>,
    /// See [`Matrix::coefficient`].
    pub coefficient: B::Buffer<u32>,
    /// See [`Matrix::table`].
    pub table: B::Buffer<Fr>,
}

impl<B: Backend> DeviceMatrix<B> {
    /// Brings `matrix` to the device: [`Matrix::bytes`] of `lease`.
    pub fn adopt(backend: &B, stream: &B::Stream, lease: &Lease, matrix: &Matrix) -> Result<Self> {
        Ok(Self {
            row_start: backend.adopt(stream, lease, "matrix rows", matrix.row_start.shared())?,
            column: backend.adopt(stream, lease, "matrix columns", matrix.column.shared())?,
            coefficient: backend.adopt(
                stream,
                lease,
                "matrix coefficients",
                matrix.coefficient.shared(),
            )?,
            table: backend.adopt(
                stream,
                lease,
                "matrix coefficient table",
                matrix.table.shared(),
            )?,
        })
    }
}

/// Multiples that stand beside bases: where the scalars of a sum have windows of w bits, copy k of n bases is 2^(w k) times these,
/// and base i of it is element k n + i. Then the digit of any window is a factor of a base, so that all windows of a sum share one set
/// of buckets: one reduction instead of one a window, and so larger and fewer windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raised {
    window_bits: u32,
}

impl Raised {
    /// Windows of `window_bits`, from 2 to 20.
    pub fn new(window_bits: u32) -> Self {
        assert!((2..=20).contains(&window_bits), "a window of {window_bits} bits");
        Self { window_bits }
    }

    /// The bits of a window, w.
    pub fn window_bits(self) -> u32 {
        self.window_bits
    }

    /// Windows of a scalar, and so copies of the bases: s or r - s is below 2^254, and a bit more is a signed digit's.
    pub fn windows(self) -> usize {
        254 / self.window_bits as usize + 1
    }
}

/// One multi-scalar multiplication: which scalars go with which bases.
///
/// Base i is `bases[base_range.start + i]`. Without `density`, base i goes
/// with `scalars[range.start + i]`. With it, the k-th set bit of `density`, at position p, says that base k
/// goes with `scalars[range.start + p]`; bits are least significant first and bits at and beyond `range.len()`
/// are clear. Bases may be infinity, equal
/// or opposite; scalars may be anything; both may be empty.
pub struct Msm<'a, B: Backend + ?Sized, F: Coordinate> {
    /// The bases, affine.
    pub bases: &'a B::Buffer<Affine<F>>,
    /// The part of `bases` that is meant: as many as there are scalars in the range, or set bits in the density.
    pub base_range: Range<usize>,
    /// The scalars, Montgomery.
    pub scalars: &'a B::Buffer<Fr>,
    /// The part of `scalars` that is meant.
    pub range: Range<usize>,
    /// Which scalars of the range have a base; `None` if all have.
    pub density: Option<&'a B::Buffer<u64>>,
    /// The multiples that `bases` holds ([`Backend::raise`]); `None` if they are no more than bases. `base_range` is within
    /// the first copy either way.
    pub raised: Option<Raised>,
}

/// Multiples of a point P: the table of its [`FixedBase`](crate::curve::FixedBase), and by what it is multiplied.
pub struct Multiples<'a, B: Backend + ?Sized, F: Coordinate> {
    /// Multiples of P, affine, window by window.
    pub table: &'a B::Buffer<Affine<F>>,
    /// The bits of a window of the table.
    pub window_bits: u32,
    /// The scalars, Montgomery.
    pub scalars: &'a B::Buffer<Fr>,
    /// The part of `scalars` that is meant. Results go to the first places of the output; the others stay as they are.
    pub range: Range<usize>,
}

/// `index` with its lowest `log_n` bits reversed: the place of coefficient `index`.
pub fn bit_reverse(index: usize, log_n: u32) -> usize {
    if log_n == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - log_n) }
}
