//! A task on a device: the quotient, then one sum after the other. The next sum's points are brought on a copy stream while
//! the last one is computed, and stand in memory beside the last one's: what a plan counts.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::backend::{Backend, DeviceCompact, Msm, Output, Pending};
use crate::budget::Lease;
use crate::curve::{Affine, Coordinate, Point};
use crate::field::{Fp, Fp2, Fr};
use crate::format::Progress;
use crate::key::{Density, Query};
use crate::plan::{Chunks, Item, Part, Plan};
use crate::{Error, Result};

use super::quotient::AfterQuotient;
use super::resident::DeviceQuery;
use super::{DeviceKey, Sums, Task};

/// Sums that the device may still have to do when the next is queued: one that runs, one behind it.
const PENDING_SUMS: usize = 2;

/// One task on one device.
pub(super) struct Work<'a, B: Backend> {
    pub(super) task: &'a Task<'a>,
    pub(super) backend: &'a B,
    pub(super) plan: &'a Plan,
    pub(super) resident: Option<&'a DeviceKey<B>>,
    pub(super) lease: &'a Lease,
    pub(super) progress: &'a dyn Progress,
    pub(super) copy: B::Stream,
    pub(super) compute: B::Stream,
}

/// Where the scalars of some sums are.
pub(super) enum Scalars<B: Backend> {
    /// All of them on the device.
    Device(B::Buffer<Fr>),
    /// On the host, from where those of each item are brought.
    Host(zeroize::Zeroizing<Vec<Fr>>),
    /// The packed witness.
    Packed,
}

impl<B: Backend> Work<'_, B> {
    pub(super) fn run(&self) -> Result<Sums> {
        let items = self.plan.items(&self.task.shape);
        let (of_h, of_w): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.part == Part::H);
        // Steps are additions in G1, about; the quotient is an eighth of H's sum.
        let n = 1 << self.task.shape.log_n;
        let steps = of_h.iter().chain(&of_w).map(steps).sum::<u64>();
        self.progress.begin("proving", n / 8 + steps);

        self.enter("quotient")?;
        let AfterQuotient { h, witness } = self.quotient()?;
        self.progress.advance(n / 8);

        self.lease.shrink(self.plan.bytes_from(1));
        self.enter("H sum")?;
        let mut running = Running::new(self.progress);
        let [scratch_h, scratch_w] = self.plan.scratch;
        self.sum_all(&of_h, h, scratch_h, &mut running)?;

        self.lease.shrink(self.plan.bytes_from(2));
        self.enter("sums over the witness")?;
        let witness = match (witness, self.plan.chunks) {
            (Some(witness), _) => Scalars::Device(witness),
            (None, Chunks::Witness { .. }) => Scalars::Packed,
            (None, _) => Scalars::Device(self.witness(0..self.task.shape.variables)?),
        };
        self.sum_all(&of_w, witness, scratch_w, &mut running)?;
        running.finish()
    }

    /// Says which stage begins, unless the work is to end.
    fn enter(&self, stage: &'static str) -> Result<()> {
        self.progress.check()?;
        tracing::debug!("{stage}");
        self.progress.stage(stage);
        Ok(())
    }

    /// Queues the sums of `items`, in order, all in the same scratch.
    fn sum_all(
        &self,
        items: &[Item],
        scalars: Scalars<B>,
        scratch_bytes: u64,
        running: &mut Running<'_, B>,
    ) -> Result<()> {
        let scratch_words = scratch_bytes.div_ceil(8) as usize;
        let mut scratch = self.backend.alloc(self.lease, "MSM scratch", scratch_words)?;
        let mut loaded: Option<(Range<usize>, B::Buffer<Fr>)> = None;
        let mut held = None;
        for item in items {
            self.progress.check()?;
            let is_there = loaded.as_ref().is_some_and(|(range, _)| *range == item.loaded);
            let part = match &scalars {
                Scalars::Device(_) => None,
                _ if is_there => None,
                Scalars::Host(values) => Some(self.upload(&values[item.loaded.clone()])?),
                Scalars::Packed => Some(self.witness(item.loaded.clone())?),
            };
            // What is there stays until this sum's points are brought too.
            let old = part.and_then(|part| loaded.replace((item.loaded.clone(), part)));
            let (values, at) = match (&scalars, &loaded) {
                (Scalars::Device(values), _) => (values, 0),
                (_, Some((range, values))) => (values, range.start),
                (_, None) => unreachable!("brought above"),
            };
            let (brought, sum) = match item.part {
                Part::BG2 => {
                    let (brought, sum) = self.sum(item, self.b_g2(), (values, at), &mut scratch)?;
                    (Brought::G2(brought), Sum::G2(sum))
                }
                _ => {
                    let (brought, sum) =
                        self.sum(item, self.in_g1(item.part), (values, at), &mut scratch)?;
                    (Brought::G1(brought), Sum::G1(sum))
                }
            };
            drop(old);
            held = Some(brought);
            running.add(item, sum)?;
        }
        drop(held);
        Ok(())
    }

    /// Queues one sum over `scalars`, whose first is number `at`. Returns what was brought for it, too.
    #[allow(clippy::type_complexity, reason = "two results, named where they are used")]
    fn sum<F: Coordinate>(
        &self,
        item: &Item,
        query: QueryOn<'_, B, F>,
        (scalars, at): (&B::Buffer<Fr>, usize),
        scratch: &mut B::Buffer<u64>,
    ) -> Result<(BroughtQuery<B, F>, B::Pending<Point<F>>)> {
        let Self { backend, lease, copy, compute, .. } = self;
        let members = item.scalars.start - query.first..item.scalars.end - query.first;
        let bases = match item.resident {
            true => None,
            false => {
                let slice = Slice { all: query.points.clone(), range: item.bases.clone() };
                Some(backend.adopt(copy, lease, query.label, Arc::new(slice))?)
            }
        };
        let density = match query.density {
            // One that stays on the device is of all its variables.
            Some(density) if !(item.dense || item.resident && members.len() == density.len) => {
                let words = density.slice(members).words;
                Some(backend.adopt(copy, lease, "density", words)?)
            }
            _ => None,
        };
        backend.join(compute, copy)?;
        let there = query.resident;
        let on_device = bases.as_ref().or(there.map(|query| &query.points));
        let msm = Msm {
            bases: on_device.ok_or_else(|| {
                Error::Usage(format!("the plan wants the {} on the device", query.label))
            })?,
            base_range: if bases.is_some() { 0..item.bases.len() } else { item.bases.clone() },
            scalars,
            range: item.scalars.start - at..item.scalars.end - at,
            density: match item.dense {
                true => None,
                false => density.as_ref().or(there.and_then(|query| query.density.as_ref())),
            },
        };
        let sum = backend.msm::<F>(compute, msm, scratch)?;
        Ok((BroughtQuery { _bases: bases, _density: density }, sum))
    }

    fn in_g1(&self, part: Part) -> QueryOn<'_, B, Fp> {
        let (Task { key, densities, shape, .. }, resident) = (self.task, self.resident);
        let query = |label, query: &'_ Query<Fp>, density, resident, first| QueryOn {
            label,
            points: query.points.clone(),
            density: Some(density),
            resident,
            first,
        };
        match part {
            Part::L => {
                let there = resident.and_then(|key| key.l.as_ref());
                query("L query", &key.l, &densities.l, there, shape.inputs)
            }
            Part::A => {
                let there = resident.and_then(|key| key.a.as_ref());
                query("A query", &key.a, &densities.a, there, 0)
            }
            Part::BG1 => {
                let there = resident.and_then(|key| key.b_g1.as_ref());
                query("B query in G1", &key.b_g1, &densities.b_g1, there, 0)
            }
            _ => QueryOn {
                label: "H query",
                points: key.h.clone(),
                density: None,
                resident: resident.and_then(|key| key.h.as_ref()),
                first: 0,
            },
        }
    }

    fn b_g2(&self) -> QueryOn<'_, B, Fp2> {
        let (Task { key, densities, .. }, resident) = (self.task, self.resident);
        QueryOn {
            label: "B query in G2",
            points: key.b_g2.points.clone(),
            density: Some(&densities.b_g2),
            resident: resident.and_then(|key| key.b_g2.as_ref()),
            first: 0,
        }
    }

    /// The plain elements of `range` of the witness, by way of their packed form.
    pub(super) fn witness(&self, range: Range<usize>) -> Result<B::Buffer<Fr>> {
        let Self { backend, lease, .. } = self;
        let values = &self.task.assignment.values;
        let mut plain = backend.alloc::<Fr>(lease, "witness", range.len())?;
        let part = match range.len() == values.len() {
            true => values.clone(),
            false => Arc::new(values.slice(range)),
        };
        let packed = DeviceCompact::adopt(*backend, &self.copy, lease, "packed witness", &part)?;
        backend.join(&self.compute, &self.copy)?;
        backend.expand(&self.compute, packed.packed(), Output::Set, &mut plain)?;
        Ok(plain)
    }

    /// Part of the quotient, from the host.
    fn upload(&self, values: &[Fr]) -> Result<B::Buffer<Fr>> {
        let mut part = self.backend.alloc(self.lease, "part of h", values.len())?;
        self.backend.upload(&self.copy, values, &mut part, 0)?;
        Ok(part)
    }
}

/// A query on the host, and what of it stays on the device.
struct QueryOn<'a, B: Backend, F: Coordinate> {
    label: &'static str,
    points: Arc<Vec<Affine<F>>>,
    /// Which variables have a point; `None` if all have.
    density: Option<&'a Density>,
    resident: Option<&'a DeviceQuery<B, F>>,
    /// The variable that the density's first bit stands for.
    first: usize,
}

/// What stands on the device for one sum.
struct BroughtQuery<B: Backend, F: Coordinate> {
    _bases: Option<B::Buffer<Affine<F>>>,
    _density: Option<B::Buffer<u64>>,
}

enum Brought<B: Backend> {
    G1(BroughtQuery<B, Fp>),
    G2(BroughtQuery<B, Fp2>),
}

/// A sum that may still run.
enum Sum<B: Backend> {
    G1(B::Pending<Point<Fp>>),
    G2(B::Pending<Point<Fp2>>),
}

/// Sums that may still run, and the totals of those that are done.
struct Running<'a, B: Backend> {
    progress: &'a dyn Progress,
    pending: VecDeque<(Part, u64, Sum<B>)>,
    sums: Sums,
}

impl<'a, B: Backend> Running<'a, B> {
    fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, pending: VecDeque::new(), sums: Sums::ZERO }
    }

    fn add(&mut self, item: &Item, sum: Sum<B>) -> Result<()> {
        self.pending.push_back((item.part, steps(item), sum));
        while self.pending.len() > PENDING_SUMS {
            self.finish_one()?;
        }
        Ok(())
    }

    fn finish_one(&mut self) -> Result<()> {
        let Some((part, steps, sum)) = self.pending.pop_front() else { return Ok(()) };
        let Sums { h, l, a, b_g1, b_g2 } = &mut self.sums;
        match sum {
            Sum::G2(sum) => *b_g2 = *b_g2 + sum.wait()?,
            Sum::G1(sum) => {
                let total = match part {
                    Part::L => l,
                    Part::A => a,
                    Part::BG1 => b_g1,
                    _ => h,
                };
                *total = *total + sum.wait()?;
            }
        }
        self.progress.advance(steps);
        Ok(())
    }

    fn finish(mut self) -> Result<Sums> {
        while !self.pending.is_empty() {
            self.finish_one()?;
        }
        Ok(self.sums)
    }
}

/// Additions in G1 that a sum is worth, about.
fn steps(item: &Item) -> u64 {
    item.bases.len() as u64 * if item.part == Part::BG2 { 3 } else { 1 }
}

/// A part of shared points.
struct Slice<F> {
    all: Arc<Vec<Affine<F>>>,
    range: Range<usize>,
}

impl<F: Coordinate> AsRef<[Affine<F>]> for Slice<F> {
    fn as_ref(&self) -> &[Affine<F>] {
        &self.all[self.range.clone()]
    }
}
