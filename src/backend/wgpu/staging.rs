//! The way between the host's memory and the device's: buffers that both can reach, of fixed size, in two rings.
//!
//! wgpu has such buffers of its own, but when the memory for those is short, the device is lost. A slot is used again when
//! the device is done with it, and wiped when the card is closed.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::prelude::*;

use super::Gpu;
use super::commands::Commands;
use super::device::Device;
use super::memory::Memory;
use crate::{Error, Result};

/// Bytes of a slot.
const SLOT_BYTES: usize = 16 << 20;

/// One that the host fills, one that the device reads, and two for another thread's copy.
const SLOTS: usize = 4;

/// What one thread copies of a slot; less is not worth another thread.
const PIECE_BYTES: usize = 1 << 20;

/// How long to wait before looking whether the device is lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Slots, the one that was used longest ago first; those in somebody's hands are missing.
#[derive(Clone)]
pub(super) struct Ring(Arc<Shared>);

struct Shared {
    device: Arc<Device>,
    slots: Mutex<VecDeque<wgpu::Buffer>>,
    given: Condvar,
}

impl Ring {
    fn new(device: &Arc<Device>, usage: wgpu::BufferUsages, mapped: bool) -> Result<Self> {
        let slot = |_| device.create("staging", SLOT_BYTES as u64, usage, mapped);
        let slots = (0..SLOTS).map(slot).collect::<Result<_>>()?;
        let (device, slots) = (device.clone(), Mutex::new(slots));
        Ok(Self(Arc::new(Shared { device, slots, given: Condvar::new() })))
    }

    /// One for uploads, whose free slots are mapped.
    pub fn of_uploads(device: &Arc<Device>) -> Result<Self> {
        use wgpu::BufferUsages as Usage;
        Self::new(device, Usage::MAP_WRITE | Usage::COPY_SRC, true)
    }

    /// One for downloads, whose free slots are not.
    pub fn of_downloads(device: &Arc<Device>) -> Result<Self> {
        use wgpu::BufferUsages as Usage;
        Self::new(device, Usage::MAP_READ | Usage::COPY_DST, false)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<wgpu::Buffer>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<wgpu::Buffer> {
        let mut slots = self.lock();
        loop {
            self.0.device.check()?;
            if let Some(slot) = slots.pop_front() {
                return Ok(slot);
            }
            let waited = self.0.given.wait_timeout(slots, PATIENCE);
            slots = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give(&self, slot: wgpu::Buffer) {
        self.lock().push_back(slot);
        self.0.given.notify_one();
    }

    /// What gives a slot back when it is mapped.
    fn give_when_mapped(
        &self,
        slot: &wgpu::Buffer,
    ) -> impl FnOnce(std::result::Result<(), wgpu::BufferAsyncError>) + Send + 'static {
        let (ring, slot) = (self.clone(), slot.clone());
        // If it cannot be mapped, the device is lost.
        move |mapped| {
            if mapped.is_ok() {
                ring.give(slot)
            }
        }
    }

    /// Copies `source` to the bytes of `target` from element `at` on. `source` is taken on return.
    pub fn upload(
        &self,
        gpu: &Gpu,
        source: &[u8],
        target: &Memory,
        at: usize,
        element_bytes: usize,
    ) -> Result<()> {
        let per_slot = SLOT_BYTES / element_bytes;
        let mut start = at;
        for bytes in source.chunks(per_slot * element_bytes) {
            let slot = self.take()?;
            if let Err(error) = fill(&gpu.device, &slot, bytes) {
                self.give(slot);
                return Err(error);
            }
            slot.unmap();
            let mut commands = Commands::new(gpu);
            let end = start + bytes.len() / element_bytes;
            let mut from = 0;
            for piece in target.pieces(start..end) {
                commands.copy((&slot, from), (piece.buffer, piece.offset), piece.size);
                from += piece.size;
            }
            commands.map(&slot, wgpu::MapMode::Write, self.give_when_mapped(&slot));
            if let Err(error) = commands.submit() {
                slot.map_async(wgpu::MapMode::Write, .., self.give_when_mapped(&slot));
                return Err(error);
            }
            start = end;
        }
        Ok(())
    }

    /// Copies from the elements of `source` from `at` on to `target`, and waits for that.
    pub fn download(
        &self,
        gpu: &Gpu,
        source: &Memory,
        at: usize,
        element_bytes: usize,
        target: &mut [u8],
    ) -> Result<()> {
        let per_slot = SLOT_BYTES / element_bytes;
        let mut start = at;
        let mut going: Option<(Reading, &mut [u8])> = None;
        for bytes in target.chunks_mut(per_slot * element_bytes) {
            // Who holds a slot does not wait for another: two who do could wait for each other.
            let free = match &going {
                None => Some(self.take()?),
                Some(_) => self.lock().pop_front(),
            };
            let slot = match free {
                Some(slot) => slot,
                None => {
                    let (reading, bytes) = going.take().expect("it has the slot");
                    reading.finish(|mapped| copy_out(mapped, bytes))?;
                    self.take()?
                }
            };
            let end = start + bytes.len() / element_bytes;
            let mut commands = Commands::new(gpu);
            let mut to = 0;
            for piece in source.pieces(start..end) {
                commands.copy((piece.buffer, piece.offset), (&slot, to), piece.size);
                to += piece.size;
            }
            let reading = Reading::submit(commands, slot, to, Some(self.clone()))?;
            if let Some((reading, bytes)) = going.replace((reading, bytes)) {
                reading.finish(|mapped| copy_out(mapped, bytes))?;
            }
            start = end;
        }
        match going {
            Some((reading, bytes)) => reading.finish(|mapped| copy_out(mapped, bytes)),
            None => Ok(()),
        }
    }

    /// Wipes the free slots; nobody has another any more.
    pub fn wipe(&self) {
        for slot in self.lock().drain(..) {
            if !slot.usage().contains(wgpu::BufferUsages::MAP_WRITE) {
                continue;
            }
            if let Ok(mut view) = slot.get_mapped_range_mut(..) {
                view.slice(..).fill(0);
            }
        }
    }
}

/// Copies `bytes` to the first bytes of a mapped slot, on several threads.
fn fill(device: &Device, slot: &wgpu::Buffer, bytes: &[u8]) -> Result<()> {
    let piece = |(i, bytes): (usize, &[u8])| {
        let at = (i * PIECE_BYTES) as u64;
        let view = slot.get_mapped_range_mut(at..at + bytes.len() as u64);
        view.map(|mut view| view.copy_from_slice(bytes)).map_err(|error| gone(device, &error))
    };
    match bytes.len() < 2 * PIECE_BYTES {
        true => bytes.chunks(PIECE_BYTES).enumerate().try_for_each(piece),
        false => bytes.par_chunks(PIECE_BYTES).enumerate().try_for_each(piece),
    }
}

fn copy_out(mapped: &[u8], target: &mut [u8]) {
    if target.len() < 2 * PIECE_BYTES {
        target.copy_from_slice(mapped);
    } else {
        let pieces = mapped.par_chunks(PIECE_BYTES).zip(target.par_chunks_mut(PIECE_BYTES));
        pieces.for_each(|(source, target)| target.copy_from_slice(source));
    }
}

/// A slot that is ours cannot be reached only if its device is gone, which may not have been told yet.
fn gone(device: &Device, error: &impl std::fmt::Display) -> Error {
    device.check().err().unwrap_or_else(|| device.lose(format!("reaching staged bytes: {error}")))
}

/// Bytes on their way to the host.
pub(super) struct Reading {
    device: Arc<Device>,
    buffer: wgpu::Buffer,
    bytes: u64,
    done: Receiver<Result<()>>,
    mapped: Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
    /// Where the buffer goes afterwards.
    ring: Option<Ring>,
}

impl Reading {
    /// Submits `commands`, which copy to the first `bytes` bytes of `buffer`.
    pub fn submit(
        mut commands: Commands<'_>,
        buffer: wgpu::Buffer,
        bytes: u64,
        ring: Option<Ring>,
    ) -> Result<Self> {
        let device = commands.device().clone();
        let (sender, done) = channel();
        commands.then(move |outcome| drop(sender.send(outcome)));
        let (sender, mapped) = channel();
        commands.map(&buffer, wgpu::MapMode::Read, move |outcome| drop(sender.send(outcome)));
        match commands.submit() {
            Ok(()) => Ok(Self { device, buffer, bytes, done, mapped, ring }),
            Err(error) => {
                ring.iter().for_each(|ring| ring.give(buffer.clone()));
                Err(error)
            }
        }
    }

    /// Waits, and gives the bytes to `read`.
    pub fn finish<R>(self, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        // First whether the work was done at all.
        self.receive(&self.done)??;
        self.receive(&self.mapped)?.map_err(|error| gone(&self.device, &error))?;
        let result = {
            let view = self
                .buffer
                .get_mapped_range(..self.bytes)
                .map_err(|error| gone(&self.device, &error))?;
            read(&view)
        };
        self.buffer.unmap();
        if let Some(ring) = &self.ring {
            ring.give(self.buffer.clone());
        }
        Ok(result)
    }

    fn receive<T>(&self, receiver: &Receiver<T>) -> Result<T> {
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Timeout) => self.device.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(gone(&self.device, &"the submission was dropped"));
                }
            }
        }
    }
}
