//! What goes wrong on a card when it is told to, and how the card says so.

use crate::Error;

use super::BACKEND;

/// Something that goes wrong, the milder before the worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// A launch's result has a wrong bit, in a point one in each coordinate, and nobody is told.
    CorruptLaunch,
    /// A launch fails. [`Error::Device`] comes out at the stream's blocking calls from there on.
    FailLaunch,
    /// A copy fails, in either direction; comes out in the same way.
    FailCopy,
    /// An allocation is refused, [`Error::Refused`], whatever is free.
    RefuseAllocation,
    /// The device is lost at an allocation, copy or launch: [`Error::DeviceLost`] from everything from there on.
    LoseDevice,
}

/// What a driver is asked for that can fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Allocation,
    Copy,
    Launch,
}

impl Fault {
    fn is_of(self, call: Call) -> bool {
        match self {
            Self::CorruptLaunch | Self::FailLaunch => call == Call::Launch,
            Self::FailCopy => call == Call::Copy,
            Self::RefuseAllocation => call == Call::Allocation,
            Self::LoseDevice => true,
        }
    }
}

/// Faults that are still to come, each with the calls of its kind that still go well.
#[derive(Default)]
pub(super) struct Faults(Vec<(Fault, u64)>);

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault, after: u64) {
        self.0.push((fault, after));
    }

    /// Counts a call, and says what goes wrong with it: the worst, if several do.
    pub(super) fn next(&mut self, call: Call) -> Option<Fault> {
        let due = self.0.extract_if(.., |(fault, left)| {
            let hit = fault.is_of(call) && *left == 0;
            *left = left.saturating_sub(fault.is_of(call) as u64);
            hit
        });
        due.map(|(fault, _)| fault).max()
    }
}

/// Why the work of a stream failed. Unlike an [`Error`] it can be told again and again.
#[derive(Clone)]
pub(super) enum Failure {
    /// An operation failed.
    Operation { operation: &'static str, reason: &'static str },
    /// The device is lost.
    Lost,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Operation { operation, reason } => Self::Device {
                backend: BACKEND,
                operation: operation.into(),
                reason: reason.into(),
            },
            Failure::Lost => {
                Self::DeviceLost { backend: BACKEND, reason: "it was told to be lost".into() }
            }
        }
    }
}

/// The calls that a driver would have been asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Allocations, refused ones among them.
    pub allocations: u64,
    /// Buffers given back to the card.
    pub frees: u64,
    /// Copies to the card, those of adopted data among them.
    pub uploads: u64,
    /// Copies from the card.
    pub downloads: u64,
    /// Operations and filled transform tables.
    pub launches: u64,
    /// Questions for the memory that others use.
    pub memory_queries: u64,
    /// Calls that stop the whole device. A reset is one; nothing else of this backend is.
    pub device_syncs: u64,
}
