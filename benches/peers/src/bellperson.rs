//! The second peer: bellperson on the CPU.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bellperson::groth16::{
    Parameters, PreparedVerifyingKey, create_proof, prepare_verifying_key, verify_proof,
};
use blstrs::Bls12;

use crate::circuit::{Converted, SystemCircuit, to_fr};
use crate::clock::{CLOCK, ProofClock};
use crate::key;
use crate::prover::{Blinding, Case, Proved, Prover, ProverName};

/// bellperson with its parameters loaded.
pub struct Bellperson {
    parameters: Parameters<Bls12>,
    verifier: PreparedVerifyingKey<Bls12>,
    system: Arc<Converted>,
}

impl Bellperson {
    pub fn new(case: &Case) -> Result<Self> {
        ProofClock::install()?;
        let bytes = key::parameters(&case.key)?;
        let parameters = Parameters::<Bls12>::read(&bytes[..], false)
            .context("bellperson does not read the key")?;
        Ok(Bellperson {
            verifier: prepare_verifying_key(&parameters.vk),
            parameters,
            system: Arc::new(Converted::new(&case.system)?),
        })
    }
}

impl Prover for Bellperson {
    fn name(&self) -> ProverName {
        ProverName::Bellperson
    }

    fn prove(&mut self, blinding: &Blinding) -> Result<Proved> {
        let (r, s) = (to_fr(&blinding.r)?, to_fr(&blinding.s)?);
        let circuit = SystemCircuit(self.system.clone());
        CLOCK.reset();
        let proof = create_proof(circuit, &self.parameters, r, s)?;
        let cost = CLOCK.cost()?;
        ensure!(
            verify_proof(&self.verifier, &proof, self.system.publics())?,
            "bellperson's proof does not verify"
        );
        let mut bytes = [0; 192];
        proof.write(&mut bytes[..])?;
        Ok(Proved { cost, proof: Some(bytes) })
    }
}
