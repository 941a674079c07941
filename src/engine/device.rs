//! One device of the engine: its backend, what is resident on it, and the way in.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::backend::{Backend, DeviceInfo, DeviceSpan};
use crate::budget::admission::Ticket;
use crate::budget::{Budget, Cancel, Ended, Lease, Pin, Priority, Request, Resident};
use crate::format::Progress;
use crate::groth16::{Densities, DeviceKey, Sums, Task};
use crate::key::ProvingKey;
use crate::plan::{self, Part, Plan, Shape};
use crate::{Error, Result};

use super::Usage;
use super::worker::caught;

/// How long the driver's count of what others use is believed.
const MEASURE_EVERY: Duration = Duration::from_secs(10);
/// A device that had no partition for so long is idle. Between two of a job it has none for a moment, too.
const IDLE: Duration = Duration::from_millis(200);
/// Times that a resident key may be evicted between loading and use before the plan does without.
const EVICTIONS: usize = 3;

/// A device, whatever its backend.
pub(super) trait Device: Send + Sync {
    fn info(&self) -> DeviceInfo;
    /// Plans the task and waits until the plan is admitted, holding nothing meanwhile.
    fn admit(
        &self,
        key: &Arc<ProvingKey>,
        task: &Task<'_>,
        wait: &Wait<'_>,
    ) -> Result<Box<dyn Admitted + '_>>;
    /// The device, its capacity now, and its plans for a shape.
    fn ladder(
        &self,
        shape: &Shape,
        options: &plan::Options,
    ) -> Result<(DeviceInfo, u64, Vec<Plan>)>;
    /// Bytes that are leased now.
    fn leased(&self) -> u64;
    /// Times that it was opened again after it was lost.
    fn reopened(&self) -> u64;
    /// How much of it is used, as long as it is not lost.
    fn usage(&self) -> Option<Usage>;
    /// [`Backend::spans`].
    fn spans(&self) -> Vec<DeviceSpan>;
    /// Asks the driver what others use, and plans with the rest from now on.
    fn measure(&self) -> Result<()>;
    /// Lets who waits for a key that is being loaded look whether they are cancelled.
    fn wake(&self);
}

/// What a partition waits with.
pub(super) struct Wait<'a> {
    pub(super) label: &'a str,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Instant>,
    pub(super) cancel: &'a Cancel,
    pub(super) options: &'a plan::Options,
    /// Host memory for vectors of plans that keep them there.
    pub(super) vectors: &'a Budget,
}

impl<'a> Wait<'a> {
    fn request(&self, label: &'a str, releases: &'a [u64]) -> Request<'a> {
        let Self { priority, deadline, cancel, .. } = *self;
        Request { label, releases, priority, deadline, cancel: Some(cancel), uses: None }
    }
}

/// A partition's place on a device.
pub(super) trait Admitted {
    fn plan(&self) -> &Plan;
    /// Tells when its memory is back.
    fn ended(&self) -> Ended;
    /// All that the device does, and the most bytes that this took. The place is given back at the end.
    fn sums(self: Box<Self>, task: &Task<'_>, progress: &dyn Progress) -> Result<(Sums, u64)>;
}

/// A device behind a [`Backend`].
pub(super) struct Executor<B: Backend> {
    open: Box<dyn Fn() -> Result<B> + Send + Sync>,
    info: DeviceInfo,
    opening: Mutex<()>,
    state: Mutex<State<B>>,
    /// A key was loaded, or failed to.
    loaded: Condvar,
}

struct State<B: Backend> {
    backend: Option<Arc<B>>,
    reopened: u64,
    measured: Instant,
    /// When the last partition left.
    left: Instant,
    keys: Vec<KeyOnDevice<B>>,
    chosen: Vec<Chosen>,
}

/// A plan that was chosen for a key: for the next partition it is fitted, not chosen.
struct Chosen {
    key: Weak<ProvingKey>,
    capacity: u64,
    resident: bool,
    /// How many partitions were expected.
    partitions: usize,
    plan: Plan,
}

/// Keys whose plans are remembered.
const REMEMBERED: usize = 16;

/// A key of which parts stay on the device, or are being brought.
struct KeyOnDevice<B: Backend> {
    key: Arc<ProvingKey>,
    densities: Densities,
    parts: Vec<Part>,
    raised: Vec<Part>,
    /// Somebody is loading it.
    loading: bool,
    resident: Option<Resident>,
    /// Emptied when the budget evicts it.
    buffers: Arc<Mutex<Option<Arc<DeviceKey<B>>>>>,
}

/// A pinned key.
type Pinned<B> = (Pin, Arc<DeviceKey<B>>);

impl<B: Backend> KeyOnDevice<B> {
    fn is(&self, key: &Arc<ProvingKey>, task: &Task<'_>) -> bool {
        Arc::ptr_eq(&self.key, key) && self.densities == *task.densities()
    }

    /// Whether it is what `plan` wants.
    fn suits(&self, plan: &Plan) -> bool {
        (&self.parts, &self.raised) == (&plan.resident, &plan.raised)
    }

    /// Keeps it from being evicted; `None` if it is not there.
    fn pin(&self) -> Option<Pinned<B>> {
        let pin = self.resident.as_ref()?.pin()?;
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        buffers.map(|buffers| (pin, buffers))
    }
}

impl<B: Backend> Executor<B> {
    pub(super) fn open(open: Box<dyn Fn() -> Result<B> + Send + Sync>) -> Result<Self> {
        let backend = open()?;
        let info = backend.info().clone();
        let state = State {
            backend: Some(Arc::new(backend)),
            reopened: 0,
            measured: Instant::now(),
            left: Instant::now(),
            keys: Vec::new(),
            chosen: Vec::new(),
        };
        let executor = Self {
            open,
            info,
            opening: Mutex::default(),
            state: Mutex::new(state),
            loaded: Condvar::new(),
        };
        executor.measure()?;
        Ok(executor)
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The backend, opened again if it was lost.
    fn backend(&self) -> Result<Arc<B>> {
        let current = || self.lock().backend.clone();
        if let Some(backend) = current() {
            return Ok(backend);
        }
        // One opens it; the others may still have to say that they lost the last one, and let go of it.
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(backend) = current() {
            return Ok(backend);
        }
        let backend = Arc::new((self.open)().map_err(|error| Error::NoDevice {
            backend: self.info.backend.into(),
            reason: format!("{} was lost, and cannot be opened again: {error}", self.info.name),
        })?);
        let mut state = self.lock();
        state.backend = Some(backend.clone());
        state.reopened += 1;
        Ok(backend)
    }

    /// Brings the plan's resident parts to the device, unless they are there. Returns their lease's ticket.
    fn load(
        &self,
        backend: &Arc<B>,
        key: &Arc<ProvingKey>,
        task: &Task<'_>,
        plan: &Plan,
        wait: &Wait<'_>,
    ) -> Result<Ticket> {
        let mut state = self.lock();
        loop {
            if wait.cancel.is_cancelled() {
                return Err(Error::Cancelled { label: wait.label.to_owned() });
            }
            let found = state.keys.iter().position(|there| there.is(key, task));
            let Some(index) = found else { break };
            let there = &state.keys[index];
            if there.loading {
                state = self.loaded.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if there.suits(plan)
                && let Some(resident) = there.resident.as_ref().filter(|resident| resident.touch())
            {
                return Ok(resident.ticket());
            } else {
                // Evicted, or other parts of it, or without the multiples that pay by now: who uses these keeps them until then.
                state.keys.swap_remove(index);
            }
        }
        let buffers = Arc::new(Mutex::new(None));
        state.keys.push(KeyOnDevice {
            key: key.clone(),
            densities: task.densities().clone(),
            parts: plan.resident.clone(),
            raised: plan.raised.clone(),
            loading: true,
            resident: None,
            buffers: buffers.clone(),
        });
        drop(state);
        // Whatever happens, who waits for the key is told.
        let loaded = caught(|| self.load_parts(backend, task, plan, wait, &buffers));
        let mut state = self.lock();
        let index = state.keys.iter().position(|there| Arc::ptr_eq(&there.buffers, &buffers));
        let loaded = loaded.map(|resident| {
            let ticket = resident.ticket();
            if let Some(index) = index {
                let there = &mut state.keys[index];
                (there.resident, there.loading) = (Some(resident), false);
            }
            ticket
        });
        if let (Err(_), Some(index)) = (&loaded, index) {
            state.keys.swap_remove(index);
        }
        drop(state);
        self.loaded.notify_all();
        loaded
    }

    fn load_parts(
        &self,
        backend: &Arc<B>,
        task: &Task<'_>,
        plan: &Plan,
        wait: &Wait<'_>,
        buffers: &Arc<Mutex<Option<Arc<DeviceKey<B>>>>>,
    ) -> Result<Resident> {
        let label = format!("the resident key of {}", wait.label);
        let lease = backend.budget().wait(wait.request(&label, &[plan.resident_bytes]))?;
        let key = DeviceKey::load(&**backend, task, plan, &lease);
        // If that failed, the device ends what is queued.
        lease.hand_over();
        let key = key?;
        let set = |to| *buffers.lock().unwrap_or_else(PoisonError::into_inner) = to;
        set(Some(Arc::new(key)));
        let buffers = buffers.clone();
        Ok(lease.into_resident(move || {
            let evicted = buffers.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(evicted);
        }))
    }

    /// After an error of `backend`: if it is lost, it is opened again when it is next wanted. Others may have noticed
    /// before, and have another by now.
    fn note(&self, backend: &Arc<B>, error: &Error) {
        if !matches!(error, Error::DeviceLost { .. }) {
            return;
        }
        let mut state = self.lock();
        if !state.backend.as_ref().is_some_and(|current| Arc::ptr_eq(current, backend)) {
            return;
        }
        let (lost, keys) = (state.backend.take(), std::mem::take(&mut state.keys));
        drop(state);
        self.loaded.notify_all();
        drop((keys, lost));
    }

    /// The plan for a task now.
    fn plan(
        &self,
        backend: &B,
        key: &Arc<ProvingKey>,
        task: &Task<'_>,
        options: &plan::Options,
    ) -> Result<Plan> {
        let (shape, capacity) = (task.shape(), backend.budget().capacity());
        let is_same = |chosen: &Chosen| {
            let same_key = std::ptr::eq(chosen.key.as_ptr(), Arc::as_ptr(key));
            same_key && chosen.capacity == capacity && chosen.resident == options.resident
        };
        // Where more were expected, what was done for them is there.
        let suits = |chosen: &&Chosen| is_same(chosen) && chosen.partitions >= options.partitions;
        let known = self.lock().chosen.iter().find(suits).map(|chosen| chosen.plan.clone());
        let fitted = known.and_then(|plan| plan.refit(shape, backend));
        let fits = |plan: &Plan| plan.needs() <= capacity && plan.host_bytes <= options.host_bytes;
        if let Some(plan) = fitted.filter(fits) {
            return Ok(plan);
        }
        let plan = plan::choose(shape, backend, capacity, options)?;
        let mut state = self.lock();
        state.chosen.retain(|chosen| !is_same(chosen) && chosen.key.strong_count() > 0);
        state.chosen.truncate(REMEMBERED - 1);
        let plan::Options { resident, partitions, .. } = *options;
        let (key, plan_to_keep) = (Arc::downgrade(key), plan.clone());
        let chosen = Chosen { key, capacity, resident, partitions, plan: plan_to_keep };
        state.chosen.insert(0, chosen);
        Ok(plan)
    }

    /// Plans, brings the key if it is to stay, and waits for the plan's peak.
    fn place(
        &self,
        backend: &Arc<B>,
        key: &Arc<ProvingKey>,
        task: &Task<'_>,
        wait: &Wait<'_>,
    ) -> Result<Place<'_, B>> {
        let budget = backend.budget();
        let (measured, left) = {
            let state = self.lock();
            (state.measured.elapsed(), state.left.elapsed())
        };
        // Only when idle: the question may be slow, and the driver's answer is unsteady while memory moves.
        if measured > MEASURE_EVERY && left > IDLE && budget.leased() == 0 {
            self.measure()?;
        }
        let place = |plan, lease, pinned, _vectors| {
            let backend = backend.clone();
            Place { executor: self, backend, plan, lease, pinned, _vectors }
        };
        for attempt in 0.. {
            let options = plan::Options {
                resident: wait.options.resident && attempt < EVICTIONS,
                ..*wait.options
            };
            let plan = self.plan(backend, key, task, &options)?;
            // Host memory before device memory, everywhere: so nobody waits in a circle.
            let _vectors = match plan.host_bytes {
                0 => None,
                bytes => Some(wait.vectors.wait(wait.request(wait.label, &[bytes]))?),
            };
            if plan.resident.is_empty() {
                let lease = budget.wait(wait.request(wait.label, &plan.releases()))?;
                return Ok(place(plan, lease, None, _vectors));
            }
            let uses = Some(self.load(backend, key, task, &plan, wait)?);
            let releases = plan.releases();
            let lease = budget.wait(Request { uses, ..wait.request(wait.label, &releases) })?;
            let pinned = {
                let state = self.lock();
                let there = state.keys.iter().find(|there| there.is(key, task));
                there.filter(|there| there.suits(&plan)).and_then(KeyOnDevice::pin)
            };
            if pinned.is_some() {
                return Ok(place(plan, lease, pinned, _vectors));
            }
        }
        unreachable!("without residents the loop returns")
    }
}

impl<B: Backend> Device for Executor<B> {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn admit(
        &self,
        key: &Arc<ProvingKey>,
        task: &Task<'_>,
        wait: &Wait<'_>,
    ) -> Result<Box<dyn Admitted + '_>> {
        let backend = self.backend()?;
        let place = self.place(&backend, key, task, wait);
        Ok(Box::new(place.inspect_err(|error| self.note(&backend, error))?))
    }

    fn ladder(
        &self,
        shape: &Shape,
        options: &plan::Options,
    ) -> Result<(DeviceInfo, u64, Vec<Plan>)> {
        let backend = self.backend()?;
        Ok((self.info(), backend.budget().capacity(), plan::ladder(shape, &*backend, options)))
    }

    fn leased(&self) -> u64 {
        self.lock().backend.as_ref().map_or(0, |backend| backend.budget().leased())
    }

    fn reopened(&self) -> u64 {
        self.lock().reopened
    }

    fn usage(&self) -> Option<Usage> {
        let backend = self.lock().backend.clone()?;
        let budget = backend.budget();
        Some(Usage {
            name: self.info.name.clone(),
            capacity: budget.capacity(),
            leased: budget.leased(),
            high_water: budget.high_water(),
            device_wide_calls: backend.device_wide_calls(),
        })
    }

    fn spans(&self) -> Vec<DeviceSpan> {
        let backend = self.lock().backend.clone();
        backend.map_or_else(Vec::new, |backend| backend.spans())
    }

    fn measure(&self) -> Result<()> {
        let backend = self.backend()?;
        backend.budget().set_foreign(backend.foreign_bytes()?);
        self.lock().measured = Instant::now();
        Ok(())
    }

    fn wake(&self) {
        // Taken, so that nobody is between looking and sleeping.
        drop(self.lock());
        self.loaded.notify_all();
    }
}

/// A partition's lease, and the pinned parts of its key.
struct Place<'a, B: Backend> {
    executor: &'a Executor<B>,
    backend: Arc<B>,
    plan: Plan,
    lease: Lease,
    pinned: Option<Pinned<B>>,
    _vectors: Option<Lease>,
}

impl<B: Backend> Admitted for Place<'_, B> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn ended(&self) -> Ended {
        self.lease.ended()
    }

    fn sums(self: Box<Self>, task: &Task<'_>, progress: &dyn Progress) -> Result<(Sums, u64)> {
        let resident = self.pinned.as_ref().map(|(_, key)| &**key);
        let sums = task.sums(&*self.backend, &self.plan, resident, &self.lease, progress);
        let sums = sums.inspect_err(|error| self.executor.note(&self.backend, error))?;
        Ok((sums, self.lease.high_water()))
    }
}

impl<B: Backend> Drop for Place<'_, B> {
    fn drop(&mut self) {
        // What is still queued, the device ends, and the lease with it.
        self.lease.hand_over();
        self.executor.lock().left = Instant::now();
    }
}
