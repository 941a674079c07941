//! Filecoin's proofs through forebay: the circuits are storage-proofs', the proofs forebay's, the verifier bellperson's.

#![warn(missing_docs)]

pub mod porep;
pub mod statement;
pub mod window_post;
pub mod winning_post;
