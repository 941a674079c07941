//! Jobs, as they are given to the engine and as their owner sees them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::budget::Cancel;
use crate::field::Fr;
use crate::format::Progress;
use crate::groth16::Blinding;
use crate::key::ProvingKey;
use crate::proof::Proof;
use crate::witness::Assignment;
use crate::{Error, Result};

use super::{Priority, Shared};

/// Partitions to prove under one key.
pub struct Job {
    pub(super) label: String,
    pub(super) key: Arc<ProvingKey>,
    pub(super) partitions: Vec<Partition>,
    pub(super) expected: usize,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Instant>,
    pub(super) progress: Option<Arc<dyn Progress + Send>>,
}

impl Job {
    /// A job of the usual priority and without a deadline, called `label` in messages and traces.
    pub fn new(label: impl Into<String>, key: Arc<ProvingKey>, partitions: Vec<Partition>) -> Self {
        let (label, expected) = (label.into(), partitions.len());
        let (priority, deadline, progress) = (Priority::Normal, None, None);
        Self { label, key, partitions, expected, priority, deadline, progress }
    }

    /// The same, when `partitions` are expected under its key, in this job and in others: what is done once for all of them
    /// ([`plan::Options::partitions`](crate::plan::Options::partitions)) pays for that many. By default those of the job.
    pub fn expecting(self, partitions: usize) -> Self {
        Self { expected: partitions, ..self }
    }

    /// The same, before or after others.
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The same; it fails with [`Error::Deadline`] unless it is done by then.
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The same, telling how far it is.
    pub fn progress(self, progress: Arc<dyn Progress + Send>) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

/// What one proof is made from.
pub struct Partition {
    pub(super) source: Source,
    pub(super) blinding: Blinding,
}

/// The bytes that an assignment will take, as far as is known when it is about to be made.
pub(super) type Estimate = Box<dyn Fn() -> u64 + Send>;

/// Makes an assignment, once.
pub(super) type Recipe = Box<dyn FnOnce() -> Result<Assignment> + Send>;

pub(super) enum Source {
    Ready(Arc<Assignment>),
    Recipe { bytes: Estimate, make: Recipe },
}

impl Partition {
    /// A partition whose assignment is there already, with fresh r and s. Its memory is the caller's: the engine
    /// does not count it.
    pub fn new(assignment: Arc<Assignment>) -> Result<Self> {
        Ok(Self { source: Source::Ready(assignment), blinding: Blinding::random()? })
    }

    /// A partition that is synthesised just ahead of its turn, with fresh r and s. `make` is called on one of the engine's synthesis
    /// threads when the host budget has room for `bytes`, the most that the assignment will take.
    pub fn synthesised(
        bytes: u64,
        make: impl FnOnce() -> Result<Assignment> + Send + 'static,
    ) -> Result<Self> {
        Self::estimated(move || bytes, make)
    }

    /// The same where the bytes are better known later: they are asked for just before the host budget is. If the assignment then takes
    /// more, it waits for room again before it goes to a device.
    pub fn estimated(
        bytes: impl Fn() -> u64 + Send + 'static,
        make: impl FnOnce() -> Result<Assignment> + Send + 'static,
    ) -> Result<Self> {
        let source = Source::Recipe { bytes: Box::new(bytes), make: Box::new(make) };
        Ok(Self { source, blinding: Blinding::random()? })
    }

    /// The same with other r and s.
    pub fn blinding(self, blinding: Blinding) -> Self {
        Self { blinding, ..self }
    }
}

/// A proof that verified, and how it came about.
#[derive(Clone, Debug)]
pub struct Proved {
    /// The proof.
    pub proof: Proof,
    /// The public inputs that it is for, without the constant 1.
    pub public_inputs: Vec<Fr>,
    /// The backend that made it.
    pub backend: &'static str,
    /// The device that made it.
    pub device: String,
    /// Tries that it took.
    pub tries: u32,
    /// The plan in one line.
    pub plan: String,
    /// The plan's peak, which was leased.
    pub planned_bytes: u64,
    /// The most bytes of the lease that were in use at once.
    pub used_bytes: u64,
    /// From admission to the verified proof.
    pub elapsed: Duration,
}

/// A job in the engine. Dropping the handle lets the job run on.
///
/// It is a [`Future`] of the proofs, in the partitions' order, and [`JobHandle::wait`] blocks for them. [`JobHandle::wait_for_one`] gives
/// them as they are made.
pub struct JobHandle {
    job: Arc<JobState>,
    engine: Weak<Shared>,
    /// Partitions that [`JobHandle::wait_for_one`] gave.
    given: Vec<usize>,
}

impl JobHandle {
    pub(super) fn new(job: Arc<JobState>, engine: Weak<Shared>) -> Self {
        Self { job, engine, given: Vec::new() }
    }

    /// Blocks until all proofs are there, or the job has failed.
    ///
    /// # Errors
    /// The first error of a partition; [`Error::Cancelled`]; [`Error::Deadline`].
    pub fn wait(self) -> Result<Vec<Proved>> {
        let mut outcome = self.job.lock();
        loop {
            if let Some(result) = outcome.take() {
                return result;
            }
            outcome = self.job.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until a partition is proved that this has not given yet, and gives its number and its proof; `None` when all were given.
    ///
    /// # Errors
    /// As [`JobHandle::wait`], once what was proved before is given; the error is given once.
    pub fn wait_for_one(&mut self) -> Result<Option<(usize, Proved)>> {
        let mut outcome = self.job.lock();
        loop {
            let proved = outcome.proved.iter().enumerate();
            let mut new = proved.filter(|(index, _)| !self.given.contains(index));
            if let Some((index, proved)) = new.find_map(|(i, proved)| Some((i, proved.clone()?))) {
                self.given.push(index);
                return Ok(Some((index, proved)));
            }
            match outcome.error.take() {
                Some(error) => return Err(error),
                None if outcome.is_over() => return Ok(None),
                None => {}
            }
            outcome = self.job.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the job with [`Error::Cancelled`], unless it has ended. What runs on a device stops at its next stage.
    pub fn cancel(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.end(&self.job, Error::Cancelled { label: self.job.label.clone() });
        }
    }

    /// Partitions that are proved, and all.
    pub fn done(&self) -> (usize, usize) {
        let outcome = self.job.lock();
        (outcome.proved.iter().flatten().count(), outcome.proved.len())
    }

    /// Whether the job has ended, one way or the other.
    pub fn is_finished(&self) -> bool {
        self.job.is_over()
    }
}

impl Future for JobHandle {
    type Output = Result<Vec<Proved>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = self.job.lock();
        match outcome.take() {
            Some(result) => Poll::Ready(result),
            None => {
                outcome.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A job as the engine sees it.
pub(super) struct JobState {
    pub(super) label: String,
    pub(super) key: Arc<ProvingKey>,
    pub(super) expected: usize,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Instant>,
    pub(super) progress: Option<Arc<dyn Progress + Send>>,
    /// Cancelled when the job ends early.
    pub(super) cancel: Cancel,
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

#[derive(Default)]
struct Outcome {
    proved: Vec<Option<Proved>>,
    error: Option<Error>,
    /// An error was set, taken or not.
    failed: bool,
    waker: Option<Waker>,
}

impl Outcome {
    fn is_over(&self) -> bool {
        self.failed || self.proved.iter().all(Option::is_some)
    }

    /// The result, once.
    fn take(&mut self) -> Option<Result<Vec<Proved>>> {
        match self.error.take() {
            Some(error) => Some(Err(error)),
            None if self.failed || !self.is_over() => None,
            None => Some(Ok(std::mem::take(&mut self.proved).into_iter().flatten().collect())),
        }
    }
}

impl JobState {
    pub(super) fn new(
        label: String,
        key: Arc<ProvingKey>,
        partitions: usize,
        expected: usize,
        priority: Priority,
        deadline: Option<Instant>,
        progress: Option<Arc<dyn Progress + Send>>,
    ) -> Self {
        let proved = (0..partitions).map(|_| None).collect();
        let outcome = Mutex::new(Outcome { proved, ..Outcome::default() });
        let (cancel, ended) = (Cancel::new(), Condvar::new());
        Self { label, key, expected, priority, deadline, progress, cancel, outcome, ended }
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the job, unless it has ended; tells which.
    pub(super) fn fail(&self, error: Error) -> bool {
        let first = self.change(|outcome| {
            let first = !outcome.is_over();
            if first {
                (outcome.error, outcome.failed) = (Some(error), true);
            }
            first
        });
        if first {
            self.cancel.cancel();
        }
        first
    }

    /// The proof of one partition.
    pub(super) fn deliver(&self, index: usize, proved: Proved) {
        self.change(|outcome| {
            if !outcome.failed {
                outcome.proved[index] = Some(proved);
            }
        });
    }

    /// Changes the outcome and wakes the owner, if there is something to wake for.
    fn change<R>(&self, change: impl FnOnce(&mut Outcome) -> R) -> R {
        let mut outcome = self.lock();
        let result = change(&mut outcome);
        let waker = if outcome.is_over() { outcome.waker.take() } else { None };
        drop(outcome);
        self.ended.notify_all();
        waker.into_iter().for_each(Waker::wake);
        result
    }

    /// Whether it has ended, one way or the other.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Whether it has failed.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().failed
    }

    /// An error if the job is over or late.
    pub(super) fn check(&self) -> Result<()> {
        let label = || self.label.clone();
        if self.has_ended() {
            return Err(Error::Cancelled { label: label() });
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(Error::Deadline { label: label() });
        }
        Ok(())
    }
}
