//! The memory of one device as a budget: no lease, no allocation.
//!
//! A [`Budget`] is bytes of one physical device. A [`Lease`] is a part of it, taken whole before the
//! first byte is allocated; a [`Reservation`] is one buffer's part of a lease, and returns to it
//! when the buffer is gone. Today a lease that does not fit is refused at once; waiting, fairness
//! and eviction will come behind these same signatures.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result};

/// Bytes with a limit. Every method is one short critical section that cannot panic, so a poisoned
/// lock still holds a consistent pair.
#[derive(Debug)]
struct Ledger(Mutex<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    used: u64,
    high_water: u64,
}

impl Ledger {
    fn new(limit: u64) -> Self {
        Self(Mutex::new(Account { limit, used: 0, high_water: 0 }))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Account) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self, label: &str, bytes: u64) -> Result<()> {
        self.with(|account| {
            let left = account.limit - account.used;
            if bytes > left {
                return Err(Error::OutOfMemory { label: label.to_owned(), need: bytes, left });
            }
            account.used += bytes;
            account.high_water = account.high_water.max(account.used);
            Ok(())
        })
    }

    fn give(&self, bytes: u64) {
        self.with(|account| account.used -= bytes);
    }
}

/// The bytes of one device that this process may use.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Ledger>);

impl Budget {
    /// A budget of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self(Arc::new(Ledger::new(capacity)))
    }

    /// Leases `bytes` for `label`, whole or not at all.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if that much is not left now.
    pub fn lease(&self, label: &str, bytes: u64) -> Result<Lease> {
        self.0.take(label, bytes)?;
        Ok(Lease(Arc::new(LeaseInner { budget: self.clone(), ledger: Ledger::new(bytes) })))
    }

    /// Bytes that are leased now.
    pub fn leased(&self) -> u64 {
        self.0.with(|account| account.used)
    }

    /// The most bytes that were ever leased at once.
    pub fn high_water(&self) -> u64 {
        self.0.with(|account| account.high_water)
    }
}

/// A part of a [`Budget`], from which buffers are allocated. Its bytes return to the budget when the
/// lease and all buffers made from it are gone. Clones are handles to the same lease.
#[derive(Clone, Debug)]
pub struct Lease(Arc<LeaseInner>);

#[derive(Debug)]
struct LeaseInner {
    budget: Budget,
    ledger: Ledger,
}

impl Drop for LeaseInner {
    fn drop(&mut self) {
        self.budget.0.give(self.ledger.with(|account| account.limit));
    }
}

impl Lease {
    /// Takes `bytes` of the lease for a buffer called `label`. Backends call this before they ask
    /// a driver for anything.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the lease has less left, whatever the device has.
    pub fn reserve(&self, label: &str, bytes: u64) -> Result<Reservation> {
        self.0.ledger.take(label, bytes)?;
        Ok(Reservation { lease: self.clone(), bytes })
    }

    /// Gives back all but `bytes`, or all but what is in use, whichever is more. A lease never grows.
    pub fn shrink(&self, bytes: u64) {
        let freed = self.0.ledger.with(|account| {
            let limit = bytes.max(account.used).min(account.limit);
            let freed = account.limit - limit;
            account.limit = limit;
            freed
        });
        self.0.budget.0.give(freed);
    }

    /// Bytes that the lease holds.
    pub fn bytes(&self) -> u64 {
        self.0.ledger.with(|account| account.limit)
    }

    /// The most bytes that buffers of this lease took at once.
    pub fn high_water(&self) -> u64 {
        self.0.ledger.with(|account| account.high_water)
    }
}

/// One buffer's bytes of a lease; dropped with the buffer.
#[derive(Debug)]
pub struct Reservation {
    lease: Lease,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.lease.0.ledger.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_whole_or_refused() {
        let budget = Budget::new(100);
        let first = budget.lease("first", 60).unwrap();
        let refused = budget.lease("second", 41).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { need: 41, left: 40, .. }), "{refused}");
        drop(first);
        assert_eq!(budget.lease("second", 100).unwrap().bytes(), 100);
        assert_eq!((budget.leased(), budget.high_water()), (0, 100));
    }

    #[test]
    fn a_lease_outlives_its_handle_while_buffers_live() {
        let budget = Budget::new(100);
        let lease = budget.lease("l", 50).unwrap();
        let buffer = lease.reserve("b", 30).unwrap();
        assert!(lease.reserve("c", 21).is_err());
        drop(lease);
        assert_eq!(budget.leased(), 50);
        drop(buffer);
        assert_eq!(budget.leased(), 0);
    }

    #[test]
    fn a_lease_shrinks_to_what_is_in_use_and_never_grows() {
        let budget = Budget::new(100);
        let lease = budget.lease("l", 50).unwrap();
        let _buffer = lease.reserve("b", 30).unwrap();
        lease.shrink(10);
        assert_eq!((lease.bytes(), budget.leased()), (30, 30));
        lease.shrink(90);
        assert_eq!((lease.bytes(), budget.leased()), (30, 30));
    }
}
