//! Groth16 over BLS12-381: keys and witnesses of circom and bellman in, verified proofs out.
//!
//! One prover is written over a [`backend::Backend`] of buffers and four operations, `matvec`, `ntt`,
//! `quotient` and `msm`. The modules in reading order:
//!
//! 1. [`field`] and [`curve`]: the arithmetic of the host, and the constants of every kernel;
//! 2. [`mod@format`]: the files of other people's tools;
//! 3. [`key`] and [`witness`]: what a proof is made from, in the form that is computed with, and [`mod@array`]: how a key holds it;
//!    [`circuit`] makes both from circuits as they are synthesised (`bellpepper02`, `bellpepper04`, `bellperson027`);
//! 4. [`compact`]: how vectors are held and staged; [`budget`] and [`backend`]: the seam, device memory in
//!    leases and operations on streams;
//! 5. [`plan`]: what a proof needs of a device, [`groth16`]: the prover, [`engine`]: many proofs on a few
//!    devices, and [`proof`]: the result and its verifier;
//! 6. [`setup`]: development keys, [`selftest`]: known answers, and [`compare`]: one proof on several backends, stage by stage;
//! 7. [`profile`]: circuits by their counts, to plan and measure without them; [`timeline`]: what happened when, and [`simulate`]: what would happen on a card, in virtual time.
#![warn(missing_docs)]

pub mod array;
pub mod backend;
#[cfg(any(feature = "bellpepper02", feature = "bellpepper04"))]
mod bellpepper;
#[cfg(any(feature = "bellperson026", feature = "bellperson027"))]
mod bellperson;
mod blst;
pub mod budget;
pub mod bytes;
mod cache;
pub mod circuit;
pub mod compact;
pub mod compare;
pub mod curve;
pub mod engine;
pub mod error;
pub mod field;
pub mod format;
pub mod groth16;
pub mod key;
pub mod plan;
pub mod profile;
pub mod proof;
pub mod selftest;
pub mod setup;
pub mod simulate;
pub mod timeline;
pub mod witness;

#[cfg(feature = "bellpepper02")]
pub use bellpepper::bellpepper02;
#[cfg(feature = "bellpepper04")]
pub use bellpepper::bellpepper04;
#[cfg(feature = "bellperson026")]
pub use bellperson::bellperson026;
#[cfg(feature = "bellperson027")]
pub use bellperson::bellperson027;
pub use error::{Error, Result};
