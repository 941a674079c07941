//! Pippenger's multi-scalar multiplication with affine buckets.
//!
//! Scalars are taken as +-s below 2^254 and cut into signed windows of c bits. For each window the points
//! are sorted by digit and every bucket is summed as a balanced tree, all buckets' additions of one
//! level sharing their inversions: an addition costs 5M + 1S and a small share of one
//! inversion, against 8M + 2S in XYZZ coordinates. A tree needs no luck with the scalars: one value in
//! all of them is one deep tree. Every addition is complete: infinity, P + P and P - P are told
//! apart before the inversion.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::backend::Raised;
use crate::curve::batch::{BATCH, booth_digit};
use crate::curve::buckets::{Buckets, carve};
use crate::curve::{Affine, Coordinate, Point};
use crate::field::Fr;

/// Bits of |s|: s or r - s is below r/2 < 2^254.
const SCALAR_BITS: usize = 254;
/// Set in the top limb of a scalar that stands for its negative.
const NEGATIVE: u64 = 1 << 63;

/// The shape of the work for at most `len` scalars, and the scratch it takes. Pure.
pub(in crate::backend) struct Plan<F> {
    len: usize,
    lanes: usize,
    /// The largest window that will be chosen: the best for `len` wide scalars.
    max_window: u32,
    group: PhantomData<F>,
}

impl<F: Coordinate> Plan<F> {
    pub(in crate::backend) fn new(len: usize, threads: usize) -> Self {
        // More parts only favour smaller windows, so that of one thread is the largest; and it never
        // falls when `len` grows, which the number of parts does.
        let max_window = best_window(len, SCALAR_BITS, len, 1).0;
        Self { len, lanes: threads, max_window, group: PhantomData }
    }

    /// Over bases that are raised, whose window is given.
    pub(in crate::backend) fn over(raised: Option<Raised>, len: usize, threads: usize) -> Self {
        match raised {
            None => Self::new(len, threads),
            Some(raised) => {
                Self { len, lanes: threads, max_window: raised.window_bits(), group: PhantomData }
            }
        }
    }

    /// Points that one lane sorts and sums at a time: enough that buckets fill (eight a bucket),
    /// few enough that the trees stay near a core.
    fn chunk(&self) -> usize {
        (8 << (self.max_window - 1)).max(1 << 14).min(self.len)
    }

    /// 64-bit words for one lane: its buckets, its trees, the bucket boundaries, the sorted entries.
    fn lane_words(&self) -> usize {
        Buckets::<F>::words(1 << (self.max_window - 1), self.chunk())
    }

    pub(in crate::backend) fn scratch_words(&self) -> usize {
        4 * self.len + self.len.div_ceil(2) + self.lanes * self.lane_words()
    }
}

/// The window for `len` scalars of at most `bits` bits, `wide` of which have more than a few, and
/// the parts into which a window's points are split to keep `threads` threads busy.
///
/// The model counts additions: one a wide scalar and window, and 2.2 a bucket (the two of
/// the running sums, whose inversions are shared by fewer).
fn best_window(wide: usize, bits: usize, len: usize, threads: usize) -> (u32, usize) {
    let cost = |c: u32| {
        let windows = bits / c as usize + 1;
        let parts = (2 * threads).div_ceil(windows).min(len.div_ceil(1 << 12)).max(1);
        let buckets = parts as f64 * 2.2 * (1u64 << (c - 1)) as f64;
        (windows as f64 * (wide as f64 + buckets), c, parts)
    };
    // 17 bits: 65536 buckets of 96 or 192 bytes are as much as a lane can keep near its core.
    let (_, c, parts) =
        (2..=17).map(cost).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 2, 1));
    (c, parts)
}

/// The multiples for sums over `len` bases, by the same model: every window's additions, and the buckets of one for all of
/// them.
pub(in crate::backend) fn raised_for(len: usize) -> Raised {
    let cost = |raised: &Raised| {
        raised.windows() as f64 * len as f64 + 2.2 * (1u64 << (raised.window_bits() - 1)) as f64
    };
    let all = (2..=17).map(Raised::new);
    all.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(Raised::new(2))
}

/// Bases in a buffer.
pub(in crate::backend) struct Bases<'a, F> {
    /// All of the buffer.
    pub points: &'a [Affine<F>],
    /// The bases that are meant.
    pub range: Range<usize>,
    /// The multiples that the buffer holds, too.
    pub raised: Option<Raised>,
}

/// The sum of `scalars[i] bases[k]` over the set bits i of `density`, k counting them.
pub(in crate::backend) fn msm<F: Coordinate>(
    all: Bases<'_, F>,
    scalars: &[Fr],
    density: Option<&[u64]>,
    threads: usize,
    scratch: &mut [u64],
) -> Point<F> {
    let bases = &all.points[all.range.clone()];
    if bases.is_empty() {
        return Point::INFINITY;
    }
    let plan = Plan::<F>::over(all.raised, scalars.len(), threads);
    assert!(scratch.len() >= plan.scratch_words(), "scratch below what the query says");
    let mut scratch = scratch;
    let signed = &mut carve::<[u64; 4]>(&mut scratch, scalars.len())[..bases.len()];
    let wide = carve::<u32>(&mut scratch, scalars.len());
    gather(bases, scalars, density, signed);

    let signed = &*signed;
    if let Some(raised) = all.raised {
        return over_raised(&plan, &all, raised, signed, scratch);
    }
    let stats = signed.par_chunks(1 << 12).map(Stats::of).reduce(Stats::default, Stats::merge);
    if stats.bits == 0 {
        return Point::INFINITY;
    }
    let (c, parts) = best_window(stats.wide, stats.bits, bases.len(), threads);
    let c = c.min(plan.max_window);
    let windows = stats.bits / c as usize + 1;
    // All scalars have a digit in the first window; most of a real witness, its bits, have no other.
    let mut count = 0;
    for (i, _) in signed.iter().enumerate().filter(|(_, scalar)| bits_of(scalar) >= c as usize) {
        wide[count] = i as u32;
        count += 1;
    }
    let wide = &wide[..count];

    // One task a window and part, taken in turn by the lanes, each with its own scratch.
    let tasks = windows * parts;
    let next = AtomicUsize::new(0);
    let mut sums: Vec<(usize, Point<F>)> = scratch
        .par_chunks_exact_mut(plan.lane_words())
        .take(plan.lanes)
        .flat_map_iter(|scratch| {
            let mut lane = Lane::<F>::new(&plan, c, bases, signed, scratch);
            let mut sums = Vec::new();
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return sums;
                }
                let (window, part) = (task / parts, task % parts);
                let part_of = |len: usize| {
                    let part_len = len.div_ceil(parts);
                    (part * part_len).min(len)..((part + 1) * part_len).min(len)
                };
                let sum = match window {
                    0 => lane.window_sum(window, part_of(signed.len()), |i| i as u32),
                    _ => lane.window_sum(window, part_of(wide.len()), |i| wide[i]),
                };
                sums.push((window, sum));
            }
        })
        .collect();

    sums.sort_by_key(|(window, _)| *window);
    (0..windows).rev().fold(Point::INFINITY, |total, window| {
        let shifted = (0..c).fold(total, |total, _| total.double());
        let of_window = sums.iter().filter(|(w, _)| *w == window);
        of_window.fold(shifted, |total, (_, sum)| total + *sum)
    })
}

/// The sum over raised bases: each lane has a part of the scalars, and one set of buckets for all their digits.
fn over_raised<F: Coordinate>(
    plan: &Plan<F>,
    all: &Bases<'_, F>,
    raised: Raised,
    signed: &[[u64; 4]],
    scratch: &mut [u64],
) -> Point<F> {
    let copy_len = all.points.len() / raised.windows();
    let part_len = signed.len().div_ceil(plan.lanes);
    let lanes = scratch.par_chunks_exact_mut(plan.lane_words());
    let sums =
        lanes.zip(signed.par_chunks(part_len)).enumerate().map(|(part, (scratch, signed))| {
            let mut lane = Lane::<F>::new(plan, raised.window_bits(), all.points, signed, scratch);
            lane.buckets.sums.fill(Affine::INFINITY);
            for window in 0..raised.windows() {
                let first = window * copy_len + all.range.start + part * part_len;
                lane.add(window, 0..signed.len(), |i| i as u32, first as u32);
            }
            lane.reduce()
        });
    sums.reduce(|| Point::INFINITY, |a, b| a + b)
}

/// Writes |s| and its sign for every base, in the order of the bases; 0 for a base at infinity.
fn gather<F: Coordinate>(
    bases: &[Affine<F>],
    scalars: &[Fr],
    density: Option<&[u64]>,
    out: &mut [[u64; 4]],
) {
    let Some(density) = density else {
        let each = out.par_iter_mut().zip(scalars).zip(bases).with_min_len(1 << 10);
        return each.for_each(|((out, scalar), base)| *out = signed_scalar(scalar, base));
    };
    // Each block of density words owns the run of bases that its set bits stand for.
    const WORDS: usize = 1 << 6;
    let (mut out, mut bases) = (out, bases);
    let mut blocks = Vec::with_capacity(density.len().div_ceil(WORDS));
    for words in density.chunks(WORDS) {
        let ones = words.iter().map(|word| word.count_ones() as usize).sum();
        let (these_out, rest_out) = out.split_at_mut(ones);
        let (these, rest) = bases.split_at(ones);
        blocks.push((words, these_out, these));
        (out, bases) = (rest_out, rest);
    }
    blocks.into_par_iter().zip(scalars.par_chunks(64 * WORDS)).for_each(
        |((words, out, bases), scalars)| {
            let set = (0..scalars.len()).filter(|i| words[i / 64] >> (i % 64) & 1 == 1);
            for ((out, base), i) in out.iter_mut().zip(bases).zip(set) {
                *out = signed_scalar(&scalars[i], base);
            }
        },
    );
}

fn signed_scalar<F: Coordinate>(scalar: &Fr, base: &Affine<F>) -> [u64; 4] {
    if base.is_infinity() {
        return [0; 4];
    }
    let positive = scalar.to_canonical_limbs();
    if positive[3] <= Fr::MODULUS[3] / 2 {
        // below 2^254, if not below r/2
        return positive;
    }
    let mut negative = (-*scalar).to_canonical_limbs();
    negative[3] |= NEGATIVE;
    negative
}

/// What decides the window.
#[derive(Clone, Copy, Default)]
struct Stats {
    /// Scalars of more than 16 bits: those that cost an addition in most windows.
    wide: usize,
    /// Bits of the widest.
    bits: usize,
}

impl Stats {
    fn of(scalars: &[[u64; 4]]) -> Self {
        scalars.iter().fold(Self::default(), |stats, scalar| {
            let bits = bits_of(scalar);
            stats.merge(Self { wide: (bits > 16) as usize, bits })
        })
    }

    fn merge(self, other: Self) -> Self {
        Self { wide: self.wide + other.wide, bits: self.bits.max(other.bits) }
    }
}

/// Bits of |s|.
fn bits_of(scalar: &[u64; 4]) -> usize {
    let limbs = [scalar[0], scalar[1], scalar[2], scalar[3] & !NEGATIVE];
    let top = limbs.iter().rposition(|limb| *limb != 0);
    top.map_or(0, |i| 64 * (i + 1) - limbs[i].leading_zeros() as usize)
}

/// The digit of a scalar with its sign in the top bit.
fn digit(scalar: &[u64; 4], window: usize, c: u32) -> i32 {
    let magnitude = [scalar[0], scalar[1], scalar[2], scalar[3] & !NEGATIVE];
    let digit = booth_digit(&magnitude, window, c);
    if scalar[3] & NEGATIVE == 0 { digit } else { -digit }
}

/// One worker, with its scratch.
struct Lane<'a, F> {
    c: u32,
    bases: &'a [Affine<F>],
    scalars: &'a [[u64; 4]],
    buckets: Buckets<'a, F>,
}

impl<'a, F: Coordinate> Lane<'a, F> {
    fn new(
        plan: &Plan<F>,
        c: u32,
        bases: &'a [Affine<F>],
        scalars: &'a [[u64; 4]],
        scratch: &'a mut [u64],
    ) -> Self {
        Self { c, bases, scalars, buckets: Buckets::new(1 << (c - 1), plan.chunk(), scratch) }
    }

    /// The sum of digit times base over one window, for the bases and scalars `index(i)` with i in `range`.
    fn window_sum(
        &mut self,
        window: usize,
        range: Range<usize>,
        index: impl Fn(usize) -> u32,
    ) -> Point<F> {
        self.buckets.sums.fill(Affine::INFINITY);
        self.add(window, range, index, 0);
        self.reduce()
    }

    /// Adds digit times base to the buckets, where base 0 is number `first`.
    fn add(
        &mut self,
        window: usize,
        range: Range<usize>,
        index: impl Fn(usize) -> u32,
        first: u32,
    ) {
        let chunk = self.buckets.chunk();
        for start in range.clone().step_by(chunk) {
            let indices = (start..range.end.min(start + chunk)).map(&index);
            let digit_of = |i: u32| digit(&self.scalars[i as usize], window, self.c);
            let digits = indices.map(|i| (first + i, digit_of(i)));
            self.buckets.add(self.bases, digits);
        }
    }

    /// The sum of (i + 1) `buckets[i]`.
    ///
    /// The buckets are cut into segments of L whose running sums R and sums of running sums T go
    /// in step, one batch of additions for all: bucket L s + j weighs L s + (j + 1), so the
    /// whole is the sum of T_s + L s R_s.
    fn reduce(&mut self) -> Point<F> {
        let segments = self.buckets.sums.len().min(BATCH / 2);
        let length = self.buckets.sums.len() / segments;
        let sums = &mut vec![Affine::INFINITY; 2 * segments][..];
        for j in (0..length).rev() {
            for s in 0..segments {
                // T takes R as it was one step ago, so that both additions go in one batch.
                self.buckets.adder.push(sums[segments + s], sums[s], segments + s, sums);
                self.buckets.adder.push(sums[s], self.buckets.sums[s * length + j], s, sums);
            }
            self.buckets.adder.flush(sums);
        }
        let (running, weighted) = sums.split_at(segments);
        let mut suffix = Point::INFINITY;
        let mut by_segment = Point::INFINITY;
        for r in running[1..].iter().rev() {
            suffix = suffix + *r;
            by_segment = by_segment + suffix;
        }
        let shifted = (0..length.ilog2()).fold(by_segment, |point, _| point.double());
        // R once more: T was one step behind.
        running.iter().chain(weighted).fold(shifted, |total, point| total + *point)
    }
}
