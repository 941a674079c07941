//! Leases that may be taken away while nobody uses them: the keys of circuits that were proved before.

use std::fmt;

use super::admission::Ticket;
use super::sync::{ThreadId, current};
use super::{Budget, Lease, State};

/// A lease that stays until somebody needs its bytes. While it is not pinned, a request that does not
/// fit may evict it: the callback drops the buffers, and the bytes are free. Dropping the `Resident` gives
/// the lease back without the callback.
#[derive(Debug)]
pub struct Resident {
    budget: Budget,
    ticket: Ticket,
}

/// What the budget knows about a [`Resident`].
pub(super) struct Entry {
    lease: Lease,
    pins: usize,
    used: u64,
    evict: Box<dyn FnOnce() + Send>,
}

impl Lease {
    /// Makes the lease evictable while it is not pinned. `evict` has to drop everything that was reserved
    /// from it. It runs at most once, without any lock, in whichever thread needs the bytes or makes them
    /// available (so perhaps inside a `drop`): it must not panic, and not wait for memory. This thread no
    /// longer counts as holding the lease.
    pub fn into_resident(self, evict: impl FnOnce() + Send + 'static) -> Resident {
        let resident = Resident { budget: self.0.budget.clone(), ticket: self.0.ticket };
        self.hand_over();
        resident.budget.0.change(|state| {
            let used = state.tick();
            let entry = Entry { lease: self, pins: 0, used, evict: Box::new(evict) };
            state.residents.insert(resident.ticket, entry);
        });
        resident
    }
}

impl Resident {
    /// Keeps the resident from being evicted until the guard is dropped; `None` if it is evicted already.
    ///
    /// A pin counts as held memory, so pin after [`Budget::wait`], not before it: two jobs that each pin a
    /// key and then wait could wait for each other. If the key is gone by then, give the lease back and
    /// plan again.
    pub fn pin(&self) -> Option<Pin> {
        let mut state = self.budget.0.lock();
        let used = state.tick();
        let entry = state.residents.get_mut(&self.ticket)?;
        entry.pins += 1;
        entry.used = used;
        let label = entry.lease.0.label.clone();
        state.hold(self.ticket, &label);
        drop(state);
        Some(Pin { budget: self.budget.clone(), ticket: self.ticket, thread: current().id() })
    }

    /// The ticket of its lease, for [`Request::uses`](super::Request::uses).
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Counts as a use: the next eviction takes others first. False if this one is evicted already. Call it
    /// before waiting for memory to use it with.
    pub fn touch(&self) -> bool {
        let mut state = self.budget.0.lock();
        let used = state.tick();
        let entry = state.residents.get_mut(&self.ticket);
        entry.map(|entry| entry.used = used).is_some()
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let entry = self.budget.0.lock().residents.remove(&self.ticket);
        // Ends the lease, which takes the lock.
        drop(entry);
    }
}

/// A [`Resident`] in use.
#[derive(Debug)]
pub struct Pin {
    budget: Budget,
    ticket: Ticket,
    thread: ThreadId,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.budget.0.change(|state| {
            let used = state.tick();
            if let Some(entry) = state.residents.get_mut(&self.ticket) {
                entry.pins -= 1;
                entry.used = used;
            }
            let mine = state
                .holders
                .iter()
                .position(|holder| holder.ticket == self.ticket && holder.thread == self.thread);
            mine.map(|index| state.holders.swap_remove(index));
        });
    }
}

impl Entry {
    pub(super) fn evict(self) {
        (self.evict)();
        drop(self.lease);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pins, used, .. } = self;
        f.debug_struct("Entry").field("pins", pins).field("used", used).finish_non_exhaustive()
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The residents to evict so that the first in line fits: as few as their age allows, and none if
    /// all of them would not do. What the first in line is to use stays. Bytes that are on their way from earlier evictions
    /// count.
    pub(super) fn victims(&mut self) -> Vec<Entry> {
        let Some(deficit) = self.admission.deficit() else { return Vec::new() };
        let first = self.admission.first().and_then(|ticket| self.waiters.get(&ticket));
        let wanted = first.and_then(|waiter| waiter.uses);
        let Self { admission, residents, evicting, .. } = self;
        evicting.retain(|ticket| admission.held(*ticket) > 0);
        let mut coming: u64 = evicting.iter().map(|ticket| admission.held(*ticket)).sum();
        let mut unused: Vec<(u64, Ticket)> = residents
            .iter()
            .filter(|(ticket, entry)| entry.pins == 0 && Some(**ticket) != wanted)
            .map(|(ticket, entry)| (entry.used, *ticket))
            .collect();
        unused.sort_unstable();
        let evictable: u64 = unused.iter().map(|(_, ticket)| admission.held(*ticket)).sum();
        if coming + evictable < deficit {
            return Vec::new();
        }
        let mut victims = Vec::new();
        for (_, ticket) in unused {
            if coming >= deficit {
                break;
            }
            coming += admission.held(ticket);
            evicting.push(ticket);
            victims.extend(residents.remove(&ticket));
        }
        victims
    }
}
