//! The card itself: what all of its handles, streams and buffers share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::CardModel;
use super::clock::{Clock, ENGINES};
use super::fault::{Call, Counters, Failure, Fault, Faults};
use super::memory::{Extent, Physical, refused};
use crate::Result;
use crate::budget::Lease;

pub(super) struct Card {
    pub model: CardModel,
    pub state: Mutex<State>,
    /// Where operations wait while the card is paused.
    pub resumed: Condvar,
    /// Held while one works. Nothing else is waited for under it, least of all another stream.
    pub engines: [Mutex<()>; ENGINES.len()],
}

#[derive(Default)]
pub(super) struct State {
    pub memory: Physical,
    pub clock: Clock,
    pub faults: Faults,
    pub counters: Counters,
    pub paused: bool,
    pub lost: bool,
    /// Counts losses and resets: what was made in another life of the card is dead.
    pub epoch: u64,
}

impl State {
    pub(super) fn is_alive(&self, epoch: u64) -> bool {
        !self.lost && epoch == self.epoch
    }

    /// Fails if what was made in `epoch` is dead.
    pub(super) fn require(&self, epoch: u64) -> Result<()> {
        if self.is_alive(epoch) { Ok(()) } else { Err(Failure::Lost.into()) }
    }

    /// All memory is gone, and what is queued fails.
    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.epoch += 1;
        self.clock.lose(self.memory.in_use);
        self.memory.in_use = 0;
    }

    pub(super) fn free(&mut self, epoch: u64, bytes: u64, at_ns: u64) {
        if epoch == self.epoch {
            self.counters.frees += 1;
            self.memory.in_use -= bytes;
            self.clock.give_back(bytes, at_ns);
        }
    }
}

impl Card {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a buffer's bytes: of the lease, then of the card.
    pub(super) fn take(
        self: &Arc<Self>,
        lease: &Lease,
        label: &'static str,
        bytes: u64,
    ) -> Result<Extent> {
        let reservation = lease.reserve(label, bytes)?;
        let mut state = self.state();
        state.require(state.epoch)?;
        state.counters.allocations += 1;
        match state.faults.next(Call::Allocation) {
            Some(Fault::LoseDevice) => {
                state.lose();
                return Err(Failure::Lost.into());
            }
            Some(_) => return Err(refused(label, bytes, "it was told to refuse")),
            None => {}
        }
        if bytes > self.model.max_buffer_bytes {
            return Err(refused(label, bytes, "above the largest buffer"));
        }
        state.memory.require(&self.model, label, bytes)?;
        state.memory.take(bytes);
        let from_ns = state.clock.take(lease, bytes);
        Ok(Extent {
            card: self.clone(),
            label,
            lease: lease.ticket(),
            bytes,
            epoch: state.epoch,
            until_ns: AtomicU64::new(from_ns),
            used_in: Mutex::default(),
            reservation,
        })
    }
}
