//! What is simulated: a card, the stages of one partition, and how many partitions and workers there are.

use serde::{Deserialize, Deserializer, Serialize};

use crate::timeline::Class;
use crate::{Error, Result, bytes};

/// The work and the card. As JSON, byte counts may be numbers or text such as `"16GiB"`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Where the figures come from that belong to no stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Bytes of the card.
    #[serde(deserialize_with = "size")]
    pub card_bytes: u64,
    /// Bytes that are gone before the first partition: context, twiddles, modules.
    #[serde(deserialize_with = "size")]
    pub baseline_bytes: u64,
    /// Bytes a second of a copy from pinned memory.
    pub pinned_bytes_per_s: u64,
    /// Bytes a second of a copy from pageable memory.
    pub pageable_bytes_per_s: u64,
    /// Proofs.
    pub jobs: u32,
    /// Partitions of each proof.
    pub partitions_per_job: u32,
    /// Workers, each with one partition at a time.
    pub workers: u32,
    /// From one proof's synthesis to the next one's; 0 if all wait at the start.
    #[serde(default)]
    pub job_interval_ns: u64,
    /// What the allocator does that has too little: the driver fails, a pool may wait.
    #[serde(default)]
    pub when_full: WhenFull,
    /// The stage until whose end a pre-staging scheme keeps its staged buffers, if it frees them later
    /// than [`Stage::free`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prestaged_until: Option<String>,
    /// What `two-lock-sync` wants free beside its own staging buffers while another worker has or awaits
    /// the compute lock; the peak of one partition if absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_size")]
    pub staging_reserve_bytes: Option<u64>,
    /// The stages of a partition, in the order in which a worker starts them.
    pub stages: Vec<Stage>,
}

/// What an allocator does that has too little.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// It fails, as `cudaMalloc` does.
    #[default]
    Fail,
    /// It waits until another worker frees enough.
    Wait,
}

/// One step of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Its part in the life of a partition.
    pub phase: Phase,
    /// What it occupies.
    pub resource: Resource,
    /// How long it takes; for a copy, on top of its bytes.
    #[serde(default)]
    pub ns: u64,
    /// The bytes that a copy moves.
    #[serde(default, deserialize_with = "size")]
    pub bytes: u64,
    /// The stages of the same partition that must have ended before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The buffers that it allocates when it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alloc: Vec<BufferSpec>,
    /// The buffers that are freed when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<String>,
    /// Its colour, if not its resource's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Where its figures come from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// The part of a stage in the life of a partition; phases follow one another in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// On the host, started with the partition, beside everything else.
    Background,
    /// Brings the inputs to the card.
    Staging,
    /// Computes on the card.
    Compute,
    /// On the host, when the card is done.
    Finish,
}

/// What a stage occupies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// A thread of the processor; there are enough.
    Host,
    /// The copy engine, one copy at a time.
    Copy,
    /// The compute engine, one kernel at a time.
    Compute,
}

/// A buffer on the card.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSpec {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Its size.
    #[serde(deserialize_with = "size")]
    pub bytes: u64,
}

/// A byte count as JSON: a number, or text such as `"16GiB"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Number(u64),
    Text(String),
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    match Size::deserialize(deserializer)? {
        Size::Number(bytes) => Ok(bytes),
        Size::Text(text) => bytes::parse(&text).map_err(serde::de::Error::custom),
    }
}

fn optional_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

/// Limits that no sensible scenario meets; within them sums stay far below 2^64 and a run is short.
const MOST_PARTITIONS: u64 = 10_000;
const MOST_STAGES: usize = 64;
const MOST_BUFFERS: usize = 256;
const MOST_BYTES: u64 = 1 << 50;
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Scenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the place.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let scenario: Self = serde_json::from_slice(text).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Error::invalid(place, error, "a scenario")
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The scenario as a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("no map with odd keys, no failing writer")
    }

    /// All partitions.
    pub fn partitions(&self) -> u64 {
        u64::from(self.jobs) * u64::from(self.partitions_per_job)
    }

    /// The time of a stage's copy at a rate, plus its fixed time.
    pub(super) fn duration(&self, stage: &Stage, pageable: bool) -> u64 {
        let rate = if pageable { self.pageable_bytes_per_s } else { self.pinned_bytes_per_s };
        let copy = (u128::from(stage.bytes) * 1_000_000_000).div_ceil(u128::from(rate));
        stage.ns.saturating_add(u64::try_from(copy).unwrap_or(u64::MAX))
    }

    /// The indices of stages, by name.
    pub(super) fn indices(&self, names: &[String]) -> Vec<usize> {
        let stages = self.stages.iter().enumerate();
        stages.filter(|(_, stage)| names.contains(&stage.name)).map(|(i, _)| i).collect()
    }

    /// All buffers of a partition, in the order of the stages.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &BufferSpec> {
        self.stages.iter().flat_map(|stage| &stage.alloc)
    }

    /// The bytes that a partition holds while each stage runs, if stages run one after another.
    pub(super) fn profile(&self) -> Vec<u64> {
        let mut held = 0;
        let size_of = |name: &String| {
            self.buffers().find(|buffer| buffer.name == *name).map_or(0, |buffer| buffer.bytes)
        };
        let during = |stage: &Stage| {
            held += stage.alloc.iter().map(|buffer| buffer.bytes).sum::<u64>();
            let now = held;
            held -= stage.free.iter().map(size_of).sum::<u64>();
            now
        };
        self.stages.iter().map(during).collect()
    }

    /// The most bytes that one partition holds at once.
    pub fn peak_bytes(&self) -> u64 {
        self.profile().into_iter().max().unwrap_or(0)
    }

    /// That every name resolves, every buffer is allocated once and freed once, and every figure is sane.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the place.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("jobs", u64::from(self.jobs)),
            ("partitions_per_job", u64::from(self.partitions_per_job)),
            ("workers", u64::from(self.workers)),
            ("jobs * partitions_per_job", self.partitions()),
        ];
        for (place, count) in counts {
            if !(1..=MOST_PARTITIONS).contains(&count) {
                return Err(Error::invalid(place, count, format!("1 to {MOST_PARTITIONS}")));
            }
        }
        for (place, rate) in [
            ("pinned_bytes_per_s", self.pinned_bytes_per_s),
            ("pageable_bytes_per_s", self.pageable_bytes_per_s),
        ] {
            if rate == 0 {
                return Err(Error::invalid(place, 0, "bytes a second"));
            }
        }
        for (place, bytes) in [
            ("card_bytes", self.card_bytes),
            ("staging_reserve_bytes", self.staging_reserve_bytes.unwrap_or(0)),
        ] {
            if bytes > MOST_BYTES {
                return Err(Error::invalid(place, bytes, format!("at most {MOST_BYTES} bytes")));
            }
        }
        if self.baseline_bytes > self.card_bytes {
            return Err(Error::invalid(
                "baseline_bytes",
                self.baseline_bytes,
                format!("at most the card's {} bytes", self.card_bytes),
            ));
        }
        if self.job_interval_ns > LONGEST_NS {
            return Err(Error::invalid("job_interval_ns", self.job_interval_ns, "at most an hour"));
        }
        if self.stages.len() > MOST_STAGES {
            let expected = format!("at most {MOST_STAGES} stages");
            return Err(Error::invalid("stages", self.stages.len(), expected));
        }
        if !self.stages.iter().any(|stage| stage.phase == Phase::Compute) {
            return Err(Error::invalid("stages", "no stage", "a stage of the phase compute"));
        }
        let mut live: Vec<(&str, u64)> = Vec::new();
        let mut buffers: Vec<&str> = Vec::new();
        for (i, stage) in self.stages.iter().enumerate() {
            let place = |field: &str| format!("stages[{i}] ({}).{field}", stage.name);
            let before = &self.stages[..i];
            if before.iter().any(|other| other.name == stage.name) {
                return Err(Error::invalid(place("name"), &stage.name, "a name of its own"));
            }
            if before.last().is_some_and(|other| other.phase > stage.phase) {
                return Err(Error::invalid(
                    place("phase"),
                    format!("{:?}", stage.phase).to_lowercase(),
                    "the order background, staging, compute, finish",
                ));
            }
            let host_only = matches!(stage.phase, Phase::Background | Phase::Finish);
            if host_only && stage.resource != Resource::Host {
                return Err(Error::invalid(place("resource"), "the card", "host in this phase"));
            }
            if stage.phase == Phase::Compute && stage.resource == Resource::Copy {
                return Err(Error::invalid(
                    place("resource"),
                    "copy",
                    "host or compute in this phase",
                ));
            }
            if stage.bytes > 0 && stage.resource != Resource::Copy {
                return Err(Error::invalid(
                    place("bytes"),
                    stage.bytes,
                    "0 where nothing is copied",
                ));
            }
            let slowest = self.duration(stage, false).max(self.duration(stage, true));
            if slowest > LONGEST_NS {
                return Err(Error::invalid(place("ns"), slowest, "at most an hour"));
            }
            if host_only && !(stage.alloc.is_empty() && stage.free.is_empty()) {
                return Err(Error::invalid(place("alloc"), "buffers", "none in this phase"));
            }
            for (j, name) in stage.after.iter().enumerate() {
                if !before.iter().any(|other| other.name == *name) {
                    return Err(Error::invalid(
                        place(&format!("after[{j}]")),
                        name,
                        "an earlier stage",
                    ));
                }
            }
            for (j, buffer) in stage.alloc.iter().enumerate() {
                if buffers.contains(&buffer.name.as_str()) {
                    return Err(Error::invalid(
                        place(&format!("alloc[{j}].name")),
                        &buffer.name,
                        "a name of its own",
                    ));
                }
                if buffer.bytes > MOST_BYTES || buffers.len() == MOST_BUFFERS {
                    return Err(Error::invalid(
                        place(&format!("alloc[{j}]")),
                        buffer.bytes,
                        format!("at most {MOST_BUFFERS} buffers of at most {MOST_BYTES} bytes"),
                    ));
                }
                buffers.push(&buffer.name);
                live.push((&buffer.name, buffer.bytes));
            }
            for (j, name) in stage.free.iter().enumerate() {
                let Some(index) = live.iter().position(|buffer| buffer.0 == name) else {
                    return Err(Error::invalid(
                        place(&format!("free[{j}]")),
                        name,
                        "a buffer that is there",
                    ));
                };
                if stage.phase == Phase::Staging {
                    return Err(Error::invalid(
                        place(&format!("free[{j}]")),
                        name,
                        "nothing to free while staging",
                    ));
                }
                live.remove(index);
            }
        }
        if let Some((name, _)) = live.first() {
            return Err(Error::invalid(
                "stages",
                format!("{name} is never freed"),
                "every buffer freed",
            ));
        }
        if let Some(name) = &self.prestaged_until
            && !self.stages.iter().any(|stage| stage.name == *name && stage.phase == Phase::Compute)
        {
            return Err(Error::invalid("prestaged_until", name, "a stage of the phase compute"));
        }
        Ok(())
    }
}
