//! Circuits, recorded while they are synthesised: what a proof needs, and what a key is made from.
//!
//! A recorder is the constraint system that a circuit is synthesised into. There are two, whatever the circuit is written with (the
//! modules `bellpepper02` and `bellpepper04` are behind features):
//!
//! - [`Recording`] takes values, evaluates each row when it is enforced, and keeps all of it compact: an [`Assignment`] with rows;
//! - [`Structure`] takes no values and keeps the rows' coefficients, as [`Constraints`]: a key's matrices, or all that a setup needs.
//!
//! Both follow bellman's prover, so that proofs are bellperson's byte for byte: input 0 is the constant 1; after the circuit's own rows
//! comes one row `x_i * 0 = 0` for each input; a variable stands in a matrix if its coefficient there is not zero in some row, after equal
//! variables of a row were added up; and what one system is extended by loses its own constant 1, which becomes the first one's.

mod constraints;
mod recording;

use std::sync::{Arc, OnceLock};

use crate::compact;
use crate::key::ProvingKey;
use crate::witness::Assignment;

pub use self::constraints::{Constraints, Structure};
pub use self::recording::Recording;

/// A variable, as circuits count them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variable {
    /// The constant 1 is number 0, public inputs follow.
    Input(usize),
    /// A private variable.
    Aux(usize),
}

/// How large the assignments of one circuit are: as large as its key allows, until one was recorded. Clones know the same.
#[derive(Clone)]
pub struct Sizes {
    most: u64,
    known: Arc<OnceLock<Known>>,
}

/// The counts of an assignment that was recorded.
#[derive(Clone, Copy)]
struct Known {
    values: compact::Counts,
    /// Of A and B.
    rows: Option<[compact::Counts; 2]>,
    bytes: u64,
}

impl Sizes {
    /// Nothing but the circuit's key is known.
    pub fn of_key(key: &ProvingKey) -> Self {
        let wide = |len: usize| compact::Counts { len, small: 0, wide: len }.bytes();
        let set = |len: usize| 8 * len.div_ceil(64) as u64;
        let of_rows = match key.matrices {
            Some(_) => 0,
            None => {
                let sets = 2 * set(key.variables - key.inputs) + set(key.inputs);
                2 * wide(1 << key.log_n) + sets
            }
        };
        Self { most: wide(key.variables) + of_rows, known: Arc::default() }
    }

    /// Bytes that the next assignment takes, as far as can be told: those of the first one and an eighth more, in which values may
    /// differ; before that the most, as if every value were wide.
    pub fn bytes(&self) -> u64 {
        self.known.get().map_or(self.most, |known| (known.bytes + known.bytes / 8).min(self.most))
    }

    /// Learns from an assignment, if it is the first one.
    pub fn learn(&self, assignment: &Assignment) {
        let rows = assignment.rows.as_ref();
        self.known.get_or_init(|| Known {
            values: assignment.values.counts(),
            rows: rows.map(|rows| [&rows.a, &rows.b].map(|side| side.counts())),
            bytes: assignment.bytes(),
        });
    }
}
