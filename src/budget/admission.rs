//! Who may start, as a pure state machine: no locks, no time, no threads, so that a simulator drives it
//! in virtual time and [`Budget`](super::Budget) drives it in real time.
//!
//! 1. Requests are served by priority, and within a priority first in, first out.
//! 2. A request that [`AGEING`] later ones have passed counts as one priority higher, and so on up to the
//!    highest. So after at most `2 * AGEING` later requests a low one is among the highest. From then on only
//!    earlier ones come before it, and, until it is the head, those that rule 3 lets pass.
//! 3. The first in line is the head. If it does not fit, a later request may pass it only if that cannot
//!    delay it: with D the bytes that must come back before the head fits, s the passer's bytes and T
//!    the totals of future releases that are reachable, no T is in `D..D + s`. Then whatever lets the head
//!    start without the passer lets it start beside the passer, even if the passer never ends.
//! 4. T comes from the declared releases: each lease gives back its amounts in order, different
//!    leases in any interleaving, so T is every sum of one prefix sum per lease. Above [`MAX_TOTALS`]
//!    distinct sums nobody passes.
//! 5. A request larger than what the capacity has become is set aside: it keeps its place, but is not the
//!    head, and delays nobody, until the capacity is back.
//!
//! Declared releases are a hint for rule 3 alone; that leases never exceed the capacity rests on the bytes
//! that are held. A lease may give back other amounts than it declared: what it gives back is taken off
//! the front of its list, and every later decision uses what is left. Passers that are in already may then
//! delay the head, at most until they end; nothing else changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// So many later requests pass a waiting one before it counts as one priority higher. A Filecoin
/// proof has ten partitions, so this is less than one proof of another job.
pub const AGEING: u32 = 8;

/// The most distinct sums of releases that rule 3 looks at (some 32 KiB); with more, nobody passes.
/// That is enough for some ninety leases of one shape with two releases each, or seven of unrelated shapes.
pub const MAX_TOTALS: usize = 4096;

/// How urgent a request is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Priority {
    /// When nothing else waits.
    Low,
    /// The usual.
    #[default]
    Normal,
    /// Before the others.
    High,
}

/// The name of one request, from asking until its last byte is back. Later requests have greater tickets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// A request that cannot be admitted, whoever ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("need {need} bytes, the capacity is {capacity}")]
pub struct TooLarge {
    /// The bytes asked for; [`u64::MAX`] if they overflow.
    pub need: u64,
    /// The capacity at that time.
    pub capacity: u64,
}

/// The state: what is leased, and who waits.
#[derive(Clone, Debug)]
pub struct Admission {
    capacity: u64,
    leased: u64,
    high_water: u64,
    next: u64,
    /// By ticket.
    waiting: Vec<Waiting>,
    /// What each admitted request holds: the amounts that it will still give back, none of them zero.
    admitted: BTreeMap<Ticket, VecDeque<u64>>,
}

#[derive(Clone, Debug)]
struct Waiting {
    ticket: Ticket,
    bytes: u64,
    releases: VecDeque<u64>,
    priority: Priority,
    passed: u32,
}

impl Waiting {
    /// Lower goes first.
    fn rank(&self) -> (Reverse<u32>, Ticket) {
        let level = (self.priority as u32 + self.passed / AGEING).min(Priority::High as u32);
        (Reverse(level), self.ticket)
    }
}

impl Admission {
    /// Nothing leased, nobody waiting.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            leased: 0,
            high_water: 0,
            next: 0,
            waiting: Vec::new(),
            admitted: BTreeMap::new(),
        }
    }

    /// The bytes that may be leased at once.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The bytes of all admitted requests; above the capacity only after that fell.
    pub fn leased(&self) -> u64 {
        self.leased
    }

    /// The most bytes that were ever leased at once.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// The requests in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The bytes that could be leased now.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.leased)
    }

    /// The bytes that an admitted request still holds.
    pub fn held(&self, ticket: Ticket) -> u64 {
        self.admitted.get(&ticket).into_iter().flatten().sum()
    }

    /// The bytes that must come back before the head fits, if there is a head that does not fit.
    pub fn deficit(&self) -> Option<u64> {
        let head = &self.waiting[self.head()?];
        Some(self.deficit_of(head.bytes)).filter(|deficit| *deficit > 0)
    }

    /// The first in line.
    pub fn first(&self) -> Option<Ticket> {
        self.head().map(|index| self.waiting[index].ticket)
    }

    /// Puts a request in the queue; [`Admission::admit`] says when it may start. `releases` are the
    /// amounts in which its bytes will come back, in order, and sum to the request: `[7 GiB, 5 GiB]` asks
    /// for 12 GiB, of which 7 are back after the quotient and 5 at the end.
    ///
    /// # Errors
    /// [`TooLarge`] if that is above the capacity as it is now.
    pub fn request(&mut self, releases: &[u64], priority: Priority) -> Result<Ticket, TooLarge> {
        let capacity = self.capacity;
        let bytes = releases
            .iter()
            .try_fold(0u64, |sum, bytes| sum.checked_add(*bytes))
            .ok_or(TooLarge { need: u64::MAX, capacity })?;
        if bytes > capacity {
            return Err(TooLarge { need: bytes, capacity });
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let releases = releases.iter().copied().filter(|bytes| *bytes > 0).collect();
        self.waiting.push(Waiting { ticket, bytes, releases, priority, passed: 0 });
        Ok(ticket)
    }

    /// Everything that may start now, in the order of admission: moves it from waiting to leased.
    pub fn admit(&mut self) -> Vec<Ticket> {
        let mut started = Vec::new();
        while let Some(index) = self.next_to_start() {
            let request = self.waiting.remove(index);
            for earlier in &mut self.waiting[..index] {
                earlier.passed = earlier.passed.saturating_add(1);
            }
            self.leased += request.bytes;
            self.high_water = self.high_water.max(self.leased);
            if request.bytes > 0 {
                self.admitted.insert(request.ticket, request.releases);
            }
            started.push(request.ticket);
        }
        started
    }

    /// Takes a request out of the queue; false if it is not there (any more).
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let found = self.waiting.iter().position(|waiting| waiting.ticket == ticket);
        found.map(|index| self.waiting.remove(index)).is_some()
    }

    /// Takes back `bytes` of an admitted request, all it holds or a part. More than it holds is a bug of
    /// the caller, and counts as all.
    pub fn release(&mut self, ticket: Ticket, bytes: u64) {
        debug_assert!(bytes <= self.held(ticket), "{ticket:?} gives back more than it holds");
        let Some(releases) = self.admitted.get_mut(&ticket) else { return };
        let mut left = bytes;
        while left > 0
            && let Some(front) = releases.front_mut()
        {
            let part = left.min(*front);
            left -= part;
            *front -= part;
            self.leased -= part;
            if *front == 0 {
                releases.pop_front();
            }
        }
        if releases.is_empty() {
            self.admitted.remove(&ticket);
        }
    }

    /// What others use on the device grew or shrank. A capacity below what is leased is fine: then
    /// nothing is admitted until enough is back.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// The first in line of those that fit the capacity.
    fn head(&self) -> Option<usize> {
        let fits = |index: &usize| self.waiting[*index].bytes <= self.capacity;
        (0..self.waiting.len()).filter(fits).min_by_key(|index| self.waiting[*index].rank())
    }

    /// Bytes that must come back before `bytes`, at most the capacity, fit.
    fn deficit_of(&self, bytes: u64) -> u64 {
        self.leased.saturating_sub(self.capacity - bytes)
    }

    fn next_to_start(&self) -> Option<usize> {
        let head = self.head()?;
        let free = self.free();
        // Above the capacity not even an empty request starts.
        if self.leased > self.capacity {
            return None;
        }
        if self.waiting[head].bytes <= free {
            return Some(head);
        }
        if !self.waiting.iter().any(|waiting| waiting.bytes <= free) {
            return None;
        }
        let slack = self.slack(self.waiting[head].bytes);
        (0..self.waiting.len())
            .filter(|index| self.waiting[*index].bytes <= slack)
            .min_by_key(|index| self.waiting[*index].rank())
    }

    /// The most bytes that a passer may have: the distance from the head's deficit D to the smallest reachable
    /// total that is not below it, at most what is free.
    fn slack(&self, head: u64) -> u64 {
        let deficit = self.deficit_of(head);
        // Everything that is leased is a reachable total, and at least D, so one exists; those from here on
        // leave room for any passer.
        let ceiling = deficit + self.free();
        let mut totals = vec![0];
        for releases in self.admitted.values() {
            let before = totals.clone();
            let mut prefix = 0;
            for bytes in releases {
                prefix += bytes;
                if prefix >= ceiling {
                    break;
                }
                totals.extend(before.iter().map(|t| t + prefix).filter(|t| *t < ceiling));
                totals.sort_unstable();
                totals.dedup();
                if totals.len() > MAX_TOTALS {
                    return 0;
                }
            }
        }
        totals.into_iter().find(|total| *total >= deficit).unwrap_or(ceiling) - deficit
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
