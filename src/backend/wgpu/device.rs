//! A device and its queue, with errors as values: every creation stands in error scopes, and what no scope sees, or the
//! loss of the device, is kept as the reason why nothing works any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::BACKEND;
use crate::{Error, Result};

/// An open device. Clones of its handles are handles to the same.
pub(super) struct Device {
    raw: wgpu::Device,
    queue: wgpu::Queue,
    lost: Arc<OnceLock<String>>,
    /// Buffers made so far.
    created: AtomicU64,
}

impl Device {
    pub fn new(raw: wgpu::Device, queue: wgpu::Queue) -> Self {
        let lost = Arc::new(OnceLock::new());
        let told = lost.clone();
        raw.set_device_lost_callback(move |reason, message| {
            // Destroyed is what a device is at its regular end, too, when nobody asks any more.
            let _ = told.set(format!("{reason:?}: {message}"));
        });
        let told = lost.clone();
        raw.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            tracing::error!("{BACKEND}: {error}");
            let _ = told.set(error.to_string());
        }));
        Self { raw, queue, lost, created: AtomicU64::new(0) }
    }

    pub fn raw(&self) -> &wgpu::Device {
        &self.raw
    }

    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// An error if the device is lost. All calls that would use it begin with this.
    pub fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => Err(Error::DeviceLost { backend: BACKEND, reason: reason.clone() }),
        }
    }

    /// Says that the device is of no use any more.
    pub fn lose(&self, reason: String) -> Error {
        tracing::error!("{BACKEND}: {reason}");
        let _ = self.lost.set(reason.clone());
        Error::DeviceLost { backend: BACKEND, reason }
    }

    /// Destroys the device, as if its driver had.
    pub fn destroy(&self) {
        self.raw.destroy();
        // The loss is told when all work has ended.
        let _ = self.raw.poll(wgpu::PollType::wait_indefinitely());
    }

    /// Does `work`, which makes something of the device, and returns that, or what the device has against it.
    pub fn try_to<R>(&self, work: impl FnOnce() -> R) -> std::result::Result<R, Box<wgpu::Error>> {
        let scopes = [
            wgpu::ErrorFilter::Validation,
            wgpu::ErrorFilter::Internal,
            wgpu::ErrorFilter::OutOfMemory,
        ]
        .map(|filter| self.raw.push_error_scope(filter));
        let made = work();
        // The last that was pushed is popped first.
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        match errors.collect::<Vec<_>>().into_iter().flatten().next() {
            None => Ok(made),
            Some(error) => {
                // If it is that the device is lost, that is told now.
                self.tidy();
                Err(Box::new(error))
            }
        }
    }

    /// The same with this crate's errors.
    pub fn scoped<R>(&self, operation: &str, work: impl FnOnce() -> R) -> Result<R> {
        self.check()?;
        let made = self.try_to(work).map_err(|error| Error::Device {
            backend: BACKEND,
            operation: operation.into(),
            reason: error.to_string(),
        });
        self.check()?;
        made
    }

    /// A new buffer, zero, of at least `bytes`.
    ///
    /// # Errors
    /// [`Error::Refused`] if the driver has no memory for it.
    pub fn create(
        &self,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
        mapped_at_creation: bool,
    ) -> Result<wgpu::Buffer> {
        self.check()?;
        self.created.fetch_add(1, Ordering::Relaxed);
        let size = bytes.next_multiple_of(super::memory::ALIGNMENT);
        let descriptor =
            wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation };
        let made = self.try_to(|| self.raw.create_buffer(&descriptor));
        self.check()?;
        made.map_err(|error| match *error {
            wgpu::Error::OutOfMemory { .. } => Error::Refused {
                backend: BACKEND,
                label: label.into(),
                bytes: size,
                reason: error.to_string(),
            },
            _ => Error::Device {
                backend: BACKEND,
                operation: format!("making a buffer of {size} bytes for {label}"),
                reason: error.to_string(),
            },
        })
    }

    /// Buffers made so far.
    pub fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// Waits for a submission, which a lost device ends too. Without a limit: after one, wgpu 30 panics ("If the queue is empty …") where
    /// another thread finds the submission done between its two looks at the fence, as happens on a busy machine.
    pub fn wait(&self, index: &wgpu::SubmissionIndex) -> Result<()> {
        let wait = wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: None };
        match self.raw.poll(wait) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.lose(format!("waiting for a submission: {error}"))),
        }
    }

    /// Lets wgpu look after what is done: it frees what was dropped only then.
    pub fn tidy(&self) {
        if let Err(error) = self.raw.poll(wgpu::PollType::Poll) {
            tracing::warn!("{BACKEND}: {error}");
        }
    }
}
