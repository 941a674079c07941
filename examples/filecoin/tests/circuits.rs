//! The circuits against bellperson's own constraint systems.

use bellperson::Circuit;
use bellperson::util_cs::bench_cs::BenchCS;
use bellperson::util_cs::test_cs::TestConstraintSystem;
use blstrs::Scalar;
use filecoin::statement::Statement;
use filecoin::{porep, window_post, winning_post};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}

/// Rows with one for each input, as a Groth16 prover counts them; the constant 1 is an input.
fn rows<C: Circuit<Scalar>>(circuit: C) -> (usize, usize) {
    let mut system = BenchCS::<Scalar>::new();
    circuit.synthesize(&mut system).unwrap();
    (system.num_constraints() + system.num_inputs(), system.num_inputs())
}

/// That all circuits have so many rows and inputs and hold.
fn check<C: Circuit<Scalar>>(statement: Statement<C>, partitions: usize, want: (usize, usize)) {
    assert_eq!(rows(statement.blank), want);
    assert_eq!(statement.circuits.len(), partitions);
    for circuit in statement.circuits {
        let mut system = TestConstraintSystem::<Scalar>::new();
        circuit.synthesize(&mut system).unwrap();
        assert_eq!(system.which_is_unsatisfied(), None);
        assert_eq!(system.num_constraints() + system.num_inputs(), want.0);
    }
}

#[test]
fn a_window_post() {
    check(window_post::statement(3, &mut rng()).unwrap(), 3, (848, 3));
}

#[test]
fn a_winning_post_of_the_production_shape() {
    check(winning_post::statement(1, &mut rng()).unwrap(), 1, (370_723, 133));
}

#[test]
fn a_porep() {
    check(porep::statement(2, &mut rng()).unwrap(), 2, (1_199_642, 22));
}
