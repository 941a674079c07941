//! Points summed by bucket, each bucket as a balanced tree of affine additions.

use bytemuck::Pod;

use super::batch::Adder;
use super::{Affine, Coordinate};

/// Buckets 1, 2, ..., and the room to add a chunk of points to them at a time.
pub(crate) struct Buckets<'a, F> {
    /// The sum of bucket i + 1.
    pub sums: &'a mut [Affine<F>],
    tree: &'a mut [Affine<F>],
    /// After a sort, entries of bucket d are `start[d - 1]..start[d]`.
    start: &'a mut [u32],
    /// Index of a point, doubled, plus 1 for its negative.
    entries: &'a mut [u32],
    pub adder: Adder<F>,
}

/// The first `len` values of `T` that `words` holds, and what is behind them.
pub(crate) fn carve<'a, T: Pod>(words: &mut &'a mut [u64], len: usize) -> &'a mut [T] {
    let (head, tail) = std::mem::take(words).split_at_mut((len * size_of::<T>()).div_ceil(8));
    *words = tail;
    &mut bytemuck::cast_slice_mut(head)[..len]
}

impl<'a, F: Coordinate> Buckets<'a, F> {
    /// 64-bit words of scratch for `buckets` buckets and chunks of at most `chunk` points.
    pub(crate) const fn words(buckets: usize, chunk: usize) -> usize {
        size_of::<Affine<F>>() / 8 * (buckets + chunk)
            + (buckets + 2).div_ceil(2)
            + chunk.div_ceil(2)
    }

    /// Buckets in scratch; their sums are whatever stood there.
    pub(crate) fn new(buckets: usize, chunk: usize, mut scratch: &'a mut [u64]) -> Self {
        Self {
            sums: carve(&mut scratch, buckets),
            tree: carve(&mut scratch, chunk),
            start: carve(&mut scratch, buckets + 2),
            entries: carve(&mut scratch, chunk),
            adder: Adder::new(),
        }
    }

    /// The most points that [`Self::add`] takes.
    pub(crate) fn chunk(&self) -> usize {
        self.tree.len()
    }

    /// Adds points to buckets: `digits` has a point's index, below 2^31, and its bucket; a negative one takes
    /// the negative point, 0 takes none.
    pub(crate) fn add(
        &mut self,
        points: &[Affine<F>],
        digits: impl Iterator<Item = (u32, i32)> + Clone,
    ) {
        self.sort(digits);
        self.sum(points);
    }

    /// Counting sort of the non-zero digits.
    fn sort(&mut self, digits: impl Iterator<Item = (u32, i32)> + Clone) {
        self.start.fill(0);
        // Counts stand two places up, so that after the prefix sum `start[d]` is the first free
        // place of bucket d, and after the second pass its end.
        for (_, digit) in digits.clone().filter(|(_, digit)| *digit != 0) {
            self.start[digit.unsigned_abs() as usize + 1] += 1;
        }
        for i in 1..self.start.len() {
            self.start[i] += self.start[i - 1];
        }
        for (index, digit) in digits.filter(|(_, digit)| *digit != 0) {
            let place = &mut self.start[digit.unsigned_abs() as usize];
            self.entries[*place as usize] = index << 1 | (digit < 0) as u32;
            *place += 1;
        }
    }

    /// Adds the sorted entries to their buckets: each bucket's points are paired level by level.
    fn sum(&mut self, points: &[Affine<F>]) {
        let Self { sums, tree, start, entries, adder } = self;
        let point = |entry: u32| {
            let point = points[(entry >> 1) as usize];
            if entry & 1 == 0 { point } else { point.neg() }
        };
        // First level: from the points into the tree. Sums are written at or before the places of
        // their summands, so one array serves all levels, though a batch writes late.
        let mut longest = 0;
        let mut end = 0;
        let mut first = 0;
        for boundary in start[1..=sums.len()].iter_mut() {
            let run = &entries[first..*boundary as usize];
            first = *boundary as usize;
            let (pairs, odd) = run.as_chunks::<2>();
            for [a, b] in pairs {
                adder.push(point(*a), point(*b), end, tree);
                end += 1;
            }
            if let [last] = odd {
                tree[end] = point(*last);
                end += 1;
            }
            longest = longest.max(run.len().div_ceil(2));
            *boundary = end as u32;
        }
        adder.flush(tree);
        while longest > 1 {
            let (mut end, mut first) = (0, 0);
            for boundary in start[1..=sums.len()].iter_mut() {
                let run = first..*boundary as usize;
                first = run.end;
                for i in (run.start..run.end.saturating_sub(1)).step_by(2) {
                    adder.push(tree[i], tree[i + 1], end, tree);
                    end += 1;
                }
                if run.len() % 2 == 1 {
                    tree[end] = tree[run.end - 1];
                    end += 1;
                }
                *boundary = end as u32;
            }
            adder.flush(tree);
            longest = longest.div_ceil(2);
        }
        // What is left of a bucket is one point, if any.
        let mut first = 0;
        for (i, boundary) in start[1..=sums.len()].iter().enumerate() {
            if first < *boundary as usize {
                adder.push(sums[i], tree[first], i, sums);
            }
            first = *boundary as usize;
        }
        adder.flush(sums);
    }
}
