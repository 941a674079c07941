//! What a prover has to do to take part.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::UniformRand;
use ark_groth16::ProvingKey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

#[cfg(feature = "bellperson")]
use crate::bellperson;
use crate::cost::Cost;
use crate::system::{Scalar, System, to_bytes};
use crate::{ark, forebay};

/// A proof, `A | B | C`, each compressed in the zcash encoding.
pub type ProofBytes = [u8; 192];

/// What is proved: a system with its assignment, and the proving key. Both are
/// shared by all provers.
#[derive(Clone)]
pub struct Case {
    pub system: Arc<System>,
    /// The key as ark keeps it; [`crate::key::parameters`] has it in
    /// bellperson's file format.
    pub key: Arc<ProvingKey<Bls12_381>>,
}

/// The `r` and `s` of a proof.
#[derive(Clone, Copy, Debug)]
pub struct Blinding {
    pub r: Scalar,
    pub s: Scalar,
}

impl Blinding {
    /// The blinding of the given run; the same for every prover.
    pub fn of_run(run: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(run);
        Blinding { r: to_bytes(Fr::rand(&mut rng)), s: to_bytes(Fr::rand(&mut rng)) }
    }
}

/// A proof that was made and that verified.
pub struct Proved {
    /// The cost of proving alone: no synthesis, no loading, no verification.
    pub cost: Cost,
    /// The proof, where the prover took the blinding it was given. Key, system
    /// and blinding being the same, all such proofs must be the same too.
    pub proof: Option<ProofBytes>,
}

/// A prover, set up for one [`Case`]: all that does not depend on the blinding
/// and counts as loading or synthesis is done before `prove` is called.
pub trait Prover {
    fn name(&self) -> ProverName;

    /// Makes one proof, verifies it with the prover's own verifier, and returns
    /// what the proving cost. A proof that does not verify is an error.
    fn prove(&mut self, blinding: &Blinding) -> Result<Proved>;
}

/// The provers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProverName {
    Ark,
    Bellperson,
    Forebay,
}

impl ProverName {
    /// Sets this prover up, or returns `None` if it is not built in.
    pub fn set_up(self, case: &Case) -> Result<Option<Box<dyn Prover>>> {
        Ok(match self {
            ProverName::Ark => Some(Box::new(ark::Ark::new(case)?)),
            #[cfg(feature = "bellperson")]
            ProverName::Bellperson => Some(Box::new(bellperson::Bellperson::new(case)?)),
            #[cfg(not(feature = "bellperson"))]
            ProverName::Bellperson => None,
            ProverName::Forebay => forebay::set_up(case)?,
        })
    }
}

impl fmt::Display for ProverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ProverName::Ark => "ark",
            ProverName::Bellperson => "bellperson",
            ProverName::Forebay => "forebay",
        })
    }
}
