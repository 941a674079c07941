//! What an engine did, as a timeline: a lane a worker, and the bytes that each device had leased.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::backend::DeviceSpan;
use crate::timeline::{Class, Span, Timeline};

/// Records, if it is to.
pub(super) struct Recorder {
    start: Instant,
    timeline: Option<Mutex<Timeline>>,
}

impl Recorder {
    pub(super) fn new(record: bool) -> Self {
        let timeline = record.then(|| Mutex::new(Timeline::new("forebay engine")));
        Self { start: Instant::now(), timeline }
    }

    /// What was recorded so far, and what the devices of these names recorded since.
    pub(super) fn timeline(
        &self,
        devices: impl Iterator<Item = (String, Vec<DeviceSpan>)>,
    ) -> Option<Timeline> {
        let mut timeline = self.lock().map(|timeline| timeline.clone())?;
        for (device, mut spans) in devices {
            spans.retain(|span| span.start >= self.start);
            spans.sort_by_key(|span| span.start);
            for DeviceSpan { stream, label, detail, class, start, end } in spans {
                let ns = |instant: Instant| instant.duration_since(self.start).as_nanos() as u64;
                let lane = timeline.lane(&format!("{stream} of {device}"));
                let (label, start_ns, end_ns) = (label.to_owned(), ns(start), ns(end));
                timeline.span(Span { lane, label, detail, class, start_ns, end_ns });
            }
        }
        Some(timeline)
    }

    fn lock(&self) -> Option<MutexGuard<'_, Timeline>> {
        let timeline = self.timeline.as_ref()?;
        Some(timeline.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The bytes that are leased of a device now.
    pub(super) fn leased(&self, device: &str, bytes: u64) {
        if let Some(mut timeline) = self.lock() {
            // Read under the lock, so that times rise.
            let now = self.now_ns();
            timeline.bytes(&format!("leased of {device}"), now, bytes);
        }
    }

    /// A moment that matters to all.
    pub(super) fn mark(&self, label: &str) {
        if let Some(mut timeline) = self.lock() {
            timeline.mark(self.now_ns(), label);
        }
    }

    /// Something begins on a lane; it ends when the guard is dropped.
    pub(super) fn span<'a>(&'a self, lane: &str, class: Class, label: &str) -> Running<'a> {
        let (lane, label) = (lane.to_owned(), label.to_owned());
        Running { recorder: self, lane, class, label, start_ns: self.now_ns() }
    }
}

/// Something that has begun.
pub(super) struct Running<'a> {
    recorder: &'a Recorder,
    lane: String,
    class: Class,
    label: String,
    start_ns: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut timeline) = self.recorder.lock() {
            let lane = timeline.lane(&self.lane);
            let (label, detail) = (std::mem::take(&mut self.label), String::new());
            let (class, start_ns, end_ns) = (self.class, self.start_ns, self.recorder.now_ns());
            timeline.span(Span { lane, label, detail, class, start_ns, end_ns });
        }
    }
}
