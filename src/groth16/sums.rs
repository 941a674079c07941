//! A task on a device: the quotient, then one sum after the other. The next sum's points are brought on a copy stream while
//! the last one is computed, and stand in memory beside the last one's: what a plan counts.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::array::Array;
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

/// Some scalars, and what of them was brought.
struct Source<B: Backend> {
    scalars: Scalars<B>,
    loaded: Option<(Range<usize>, B::Buffer<Fr>)>,
}

impl<B: Backend> Source<B> {
    fn new(scalars: Scalars<B>) -> Self {
        Self { scalars, loaded: None }
    }

    /// A buffer with the scalars of an item, and the number of its first.
    fn there(&self) -> (&B::Buffer<Fr>, usize) {
        match (&self.scalars, &self.loaded) {
            (Scalars::Device(values), _) => (values, 0),
            (_, Some((range, values))) => (values, range.start),
            (_, None) => unreachable!("brought before"),
        }
    }
}

impl<B: Backend> Work<'_, B> {
    pub(super) fn run(&self) -> Result<Sums> {
        let [first, second] = self.plan.items(&self.task.shape, &self.backend.info().rates);
        // Steps are additions in G1, about; the quotient is an eighth of H's sum.
        let n = 1 << self.task.shape.log_n;
        let steps = first.iter().chain(&second).map(steps).sum::<u64>();
        self.progress.begin("proving", n / 8 + steps);

        self.enter("quotient")?;
        let AfterQuotient { h, witness } = self.quotient()?;
        self.progress.advance(n / 8);

        self.lease.shrink(self.plan.bytes_from(1));
        self.enter("H sum")?;
        let mut running = Running::new(self.progress);
        let [scratch_of_first, scratch_of_second] = self.plan.scratch;
        let mut witness = witness.map(|witness| Source::new(Scalars::Device(witness)));
        if self.plan.turns && witness.is_none() {
            witness = Some(self.witness_source()?);
        }
        let mut h = Source::new(h);
        self.sum_all(&first, [Some(&mut h), witness.as_mut()], scratch_of_first, &mut running)?;
        drop(h);

        self.lease.shrink(self.plan.bytes_from(2));
        self.enter("sums over the witness")?;
        if !second.is_empty() {
            let mut witness = match witness {
                Some(witness) => witness,
                None => self.witness_source()?,
            };
            let sources = [None, Some(&mut witness)];
            self.sum_all(&second, sources, scratch_of_second, &mut running)?;
        }
        running.finish()
    }

    /// The witness, which is not on the device.
    fn witness_source(&self) -> Result<Source<B>> {
        Ok(Source::new(match self.plan.chunks {
            Chunks::Witness { .. } => Scalars::Packed,
            _ => Scalars::Device(self.witness(0..self.task.shape.variables)?),
        }))
    }

    /// Says which stage begins, unless the work is to end.
    fn enter(&self, stage: &'static str) -> Result<()> {
        self.progress.check()?;
        tracing::debug!("{stage}");
        self.progress.stage(stage);
        Ok(())
    }

    /// Queues the sums of `items`, in order, all in the same scratch. The sources are of H and of the witness.
    fn sum_all(
        &self,
        items: &[Item],
        [mut h, mut witness]: [Option<&mut Source<B>>; 2],
        scratch_bytes: u64,
        running: &mut Running<'_, B>,
    ) -> Result<()> {
        let mut scratch = Scratch { bytes: scratch_bytes, buffer: None };
        let mut held = None;
        for item in items {
            self.progress.check()?;
            let source = if item.part == Part::H { &mut h } else { &mut witness };
            let source = source.as_deref_mut().expect("the plan's order is the stages'");
            let before = (held.take(), self.bring(source, item)?);
            let (brought, sum) = match item.part {
                Part::BG2 => {
                    let (brought, sum) =
                        self.sum(item, self.b_g2(), source.there(), before, &mut scratch)?;
                    (Brought::G2(brought), Sum::G2(sum))
                }
                _ => {
                    let query = self.in_g1(item.part);
                    let (brought, sum) =
                        self.sum(item, query, source.there(), before, &mut scratch)?;
                    (Brought::G1(brought), Sum::G1(sum))
                }
            };
            held = Some(brought);
            running.add(item, sum)?;
        }
        Ok(())
    }

    /// Brings the scalars of `item`, unless they are there. Returns those that were there before.
    fn bring(&self, source: &mut Source<B>, item: &Item) -> Result<Option<B::Buffer<Fr>>> {
        if source.loaded.as_ref().is_some_and(|(range, _)| *range == item.loaded) {
            return Ok(None);
        }
        let part = match &source.scalars {
            Scalars::Device(_) => return Ok(None),
            Scalars::Host(values) => self.upload(&values[item.loaded.clone()])?,
            Scalars::Packed => self.witness(item.loaded.clone())?,
        };
        Ok(source.loaded.replace((item.loaded.clone(), part)).map(|(_, old)| old))
    }

    /// Queues one sum over `scalars`, whose first is number `at`. Returns what was brought for it, too.
    ///
    /// `before` is what the sums before it read. It stays until this one's points are on their way, and is dropped before the sum is
    /// queued: a buffer's place is free when all is done that was queued until it was dropped, and the next sum's points, which
    /// come while this sum runs, want that place.
    #[allow(clippy::type_complexity, reason = "two results, named where they are used")]
    fn sum<F: Coordinate>(
        &self,
        item: &Item,
        query: QueryOn<'_, B, F>,
        (scalars, at): (&B::Buffer<Fr>, usize),
        before: (Option<Brought<B>>, Option<B::Buffer<Fr>>),
        scratch: &mut Scratch<B>,
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
                let words = density.slice(members).words.shared();
                Some(backend.adopt(copy, lease, "density", words)?)
            }
            _ => None,
        };
        drop(before);
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
            raised: if bases.is_some() { None } else { there.and_then(|query| query.raised) },
            density: match item.dense {
                true => None,
                false => density.as_ref().or(there.and_then(|query| query.density.as_ref())),
            },
        };
        let sum = backend.msm::<F>(compute, msm, scratch.on(*backend, lease)?)?;
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

/// Scratch for sums. It is taken when the first one's points are on their way, so that they need not wait until the device is
/// done with what stands in its place.
struct Scratch<B: Backend> {
    bytes: u64,
    buffer: Option<B::Buffer<u64>>,
}

impl<B: Backend> Scratch<B> {
    fn on(&mut self, backend: &B, lease: &Lease) -> Result<&mut B::Buffer<u64>> {
        Ok(match &mut self.buffer {
            Some(buffer) => buffer,
            none => {
                let words = self.bytes.div_ceil(8) as usize;
                none.insert(backend.alloc(lease, "MSM scratch", words)?)
            }
        })
    }
}

/// A query on the host, and what of it stays on the device.
struct QueryOn<'a, B: Backend, F: Coordinate> {
    label: &'static str,
    points: Array<Affine<F>>,
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
    all: Array<Affine<F>>,
    range: Range<usize>,
}

impl<F: Coordinate> AsRef<[Affine<F>]> for Slice<F> {
    fn as_ref(&self) -> &[Affine<F>] {
        &self.all[self.range.clone()]
    }
}
