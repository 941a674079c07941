//! The device's memory, in one range of addresses: what is free, and what stands where.
//!
//! Physical memory comes in units, made when they are first needed and kept until the end. Blocks are cut in multiples of 256 bytes
//! from the shortest free range that has room, at one end of it or the other: one partition's blocks at one end, those of the next, which
//! runs beside it, at the other, so that what is short-lived here does not lie between what is long-lived there. If no free range is long
//! enough, new units are mapped behind one another, at least half as many as there are: so the arena grows a few times, then no more.
//! Once there are as many as there may be, whole units that are free are moved to new addresses, which takes some 60 us a unit. The
//! shortest range, because a vector in the only one that scratch fits into would have units moved in every partition.
//!
//! That is why fragmentation cannot refuse what a lease admitted, and why there is no other allocator: of the free
//! bytes only those in units that are used in part are out of reach, at most [`SLACK_UNITS`] units' worth while there
//! are no more than half as many blocks, and the arena has that much beyond the budget. Addresses do not run
//! out either: [`ADDRESSES`] times as many are reserved as there is memory, and between what is mapped, which is in some tens of pieces at
//! most, the longest gap has room for all of it. In the steady state the same lengths come again and fit where they did
//! before, and nothing is mapped; where two partitions that take most of the memory run beside each other, units still move now and then.
//!
//! Everything free is zero: [`Arena::free`] is for blocks that were wiped.

use std::collections::BTreeMap;

use crate::Result;

/// Blocks start at multiples of this: enough for every vector load and every copy engine.
const ALIGNMENT: u64 = 256;

/// Units beyond the budget, for what lies in partly used units and for the rounding of blocks.
const SLACK_UNITS: u64 = 128;

/// How often more addresses are reserved than memory may be used.
const ADDRESSES: u64 = 128;

/// At most this many units, about, so that making them takes less than a second on the largest card.
const UNITS: u64 = 16384;

/// What the arena asks of the device.
pub(super) trait Memory {
    /// Physical memory of one unit.
    type Unit;
    /// Makes a unit, for `label`.
    fn create(&mut self, label: &str) -> Result<Self::Unit>;
    /// Makes `units` stand one behind the other from page `page` on. They are zero there if `wipe`.
    fn map(&mut self, page: u64, units: &[Self::Unit], wipe: bool) -> Result<()>;
    /// Takes the unit at page `page` away.
    fn unmap(&mut self, page: u64) -> Result<()>;
}

/// How an arena is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of one unit, and of one page of addresses.
    pub unit_bytes: u64,
    /// Units that there may be.
    pub units: u64,
}

impl Shape {
    /// An arena that holds blocks of `budget` bytes in all, with units of a multiple of `granularity`, a power of two.
    pub fn new(budget: u64, granularity: u64) -> Self {
        let unit_bytes = (budget / UNITS).next_power_of_two().max(granularity);
        Self { unit_bytes, units: budget.div_ceil(unit_bytes) + SLACK_UNITS }
    }

    /// Bytes beyond a budget of `bytes`.
    pub fn slack_bytes(bytes: u64, granularity: u64) -> u64 {
        let shape = Self::new(bytes, granularity);
        shape.units * shape.unit_bytes - bytes
    }

    /// Pages of addresses that the arena wants.
    pub fn pages(&self) -> u64 {
        self.units * ADDRESSES
    }
}

/// A part of the arena: an offset in its addresses, and bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub start: u64,
    pub len: u64,
}

/// Where a block is cut from its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At the lowest addresses.
    Low,
    /// At the highest.
    High,
}

/// See the module's text.
pub(super) struct Arena<M: Memory> {
    memory: M,
    shape: Shape,
    created: u64,
    /// Free bytes that have memory.
    free: Ranges,
    /// Pages that have none.
    vacant: Ranges,
    /// What stands at the pages that have.
    mapped: BTreeMap<u64, M::Unit>,
}

impl<M: Memory> Arena<M> {
    pub fn new(memory: M, shape: Shape) -> Self {
        let mut vacant = Ranges::default();
        vacant.insert(0, shape.pages());
        Self { memory, shape, created: 0, free: Ranges::default(), vacant, mapped: BTreeMap::new() }
    }

    /// `len` bytes, all zero; `len` is not 0.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if the driver has no more units, and the others do not do.
    pub fn alloc(&mut self, label: &str, len: u64, end: End) -> Result<Block> {
        let len = len.next_multiple_of(ALIGNMENT);
        if let Some(start) = self.free.take(len, end) {
            return Ok(Block { start, len });
        }
        self.extend(label, len)?;
        let start = self.free.take(len, end).expect("a range of this length was just mapped");
        Ok(Block { start, len })
    }

    /// Takes back a block, which is all zero.
    pub fn free(&mut self, block: Block) {
        self.free.insert(block.start, block.len);
    }

    /// Maps at least as many units as hold `len` bytes at new pages, one behind the other.
    fn extend(&mut self, label: &str, len: u64) -> Result<()> {
        let count = len.div_ceil(self.shape.unit_bytes);
        let fresh_count = count.max(self.created / 2).min(self.shape.units - self.created);
        let mut refusal = None;
        let mut fresh = Vec::new();
        while (fresh.len() as u64) < fresh_count {
            match self.memory.create(label) {
                Ok(unit) => fresh.push(unit),
                Err(error) => {
                    refusal = Some(error);
                    break;
                }
            }
        }
        self.created += fresh.len() as u64;
        let moved = self.whole_free_pages(count.saturating_sub(fresh.len() as u64));
        let pages = count.max(fresh.len() as u64);
        let page = self.vacant.take_first(pages);
        let (Some(moved), Some(page)) = (moved, page) else {
            if let Some(page) = page {
                self.vacant.insert(page, pages);
            }
            // What was made is kept, for smaller blocks.
            if !fresh.is_empty()
                && let Some(page) = self.vacant.take_first(fresh.len() as u64)
            {
                self.place(page, fresh, true)?;
            }
            return Err(refusal.unwrap_or_else(|| self.no_room(label, len)));
        };
        let fresh_len = fresh.len() as u64;
        if fresh_len > 0 {
            self.place(page, fresh, true)?;
        }
        let mut units = Vec::with_capacity(moved.len());
        for from in moved {
            self.memory.unmap(from)?;
            units.extend(self.mapped.remove(&from));
            self.free.remove(from * self.shape.unit_bytes, self.shape.unit_bytes);
            self.vacant.insert(from, 1);
        }
        if !units.is_empty() {
            tracing::debug!("{label}, {len} bytes: {} units of memory moved", units.len());
            self.place(page + fresh_len, units, false)?;
        }
        Ok(())
    }

    fn place(&mut self, page: u64, units: Vec<M::Unit>, wipe: bool) -> Result<()> {
        let count = units.len() as u64;
        self.memory.map(page, &units, wipe)?;
        self.mapped.extend((page..).zip(units));
        self.free.insert(page * self.shape.unit_bytes, count * self.shape.unit_bytes);
        Ok(())
    }

    /// `count` pages all of whose bytes are free; `None` if there are fewer.
    fn whole_free_pages(&self, count: u64) -> Option<Vec<u64>> {
        let unit = self.shape.unit_bytes;
        let pages = |(start, len): (u64, u64)| start.div_ceil(unit)..(start + len) / unit;
        let pages: Vec<u64> = self.free.iter().flat_map(pages).take(count as usize).collect();
        (pages.len() as u64 == count).then_some(pages)
    }

    fn no_room(&self, label: &str, bytes: u64) -> crate::Error {
        crate::Error::Refused {
            backend: "cuda",
            label: label.into(),
            bytes,
            reason: format!("more than {} buffers lie in its way", SLACK_UNITS / 2),
        }
    }

    /// Bytes that the arena has of the device.
    pub fn held_bytes(&self) -> u64 {
        self.created * self.shape.unit_bytes
    }

    /// Takes all units away, for the end: nothing may be in use.
    pub fn into_units(mut self) -> (M, Vec<M::Unit>) {
        let mapped = std::mem::take(&mut self.mapped);
        let mut units = Vec::with_capacity(mapped.len());
        for (page, unit) in mapped {
            match self.memory.unmap(page) {
                Ok(()) => units.push(unit),
                Err(error) => tracing::error!("{error}"),
            }
        }
        (self.memory, units)
    }
}

/// Ranges of numbers, none empty, none touching another.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.0.iter().map(|(start, len)| (*start, *len))
    }

    /// Takes `len` numbers from one end of the shortest range that has so many; of equals, the one nearest to that end.
    fn take(&mut self, len: u64, end: End) -> Option<u64> {
        let fitting = self.iter().filter(|(_, have)| *have >= len);
        let (range, have) = match end {
            End::Low => fitting.min_by_key(|(_, have)| *have),
            End::High => fitting.rev().min_by_key(|(_, have)| *have),
        }?;
        let start = match end {
            End::Low => range,
            End::High => range + have - len,
        };
        self.remove(start, len);
        Some(start)
    }

    /// Takes the first `len` numbers of the first range that has so many.
    fn take_first(&mut self, len: u64) -> Option<u64> {
        let (start, have) = self.iter().find(|(_, have)| *have >= len)?;
        self.0.remove(&start);
        if have > len {
            self.0.insert(start + len, have - len);
        }
        Some(start)
    }

    /// Adds a range that touches or overlaps none of its numbers yet.
    fn insert(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &have)) = self.0.range(..start).next_back()
            && before + have == start
        {
            self.0.remove(&before);
            (start, len) = (before, have + len);
        }
        if let Some(behind) = self.0.remove(&(start + len)) {
            len += behind;
        }
        self.0.insert(start, len);
    }

    /// Takes out a part of one of the ranges.
    fn remove(&mut self, start: u64, len: u64) {
        let Some((&first, &have)) = self.0.range(..=start).next_back() else { return };
        self.0.remove(&first);
        if first < start {
            self.0.insert(first, start - first);
        }
        if start + len < first + have {
            self.0.insert(start + len, first + have - start - len);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Error;

    const UNIT: u64 = 1 << 16;

    /// Pages of a device, with what is wrong on a real one as panics.
    #[derive(Default)]
    struct Fake {
        made: u64,
        /// How many units the driver has.
        limit: u64,
        pages: BTreeMap<u64, u64>,
        maps: u64,
    }

    impl Memory for Fake {
        type Unit = u64;
        fn create(&mut self, label: &str) -> Result<u64> {
            if self.made == self.limit {
                let (label, reason) = (label.to_owned(), "none left".to_owned());
                return Err(Error::Refused { backend: "cuda", label, bytes: UNIT, reason });
            }
            self.made += 1;
            Ok(self.made)
        }
        fn map(&mut self, page: u64, units: &[u64], _wipe: bool) -> Result<()> {
            assert!(!units.is_empty(), "the driver refuses to map nothing");
            self.maps += 1;
            for (page, unit) in (page..).zip(units) {
                assert!(self.pages.values().all(|other| other != unit), "a unit at two pages");
                assert!(self.pages.insert(page, *unit).is_none(), "two units at a page");
            }
            Ok(())
        }
        fn unmap(&mut self, page: u64) -> Result<()> {
            assert!(self.pages.remove(&page).is_some(), "nothing at the page");
            Ok(())
        }
    }

    fn arena(budget: u64, limit: u64) -> Arena<Fake> {
        Arena::new(Fake { limit, ..Fake::default() }, Shape::new(budget, UNIT))
    }

    /// Blocks in use have memory and do not overlap.
    fn check(arena: &Arena<Fake>, live: &[Block]) {
        let mut ranges: Vec<_> = live.iter().map(|block| (block.start, block.len)).collect();
        ranges.extend(arena.free.iter());
        ranges.sort();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "an overlap");
        for block in live {
            for page in block.start / UNIT..(block.start + block.len).div_ceil(UNIT) {
                assert!(arena.memory.pages.contains_key(&page), "a block without memory");
            }
        }
        let bytes: u64 = ranges.iter().map(|(_, len)| len).sum();
        assert_eq!(bytes, arena.created * UNIT, "bytes lost");
    }

    proptest! {
        // Blocks from single bytes to the whole budget, freed in any order. However it goes, what fits the budget
        // is there, with up to half of SLACK_UNITS blocks.
        #[test]
        fn what_fits_the_budget_is_never_refused(
            steps in prop::collection::vec((any::<bool>(), 0u32..24, any::<u64>()), 1..400)
        ) {
            const BUDGET: u64 = 150 * UNIT;
            let mut arena = arena(BUDGET, u64::MAX);
            let mut live: Vec<Block> = Vec::new();
            let mut used = Vec::new();
            for (free, log, seed) in steps {
                if free && !live.is_empty() {
                    let i = seed as usize % live.len();
                    used.swap_remove(i);
                    arena.free(live.swap_remove(i));
                } else {
                    let left = BUDGET - used.iter().sum::<u64>();
                    let len = (seed % (1 << log) + 1).min(left);
                    let end = if seed & 1 << 40 == 0 { End::Low } else { End::High };
                    if len > 0 && (live.len() as u64) < SLACK_UNITS / 2 {
                        live.push(arena.alloc("a block", len, end).unwrap());
                        used.push(len);
                    }
                }
                check(&arena, &live);
            }
        }
    }

    /// Every second small block stays: no range is long enough, yet half of the memory is free.
    #[test]
    fn units_move_when_no_range_is_long_enough() {
        let mut arena = arena(64 * UNIT, u64::MAX);
        let units = arena.shape.units;
        let blocks: Vec<_> =
            (0..units).map(|_| arena.alloc("small", UNIT, End::Low).unwrap()).collect();
        let (even, odd): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| (block.start / UNIT).is_multiple_of(2));
        even.into_iter().for_each(|block| arena.free(block));
        let large = arena.alloc("large", units / 2 * UNIT, End::Low).unwrap();
        assert_eq!(arena.memory.made, units, "no more than there may be");
        let mut live = odd;
        live.push(large);
        check(&arena, &live);
        let refused = arena.alloc("one more", UNIT, End::Low).unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    }

    #[test]
    fn the_same_lengths_again_map_nothing() {
        let mut arena = arena(1000 * UNIT, u64::MAX);
        let mut maps = 0;
        for round in 0..5 {
            let lens = [100 * UNIT, 37 * UNIT + 300, 5, 200 * UNIT, 1];
            let blocks = lens.map(|len| arena.alloc("a block", len, End::Low).unwrap());
            blocks.into_iter().for_each(|block| arena.free(block));
            assert!(round == 0 || arena.memory.maps == maps, "mapped in round {round}");
            maps = arena.memory.maps;
        }
    }

    /// Two parties in turns at random, each with a vector of 10 units, then a large one of 80, then another: when both have
    /// started from their own ends a few times, nothing moves any more.
    #[test]
    fn parties_that_run_beside_each_other_map_nothing_in_the_end() {
        let mut arena = arena(230 * UNIT, u64::MAX);
        let mut random = 1u64;
        let mut live: [Vec<Block>; 2] = Default::default();
        let (mut step, mut maps) = ([0; 2], 0);
        for turn in 0..4000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            let party = (random >> 40) as usize % 2;
            let end = [End::Low, End::High][party];
            let mut alloc = |units: u64| arena.alloc("a block", units * UNIT - 5, end).unwrap();
            match step[party] % 5 {
                0 | 1 | 3 => live[party].push(alloc(10)),
                2 => live[party].push(alloc(80)),
                _ => live[party].drain(..).for_each(|block| arena.free(block)),
            }
            if step[party] % 5 == 1 {
                // Of two vectors one stays.
                arena.free(live[party].swap_remove(0));
            }
            step[party] += 1;
            if turn == 400 {
                maps = arena.memory.maps;
            }
        }
        assert_eq!(arena.memory.maps, maps);
    }

    /// Partitions of 2^27 rows in 16 GiB, one after the other, by what an H200 was asked for, in units of 2 MiB: scratch is larger than a
    /// vector, and finds a place that no vector takes, from whichever ends the partitions come.
    #[test]
    fn streamed_partitions_move_nothing_in_the_end() {
        let mut arena = arena(8192 * UNIT, u64::MAX);
        let (mut random, mut maps) = (1u64, 0);
        for round in 0..40 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            let end = [End::Low, End::High][(random >> 40) as usize % 2];
            let mut alloc = |units: u64| arena.alloc("a block", units * UNIT - 5, end).unwrap();
            let rows = [32, 64, 28, 32, 19, 9].map(&mut alloc);
            let [h, product] = [2048, 2048].map(&mut alloc);
            let packed = [32, 27].map(&mut alloc);
            let witness = alloc(1987);
            let mut points = alloc(384);
            rows.into_iter().chain([product]).chain(packed).for_each(|block| arena.free(block));
            // Sums of H in turns with those over the witness, then the others; each one's points come before the last one's go.
            for (scratch, sums) in [(2376, [768, 384].repeat(15)), (2893, [197, 391].repeat(8))] {
                let scratch = arena.alloc("scratch", scratch * UNIT, end).unwrap();
                for units in sums {
                    let next = arena.alloc("points", units * UNIT, end).unwrap();
                    arena.free(std::mem::replace(&mut points, next));
                }
                arena.free(scratch);
            }
            [h, points, witness].into_iter().for_each(|block| arena.free(block));
            assert!(round < 10 || arena.memory.maps == maps, "mapped in round {round}");
            maps = arena.memory.maps;
        }
    }

    /// The driver has less than the budget: what it gave is kept, and the refusal is its own.
    #[test]
    fn a_refusal_leaves_the_rest_usable() {
        let mut arena = arena(100 * UNIT, 10);
        let refused = arena.alloc("too much", 20 * UNIT, End::Low).unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        let block = arena.alloc("what there is", 10 * UNIT, End::Low).unwrap();
        check(&arena, std::slice::from_ref(&block));
        arena.free(block);
        let (memory, units) = arena.into_units();
        assert_eq!((units.len(), memory.pages.len()), (10, 0));
    }
}
