//! All parts together on small systems.

use std::sync::Arc;

use ark_ec::AffineRepr;
use peers::key;
use peers::prover::{Blinding, Case, ProverName};
use peers::system::{Kind, System};

fn case(kind: Kind, log_n: u32) -> Case {
    let system = System::new(kind, log_n).unwrap();
    let key = key::make(&system).unwrap();
    Case { system: Arc::new(system), key: Arc::new(key) }
}

/// The same key, system and blinding make the same proof in every prover, and
/// each verifies its own.
#[test]
fn proofs_are_the_same() {
    for kind in [Kind::Dense, Kind::Bits] {
        let case = case(kind, 6);
        let blinding = Blinding::of_run(7);
        let mut proofs = Vec::new();
        for name in [ProverName::Ark, ProverName::Bellperson, ProverName::Forebay] {
            if let Some(mut prover) = name.set_up(&case).unwrap() {
                proofs.extend(prover.prove(&blinding).unwrap().proof);
            }
        }
        assert!(proofs.len() >= 2);
        assert!(proofs.iter().all(|proof| *proof == proofs[0]));
    }
}

/// The densities say which points of the queries are finite.
#[test]
fn densities_are_those_of_the_key() {
    for kind in [Kind::Dense, Kind::Bits] {
        let Case { system, key } = case(kind, 6);
        let densities = system.densities();
        let inputs = system.inputs();
        let finite = |points: &[ark_bls12_381::G1Affine]| -> Vec<bool> {
            points.iter().map(|p| !p.is_zero()).collect()
        };
        assert!(finite(&key.a_query[..inputs]).iter().all(|&is| is));
        assert_eq!(finite(&key.a_query[inputs..]), densities.a_aux);
        assert_eq!(finite(&key.b_g1_query[..inputs]), densities.b_input);
        assert_eq!(finite(&key.b_g1_query[inputs..]), densities.b_aux);
    }
}
