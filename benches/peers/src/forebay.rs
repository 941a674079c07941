//! Our own prover, on its CPU backend, with the key in bellman's format and the rows' values as bellperson's
//! synthesis leaves them, packed. The span includes what `prove` always does: expanding them and verifying the proof.

use anyhow::Result;
use forebay::backend::cpu::Cpu;
use forebay::field::Fr;
use forebay::format::{Silent, bellman::Params, zkey::Options};
use forebay::groth16;
use forebay::key::{Density, ProvingKey};
use forebay::witness::{Assignment, Rows};

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
    let scalars = |values: &[[u8; 32]]| values.iter().map(scalar).collect::<Vec<_>>();
    let rows = Rows::new(
        &scalars(&evaluated.a),
        &scalars(&evaluated.b),
        &scalars(&evaluated.c),
        Density::from_bits(densities.a_aux),
        Density::from_bits(densities.b_input),
        Density::from_bits(densities.b_aux),
    )?;
    let mut assignment = Assignment::from_witness(&scalars(&system.assignment));
    assignment.rows = Some(rows);
    Ok(Some(Box::new(Forebay { backend: Cpu::open(), key, assignment })))
}

impl Prover for Forebay {
    fn name(&self) -> ProverName {
        ProverName::Forebay
    }

    fn prove(&mut self, blinding: &Blinding) -> Result<Proved> {
        let blinding =
            groth16::Blinding::fixed_for_testing(scalar(&blinding.r), scalar(&blinding.s));
        let (proof, cost) = Cost::of(|| {
            groth16::prove(&self.backend, &self.key, &self.assignment, &blinding, &Silent)
        });
        Ok(Proved { cost, proof: Some(proof?.to_bytes()) })
    }
}

fn scalar(bytes: &[u8; 32]) -> Fr {
    Fr::from_le_bytes(bytes).expect("a canonical scalar")
}
