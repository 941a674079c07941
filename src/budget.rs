//! The memory of one device as a budget: no lease, no allocation.
//!
//! A [`Budget`] is bytes of one physical device. A [`Lease`] is a part of it, taken whole before the
//! first byte is allocated; a [`Reservation`] is one buffer's part of a lease, and returns to it
//! when the buffer is gone. A [`Resident`] is a lease whose buffers others may have dropped while
//! nobody uses them. Who is admitted is decided in [`admission`]; this file adds the lock, the sleeping and
//! the waking:
//!
//! 1. Whatever may let a request start (bytes back, a request gone, more capacity) admits under the same lock
//!    that changed the state, and wakes each admitted waiter through its own condition variable. So
//!    no wake-up can be lost, and none goes to the wrong thread.
//! 2. A waiter leaves the queue once: admitted, cancelled or late, whichever takes the lock first.
//! 3. Nobody sleeps, drops a buffer or runs a callback under the lock.
//! 4. Nobody waits while holding: [`Budget::wait`] fails at once in a thread that took a lease of the same
//!    budget, or pinned a resident, and has not given it back. A lease that another thread will end is
//!    taken off this thread by [`Lease::hand_over`].
//! 5. If the first in line does not fit, but would without residents that nobody uses, enough of them are
//!    evicted, least recently used first. If that would not be enough, none is. What the first in line says
//!    it will use ([`Request::uses`]) is not evicted for it.

pub mod admission;
mod advisory;
mod registry;
mod resident;
mod sync;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use self::admission::{Admission, Ticket, TooLarge};
use self::resident::Entry;
use self::sync::{Arc, Condvar, Mutex, MutexGuard, ThreadId, current};
use crate::{Error, Result};

pub use self::admission::Priority;
pub use self::advisory::AdvisoryFile;
pub use self::resident::{Pin, Resident};

/// The bytes of one device that this process may use. Clones are handles to the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: u64,
    state: Mutex<State>,
    #[cfg(loom)]
    fault: Fault,
}

/// Every critical section leaves this consistent before it could panic, so a poisoned lock is no reason
/// to stop.
#[derive(Debug)]
struct State {
    admission: Admission,
    waiters: BTreeMap<Ticket, Waiter>,
    /// What threads hold, for rule 4; a handful.
    holders: Vec<Holder>,
    residents: BTreeMap<Ticket, Entry>,
    /// Residents whose buffers are being dropped, until their bytes are back.
    evicting: Vec<Ticket>,
    /// Counts uses of residents.
    clock: u64,
}

#[derive(Debug)]
struct Waiter {
    outcome: Outcome,
    uses: Option<Ticket>,
    wake: Arc<Condvar>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Waiting,
    Admitted,
    Cancelled,
    Late,
}

#[derive(Debug)]
struct Holder {
    ticket: Ticket,
    thread: ThreadId,
    label: String,
}

/// What [`Budget::wait`] asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the memory is for, in messages.
    pub label: &'a str,
    /// The amounts in which the bytes will come back, in order; they sum to the request. See
    /// [`admission`]: a good list lets others overlap, a wrong one is never unsafe.
    pub releases: &'a [u64],
    /// Before or after others.
    pub priority: Priority,
    /// When waiting has no more sense. If it has passed already, the request fails, even if it fits.
    pub deadline: Option<Instant>,
    /// A handle that ends the waiting.
    pub cancel: Option<&'a Cancel>,
    /// The resident that the memory is to be used with, which is not evicted to make room for it: its
    /// [`Resident::ticket`]. Others may still evict it, so pin it when the lease is there.
    pub uses: Option<Ticket>,
}

impl<'a> Request<'a> {
    /// A request of the usual priority that waits for as long as it takes.
    pub fn new(label: &'a str, releases: &'a [u64]) -> Self {
        let priority = Priority::Normal;
        Self { label, releases, priority, deadline: None, cancel: None, uses: None }
    }
}

impl Budget {
    /// A budget of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let state = State {
            admission: Admission::new(capacity),
            waiters: BTreeMap::new(),
            holders: Vec::new(),
            residents: BTreeMap::new(),
            evicting: Vec::new(),
            clock: 0,
        };
        Self(Arc::new(Shared {
            total: capacity,
            state: Mutex::new(state),
            #[cfg(loom)]
            fault: Fault::None,
        }))
    }

    /// Leases `bytes` for `label` now, whole or not at all. It goes past nobody who could be delayed.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if that much is not left now, or is kept free for one who waits.
    pub fn lease(&self, label: &str, bytes: u64) -> Result<Lease> {
        #[cfg(loom)]
        if self.0.fault == Fault::CheckOutsideLock {
            return self.lease_checked_outside_the_lock(label, bytes);
        }
        let out_of_memory =
            |left| Error::OutOfMemory { label: label.to_owned(), need: bytes, left };
        let enqueue = |state: &mut State| {
            let left = state.admission.free();
            state.enqueue(&[bytes], Priority::Normal, None).map_err(|_| out_of_memory(left))
        };
        // `change` has evicted by the time it returns, so a second look sees the bytes that came of it.
        let (ticket, _) = self.0.change(enqueue)?;
        let (outcome, left) = self.0.change(|state| {
            state.abandon(ticket, Outcome::Cancelled);
            (state.take(ticket, label), state.admission.free())
        });
        match outcome {
            Outcome::Admitted => Ok(self.admitted(ticket, label, bytes)),
            _ => Err(out_of_memory(left)),
        }
    }

    /// Waits until the request is admitted.
    ///
    /// # Errors
    /// [`Error::NeverFits`] at once if the request is above the capacity, [`Error::HoldAndWait`] at once if
    /// this thread holds memory of this budget; [`Error::Deadline`] and [`Error::Cancelled`], leaving
    /// nothing behind.
    pub fn wait(&self, request: Request<'_>) -> Result<Lease> {
        let label = || request.label.to_owned();
        if request.cancel.is_some_and(Cancel::is_cancelled) {
            return Err(Error::Cancelled { label: label() });
        }
        let late = || request.deadline.is_some_and(|deadline| deadline <= Instant::now());
        if late() {
            return Err(Error::Deadline { label: label() });
        }
        let thread = current().id();
        let (ticket, wake) = self.0.change(|state| {
            if let Some(holder) = state.holders.iter().find(|holder| holder.thread == thread) {
                return Err(Error::HoldAndWait { label: label(), held: holder.label.clone() });
            }
            let Request { releases, priority, uses, .. } = request;
            state.enqueue(releases, priority, uses).map_err(|TooLarge { need, capacity }| {
                Error::NeverFits { label: label(), need, capacity }
            })
        })?;
        // From here on the request is in the queue, so a cancel that comes now finds it.
        if request.cancel.is_some_and(|cancel| !cancel.register(self, ticket)) {
            self.0.change(|state| state.abandon(ticket, Outcome::Cancelled));
        }
        let mut state = self.0.lock();
        let outcome = loop {
            match state.take(ticket, request.label) {
                Outcome::Waiting if late() => {
                    drop(state);
                    self.0.change(|state| state.abandon(ticket, Outcome::Late));
                    state = self.0.lock();
                }
                Outcome::Waiting => state = sleep(&wake, state, request.deadline),
                outcome => break outcome,
            }
        };
        drop(state);
        if let Some(cancel) = request.cancel {
            cancel.forget(self, ticket);
        }
        match outcome {
            Outcome::Admitted => {
                Ok(self.admitted(ticket, request.label, request.releases.iter().sum()))
            }
            Outcome::Late => Err(Error::Deadline { label: label() }),
            Outcome::Cancelled => Err(Error::Cancelled { label: label() }),
            Outcome::Waiting => unreachable!("the loop ends with another outcome"),
        }
    }

    /// Bytes of the device that others use: from now on only the rest is admitted. Leases that exist
    /// stay, even if they are more than that.
    pub fn set_foreign(&self, bytes: u64) {
        let capacity = self.0.total.saturating_sub(bytes);
        self.0.change(|state| state.admission.set_capacity(capacity));
    }

    /// Bytes that may be leased at once when nobody else uses the device.
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// Bytes that may be leased at once, now.
    pub fn capacity(&self) -> u64 {
        self.0.lock().admission.capacity()
    }

    /// Bytes that are leased now.
    pub fn leased(&self) -> u64 {
        self.0.lock().admission.leased()
    }

    /// The most bytes that were ever leased at once.
    pub fn high_water(&self) -> u64 {
        self.0.lock().admission.high_water()
    }

    /// Requests that wait now.
    pub fn waiting(&self) -> usize {
        self.0.lock().admission.waiting()
    }

    fn admitted(&self, ticket: Ticket, label: &str, bytes: u64) -> Lease {
        let ledger = Mutex::new(Ledger { target: bytes, used: 0, returning: 0, high_water: 0 });
        Lease(Arc::new(LeaseInner {
            budget: self.clone(),
            ticket,
            label: label.to_owned(),
            ledger,
            returned: Condvar::new(),
            ended: Ended::default(),
        }))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and lets start who may start now (rule 1). Evicts, once the lock is gone (rule 5).
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        for ticket in state.admission.admit() {
            // Every request has a waiter until it is taken or abandoned.
            let Some(waiter) = state.waiters.get_mut(&ticket) else { continue };
            waiter.outcome = Outcome::Admitted;
            #[cfg(loom)]
            if self.fault == Fault::SkipNotify {
                continue;
            }
            waiter.wake.notify_one();
        }
        let victims = state.victims();
        drop(state);
        victims.into_iter().for_each(Entry::evict);
        result
    }
}

impl State {
    fn enqueue(
        &mut self,
        releases: &[u64],
        priority: Priority,
        uses: Option<Ticket>,
    ) -> std::result::Result<(Ticket, Arc<Condvar>), TooLarge> {
        let ticket = self.admission.request(releases, priority)?;
        let wake = Arc::new(Condvar::new());
        let waiter = Waiter { outcome: Outcome::Waiting, uses, wake: wake.clone() };
        self.waiters.insert(ticket, waiter);
        Ok((ticket, wake))
    }

    /// Takes a request out of the queue, unless something else has happened to it (rule 2).
    fn abandon(&mut self, ticket: Ticket, outcome: Outcome) {
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && waiter.outcome == Outcome::Waiting
        {
            self.admission.cancel(ticket);
            waiter.outcome = outcome;
            waiter.wake.notify_one();
        }
    }

    /// What has happened to a request; anything but waiting is told once, and makes this thread the holder
    /// if it was admitted.
    fn take(&mut self, ticket: Ticket, label: &str) -> Outcome {
        let outcome = self.waiters[&ticket].outcome;
        if outcome != Outcome::Waiting {
            self.waiters.remove(&ticket);
        }
        if outcome == Outcome::Admitted {
            self.hold(ticket, label);
        }
        outcome
    }

    fn hold(&mut self, ticket: Ticket, label: &str) {
        self.holders.push(Holder { ticket, thread: current().id(), label: label.to_owned() });
    }
}

/// Sleeps until woken or, perhaps, until the deadline. Under loom time does not pass: a deadline is
/// [`State::abandon`], which is checked through [`Cancel`].
fn sleep<'a>(
    wake: &Condvar,
    state: MutexGuard<'a, State>,
    deadline: Option<Instant>,
) -> MutexGuard<'a, State> {
    match deadline {
        #[cfg(not(loom))]
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
        }
        _ => wake.wait(state).unwrap_or_else(PoisonError::into_inner),
    }
}

/// Ends the waiting of every [`Request`] that it was given to. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Mutex<Cancellation>>);

#[derive(Debug)]
struct Cancellation {
    cancelled: bool,
    waits: Vec<(Budget, Ticket)>,
}

impl Cancel {
    /// Not cancelled.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Cancellation { cancelled: false, waits: Vec::new() })))
    }

    /// Cancels for good: who waits stops, and who would wait does not begin. A request that has been admitted
    /// stays so.
    pub fn cancel(&self) {
        let waits = {
            let mut inner = self.lock();
            inner.cancelled = true;
            std::mem::take(&mut inner.waits)
        };
        for (budget, ticket) in waits {
            budget.0.change(|state| state.abandon(ticket, Outcome::Cancelled));
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// False if it is too late for that.
    fn register(&self, budget: &Budget, ticket: Ticket) -> bool {
        let mut inner = self.lock();
        if !inner.cancelled {
            inner.waits.push((budget.clone(), ticket));
        }
        !inner.cancelled
    }

    fn forget(&self, budget: &Budget, ticket: Ticket) {
        let is_other = |(of, other): &(Budget, Ticket)| *other != ticket || !of.is(budget);
        self.lock().waits.retain(is_other);
    }

    fn lock(&self) -> MutexGuard<'_, Cancellation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A part of a [`Budget`], from which buffers are allocated. Its bytes return to the budget when the
/// lease and all buffers made from it are gone. Clones are handles to the same lease.
#[derive(Clone, Debug)]
pub struct Lease(Arc<LeaseInner>);

#[derive(Debug)]
struct LeaseInner {
    budget: Budget,
    ticket: Ticket,
    label: String,
    ledger: Mutex<Ledger>,
    /// Something that was returning is back.
    returned: Condvar,
    ended: Ended,
}

/// Knows when a lease has ended. Clones are handles to the same.
#[derive(Clone, Default, Debug)]
pub struct Ended(Arc<(Mutex<bool>, Condvar)>);

impl Ended {
    /// Waits until the lease and all buffers made from it are gone.
    pub fn wait(&self) {
        let (ended, wake) = &*self.0;
        let mut has_ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*has_ended {
            has_ended = wake.wait(has_ended).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tell(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// What buffers take of a lease.
#[derive(Debug)]
struct Ledger {
    /// What the lease was, or was last shrunk to.
    target: u64,
    /// May be above the target after a shrink, until buffers return.
    used: u64,
    /// The part of `used` whose buffers nobody has any more and the device is about to finish with.
    returning: u64,
    high_water: u64,
}

impl Ledger {
    /// What the lease holds of the budget.
    fn limit(&self) -> u64 {
        self.target.max(self.used)
    }
}

impl LeaseInner {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the ledger, and gives the budget what the lease no longer holds.
    fn change(&self, change: impl FnOnce(&mut Ledger)) {
        let mut ledger = self.lock();
        let before = ledger.limit();
        change(&mut ledger);
        let freed = before - ledger.limit();
        drop(ledger);
        if freed > 0 {
            self.budget.0.change(|state| state.admission.release(self.ticket, freed));
        }
    }
}

impl Drop for LeaseInner {
    fn drop(&mut self) {
        let bytes = self.ledger.get_mut().unwrap_or_else(PoisonError::into_inner).limit();
        self.budget.0.change(|state| {
            state.holders.retain(|holder| holder.ticket != self.ticket);
            state.admission.release(self.ticket, bytes);
        });
        self.ended.tell();
    }
}

impl Lease {
    /// Takes `bytes` of the lease for a buffer called `label`. Backends call this before they ask
    /// a driver for anything. It waits for nobody but this lease's own buffers that are [returning](Reservation::returning).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the lease has less left, whatever the device has.
    pub fn reserve(&self, label: &str, bytes: u64) -> Result<Reservation> {
        let mut ledger = self.0.lock();
        loop {
            let left = ledger.limit() - ledger.used;
            if bytes <= left {
                break;
            }
            // What will be left when all that is returning is back.
            let stay = ledger.used - ledger.returning;
            if ledger.returning == 0 || bytes > ledger.target.saturating_sub(stay) {
                return Err(Error::OutOfMemory { label: label.to_owned(), need: bytes, left });
            }
            ledger = self.0.returned.wait(ledger).unwrap_or_else(PoisonError::into_inner);
        }
        ledger.used += bytes;
        ledger.high_water = ledger.high_water.max(ledger.used);
        drop(ledger);
        Ok(Reservation { lease: self.clone(), bytes, returning: AtomicBool::new(false) })
    }

    /// Gives back all but `bytes`. What is in use beyond that is given back as its buffers return. A lease never
    /// grows.
    pub fn shrink(&self, bytes: u64) {
        self.0.change(|ledger| ledger.target = ledger.target.min(bytes));
        // Who waits for returning bytes may not get them now.
        self.0.returned.notify_all();
    }

    /// Says that another thread ends this lease, without this one's help: this thread may then wait
    /// for the next. If it is not so, the two may wait for each other forever.
    pub fn hand_over(&self) {
        self.0.budget.0.lock().holders.retain(|holder| holder.ticket != self.0.ticket);
    }

    /// What tells when this lease has ended; it does not keep it.
    pub fn ended(&self) -> Ended {
        self.0.ended.clone()
    }

    /// The lease's ticket, which no other lease of its budget has.
    pub fn ticket(&self) -> Ticket {
        self.0.ticket
    }

    /// Bytes that its buffers may take together: what it was, or was last shrunk to.
    pub fn allowance(&self) -> u64 {
        self.0.lock().target
    }

    /// Bytes that the lease holds.
    pub fn bytes(&self) -> u64 {
        self.0.lock().limit()
    }

    /// The most bytes that buffers of this lease took at once.
    pub fn high_water(&self) -> u64 {
        self.0.lock().high_water
    }
}

/// One buffer's bytes of a lease; dropped when the buffer is gone and the device is done with it.
#[derive(Debug)]
pub struct Reservation {
    lease: Lease,
    bytes: u64,
    returning: AtomicBool,
}

impl Reservation {
    /// Says that the buffer's handle is gone, and that the device will be done with it without anybody's help:
    /// whoever needs the bytes for another buffer of the lease waits for them instead of failing.
    pub fn returning(&self) {
        if !self.returning.swap(true, Ordering::Relaxed) {
            self.lease.0.lock().returning += self.bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let returning = *self.returning.get_mut();
        self.lease.0.change(|ledger| {
            ledger.used -= self.bytes;
            if returning {
                ledger.returning -= self.bytes;
            }
        });
        self.lease.0.returned.notify_all();
    }
}

/// A mistake on purpose, for the model checker to find: a check that has never failed proves nothing.
#[cfg(loom)]
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// None.
    None,
    /// An admitted waiter is not woken.
    SkipNotify,
    /// [`Budget::lease`] looks at the free bytes under one lock and takes them under the next.
    CheckOutsideLock,
}

#[cfg(loom)]
#[doc(hidden)]
impl Budget {
    /// A budget that makes the mistake `fault`.
    pub fn with_fault(capacity: u64, fault: Fault) -> Self {
        let mut budget = Self::new(capacity);
        Arc::get_mut(&mut budget.0).expect("nobody else has it yet").fault = fault;
        budget
    }

    fn lease_checked_outside_the_lock(&self, label: &str, bytes: u64) -> Result<Lease> {
        let left = self.0.lock().admission.free();
        if bytes > left {
            return Err(Error::OutOfMemory { label: label.to_owned(), need: bytes, left });
        }
        let mut state = self.0.lock();
        let capacity = state.admission.capacity();
        state.admission.set_capacity(u64::MAX);
        let ticket = state.admission.request(&[bytes], Priority::Normal).expect("it fits");
        state.admission.admit();
        state.admission.set_capacity(capacity);
        drop(state);
        Ok(self.admitted(ticket, label, bytes))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
