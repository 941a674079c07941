//! Multi-scalar multiplication: which kernels, in what shapes.
//!
//! Pippenger's method with signed windows, a group of windows at a time, and for each group the points in chunks. The
//! entries of a chunk, a point and a digit each, are sorted by bucket, by counting: whoever counts an entry learns how many
//! came before it, and needs only the scanned counts for its place. Threads add up runs of sorted entries, all of the same
//! length, wherever buckets begin and end; buckets that cross runs are joined by a tree. So no kernel's work depends on how
//! the digits are spread. Last, sums of neighbouring buckets by weight, and sums over the bits of the neighbourhoods' numbers,
//! which the host adds up.
//!
//! A chunk's points are of one segment of the bases, and a region of the scratch is within one of its segments.

pub(super) mod work;

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, PoisonError};

use self::work::Work;
use super::kernels::{SCAN_LANES, SCAN_RUN};
use super::memory::Memory;
use super::staging::Reading;
use super::{Gpu, Waiting};
use crate::Result;
use crate::curve::{Coordinate, Point};

/// Bits of |s|: s or r - s is below r/2 < 2^254.
const SCALAR_BITS: u32 = 254;
/// Entries that are sorted at a time, at most, unless one window has more.
const MOST_ENTRIES: usize = 1 << 24;
/// Entries of a run: as many as leave work for so many threads. An addition in G2 has up to 700 turns of loops where products are
/// loops, and some software ends a thread's loops after 65,535 in all: that bounds a run, and a segment of buckets.
const RUNS: Range<usize> = 8..64;
const THREADS: usize = 1 << 16;
/// Buckets of a segment, as a power of two: as many as leave so many segments.
const LOG_SEGMENT: RangeInclusive<u32> = 2..=4;
const SEGMENTS: usize = 1 << 15;
/// Points that a thread of [`Kernel::MsmFold`] adds up, and heads that one of [`Kernel::MsmJoin`] does.
const FOLD: usize = 4;
const JOIN: usize = 4;
/// What regions of the scratch are aligned to: more than any device asks for.
const ALIGNMENT: usize = 256;
/// Bytes of the points that the host adds up, of any plan.
const RESULT_BYTES: u64 = 1 << 17;

/// A point in XYZZ coordinates: the affine point (X/ZZ, Y/ZZZ).
type Xyzz<F> = [F; 4];

/// A part of the scratch, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Region {
    at: usize,
    bytes: usize,
}

/// How one sum is computed, and where everything stands in the scratch. Pure.
#[derive(Clone, Debug)]
struct Plan<F> {
    points: usize,
    window_bits: u32,
    windows: usize,
    group_windows: usize,
    /// Points of a chunk, at most.
    chunk: usize,
    /// Entries of a run.
    run: usize,
    /// Buckets of a segment, as a power of two.
    log_segment: u32,
    layout: Layout,
    group: PhantomData<F>,
}

#[derive(Clone, Debug, Default)]
struct Layout {
    /// At the start, so that it begins with a segment; it alone may take more than one.
    ranks: Region,
    rank_sums: Region,
    /// Counts of buckets, and what is before each when they are scanned.
    starts: Region,
    start_sums: Region,
    sorted: Region,
    buckets: Region,
    sums: Region,
    weighted: Region,
    folds: [Region; 2],
    /// Of each group.
    results: Vec<Region>,
    // Before the entries are sorted.
    keys: Region,
    orders: Region,
    // When they are.
    heads: Region,
    tails: Region,
    end: usize,
}

/// Hands out regions one behind the other, none across the end of a segment.
#[derive(Clone)]
struct Allocator {
    at: usize,
    segment_bytes: usize,
}

impl Allocator {
    /// The first region, of as many segments as it needs.
    fn take_long<T>(&mut self, len: usize) -> Region {
        assert_eq!(self.at, 0, "the first region");
        let bytes = (len * size_of::<T>()).max(1).next_multiple_of(ALIGNMENT);
        self.at = bytes;
        Region { at: 0, bytes }
    }

    fn take<T>(&mut self, len: usize) -> Region {
        let bytes = (len * size_of::<T>()).max(1).next_multiple_of(ALIGNMENT);
        assert!(bytes <= self.segment_bytes, "{bytes} bytes in a segment");
        if self.at % self.segment_bytes + bytes > self.segment_bytes {
            self.at = self.at.next_multiple_of(self.segment_bytes);
        }
        let region = Region { at: self.at, bytes };
        self.at += bytes;
        region
    }
}

/// Bytes of scratch for a range of `len` scalars. Never falls when `len` grows.
pub(super) fn scratch_bytes<F: Coordinate>(len: usize, segment_bytes: u64) -> u64 {
    // The most for any number of points with the same window, and there may be fewer points than scalars.
    let ends = (0..=len.max(1).next_power_of_two().ilog2()).map(|log| len.min(1 << log));
    ends.map(|points| Plan::<F>::new(points, len, segment_bytes).layout.end as u64)
        .max()
        .unwrap_or(0)
}

impl<F: Coordinate> Plan<F> {
    /// The plan for `points` bases and a range of `len` scalars, in segments of at most `segment_bytes`.
    fn new(points: usize, len: usize, segment_bytes: u64) -> Self {
        // As memory has them: a power of two of elements.
        let segment_bytes = 1 << segment_bytes.ilog2();
        let fits = |bits: &u32| size_of::<Xyzz<F>>() << (bits - 1) <= segment_bytes;
        // By the power of two, so that scratch does not fall when there are more points.
        let most = points.max(1).next_power_of_two();
        // An addition of two sums costs 1.4 times one of a point and a sum.
        let cost = |bits: &u32| windows(*bits) * (10 * most + (28 << (bits - 1)));
        let window_bits = (3..=20).filter(fits).min_by_key(cost).expect("a segment has 4 sums");
        Self::with(points, len, segment_bytes, window_bits)
    }

    fn with(points: usize, len: usize, segment_bytes: usize, window_bits: u32) -> Self {
        let windows = windows(window_bits);
        let most = points.max(1).next_power_of_two();
        // A power of two: chunks are cut where segments of bases end.
        let chunk = most.min(1 << (segment_bytes / size_of::<[u32; 2]>()).ilog2());
        let chunk = chunk.min(MOST_ENTRIES);
        let buckets = 1usize << (window_bits - 1);
        let group_windows = (segment_bytes / size_of::<[u32; 2]>() / chunk)
            .min(segment_bytes / (buckets * size_of::<Xyzz<F>>()))
            .min(MOST_ENTRIES / chunk)
            .clamp(1, windows);
        // Even groups: the last should not be a single window.
        let group_windows = windows.div_ceil(windows.div_ceil(group_windows));
        let entries = group_windows * chunk;
        let run = (entries / THREADS)
            .clamp(RUNS.start, RUNS.end)
            .max(entries.div_ceil(segment_bytes / size_of::<Xyzz<F>>()));
        let log_segment = LOG_SEGMENT
            .rev()
            .find(|log| (group_windows * buckets) >> log >= SEGMENTS)
            .unwrap_or(*LOG_SEGMENT.start())
            .min(window_bits - 2);
        let mut plan = Self {
            points,
            window_bits,
            windows,
            group_windows,
            chunk,
            run,
            log_segment,
            layout: Layout::default(),
            group: PhantomData,
        };
        plan.layout = plan.layout(len, segment_bytes);
        plan
    }

    /// Bits of the number of a segment of buckets.
    fn bits(&self) -> u32 {
        self.window_bits - 1 - self.log_segment
    }

    /// Buckets of so many windows.
    fn buckets(&self, windows: usize) -> usize {
        windows << (self.window_bits - 1)
    }

    /// Sums of a window that the host gets.
    fn lists(&self) -> usize {
        self.bits() as usize + 2
    }

    fn layout(&self, len: usize, segment_bytes: usize) -> Layout {
        let windows = self.group_windows;
        let buckets = self.buckets(windows);
        let entries = windows * self.chunk.min(self.points);
        let tile = (SCAN_LANES * SCAN_RUN) as usize;
        let words = len.div_ceil(64) * 2;
        let segments = windows << self.bits();
        let lists = windows * self.lists();
        let parts = (1 << (self.bits() - 1)) / FOLD;
        let mut at = Allocator { at: 0, segment_bytes };
        let mut layout = Layout {
            ranks: at.take_long::<u32>(words),
            // Each segment has tiles of its own.
            rank_sums: at.take::<u32>(words.div_ceil(tile) + words * 4 / segment_bytes + 1),
            starts: at.take::<u32>(buckets + 1),
            start_sums: at.take::<u32>((buckets + 1).div_ceil(tile)),
            sorted: at.take::<[u32; 2]>(entries),
            buckets: at.take::<Xyzz<F>>(buckets),
            sums: at.take::<Xyzz<F>>(segments),
            weighted: at.take::<Xyzz<F>>(segments),
            folds: [parts, parts.div_ceil(FOLD)].map(|parts| at.take::<Xyzz<F>>(lists * parts)),
            results: (0..self.windows)
                .step_by(windows)
                .map(|first| windows.min(self.windows - first))
                .map(|windows| at.take::<Xyzz<F>>(windows * self.lists()))
                .collect(),
            ..Layout::default()
        };
        let mut sums = at.clone();
        layout.keys = at.take::<u32>(entries);
        layout.orders = at.take::<u32>(entries);
        layout.heads = sums.take::<Xyzz<F>>(entries.div_ceil(self.run));
        layout.tails = sums.take::<Xyzz<F>>(entries.div_ceil(self.run));
        layout.end = at.at.max(sums.at);
        layout
    }

    /// Bytes of a window's results.
    fn window_bytes(&self) -> usize {
        self.lists() * size_of::<Xyzz<F>>()
    }

    /// The sum from the results, window by window.
    fn finish(&self, results: &[u8]) -> Point<F> {
        let results: Vec<Xyzz<F>> = bytemuck::pod_collect_to_vec(results);
        let mut total = Point::INFINITY;
        for window in results.chunks(self.lists()).rev() {
            // The bits of this window from the top down; those below a segment are none.
            for bit in (0..self.window_bits).rev() {
                total = total.double();
                if let Some(k) = bit.checked_sub(self.log_segment)
                    && k < self.bits()
                {
                    total = total + jacobian(&window[k as usize]);
                }
            }
            for weighted in &window[self.bits() as usize..] {
                total = total + jacobian(weighted);
            }
        }
        total
    }
}

fn windows(window_bits: u32) -> usize {
    (SCALAR_BITS / window_bits + 1) as usize
}

/// (X ZZ, Y ZZZ, ZZ) is the same point in Jacobian coordinates, since ZZ^3 = ZZZ^2.
pub(super) fn jacobian<F: Coordinate>(point: &Xyzz<F>) -> Point<F> {
    let [x, y, zz, zzz] = *point;
    Point([x * zz, y * zzz, zz])
}

/// What is summed: see [`Msm`](crate::backend::Msm).
pub(super) struct Terms<'a> {
    pub bases: &'a Memory,
    pub base_range: Range<usize>,
    pub scalars: &'a Memory,
    pub range: Range<usize>,
    pub density: Option<&'a Memory>,
}

/// Puts the sum in the queue; the last few points are added up by the host that waits.
pub(super) fn msm<F: Coordinate>(
    gpu: &Arc<Gpu>,
    terms: &Terms<'_>,
    scratch: &Memory,
) -> Result<Waiting<Point<F>>> {
    if terms.base_range.is_empty() {
        return Ok(Box::new(|| Ok(Point::INFINITY)));
    }
    let plan = Plan::<F>::new(terms.base_range.len(), terms.range.len(), gpu.segment_bytes);
    let mut commands = Work::all(gpu, &plan, terms, scratch)?;
    let free = gpu.results.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let results = match free {
        Some(results) => results,
        None => {
            use wgpu::BufferUsages as Usage;
            let usage = Usage::MAP_READ | Usage::COPY_DST;
            gpu.device.create("a sum's last points", RESULT_BYTES, usage, false)?
        }
    };
    let mut to = 0;
    for region in &plan.layout.results {
        let words = region.at / 8..(region.at + region.bytes) / 8;
        let windows = plan.group_windows.min(plan.windows - to / plan.window_bytes());
        let piece = scratch.pieces(words).next().expect("regions are not empty");
        let bytes = windows * plan.window_bytes();
        commands.copy((piece.buffer, piece.offset), (&results, to as u64), bytes as u64);
        to += bytes;
    }
    let reading = Reading::submit(commands, results.clone(), to as u64, None)?;
    let gpu = gpu.clone();
    Ok(Box::new(move || {
        let sum = reading.finish(|results| plan.finish(results))?;
        gpu.results.lock().unwrap_or_else(PoisonError::into_inner).push(results);
        Ok(sum)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Fp, Fp2};

    const SEGMENTS: [u64; 4] = [1 << 16, 100_000, 128 << 20, 1 << 30];

    fn lengths() -> Vec<usize> {
        let around = |log: u32| [(1usize << log) - 1, 1 << log, (1 << log) + 1, 3 << log >> 1];
        let mut lengths: Vec<_> = (0..24).flat_map(around).collect();
        lengths.sort_unstable();
        lengths
    }

    fn scratch_never_falls<F: Coordinate>(segment_bytes: u64) {
        let lengths = lengths();
        let scratch = |len: &usize| scratch_bytes::<F>(*len, segment_bytes);
        assert!(lengths.is_sorted_by_key(scratch), "segments of {segment_bytes} bytes");
        for len in &lengths {
            for points in lengths.iter().filter(|points| *points <= len) {
                let plan = Plan::<F>::new(*points, *len, segment_bytes);
                let end = plan.layout.end as u64;
                assert!(end <= scratch(len), "{points} bases, {len} scalars");
                assert!((plan.windows * plan.window_bytes()) as u64 <= RESULT_BYTES);
                assert!(plan.windows as u32 * plan.window_bits > SCALAR_BITS);
            }
        }
    }

    #[test]
    fn scratch_is_enough_and_never_falls() {
        for segment_bytes in SEGMENTS {
            scratch_never_falls::<Fp>(segment_bytes);
            scratch_never_falls::<Fp2>(segment_bytes);
        }
    }
}
