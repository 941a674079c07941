//! Our own prover, on its CPU backend, with the key in bellman's format and the rows' values as bellperson's
//! synthesis leaves them. The span includes what `prove` always does: checking every row and verifying the proof.

use std::sync::Arc;

use anyhow::Result;
use forebay::backend::cpu::Cpu;
use forebay::field::Fr;
use forebay::format::{Silent, bellman::Params, zkey::Options};
use forebay::groth16;
use forebay::key::{Density, ProvingKey};
use forebay::witness::{Assignment, Rows, Secret};

use crate::cost::Cost;
use crate::key::parameters;
use crate::prover::{Blinding, Case, Proved, Prover, ProverName};

/// forebay with a key and a synthesised system.
pub struct Forebay {
    backend: Cpu,
    key: ProvingKey,
    assignment: Assignment,
}

/// Sets the prover up for `case`.
pub fn set_up(case: &Case) -> Result<Option<Box<dyn Prover>>> {
    let system = &case.system;
    let params = parameters(&case.key)?;
    let options = Options { check_points: false, progress: &Silent };
    let key = Params::open(&params[..])?.read(options)?;
    let evaluated = system.evaluate();
    let densities = system.densities();
    let rows = Rows {
        a: secret(evaluated.a.iter().map(scalar)),
        b: secret(evaluated.b.iter().map(scalar)),
        c: secret(evaluated.c.iter().map(scalar)),
        a_aux: Density::from_bits(densities.a_aux),
        b_inputs: Density::from_bits(densities.b_input),
        b_aux: Density::from_bits(densities.b_aux),
    };
    let values = secret(system.assignment.iter().map(scalar));
    let assignment = Assignment { values, rows: Some(rows) };
    Ok(Some(Box::new(Forebay { backend: Cpu::open(), key, assignment })))
}

impl Prover for Forebay {
    fn name(&self) -> ProverName {
        ProverName::Forebay
    }

    fn prove(&mut self, blinding: &Blinding) -> Result<Proved> {
        let blinding = groth16::Blinding::fixed_for_testing(scalar(&blinding.r), scalar(&blinding.s));
        let (proof, cost) =
            Cost::of(|| groth16::prove(&self.backend, &self.key, &self.assignment, &blinding, &Silent));
        Ok(Proved { cost, proof: Some(proof?.to_bytes()) })
    }
}

fn secret(values: impl Iterator<Item = Fr>) -> Secret {
    Arc::new(values.collect::<Vec<_>>().into())
}

fn scalar(bytes: &[u8; 32]) -> Fr {
    Fr::from_le_bytes(bytes).expect("a canonical scalar")
}
