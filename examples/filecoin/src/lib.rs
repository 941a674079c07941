//! Filecoin's proofs through forebay: the circuits are storage-proofs', the proofs forebay's, the verifier bellperson's.
//!
//! 1. [`window_post`], [`winning_post`] and [`porep`]: a [`statement`] each, from storage-proofs' public functions;
//! 2. [`mod@key`]: made and kept in a folder;
//! 3. [`mod@prove`]: the engine.

#![warn(missing_docs)]

pub mod key;
pub mod porep;
pub mod prove;
pub mod statement;
pub mod window_post;
pub mod winning_post;
