//! The file formats of other people's tools and our own, each with a strict reader: structure, lengths against
//! the file, index ranges and canonical numbers are checked before anything is allocated from them.
//!
//! A reader works on a [`Source`], so that a file is read piece by piece (a key's file never stands
//! in memory beside the key) and tests and fuzzers can read from bytes. The one format of our own, [`fbkey`], is mapped instead.

pub mod arkworks;
pub mod bellman;
pub mod fbkey;
pub mod iden3;
pub mod json;
mod kind;
pub(crate) mod points;
pub mod r1cs;
mod scratch;
pub mod source;
pub mod wtns;
pub mod zkey;

pub use kind::Kind;
pub use source::{Cursor, FileSource, Source};

use crate::{Error, Result};

/// Told how far long work is (the command line draws it), and asked whether it goes on.
pub trait Progress: Sync {
    /// A stage called `what` of `total` steps begins.
    fn begin(&self, what: &str, total: u64);
    /// `steps` more steps of the current stage are done.
    fn advance(&self, steps: u64);
    /// A part of a proof begins.
    fn stage(&self, _name: &'static str) {}
    /// Asked between parts of a proof: an error ends the work with that error.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Shows nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
}

/// `count` items of `bytes` bytes must be exactly the `have` bytes at `place`.
pub(crate) fn expect_length(
    place: &str,
    have: u64,
    count: u64,
    bytes: u64,
    what: &str,
) -> Result<()> {
    let need = u128::from(count) * u128::from(bytes);
    if u128::from(have) == need {
        return Ok(());
    }
    Err(Error::invalid(place, format!("{have} bytes"), format!("{need} bytes ({count} {what})")))
}
