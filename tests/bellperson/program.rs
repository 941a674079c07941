// What a caller of bellperson has: a circuit, a key, a batch of proofs.

use bellperson027::groth16::{generate_random_parameters, prepare_verifying_key, verify_proof};
use bellperson027::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::{Bls12, Scalar};
use ff::Field as _;

use super::random::Numbers;

/// Knows an x with x^3 = `cube`, which is public.
struct Cube {
    x: Option<Scalar>,
}

impl Circuit<Scalar> for Cube {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let missing = SynthesisError::AssignmentMissing;
        let x = cs.alloc(|| "x", || self.x.ok_or(missing))?;
        let square = self.x.map(|x| x.square());
        let missing = SynthesisError::AssignmentMissing;
        let square_variable = cs.alloc(|| "x^2", || square.ok_or(missing))?;
        cs.enforce(|| "square", |lc| lc + x, |lc| lc + x, |lc| lc + square_variable);
        let missing = SynthesisError::AssignmentMissing;
        let cube = cs.alloc_input(|| "x^3", || Ok(square.ok_or(missing)? * self.x.unwrap()))?;
        cs.enforce(|| "cube", |lc| lc + square_variable, |lc| lc + x, |lc| lc + cube);
        Ok(())
    }
}

/// The bytes of three proofs.
pub fn program() -> Vec<Vec<u8>> {
    let mut rng = Numbers(42);
    let params = generate_random_parameters::<Bls12, _, _>(Cube { x: None }, &mut rng).unwrap();
    let numbers = [3, 5, 7].map(Scalar::from);
    let circuits = numbers.iter().map(|x| Cube { x: Some(*x) }).collect::<Vec<_>>();
    let proofs = create_random_proof_batch(circuits, &params, &mut rng).unwrap();
    let pvk = prepare_verifying_key(&params.vk);
    let mut bytes = Vec::new();
    for (proof, x) in proofs.iter().zip(numbers) {
        assert!(verify_proof(&pvk, proof, &[x * x * x]).unwrap());
        let mut of_one = Vec::new();
        proof.write(&mut of_one).unwrap();
        bytes.push(of_one);
    }
    bytes
}
