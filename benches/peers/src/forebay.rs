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
use crate::system::System;

/// forebay with a key and a synthesised system.
pub struct Forebay {
    backend: Cpu,
    key: ProvingKey,
    assignment: Assignment,
}

/// Sets the prover up for `case`.
pub fn set_up(case: &Case) -> Result<Option<Box<dyn Prover>>> {
    let (key, assignment) = key_and_assignment(&case.system, &parameters(&case.key)?)?;
    Ok(Some(Box::new(Forebay { backend: Cpu::open(), key, assignment })))
}

/// The key out of [`parameters`], and the assignment with the rows' values.
pub fn key_and_assignment(system: &System, params: &[u8]) -> Result<(ProvingKey, Assignment)> {
    let options = Options { check_points: false, scratch: None, progress: &Silent };
    let key = Params::open(params)?.read(options)?;
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
    Ok((key, assignment))
}

impl Prover for Forebay {
    fn name(&self) -> ProverName {
        ProverName::Forebay
    }

    fn prove(&mut self, blinding: &Blinding) -> Result<Proved> {
        let blinding = self::blinding(blinding);
        let (proof, cost) = Cost::of(|| {
            groth16::prove(&self.backend, &self.key, &self.assignment, &blinding, &Silent)
        });
        Ok(Proved { cost, proof: Some(proof?.to_bytes()) })
    }
}

/// `blinding` in our types.
pub fn blinding(blinding: &Blinding) -> groth16::Blinding {
    groth16::Blinding::fixed_for_testing(scalar(&blinding.r), scalar(&blinding.s))
}

fn scalar(bytes: &[u8; 32]) -> Fr {
    Fr::from_le_bytes(bytes).expect("a canonical scalar")
}
