//! The peer that this program is built for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bellperson::groth16::{
    PreparedVerifyingKey, VerifyingKey, prepare_verifying_key, verify_proof,
};
use blstrs::Bls12;
use peers::circuit::{Converted, SystemCircuit, to_fr};
use peers::clock::{CLOCK, ProofClock};
use peers::prover::Blinding;
use peers::system::System;

#[cfg(all(feature = "bellperson", not(feature = "supraseal")))]
pub use with_own_kernels::NAME;
#[cfg(all(feature = "bellperson", not(feature = "supraseal")))]
use with_own_kernels::{Parameters, prove, read};
#[cfg(feature = "supraseal")]
pub use with_supraseal::NAME;
#[cfg(feature = "supraseal")]
use with_supraseal::{Parameters, prove, read};

#[cfg(all(feature = "bellperson", not(feature = "supraseal")))]
mod with_own_kernels {
    use super::*;

    pub const NAME: &str = "bellperson";
    pub type Parameters = bellperson::groth16::Parameters<Bls12>;

    pub fn read(path: &Path) -> Result<Parameters> {
        let bytes = std::fs::read(path)?;
        Ok(Parameters::read(&bytes[..], false)?)
    }

    pub fn prove(
        circuit: SystemCircuit,
        parameters: &Parameters,
        r: blstrs::Scalar,
        s: blstrs::Scalar,
    ) -> Result<bellperson::groth16::Proof<Bls12>> {
        Ok(bellperson::groth16::create_proof(circuit, parameters, r, s)?)
    }
}

#[cfg(feature = "supraseal")]
mod with_supraseal {
    use super::*;

    pub const NAME: &str = "supraseal-c2";
    pub type Parameters = bellperson::groth16::SuprasealParameters<Bls12>;

    pub fn read(path: &Path) -> Result<Parameters> {
        Ok(Parameters::new(path.to_owned())?)
    }

    pub fn prove(
        circuit: SystemCircuit,
        parameters: &Parameters,
        r: blstrs::Scalar,
        s: blstrs::Scalar,
    ) -> Result<bellperson::groth16::Proof<Bls12>> {
        // The type that `create_proof` has no use for.
        Ok(bellperson::groth16::create_proof::<_, _, &Parameters>(circuit, parameters, r, s)?)
    }
}

/// The peer with its key loaded.
pub struct Peer {
    parameters: Parameters,
    verifier: PreparedVerifyingKey<Bls12>,
    system: Arc<Converted>,
}

impl Peer {
    /// Reads the key from a file in bellperson's format.
    pub fn new(system: &System, params: &Path) -> Result<Self> {
        ProofClock::install()?;
        let file = std::io::BufReader::new(std::fs::File::open(params)?);
        Ok(Self {
            parameters: read(params).with_context(|| format!("{NAME} does not read the key"))?,
            verifier: prepare_verifying_key(&VerifyingKey::read(file)?),
            system: Arc::new(Converted::new(system)?),
        })
    }

    /// The time of one proof, by its own clock and without the synthesis, and the proof, which verified.
    pub fn prove(&self, blinding: &Blinding) -> Result<(Duration, [u8; 192])> {
        let (r, s) = (to_fr(&blinding.r)?, to_fr(&blinding.s)?);
        CLOCK.reset();
        let proof = prove(SystemCircuit(self.system.clone()), &self.parameters, r, s)?;
        let time = CLOCK.cost()?.wall;
        let verified = verify_proof(&self.verifier, &proof, self.system.publics())?;
        ensure!(verified, "{NAME}'s proof does not verify");
        let mut bytes = [0; 192];
        proof.write(&mut bytes[..])?;
        Ok((time, bytes))
    }
}
