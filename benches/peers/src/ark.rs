//! The first peer: ark-groth16.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ark_bls12_381::{Bls12_381, Fr};
use ark_groth16::{Groth16, PreparedVerifyingKey, ProvingKey, prepare_verifying_key};
use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystem, ConstraintSystemRef, LinearCombination, Matrix,
    OptimizationGoal, R1CS_PREDICATE_LABEL, SynthesisError, SynthesisMode, Variable,
};
use ark_serialize::CanonicalSerialize;

use crate::cost::Cost;
use crate::prover::{Blinding, Case, Proved, Prover, ProverName};
use crate::system::{System, Term, to_fr};

/// Whether ark's field arithmetic is its assembly in this build. There is some
/// for x86-64 only.
pub const ASM: bool =
    cfg!(all(target_arch = "x86_64", target_feature = "bmi2", target_feature = "adx"));

/// A system as a circuit for ark.
pub struct Circuit<'a> {
    system: &'a System,
}

impl<'a> Circuit<'a> {
    pub fn new(system: &'a System) -> Self {
        Circuit { system }
    }
}

impl ConstraintSynthesizer<Fr> for Circuit<'_> {
    fn generate_constraints(self, cs: ConstraintSystemRef<Fr>) -> Result<(), SynthesisError> {
        let system = self.system;
        let mut columns = vec![Variable::One];
        for (column, value) in system.assignment.iter().enumerate().skip(1) {
            columns.push(if column < system.inputs() {
                cs.new_input_variable(|| Ok(to_fr(value)))?
            } else {
                cs.new_witness_variable(|| Ok(to_fr(value)))?
            });
        }
        let side = |terms: &[Term]| {
            LinearCombination(
                terms.iter().map(|t| (to_fr(&t.coeff), columns[t.column as usize])).collect(),
            )
        };
        for row in &system.rows {
            cs.enforce_r1cs_constraint(|| side(&row.a), || side(&row.b), || side(&row.c))?;
        }
        Ok(())
    }
}

/// ark-groth16 with a system that is synthesised already.
pub struct Ark {
    key: Arc<ProvingKey<Bls12_381>>,
    verifier: PreparedVerifyingKey<Bls12_381>,
    matrices: Vec<Matrix<Fr>>,
    inputs: usize,
    rows: usize,
    assignment: Vec<Fr>,
}

impl Ark {
    pub fn new(case: &Case) -> Result<Self> {
        let system = &case.system;
        // As ark's own prover does it.
        let cs = ConstraintSystem::new_ref();
        cs.set_optimization_goal(OptimizationGoal::Constraints);
        cs.set_mode(SynthesisMode::Prove {
            construct_matrices: true,
            generate_lc_assignments: false,
        });
        Circuit::new(system).generate_constraints(cs.clone())?;
        cs.finalize();

        let mut assignment = cs.instance_assignment()?;
        assignment.extend(cs.witness_assignment()?);
        let matrices = cs
            .to_matrices()?
            .remove(R1CS_PREDICATE_LABEL)
            .context("ark synthesised no R1CS matrices")?;
        check(system, &matrices, &assignment)?;
        Ok(Ark {
            key: case.key.clone(),
            verifier: prepare_verifying_key(&case.key.vk),
            matrices,
            inputs: system.inputs(),
            rows: system.rows.len(),
            assignment,
        })
    }
}

/// That ark has synthesised the system it was given, column by column.
fn check(system: &System, matrices: &[Matrix<Fr>], assignment: &[Fr]) -> Result<()> {
    let sorted = |mut row: Vec<(Fr, usize)>| {
        row.sort_by_key(|&(_, column)| column);
        row
    };
    let same = |matrix: &Matrix<Fr>, side: fn(&crate::system::Row) -> &[Term]| {
        matrix.len() == system.rows.len()
            && matrix.iter().zip(&system.rows).all(|(ours, row)| {
                let terms = side(row).iter();
                let row = terms.map(|t| (to_fr(&t.coeff), t.column as usize));
                sorted(ours.clone()) == sorted(row.collect())
            })
    };
    ensure!(
        matrices.len() == 3
            && same(&matrices[0], |row| &row.a)
            && same(&matrices[1], |row| &row.b)
            && same(&matrices[2], |row| &row.c)
            && assignment.iter().eq(&system.assignment.iter().map(to_fr).collect::<Vec<_>>()),
        "ark synthesised another system"
    );
    Ok(())
}

impl Prover for Ark {
    fn name(&self) -> ProverName {
        ProverName::Ark
    }

    fn prove(&mut self, blinding: &Blinding) -> Result<Proved> {
        let (r, s) = (to_fr(&blinding.r), to_fr(&blinding.s));
        let (proof, cost) = Cost::of(|| {
            Groth16::<Bls12_381>::create_proof_with_reduction_and_matrices(
                &self.key,
                r,
                s,
                &self.matrices,
                self.inputs,
                self.rows,
                &self.assignment,
            )
        });
        let proof = proof?;
        let publics = &self.assignment[1..self.inputs];
        ensure!(
            Groth16::<Bls12_381>::verify_proof(&self.verifier, &proof, publics)?,
            "ark's proof does not verify"
        );
        let mut bytes = [0; 192];
        proof.a.serialize_compressed(&mut bytes[..48])?;
        proof.b.serialize_compressed(&mut bytes[48..144])?;
        proof.c.serialize_compressed(&mut bytes[144..])?;
        Ok(Proved { cost, proof: Some(bytes) })
    }
}
