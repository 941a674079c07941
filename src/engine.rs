//! The engine: many proofs on a few devices, each device full and none ever over its memory.
//!
//! A job is one proof's worth of partitions under one key; partitions are the unit of dispatch, of admission and of
//! retry. One engine a process; its keys stay on the devices between jobs. The states of a partition, as rules:
//!
//! 1. **Raw.** It has a recipe for its assignment. A synthesiser takes the first raw partition in the queue's order, and makes it once
//!    the host budget admits its bytes; that is how many vectors can stand ready, and no more are made.
//! 2. **Ready.** It has its assignment, and the host lease of it until it is done. Each device has a few workers; a
//!    free one takes aim at the first ready partition that no worker of its device aims at, plans it for its device, and
//!    waits for admission of the plan's whole peak, holding nothing.
//! 3. **Claimed.** The first worker that is admitted claims it; workers of other devices that wait for it are sent back to
//!    the queue. So partitions go to whichever device can admit them first.
//! 4. **Summed.** The worker has the device do its part, giving memory back stage by stage, and drops the lease before it
//!    does the rest: blinding and verification run while the device works for another worker.
//! 5. **Done.** The proof verified. Only then it is given out, with the name of the backend that made it.
//! 6. **Failed once.** After an error of the device, or a proof that does not verify, it is ready again, to be done on
//!    fresh buffers. If the driver refused what was leased, what others use is measured first, and the plan made anew. Each of
//!    the two happens once.
//! 7. **Failed.** Then [`OnFailure`] decides: the job ends with the error, or the partition is done on the CPU, which is counted
//!    and told. Errors of the input end the job at once.
//! 8. **Gone.** When a job is cancelled, late or failed, its raw and ready partitions leave the queue, those that are
//!    computed stop at the next stage, and their memory returns as always. No other job notices.
//! 9. **The order** is by priority, then by age. A partition that eight younger ones overtook comes first.
//! 10. A device that is lost is opened again when the next partition wants it; what was resident on it is loaded again. One
//!     that cannot be opened again is like one that a partition does not fit on: the others go on.

mod device;
mod job;
mod queue;
mod record;
mod worker;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

#[cfg(feature = "cuda")]
use crate::backend::cuda;
use crate::backend::{Backend, DeviceInfo, cpu::Cpu};
use crate::budget::Budget;
use crate::groth16::Blinding;
use crate::key::ProvingKey;
use crate::plan::{self, Plan, Shape};
use crate::timeline::Timeline;
use crate::witness::Assignment;
use crate::{Error, Result};

use self::device::{Device, Executor};
use self::job::JobState;
use self::queue::{Queue, Unit};
use self::record::Recorder;

pub use self::job::{Job, JobHandle, Partition, Proved};
pub use crate::budget::Priority;

/// What happens to a partition that failed twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// Its job ends with the error.
    #[default]
    Error,
    /// It is done on the CPU, which [`Proved::backend`] and [`Stats::on_cpu`] tell.
    Cpu,
}

/// How an engine works.
#[derive(Clone, Debug)]
pub struct Options {
    /// What happens to a partition that failed twice.
    pub on_failure: OnFailure,
    /// What plans must keep to.
    pub plan: plan::Options,
    /// Bytes of host memory for assignments that stand ready: those that the engine synthesises.
    pub staging_bytes: u64,
    /// Bytes of host memory for vectors of plans whose transforms do not fit on the device.
    pub vector_bytes: u64,
    /// Assignments that are made at once, each in one thread, as far as their bytes are admitted.
    pub synthesisers: usize,
    /// Whether [`Engine::timeline`] records.
    pub record: bool,
}

impl Default for Options {
    /// A quarter of the host's memory for assignments, half for vectors; an assignment made on each core.
    fn default() -> Self {
        let host = Cpu::host_bytes();
        Self {
            on_failure: OnFailure::Error,
            plan: plan::Options::default(),
            staging_bytes: host / 4,
            vector_bytes: host / 2,
            synthesisers: std::thread::available_parallelism().map_or(1, usize::from),
            record: false,
        }
    }
}

/// Devices for an engine. Each is given as a function that opens it, which is called again after the device was lost.
#[derive(Default)]
pub struct Devices(Vec<Box<dyn Device>>);

impl Devices {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens one more device.
    ///
    /// # Errors
    /// What `open` fails with.
    pub fn add<B: Backend>(
        &mut self,
        open: impl Fn() -> Result<B> + Send + Sync + 'static,
    ) -> Result<()> {
        self.0.push(Box::new(Executor::open(Box::new(open))?));
        Ok(())
    }

    /// What each device would do with a task of this shape: the device, its capacity now, and its ladder of plans.
    ///
    /// # Errors
    /// If a device does not answer.
    pub fn ladders(
        &self,
        shape: &Shape,
        options: &plan::Options,
    ) -> Result<Vec<(DeviceInfo, u64, Vec<Plan>)>> {
        self.0.iter().map(|device| device.ladder(shape, options)).collect()
    }

    /// Every NVIDIA card that is there, or else the CPU, as [`Engine::devices`] and each [`Proved`] tell.
    ///
    /// # Errors
    /// If there are cards and one cannot be opened.
    pub fn fastest() -> Result<Self> {
        #[cfg(feature = "cuda")]
        match cuda::devices() {
            Ok(_) => {
                let mut devices = Self::new();
                devices.add_cards(cuda::Options::default())?;
                return Ok(devices);
            }
            Err(error) => tracing::info!("{error}; computing on the CPU"),
        }
        Ok(Self::cpu())
    }

    /// Opens every NVIDIA card.
    ///
    /// # Errors
    /// If there is none, or one cannot be opened.
    #[cfg(feature = "cuda")]
    pub fn add_cards(&mut self, options: cuda::Options) -> Result<()> {
        for card in cuda::devices()? {
            self.add(move || cuda::Cuda::open(card.index, options))?;
        }
        Ok(())
    }

    /// The CPU alone.
    pub fn cpu() -> Self {
        let cpu = Executor::open(Box::new(|| Ok(Cpu::open()))).expect("the CPU is always there");
        Self(vec![Box::new(cpu)])
    }
}

/// What an engine has done so far, in partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Proved.
    pub proved: u64,
    /// Tried again after an error of a device or a proof that did not verify.
    pub retried: u64,
    /// Planned again after the driver had less than was leased.
    pub replanned: u64,
    /// Done on the CPU because a device failed twice.
    pub on_cpu: u64,
    /// Given up, with their jobs.
    pub failed: u64,
    /// Devices opened again.
    pub reopened: u64,
}

/// How much of a device is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Its name.
    pub name: String,
    /// Bytes that may be leased.
    pub capacity: u64,
    /// Bytes that are leased now.
    pub leased: u64,
    /// The most bytes that were leased at once.
    pub high_water: u64,
    /// [`Backend::device_wide_calls`].
    pub device_wide_calls: u64,
}

/// Proves jobs on devices. Dropping it cancels what waits and waits for what runs; [`Engine::drain`] finishes all.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// A partition became raw, ready or free to aim at, or the engine closes.
    changed: Condvar,
    devices: Vec<Box<dyn Device>>,
    /// The CPU for partitions that failed elsewhere.
    fallback: Option<Box<dyn Device>>,
    staging: Budget,
    vectors: Budget,
    options: Options,
    recorder: Recorder,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// Jobs that may not have ended.
    jobs: Vec<Arc<JobState>>,
    /// Partitions that workers or the synthesiser have.
    busy: usize,
    stats: Stats,
    closing: bool,
}

impl Engine {
    /// Starts the threads: a few workers a device, the synthesisers, a watch for deadlines.
    ///
    /// # Errors
    /// [`Error::Usage`] without a device.
    pub fn new(devices: Devices, mut options: Options) -> Result<Self> {
        let Devices(devices) = devices;
        if devices.is_empty() {
            return Err(Error::Usage("an engine needs a device".into()));
        }
        let fallback = match options.on_failure {
            OnFailure::Error => None,
            OnFailure::Cpu => Devices::cpu().0.pop(),
        };
        options.plan.host_bytes = options.plan.host_bytes.min(options.vector_bytes);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            staging: Budget::new(options.staging_bytes),
            vectors: Budget::new(options.vector_bytes),
            recorder: Recorder::new(options.record),
            devices,
            fallback,
            options,
        });
        let mut threads = Vec::new();
        let mut spawn = |name: String, run: Box<dyn FnOnce(&Shared) + Send>| -> Result<()> {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(name).spawn(move || run(&shared));
            threads.push(thread.map_err(|error| Error::Machine(format!("no thread: {error}")))?);
            Ok(())
        };
        // One more than can be on the device: while two are, the last one's rest is done.
        let workers = shared.options.plan.max_in_flight as usize + 1;
        for device in 0..shared.devices.len() {
            for worker in 0..workers {
                let name = format!("forebay-{device}-{worker}");
                spawn(name, Box::new(move |shared| shared.work(device, worker)))?;
            }
        }
        for synthesiser in 0..shared.options.synthesisers.max(1) {
            let name = format!("forebay-synthesis-{synthesiser}");
            spawn(name, Box::new(move |shared| shared.synthesise(synthesiser)))?;
        }
        spawn("forebay-deadlines".into(), Box::new(Shared::watch_deadlines))?;
        Ok(Self { shared, threads })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`Error::Usage`] if it has no partition.
    pub fn submit(&self, job: Job) -> Result<JobHandle> {
        if job.partitions.is_empty() {
            return Err(Error::Usage(format!("{} has no partition", job.label)));
        }
        let Job { label, key, partitions, expected, priority, deadline, progress } = job;
        let count = partitions.len();
        let job = JobState::new(label, key, count, expected, priority, deadline, progress);
        let job = Arc::new(job);
        let mut state = self.shared.lock();
        state.jobs.retain(|job| !job.is_over());
        state.jobs.push(job.clone());
        for (index, partition) in partitions.into_iter().enumerate() {
            state.queue.push(Unit::new(job.clone(), index, partition));
        }
        // Workers that wait with something less urgent look again.
        let outranked = state.queue.outranked(job.priority);
        drop(state);
        outranked.iter().for_each(crate::budget::Cancel::cancel);
        self.shared.changed.notify_all();
        Ok(JobHandle::new(job, Arc::downgrade(&self.shared)))
    }

    /// Proves a job whose partitions' assignments are made by functions that borrow from the caller, each called once, in threads of
    /// this call, when the engine's order and the host budget let it; `bytes` is what the next one will take, as for [`Partition::estimated`].
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`JobHandle::wait`].
    pub fn prove_borrowed<F>(
        &self,
        label: &str,
        key: Arc<ProvingKey>,
        priority: Priority,
        bytes: impl Fn() -> u64 + Clone + Send + 'static,
        partitions: Vec<(F, Blinding)>,
    ) -> Result<Vec<Proved>>
    where
        F: FnOnce() -> Result<Assignment> + Send,
    {
        // The engine's synthesisers ask for an assignment by its number, and wait for it.
        let (ask, asked) = mpsc::channel::<(usize, mpsc::Sender<Result<Assignment>>)>();
        let gone = || Error::Cancelled { label: "a partition whose caller is gone".into() };
        let (mut makers, mut recipes) = (Vec::new(), Vec::new());
        for (index, (make, blinding)) in partitions.into_iter().enumerate() {
            makers.push(Mutex::new(Some(make)));
            let ask = ask.clone();
            let recipe = move || {
                let (answer, answered) = mpsc::channel();
                ask.send((index, answer)).map_err(|_| gone())?;
                answered.recv().unwrap_or_else(|_| Err(gone()))
            };
            recipes.push(Partition::estimated(bytes.clone(), recipe)?.blinding(blinding));
        }
        drop(ask);
        let asked = Mutex::new(asked);
        let threads = self.shared.options.synthesisers.clamp(1, makers.len().max(1));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                // Ends when the engine has no recipe left.
                scope.spawn(|| {
                    loop {
                        let next = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok((index, answer)) = next else { return };
                        let make =
                            &mut *makers[index].lock().unwrap_or_else(PoisonError::into_inner);
                        let made = make.take().map(|make| worker::caught(make));
                        // Nobody listens if the job has ended.
                        let _ = answer.send(made.unwrap_or_else(|| Err(gone())));
                    }
                });
            }
            self.submit(Job::new(label, key, recipes).priority(priority))?.wait()
        })
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        let reopened = self.shared.devices.iter().map(|device| device.reopened()).sum();
        Stats { reopened, ..self.shared.lock().stats }
    }

    /// The devices.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.shared.devices.iter().map(|device| device.info()).collect()
    }

    /// How much of the devices is used, but of those that are lost.
    pub fn usage(&self) -> Vec<Usage> {
        self.shared.devices.iter().filter_map(|device| device.usage()).collect()
    }

    /// What happened when, if [`Options::record`] is set; on devices that were opened to record, by their own clocks too.
    pub fn timeline(&self) -> Option<Timeline> {
        let devices = self.shared.devices.iter();
        self.shared.recorder.timeline(devices.map(|device| (device.info().name, device.spans())))
    }

    /// Waits until every job is done; then the engine takes more.
    pub fn drain(&self) {
        let mut state = self.shared.lock();
        while !state.queue.is_empty() || state.busy > 0 {
            state = self.shared.wait(state);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let jobs = {
            let mut state = self.shared.lock();
            state.closing = true;
            std::mem::take(&mut state.jobs)
        };
        for job in jobs {
            self.shared.end(&job, Error::Cancelled { label: job.label.clone() });
        }
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches what its partition panics with; the engine's own panic was printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a job with `error`, unless it has ended: rule 8.
    fn end(&self, job: &Arc<JobState>, error: Error) {
        if !job.fail(error) {
            return;
        }
        let aims = self.lock().queue.remove_job(job);
        aims.iter().for_each(crate::budget::Cancel::cancel);
        self.devices.iter().for_each(|device| device.wake());
        self.changed.notify_all();
    }

    /// Ends jobs whose deadline passed, until the engine closes.
    fn watch_deadlines(&self) {
        let mut state = self.lock();
        while !state.closing {
            let now = Instant::now();
            state.jobs.retain(|job| !job.is_over());
            let is_late =
                |job: &&Arc<JobState>| job.deadline.is_some_and(|deadline| deadline <= now);
            if let Some(job) = state.jobs.iter().find(is_late).cloned() {
                drop(state);
                self.end(&job, Error::Deadline { label: job.label.clone() });
                state = self.lock();
                continue;
            }
            state = match state.jobs.iter().filter_map(|job| job.deadline).min() {
                None => self.wait(state),
                Some(next) => {
                    let left = next.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
