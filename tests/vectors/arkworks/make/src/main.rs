//! Makes the vectors of this folder with ark-groth16 0.4 and 0.5, and fails unless both write the same bytes.
//! The README of the folder above says how to run it.

use std::collections::BTreeMap;

type Files = BTreeMap<&'static str, Vec<u8>>;

macro_rules! make {
    ($version:ident, $bls:ident, $ec:ident, $group:ident, $ff:ident, $groth16:ident, $relations:ident, $serialize:ident, $std:ident) => {
        mod $version {
            use $bls::{Bls12_381, Fr, G1Projective, G2Projective};
            use $ec::$group as _;
            use $ff::{BigInteger, Field, PrimeField};
            use $groth16::Groth16;
            use $relations::r1cs::{
                ConstraintSynthesizer, ConstraintSystem, ConstraintSystemRef, LinearCombination,
                SynthesisError, Variable,
            };
            use $serialize::CanonicalSerialize;
            use $std::rand::{SeedableRng, rngs::StdRng};

            /// A variable only in A, only in B, only in C, nowhere; an input in B, one in no constraint; an empty row; a full domain.
            #[derive(Clone, Copy)]
            pub struct Edge;

            impl ConstraintSynthesizer<Fr> for Edge {
                fn generate_constraints(
                    self,
                    cs: ConstraintSystemRef<Fr>,
                ) -> Result<(), SynthesisError> {
                    let fr = |value: u64| Fr::from(value);
                    let (x, third) = (fr(11), fr(3).inverse().unwrap());
                    let y = (third - fr(2)) * (x + fr(1));
                    let x1 = cs.new_input_variable(|| Ok(x))?;
                    cs.new_input_variable(|| Ok(-fr(1)))?;
                    let private = |value| cs.new_witness_variable(|| Ok(value));
                    let (in_a, in_b, in_c) = (private(fr(5))?, private(fr(7))?, private(fr(35))?);
                    private(fr(9))?;
                    let (w, y1, y2) = (private(third)?, private(y)?, private(y * y)?);
                    let one = Variable::One;
                    let sum = |terms: &[(Fr, Variable)]| LinearCombination(terms.to_vec());
                    let only = |variable| sum(&[(fr(1), variable)]);
                    cs.enforce_constraint(only(in_a), only(in_b), only(in_c))?;
                    let left = sum(&[(-fr(2), one), (fr(1), w)]);
                    let right = sum(&[(fr(1), one), (fr(1), x1)]);
                    cs.enforce_constraint(left, right, only(y1))?;
                    cs.enforce_constraint(only(y1), only(y1), only(y2))?;
                    cs.enforce_constraint(sum(&[]), sum(&[]), sum(&[]))?;
                    cs.enforce_constraint(only(one), only(w), only(w))
                }
            }

            fn written(value: &impl CanonicalSerialize) -> [Vec<u8>; 2] {
                let mut out = [Vec::new(), Vec::new()];
                value.serialize_uncompressed(&mut out[0]).unwrap();
                value.serialize_compressed(&mut out[1]).unwrap();
                out
            }

            fn scalars(values: &[Fr]) -> Vec<u8> {
                values.iter().flat_map(|value| value.into_bigint().to_bytes_le()).collect()
            }

            pub fn make() -> super::Files {
                let fr = |value: u64| Fr::from(value);
                let pk = Groth16::<Bls12_381>::generate_parameters_with_qap(
                    Edge,
                    fr(13),
                    fr(17),
                    fr(19),
                    fr(23),
                    G1Projective::generator() * fr(3),
                    G2Projective::generator() * fr(5),
                    &mut StdRng::seed_from_u64(1),
                )
                .unwrap();
                let [r, s] = [fr(29).inverse().unwrap(), fr(31).inverse().unwrap()];
                let proof =
                    Groth16::<Bls12_381>::create_proof_with_reduction(Edge, &pk, r, s).unwrap();

                let cs = ConstraintSystem::new_ref();
                Edge.generate_constraints(cs.clone()).unwrap();
                cs.finalize();
                assert!(cs.is_satisfied().unwrap());
                let matrices = cs.to_matrices().unwrap();
                let cs = cs.borrow().unwrap();
                let (input, aux) = (&cs.instance_assignment[..], &cs.witness_assignment[..]);
                let values = [input, aux].concat();
                let rows = |matrix: &[Vec<(Fr, usize)>], inputs: bool| {
                    let mut rows: Vec<Fr> = matrix
                        .iter()
                        .map(|row| row.iter().map(|(c, i)| *c * values[*i]).sum())
                        .collect();
                    rows.extend(input.iter().map(|x| if inputs { *x } else { Fr::from(0) }));
                    scalars(&rows)
                };
                let [pk_long, pk_short] = written(&pk);
                let [vk_long, vk_short] = written(&pk.vk);
                let [proof_long, proof_short] = written(&proof);
                let prepared = $groth16::prepare_verifying_key(&pk.vk);
                assert!(
                    Groth16::<Bls12_381>::verify_proof(&prepared, &proof, &input[1..]).unwrap()
                );
                super::Files::from([
                    ("pk", pk_long),
                    ("pk.compressed", pk_short),
                    ("vk", vk_long),
                    ("vk.compressed", vk_short),
                    ("proof", proof_long),
                    ("proof.compressed", proof_short),
                    ("input", scalars(input)),
                    ("aux", scalars(aux)),
                    ("a", rows(&matrices.a, true)),
                    ("b", rows(&matrices.b, false)),
                    ("c", rows(&matrices.c, false)),
                    ("rs", scalars(&[r, s])),
                ])
            }
        }
    };
}
make!(
    v0_4,
    ark_bls12_381_4,
    ark_ec_4,
    Group,
    ark_ff_4,
    ark_groth16_4,
    ark_relations_4,
    ark_serialize_4,
    ark_std_4
);
make!(
    v0_5,
    ark_bls12_381_5,
    ark_ec_5,
    PrimeGroup,
    ark_ff_5,
    ark_groth16_5,
    ark_relations_5,
    ark_serialize_5,
    ark_std_5
);

fn main() {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    let files = v0_4::make();
    for (name, other) in v0_5::make() {
        assert!(files[name] == other, "0.4 and 0.5 write another {name}");
    }
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, bytes) in files {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).expect("a file");
    }
}
