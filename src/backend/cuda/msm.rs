//! Multi-scalar multiplication: which kernels, in what shapes.
//!
//! Pippenger's method with signed windows of w bits, a group of windows at a time. The points of a group are
//! sorted by digit; a few levels of batched affine additions (5M + 1S each) sum neighbours in each bucket,
//! what is left is added up in XYZZ coordinates, and the buckets are weighed and summed to a few points a
//! window, which the host adds up. Over raised bases a digit of any window is a factor of a base, so that the windows of a
//! group share one set of buckets, which the host adds to those of other groups. No kernel's work depends on how the digits are spread but by a factor near
//! 1: buckets are cut into runs wherever they are large.

mod launch;

use std::marker::PhantomData;

use self::launch::{Points, Range};
use super::driver::Stream;
use super::launch::Slice;
use super::{Cuda, CudaBuffer, CudaPending, CudaStream};
use crate::Result;
use crate::backend::{Buffer, Msm, Raised};
use crate::curve::{Affine, Coordinate, Point};

pub(super) use launch::{MsmKernels, Shape};

/// Bits of |s|: s or r - s is below r/2 < 2^254.
const SCALAR_BITS: u32 = 254;
/// Limits of cuda/digits.cu: partitions of a group, and bits of a bucket's number that one pass sorts by.
const MAX_PARTITIONS: u64 = 4096;
const MAX_SORT_BITS: u32 = 10;
/// Windows of more bits would take a third pass.
const MAX_WINDOW_BITS: u32 = 2 * MAX_SORT_BITS + 1;
/// Entries of a tile of the sort.
const SORT_TILE: u64 = 4096;
/// Elements of a tile of a scan.
const SCAN_TILE: u64 = 4096;
/// Entries of a group of windows, at most, unless four windows have more.
const GROUP_ENTRIES: u64 = 1 << 27;
const GROUP_WINDOWS: u64 = 4;
/// Entries that the affine levels take at a time, for coordinates of Fp, unless the points are more: fewer make more
/// inversions, whose latency is not hidden.
const LEVEL_ENTRIES: u64 = 1 << 25;
/// Threads of a block of the affine levels and of sums, and blocks of the accumulation on a multiprocessor.
const THREADS: u32 = 128;
const SUM_BLOCKS: u64 = 2;
/// Blocks of the affine levels that fill a multiprocessor, pairs of a thread, and products of an inversion:
/// cuda/levels.cu.
const LEVEL_BLOCKS: u64 = 4;
const MIN_LEVEL_RUN: u64 = 8;
const MAX_LEVEL_RUN: u64 = 32;
const MIN_INVERT_SHARE: u64 = 4;
/// The most points that a thread accumulates at once, and the parts above which a bucket is large:
/// cuda/accumulate.cu.
const MAX_RUN: u64 = 64;
const MAX_PARTS: u64 = 8;
/// Segments of a window that are left for the last kernel of the reduction, as a power of two.
const LAST_SEGMENTS: u32 = 7;

/// A point in XYZZ coordinates: the affine point (X/ZZ, Y/ZZZ).
type Xyzz<F> = [F; 4];

/// Bytes of scratch for a range of `len` scalars. Never falls when `len` grows.
pub(super) fn scratch_bytes<F: Coordinate>(
    raised: Option<Raised>,
    len: usize,
    multiprocessors: u32,
) -> u64 {
    // The most for any number of points with the same window, and there may be fewer points than scalars.
    let ends = (0..=len.max(1).next_power_of_two().ilog2()).map(|log| len.min(1 << log));
    ends.map(|points| Plan::<F>::new(points, len, raised, multiprocessors).scratch_bytes())
        .max()
        .unwrap_or(0)
}

/// The window for raised bases, by the power of two above: what fewer windows save against what more buckets cost, in the speeds of an
/// H200 (backends.md). From 2^25 bases on there are hardly fewer windows than without.
pub(super) fn raised_for(len: usize) -> Option<Raised> {
    let window_bits = match len.max(1).next_power_of_two().ilog2() {
        0..=9 => 8,
        10..=11 => 10,
        12..=13 => 12,
        14 => 13,
        15 => 15,
        16 => 16,
        17..=18 => 17,
        19..=20 => 19,
        21..=24 => 20,
        _ => return None,
    };
    Some(Raised::new(window_bits))
}

/// Puts the sum on `stream`; the last few points are added up by the host that waits.
pub(super) fn msm<F: Coordinate>(
    cuda: &Cuda,
    stream: &CudaStream,
    msm: Msm<'_, Cuda, F>,
    scratch: &CudaBuffer<u64>,
) -> Result<CudaPending<Point<F>>> {
    if msm.base_range.is_empty() {
        return Ok(CudaPending::ready(Point::INFINITY));
    }
    let Msm { base_range, raised, .. } = msm;
    let copies = raised.map_or(1, Raised::windows);
    let copy_len = msm.bases.len() / copies;
    assert!(base_range.end <= copy_len && msm.bases.len() < 1 << 31, "bases that entries can name");
    let plan = Plan::<F>::new(base_range.len(), msm.range.len(), raised, cuda.multiprocessors());
    assert!(8 * scratch.len() as u64 >= plan.scratch_bytes(), "scratch below what the query says");
    let scalars = msm.scalars.on(stream).part(msm.range.start, msm.range.len());
    let density = msm.density.map(|density| density.on(stream).address);
    let bases = msm.bases.on(stream).part(base_range.start, base_range.len()).address;
    let scratch = scratch.on(stream).address;
    let kernels = &cuda.0.kernels.msm;
    let copy_len = copy_len as u64;
    plan.enqueue(
        kernels,
        stream.queue.stream(),
        [bases, copy_len],
        scalars.address,
        density,
        scratch,
    )?;
    let (at, len) = plan.results();
    CudaPending::of(stream, Slice::<u64>::new(scratch + at, len / 8), move |results| {
        plan.finish(bytemuck::cast_slice(results))
    })
}

/// How one sum is computed, and where everything stands in the scratch. Pure.
#[derive(Clone, Debug)]
pub(super) struct Plan<F> {
    /// Bases.
    points: u64,
    /// Scalars of the range.
    len: u64,
    /// Whether all windows of a group share one set of buckets.
    is_raised: bool,
    window_bits: u32,
    levels: u32,
    windows: u32,
    group_windows: u32,
    fine_bits: u32,
    /// Elements that the device works on at once: threads, or pairs of lanes over Fp2.
    threads: u64,
    layout: Layout,
    group: PhantomData<F>,
}

/// Offsets in bytes.
#[derive(Clone, Debug, Default)]
struct Layout {
    ranks: u64,
    sums: u64,
    partition_counts: u64,
    bucket_counts: u64,
    large_len: u64,
    partition_starts: u64,
    partition_cursors: u64,
    tile_starts: u64,
    starts: u64,
    cursors: u64,
    sorted: u64,
    segments: [[u64; 2]; 2],
    out: u64,
    // While points are sorted.
    digits: u64,
    entries: u64,
    // When they are.
    points: u64,
    level_sums: [u64; 2],
    prefixes: u64,
    products: u64,
    product_prefixes: u64,
    buckets: u64,
    heads: u64,
    tails: u64,
    large: u64,
    end: u64,
}

/// Elements that a block works on: see cuda/fp2.cuh.
fn block_len<F: Coordinate>() -> u64 {
    THREADS as u64 / F::DEGREE as u64
}

/// Hands out parts of the scratch one behind the other.
struct Allocator(u64);

impl Allocator {
    fn take<T>(&mut self, len: u64) -> u64 {
        let at = self.0;
        self.0 += (len * size_of::<T>() as u64).next_multiple_of(256);
        at
    }
}

impl<F: Coordinate> Plan<F> {
    /// The plan for `points` bases, raised or not, and a range of `len` scalars on a device of so many multiprocessors.
    pub fn new(points: usize, len: usize, raised: Option<Raised>, multiprocessors: u32) -> Self {
        let is_raised = raised.is_some();
        let (window_bits, levels) = match raised {
            None => choose(points as u64),
            Some(raised) => (raised.window_bits(), levels_over(raised, points as u64)),
        };
        let (points, len) = (points as u64, len as u64);
        let windows = SCALAR_BITS / window_bits + 1;
        assert!((2..=MAX_WINDOW_BITS).contains(&window_bits), "a window of {window_bits} bits");
        // One pass if it can, else two of as many bits.
        let fine_bits = match window_bits - 1 {
            bits @ ..MAX_SORT_BITS => bits,
            bits => bits.div_ceil(2),
        };
        let coarse_bits = window_bits - 1 - fine_bits;
        // By the power of two, so that scratch does not fall when there are more points.
        let most = points.max(1).next_power_of_two();
        let fits = |group: u32| {
            let sets = if is_raised { 1 } else { group as u64 };
            group as u64 * most <= GROUP_ENTRIES.max(GROUP_WINDOWS * most)
                && sets << coarse_bits <= MAX_PARTITIONS
        };
        let group_windows = (1..=windows).rev().find(|group| fits(*group)).unwrap_or(1);
        // Even groups: the last should not be a single window.
        let group_windows = windows.div_ceil(windows.div_ceil(group_windows));
        let mut plan = Self {
            points,
            len,
            is_raised,
            window_bits,
            levels,
            windows,
            group_windows,
            fine_bits,
            threads: multiprocessors as u64 * SUM_BLOCKS * block_len::<F>(),
            layout: Layout::default(),
            group: PhantomData,
        };
        plan.layout = plan.layout();
        plan
    }

    /// Bytes of scratch.
    pub fn scratch_bytes(&self) -> u64 {
        self.layout.end
    }

    /// Where the results start in the scratch, and their bytes.
    pub fn results(&self) -> (u64, usize) {
        let points = self.sets() as usize * (self.log_last() as usize + 1);
        (self.layout.out, points * size_of::<Xyzz<F>>())
    }

    /// Sets of buckets, one a window or one a group.
    fn sets(&self) -> u32 {
        if self.is_raised { self.windows.div_ceil(self.group_windows) } else { self.windows }
    }

    /// The sets of a group of `windows`.
    fn sets_of(&self, windows: u32) -> u32 {
        if self.is_raised { 1 } else { windows }
    }

    fn buckets(&self) -> u64 {
        (self.sets_of(self.group_windows) as u64) << (self.window_bits - 1)
    }

    fn partitions(&self) -> u64 {
        self.buckets() >> self.fine_bits
    }

    /// The most sorted entries of a group, with what fills up the buckets.
    fn slots(&self) -> u64 {
        let entries = self.group_windows as u64 * self.points;
        entries + self.buckets().min(entries) * ((1 << self.levels) - 1)
    }

    /// The entries that the affine levels take at a time.
    fn level_entries(&self) -> u64 {
        (LEVEL_ENTRIES / F::DEGREE as u64)
            .max(self.points.next_power_of_two())
            .min(self.slots().next_multiple_of(1 << self.levels))
    }

    /// Segments of a window at the end of the reduction, as a power of two.
    fn log_last(&self) -> u32 {
        (self.window_bits - 1).min(LAST_SEGMENTS)
    }

    /// Buckets that a thread of the reduction's first step sums up, as a power of two: as many as leave work
    /// for all threads.
    fn log_first(&self) -> u32 {
        let most = self.window_bits - 1 - self.log_last();
        (0..=most.min(5))
            .rev()
            .find(|log| self.buckets() >> log >= self.threads)
            .unwrap_or(most.min(2))
    }

    fn layout(&self) -> Layout {
        let Self { points, len, group_windows, .. } = *self;
        let entries = group_windows as u64 * points;
        let (buckets, partitions, slots) = (self.buckets(), self.partitions(), self.slots());
        let mut at = Allocator(0);
        let segments = (self.sets() as u64) << (self.window_bits - 1 - self.log_first());
        let mut pair = |len: u64| [at.take::<Xyzz<F>>(len), at.take::<Xyzz<F>>(len)];
        let segments = [pair(segments), pair(segments.div_ceil(2))];
        let common = Layout {
            segments,
            ranks: at.take::<u32>(len.div_ceil(64) + 1),
            sums: at.take::<u32>((buckets + 1).max(len.div_ceil(64) + 1).div_ceil(SCAN_TILE)),
            partition_counts: at.take::<u32>(partitions),
            bucket_counts: at.take::<u32>(buckets),
            large_len: at.take::<u32>(1),
            partition_starts: at.take::<u32>(partitions + 1),
            partition_cursors: at.take::<u32>(partitions + 1),
            tile_starts: at.take::<u32>(partitions + 1),
            starts: at.take::<u32>(buckets + 1),
            cursors: at.take::<u32>(buckets + 1),
            sorted: at.take::<u32>(slots),
            out: at.take::<Xyzz<F>>(self.sets() as u64 * (self.log_last() as u64 + 1)),
            ..Layout::default()
        };
        // The points are sorted before the sums need their room.
        let mut sums = Allocator(at.0);
        let sorting = Layout {
            digits: at.take::<u32>(entries),
            entries: at.take::<[u32; 2]>(entries),
            ..common
        };
        let level = if self.levels > 0 { self.level_entries() } else { 0 };
        let products = self.range(level, 0, 0, 1).blocks(block_len::<F>()) * block_len::<F>();
        // As many a thread, and so up to one a thread more than the longest runs would be.
        let runs = self.threads + (slots >> self.levels).div_ceil(MAX_RUN) + 1;
        Layout {
            points: sums.take::<Affine<F>>(if self.levels > 0 { slots >> self.levels } else { 0 }),
            level_sums: [sums.take::<Affine<F>>(level / 2), sums.take::<Affine<F>>(level / 4)],
            prefixes: sums.take::<F>(level / 2),
            products: sums.take::<F>(products),
            product_prefixes: sums.take::<F>(products),
            buckets: sums.take::<Xyzz<F>>(buckets),
            heads: sums.take::<Xyzz<F>>(runs),
            tails: sums.take::<Xyzz<F>>(runs),
            large: sums.take::<u32>(runs / MAX_PARTS + 1),
            end: at.0.max(sums.0),
            ..sorting
        }
    }

    /// Puts the work on `stream`: what [`Plan::results`] says is then where the results are. Addresses are
    /// those of the bases, with the elements of a copy if they are raised, of the range's scalars, of the density if there is one, and
    /// of the scratch.
    pub fn enqueue(
        &self,
        kernels: &MsmKernels,
        stream: &Stream,
        [bases, copy_len]: [u64; 2],
        scalars: u64,
        density: Option<u64>,
        scratch: u64,
    ) -> Result<()> {
        let at = |offset: u64| scratch + offset;
        let l = &self.layout;
        let k = kernels.of::<F>();
        if let Some(density) = density {
            let words = self.len.div_ceil(64);
            kernels.scan_set_bits(stream, density, words, at(l.sums), at(l.ranks))?;
        }
        let copy_len = self.is_raised.then_some(copy_len);
        for (group, first_window) in
            (0..self.windows).step_by(self.group_windows as usize).enumerate()
        {
            let windows = self.group_windows.min(self.windows - first_window);
            let shape = Shape {
                points: self.points as u32,
                window_bits: self.window_bits,
                first_window,
                windows: self.sets_of(windows),
                fine_bits: self.fine_bits,
                levels: self.levels,
            };
            let buckets = (shape.windows as u64) << (self.window_bits - 1);
            stream.wipe(at(l.partition_counts), l.partition_starts - l.partition_counts)?;
            kernels.digits(
                stream,
                &shape,
                self.is_raised.then_some(windows),
                scalars,
                self.len,
                density.map(|density| (density, at(l.ranks))),
                at(l.digits),
                at(l.partition_counts),
            )?;
            let (starts, cursors) = (at(l.partition_starts), at(l.partition_cursors));
            kernels.place_partitions(
                stream,
                &shape,
                at(l.partition_counts),
                starts,
                cursors,
                at(l.tile_starts),
            )?;
            let (digits, entries) = (at(l.digits), at(l.entries));
            kernels.partition(stream, &shape, windows, copy_len, digits, cursors, entries)?;
            let tiles = (windows as u64 * self.points).div_ceil(SORT_TILE)
                + ((shape.windows as u64) << (self.window_bits - 1 - self.fine_bits));
            kernels.count(
                stream,
                &shape,
                tiles,
                starts,
                at(l.tile_starts),
                at(l.entries),
                at(l.bucket_counts),
            )?;
            kernels.scan_padded(
                stream,
                at(l.bucket_counts),
                self.levels,
                buckets,
                at(l.sums),
                at(l.starts),
                at(l.cursors),
            )?;
            kernels.sort(
                stream,
                &shape,
                tiles,
                starts,
                at(l.tile_starts),
                at(l.entries),
                at(l.cursors),
                at(l.sorted),
            )?;
            if self.levels > 0 {
                kernels.pad(stream, &shape, buckets, at(l.starts), at(l.cursors), at(l.sorted))?;
                self.add_neighbours(kernels, stream, bases, at(l.starts) + 4 * buckets, scratch)?;
            }
            // A bucket without points is infinity, all zero.
            stream.wipe(at(l.buckets), buckets * size_of::<Xyzz<F>>() as u64)?;
            let (heads, tails) = (at(l.heads), at(l.tails));
            let points = match self.levels {
                0 => Points::of_entries::<F>(bases, at(l.sorted)),
                _ => self.sums(scratch),
            };
            let blocks = (self.threads / block_len::<F>()) as u32;
            k.accumulate(
                stream,
                blocks,
                &shape,
                points,
                at(l.starts),
                at(l.buckets),
                heads,
                tails,
            )?;
            let (large, large_len) = (at(l.large), at(l.large_len));
            let threads = self.threads;
            k.settle(
                stream,
                blocks,
                &shape,
                threads,
                at(l.starts),
                at(l.buckets),
                heads,
                tails,
                large,
                large_len,
            )?;
            k.settle_large(
                stream,
                blocks,
                &shape,
                threads,
                at(l.starts),
                at(l.buckets),
                heads,
                tails,
                large,
                large_len,
            )?;
            let first_set = if self.is_raised { group as u64 } else { first_window as u64 };
            let first = first_set << (self.window_bits - 1 - self.log_first());
            let segments =
                l.segments[0].map(|offset| at(offset) + first * size_of::<Xyzz<F>>() as u64);
            k.reduce_buckets(
                stream,
                at(l.buckets),
                buckets >> self.log_first(),
                self.log_first(),
                segments,
            )?;
        }
        self.reduce(kernels, stream, scratch)
    }

    /// The sums after the last affine level.
    fn sums(&self, scratch: u64) -> Points {
        Points::sums::<F>(scratch + self.layout.points, self.slots() >> self.levels)
    }

    /// The pairs of a level in `entries` entries from `start` on.
    fn range(&self, entries: u64, start: u64, total: u64, level: u32) -> Range {
        let resident = self.threads / SUM_BLOCKS * LEVEL_BLOCKS;
        Range { first: start >> level, len: entries >> level, total, level, resident }
    }

    /// The affine levels, from the sorted entries to `points`. `total` is where their number is.
    fn add_neighbours(
        &self,
        kernels: &MsmKernels,
        stream: &Stream,
        bases: u64,
        total: u64,
        scratch: u64,
    ) -> Result<()> {
        let l = &self.layout;
        let at = |offset: u64| scratch + offset;
        let k = kernels.of::<F>();
        let (prefixes, products) = (at(l.prefixes), at(l.products));
        let step = self.level_entries();
        for start in (0..self.slots()).step_by(step as usize) {
            let mut points = Points::of_entries::<F>(bases, at(l.sorted));
            for level in 1..=self.levels {
                let range = self.range(step, start, total, level);
                let out = if level == self.levels {
                    self.sums(scratch).from::<F>(range.first)
                } else {
                    Points::sums::<F>(at(l.level_sums[(level as usize - 1) % 2]), range.len)
                };
                k.level_products(stream, &range, points, prefixes, products)?;
                k.level_invert(stream, &range, products, at(l.product_prefixes))?;
                k.level_sums(stream, &range, points, prefixes, products, out)?;
                points = out;
            }
        }
        Ok(())
    }

    /// From the first segments of all windows to the results.
    fn reduce(&self, kernels: &MsmKernels, stream: &Stream, scratch: u64) -> Result<()> {
        let l = &self.layout;
        let k = kernels.of::<F>();
        let sets = self.sets() as u64;
        let pairs = l.segments.map(|pair| pair.map(|offset| scratch + offset));
        let mut unit = self.log_first();
        let mut left = self.window_bits - 1 - unit;
        let mut from = 0;
        while left > self.log_last() {
            let log_len = (left - self.log_last()).min(2);
            left -= log_len;
            k.reduce_segments(stream, pairs[from], sets << left, unit, log_len, pairs[1 - from])?;
            unit += log_len;
            from = 1 - from;
        }
        k.reduce_bits(stream, pairs[from], self.sets(), left, scratch + l.out)
    }

    /// The sum from the results' bytes.
    pub fn finish(&self, results: &[u8]) -> Point<F> {
        let results: &[Xyzz<F>] = bytemuck::cast_slice(results);
        let last = self.log_last();
        // Bit k of a segment's number weighs 2^k segments of so many buckets.
        let segment = self.window_bits - 1 - last;
        let mut total = Point::INFINITY;
        for set in results.chunks(last as usize + 1).rev() {
            // The next window's sum counts once for each of this one's values; another group's counts once.
            let mut sum = if self.is_raised { Point::INFINITY } else { total };
            // The bits of this window from the top down; those below a segment are none.
            for bit in (0..self.window_bits).rev() {
                sum = sum.double();
                if let Some(k) = bit.checked_sub(segment)
                    && let Some(of_bit) = set[1..].get(k as usize)
                {
                    sum = sum + jacobian(of_bit);
                }
            }
            sum = sum + jacobian(&set[0]);
            total = if self.is_raised { total + sum } else { sum };
        }
        total
    }
}

/// (X ZZ, Y ZZZ, ZZ) is the same point in Jacobian coordinates, since ZZ^3 = ZZZ^2.
fn jacobian<F: Coordinate>(point: &Xyzz<F>) -> Point<F> {
    let [x, y, zz, zzz] = *point;
    Point([x * zz, y * zzz, zz])
}

/// The window and the levels of affine additions for so many points, by the power of two above: the best of
/// those tried on an H200 (backends.md). A window or level more or less costs up to 5 % there.
fn choose(points: u64) -> (u32, u32) {
    match points.max(1).next_power_of_two().ilog2() {
        0..=7 => (4, 0),
        8..=9 => (6, 0),
        10..=11 => (8, 0),
        12..=13 => (9, 0),
        14..=15 => (11, 0),
        16 => (12, 0),
        17 => (13, 0),
        18 => (13, 2),
        19 => (14, 3),
        20 => (15, 3),
        21 => (16, 3),
        22 => (16, 4),
        23 => (17, 4),
        24 => (17, 4),
        25 => (19, 4),
        _ => (20, 4),
    }
}

/// The levels over raised bases, of which so many have scalars: as many as `choose` has for as many entries, and fewer where a bucket
/// has few points.
fn levels_over(raised: Raised, points: u64) -> u32 {
    let entries = points.max(1).next_power_of_two() * raised.windows() as u64;
    let levels = match entries.ilog2() {
        0..=20 => 0,
        21 => 2,
        22..=24 => 3,
        _ => 4,
    };
    let of_bucket = entries >> (raised.window_bits() - 1);
    levels.min(of_bucket.max(1).ilog2().saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Fp, Fp2};

    fn lengths() -> impl Iterator<Item = usize> {
        let around = |log: u32| [(1usize << log) - 1, 1 << log, (1 << log) + 1, 3 << log >> 1];
        [0].into_iter().chain((0..27).flat_map(around))
    }

    fn all_raised() -> impl Iterator<Item = Option<Raised>> {
        [8, 10, 13, 17, 20].into_iter().map(|window_bits| Some(Raised::new(window_bits)))
    }

    fn scratch_never_falls<F: Coordinate>(raised: Option<Raised>, multiprocessors: u32) {
        let mut lengths: Vec<_> = lengths().collect();
        lengths.sort_unstable();
        let scratch = |len: &usize| scratch_bytes::<F>(raised, *len, multiprocessors);
        assert!(lengths.is_sorted_by_key(scratch), "{raised:?}, {multiprocessors} multiprocessors");
        // With a density there are fewer bases than scalars.
        for (len, points) in lengths.iter().flat_map(|len| lengths.iter().map(move |p| (*len, *p)))
        {
            if points <= len {
                let plan = Plan::<F>::new(points, len, raised, multiprocessors);
                assert!(plan.scratch_bytes() <= scratch(&len), "{points} bases, {len} scalars");
            }
        }
    }

    #[test]
    fn scratch_is_enough_and_never_falls() {
        for multiprocessors in [20, 132, 188] {
            for raised in all_raised().chain([None]) {
                scratch_never_falls::<Fp>(raised, multiprocessors);
                scratch_never_falls::<Fp2>(raised, multiprocessors);
            }
        }
    }

    /// What the kernels take for granted.
    #[test]
    fn plans_keep_the_limits_of_the_kernels() {
        let raised = |points| all_raised().chain([None, raised_for(points)]);
        let points = lengths().filter(|points| *points > 0);
        for (points, raised) in points.flat_map(|n| raised(n).map(move |raised| (n, raised))) {
            if raised.is_some_and(|raised| raised.windows() * points >= 1 << 31) {
                continue;
            }
            let plan = Plan::<Fp>::new(points, points, raised, 132);
            assert!(plan.windows * plan.window_bits > SCALAR_BITS, "the windows hold every scalar");
            assert!(plan.partitions() <= MAX_PARTITIONS, "{points} bases");
            assert!(plan.fine_bits <= MAX_SORT_BITS && plan.slots() < 1 << 32, "{points} bases");
            assert!(plan.window_bits - 1 - plan.fine_bits <= MAX_SORT_BITS, "{points} bases");
            let windows = raised.map_or(plan.windows, |raised| raised.windows() as u32);
            assert_eq!(plan.windows, windows, "a copy for every window");
        }
    }
}
