//! Proofs and keys of the Window PoSt against bellperson. The other circuits take minutes: `README.md` has their commands.

use bellperson::groth16::{Parameters, Proof, create_random_proof_batch, generate_parameters};
use blstrs::{Bls12, G1Projective, G2Projective, Scalar};
use ff::{Field, PrimeField};
use filecoin::key::{self, Key};
use filecoin::prove::prove;
use filecoin::statement::Statement;
use filecoin::window_post;
use forebay::backend::cpu::Cpu;
use forebay::bellpepper02;
use forebay::engine::{Devices, Engine, Options};
use forebay::field::Fr;
use forebay::format::Silent;
use forebay::setup::{Secrets, write_params};
use group::Group;
use rand::SeedableRng;
use rand::rngs::OsRng;
use rand_chacha::ChaCha20Rng;

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(2)
}

/// A key of its own; the folder goes when the test is over.
fn made_key(name: &str, blank: impl bellperson::Circuit<Scalar>) -> (tempfile::TempDir, Key) {
    let folder = tempfile::tempdir().unwrap();
    let path = key::make(folder.path(), name, blank).unwrap();
    let key = key::load(&path).unwrap();
    (folder, key)
}

#[test]
fn the_partitions_of_a_window_post_are_accepted_in_their_order_and_for_their_sectors() {
    let Statement { label, params, blank, circuits, verifier } =
        window_post::statement(3, &mut rng()).unwrap();
    let (_folder, key) = made_key(&params, blank);
    let engine = Engine::new(Devices::cpu(), Options::default()).unwrap();
    let done = prove(&engine, label, &key.proving, circuits).unwrap();
    assert_eq!(done.iter().map(|done| done.rows).collect::<Vec<_>>(), [848; 3]);
    let mut proofs: Vec<Proof<Bls12>> = done.iter().map(|done| done.proof().unwrap()).collect();

    assert!(verifier.accepts(proofs.clone(), &key.verifying).unwrap());
    let others = window_post::statement(3, &mut ChaCha20Rng::seed_from_u64(3)).unwrap();
    assert!(!others.verifier.accepts(proofs.clone(), &key.verifying).unwrap());
    proofs.swap(0, 2);
    assert!(!verifier.accepts(proofs, &key.verifying).unwrap());
}

/// forebay's element as bellperson has it.
fn scalar(value: &Fr) -> Scalar {
    Scalar::from_repr(value.to_le_bytes()).unwrap()
}

#[test]
fn a_key_is_bellpersons_byte_for_byte() {
    let blank = || window_post::statement(1, &mut rng()).unwrap().blank;
    let secrets = Secrets::random().unwrap();
    let mut made = Vec::new();
    let constraints = bellpepper02::constraints(blank()).unwrap();
    write_params(&Cpu::open(), &constraints, &secrets, &Silent, &mut made).unwrap();

    let [tau, alpha, beta, delta] =
        [&secrets.tau, &secrets.alpha, &secrets.beta, &secrets.delta].map(scalar);
    let want: Parameters<Bls12> = generate_parameters(
        blank(),
        G1Projective::generator(),
        G2Projective::generator(),
        alpha,
        beta,
        Scalar::ONE,
        delta,
        tau,
    )
    .unwrap();
    let mut wanted = Vec::new();
    want.write(&mut wanted).unwrap();
    assert!(made == wanted, "{} bytes, {} wanted", made.len(), wanted.len());
}

#[test]
fn a_key_that_is_there_is_kept_and_serves_bellperson_too() {
    let Statement { params, blank, circuits, verifier, .. } =
        window_post::statement(2, &mut rng()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = key::make(folder.path(), &params, blank.clone()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(key::make(folder.path(), &params, blank).unwrap(), path);
    assert!(std::fs::read(&path).unwrap() == bytes);

    let own = Parameters::<Bls12>::read(&bytes[..], true).unwrap();
    let proofs = create_random_proof_batch(circuits, &own, &mut OsRng).unwrap();
    assert!(verifier.accepts(proofs, &key::load(&path).unwrap().verifying).unwrap());
}

#[test]
fn bellpersons_function_has_a_twin() {
    let Statement { params, blank, circuits, verifier, .. } =
        window_post::statement(2, &mut rng()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = key::make(folder.path(), &params, blank).unwrap();
    // As storage-proofs opens it.
    let mapped = Parameters::build_mapped_parameters(path, false).unwrap();
    let proofs =
        forebay::bellperson027::create_random_proof_batch(circuits, &mapped, &mut OsRng).unwrap();
    assert!(verifier.accepts(proofs, &mapped.vk).unwrap());
}
