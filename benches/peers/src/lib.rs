//! Groth16 provers for BLS12-381, side by side on one and the same system.
//!
//! [`system`] makes the constraint system, [`key`] its proving key, [`prover`]
//! says what a prover has to do, and [`ark`], [`bellperson`] and [`forebay`] do
//! it. [`cost`] is the stopwatch and [`report`] the result.

pub mod ark;
pub mod bellperson;
pub mod cost;
pub mod forebay;
pub mod key;
pub mod prover;
pub mod report;
pub mod system;
