//! Plans: what one partition needs of a device, decided before the first byte is allocated.
//!
//! A pure function: from a [`Shape`] (counts of a key and an assignment), a device's answers ([`Queries`]) and
//! [`Options`] to the [`ladder`]: the plans worth having, fastest first, each slower one smaller. [`choose`] takes
//! the first that fits. A plan is four decisions:
//!
//! - which parts of the key stay on the device between partitions ([`Part`]; the rest is streamed);
//! - where the rows are evaluated and the transforms done ([`Quotient`]): two vectors on the device, or blocks of
//!   vectors that the host holds;
//! - whether the sums go over the whole witness or over chunks of it ([`Chunks`]);
//! - whether the next partition may be let in while this one is summed ([`Plan::in_flight`]).
//!
//! Stages' bytes are exact: the prover allocates what [`Plan::items`] and [`Plan::stages`] say, in that order, and
//! tests compare its high water with [`Plan::peak`] to the byte.

mod picture;
mod presets;
mod shape;
mod sums;

use serde::Serialize;

use crate::backend::{Backend, DeviceInfo, Rates};
use crate::field::{Fp, Fp2, Fr};
use crate::{Error, Result};

pub use picture::to_timeline;
pub use shape::{Packed, QueryShape, Ranks, RowsShape, Shape};
pub use sums::{Chunks, Item};

/// The parts of a key that may stay on a device, in the order in which they are given room: those that the next
/// partition needs first come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The matrices A and B.
    Matrices,
    /// The H query.
    H,
    /// The L query and its density.
    L,
    /// The A query and its density.
    A,
    /// The B query in G1 and its density.
    BG1,
    /// The B query in G2 and its density.
    BG2,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Self; 6] = [Self::Matrices, Self::H, Self::L, Self::A, Self::BG1, Self::BG2];
    /// The queries that are summed with the witness, in order.
    pub const QUERIES: [Self; 4] = [Self::L, Self::A, Self::BG1, Self::BG2];

    /// The name in the paper's words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matrices => "matrices",
            Self::H => "H",
            Self::L => "L",
            Self::A => "A",
            Self::BG1 => "B in G1",
            Self::BG2 => "B in G2",
        }
    }

    /// Bytes of one point.
    fn point_bytes(self) -> u64 {
        if self == Self::BG2 { 192 } else { 96 }
    }
}

/// Where rows are evaluated and transforms done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quotient {
    /// Two vectors on the device; rows from the matrices and the witness, both there.
    Matrices,
    /// Two vectors on the device; rows staged packed and expanded there.
    PackedRows,
    /// Two vectors on the device; rows evaluated by the host and uploaded plain, three vectors in all.
    HostRows,
    /// Vectors on the host; the device transforms blocks of 2^log_block elements, two at a time, and the host
    /// joins them.
    OutOfCore {
        /// The log2 of a block's elements.
        log_block: u32,
    },
}

/// What a plan must keep to.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// At most so many partitions on the device at once, 1 or 2.
    pub max_in_flight: u32,
    /// Whether parts of the key may stay on the device.
    pub resident: bool,
    /// Host memory that a plan may take for vectors.
    pub host_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_in_flight: 2, resident: true, host_bytes: u64::MAX }
    }
}

/// What a plan asks of a device; every [`Backend`] answers it. Allocates nothing.
pub trait Queries {
    /// The device.
    fn device(&self) -> &DeviceInfo;
    /// [`Backend::ntt_table_bytes`].
    fn table_bytes(&self, log_n: u32) -> u64;
    /// [`Backend::msm_scratch`] for `part`'s group.
    fn scratch_bytes(&self, part: Part, len: usize) -> u64;
}

impl<B: Backend> Queries for B {
    fn device(&self) -> &DeviceInfo {
        self.info()
    }

    fn table_bytes(&self, log_n: u32) -> u64 {
        self.ntt_table_bytes(log_n)
    }

    fn scratch_bytes(&self, part: Part, len: usize) -> u64 {
        // The prover takes scratch in whole words.
        match part {
            Part::BG2 => self.msm_scratch::<Fp2>(len),
            _ => self.msm_scratch::<Fp>(len),
        }
        .next_multiple_of(8)
    }
}

/// One stage of a partition: its most bytes at once, and its transfers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stage {
    /// "quotient", "H sum", "sums over the witness".
    pub name: &'static str,
    /// The most bytes of the lease that are in use at once.
    pub bytes: u64,
    /// Bytes from the host.
    pub upload: u64,
    /// Bytes to the host.
    pub download: u64,
    /// Seconds of copies, by the device's [`Rates`].
    pub copy_seconds: f64,
    /// Seconds of kernels.
    pub kernel_seconds: f64,
}

impl Stage {
    fn new(name: &'static str, bytes: u64, [upload, download]: [u64; 2], rates: &Rates) -> Self {
        let copy_seconds = upload as f64 / rates.upload + download as f64 / rates.download;
        Self { name, bytes, upload, download, copy_seconds, kernel_seconds: 0.0 }
    }
}

/// How one partition runs on a device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plan {
    /// The parts of the key that stay on the device.
    pub resident: Vec<Part>,
    /// Their bytes.
    pub resident_bytes: u64,
    /// Where rows are evaluated and transforms done.
    pub quotient: Quotient,
    /// How the sums are cut.
    pub chunks: Chunks,
    /// Bytes of scratch for the H sum and for the sums over the witness.
    pub scratch: [u64; 2],
    /// Partitions that the capacity admits at once: with 2, the next one's transforms run beside this one's sums.
    pub in_flight: u32,
    /// The stages in order: quotient, H sum, sums over the witness.
    pub stages: [Stage; 3],
    /// Bytes of host memory beside key and assignment.
    pub host_bytes: u64,
    /// Expected seconds a partition, once the pipeline is full.
    pub seconds: f64,
}

impl Plan {
    /// The most bytes of a partition's lease at once.
    pub fn peak(&self) -> u64 {
        self.bytes_from(0)
    }

    /// The bytes that the stages from the one at `index` need.
    pub fn bytes_from(&self, index: usize) -> u64 {
        self.stages[index..].iter().map(|stage| stage.bytes).max().unwrap_or_default()
    }

    /// The amounts in which a partition's lease comes back, one after each stage; they sum to the peak.
    pub fn releases(&self) -> [u64; 3] {
        let [all, sums, last] = [0, 1, 2].map(|index| self.bytes_from(index));
        [all - sums, sums - last, last]
    }

    /// The capacity that the plan needs: what stays, and the partitions in flight.
    pub fn needs(&self) -> u64 {
        let beside = if self.in_flight > 1 { self.bytes_from(1) } else { 0 };
        self.resident_bytes + self.peak() + beside
    }

    /// Bytes between host and device for each partition, both ways.
    pub fn transfers(&self) -> u64 {
        self.stages.iter().map(|stage| stage.upload + stage.download).sum()
    }

    /// Whether `part` stays on the device.
    pub fn is_resident(&self, part: Part) -> bool {
        self.resident.contains(&part)
    }

    /// The plan in one line.
    pub fn summary(&self) -> String {
        let key = match self.resident.len() {
            0 => "streamed key".to_owned(),
            _ => {
                let names: Vec<_> = self.resident.iter().map(|part| part.name()).collect();
                format!("resident {}", names.join(", "))
            }
        };
        let quotient = match self.quotient {
            Quotient::Matrices => "two vectors, rows from the matrices".to_owned(),
            Quotient::PackedRows => "two vectors, packed rows".to_owned(),
            Quotient::HostRows => "two vectors, rows from the host".to_owned(),
            Quotient::OutOfCore { log_block } => format!("transforms in blocks of 2^{log_block}"),
        };
        let flight = if self.in_flight > 1 { "two in flight" } else { "one in flight" };
        format!("{key}; {quotient}; {}; {flight}", self.chunks)
    }
}

/// All plans, in no order.
pub fn candidates(shape: &Shape, device: &dyn Queries, options: &Options) -> Vec<Plan> {
    let mut plans = Vec::new();
    for resident in residencies(shape, device, options) {
        let quotients = quotients(shape, &resident);
        for chunks in Chunks::of(shape) {
            let on_device = sums::Sums::new(shape, device, &resident, chunks);
            for &quotient in &quotients {
                let plan = plan(shape, device, &resident, quotient, &on_device);
                if let Some(plan) = plan.filter(|plan| plan.host_bytes <= options.host_bytes) {
                    let overlapped = (options.max_in_flight > 1).then(|| plan.overlapped());
                    plans.extend([plan].into_iter().chain(overlapped));
                }
            }
        }
    }
    plans
}

/// The plans worth having, fastest first: each needs less than every faster one. The last is the smallest there is.
pub fn ladder(shape: &Shape, device: &dyn Queries, options: &Options) -> Vec<Plan> {
    let mut plans = candidates(shape, device, options);
    // Among equally fast ones the one that moves less, then the smaller.
    let figures = |plan: &Plan| (plan.transfers(), plan.needs());
    plans.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(figures(a).cmp(&figures(b))));
    let mut least = u64::MAX;
    plans.retain(|plan| {
        let smaller = plan.needs() < least;
        least = least.min(plan.needs());
        smaller
    });
    plans
}

/// The fastest plan that fits into `capacity` bytes.
///
/// # Errors
/// [`Error::NeverFits`] with the bytes of the smallest plan.
pub fn choose(
    shape: &Shape,
    device: &dyn Queries,
    capacity: u64,
    options: &Options,
) -> Result<Plan> {
    let plans = ladder(shape, device, options);
    let smallest = plans.last().map_or(0, Plan::needs);
    plans.into_iter().find(|plan| plan.needs() <= capacity).ok_or_else(|| Error::NeverFits {
        label: format!("the smallest plan for a domain of 2^{}", shape.log_n),
        need: smallest,
        capacity,
    })
}

/// What may stay: nothing, or the first parts in order. Where the device's memory is the host's, nothing need stay.
fn residencies(shape: &Shape, device: &dyn Queries, options: &Options) -> Vec<Vec<Part>> {
    let parts: Vec<Part> =
        Part::ALL.into_iter().filter(|part| shape.part_bytes(*part) > 0).collect();
    let most = if options.resident && !device.device().unified { parts.len() } else { 0 };
    (0..=most).map(|count| parts[..count].to_vec()).collect()
}

fn quotients(shape: &Shape, resident: &[Part]) -> Vec<Quotient> {
    let (fewest, most) = (shape.log_n.saturating_sub(6).max(1), shape.log_n - 1);
    let blocks = (fewest..=most).map(|log_block| Quotient::OutOfCore { log_block });
    let whole = match shape.rows {
        RowsShape::Packed { .. } => vec![Quotient::PackedRows],
        RowsShape::Matrices { .. } if resident.contains(&Part::Matrices) => {
            return vec![Quotient::Matrices];
        }
        RowsShape::Matrices { .. } => vec![Quotient::Matrices, Quotient::HostRows],
    };
    whole.into_iter().chain(blocks).collect()
}

/// Butterflies a second of the host that joins blocks, on few cores: only an estimate.
const HOST_BUTTERFLIES: f64 = 50e6;

/// One partition in flight; `None` if a buffer is larger than the device takes.
fn plan(
    shape: &Shape,
    device: &dyn Queries,
    resident: &[Part],
    quotient: Quotient,
    sums: &sums::Sums,
) -> Option<Plan> {
    let rates = &device.device().rates;
    let n = 1u64 << shape.log_n;
    let vector = n * Fr::BYTES as u64;
    let table = device.table_bytes(shape.log_n);
    let matrices = if resident.contains(&Part::Matrices) { 0 } else { shape.rows.bytes() };
    let (witness, packed) = (shape.witness_bytes(), shape.packed.bytes());
    let butterflies = |log_n: u32| 3.0 * n as f64 * f64::from(log_n);
    let mut host_bytes = 0;
    let mut kernel_seconds = butterflies(shape.log_n) / rates.butterflies;
    let (bytes, largest, upload, download) = match quotient {
        Quotient::Matrices => {
            let bytes = witness + packed.max(matrices + table + 2 * vector);
            (bytes, vector.max(witness), packed + matrices, 0)
        }
        Quotient::PackedRows => {
            (shape.rows.bytes() + table + 2 * vector, vector, shape.rows.bytes(), 0)
        }
        Quotient::HostRows => {
            host_bytes = 2 * vector;
            (table + 2 * vector, vector, 3 * vector, 0)
        }
        Quotient::OutOfCore { log_block } => {
            host_bytes = 2 * vector;
            let block = Fr::BYTES as u64 * (1 << log_block);
            kernel_seconds = butterflies(log_block) / rates.butterflies
                + butterflies(shape.log_n - log_block) / HOST_BUTTERFLIES;
            (device.table_bytes(log_block) + 2 * block, block, 6 * vector, 6 * vector)
        }
    };
    let out_of_core = matches!(quotient, Quotient::OutOfCore { .. });
    if largest.max(sums.largest(out_of_core)) > device.device().max_buffer_bytes {
        return None;
    }
    let first =
        Stage { kernel_seconds, ..Stage::new("quotient", bytes, [upload, download], rates) };
    // The witness that the matrices needed is kept for the sums.
    let kept = quotient == Quotient::Matrices;
    let [h, w] = sums.stages(shape, rates, out_of_core, kept)?;
    let stages = [first, h, w];
    // Sums start with the first points; transforms need all that is copied for them.
    let of_sums = |stage: &Stage| stage.kernel_seconds.max(stage.copy_seconds);
    let seconds = first.copy_seconds + first.kernel_seconds + of_sums(&h) + of_sums(&w);
    Some(Plan {
        resident: resident.to_vec(),
        resident_bytes: resident.iter().map(|part| shape.part_bytes(*part)).sum(),
        quotient,
        chunks: sums.chunks(),
        scratch: sums.scratch(),
        in_flight: 1,
        stages,
        host_bytes,
        seconds,
    })
}

impl Plan {
    /// The same plan with two partitions in flight: copies of one hide behind the other's kernels.
    fn overlapped(&self) -> Self {
        let total = |of: fn(&Stage) -> f64| self.stages.iter().map(of).sum::<f64>();
        let seconds = total(|stage| stage.kernel_seconds).max(total(|stage| stage.copy_seconds));
        Self { in_flight: 2, seconds, ..self.clone() }
    }

    /// The same decisions for another task of the same key; `None` if they do not go with it. Much quicker than to
    /// choose again.
    pub fn refit(&self, shape: &Shape, device: &dyn Queries) -> Option<Self> {
        let sums = sums::Sums::new(shape, device, &self.resident, self.chunks);
        let one = plan(shape, device, &self.resident, self.quotient, &sums)?;
        Some(if self.in_flight > 1 { one.overlapped() } else { one })
    }

    /// The sums of a partition, in the order in which the prover does them.
    pub fn items(&self, shape: &Shape) -> Vec<Item> {
        sums::items(shape, &self.resident, self.chunks)
    }
}
