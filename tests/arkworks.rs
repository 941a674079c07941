//! arkworks' keys and proofs: what `ark-groth16` holds is what is read, what is written is its bytes, and its proofs are
//! ours. The keys are made here by its version 0.6; those in `tests/vectors/arkworks` are of 0.4 and 0.5.

#[path = "common/arkworks.rs"]
mod arkworks;
#[path = "common/vectors.rs"]
mod vectors;

use ark_bls12_381::{Bls12_381, Fr as ArkFr, G1Affine as ArkG1, G2Affine as ArkG2};
use ark_bls12_381::{G1Projective, G2Projective};
use ark_ec::{AffineRepr, PrimeGroup};
use ark_ff::{BigInteger, Field as _, PrimeField};
use ark_groth16::{Groth16, Proof as ArkProof, ProvingKey as ArkPk, VerifyingKey as ArkVk};
use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystem, ConstraintSystemRef, LinearCombination,
    OptimizationGoal, R1CS_PREDICATE_LABEL, SynthesisError, Variable,
};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use forebay::backend::cpu::Cpu;
use forebay::curve::{Affine, Coordinate};
use forebay::field::Fr;
use forebay::format::arkworks::{
    Form, Pk, read_pk, read_proof, read_vk, write_pk, write_proof, write_vk,
};
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{Kind, Silent, bellman, fbkey};
use forebay::groth16::{Blinding, prove};
use forebay::key::{Check, Checked, CheckedKeys, Density, ProvingKey, Query, load_key};
use forebay::proof::Proof;
use forebay::witness::{Assignment, Rows};
use forebay::{Error, Result};
use vectors::{Bellman, Circom, read, root, scalars};

const CHECKED: Options<'static> = Options { check_points: true, scratch: None, progress: &Silent };
const UNCHECKED: Options<'static> =
    Options { check_points: false, scratch: None, progress: &Silent };
const FORMS: [Form; 2] = [Form::Uncompressed, Form::Compressed];

/// Coefficients and columns: 0 is the constant 1, then inputs, then private variables.
type Terms = Vec<(ArkFr, usize)>;

/// A system with its values.
#[derive(Clone)]
struct Circuit {
    /// The constant 1 first.
    inputs: Vec<ArkFr>,
    private: Vec<ArkFr>,
    rows: Vec<[Terms; 3]>,
}

impl ConstraintSynthesizer<ArkFr> for Circuit {
    fn generate_constraints(
        self,
        cs: ConstraintSystemRef<ArkFr>,
    ) -> std::result::Result<(), SynthesisError> {
        let mut variables = vec![Variable::One];
        for value in &self.inputs[1..] {
            variables.push(cs.new_input_variable(|| Ok(*value))?);
        }
        for value in &self.private {
            variables.push(cs.new_witness_variable(|| Ok(*value))?);
        }
        let side = |terms: &Terms| {
            LinearCombination(terms.iter().map(|(c, i)| (*c, variables[*i])).collect())
        };
        for [a, b, c] in &self.rows {
            cs.enforce_r1cs_constraint(|| side(a), || side(b), || side(c))?;
        }
        Ok(())
    }
}

fn fr(value: u64) -> ArkFr {
    ArkFr::from(value)
}

impl Circuit {
    /// The circuit of `tests/vectors/arkworks/edge8`.
    fn edge() -> Self {
        let (one, x, third) = (fr(1), fr(11), fr(3).inverse().unwrap());
        let y = (third - fr(2)) * (x + one);
        let only = |variable| vec![(one, variable)];
        Self {
            inputs: vec![one, x, -one],
            private: vec![fr(5), fr(7), fr(35), fr(9), third, y, y * y],
            rows: vec![
                [only(3), only(4), only(5)],
                [vec![(-fr(2), 0), (one, 7)], vec![(one, 0), (one, 1)], only(8)],
                [only(8), only(8), only(9)],
                [vec![], vec![], vec![]],
                [only(0), only(7), only(7)],
            ],
        }
    }

    /// Constraints `w[i + 1] = w[i]^2 + w[i] constant` in as many rows, behind `public` inputs of which the last starts.
    fn chain(rows: usize, public: usize, constant: ArkFr, first: ArkFr) -> Self {
        let one = fr(1);
        let inputs: Vec<_> = [one].into_iter().chain((0..public).map(|_| first)).collect();
        // Without an input the first value is private; an unused variable stands last.
        let mut values = inputs.clone();
        if public == 0 {
            values.push(first);
        }
        let mut system = Vec::new();
        for _ in 0..rows {
            let last = values.len() - 1;
            let x = values[last];
            system.push([
                vec![(one, last)],
                vec![(one, last), (constant, 0)],
                vec![(one, last + 1)],
            ]);
            values.push(x * (x + constant));
        }
        values.push(first);
        Self { private: values[inputs.len()..].to_vec(), inputs, rows: system }
    }

    /// A key with a fixed generator of random numbers and other bases than the standard's generators.
    fn key(&self) -> ArkPk<Bls12_381> {
        Groth16::<Bls12_381>::generate_parameters_with_qap(
            self.clone(),
            fr(13),
            fr(17),
            fr(19),
            fr(23),
            G1Projective::generator() * fr(3),
            G2Projective::generator() * fr(5),
            &mut StdRng::seed_from_u64(1),
        )
        .unwrap()
    }

    /// What a prover that has no matrices is given, from ark's own matrices.
    fn assignment(&self) -> Assignment {
        let cs = ConstraintSystem::new_ref();
        cs.set_optimization_goal(OptimizationGoal::Constraints);
        self.clone().generate_constraints(cs.clone()).unwrap();
        cs.finalize();
        assert!(cs.is_satisfied().unwrap());
        let inputs = cs.instance_assignment().unwrap();
        let values = [inputs.clone(), cs.witness_assignment().unwrap()].concat();
        let matrices = &cs.to_matrices().unwrap()[R1CS_PREDICATE_LABEL];
        let rows = |side: usize| -> Vec<Fr> {
            let rows = matrices[side].iter();
            let mut rows: Vec<_> =
                rows.map(|row| row.iter().map(|(c, i)| *c * values[*i]).sum()).collect();
            rows.extend(inputs.iter().map(|x| if side == 0 { *x } else { fr(0) }));
            rows.iter().map(ours).collect()
        };
        let mut assignment = Assignment::from_witness(&values.iter().map(ours).collect::<Vec<_>>());
        // No densities: the key has them.
        let [none_a, none_i, none_b] = [(); 3].map(|()| Density::default());
        assignment.rows =
            Some(Rows::new(&rows(0), &rows(1), &rows(2), none_a, none_i, none_b).unwrap());
        assignment
    }

    fn public(&self) -> Vec<Fr> {
        self.inputs[1..].iter().map(ours).collect()
    }

    fn ark_proof(&self, key: &ArkPk<Bls12_381>, [r, s]: [ArkFr; 2]) -> ArkProof<Bls12_381> {
        Groth16::<Bls12_381>::create_proof_with_reduction(self.clone(), key, r, s).unwrap()
    }
}

/// Domains of 2 to 32, full and not, with no and some inputs, values of all kinds.
fn circuits() -> Vec<Circuit> {
    let third = fr(3).inverse().unwrap();
    let mut circuits = vec![Circuit::edge()];
    for (rows, public) in
        [(1, 0), (1, 1), (2, 0), (2, 3), (6, 1), (7, 0), (15, 0), (15, 1), (20, 2)]
    {
        circuits.push(Circuit::chain(rows, public, fr(2), -fr(1)));
        circuits.push(Circuit::chain(rows, public, third, third));
    }
    circuits.push(Circuit::chain(9, 1, fr(0), fr(0)));
    circuits.push(Circuit::chain(9, 1, fr(0), fr(1)));
    circuits
}

fn ours(value: &ArkFr) -> Fr {
    Fr::from_le_bytes(&value.into_bigint().to_bytes_le().try_into().unwrap()).unwrap()
}

/// `serialize_uncompressed` or `serialize_compressed`.
fn written(value: &impl CanonicalSerialize, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    match form {
        Form::Uncompressed => value.serialize_uncompressed(&mut out).unwrap(),
        Form::Compressed => value.serialize_compressed(&mut out).unwrap(),
    }
    out
}

fn ours_written(key: &ProvingKey, form: Form) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    write_pk(key, form, &mut out)?;
    Ok(out)
}

/// The coordinates of ark's point as canonical little-endian bytes, x y or x.c0 x.c1 y.c0 y.c1; zeros for infinity.
fn their_bytes<P: AffineRepr>(point: &P) -> Vec<u8> {
    let (x, y) = point.xy().unwrap_or_default();
    let xy = [x, y];
    let coefficients = xy.iter().flat_map(|c| c.to_base_prime_field_elements());
    coefficients.flat_map(|c| c.into_bigint().to_bytes_le()).collect()
}

fn our_bytes<F: Coordinate>(point: &Affine<F>) -> Vec<u8> {
    F::coordinates(point).flat_map(|c| c.to_le_bytes()).collect()
}

/// That a query has ark's points but for infinity, and knows where infinity was.
fn assert_query<F: Coordinate>(name: &str, query: &Query<F>, theirs: &[impl AffineRepr]) {
    let density = query.density.as_ref().unwrap();
    assert!(density.bits().eq(theirs.iter().map(|point| !point.is_zero())), "{name}: density");
    let left = theirs.iter().filter(|point| !point.is_zero()).map(their_bytes);
    assert!(query.points.iter().map(our_bytes).eq(left), "{name}: points");
}

fn proof_of(key: &ProvingKey, assignment: &Assignment, blinding: &Blinding) -> Proof {
    prove(&Cpu::open(), key, assignment, blinding, &Silent).unwrap()
}

#[test]
fn keys_are_read_as_arkworks_holds_them() {
    for (circuit, form) in circuits().into_iter().flat_map(|c| FORMS.map(|form| (c.clone(), form)))
    {
        let theirs = circuit.key();
        let bytes = written(&theirs, form);
        let file = Pk::open(&bytes[..]).unwrap();
        assert_eq!(file.form(), form);
        let key = file.read(CHECKED).unwrap();
        let n = (circuit.rows.len() + circuit.inputs.len()).next_power_of_two();
        assert_eq!((1 << key.log_n, key.h.len()), (n, n - 1));
        assert_eq!(key.inputs, circuit.inputs.len());
        assert_eq!(key.variables, circuit.inputs.len() + circuit.private.len());
        assert_eq!((file.variables, file.log_n), (key.variables, key.log_n));

        for (ours, theirs) in [
            (key.vk.alpha_g1, theirs.vk.alpha_g1),
            (key.beta_g1, theirs.beta_g1),
            (key.delta_g1, theirs.delta_g1),
        ] {
            assert_eq!(our_bytes(&ours), their_bytes(&theirs));
        }
        for (ours, theirs) in [
            (key.vk.beta_g2, theirs.vk.beta_g2),
            (key.vk.gamma_g2, theirs.vk.gamma_g2),
            (key.vk.delta_g2, theirs.vk.delta_g2),
        ] {
            assert_eq!(our_bytes(&ours), their_bytes(&theirs));
        }
        let ic = theirs.vk.gamma_abc_g1.iter().map(their_bytes);
        assert!(key.vk.ic.iter().map(our_bytes).eq(ic), "IC");
        assert_query("A", &key.a, &theirs.a_query);
        assert_query("B1", &key.b_g1, &theirs.b_g1_query);
        assert_query("B2", &key.b_g2, &theirs.b_g2_query);
        assert_query("L", &key.l, &theirs.l_query);
        for (j, theirs) in theirs.h_query.iter().enumerate() {
            let place = j.reverse_bits() >> (usize::BITS - key.log_n);
            assert_eq!(our_bytes(&key.h[place]), their_bytes(theirs), "H, {j}");
        }
        assert!(key.matrices.is_none());
        assert_eq!(read_vk(&written(&theirs.vk, form)[..]).unwrap(), key.vk);
    }
}

#[test]
fn proofs_equal_those_of_arkworks() {
    let [r, s] = [fr(29).inverse().unwrap(), fr(31).inverse().unwrap()];
    for circuit in circuits() {
        let theirs = circuit.key();
        let key = read_pk(&written(&theirs, Form::Uncompressed)[..], CHECKED).unwrap();
        let assignment = circuit.assignment();
        let blinding = Blinding::fixed_for_testing(ours(&r), ours(&s));
        let proof = proof_of(&key, &assignment, &blinding);
        let expected = circuit.ark_proof(&theirs, [r, s]);
        assert!(proof.to_bytes()[..] == written(&expected, Form::Compressed));

        let proof = proof_of(&key, &assignment, &Blinding::random().unwrap());
        let bytes = &write_proof(&proof, Form::Uncompressed)[..];
        let proof = ArkProof::<Bls12_381>::deserialize_uncompressed(bytes).unwrap();
        let prepared = ark_groth16::prepare_verifying_key(&theirs.vk);
        let public = &circuit.inputs[1..];
        assert!(Groth16::<Bls12_381>::verify_proof(&prepared, &proof, public).unwrap());
    }
}

/// The folder that ark-groth16 0.4 and 0.5 wrote.
fn vector(name: &str) -> Vec<u8> {
    read(&root().join("arkworks/edge8").join(name))
}

#[test]
fn versions_0_4_and_0_5_wrote_the_bytes_of_0_6() {
    let circuit = Circuit::edge();
    let key = circuit.key();
    let rs = scalars(&root().join("arkworks/edge8/rs"));
    let [r, s] = [fr(29).inverse().unwrap(), fr(31).inverse().unwrap()];
    assert_eq!(rs, [ours(&r), ours(&s)]);
    let proof = circuit.ark_proof(&key, [r, s]);
    for (form, suffix) in FORMS.into_iter().zip(["", ".compressed"]) {
        let vector = |name: &str| vector(&format!("{name}{suffix}"));
        assert!(written(&key, form) == vector("pk"));
        assert!(written(&key.vk, form) == vector("vk"));
        assert!(written(&proof, form) == vector("proof"));
    }
}

#[test]
fn a_proof_of_an_old_key_and_its_rows_is_that_of_its_version() {
    let column = |name: &str| scalars(&root().join("arkworks/edge8").join(name));
    let mut assignment = Assignment::from_witness(&[column("input"), column("aux")].concat());
    let [none_a, none_i, none_b] = [(); 3].map(|()| Density::default());
    let rows = Rows::new(&column("a"), &column("b"), &column("c"), none_a, none_i, none_b);
    assignment.rows = Some(rows.unwrap());
    let [r, s] = column("rs").try_into().unwrap();
    for suffix in ["", ".compressed"] {
        let key = read_pk(&vector(&format!("pk{suffix}"))[..], CHECKED).unwrap();
        let blinding = Blinding::fixed_for_testing(r, s);
        let proof = proof_of(&key, &assignment, &blinding);
        for (form, suffix) in FORMS.into_iter().zip(["", ".compressed"]) {
            assert!(write_proof(&proof, form) == vector(&format!("proof{suffix}")));
        }
        let proof = proof_of(&key, &assignment, &Blinding::random().unwrap());
        assert!(arkworks::accepts(&key.vk, &Circuit::edge().public(), &proof));
    }
}

#[test]
fn what_is_written_is_arkworks_own_bytes() {
    for circuit in circuits() {
        let theirs = circuit.key();
        let key = read_pk(&written(&theirs, Form::Uncompressed)[..], CHECKED).unwrap();
        let proof = circuit.ark_proof(&theirs, [fr(2), fr(3)]);
        for form in FORMS {
            let bytes = ours_written(&key, form).unwrap();
            assert!(bytes == written(&theirs, form));
            assert!(write_vk(&key.vk, form) == written(&theirs.vk, form));
            let read = read_proof(&written(&proof, form)).unwrap();
            assert!(write_proof(&read, form) == written(&proof, form));
            let again = match form {
                Form::Uncompressed => ArkPk::<Bls12_381>::deserialize_uncompressed(&bytes[..]),
                Form::Compressed => ArkPk::<Bls12_381>::deserialize_compressed(&bytes[..]),
            };
            assert!(again.unwrap() == theirs);
        }
    }
}

#[test]
fn keys_that_arkworks_has_no_form_for_are_not_written() {
    let refused = |key: &ProvingKey, words: &[&str]| {
        let error = ours_written(key, Form::Uncompressed).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let circom = Circom::named("edge").zkey();
    let circom = Zkey::open(&circom[..]).unwrap().read(UNCHECKED).unwrap();
    refused(&circom, &["basis", "odd coset"]);
    let params = Bellman::named("edge8").file("params");
    let params = bellman::Params::open(&params[..]).unwrap().read(UNCHECKED).unwrap();
    refused(&params, &["density of A", "none"]);
    let key = read_pk(&vector("pk")[..], CHECKED).unwrap();
    refused(&ProvingKey { h: key.h[1..].to_vec().into(), ..key.clone() }, &["H", "6"]);
    refused(&ProvingKey { inputs: 2, ..key.clone() }, &["IC", "3 points for 2"]);
    refused(&ProvingKey { variables: 11, ..key.clone() }, &["density of A", "of 11"]);
    let l = Query { points: key.l.points[1..].to_vec().into(), density: key.l.density.clone() };
    refused(&ProvingKey { l, ..key.clone() }, &["density of L"]);
    refused(&ProvingKey { log_n: 64, ..key }, &["H", "2^64"]);
}

/// Offsets of the counts and the names of a key's parts, by ark's own sizes.
fn counts(key: &ArkPk<Bls12_381>, form: Form) -> Vec<(&'static str, usize, usize)> {
    let [g1, g2] = match form {
        Form::Uncompressed => [96, 192],
        Form::Compressed => [48, 96],
    };
    let mut at = g1 + 3 * g2;
    let mut counts = Vec::new();
    for (name, count, bytes, behind) in [
        ("IC", key.vk.gamma_abc_g1.len(), g1, 2 * g1),
        ("A", key.a_query.len(), g1, 0),
        ("B1", key.b_g1_query.len(), g1, 0),
        ("B2", key.b_g2_query.len(), g2, 0),
        ("H", key.h_query.len(), g1, 0),
        ("L", key.l_query.len(), g1, 0),
    ] {
        counts.push((name, at, bytes));
        at += 8 + count * bytes + behind;
    }
    counts
}

fn refused_at(bytes: &[u8], options: Options<'_>, words: &[&str]) {
    let error = read_pk(bytes, options).expect_err(&words.join(" "));
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {text}");
}

#[test]
fn lengths_that_do_not_fit_are_refused_by_place() {
    let key = Circuit::edge().key();
    for form in FORMS {
        let bytes = written(&key, form);
        let counts = counts(&key, form);
        let refused = |bytes: &[u8], words: &[&str]| refused_at(bytes, UNCHECKED, words);
        refused(b"", &["alpha1", "0 bytes"]);
        refused(&bytes[..counts[0].1 - 1], &["alpha1", "offset 0"]);
        for window in counts.windows(2) {
            let [(name, at, point), (next, next_at, _)] = window else { unreachable!() };
            // In the count, behind it, in the points, before the next count.
            refused(&bytes[..at + 7], &[name, &format!("offset {at}"), "the end after 7 bytes"]);
            let place = format!("{name}, offset {at}, number of points");
            refused(&bytes[..at + 8], &[&place, "at most 0 in the remaining 0 bytes"]);
            refused(&bytes[..at + 8 + point], &[&place, "at most 1"]);
            let missing = if *next == "A" { "beta1 and delta1" } else { next };
            refused(&bytes[..next_at - 1], &[if *next == "A" { missing } else { name }]);
            refused(&bytes[..*next_at], &[next, "the end after 0 bytes"]);
        }
        let (_, l, _) = counts[5];
        refused(&bytes[..bytes.len() - 1], &[&format!("L, offset {l}, number of points")]);
        refused(&[&bytes[..], &[0]].concat(), &["behind L", "1 more bytes"]);

        // Counts that are too large, the largest of all among them, and too small ones.
        for (name, at, _) in &counts {
            for count in [u64::MAX, u64::MAX / 96, 1 << 32, 100] {
                let mut bytes = bytes.clone();
                bytes[*at..at + 8].copy_from_slice(&count.to_le_bytes());
                refused(&bytes, &[name, &format!("offset {at}"), &count.to_string()]);
            }
            let mut bytes = bytes.clone();
            bytes[*at] -= 1;
            assert!(read_pk(&bytes[..], UNCHECKED).is_err(), "{name}");
            assert!(!matches!(Kind::of(&bytes[..]), Ok(Kind::ArkworksPk)), "{name}");
        }
    }
}

/// Keys that add up, but whose vectors do not belong together.
#[test]
fn counts_that_do_not_belong_together_are_refused_by_place() {
    let key = Circuit::edge().key();
    let refused = |change: &dyn Fn(&mut ArkPk<Bls12_381>), words: &[&str]| {
        let mut key = key.clone();
        change(&mut key);
        for form in FORMS {
            refused_at(&written(&key, form), UNCHECKED, words);
        }
    };
    refused(&|key| key.a_query.truncate(9), &["A, number of points", "found 9", "10"]);
    refused(&|key| key.b_g1_query.push(ArkG1::identity()), &["B1, number of points", "found 11"]);
    refused(&|key| key.b_g2_query.truncate(9), &["B2, number of points", "found 9"]);
    refused(&|key| key.l_query.truncate(6), &["A, number of points", "expected 9"]);
    refused(&|key| key.h_query.truncate(6), &["H, number of points", "found 7", "power of two"]);
    refused(&|key| key.h_query.clear(), &["H, number of points", "found 1", "power of two"]);
    refused(&|key| key.h_query.truncate(1), &["H, number of points", "a domain of 2 for 3 inputs"]);
    let no_inputs = |key: &mut ArkPk<Bls12_381>| {
        key.vk.gamma_abc_g1.clear();
        key.l_query = key.a_query.clone();
    };
    refused(&no_inputs, &["IC", "no points"]);
}

fn fq(value: u64) -> ark_bls12_381::Fq {
    value.into()
}

/// The first points of the curves, by x, that are not of order r.
fn outside_g1() -> ArkG1 {
    let mut on_curve = (1..).filter_map(|x| ArkG1::get_point_from_x_unchecked(fq(x), false));
    on_curve.find(|point| !point.is_in_correct_subgroup_assuming_on_curve()).unwrap()
}

fn outside_g2() -> ArkG2 {
    let mut on_curve = (1u64..).filter_map(|x| ArkG2::get_point_from_x_unchecked(x.into(), false));
    on_curve.find(|point| !point.is_in_correct_subgroup_assuming_on_curve()).unwrap()
}

#[test]
fn points_that_are_wrong_are_refused_by_place() {
    let key = Circuit::edge().key();
    let off_curve = ArkG1::new_unchecked(fq(1), fq(1));
    let off_curve_g2 = ArkG2::new_unchecked(1.into(), 1.into());
    type Change<'a> = &'a dyn Fn(&mut ArkPk<Bls12_381>);
    let with = |change: Change<'_>, form| {
        let mut key = key.clone();
        change(&mut key);
        written(&key, form)
    };
    let outside: [(Change<'_>, &str); 7] = [
        (&|key| key.a_query[1] = outside_g1(), "A, offset "),
        (&|key| key.b_g1_query[1] = outside_g1(), "B1, offset "),
        (&|key| key.b_g2_query[1] = outside_g2(), "B2, offset "),
        (&|key| key.h_query[1] = outside_g1(), "H, offset "),
        (&|key| key.l_query[1] = outside_g1(), "L, offset "),
        (&|key| key.vk.gamma_abc_g1[1] = outside_g1(), "IC, offset "),
        (&|key| key.vk.gamma_g2 = outside_g2(), "gamma2, offset "),
    ];
    for (change, place) in outside {
        for form in FORMS {
            let bytes = with(change, form);
            let always = ["IC, offset ", "gamma2, offset "].contains(&place);
            let index = if place.starts_with("gamma2") { "point 0" } else { "point 1" };
            refused_at(&bytes, CHECKED, &[place, index, "outside the subgroup"]);
            assert_eq!(read_pk(&bytes[..], UNCHECKED).is_err(), always, "{place}");
        }
    }
    let off: [(Change<'_>, &str); 4] = [
        (&|key| key.a_query[9] = off_curve, "A, offset "),
        (&|key| key.b_g2_query[9] = off_curve_g2, "B2, offset "),
        (&|key| key.beta_g1 = off_curve, "beta1, offset "),
        (&|key| key.vk.delta_g2 = off_curve_g2, "delta2, offset "),
    ];
    for (change, place) in off {
        refused_at(&with(change, Form::Uncompressed), CHECKED, &[place, "not on the curve"]);
    }
    // Infinity stands in A, B and L alone.
    let nothing: [(Change<'_>, &str); 6] = [
        (&|key| key.h_query[6] = ArkG1::identity(), "H, offset "),
        (&|key| key.vk.gamma_abc_g1[2] = ArkG1::identity(), "IC, offset "),
        (&|key| key.vk.alpha_g1 = ArkG1::identity(), "alpha1, offset 0"),
        (&|key| key.vk.beta_g2 = ArkG2::identity(), "beta2, offset "),
        (&|key| key.beta_g1 = ArkG1::identity(), "beta1, offset "),
        (&|key| key.delta_g1 = ArkG1::identity(), "delta1, offset "),
    ];
    for (change, place) in nothing {
        for form in FORMS {
            refused_at(&with(change, form), UNCHECKED, &[place, "the point at infinity"]);
        }
    }
}

/// Encodings that ark does not write, of the second point of A.
#[test]
fn encodings_that_are_not_canonical_are_refused_by_place() {
    let key = Circuit::edge().key();
    // The smallest x without a y, as ark sees it.
    let lonely = (1..100u8)
        .find(|x| ArkG1::get_point_from_x_unchecked(fq((*x).into()), true).is_none())
        .unwrap();
    let q: [u8; 48] = ark_bls12_381::Fq::MODULUS.to_bytes_be().try_into().unwrap();
    for form in FORMS {
        let bytes = written(&key, form);
        let (_, a, point) = counts(&key, form)[1];
        let at = a + 8 + point;
        let refused = |change: &dyn Fn(&mut [u8]), found: &str| {
            let mut bytes = bytes.clone();
            change(&mut bytes[at..at + point]);
            let place = format!("A, offset {at}, point 1");
            refused_at(&bytes, UNCHECKED, &[&place, found]);
        };
        refused(&|point| point[0] ^= 0x80, "the flags of another encoding");
        let flag = if form == Form::Compressed { 0x80 } else { 0 };
        let infinity = match form {
            Form::Compressed => "no canonical encoding of a point",
            Form::Uncompressed => "an infinity flag on a point that is not zero",
        };
        refused(&|point| point[0] |= 0x40, infinity);
        let noisy = |point: &mut [u8]| {
            point.fill(0);
            point[0] = flag | 0x40;
            *point.last_mut().unwrap() = 1;
        };
        refused(&noisy, infinity);
        let large = |point: &mut [u8]| {
            point[..48].copy_from_slice(&q);
            point[0] |= flag;
        };
        match form {
            Form::Uncompressed => {
                refused(&|point| point[0] |= 0x20, "the flags of another encoding");
                refused(&large, "not below q");
                refused(&|point| point.fill(0), "(0, 0)");
            }
            Form::Compressed => {
                refused(&large, "no canonical encoding of a point");
                let lonely = |point: &mut [u8]| {
                    point.fill(0);
                    (point[0], point[47]) = (flag, lonely);
                };
                refused(&lonely, "no canonical encoding of a point");
                // (0, 2) is on the curve, and has order 3.
                let zero = |point: &mut [u8]| {
                    point.fill(0);
                    point[0] = flag;
                };
                refused(&zero, "no canonical encoding of a point");
                // The other root is another point, and one that may stand there.
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x20;
                assert!(read_pk(&bytes[..], CHECKED).is_ok());
            }
        }
    }
}

#[test]
fn verifying_keys_and_proofs_that_are_wrong_are_refused() {
    let circuit = Circuit::edge();
    let key = circuit.key();
    let proof = circuit.ark_proof(&key, [fr(2), fr(3)]);
    for form in FORMS {
        let vk = |change: &dyn Fn(&mut ArkVk<Bls12_381>)| {
            let mut vk = key.vk.clone();
            change(&mut vk);
            read_vk(&written(&vk, form)[..]).unwrap_err().to_string()
        };
        let of = |point: ArkG1| vk(&|vk| vk.gamma_abc_g1[2] = point);
        assert!(of(outside_g1()).contains("subgroup") && of(outside_g1()).contains("point 2"));
        assert!(of(ArkG1::identity()).contains("infinity"));
        assert!(vk(&|vk| vk.beta_g2 = outside_g2()).contains("beta2"));
        assert!(vk(&|vk| vk.gamma_abc_g1.clear()).contains("IC"));
        let bytes = written(&key.vk, form);
        for cut in [0, 1, 47, 48, bytes.len() - 96 * 3 - 1, bytes.len() - 1] {
            assert!(matches!(read_vk(&bytes[..cut]), Err(Error::Invalid(_))), "cut to {cut}");
        }
        let more = read_vk(&[&bytes[..], &[0]].concat()[..]).unwrap_err().to_string();
        assert!(more.contains("behind IC") && more.contains("1 more"), "{more}");

        let with = |change: &dyn Fn(&mut ArkProof<Bls12_381>)| {
            let mut proof = proof.clone();
            change(&mut proof);
            read_proof(&written(&proof, form)).unwrap_err().to_string()
        };
        assert!(with(&|proof| proof.a = outside_g1()).contains("A, offset 0"));
        assert!(with(&|proof| proof.b = outside_g2()).contains("B, offset"));
        assert!(with(&|proof| proof.c = outside_g1()).contains("C, offset"));
        assert!(with(&|proof| proof.c = ArkG1::identity()).contains("infinity"));
        let bytes = written(&proof, form);
        for bytes in [&bytes[1..], &[&bytes[..], &[0]].concat()[..], &[]] {
            assert!(read_proof(bytes).unwrap_err().to_string().contains("the proof"));
        }
    }
}

#[test]
fn kinds_are_told_apart() {
    for circuit in circuits() {
        let key = circuit.key();
        let proof = circuit.ark_proof(&key, [fr(2), fr(3)]);
        for form in FORMS {
            let [pk, vk] = [written(&key, form), written(&key.vk, form)];
            assert_eq!(Kind::of(&pk[..]).unwrap(), Kind::ArkworksPk);
            assert_eq!(Kind::of(&vk[..]).unwrap(), Kind::ArkworksVk);
            for bytes in [pk, vk] {
                // A byte, a point, a proof more or less.
                for cut in [1, 48, 96, 192, 384] {
                    let short = Kind::of(&bytes[..bytes.len() - cut]);
                    let long = Kind::of(&[&bytes[..], &vec![0; cut]].concat()[..]);
                    for kind in [short, long].into_iter().flatten() {
                        let arkworks = matches!(kind, Kind::ArkworksPk | Kind::ArkworksVk);
                        assert!(!arkworks, "{kind}, {cut}");
                    }
                }
            }
        }
        let [long, short] = FORMS.map(|form| written(&proof, form));
        assert_eq!(Kind::of(&long[..]).unwrap(), Kind::ArkworksProof);
        assert_eq!(Kind::of(&short[..]).unwrap(), Kind::Proofs);
        assert_eq!(Kind::of(&[&short[..], &short].concat()[..]).unwrap(), Kind::Proofs);
        assert_eq!(Kind::of(&short.repeat(20)[..]).unwrap(), Kind::Proofs);
    }
    for vector in Bellman::all() {
        assert_eq!(Kind::of(&vector.file("params")[..]).unwrap(), Kind::Params);
        for part in vector.parts() {
            assert_eq!(Kind::of(&read(&part.join("proof"))[..]).unwrap(), Kind::Proofs);
        }
    }
    let noise = Kind::of(&[1u8; 1000][..]).unwrap_err().to_string();
    assert!(noise.contains("arkworks"), "{noise}");
}

/// Checked once, remembered, refused by place; and the same proof from the mapped key that it becomes.
#[test]
fn a_key_is_loaded_and_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let circuit = Circuit::edge();
    let key = circuit.key();
    let once = Check::Once(CheckedKeys::in_folder(path("cache")));
    let assignment = circuit.assignment();
    let blinding = || Blinding::fixed_for_testing(Fr::from(5), Fr::from(7));
    let expected = circuit.ark_proof(&key, [fr(5), fr(7)]);
    for form in FORMS {
        let file = path("pk");
        std::fs::write(&file, written(&key, form)).unwrap();
        for (check, want) in [
            (&once, Checked::Now),
            (&once, Checked::Before),
            (&Check::Always, Checked::Now),
            (&Check::Skip, Checked::Skipped),
        ] {
            let loaded = load_key(&file, check, &Silent).unwrap();
            assert_eq!(loaded.checked, want);
            assert!((loaded.contributions, loaded.insecurity) == (None, None));
            let facts = fbkey::Facts { points_checked: true, contributions: None };
            let mut converted = std::fs::File::create(path("key.fbkey")).unwrap();
            fbkey::write(&loaded.key, facts, &Silent, &mut converted).unwrap();
            let mapped = load_key(&path("key.fbkey"), &Check::Always, &Silent).unwrap();
            for key in [&loaded.key, &mapped.key] {
                let proof = proof_of(key, &assignment, &blinding());
                assert!(proof.to_bytes()[..] == written(&expected, Form::Compressed));
            }
            assert!(ours_written(&mapped.key, form).unwrap() == written(&key, form));
        }
        let mut wrong = key.clone();
        wrong.l_query[4] = outside_g1();
        std::fs::write(&file, written(&wrong, form)).unwrap();
        let error = load_key(&file, &once, &Silent).err().unwrap().to_string();
        assert!(["pk", "L, offset", "point 4", "subgroup"].iter().all(|w| error.contains(w)));
        // A key without rows cannot prove from values alone.
        let values = Assignment { rows: None, ..assignment.clone() };
        let loaded = load_key(&path("key.fbkey"), &once, &Silent).unwrap();
        let error = prove(&Cpu::open(), &loaded.key, &values, &blinding(), &Silent).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    let weak = ArkPk { vk: ArkVk { delta_g2: key.vk.gamma_g2, ..key.vk.clone() }, ..key };
    std::fs::write(path("weak"), written(&weak, Form::Uncompressed)).unwrap();
    assert!(load_key(&path("weak"), &once, &Silent).unwrap().insecurity.is_some());
}
