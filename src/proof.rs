//! Proofs: the 192-byte encoding, and the verifier.

use crate::backend::cpu::host_msm;
use crate::blst::{pairing_one, pairing_product};
use crate::curve::{Coordinate, G1Affine, G2Affine};
use crate::field::Fr;
use crate::key::VerifyingKey;
use crate::{Error, Result};

/// A Groth16 proof.
///
/// Anyone can turn a valid proof into other valid proofs of the same statement, (-A, -B, C) for one:
/// Groth16 is malleable, so a proof's bytes must never serve as an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// A in G1.
    pub a: G1Affine,
    /// B in G2.
    pub b: G2Affine,
    /// C in G1.
    pub c: G1Affine,
}

impl Proof {
    /// Bytes of the encoding: A, B, C, Zcash compressed (48, 96, 48), as bellman and arkworks write it.
    pub const BYTES: usize = 192;

    /// The 192-byte encoding.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..48].copy_from_slice(&self.a.to_compressed());
        bytes[48..144].copy_from_slice(&self.b.to_compressed());
        bytes[144..].copy_from_slice(&self.c.to_compressed());
        bytes
    }

    /// Decodes a proof and checks that its points are of order r and not infinity.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self> {
        let (a, rest) = bytes.split_at(48);
        let (b, c) = rest.split_at(96);
        let g1 = |bytes: &[u8]| bytes.try_into().ok().and_then(G1Affine::from_compressed);
        let g2 = |bytes: &[u8]| bytes.try_into().ok().and_then(G2Affine::from_compressed);
        Ok(Self {
            a: decoded("A, offset 0", g1(a))?,
            b: decoded("B, offset 48", g2(b))?,
            c: decoded("C, offset 144", g1(c))?,
        })
    }

    /// Decodes proofs that follow one another, as Filecoin keeps those of the partitions.
    pub fn many_from_bytes(bytes: &[u8]) -> Result<Vec<Self>> {
        let (proofs, rest) = bytes.as_chunks::<{ Self::BYTES }>();
        if proofs.is_empty() || !rest.is_empty() {
            let expected = format!("one or more proofs of {} bytes", Self::BYTES);
            return Err(Error::invalid("the proofs", format!("{} bytes", bytes.len()), expected));
        }
        let proof = |(i, bytes): (usize, &[u8; Self::BYTES])| {
            Self::from_bytes(bytes).map_err(|error| match error {
                Error::Invalid(mut invalid) => {
                    invalid.place = format!("proof {i}, {}", invalid.place);
                    Error::Invalid(invalid)
                }
                other => other,
            })
        };
        proofs.iter().enumerate().map(proof).collect()
    }
}

fn decoded<F: Coordinate>(
    place: &str,
    point: Option<crate::curve::Affine<F>>,
) -> Result<crate::curve::Affine<F>> {
    let expected = format!("a compressed point of {} that is not infinity", F::GROUP);
    match point {
        None => Err(Error::invalid(place, "no encoding of a point on the curve", expected)),
        Some(point) if point.is_infinity() => {
            Err(Error::invalid(place, "the point at infinity", expected))
        }
        Some(point) if !F::in_subgroup(&point) => {
            Err(Error::invalid(place, "a point outside the subgroup of order r", expected))
        }
        Some(point) => Ok(point),
    }
}

/// Whether `proof` proves the statement with these `public` signals (without the constant 1):
/// e(A, B) = e(alpha, beta) e(IC_0 + sum public_i IC_(i+1), gamma) e(C, delta).
///
/// # Errors
/// If the number of signals is not the key's. Points of key and proof must be valid, as every
/// reader of this crate makes sure.
pub fn verify(vk: &VerifyingKey, public: &[Fr], proof: &Proof) -> Result<bool> {
    if public.len() != vk.public_inputs() {
        return Err(Error::invalid(
            "public signals",
            public.len(),
            format!("{} as in the verifying key", vk.public_inputs()),
        ));
    }
    let statement = (host_msm(&vk.ic[1..], public) + vk.ic[0]).to_affine();
    let pairs = [
        (proof.a.neg(), proof.b),
        (vk.alpha_g1, vk.beta_g2),
        (statement, vk.gamma_g2),
        (proof.c, vk.delta_g2),
    ];
    Ok(pairing_product(&pairs) == pairing_one())
}
