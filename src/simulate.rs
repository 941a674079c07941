//! A card shared by workers, in virtual time: the same partitions under several schemes.
//!
//! [`simulate`] runs a [`Scenario`] (a card, the stages of one partition, how many there are) under a [`Scheme`] and
//! says what came of it: time, use of the card, bytes, or how it failed. Nothing is random and nothing is
//! scripted: running out of memory is the allocator's arithmetic, a deadlock is a cycle of the wait-for graph. The
//! scheme [`Scheme::Admission`] is decided by [`budget::admission`](crate::budget::admission), the code that decides in
//! real time too.
//!
//! What is not modelled: contention for the bus (bases are streamed while kernels run), for host memory and cores,
//! two kernels at once, and the time of allocator calls beyond the scenario's set-up stage.

mod engine;
mod scenario;
mod schemes;

use serde::{Deserialize, Serialize};

pub use self::scenario::{BufferSpec, Phase, Resource, Scenario, Stage, WhenFull};
pub use self::schemes::Scheme;

use self::engine::Failure;
use crate::timeline::Timeline;
use crate::{Result, bytes};

/// The built-in scenarios: names and files.
const BUILT_IN: [(&str, &str); 2] = [
    ("porep-32gib", include_str!("simulate/porep-32gib.json")),
    ("porep-32gib-compact", include_str!("simulate/porep-32gib-compact.json")),
];

impl Scenario {
    /// The names of the built-in scenarios.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The built-in scenario of this name. `porep-32gib` is three 32 GiB PoRep proofs as a published CUDA prover
    /// computes them on a 16 GiB card, `porep-32gib-compact` the same work in this crate's shape.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(Self::from_json(text.as_bytes()).expect("a test reads them all"))
    }
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The scheme.
    pub scheme: Scheme,
    /// The scenario's name.
    pub scenario: String,
    /// Whether every partition came out.
    pub completed: bool,
    /// Whether an allocation failed.
    pub oom: bool,
    /// Whether workers waited for one another in a circle.
    pub deadlock: bool,
    /// How it failed, in words.
    pub failure: Option<String>,
    /// From the start until the last partition is done, or until it failed.
    pub makespan_s: f64,
    /// The share of the makespan with a kernel on the compute engine.
    pub gpu_busy_fraction: f64,
    /// The most bytes of the card in use, the baseline among them.
    pub high_water_bytes: u64,
    /// Bytes in use at the end, the baseline among them.
    pub final_bytes: u64,
    /// Calls that waited for everything on the card.
    pub device_global_syncs: u64,
    /// Partitions that there were.
    pub partitions: u64,
    /// Partitions that came out.
    pub partitions_done: u64,
    /// Workers.
    pub workers: u32,
    /// Bytes of the card.
    pub vram_bytes: u64,
}

/// Runs a scenario under a scheme.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if the scenario is. A run that fails is no error.
pub fn simulate(scenario: &Scenario, scheme: Scheme) -> Result<(Report, Timeline)> {
    scenario.check()?;
    let outcome = engine::run(scenario, scheme);
    let (oom, deadlock, failure) = match outcome.failure {
        None => (false, false, None),
        Some(Failure::OutOfMemory(text)) => (true, false, Some(text)),
        Some(Failure::Deadlock(text)) => (false, true, Some(text)),
        Some(Failure::Refused(text)) => (false, false, Some(text)),
    };
    let report = Report {
        scheme,
        scenario: scenario.name.clone(),
        completed: failure.is_none(),
        oom,
        deadlock,
        failure,
        makespan_s: outcome.end_ns as f64 / 1e9,
        gpu_busy_fraction: outcome.compute_busy_ns as f64 / outcome.end_ns.max(1) as f64,
        high_water_bytes: outcome.high_water,
        final_bytes: outcome.in_use_at_end,
        device_global_syncs: outcome.device_wide_calls,
        partitions: scenario.partitions(),
        partitions_done: outcome.done,
        workers: scenario.workers,
        vram_bytes: scenario.card_bytes,
    };
    let mut timeline = outcome.timeline;
    timeline.title = format!("{}: {}, {} workers", report.scenario, scheme.name(), report.workers);
    timeline.subtitle = report.summary();
    Ok((report, timeline))
}

impl Report {
    /// The result in a line of figures, and a second line if it failed.
    pub fn summary(&self) -> String {
        let figures = format!(
            "{} of {} partitions in {:.2} s, card busy {:.1} %, at most {} of {} in use, {} device-wide calls",
            self.partitions_done,
            self.partitions,
            self.makespan_s,
            self.gpu_busy_fraction * 100.0,
            bytes::text(self.high_water_bytes),
            bytes::text(self.vram_bytes),
            self.device_global_syncs,
        );
        let how = match (self.oom, self.deadlock) {
            (true, _) => "out of memory",
            (_, true) => "deadlock",
            _ => "refused",
        };
        match &self.failure {
            None => figures,
            Some(failure) => format!("{figures}\n{how}: {failure}"),
        }
    }
}
