//! The memory of a card: what is in use to the byte, and the buffers.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::Pod;
use zeroize::Zeroize;

use super::card::Card;
use super::{BACKEND, CardModel};
use crate::budget::Reservation;
use crate::budget::admission::Ticket;
use crate::{Error, Result};

/// Bytes of a card that are taken, by whom, whatever was leased.
#[derive(Default)]
pub(super) struct Physical {
    /// Bytes of all buffers.
    pub in_use: u64,
    /// The most bytes of buffers at once.
    pub high_water: u64,
    /// Bytes that others have taken.
    pub foreign: u64,
}

impl Physical {
    /// Fails if `bytes` more are not there.
    pub(super) fn require(&self, model: &CardModel, label: &str, bytes: u64) -> Result<()> {
        let free = model.memory_bytes - self.in_use - self.foreign;
        if bytes <= free {
            return Ok(());
        }
        Err(refused(label, bytes, format!("{free} are free, {} have others", self.foreign)))
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.in_use += bytes;
        self.high_water = self.high_water.max(self.in_use);
    }
}

pub(super) fn refused(label: &str, bytes: u64, reason: impl Into<String>) -> Error {
    Error::Refused { backend: BACKEND, label: label.into(), bytes, reason: reason.into() }
}

/// Host memory that is wiped when dropped, as the device's would be.
pub(super) struct Wiped<T: Pod>(pub Vec<T>);

impl<T: Pod> Drop for Wiped<T> {
    fn drop(&mut self) {
        bytemuck::cast_slice_mut::<T, u8>(&mut self.0).zeroize();
    }
}

impl<T: Pod> Deref for Wiped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Pod> DerefMut for Wiped<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// A buffer's bytes of the card and of its lease. Both return when it is dropped, the card's first: who is
/// admitted by the lease's bytes finds them there.
pub(super) struct Extent {
    pub card: Arc<Card>,
    pub label: &'static str,
    pub lease: Ticket,
    pub bytes: u64,
    /// Which of the card's lives it belongs to; see [`super::card::State::epoch`].
    pub epoch: u64,
    /// The virtual time until which it is needed, as far as is known.
    pub until_ns: AtomicU64,
    /// The clocks of the streams that have used it.
    pub used_in: Mutex<Vec<Arc<AtomicU64>>>,
    pub reservation: Reservation,
}

impl Extent {
    pub(super) fn needed_until(&self, ns: u64) {
        self.until_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// An operation of a stream uses it.
    pub(super) fn used_by(&self, clock_ns: &Arc<AtomicU64>) {
        let mut used_in = self.used_in.lock().unwrap_or_else(PoisonError::into_inner);
        if !used_in.iter().any(|known| Arc::ptr_eq(known, clock_ns)) {
            used_in.push(clock_ns.clone());
        }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.card.state().free(self.epoch, self.bytes, *self.until_ns.get_mut());
    }
}

/// Device memory, shared by its buffer and the queued operations that use it: the last of them to go frees it.
pub(super) struct Memory<T: Pod> {
    // Wiped before the extent returns the bytes: fields are dropped in this order.
    data: RwLock<Wiped<T>>,
    pub extent: Extent,
}

impl<T: Pod> Memory<T> {
    /// Zeros.
    pub(super) fn new(len: usize, extent: Extent) -> Self {
        Self { data: RwLock::new(Wiped(bytemuck::zeroed_vec(len))), extent }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Wiped<T>> {
        self.data.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Wiped<T>> {
        self.data.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory of a virtual card. When it is dropped, what is queued still has it.
pub struct VirtualBuffer<T: Pod> {
    pub(super) memory: Arc<Memory<T>>,
    pub(super) len: usize,
}

impl<T: Pod> Drop for VirtualBuffer<T> {
    fn drop(&mut self) {
        let extent = &self.memory.extent;
        let mut state = extent.card.state();
        extent.needed_until(state.clock.of_this_thread());
        // All that will use it is queued by now. As on a real card, it is free when the streams that used it have done what they were
        // given until now, also what has nothing to do with it.
        for clock_ns in extent.used_in.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            extent.needed_until(clock_ns.load(Ordering::Relaxed));
        }
        let until_ns = extent.until_ns.load(Ordering::Relaxed);
        state.clock.drop_later(extent.lease, extent.bytes, until_ns);
        drop(state);
        extent.reservation.returning();
    }
}

impl<T: Pod + Send + Sync> crate::backend::Buffer<T> for VirtualBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}
