//! Streams as queues with a thread each, engines that do one operation at a time, and results that come later.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;

use super::BACKEND;
use super::card::Card;
use super::clock::{Op, Scheduled, Work};
use super::fault::{Failure, Fault};
use super::memory::Extent;
use crate::{Error, Result};

/// Something for a stream's thread to do, given the failure of what was before it, if that failed.
type Task = Box<dyn FnOnce(&mut Option<Failure>) + Send>;

/// A queue of a virtual card. Its thread ends when the stream is dropped and its work is done.
pub struct VirtualStream {
    tasks: Sender<Task>,
    number: usize,
    epoch: u64,
    /// When the work queued so far ends.
    clock_ns: Arc<AtomicU64>,
}

/// What a queued operation makes.
pub struct VirtualPending<R> {
    card: Arc<Card>,
    operation: &'static str,
    epoch: u64,
    end_ns: u64,
    result: Receiver<std::result::Result<R, Failure>>,
}

impl<R: Send> crate::backend::Pending<R> for VirtualPending<R> {
    fn wait(self) -> Result<R> {
        let result = self.result.recv().unwrap_or(Err(panicked(self.operation)))?;
        let mut state = self.card.state();
        state.require(self.epoch)?;
        state.clock.waited(self.end_ns);
        Ok(result)
    }
}

/// The thread of a stream ends early only so: by a bug of the caller's or of an operation.
fn panicked(operation: &'static str) -> Failure {
    Failure::Operation { operation, reason: "the thread of its stream has panicked" }
}

impl VirtualStream {
    pub(super) fn open(card: &Card) -> Result<Self> {
        let mut state = card.state();
        state.require(state.epoch)?;
        let (number, clock_ns) = state.clock.stream();
        let epoch = state.epoch;
        drop(state);
        let (tasks, queued) = mpsc::channel::<Task>();
        let work = move || {
            let mut failure = None;
            queued.into_iter().for_each(|task| task(&mut failure));
        };
        thread::Builder::new().name(format!("stream {number}")).spawn(work).map_err(|error| {
            Error::Device {
                backend: BACKEND,
                operation: "a new stream".into(),
                reason: error.to_string(),
            }
        })?;
        Ok(Self { tasks, number, epoch, clock_ns: Arc::new(AtomicU64::new(clock_ns)) })
    }

    fn push(&self, operation: &'static str, task: Task) -> Result<()> {
        self.tasks.send(task).map_err(|_| panicked(operation).into())
    }

    /// What is queued from now on waits for what is queued on `other`, and fails if that has failed: it would
    /// compute on what was never written.
    pub(super) fn join(&self, other: &Self) -> Result<()> {
        let (event, reached) = mpsc::channel();
        other.push(
            "join",
            Box::new(move |failure| {
                // Nobody listens any more if the waiter's thread has panicked.
                let _ = event.send(failure.clone());
            }),
        )?;
        self.clock_ns.fetch_max(other.clock_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        self.push(
            "join",
            Box::new(move |failure| {
                let of_other = reached.recv().unwrap_or(Some(panicked("join")));
                *failure = failure.take().or(of_other);
            }),
        )
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Card {
    /// Queues an operation on buffers, which stay until it is done. `run` is told whether to do it wrongly.
    pub(super) fn submit<R: Send + 'static>(
        self: &Arc<Self>,
        stream: &VirtualStream,
        op: Op,
        buffers: &[&Extent],
        mut run: impl FnMut(bool) -> R + Send + 'static,
    ) -> Result<VirtualPending<R>> {
        let mut state = self.state();
        for epoch in buffers.iter().map(|extent| extent.epoch).chain([stream.epoch]) {
            state.require(epoch)?;
        }
        match op.work {
            Work::UploadBytes(_) => state.counters.uploads += 1,
            Work::DownloadBytes(_) => state.counters.downloads += 1,
            _ => state.counters.launches += 1,
        }
        let fault = state.faults.next(op.work.call());
        let stream_ns = stream.clock_ns.load(Ordering::Relaxed);
        let scheduled = state.clock.schedule(&self.model, op, stream.number, stream_ns);
        drop(state);
        let (operation, end_ns, epoch) = (scheduled.op.label, scheduled.end_ns, stream.epoch);
        stream.clock_ns.store(end_ns, Ordering::Relaxed);
        buffers.iter().for_each(|extent| extent.used_by(&stream.clock_ns));
        let (sender, result) = mpsc::channel();
        let card = self.clone();
        let task = move |failure: &mut Option<Failure>| {
            let outcome = card.perform(scheduled, epoch, fault, failure, &mut run);
            // What was dropped has returned its bytes before anyone hears that this is done.
            drop(run);
            // Nobody listens for the end of most operations.
            let _ = sender.send(outcome);
        };
        stream.push(operation, Box::new(task))?;
        Ok(VirtualPending { card: self.clone(), operation, epoch, end_ns, result })
    }

    /// Does an operation in its stream's thread, alone on its engine.
    fn perform<R>(
        &self,
        scheduled: Scheduled,
        epoch: u64,
        fault: Option<Fault>,
        failure: &mut Option<Failure>,
        run: &mut impl FnMut(bool) -> R,
    ) -> std::result::Result<R, Failure> {
        let engine = &self.engines[scheduled.op.work.engine()];
        let _busy = engine.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.resumed.wait_while(self.state(), |state| state.paused);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if fault == Some(Fault::LoseDevice) && state.is_alive(epoch) {
            state.lose();
        }
        if !state.is_alive(epoch) {
            *failure = Some(Failure::Lost);
        } else if matches!(fault, Some(Fault::FailLaunch | Fault::FailCopy)) {
            let operation = scheduled.op.label;
            failure.get_or_insert(Failure::Operation { operation, reason: "it was told to fail" });
        }
        drop(state);
        if let Some(failure) = failure {
            return Err(failure.clone());
        }
        let result = run(fault == Some(Fault::CorruptLaunch));
        let mut state = self.state();
        if !state.is_alive(epoch) {
            *failure = Some(Failure::Lost);
            return Err(Failure::Lost);
        }
        state.clock.done(scheduled);
        Ok(result)
    }
}
