//! Locks and threads: the standard library's, or loom's under `--cfg loom`, which runs
//! `tests/budget_loom.rs` through every interleaving.

#[cfg(loom)]
pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub(super) use loom::thread::{ThreadId, current};
#[cfg(not(loom))]
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::thread::{ThreadId, current};
