//! The engine's threads: workers, each with one partition of one device at a time, and the synthesiser.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::budget::{Cancel, Lease, Request};
use crate::format::Progress;
use crate::groth16::Task;
use crate::plan;
use crate::timeline::Class;
use crate::{Error, Result};

use super::Shared;
use super::device::{Admitted, Device, Wait};
use super::job::{JobState, Proved};
use super::queue::{Content, Ready, Unit};
use super::record::{Recorder, Running};

/// What a worker aims at: enough to plan and to wait with.
struct Aim {
    age: u64,
    job: Arc<JobState>,
    ready: Ready,
    cancel: Cancel,
}

impl Shared {
    /// A worker of a device, until the engine closes.
    pub(super) fn work(&self, device: usize, worker: usize) {
        let lane = format!("{} {device}, worker {worker}", self.devices[device].info().backend);
        while let Some(aim) = self.aim(device) {
            if let Err(error) = self.pursue(device, &lane, &aim) {
                self.not_admitted(device, &aim, error);
            }
        }
    }

    /// From the aim to the proof, or to another worker's having claimed the partition. The task is made once, before the memory is
    /// there: for a large circuit it counts through tens of megabytes.
    fn pursue(&self, device: usize, lane: &str, aim: &Aim) -> Result<()> {
        let task = Task::new(&aim.job.key, &aim.ready.assignment)?;
        let admitted = {
            let _waits = self.recorder.span(lane, Class::Wait, &aim.job.label);
            self.admit(&*self.devices[device], aim, &task)?
        };
        let ended = admitted.ended();
        match self.claim(device, aim.age) {
            Some(unit) => self.run(device, lane, unit, &task, admitted),
            None => drop(admitted),
        }
        // So there are never more leases than workers, and a warm device needs no more memory.
        ended.wait();
        Ok(())
    }

    /// Sleeps until there is a partition to aim at; `None` when the engine closes.
    fn aim(&self, device: usize) -> Option<Aim> {
        let mut state = self.lock();
        while !state.closing {
            let cancel = Cancel::new();
            if let Some((age, unit)) = state.queue.aim(device, &cancel) {
                let (job, ready) = (unit.job.clone(), unit.ready().cloned());
                return ready.map(|ready| Aim { age, job, ready, cancel });
            }
            state = self.wait(state);
        }
        None
    }

    fn admit<'d>(
        &self,
        device: &'d dyn Device,
        aim: &Aim,
        task: &Task<'_>,
    ) -> Result<Box<dyn Admitted + 'd>> {
        let Aim { job, cancel, .. } = aim;
        // Each device does once what is done for all, and has its share of them.
        let expected = job.expected.div_ceil(self.devices.len());
        let options = &self.options.plan;
        let options = plan::Options { partitions: options.partitions.max(expected), ..*options };
        let wait = Wait {
            label: &job.label,
            priority: job.priority,
            deadline: job.deadline,
            cancel,
            options: &options,
            vectors: &self.vectors,
        };
        let admitted = caught(|| device.admit(&job.key, task, &wait))?;
        self.recorder.leased(&device.info().name, device.leased());
        Ok(admitted)
    }

    /// Takes a partition that was aimed at out of the queue; `None` if another worker did, or its job ended.
    fn claim(&self, device: usize, age: u64) -> Option<Unit> {
        let (unit, others) = {
            let mut state = self.lock();
            let claimed = state.queue.claim(device, age)?;
            state.busy += 1;
            claimed
        };
        others.iter().for_each(Cancel::cancel);
        self.devices.iter().for_each(|device| device.wake());
        Some(unit)
    }

    fn not_admitted(&self, device: usize, aim: &Aim, error: Error) {
        match error {
            // Claimed elsewhere, or something more urgent came: look again. A late job is ended by the watch, too.
            Error::Cancelled { .. } => self.lock().queue.give_up(device, aim.age, false),
            // Another device may do.
            Error::NeverFits { .. } | Error::NoDevice { .. } => {
                let mut state = self.lock();
                state.queue.give_up(device, aim.age, true);
                let nowhere = state.queue.misfits(aim.age) == self.devices.len();
                drop(state);
                if nowhere {
                    self.after_failure_of(device, aim.age, error);
                }
            }
            Error::Deadline { .. } => self.end(&aim.job, error),
            error => self.after_failure_of(device, aim.age, error),
        }
        self.changed.notify_all();
    }

    /// An error before the partition was claimed.
    fn after_failure_of(&self, device: usize, age: u64, error: Error) {
        if let Some(unit) = self.claim(device, age) {
            self.failed(device, unit, error);
            self.release();
        }
    }

    /// A partition on a device, from admission to the proof.
    fn run(
        &self,
        device: usize,
        lane: &str,
        unit: Unit,
        task: &Task<'_>,
        admitted: Box<dyn Admitted + '_>,
    ) {
        match self.prove(&*self.devices[device], lane, &unit, task, admitted) {
            Ok(proved) => self.deliver(&unit, proved),
            Err(error) => self.failed(device, unit, error),
        }
        self.release();
    }

    fn deliver(&self, unit: &Unit, proved: Proved) {
        self.lock().stats.proved += 1;
        unit.job.deliver(unit.index, proved);
    }

    /// A claimed partition is done with, or back in the queue.
    fn release(&self) {
        self.lock().busy -= 1;
        self.changed.notify_all();
    }

    fn prove(
        &self,
        device: &dyn Device,
        lane: &str,
        unit: &Unit,
        task: &Task<'_>,
        admitted: Box<dyn Admitted + '_>,
    ) -> Result<Proved> {
        let started = Instant::now();
        let job = &unit.job;
        job.check()?;
        let (info, plan) = (device.info(), admitted.plan());
        let (plan, planned_bytes) = (plan.summary(), plan.peak());
        tracing::info!("{}, partition {}, on {}: {plan}", job.label, unit.index, info.name);
        let watch = Watch::new(job, &self.recorder, lane, device);
        let sums = caught(|| admitted.sums(task, &watch));
        watch.end();
        self.recorder.leased(&info.name, device.leased());
        let (sums, used_bytes) = sums?;
        let _host = self.recorder.span(lane, Class::Host, "blinding, verification");
        let proof = caught(|| sums.prove(task, &unit.blinding))?;
        let (backend, tries, elapsed) = (info.backend, unit.failures + 1, started.elapsed());
        let public_inputs = task.assignment().values.first(job.key.inputs)[1..].to_vec();
        Ok(Proved {
            proof,
            public_inputs,
            backend,
            device: info.name,
            tries,
            plan,
            planned_bytes,
            used_bytes,
            elapsed,
        })
    }

    /// Rules 6 and 7.
    fn failed(&self, device: usize, mut unit: Unit, error: Error) {
        let job = unit.job.clone();
        tracing::warn!("{}, partition {}: {error}", job.label, unit.index);
        self.recorder.mark(&format!("{}: {error}", job.label));
        let again = match &error {
            _ if job.has_ended() => return,
            Error::Refused { .. } if !unit.replanned => {
                unit.replanned = true;
                // If the driver does not even answer, the next try will tell.
                let measured = self.devices[device].measure();
                measured.inspect_err(|error| tracing::warn!("{error}")).is_ok()
            }
            error if may_pass(error) && unit.failures == 0 => {
                unit.failures += 1;
                true
            }
            _ => false,
        };
        if again {
            let mut state = self.lock();
            match error {
                Error::Refused { .. } => state.stats.replanned += 1,
                _ => state.stats.retried += 1,
            }
            state.queue.push(unit);
            return;
        }
        unit.failures += 1;
        let error = match &self.fallback {
            Some(cpu) if may_be_the_device(&error) => match self.on_cpu(&**cpu, &unit) {
                Ok(proved) => {
                    self.lock().stats.on_cpu += 1;
                    return self.deliver(&unit, proved);
                }
                Err(error) => error,
            },
            _ => error,
        };
        self.lock().stats.failed += 1;
        self.end(&job, error);
    }

    fn on_cpu(&self, cpu: &dyn Device, unit: &Unit) -> Result<Proved> {
        let lane = "cpu, for a device that failed";
        let ready = unit
            .ready()
            .cloned()
            .ok_or_else(|| Error::Internal("a partition without assignment".into()))?;
        let aim = Aim { age: 0, job: unit.job.clone(), ready, cancel: Cancel::new() };
        let task = Task::new(&aim.job.key, &aim.ready.assignment)?;
        let admitted = self.admit(cpu, &aim, &task)?;
        self.prove(cpu, lane, unit, &task, admitted)
    }

    /// A synthesiser, until the engine closes: rule 1.
    pub(super) fn synthesise(&self, synthesiser: usize) {
        let lane = match synthesiser {
            0 => "synthesis".to_owned(),
            more => format!("synthesis {more}"),
        };
        let mut state = self.lock();
        while !state.closing {
            let Some(unit) = state.queue.take_raw() else {
                state = self.wait(state);
                continue;
            };
            state.busy += 1;
            drop(state);
            self.synthesise_one(&lane, unit);
            self.release();
            state = self.lock();
        }
    }

    fn synthesise_one(&self, lane: &str, mut unit: Unit) {
        let job = unit.job.clone();
        let Content::Raw { bytes, make } = unit.content else { return };
        let bytes = bytes();
        let made = self.staged(&job, bytes).and_then(|mut lease| {
            let host = self.recorder.span(lane, Class::Host, &job.label);
            let assignment = Arc::new(caught(make)?);
            drop(host);
            let taken = assignment.bytes();
            if taken <= bytes {
                lease.shrink(taken);
            } else {
                tracing::warn!("{}: {taken} bytes of values, {bytes} were expected", job.label);
                // Nobody waits while it holds.
                drop(lease);
                lease = self.staged(&job, taken)?;
            }
            Ok(Ready { assignment, _staged: Some(lease) })
        });
        match made {
            Ok(ready) => {
                unit.content = Content::Ready(ready);
                if !job.has_ended() {
                    self.lock().queue.push(unit);
                }
            }
            Err(error) => {
                self.lock().stats.failed += 1;
                self.end(&job, error);
            }
        }
    }

    /// Host memory for an assignment; others end this lease.
    fn staged(&self, job: &Arc<JobState>, bytes: u64) -> Result<Lease> {
        job.check()?;
        let label = format!("the assignment of {}", job.label);
        let releases = [bytes];
        let request = Request {
            deadline: job.deadline,
            cancel: Some(&job.cancel),
            ..Request::new(&label, &releases)
        };
        let lease = self.staging.wait(request)?;
        lease.hand_over();
        Ok(lease)
    }
}

/// Whether another try on fresh buffers may succeed.
fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Device { .. }
            | Error::DeviceLost { .. }
            | Error::SelfVerify(_)
            | Error::OutOfMemory { .. }
            | Error::Internal(_)
    )
}

/// Whether another backend may succeed.
fn may_be_the_device(error: &Error) -> bool {
    let only_there = matches!(
        error,
        Error::Refused { .. }
            | Error::NeverFits { .. }
            | Error::NoDevice { .. }
            | Error::Kernel { .. }
    );
    only_there || may_pass(error)
}

/// A panic below is an error of this partition, not the end of a worker.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::Internal(format!("panic: {text}")))
    })
}

/// Tells the job's owner and the recorder how far a partition is, and stops it if its job is over.
struct Watch<'a> {
    job: &'a JobState,
    recorder: &'a Recorder,
    lane: &'a str,
    device: &'a dyn Device,
    stage: Mutex<Option<Running<'a>>>,
}

impl<'a> Watch<'a> {
    fn new(
        job: &'a JobState,
        recorder: &'a Recorder,
        lane: &'a str,
        device: &'a dyn Device,
    ) -> Self {
        Self { job, recorder, lane, device, stage: Mutex::new(None) }
    }

    fn replace(&self, stage: Option<Running<'a>>) {
        let mut current = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one ends before the next is drawn.
        drop(current.take());
        *current = stage;
    }

    fn end(&self) {
        self.replace(None);
    }
}

impl Progress for Watch<'_> {
    fn begin(&self, what: &str, total: u64) {
        if let Some(progress) = &self.job.progress {
            progress.begin(what, total);
        }
    }

    fn advance(&self, steps: u64) {
        if let Some(progress) = &self.job.progress {
            progress.advance(steps);
        }
    }

    fn stage(&self, name: &'static str) {
        if let Some(progress) = &self.job.progress {
            progress.stage(name);
        }
        let class = if name == "quotient" { Class::Transform } else { Class::Msm };
        self.replace(Some(self.recorder.span(self.lane, class, name)));
        self.recorder.leased(&self.device.info().name, self.device.leased());
    }

    fn check(&self) -> Result<()> {
        self.job.check()
    }
}
