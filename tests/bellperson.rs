//! Circuits recorded, keys made and proofs given as bellperson does it, on random circuits: bellperson is the oracle.
//!
//! Run with `cargo test --features bellperson027 --test bellperson`.

mod bellperson {
    //! A program of bellperson's, twice: as it is, and with one import changed.

    pub mod theirs {
        use bellperson027::groth16::create_random_proof_batch;

        include!("bellperson/program.rs");
    }

    pub mod ours {
        use forebay::bellperson027::create_random_proof_batch;

        include!("bellperson/program.rs");
    }

    pub mod random;
}

use std::sync::Arc;

use bellpepper_core_02::ConstraintSystem as _;
use bellpepper_core_02::test_cs::TestConstraintSystem;
use bellperson027::groth16::{
    Parameters, create_proof_batch, generate_parameters, prepare_verifying_key, verify_proofs_batch,
};
use blstrs::{Bls12, G1Projective, G2Projective, Scalar};
use ff::{Field as _, PrimeField};
use forebay::backend::cpu::Cpu;
use forebay::bellpepper02::{Recorder, assignment, constraints, partition, record, values};
use forebay::circuit::{Recording, Sizes};
use forebay::engine::{Devices, Engine, Job, Options};
use forebay::field::Fr;
use forebay::format::{Silent, bellman, zkey};
use forebay::groth16::{Blinding, prove};
use forebay::key::ProvingKey;
use forebay::setup::{Secrets, write_params};
use forebay::witness::Assignment;
use forebay::{Error, bellperson027 as api};
use pairing::group::Group as _;
use proptest::prelude::*;

use self::bellperson::random::{Numbers, Random};

fn ours(scalar: &Scalar) -> Fr {
    Fr::from_le_bytes(&scalar.to_repr()).unwrap()
}

fn secrets(numbers: &mut Numbers) -> ([Scalar; 4], Secrets) {
    let theirs = [(); 4].map(|()| Scalar::random(&mut *numbers));
    let [alpha, beta, delta, tau] = [0, 1, 2, 3].map(|i| ours(&theirs[i]));
    (theirs, Secrets { tau, alpha, beta, delta })
}

fn their_key(circuit: &Random, [alpha, beta, delta, tau]: [Scalar; 4]) -> Parameters<Bls12> {
    let (g1, g2) = (G1Projective::generator(), G2Projective::generator());
    generate_parameters(circuit.clone(), g1, g2, alpha, beta, Scalar::ONE, delta, tau).unwrap()
}

fn read(params: &[u8]) -> ProvingKey {
    let options = zkey::Options { check_points: true, scratch: None, progress: &Silent };
    bellman::Params::open(params).unwrap().read(options).unwrap()
}

/// The 192 bytes for r = 7, s = 11.
fn proof(key: &ProvingKey, assignment: &Assignment) -> [u8; 192] {
    let blinding = Blinding::fixed_for_testing(Fr::from(7), Fr::from(11));
    prove(&Cpu::open(), key, assignment, &blinding, &Silent).unwrap().to_bytes()
}

fn bytes(proof: &bellperson027::groth16::Proof<Bls12>) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.write(&mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Values, densities, key and proof are bellperson's, from rows, from matrices, and in parts of an extensible system.
    #[test]
    fn random_circuits_are_recorded_as_bellperson_records_them(
        seed: u64, inputs in 0..5usize, rows in 1..60usize, parts in 1..4usize, extends: bool,
    ) {
        let circuit = Random { seed, inputs, rows, parts, extends };
        let (toxic, secrets) = secrets(&mut Numbers(seed));
        let params = their_key(&circuit, toxic);
        let mut their_params = Vec::new();
        params.write(&mut their_params).unwrap();

        let constraints = constraints(circuit.clone().without_values()).unwrap();
        let mut our_params = Vec::new();
        write_params(&Cpu::open(), &constraints, &secrets, &Silent, &mut our_params).unwrap();
        prop_assert!(our_params == their_params, "the keys differ");

        let assignment = record(circuit.clone()).unwrap();
        let mut witness = TestConstraintSystem::<Scalar>::new();
        bellpepper_core_02::Circuit::synthesize(circuit.clone(), &mut witness).unwrap();
        let their_values: Vec<Fr> =
            witness.scalar_inputs().iter().chain(&witness.scalar_aux()).map(ours).collect();
        prop_assert_eq!(assignment.values.unpack(), their_values);
        let rows = assignment.rows.as_ref().unwrap();
        prop_assert_eq!(rows.a_aux.ones() + params.vk.ic.len(), params.a.len());
        prop_assert_eq!(rows.b_inputs.ones() + rows.b_aux.ones(), params.b_g1.len());
        prop_assert_eq!(rows.a.len(), constraints.rows());
        prop_assert_eq!(constraints.density(0), forebay::key::Density::full(constraints.inputs).followed_by(&rows.a_aux));
        prop_assert_eq!(constraints.density(1), rows.b_inputs.followed_by(&rows.b_aux));

        let [r, s] = [Scalar::from(7), Scalar::from(11)];
        let theirs = create_proof_batch(vec![circuit.clone()], &params, vec![r], vec![s]).unwrap();
        let mut key = read(&their_params);
        prop_assert_eq!(&proof(&key, &assignment)[..], &bytes(&theirs[0])[..]);
        let sizes = Sizes::of_key(&key);
        for _ in 0..2 {
            let again = self::assignment(&key, circuit.clone(), &sizes).unwrap();
            prop_assert_eq!(&again.values, &assignment.values);
            prop_assert_eq!(again.rows.unwrap().a, rows.a.clone());
        }
        let shared = Arc::new(api::proving_key(&params).unwrap());
        let ours = api::create_proof_batch(vec![circuit.clone()], &shared, vec![r], vec![s]).unwrap();
        prop_assert!(ours == theirs);

        constraints.attach(&mut key).unwrap();
        let values = values(circuit.clone()).unwrap();
        prop_assert!(values.rows.is_none());
        prop_assert_eq!(&proof(&key, &values)[..], &bytes(&theirs[0])[..]);
    }
}

#[test]
fn one_import_makes_a_program_of_bellperson_ours() {
    let (theirs, ours) = (bellperson::theirs::program(), bellperson::ours::program());
    assert_eq!(theirs.len(), 3);
    assert!(theirs == ours, "the same generator gives the same r and s, so the same proofs");
}

#[test]
fn proofs_are_accepted_by_bellperson_and_keys_taken_over_once() {
    let circuits: Vec<Random> =
        (0..3).map(|_| Random { seed: 5, inputs: 3, rows: 20, parts: 2, extends: true }).collect();
    let params = their_key(&circuits[0], secrets(&mut Numbers(9)).0);
    let proofs =
        api::create_random_proof_batch(circuits.clone(), &params, &mut Numbers(1)).unwrap();
    let public = record(circuits[0].clone()).unwrap().values.first(4)[1..].to_vec();
    let public: Vec<Scalar> =
        public.iter().map(|x| Scalar::from_repr(x.to_le_bytes()).unwrap()).collect();
    let pvk = prepare_verifying_key(&params.vk);
    let proofs: Vec<_> = proofs.iter().collect();
    let inputs = vec![public; 3];
    assert!(verify_proofs_batch(&pvk, &mut Numbers(2), &proofs, &inputs).unwrap());

    use forebay::bellperson027::KeySource;
    let first = (&params).proving_key().unwrap();
    assert!(Arc::ptr_eq(&first, &(&params).proving_key().unwrap()), "taken over twice");
    let other = Parameters::clone(&params);
    assert!(Arc::ptr_eq(&first, &(&other).proving_key().unwrap()), "the same points");
    let copied = Parameters { h: Arc::new(params.h.to_vec()), ..params.clone() };
    assert!(!Arc::ptr_eq(&first, &(&copied).proving_key().unwrap()), "other points");
}

#[test]
fn mapped_parameters_are_read_and_a_converted_key_is_taken_instead() {
    use forebay::bellperson027::KeySource;
    let circuit = Random { seed: 3, inputs: 2, rows: 30, parts: 1, extends: true };
    let params = their_key(&circuit, secrets(&mut Numbers(4)).0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.params");
    params.write(std::fs::File::create(&path).unwrap()).unwrap();
    let mapped = Parameters::<Bls12>::build_mapped_parameters(path.clone(), false).unwrap();
    let [r, s] = [Scalar::from(7), Scalar::from(11)];
    let theirs = create_proof_batch(vec![circuit.clone()], &params, vec![r], vec![s]).unwrap();
    let ours = api::create_proof(circuit.clone(), &mapped, r, s).unwrap();
    assert!(ours == theirs[0]);
    let key = (&mapped).proving_key().unwrap();
    assert!(Arc::ptr_eq(&key, &(&mapped).proving_key().unwrap()), "read twice");

    let facts = forebay::format::fbkey::Facts { points_checked: true, contributions: None };
    let mut out = std::fs::File::create(folder.path().join("key.fbkey")).unwrap();
    forebay::format::fbkey::write(&key, facts, &Silent, &mut out).unwrap();
    drop(out);
    let converted = (&mapped).proving_key().unwrap();
    assert!(!Arc::ptr_eq(&key, &converted), "the converted key is newer");
    assert!(api::create_proof(circuit, &mapped, r, s).unwrap() == theirs[0]);
}

#[test]
fn the_engine_synthesises_ahead_and_gives_proofs_as_they_come() {
    let circuit = Random { seed: 8, inputs: 1, rows: 40, parts: 2, extends: true };
    let mut params = Vec::new();
    let constraints = constraints(circuit.clone().without_values()).unwrap();
    write_params(&Cpu::open(), &constraints, &secrets(&mut Numbers(6)).1, &Silent, &mut params)
        .unwrap();
    let mut key = read(&params);
    for attached in [false, true] {
        if attached {
            constraints.attach(&mut key).unwrap();
        }
        let engine = Engine::new(Devices::cpu(), Options::default()).unwrap();
        let (key, sizes) = (Arc::new(key.clone()), Sizes::of_key(&key));
        let most = sizes.bytes();
        let one = |_| partition(&key, circuit.clone(), &sizes).unwrap();
        let mut job =
            engine.submit(Job::new("a job", key.clone(), (0..5).map(one).collect())).unwrap();
        let mut given = Vec::new();
        while let Some((index, proved)) = job.wait_for_one().unwrap() {
            assert_eq!(proved.public_inputs.len(), 1);
            given.push(index);
        }
        given.sort();
        assert_eq!(given, [0, 1, 2, 3, 4]);
        assert_eq!(job.wait().unwrap().len(), 5, "and all of them in the end");
        assert!(sizes.bytes() < most, "{} of {most}: nothing was learned", sizes.bytes());
    }
}

#[test]
fn what_does_not_hold_or_fit_is_an_error() {
    let circuit = Random { seed: 2, inputs: 1, rows: 10, parts: 1, extends: true };
    let broken = |row| circuit.clone().breaking(row);
    let error = record(broken(4)).err().unwrap();
    assert!(matches!(&error, Error::Unsatisfied(why) if why.contains("(row 4)")), "{error}");
    let params = their_key(&circuit, secrets(&mut Numbers(3)).0);
    let failed = api::create_random_proof(broken(4), &params, &mut Numbers(0)).err().unwrap();
    assert!(matches!(failed, bellperson027::SynthesisError::Unsatisfiable), "{failed}");
    let engine = Engine::new(Devices::cpu(), Options::default()).unwrap();
    let key = api::proving_key(&params).unwrap();
    let key = Arc::new(key);
    let job = vec![partition(&key, broken(0), &Sizes::of_key(&key)).unwrap()];
    let failed = engine.submit(Job::new("broken", key, job)).unwrap().wait();
    assert!(matches!(failed, Err(Error::Unsatisfied(_))));

    let missing = record(circuit.clone().without_values()).err().unwrap();
    assert!(matches!(&missing, Error::Synthesis(why) if why.contains("assignment")), "{missing}");
    let other = Random { rows: 70, ..circuit.clone() };
    let wrong = api::create_random_proof(other.clone(), &params, &mut Numbers(0)).err().unwrap();
    assert!(matches!(wrong, bellperson027::SynthesisError::IoError(_)), "{wrong}");
    let mut key = api::proving_key(&params).unwrap();
    let error = constraints(other.without_values()).unwrap().attach(&mut key).err().unwrap();
    assert!(error.to_string().contains("log2 of the domain"), "{error}");
    let lengths = api::create_proof_batch(vec![circuit], &params, vec![Scalar::ONE], vec![]);
    assert!(matches!(lengths, Err(bellperson027::SynthesisError::IncompatibleLengthVector(_))));
}

#[test]
fn a_private_variable_without_a_row_makes_no_key() {
    let mut recorder = Recorder::<true>(Recording::new());
    recorder.alloc_input(|| "", || Ok(Scalar::ONE)).unwrap();
    recorder.alloc(|| "", || Ok(Scalar::ONE)).unwrap();
    assert_eq!(recorder.0.finish().unwrap().values.len(), 2);
    #[derive(Clone)]
    struct Unused;
    impl bellpepper_core_02::Circuit<Scalar> for Unused {
        fn synthesize<CS: bellpepper_core_02::ConstraintSystem<Scalar>>(
            self,
            cs: &mut CS,
        ) -> Result<(), bellpepper_core_02::SynthesisError> {
            cs.alloc(|| "unused", || Ok(Scalar::ONE)).map(drop)
        }
    }
    let constraints = constraints(Unused).unwrap();
    let secrets = secrets(&mut Numbers(1)).1;
    let error = write_params(&Cpu::open(), &constraints, &secrets, &Silent, &mut Vec::new());
    assert!(error.err().unwrap().to_string().contains("private variable 0"));
}
