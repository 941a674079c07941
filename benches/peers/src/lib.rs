//! Groth16 provers for BLS12-381, side by side on one and the same system.
//!
//! [`system`] makes the constraint system, [`key`] its proving key, [`prover`]
//! says what a prover has to do, and [`ark`], [`bellperson`] and [`forebay`] do
//! it. [`cost`] is the stopwatch and [`report`] the result.
//!
//! `gpu/proofs` does the same on a card. There bellperson is another one, so that it can be left out here; what both
//! of it are given is in [`circuit`] and [`clock`].

pub mod ark;
#[cfg(feature = "bellperson")]
pub mod bellperson;
pub mod circuit;
pub mod clock;
pub mod cost;
pub mod forebay;
pub mod key;
pub mod prover;
pub mod report;
pub mod system;
