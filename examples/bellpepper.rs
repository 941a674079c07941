//! A circuit of bellpepper, from its constraints to a verified proof:
//! `cargo run --release --features bellpepper04 --example bellpepper`.

use std::sync::Arc;

use bellpepper_core_04::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::Scalar;
use forebay::Result;
use forebay::backend::cpu::Cpu;
use forebay::bellpepper04::{constraints, partition};
use forebay::circuit::Sizes;
use forebay::engine::{Devices, Engine, Job, Options};
use forebay::format::{Silent, bellman::Params, zkey};
use forebay::proof::verify;
use forebay::setup::{Secrets, write_params};

/// Knows an x with x^3 + x + 5 = `out`, which is public.
struct Cubic {
    x: Option<Scalar>,
}

impl Circuit<Scalar> for Cubic {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let x = || self.x.ok_or(SynthesisError::AssignmentMissing);
        let out = cs.alloc_input(|| "out", || x().map(|x| x * x * x + x + Scalar::from(5)))?;
        let square = cs.alloc(|| "x^2", || x().map(|x| x * x))?;
        let x = cs.alloc(|| "x", x)?;
        cs.enforce(|| "square", |lc| lc + x, |lc| lc + x, |lc| lc + square);
        let five = (Scalar::from(5), CS::one());
        cs.enforce(|| "cube", |lc| lc + square, |lc| lc + x, |lc| lc + out - x - five);
        Ok(())
    }
}

fn main() -> Result<()> {
    // A development key: whoever made it can forge proofs. A real one comes from a ceremony, as a file.
    let mut params = Vec::new();
    let shape = constraints(Cubic { x: None })?;
    write_params(&Cpu::open(), &shape, &Secrets::random()?, &Silent, &mut params)?;
    let options = zkey::Options { check_points: true, scratch: None, progress: &Silent };
    let mut key = Params::open(&params[..])?.read(options)?;
    // With the matrices in the key a proof needs the variables' values alone.
    shape.attach(&mut key)?;
    let key = Arc::new(key);

    let engine = Engine::new(Devices::fastest()?, Options::default())?;
    let cubic = Cubic { x: Some(Scalar::from(3)) };
    let partition = partition(&key, cubic, &Sizes::of_key(&key))?;
    let proved = engine.submit(Job::new("cubic", key.clone(), vec![partition]))?.wait()?.remove(0);
    assert!(verify(&key.vk, &proved.public_inputs, &proved.proof)?);
    let out = proved.public_inputs[0].to_biguint();
    println!("x^3 + x + 5 = {out}: proved on {} in {:.1?}", proved.backend, proved.elapsed);
    Ok(())
}
