//! Circuits, recorded while they are synthesised: what a proof needs, and what a key is made from.
//!
//! A recorder is the constraint system that a circuit is synthesised into. There are two, whatever the circuit is written with
//! (bellpepper's, [`bellpepper02`](crate::bellpepper02) and [`bellpepper04`](crate::bellpepper04)):
//!
//! - [`Recording`] takes values, evaluates each row when it is enforced, and keeps all of it compact: an [`Assignment`](crate::witness::Assignment) with rows;
//! - [`Structure`] takes no values and keeps the rows' coefficients, as [`Constraints`]: a key's matrices, or all that a setup needs.
//!
//! Both follow bellman's prover, so that proofs are bellperson's byte for byte: input 0 is the constant 1; after the circuit's own rows
//! comes one row `x_i * 0 = 0` for each input; a variable stands in a matrix if its coefficient there is not zero in some row, after equal
//! variables of a row were added up; and what one system is extended by loses its own constant 1, which becomes the first one's.

mod constraints;
mod recording;

use crate::compact::{BLOCK, Block};
use crate::field::Fr;
use crate::key::ProvingKey;

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

/// The most bytes that an assignment for `key` takes, whatever its values: all of them wide, as are the rows where the key has no
/// matrices.
pub fn most_bytes(key: &ProvingKey) -> u64 {
    let wide = |len: usize| (len * Fr::BYTES + len.div_ceil(BLOCK) * size_of::<Block>()) as u64;
    let set = |len: usize| 8 * len.div_ceil(64) as u64;
    let rows = 1 << key.log_n;
    let of_rows = match key.matrices {
        Some(_) => 0,
        None => 2 * wide(rows) + 2 * set(key.variables - key.inputs) + set(key.inputs),
    };
    wide(key.variables) + of_rows
}
