//! When submissions are done, and whether they were done at all.
//!
//! Every submission ends with a kernel that writes the submission's number; the word is copied to memory that the host
//! reads when the driver says that the submission is done. Some drivers say so of work that a watchdog has stopped:
//! then the number is not there, and the device counts as lost.
//!
//! One thread waits for submissions in their order, checks their marks and does what was to be done after them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::device::Device;
use crate::{Error, Result};

/// What is done after a submission; the argument says whether it went well. It runs in the thread that waits: it must not wait
/// itself, nor submit.
pub(super) type Then = Box<dyn FnOnce(Result<()>) + Send>;

/// Submissions that may be under way; who would submit another waits. Each has a slip, made when the device is opened.
const MOST: usize = 32;

/// How long to wait for a submission before looking whether the device is lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a slip's parameters.
pub(super) const PARAMETER_BYTES: u64 = 1 << 16;

/// What one submission has for itself while it is under way.
pub(super) struct Slip {
    /// The parameters of its kernels.
    pub parameters: wgpu::Buffer,
    /// Where the mark is written.
    pub word: wgpu::Buffer,
    /// Where it is read.
    pub read: wgpu::Buffer,
}

/// A submission under way.
struct Submitted {
    index: wgpu::SubmissionIndex,
    number: u32,
    slip: Slip,
    mapped: Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
    then: Vec<Then>,
}

/// See the module's text.
pub(super) struct Marks {
    shared: Arc<Shared>,
    submitted: Mutex<Option<Sender<Submitted>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    device: Arc<Device>,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    under_way: usize,
    /// Slips that no submission has.
    slips: Vec<Slip>,
    /// The number of the latest submission.
    number: u32,
}

impl Marks {
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let shared = Arc::new(Shared {
            device: device.clone(),
            state: Mutex::default(),
            done: Condvar::new(),
        });
        let (sender, submitted) = channel::<Submitted>();
        let waiter = shared.clone();
        let wait = move || submitted.into_iter().for_each(|submitted| waiter.finish(submitted));
        let thread = std::thread::Builder::new().name("wgpu submissions".into()).spawn(wait);
        let thread =
            thread.map_err(|error| Error::Machine(format!("starting a thread: {error}")))?;
        let marks =
            Self { shared, submitted: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) };
        for _ in 0..MOST {
            marks.unused(marks.new_slip()?);
        }
        Ok(marks)
    }

    fn new_slip(&self) -> Result<Slip> {
        use wgpu::BufferUsages as Usage;
        let create = |bytes, usage| self.shared.device.create("a submission", bytes, usage, false);
        Ok(Slip {
            parameters: create(PARAMETER_BYTES, Usage::UNIFORM | Usage::COPY_DST)?,
            word: create(4, Usage::STORAGE | Usage::COPY_SRC)?,
            read: create(4, Usage::MAP_READ | Usage::COPY_DST)?,
        })
    }

    /// A slip for a submission, and its number. Waits if too many are under way, unless that is `urgent`.
    pub fn slip(&self, urgent: bool) -> Result<(Slip, u32)> {
        let mut state = self.shared.lock();
        while state.under_way >= MOST && !urgent {
            self.shared.device.check()?;
            let waited = self.shared.done.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // Never 0, which a new word is.
        state.number = state.number.checked_add(1).unwrap_or(1);
        let number = state.number;
        if let Some(slip) = state.slips.pop() {
            return Ok((slip, number));
        }
        drop(state);
        // Memory on its way back does not wait.
        Ok((self.new_slip()?, number))
    }

    /// Takes back a slip whose submission failed, or never was.
    pub fn unused(&self, slip: Slip) {
        self.shared.lock().slips.push(slip);
    }

    /// Has `then` done after the submission `index`, which was just made with this slip and number.
    pub fn submitted(
        &self,
        index: wgpu::SubmissionIndex,
        slip: Slip,
        number: u32,
        then: Vec<Then>,
    ) {
        let (sender, mapped) = channel();
        // If nobody listens, nobody wants to know.
        slip.read.map_async(wgpu::MapMode::Read, .., move |outcome| drop(sender.send(outcome)));
        self.shared.lock().under_way += 1;
        let submitted = Submitted { index, number, slip, mapped, then };
        let sender = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        let unsent = match sender.as_ref() {
            Some(sender) => sender.send(submitted).err().map(|unsent| unsent.0),
            None => Some(submitted),
        };
        drop(sender);
        if let Some(submitted) = unsent {
            self.shared.finish(submitted);
        }
    }

    /// Waits until everything submitted is done.
    pub fn close(&self) {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If what was done after a submission was the last use of the card, this is that thread.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread that waits for submissions panicked");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, submitted: Submitted) {
        let Submitted { index, number, slip, mapped, then } = submitted;
        let outcome = self.wait(&index, &mapped).and_then(|()| self.expect_mark(&slip, number));
        let mut state = self.lock();
        state.under_way -= 1;
        if outcome.is_ok() {
            state.slips.push(slip);
        }
        drop(state);
        self.done.notify_all();
        for then in then {
            // Each failure is told as what it is.
            then(match &outcome {
                Ok(()) => Ok(()),
                Err(_) => self.device.check(),
            });
        }
    }

    /// Waits until a submission is done and its mark can be read.
    fn wait(
        &self,
        index: &wgpu::SubmissionIndex,
        mapped: &Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
    ) -> Result<()> {
        self.device.check()?;
        self.device.wait(index)?;
        loop {
            // Another thread's submission may be what calls back.
            match mapped.recv_timeout(PATIENCE) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => {
                    return Err(self.device.lose(format!("reading a mark: {error}")));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.device.check()?;
                    self.device.tidy();
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.device.lose("a submission never ended".into()));
                }
            }
        }
    }

    fn expect_mark(&self, slip: &Slip, number: u32) -> Result<()> {
        let found = match slip.read.get_mapped_range(..4) {
            Ok(view) => bytemuck::pod_read_unaligned::<u32>(&view),
            Err(error) => return Err(self.device.lose(format!("reading a mark: {error}"))),
        };
        slip.read.unmap();
        match found == number {
            true => Ok(()),
            false => Err(self.device.lose(format!(
                "submission {number} did not do all of its work, though the driver says so (its mark is {found})"
            ))),
        }
    }
}
