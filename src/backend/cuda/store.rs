//! Blocks with their leases: out of the arena, and back when the device is done.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arena::{Arena, Block, End, Memory, Shape};
use super::driver::{Driver, Stream, Unit};
use crate::Result;
use crate::budget::admission::Ticket;
use crate::budget::{Lease, Reservation};

/// Leases whose ends are remembered; more are not in use at once. Who was forgotten gets one anew.
const LEASES: usize = 64;

/// The arena of a card.
pub(super) struct Store {
    /// `None` at the end alone.
    arena: Mutex<Option<Arena<Pages>>>,
    /// The ends of the leases that came last.
    ends: Mutex<VecDeque<(Ticket, End)>>,
    /// The address of the arena's first byte.
    base: u64,
    driver: Arc<Driver>,
}

impl Store {
    pub fn new(driver: &Arc<Driver>, shape: Shape) -> Result<Self> {
        let len = shape.pages() * shape.unit_bytes;
        let base = driver.reserve_addresses(len)?;
        let pages = Pages {
            stream: driver.stream()?,
            driver: driver.clone(),
            base,
            len,
            unit_bytes: shape.unit_bytes,
        };
        let arena = Mutex::new(Some(Arena::new(pages, shape)));
        Ok(Self { arena, ends: Mutex::default(), base, driver: driver.clone() })
    }

    /// A block of `len` bytes, all zero, charged to `lease`; no block for no bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], before the driver is asked.
    pub fn alloc(
        &self,
        lease: &Lease,
        label: &str,
        len: u64,
    ) -> Result<(Option<Block>, Reservation)> {
        let reservation = lease.reserve(label, len)?;
        let block = match len {
            0 => None,
            _ => {
                let end = self.end(lease.ticket());
                self.arena().as_mut().map(|arena| arena.alloc(label, len, end)).transpose()?
            }
        };
        Ok((block, reservation))
    }

    /// The end at which a lease's blocks are looked for: leases take turns as they come.
    fn end(&self, ticket: Ticket) -> End {
        let mut known = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, end)) = known.iter().find(|(of, _)| *of == ticket) {
            return *end;
        }
        let end = match known.back() {
            Some((_, End::Low)) => End::High,
            _ => End::Low,
        };
        known.push_back((ticket, end));
        if known.len() > LEASES {
            known.pop_front();
        }
        end
    }

    /// The device address of a block.
    pub fn address(&self, block: &Block) -> u64 {
        self.base + block.start
    }

    /// Takes back a block that is wiped and that the device is done with, or that was never used; `None` if that is not
    /// certain: then its bytes are never used again, though they return to the lease.
    pub fn put(&self, block: Option<Block>, reservation: Reservation) {
        if let (Some(block), Some(arena)) = (block, self.arena().as_mut()) {
            arena.free(block);
        }
        // Behind the block: whoever gets the bytes finds them in the arena.
        drop(reservation);
    }

    /// Bytes of the device that the arena has.
    pub fn held_bytes(&self) -> u64 {
        self.arena().as_ref().map_or(0, Arena::held_bytes)
    }

    fn arena(&self) -> MutexGuard<'_, Option<Arena<Pages>>> {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    /// Every block is back by now: each holds the card, and so do the threads that bring them.
    fn drop(&mut self) {
        if let Err(error) = self.driver.synchronize() {
            tracing::error!("{error}");
        }
        let Some(arena) = self.arena().take() else { return };
        let (pages, units) = arena.into_units();
        for unit in units {
            self.driver.release_unit(unit);
        }
        self.driver.free_addresses(pages.base, pages.len);
    }
}

/// The pages of the arena's range of addresses.
pub(super) struct Pages {
    driver: Arc<Driver>,
    /// For wiping new units.
    stream: Stream,
    base: u64,
    len: u64,
    unit_bytes: u64,
}

impl Memory for Pages {
    type Unit = Unit;

    fn create(&mut self, label: &str) -> Result<Unit> {
        self.driver.create_unit(label, self.unit_bytes)
    }

    fn map(&mut self, page: u64, units: &[Unit], wipe: bool) -> Result<()> {
        let address = self.base + page * self.unit_bytes;
        self.driver.map(address, self.unit_bytes, units)?;
        if wipe {
            // Who used the memory before may have been another process.
            self.stream.wipe(address, units.len() as u64 * self.unit_bytes)?;
            self.stream.record()?.wait()?;
        }
        Ok(())
    }

    fn unmap(&mut self, page: u64) -> Result<()> {
        self.driver.unmap(self.base + page * self.unit_bytes, self.unit_bytes)
    }
}
