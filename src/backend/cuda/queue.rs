//! Streams of work, and the ends of buffers in them.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::arena::Block;
use super::driver::{Driver, Event, Stream};
use super::store::Store;
use crate::budget::Reservation;
use crate::{Error, Result};

/// A stream, and a thread that sleeps until blocks dropped in it are wiped. Each stream has its own, so that work that
/// takes long holds up only what is behind it.
pub(super) struct Queue {
    stream: Stream,
    number: usize,
    ends: Mutex<Option<Sender<End>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A block to take back when `done` has happened.
struct End {
    done: Event,
    block: Block,
    reservation: Reservation,
}

impl Queue {
    /// Number `number` of a card's.
    pub fn new(driver: &Arc<Driver>, store: &Arc<Store>, number: usize) -> Result<Self> {
        let stream = driver.stream()?;
        let (sender, ends) = channel::<End>();
        let store = store.clone();
        let give_back = move || {
            for End { done, block, reservation } in ends {
                let block = match done.wait() {
                    Ok(()) => Some(block),
                    Err(error) => {
                        tracing::error!("a buffer may not be wiped, and is lost: {error}");
                        None
                    }
                };
                drop(done);
                store.put(block, reservation);
            }
        };
        let thread = std::thread::Builder::new().name("cuda buffers".into()).spawn(give_back);
        let thread = thread.map_err(|error| Error::Device {
            backend: "cuda",
            operation: "starting a thread".into(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            stream,
            number,
            ends: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    pub fn number(&self) -> usize {
        self.number
    }

    /// Work put here from now on starts after all work in `other` until now.
    pub fn wait_for(&self, other: &Self) -> Result<()> {
        self.stream.wait(&other.stream.record()?)
    }

    /// Wipes a block that was used in this queue and in `others`, and gives it back when all of that is done.
    pub fn retire(
        &self,
        others: &[Arc<Self>],
        store: &Store,
        block: Block,
        reservation: Reservation,
    ) {
        reservation.returning();
        let wipe = || {
            others.iter().try_for_each(|other| self.wait_for(other))?;
            self.stream.wipe(store.address(&block), block.len)?;
            self.stream.record()
        };
        match wipe() {
            Ok(done) => {
                let end = End { done, block, reservation };
                let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
                let unsent = match ends.as_ref() {
                    Some(ends) => ends.send(end).err().map(|unsent| unsent.0),
                    None => Some(end),
                };
                drop(ends);
                // The thread has panicked: nobody would say when the device is done.
                if let Some(End { reservation, .. }) = unsent {
                    store.put(None, reservation);
                }
            }
            Err(error) => {
                tracing::error!("a buffer cannot be wiped, and is lost: {error}");
                store.put(None, reservation);
            }
        }
    }

    /// Waits until all blocks are back.
    pub fn close(&self) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If giving a block back ended the last use of the card, this is that thread.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread that gives buffers back panicked");
        }
    }
}
