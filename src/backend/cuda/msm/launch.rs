//! The kernels of the multi-scalar multiplication, one function each. Arguments are addresses in device memory.
#![allow(unsafe_code, reason = "a kernel's arguments are untyped")]
#![allow(clippy::too_many_arguments, reason = "they are the kernels'")]

use std::ffi::c_void;

use bytemuck::{Pod, Zeroable};

use super::super::driver::{Function, Module, Stream};
use super::super::launch::arguments;
use super::{MAX_LEVEL_RUN, MIN_INVERT_SHARE, MIN_LEVEL_RUN, SCAN_TILE, SORT_TILE, THREADS};
use crate::Result;
use crate::curve::Coordinate;
use crate::field::{Fp, Fp2};

const SORT_THREADS: u32 = 1024;
const SCAN_THREADS: u32 = 256;
const DIGIT_THREADS: u32 = 256;

/// What all kernels of a group of windows know: `Shape` in cuda/shape.cuh.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in super::super) struct Shape {
    pub points: u32,
    pub window_bits: u32,
    pub first_window: u32,
    pub windows: u32,
    pub fine_bits: u32,
    pub levels: u32,
}

/// Where points are: see cuda/points.cuh.
#[derive(Clone, Copy)]
pub(super) struct Points {
    xs: u64,
    ys: u64,
    entries: u64,
}

impl Points {
    /// The bases that sorted entries stand for.
    pub fn of_entries<F: Coordinate>(bases: u64, entries: u64) -> Self {
        Self { xs: bases, ys: bases + size_of::<F>() as u64, entries }
    }

    /// Two arrays of `len` coordinates.
    pub fn sums<F: Coordinate>(at: u64, len: u64) -> Self {
        Self { xs: at, ys: at + len * size_of::<F>() as u64, entries: 0 }
    }

    /// Sums from the one at `start` on.
    pub fn from<F: Coordinate>(self, start: u64) -> Self {
        let skip = start * size_of::<F>() as u64;
        Self { xs: self.xs + skip, ys: self.ys + skip, ..self }
    }
}

/// The pairs that a launch of an affine level works on.
pub(super) struct Range {
    /// The first pair, counted through all buckets.
    pub first: u64,
    /// Pairs, unless the entries end before.
    pub len: u64,
    /// Where the number of entries is, 2^level to a pair.
    pub total: u64,
    pub level: u32,
    /// Threads (pairs of lanes over Fp2) that fill the device.
    pub resident: u64,
}

impl Range {
    /// Blocks of so many threads: the most that there can be, since a thread's run depends on where the entries end.
    pub fn blocks(&self, block_len: u64) -> u64 {
        let full = self.len.div_ceil(MAX_LEVEL_RUN * self.resident) * self.resident / block_len;
        full.min(self.len.div_ceil(MIN_LEVEL_RUN * block_len))
    }
}

/// All kernels of the multi-scalar multiplication.
pub(in super::super) struct MsmKernels {
    scan_sums_padded: Function,
    scan_apply_padded: Function,
    scan_sums_set_bits: Function,
    scan_apply_set_bits: Function,
    scan_totals: Function,
    digits: Function,
    digits_raised: Function,
    place_partitions: Function,
    partition: Function,
    partition_raised: Function,
    count: Function,
    sort: Function,
    pad: Function,
    g1: GroupKernels,
    g2: GroupKernels,
}

/// Those that know the coordinate field.
pub(super) struct GroupKernels {
    /// Elements that a block works on.
    block_len: u64,
    level_products: Function,
    level_invert: Function,
    level_sums: Function,
    accumulate: Function,
    settle: Function,
    settle_large: Function,
    reduce_buckets: Function,
    reduce_segments: Function,
    reduce_bits: Function,
}

fn blocks(len: u64, per_block: u64) -> [u32; 3] {
    [u32::try_from(len.div_ceil(per_block)).expect("lengths are below 2^32"), 1, 1]
}

impl MsmKernels {
    /// `module` finds a module by its file's name.
    pub fn load<'m>(module: impl Fn(&'static str) -> Result<&'m Module>) -> Result<Self> {
        let digits = module("digits.cu")?;
        Ok(Self {
            scan_sums_padded: digits.function("scan_sums_padded", 0)?,
            scan_apply_padded: digits.function("scan_apply_padded", 0)?,
            scan_sums_set_bits: digits.function("scan_sums_set_bits", 0)?,
            scan_apply_set_bits: digits.function("scan_apply_set_bits", 0)?,
            scan_totals: digits.function("scan_totals", 0)?,
            digits: digits.function("msm_digits", 0)?,
            digits_raised: digits.function("msm_digits_raised", 0)?,
            place_partitions: digits.function("msm_place_partitions", 0)?,
            partition: digits.function("msm_partition", 0)?,
            partition_raised: digits.function("msm_partition_raised", 0)?,
            count: digits.function("msm_count", 0)?,
            sort: digits.function("msm_sort", 0)?,
            pad: digits.function("msm_pad", 0)?,
            g1: GroupKernels::load::<Fp>(
                module("levels_g1.cu")?,
                module("accumulate_g1.cu")?,
                module("reduce_g1.cu")?,
            )?,
            g2: GroupKernels::load::<Fp2>(
                module("levels_g2.cu")?,
                module("accumulate_g2.cu")?,
                module("reduce_g2.cu")?,
            )?,
        })
    }

    pub(super) fn of<F: Coordinate>(&self) -> &GroupKernels {
        if F::DEGREE == 1 { &self.g1 } else { &self.g2 }
    }

    /// `ranks[i]` = the bits set in the words before i.
    pub(super) fn scan_set_bits(
        &self,
        stream: &Stream,
        words: u64,
        len: u64,
        sums: u64,
        ranks: u64,
    ) -> Result<()> {
        let (tiles, len) = ((len + 1).div_ceil(SCAN_TILE) as u32, len as u32);
        // SAFETY: digits.cu: scan_sums_set_bits(const u64 *words, u32 len, u32 *sums), scan_totals(u32 *sums,
        // u32 len), scan_apply_set_bits(const u64 *words, u32 len, const u32 *sums, u32 *out). Words below
        // `len` are read, `sums` has one a tile, `out` len + 1.
        unsafe {
            let grid = [tiles, 1, 1];
            stream.launch(
                &self.scan_sums_set_bits,
                grid,
                SCAN_THREADS,
                arguments![words, len, sums],
            )?;
            stream.launch(&self.scan_totals, [1; 3], SORT_THREADS, arguments![sums, tiles])?;
            stream.launch(
                &self.scan_apply_set_bits,
                grid,
                SCAN_THREADS,
                arguments![words, len, sums, ranks],
            )
        }
    }

    /// Where each bucket starts, with room for multiples of 2^levels entries; twice.
    pub(super) fn scan_padded(
        &self,
        stream: &Stream,
        counts: u64,
        levels: u32,
        len: u64,
        sums: u64,
        starts: u64,
        cursors: u64,
    ) -> Result<()> {
        let (tiles, len) = ((len + 1).div_ceil(SCAN_TILE) as u32, len as u32);
        // SAFETY: digits.cu: scan_sums_padded(const u32 *counts, u32 levels, u32 len, u32 *sums), scan_totals
        // as above, scan_apply_padded(const u32 *counts, u32 levels, u32 len, const u32 *sums, u32 *out, u32
        // *copy). As above, and `copy` is as long as `out`.
        unsafe {
            let grid = [tiles, 1, 1];
            stream.launch(
                &self.scan_sums_padded,
                grid,
                SCAN_THREADS,
                arguments![counts, levels, len, sums],
            )?;
            stream.launch(&self.scan_totals, [1; 3], SORT_THREADS, arguments![sums, tiles])?;
            let arguments = arguments![counts, levels, len, sums, starts, cursors];
            stream.launch(&self.scan_apply_padded, grid, SCAN_THREADS, arguments)
        }
    }

    /// Digits of all windows of `shape`, or of `raised` windows that share its buckets.
    pub(super) fn digits(
        &self,
        stream: &Stream,
        shape: &Shape,
        raised: Option<u32>,
        scalars: u64,
        len: u64,
        density_and_ranks: Option<(u64, u64)>,
        digits: u64,
        counts: u64,
    ) -> Result<()> {
        let (density, ranks) = density_and_ranks.unwrap_or((0, 0));
        // A block adds its counters once, so it should have some scalars.
        let grid = blocks(len, DIGIT_THREADS as u64)[0].clamp(1, 4096);
        // SAFETY: digits.cu: msm_digits(Shape, const Fr *scalars, u32 len, const u64 *density, const u32
        // *ranks, u32 *digits, u32 *partition_counts), and msm_digits_raised with `u32 windows` behind the shape. Scalars
        // below `len` are read; points are below shape.points, by the form of the density; a digit a point and window is written.
        unsafe {
            let len = len as u32;
            let grid = [grid, 1, 1];
            match raised {
                None => {
                    let arguments =
                        arguments![*shape, scalars, len, density, ranks, digits, counts];
                    stream.launch(&self.digits, grid, DIGIT_THREADS, arguments)
                }
                Some(windows) => {
                    let arguments =
                        arguments![*shape, windows, scalars, len, density, ranks, digits, counts];
                    stream.launch(&self.digits_raised, grid, DIGIT_THREADS, arguments)
                }
            }
        }
    }

    pub(super) fn place_partitions(
        &self,
        stream: &Stream,
        shape: &Shape,
        counts: u64,
        starts: u64,
        cursors: u64,
        tile_starts: u64,
    ) -> Result<()> {
        // SAFETY: digits.cu: msm_place_partitions(Shape, const u32 *counts, u32 *starts, u32 *cursors, u32
        // *tile_starts): `counts` has one a partition, the others one more.
        unsafe {
            let arguments = arguments![*shape, counts, starts, cursors, tile_starts];
            stream.launch(&self.place_partitions, [1; 3], SORT_THREADS, arguments)
        }
    }

    /// Entries of `windows` windows, over raised bases with the elements of a copy.
    pub(super) fn partition(
        &self,
        stream: &Stream,
        shape: &Shape,
        windows: u32,
        copy_len: Option<u64>,
        digits: u64,
        cursors: u64,
        entries: u64,
    ) -> Result<()> {
        let grid = [blocks(shape.points as u64, SORT_TILE)[0], windows, 1];
        // SAFETY: digits.cu: msm_partition(Shape, const u32 *digits, u32 *cursors, Entry *entries), and msm_partition_raised
        // with `u32 copy_len` behind the shape: a digit a point and window is read, as many entries are written as digits are not 0.
        // They name points of the copy of their window, below 2^31 as `msm` checks.
        unsafe {
            match copy_len {
                None => {
                    let arguments = arguments![*shape, digits, cursors, entries];
                    stream.launch(&self.partition, grid, SORT_THREADS, arguments)
                }
                Some(copy_len) => {
                    let copy_len = copy_len as u32;
                    let arguments = arguments![*shape, copy_len, digits, cursors, entries];
                    stream.launch(&self.partition_raised, grid, SORT_THREADS, arguments)
                }
            }
        }
    }

    pub(super) fn count(
        &self,
        stream: &Stream,
        shape: &Shape,
        tiles: u64,
        starts: u64,
        tile_starts: u64,
        entries: u64,
        counts: u64,
    ) -> Result<()> {
        let grid = [tiles.min(4096) as u32, 1, 1];
        // SAFETY: digits.cu: msm_count(Shape, const u32 *starts, const u32 *tile_starts, const Entry
        // *entries, u32 *bucket_counts): entries of the partitions are read, their buckets are those of the
        // group.
        unsafe {
            let arguments = arguments![*shape, starts, tile_starts, entries, counts];
            stream.launch(&self.count, grid, SORT_THREADS, arguments)
        }
    }

    pub(super) fn sort(
        &self,
        stream: &Stream,
        shape: &Shape,
        tiles: u64,
        starts: u64,
        tile_starts: u64,
        entries: u64,
        cursors: u64,
        sorted: u64,
    ) -> Result<()> {
        let grid = [tiles.min(4096) as u32, 1, 1];
        // SAFETY: digits.cu: msm_sort(Shape, const u32 *starts, const u32 *tile_starts, const Entry *entries,
        // u32 *cursors, u32 *sorted): as many are written to a bucket as were counted.
        unsafe {
            let arguments = arguments![*shape, starts, tile_starts, entries, cursors, sorted];
            stream.launch(&self.sort, grid, SORT_THREADS, arguments)
        }
    }

    pub(super) fn pad(
        &self,
        stream: &Stream,
        shape: &Shape,
        buckets: u64,
        starts: u64,
        cursors: u64,
        sorted: u64,
    ) -> Result<()> {
        // SAFETY: digits.cu: msm_pad(Shape, const u32 *starts, const u32 *cursors, u32 *sorted): writes
        // between the end of a bucket's entries and the next bucket.
        unsafe {
            let arguments = arguments![*shape, starts, cursors, sorted];
            stream.launch(&self.pad, blocks(buckets, 256), 256, arguments)
        }
    }
}

impl GroupKernels {
    fn load<F: Coordinate>(levels: &Module, accumulate: &Module, reduce: &Module) -> Result<Self> {
        Ok(Self {
            block_len: super::block_len::<F>(),
            level_products: levels.function("level_products", 0)?,
            level_invert: levels.function("level_invert", 0)?,
            level_sums: levels.function("level_sums", 0)?,
            accumulate: accumulate.function("accumulate", 0)?,
            settle: accumulate.function("settle", 0)?,
            settle_large: accumulate.function("settle_large", 0)?,
            reduce_buckets: reduce.function("reduce_buckets", 0)?,
            reduce_segments: reduce.function("reduce_segments", 0)?,
            reduce_bits: reduce.function("reduce_bits", 0)?,
        })
    }

    pub fn level_products(
        &self,
        stream: &Stream,
        range: &Range,
        points: Points,
        prefixes: u64,
        products: u64,
    ) -> Result<()> {
        let Points { xs, ys, entries } = points;
        let Range { first, len, total, level, resident } = *range;
        let (first, len, resident) = (first as u32, len as u32, resident as u32);
        // SAFETY: levels.cu: level_products(const Element *xs, const Element *ys, const u32 *entries, u32
        // first, u32 len, const u32 *total, u32 shift, u32 resident, Element *prefixes, Element *products).
        // Pairs from `first` on, below first + len and *total >> shift, are read; `prefixes` has one a pair
        // of the range, `products` one a thread.
        unsafe {
            let arguments =
                arguments![xs, ys, entries, first, len, total, level, resident, prefixes, products];
            let grid = [range.blocks(self.block_len) as u32, 1, 1];
            stream.launch(&self.level_products, grid, THREADS, arguments)
        }
    }

    pub fn level_invert(
        &self,
        stream: &Stream,
        range: &Range,
        products: u64,
        prefixes: u64,
    ) -> Result<()> {
        let Range { first, len, total, level, resident } = *range;
        let (first, len, resident) = (first as u32, len as u32, resident as u32);
        let grid = blocks(range.blocks(self.block_len), MIN_INVERT_SHARE);
        // SAFETY: levels.cu: level_invert(u32 first, u32 len, const u32 *total, u32 shift, u32 resident,
        // Element *products, Element *prefixes): both have one a thread of `level_products`.
        unsafe {
            let arguments = arguments![first, len, total, level, resident, products, prefixes];
            stream.launch(&self.level_invert, grid, THREADS, arguments)
        }
    }

    pub fn level_sums(
        &self,
        stream: &Stream,
        range: &Range,
        points: Points,
        prefixes: u64,
        inverses: u64,
        out: Points,
    ) -> Result<()> {
        let Points { xs, ys, entries } = points;
        let Range { first, len, total, level, resident } = *range;
        let (first, len, resident) = (first as u32, len as u32, resident as u32);
        // SAFETY: levels.cu: level_sums(const Element *xs, const Element *ys, const u32 *entries, u32 first,
        // u32 len, const u32 *total, u32 shift, u32 resident, const Element *prefixes, const Element
        // *inverses, Element *out_xs, Element *out_ys). As in `level_products`; the last two have one a pair
        // of the range.
        unsafe {
            let arguments = arguments![
                xs, ys, entries, first, len, total, level, resident, prefixes, inverses, out.xs,
                out.ys
            ];
            let grid = [range.blocks(self.block_len) as u32, 1, 1];
            stream.launch(&self.level_sums, grid, THREADS, arguments)
        }
    }

    pub fn accumulate(
        &self,
        stream: &Stream,
        blocks: u32,
        shape: &Shape,
        points: Points,
        starts: u64,
        buckets: u64,
        heads: u64,
        tails: u64,
    ) -> Result<()> {
        let Points { xs, ys, entries } = points;
        // SAFETY: accumulate.cu: accumulate(Shape, const Element *xs, const Element *ys, const u32 *entries,
        // const u32 *starts, Sum *buckets, Sum *heads, Sum *tails). Entries below starts[buckets] are read,
        // each a point's index, or as many points; `heads` and `tails` have one a run.
        unsafe {
            let arguments = arguments![*shape, xs, ys, entries, starts, buckets, heads, tails];
            stream.launch(&self.accumulate, [blocks, 1, 1], THREADS, arguments)
        }
    }

    pub fn settle(
        &self,
        stream: &Stream,
        blocks: u32,
        shape: &Shape,
        threads: u64,
        starts: u64,
        buckets: u64,
        heads: u64,
        tails: u64,
        large: u64,
        large_len: u64,
    ) -> Result<()> {
        let threads = threads as u32;
        // SAFETY: accumulate.cu: settle(Shape, u32 threads, const u32 *starts, Sum *buckets, Sum *heads,
        // const Sum *tails, u32 *large, u32 *large_len). `large` has room for every bucket of so many parts,
        // of which there are as many as runs.
        unsafe {
            let arguments =
                arguments![*shape, threads, starts, buckets, heads, tails, large, large_len];
            stream.launch(&self.settle, [blocks, 1, 1], THREADS, arguments)
        }
    }

    pub fn settle_large(
        &self,
        stream: &Stream,
        blocks: u32,
        shape: &Shape,
        threads: u64,
        starts: u64,
        buckets: u64,
        heads: u64,
        tails: u64,
        large: u64,
        large_len: u64,
    ) -> Result<()> {
        let threads = threads as u32;
        // SAFETY: accumulate.cu: settle_large(Shape, u32 threads, const u32 *starts, Sum *buckets, const Sum
        // *heads, const Sum *tails, const u32 *large, const u32 *large_len). As above.
        unsafe {
            let arguments =
                arguments![*shape, threads, starts, buckets, heads, tails, large, large_len];
            stream.launch(&self.settle_large, [blocks, 1, 1], THREADS, arguments)
        }
    }

    pub fn reduce_buckets(
        &self,
        stream: &Stream,
        buckets: u64,
        segments: u64,
        log_len: u32,
        [sums, weighted]: [u64; 2],
    ) -> Result<()> {
        let grid = blocks(segments, self.block_len);
        let segments = segments as u32;
        // SAFETY: reduce.cu: reduce_buckets(const Sum *buckets, u32 segments, u32 log_len, Sum *sums, Sum
        // *weighted): 2^log_len buckets a segment.
        unsafe {
            let arguments = arguments![buckets, segments, log_len, sums, weighted];
            stream.launch(&self.reduce_buckets, grid, THREADS, arguments)
        }
    }

    pub fn reduce_segments(
        &self,
        stream: &Stream,
        [sums, weighted]: [u64; 2],
        segments: u64,
        log_unit: u32,
        log_len: u32,
        [out_sums, out_weighted]: [u64; 2],
    ) -> Result<()> {
        let grid = blocks(segments, self.block_len);
        let segments = segments as u32;
        // SAFETY: reduce.cu: reduce_segments(const Sum *sums, const Sum *weighted, u32 segments, u32
        // log_unit, u32 log_len, Sum *out_sums, Sum *out_weighted): 2^log_len of the former a segment.
        unsafe {
            let arguments =
                arguments![sums, weighted, segments, log_unit, log_len, out_sums, out_weighted];
            stream.launch(&self.reduce_segments, grid, THREADS, arguments)
        }
    }

    pub fn reduce_bits(
        &self,
        stream: &Stream,
        [sums, weighted]: [u64; 2],
        windows: u32,
        log_len: u32,
        out: u64,
    ) -> Result<()> {
        let grid = [log_len + 1, windows, 1];
        // SAFETY: reduce.cu: reduce_bits(const Sum *sums, const Sum *weighted, u32 log_len, Sum *out):
        // 2^log_len a window are read, log_len + 1 written.
        unsafe {
            stream.launch(
                &self.reduce_bits,
                grid,
                THREADS,
                arguments![sums, weighted, log_len, out],
            )
        }
    }
}
