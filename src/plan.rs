//! Plans: what one partition needs of a device, decided before the first byte is allocated.
//!
//! A pure function: from a [`Shape`] (counts of a key and an assignment), a device's answers ([`Queries`]) and
//! [`Options`] to the [`ladder`]: the plans worth having, fastest first, each slower one smaller. [`choose`] takes
//! the first that fits. A plan is five decisions:
//!
//! - which parts of the key stay on the device between partitions ([`Part`]; the rest is streamed);
//! - which of these have multiples beside them there ([`Raised`]), if enough partitions are expected to make up for raising;
//! - where the rows are evaluated and the transforms done ([`Quotient`]): two vectors on the device, or blocks of
//!   vectors that the host holds;
//! - whether the sums go over the whole witness or over chunks of it ([`Chunks`]), and in which order;
//! - whether the next partition may be let in while this one is summed ([`Plan::in_flight`]).
//!
//! Stages' bytes are exact: the prover allocates what [`Plan::items`] and [`Plan::stages`] say, in that order, and
//! tests compare its high water with [`Plan::peak`] to the byte.

mod picture;
mod presets;
mod shape;
mod sums;

use std::ops::Add;

use serde::Serialize;

use crate::backend::{Backend, DeviceInfo, Raised, Rates};
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

    /// Terms a second of a sum.
    fn terms(self, rates: &Rates) -> f64 {
        if self == Self::BG2 { rates.g2_terms } else { rates.g1_terms }
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
    /// Partitions that are expected under the key: what is done once for all of them is shared by as many.
    pub partitions: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_in_flight: 2, resident: true, host_bytes: u64::MAX, partitions: 1 }
    }
}

/// What a plan asks of a device; every [`Backend`] answers it. Allocates nothing.
pub trait Queries {
    /// The device.
    fn device(&self) -> &DeviceInfo;
    /// [`Backend::ntt_table_bytes`].
    fn table_bytes(&self, log_n: u32) -> u64;
    /// [`Backend::msm_scratch`] for `part`'s group, or [`Backend::raised_scratch`].
    fn scratch_bytes(&self, part: Part, raised: Option<Raised>, len: usize) -> u64;
    /// [`Backend::raised_for`] for `part`'s group.
    fn raised_for(&self, part: Part, points: usize) -> Option<Raised>;
}

impl<B: Backend> Queries for B {
    fn device(&self) -> &DeviceInfo {
        self.info()
    }

    fn table_bytes(&self, log_n: u32) -> u64 {
        self.ntt_table_bytes(log_n)
    }

    fn scratch_bytes(&self, part: Part, raised: Option<Raised>, len: usize) -> u64 {
        // The prover takes scratch in whole words.
        match (part, raised) {
            (Part::BG2, None) => self.msm_scratch::<Fp2>(len),
            (Part::BG2, Some(raised)) => self.raised_scratch::<Fp2>(raised, len),
            (_, None) => self.msm_scratch::<Fp>(len),
            (_, Some(raised)) => self.raised_scratch::<Fp>(raised, len),
        }
        .next_multiple_of(8)
    }

    fn raised_for(&self, part: Part, points: usize) -> Option<Raised> {
        match part {
            Part::BG2 => Backend::raised_for::<Fp2>(self, points),
            _ => Backend::raised_for::<Fp>(self, points),
        }
    }
}

/// One stage of a partition: its most bytes at once, and its transfers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stage {
    /// "quotient", "H sum" (with those over the witness that take turns with it), "sums over the witness".
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
    /// Those of them that have multiples beside them, as many as [`Queries::raised_for`] says.
    pub raised: Vec<Part>,
    /// The bytes of what stays.
    pub resident_bytes: u64,
    /// Where rows are evaluated and transforms done.
    pub quotient: Quotient,
    /// How the sums are cut.
    pub chunks: Chunks,
    /// Whether H's sums take turns with those over the witness, so that copies for these hide behind those.
    pub turns: bool,
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
    /// The part of them that is its share of raising.
    pub raising_seconds: f64,
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
        let names = |parts: &[Part]| {
            let names: Vec<_> = parts.iter().map(|part| part.name()).collect();
            names.join(", ")
        };
        let key = match (&self.resident[..], &self.raised[..]) {
            ([], _) => "streamed key".to_owned(),
            (resident, []) => format!("resident {}", names(resident)),
            (resident, raised) => {
                format!("resident {}, with multiples of {}", names(resident), names(raised))
            }
        };
        let quotient = match self.quotient {
            Quotient::Matrices => "two vectors, rows from the matrices".to_owned(),
            Quotient::PackedRows => "two vectors, packed rows".to_owned(),
            Quotient::HostRows => "two vectors, rows from the host".to_owned(),
            Quotient::OutOfCore { log_block } => format!("transforms in blocks of 2^{log_block}"),
        };
        let turns = if self.turns { ", H in turns with the others" } else { "" };
        let flight = if self.in_flight > 1 { "two in flight" } else { "one in flight" };
        format!("{key}; {quotient}; {}{turns}; {flight}", self.chunks)
    }
}

/// All plans, in no order.
pub fn candidates(shape: &Shape, device: &dyn Queries, options: &Options) -> Vec<Plan> {
    let mut plans = Vec::new();
    for stays in stays(shape, device, options) {
        let quotients = quotients(shape, &stays.resident);
        let orders = Chunks::of(shape).into_iter().flat_map(|chunks| {
            let turns: &[bool] = if chunks == Chunks::Whole { &[false] } else { &[false, true] };
            turns.iter().map(move |turns| (chunks, *turns))
        });
        for (chunks, turns) in orders {
            let Some(sums) = sums::Sums::new(shape, device, &stays, chunks, turns) else {
                continue;
            };
            for &quotient in &quotients {
                let plan = plan(shape, device, &stays, quotient, &sums);
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

/// What of a key stays on the device.
struct Stays {
    /// Parts, in order.
    resident: Vec<Part>,
    /// Those of them that are raised, in order.
    raised: Vec<Part>,
    /// A partition's share of the seconds that raising takes.
    raising_seconds: f64,
}

/// What may stay: nothing, or the first parts in order; or all of them, and multiples of the first queries. Where the device's
/// memory is the host's, nothing need stay.
fn stays(shape: &Shape, device: &dyn Queries, options: &Options) -> Vec<Stays> {
    let parts: Vec<Part> =
        Part::ALL.into_iter().filter(|part| shape.part_bytes(*part) > 0).collect();
    if !options.resident || device.device().unified {
        return vec![Stays { resident: Vec::new(), raised: Vec::new(), raising_seconds: 0.0 }];
    }
    let plain = (0..=parts.len()).map(|count| (parts[..count].to_vec(), Vec::new()));
    let rates = &device.device().rates;
    let each = rates.raise_sums / options.partitions as f64;
    let share = |part: &Part| {
        each * (shape.points(*part) as f64 / part.terms(rates) + rates.seconds_per_sum)
    };
    // Sums of wide scalars make up for it, if any.
    let pays = each < 1.0 - rates.raised_share;
    let raisable = parts.iter().filter(|part| pays && may_be_raised(shape, device, **part));
    let raisable: Vec<Part> = raisable.copied().collect();
    let raised = (1..=raisable.len()).map(|count| (parts.clone(), raisable[..count].to_vec()));
    let stays = plain.chain(raised).map(|(resident, raised)| {
        let raising_seconds = raised.iter().map(share).fold(0.0, f64::add);
        Stays { resident, raised, raising_seconds }
    });
    stays.collect()
}

/// Whether the device has use for a query's multiples, and takes a buffer of them.
fn may_be_raised(shape: &Shape, device: &dyn Queries, part: Part) -> bool {
    let points = shape.points(part);
    let raised = if points > 0 { device.raised_for(part, points) } else { None };
    raised.is_some_and(|raised| {
        let bytes = part.point_bytes() * (points * raised.windows()) as u64;
        bytes <= device.device().max_buffer_bytes
    })
}

/// Bytes of what stays.
fn resident_bytes(shape: &Shape, device: &dyn Queries, stays: &Stays) -> u64 {
    let copies = |part: &Part| {
        let points = shape.points(*part);
        let windows = device.raised_for(*part, points).map_or(1, Raised::windows);
        part.point_bytes() * (points * (windows - 1)) as u64
    };
    let plain = stays.resident.iter().map(|part| shape.part_bytes(*part));
    plain.chain(stays.raised.iter().map(copies)).sum()
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
    stays: &Stays,
    quotient: Quotient,
    sums: &sums::Sums,
) -> Option<Plan> {
    let rates = &device.device().rates;
    let n = 1u64 << shape.log_n;
    let vector = n * Fr::BYTES as u64;
    let table = device.table_bytes(shape.log_n);
    let matrices = if stays.resident.contains(&Part::Matrices) { 0 } else { shape.rows.bytes() };
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
    let ([h, w], seconds_of_sums) = sums.stages(shape, rates, out_of_core, kept)?;
    let stages = [first, h, w];
    // Transforms need all that is copied for them.
    let Stays { resident, raised, raising_seconds } = stays;
    let seconds = first.copy_seconds + first.kernel_seconds + seconds_of_sums + raising_seconds;
    Some(Plan {
        resident: resident.clone(),
        raised: raised.clone(),
        resident_bytes: resident_bytes(shape, device, stays),
        quotient,
        chunks: sums.chunks(),
        turns: sums.turns(),
        scratch: sums.scratch(),
        in_flight: 1,
        stages,
        host_bytes,
        seconds,
        raising_seconds: *raising_seconds,
    })
}

impl Plan {
    /// The same plan with two partitions in flight: copies of one hide behind the other's kernels.
    fn overlapped(&self) -> Self {
        let total = |of: fn(&Stage) -> f64| self.stages.iter().map(of).sum::<f64>();
        let seconds = total(|stage| stage.kernel_seconds).max(total(|stage| stage.copy_seconds));
        Self { in_flight: 2, seconds: seconds + self.raising_seconds, ..self.clone() }
    }

    /// The same decisions for another task of the same key; `None` if they do not go with it. Much quicker than to
    /// choose again.
    pub fn refit(&self, shape: &Shape, device: &dyn Queries) -> Option<Self> {
        let stays = Stays {
            resident: self.resident.clone(),
            raised: self.raised.clone(),
            raising_seconds: self.raising_seconds,
        };
        let sums = sums::Sums::new(shape, device, &stays, self.chunks, self.turns)?;
        let one = plan(shape, device, &stays, self.quotient, &sums)?;
        Some(if self.in_flight > 1 { one.overlapped() } else { one })
    }

    /// The sums of a partition's last two stages, in the order in which the prover does them. `rates` are those of the device
    /// that the plan is for.
    pub fn items(&self, shape: &Shape, rates: &Rates) -> [Vec<Item>; 2] {
        let stays = [&self.resident[..], &self.raised[..]];
        sums::items(shape, rates, stays, self.chunks, self.turns)
    }
}
