//! The partitions that wait, in order.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::budget::{Cancel, Lease, Priority};
use crate::groth16::Blinding;
use crate::witness::Assignment;

use super::job::{Estimate, JobState, Partition, Recipe, Source};

/// A partition that this many younger ones overtook comes first.
const OVERTAKEN: u32 = 8;

/// One partition that is not done.
pub(super) struct Unit {
    pub(super) job: Arc<JobState>,
    pub(super) index: usize,
    pub(super) blinding: Blinding,
    pub(super) content: Content,
    /// Tries that failed.
    pub(super) failures: u32,
    /// It was planned again because the driver had less than was leased.
    pub(super) replanned: bool,
    /// Devices on which no plan fits.
    misfits: Vec<usize>,
    age: u64,
    overtaken: u32,
    /// The devices whose workers wait for admission with it.
    aims: Vec<(usize, Cancel)>,
}

pub(super) enum Content {
    Raw { bytes: Estimate, make: Recipe },
    Ready(Ready),
}

/// An assignment, and the host memory that it stands in, if the engine made it.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) assignment: Arc<Assignment>,
    pub(super) _staged: Option<Lease>,
}

impl Unit {
    pub(super) fn new(job: Arc<JobState>, index: usize, partition: Partition) -> Self {
        let Partition { source, blinding } = partition;
        let content = match source {
            Source::Ready(assignment) => Content::Ready(Ready { assignment, _staged: None }),
            Source::Recipe { bytes, make } => Content::Raw { bytes, make },
        };
        Self {
            job,
            index,
            blinding,
            content,
            failures: 0,
            replanned: false,
            misfits: Vec::new(),
            age: 0,
            overtaken: 0,
            aims: Vec::new(),
        }
    }

    pub(super) fn ready(&self) -> Option<&Ready> {
        match &self.content {
            Content::Ready(ready) => Some(ready),
            Content::Raw { .. } => None,
        }
    }

    /// The smallest comes first.
    fn rank(&self) -> (bool, Reverse<Priority>, u64) {
        let aged = self.overtaken >= OVERTAKEN;
        let priority = if aged { Priority::High } else { self.job.priority };
        (!aged, Reverse(priority), self.age)
    }
}

/// Waiting partitions. A few at a time: whoever looks, looks at all.
#[derive(Default)]
pub(super) struct Queue {
    units: Vec<Unit>,
    next_age: u64,
}

impl Queue {
    /// Adds a new partition, or one that comes back and keeps its age.
    pub(super) fn push(&mut self, mut unit: Unit) {
        if unit.age == 0 {
            self.next_age += 1;
            unit.age = self.next_age;
        }
        unit.aims.clear();
        self.units.push(unit);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The first ready partition at which no worker of `device` aims and which may fit there, and its age by which
    /// [`Queue::claim`] knows it. From now on a worker of `device` aims at it, until `cancel` is cancelled.
    pub(super) fn aim(&mut self, device: usize, cancel: &Cancel) -> Option<(u64, &Unit)> {
        let free = |unit: &&mut Unit| {
            let aimed = unit.aims.iter().any(|(by, _)| *by == device);
            unit.ready().is_some() && !aimed && !unit.misfits.contains(&device)
        };
        let unit = self.units.iter_mut().filter(free).min_by_key(|unit| unit.rank())?;
        unit.aims.push((device, cancel.clone()));
        Some((unit.age, unit))
    }

    /// Takes a partition out, and says whom to cancel: the workers of other devices that aim at it. `None` if it is gone.
    pub(super) fn claim(&mut self, device: usize, age: u64) -> Option<(Unit, Vec<Cancel>)> {
        let index = self.units.iter().position(|unit| unit.age == age)?;
        let unit = self.units.swap_remove(index);
        for older in self.units.iter_mut().filter(|older| older.age < age) {
            // Behind one that is not made yet nobody can wait.
            older.overtaken += u32::from(older.ready().is_some());
        }
        let others = unit.aims.iter().filter(|(by, _)| *by != device);
        let cancels = others.map(|(_, cancel)| cancel.clone()).collect();
        Some((unit, cancels))
    }

    /// A worker of `device` no longer aims at a partition; with `misfit`, none ever will.
    pub(super) fn give_up(&mut self, device: usize, age: u64, misfit: bool) {
        if let Some(unit) = self.units.iter_mut().find(|unit| unit.age == age) {
            unit.aims.retain(|(by, _)| *by != device);
            if misfit {
                unit.misfits.push(device);
            }
        }
    }

    /// Devices on which a partition never fits.
    pub(super) fn misfits(&self, age: u64) -> usize {
        self.units.iter().find(|unit| unit.age == age).map_or(0, |unit| unit.misfits.len())
    }

    /// The first partition that is to be synthesised, taken out.
    pub(super) fn take_raw(&mut self) -> Option<Unit> {
        let raw = self.units.iter().enumerate().filter(|(_, unit)| unit.ready().is_none());
        let (index, _) = raw.min_by_key(|(_, unit)| unit.rank())?;
        Some(self.units.swap_remove(index))
    }

    /// The worker of each device that waits with the least urgent partition, if one of `priority` would come before.
    pub(super) fn outranked(&self, priority: Priority) -> Vec<Cancel> {
        let mut devices: Vec<usize> =
            self.units.iter().flat_map(|unit| unit.aims.iter().map(|(by, _)| *by)).collect();
        devices.sort_unstable();
        devices.dedup();
        let last = |device: usize| {
            let aims =
                self.units.iter().flat_map(|unit| unit.aims.iter().map(move |aim| (unit, aim)));
            let (unit, (_, cancel)) =
                aims.filter(|(_, (by, _))| *by == device).max_by_key(|(unit, _)| unit.rank())?;
            let later = unit.overtaken < OVERTAKEN && unit.job.priority < priority;
            later.then(|| cancel.clone())
        };
        devices.into_iter().filter_map(last).collect()
    }

    /// Takes a job's partitions out, and says whom to cancel.
    pub(super) fn remove_job(&mut self, job: &Arc<JobState>) -> Vec<Cancel> {
        let mut cancels = Vec::new();
        self.units.retain_mut(|unit| {
            let stays = !Arc::ptr_eq(&unit.job, job);
            if !stays {
                cancels.extend(unit.aims.drain(..).map(|(_, cancel)| cancel));
            }
            stays
        });
        cancels
    }
}
