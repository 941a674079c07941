//! The independent verifier: arkworks, which shares no code with blst.

use ark_bls12_381::{Bls12_381, Fr as ArkFr, G1Affine as ArkG1, G2Affine as ArkG2};
use ark_ff::PrimeField;
use ark_groth16::Groth16;
use ark_serialize::CanonicalDeserialize;
use forebay::curve::{G1Affine, G2Affine};
use forebay::field::Fr;
use forebay::key::VerifyingKey;
use forebay::proof::Proof;

fn g1(point: &G1Affine) -> ArkG1 {
    ArkG1::deserialize_compressed(&point.to_compressed()[..]).expect("a point of G1")
}

fn g2(point: &G2Affine) -> ArkG2 {
    ArkG2::deserialize_compressed(&point.to_compressed()[..]).expect("a point of G2")
}

/// Whether arkworks accepts the proof.
pub fn accepts(vk: &VerifyingKey, public: &[Fr], proof: &Proof) -> bool {
    let vk = ark_groth16::VerifyingKey::<Bls12_381> {
        alpha_g1: g1(&vk.alpha_g1),
        beta_g2: g2(&vk.beta_g2),
        gamma_g2: g2(&vk.gamma_g2),
        delta_g2: g2(&vk.delta_g2),
        gamma_abc_g1: vk.ic.iter().map(g1).collect(),
    };
    let proof = ark_groth16::Proof::<Bls12_381>::deserialize_compressed(&proof.to_bytes()[..])
        .expect("a proof");
    let public: Vec<ArkFr> =
        public.iter().map(|x| ArkFr::from_le_bytes_mod_order(&x.to_le_bytes())).collect();
    let prepared = ark_groth16::prepare_verifying_key(&vk);
    Groth16::<Bls12_381>::verify_proof(&prepared, &proof, &public)
        .expect("as many inputs as the key has")
}
