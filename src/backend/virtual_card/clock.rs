//! Virtual time: how long work takes, when it starts, and what the card's timeline shows of it.
//!
//! Times are given when work is queued, in the order of the calls, so they depend on nothing else: an operation
//! starts when its stream, its engine, what it joined and the thread that queued it are all there. A thread is at
//! the end of what it last waited for.

use std::collections::{BTreeMap, HashMap};
use std::thread::{self, ThreadId};

use super::CardModel;
use super::fault::Call;
use crate::budget::Lease;
use crate::budget::admission::Ticket;
use crate::timeline::{Class, Span, Timeline};

/// What an operation works on, of which its engine and its time follow.
#[derive(Clone, Copy)]
pub(super) enum Work {
    UploadBytes(u64),
    DownloadBytes(u64),
    Elements(u64),
    Butterflies(u64),
    G1Points(u64),
    G2Points(u64),
}

impl Work {
    /// The index of its engine in [`ENGINES`].
    pub(super) fn engine(self) -> usize {
        match self {
            Self::UploadBytes(_) => 0,
            Self::DownloadBytes(_) => 2,
            _ => 1,
        }
    }

    pub(super) fn call(self) -> Call {
        match self {
            Self::UploadBytes(_) | Self::DownloadBytes(_) => Call::Copy,
            _ => Call::Launch,
        }
    }

    fn class(self) -> Class {
        match self {
            Self::UploadBytes(_) | Self::DownloadBytes(_) => Class::Copy,
            Self::Elements(_) | Self::Butterflies(_) => Class::Transform,
            Self::G1Points(_) | Self::G2Points(_) => Class::Msm,
        }
    }

    /// Rounded up: only nothing takes no time.
    fn ns(self, model: &CardModel) -> u64 {
        let (count, per_s) = match self {
            Self::UploadBytes(count) => (count, model.upload_bytes_per_s),
            Self::DownloadBytes(count) => (count, model.download_bytes_per_s),
            Self::Elements(count) => (count, model.elements_per_s),
            Self::Butterflies(count) => (count, model.butterflies_per_s),
            Self::G1Points(count) => (count, model.g1_points_per_s),
            Self::G2Points(count) => (count, model.g2_points_per_s),
        };
        (u128::from(count) * 1_000_000_000).div_ceil(u128::from(per_s)) as u64
    }
}

/// The engines, each of which does one thing at a time.
pub(super) const ENGINES: [&str; 3] = ["upload", "compute", "download"];

/// An operation for people.
pub(super) struct Op {
    pub label: &'static str,
    pub detail: String,
    pub work: Work,
}

/// An operation with its place in virtual time.
pub(super) struct Scheduled {
    pub op: Op,
    pub stream: usize,
    pub start_ns: u64,
    pub end_ns: u64,
}

#[derive(Default)]
pub(super) struct Clock {
    /// When each engine is free again.
    engines: [u64; 3],
    /// How far the host's threads are.
    threads: HashMap<ThreadId, u64>,
    /// The latest return of bytes to the card.
    returned_ns: u64,
    streams: usize,
    leases: HashMap<Ticket, Leased>,
    done: Vec<Scheduled>,
    lost: Vec<u64>,
    /// Bytes taken less bytes returned, by time.
    bytes: BTreeMap<u64, i64>,
}

/// A lease's buffers in virtual time.
#[derive(Default)]
struct Leased {
    /// Bytes of those that somebody has.
    held: u64,
    /// The others: until when they are needed, and their bytes.
    needed: Vec<(u64, u64)>,
}

impl Clock {
    /// The end of what this thread last waited for.
    pub(super) fn of_this_thread(&self) -> u64 {
        self.threads.get(&thread::current().id()).copied().unwrap_or(0)
    }

    /// This thread has waited until `ns`.
    pub(super) fn waited(&mut self, ns: u64) {
        let now_ns = self.threads.entry(thread::current().id()).or_default();
        *now_ns = ns.max(*now_ns);
    }

    /// A new stream's number and clock. Whoever makes it was admitted by now, so not before the bytes were back
    /// that let it in.
    pub(super) fn stream(&mut self) -> (usize, u64) {
        self.waited(self.returned_ns);
        self.streams += 1;
        (self.streams, self.of_this_thread())
    }

    /// Queues `op` on a stream whose work ends at `stream_ns`.
    pub(super) fn schedule(
        &mut self,
        model: &CardModel,
        op: Op,
        stream: usize,
        stream_ns: u64,
    ) -> Scheduled {
        let engine = op.work.engine();
        let start_ns = stream_ns.max(self.engines[engine]).max(self.of_this_thread());
        let end_ns = start_ns + op.work.ns(model);
        self.engines[engine] = end_ns;
        Scheduled { op, stream, start_ns, end_ns }
    }

    pub(super) fn done(&mut self, scheduled: Scheduled) {
        self.done.push(scheduled);
    }

    /// This thread takes bytes of the card, as soon as buffers of the lease that were dropped are no longer needed;
    /// when that is.
    pub(super) fn take(&mut self, lease: &Lease, bytes: u64) -> u64 {
        let mut now_ns = self.of_this_thread();
        let Leased { held, needed } = self.leases.entry(lease.ticket()).or_default();
        needed.retain(|(until_ns, _)| *until_ns > now_ns);
        let mut used = *held + bytes + needed.iter().map(|(_, bytes)| bytes).sum::<u64>();
        needed.sort_unstable();
        let over = needed.iter().take_while(|(until_ns, bytes)| {
            let over = used > lease.allowance();
            if over {
                now_ns = *until_ns;
                used -= bytes;
            }
            over
        });
        let ended = over.count();
        needed.drain(..ended);
        *held += bytes;
        self.waited(now_ns);
        *self.bytes.entry(now_ns).or_default() += bytes as i64;
        now_ns
    }

    /// A buffer of a lease was dropped that is needed until `until_ns`.
    pub(super) fn drop_later(&mut self, lease: Ticket, bytes: u64, until_ns: u64) {
        let Leased { held, needed } = self.leases.entry(lease).or_default();
        *held = held.saturating_sub(bytes);
        needed.push((until_ns, bytes));
    }

    pub(super) fn give_back(&mut self, bytes: u64, at_ns: u64) {
        *self.bytes.entry(at_ns).or_default() -= bytes as i64;
        self.returned_ns = self.returned_ns.max(at_ns);
    }

    /// The card is lost, with `bytes` in use.
    pub(super) fn lose(&mut self, bytes: u64) {
        let last_ns = self.bytes.last_key_value().map_or(0, |(ns, _)| *ns);
        let at_ns = self.now_ns().max(last_ns);
        self.give_back(bytes, at_ns);
        self.lost.push(at_ns);
    }

    /// The end of the last operation that is done.
    pub(super) fn now_ns(&self) -> u64 {
        self.done.iter().map(|done| done.end_ns).max().unwrap_or(0)
    }

    pub(super) fn timeline(&self, model: &CardModel) -> Timeline {
        let mut timeline = Timeline::new(&model.name);
        timeline.limit_bytes = Some(model.memory_bytes);
        let engines = ENGINES.map(|name| timeline.lane(name));
        let streams: Vec<_> =
            (1..=self.streams).map(|i| timeline.lane(&format!("stream {i}"))).collect();
        // Streams finish in an order of their own. Within one, work is in order, and the sort is stable.
        let mut done: Vec<_> = self.done.iter().collect();
        done.sort_by_key(|done| (done.start_ns, done.stream));
        for Scheduled { op, stream, start_ns, end_ns } in done {
            for lane in [engines[op.work.engine()], streams[stream - 1]] {
                timeline.span(Span {
                    lane,
                    label: op.label.into(),
                    detail: op.detail.clone(),
                    class: op.work.class(),
                    start_ns: *start_ns,
                    end_ns: *end_ns,
                });
            }
        }
        let mut in_use = 0;
        for (ns, bytes) in &self.bytes {
            in_use += bytes;
            timeline.bytes("physical", *ns, in_use as u64);
        }
        self.lost.iter().for_each(|ns| timeline.mark(*ns, "device lost"));
        timeline
    }
}
