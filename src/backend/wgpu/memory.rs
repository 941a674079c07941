//! Device memory in segments, from a pool that keeps what was made.
//!
//! 1. A segment is one of wgpu's buffers, bound whole. It holds 2^k elements, as many as fit the largest that may be bound, so
//!    that kernels index within it by 32 bits and the host finds an element by shifts. The last may be shorter.
//! 2. Segments come back zero, when the device is done with them, and are kept by their size: the same work again makes
//!    no new buffer. If the pool would hold more than its limit, the free segments that came back first are given up.
//! 3. Who allocates has leased the bytes, so that what is in use never exceeds the budget.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::device::Device;
use crate::{Error, Result};

/// What sizes of segments are multiples of.
pub(super) const ALIGNMENT: u64 = 256;

/// What segments are used for.
const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

/// `len` elements of `element_bytes` bytes in segments of 2^log_segment.
pub(super) struct Memory {
    segments: Vec<wgpu::Buffer>,
    len: usize,
    element_bytes: u64,
    log_segment: u32,
}

/// Neighbouring elements in one segment.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    /// The segment.
    pub buffer: &'a wgpu::Buffer,
    /// Where they start in it, in bytes.
    pub offset: u64,
    /// Their bytes.
    pub size: u64,
    /// The index of the first among all elements.
    pub start: usize,
    /// How many.
    pub len: usize,
}

impl Memory {
    /// The elements of `range`, segment by segment.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece<'_>> {
        debug_assert!(range.start <= range.end && range.end <= self.len, "elements that there are");
        let mut next = range.start;
        std::iter::from_fn(move || {
            if next == range.end {
                return None;
            }
            let start = next;
            next = range.end.min(self.segment_end(start));
            Some(Piece {
                buffer: &self.segments[start >> self.log_segment],
                offset: self.place(start) as u64 * self.element_bytes,
                size: (next - start) as u64 * self.element_bytes,
                start,
                len: next - start,
            })
        })
    }

    /// The index behind the last element of the segment that element `index` is in.
    pub fn segment_end(&self, index: usize) -> usize {
        ((index >> self.log_segment) + 1) << self.log_segment
    }

    /// Where in its segment element `index` is.
    pub fn place(&self, index: usize) -> usize {
        index & ((1 << self.log_segment) - 1)
    }

    /// The segment that element `index` is in.
    pub fn segment_of(&self, index: usize) -> &wgpu::Buffer {
        &self.segments[index >> self.log_segment]
    }

    /// All segments, and the indices of their elements.
    pub fn segments(&self) -> impl Iterator<Item = (&wgpu::Buffer, Range<usize>)> {
        let elements =
            |i: usize| i << self.log_segment..((i + 1) << self.log_segment).min(self.len);
        self.segments.iter().enumerate().map(move |(i, segment)| (segment, elements(i)))
    }

    /// Elements of a whole segment, as a power of two.
    pub fn log_segment(&self) -> u32 {
        self.log_segment
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

/// See the module's text.
pub(super) struct Pool {
    device: Arc<Device>,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one that came back first in front.
    free: VecDeque<wgpu::Buffer>,
    /// Bytes of all segments, free or not.
    held: u64,
}

impl Pool {
    /// One that holds at most `limit` bytes.
    pub fn new(device: &Arc<Device>, limit: u64) -> Self {
        Self { device: device.clone(), limit, state: Mutex::default() }
    }

    /// `len` zero elements of `element_bytes` bytes in segments of at most `segment_bytes`. The bytes are leased.
    ///
    /// # Errors
    /// [`Error::Refused`] if the driver has no memory.
    pub fn take(
        &self,
        label: &str,
        len: usize,
        element_bytes: usize,
        segment_bytes: u64,
    ) -> Result<Memory> {
        debug_assert!(element_bytes.is_multiple_of(4), "buffers are copied by words");
        let element_bytes = element_bytes as u64;
        let log_segment = (segment_bytes / element_bytes).ilog2();
        let mut memory = Memory { segments: Vec::new(), len, element_bytes, log_segment };
        for index in 0..len.div_ceil(1 << log_segment) {
            let elements = (len - (index << log_segment)).min(1 << log_segment);
            match self.segment(label, elements as u64 * element_bytes) {
                Ok(segment) => memory.segments.push(segment),
                Err(error) => {
                    // Who was refused is not the only one to whom memory is short.
                    self.forget(memory);
                    self.device.tidy();
                    return Err(error);
                }
            }
        }
        Ok(memory)
    }

    fn segment(&self, label: &str, bytes: u64) -> Result<wgpu::Buffer> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let mut state = self.lock();
        if let Some(at) = state.free.iter().position(|segment| segment.size() == bytes) {
            return Ok(state.free.swap_remove_back(at).expect("it was just there"));
        }
        while state.held + bytes > self.limit && state.give_up_one() {}
        state.held += bytes;
        drop(state);
        let made = match self.device.create(label, bytes, USAGE, false) {
            Err(Error::Refused { .. }) => {
                let mut state = self.lock();
                while state.give_up_one() {}
                drop(state);
                self.device.tidy();
                self.device.create(label, bytes, USAGE, false)
            }
            made => made,
        };
        if made.is_err() {
            self.lock().held -= bytes;
        }
        made
    }

    /// Takes back memory that is zero, and that the device is done with.
    pub fn put(&self, memory: Memory) {
        self.lock().free.extend(memory.segments);
    }

    /// Gives memory back to the driver, zero or not.
    pub fn forget(&self, memory: Memory) {
        self.lock().held -= memory.segments.iter().map(wgpu::Buffer::size).sum::<u64>();
    }

    /// Bytes that the pool has of the device.
    pub fn held_bytes(&self) -> u64 {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn give_up_one(&mut self) -> bool {
        match self.free.pop_front() {
            Some(segment) => {
                self.held -= segment.size();
                true
            }
            None => false,
        }
    }
}
