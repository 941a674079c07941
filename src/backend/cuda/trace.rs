//! When work ran on the card, by the card's clock: timed events before and after each operation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::driver::{Driver, Stream, TimedEvent};
use super::queue::Queue;
use crate::backend::DeviceSpan;
use crate::curve::Coordinate;
use crate::timeline::Class;
use crate::{Result, bytes};

/// Records, from when it was made.
pub(super) struct Trace {
    driver: Arc<Driver>,
    /// The same moment by two clocks.
    start: (Instant, TimedEvent),
    operations: Mutex<Vec<Operation>>,
}

/// An operation: what it is, and how much.
pub(super) struct What {
    pub label: &'static str,
    pub detail: String,
    pub class: Class,
}

impl What {
    pub fn copy(label: &'static str, bytes: usize) -> Self {
        Self { label, detail: bytes::text(bytes as u64), class: Class::Copy }
    }

    /// Part of the quotient.
    pub fn elements(label: &'static str, len: usize) -> Self {
        Self { label, detail: format!("{len} elements"), class: Class::Transform }
    }

    pub fn points<F: Coordinate>(label: &'static str, len: usize) -> Self {
        Self { label, detail: format!("{len} points of {}", F::GROUP), class: Class::Msm }
    }
}

struct Operation {
    what: What,
    queue: usize,
    start: TimedEvent,
    end: TimedEvent,
}

impl Trace {
    pub fn new(driver: &Arc<Driver>) -> Result<Self> {
        let stream = driver.stream()?;
        let event = record(driver, &stream)?;
        event.wait()?;
        let start = (Instant::now(), event);
        Ok(Self { driver: driver.clone(), start, operations: Mutex::default() })
    }

    /// Does `work`, which puts an operation in `queue`, between two events.
    pub fn around<R>(
        &self,
        queue: &Queue,
        what: What,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let start = record(&self.driver, queue.stream())?;
        let done = work()?;
        let end = record(&self.driver, queue.stream())?;
        let operation = Operation { what, queue: queue.number(), start, end };
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
        Ok(done)
    }

    /// What is done so far.
    pub fn spans(&self) -> Vec<DeviceSpan> {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |event: &TimedEvent| -> Option<Instant> {
            let ms = event.milliseconds_after(&self.start.1).ok()??;
            Some(self.start.0 + Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
        };
        let span = |operation: &Operation| {
            let What { label, detail, class } = &operation.what;
            Some(DeviceSpan {
                stream: format!("stream {}", operation.queue),
                label,
                detail: detail.clone(),
                class: *class,
                start: at(&operation.start)?,
                end: at(&operation.end)?,
            })
        };
        operations.iter().filter_map(span).collect()
    }
}

fn record(driver: &Arc<Driver>, stream: &Stream) -> Result<TimedEvent> {
    let event = driver.timed_event()?;
    event.record(stream)?;
    Ok(event)
}
