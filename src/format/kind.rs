//! Telling the formats apart.

use super::arkworks::Lengths;
use super::{Source, fbkey};
use crate::proof::Proof;
use crate::{Error, Result};

/// The kinds of file that this crate reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// snarkjs' proving key.
    Zkey,
    /// A witness.
    Wtns,
    /// A constraint system.
    R1cs,
    /// Our own proving key.
    Fbkey,
    /// bellman's proving key.
    Params,
    /// bellman's verifying key.
    BellmanVk,
    /// arkworks' proving key, compressed or not.
    ArkworksPk,
    /// arkworks' verifying key, compressed or not.
    ArkworksVk,
    /// arkworks' proof, uncompressed.
    ArkworksProof,
    /// Proofs of 192 bytes, one after another.
    Proofs,
    /// snarkjs' proof.json.
    ProofJson,
    /// snarkjs' public.json.
    PublicJson,
    /// snarkjs' verification_key.json.
    VerifyingKeyJson,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Zkey => "a .zkey proving key (snarkjs)",
            Self::Wtns => "a .wtns witness (circom)",
            Self::R1cs => "an .r1cs constraint system (circom)",
            Self::Fbkey => "a .fbkey proving key (forebay)",
            Self::Params => "a .params proving key (bellman)",
            Self::BellmanVk => "a .vk verifying key (bellman)",
            Self::ArkworksPk => "a proving key (arkworks)",
            Self::ArkworksVk => "a verifying key (arkworks)",
            Self::ArkworksProof => "an uncompressed proof (arkworks)",
            Self::Proofs => "192-byte proofs (bellman, arkworks)",
            Self::ProofJson => "a proof.json (snarkjs)",
            Self::PublicJson => "a public.json (snarkjs)",
            Self::VerifyingKeyJson => "a verification_key.json (snarkjs)",
        })
    }
}

impl Kind {
    /// The kind that the first bytes and the length say. arkworks' files have no magic, but counts that add up to their length.
    /// bellman's have none either, but their lengths differ modulo 96: proofs leave 0 (192 each), a `.vk` 868 = 4, `.params`
    /// with five more counts 24.
    pub fn of<S: Source + ?Sized>(source: &S) -> Result<Self> {
        let mut first = [0; 256];
        let first = &mut first[..source.len().min(256) as usize];
        source.read_at(0, first)?;
        if first.starts_with(&fbkey::MAGIC) {
            return Ok(Self::Fbkey);
        }
        match first.get(..4) {
            Some(b"zkey") => return Ok(Self::Zkey),
            Some(b"wtns") => return Ok(Self::Wtns),
            Some(b"r1cs") => return Ok(Self::R1cs),
            _ => {}
        }
        let text = first.trim_ascii_start();
        // A binary key's first bytes can be white space and a bracket, but not all of them text.
        match text.first().filter(|_| first.is_ascii()) {
            Some(b'[') => return Ok(Self::PublicJson),
            Some(b'{') => return Self::of_json_object(source),
            _ => {}
        }
        match Lengths::of(source)? {
            Some(Lengths::Pk) => return Ok(Self::ArkworksPk),
            Some(Lengths::Vk) => return Ok(Self::ArkworksVk),
            Some(Lengths::UncompressedProof) => return Ok(Self::ArkworksProof),
            None => {}
        }
        match source.len() % 96 {
            0 if source.len() > 0 && source.len().is_multiple_of(Proof::BYTES as u64) => {
                Ok(Self::Proofs)
            }
            4 if source.len() > 868 => Ok(Self::BellmanVk),
            24 if source.len() > 888 => Ok(Self::Params),
            _ => {
                let found = format!(
                    "{} bytes that start with \"{}\"",
                    source.len(),
                    text[..text.len().min(8)].escape_ascii()
                );
                let expected = ".zkey, .wtns, .r1cs, .params, .fbkey, .vk, arkworks' keys (counts that add up to the \
                    file's length), proofs of 192 or 384 bytes, or snarkjs' JSON";
                Err(Error::invalid("the file", found, expected))
            }
        }
    }

    /// A proof has `pi_a`, a verifying key does not; the fields' order is free, so all of it is searched.
    fn of_json_object<S: Source + ?Sized>(source: &S) -> Result<Self> {
        let mut text = vec![0; source.len() as usize];
        source.read_at(0, &mut text)?;
        let has = |name: &[u8]| text.windows(name.len()).any(|window| window == name);
        if has(b"\"pi_a\"") {
            Ok(Self::ProofJson)
        } else if has(b"\"vk_alpha_1\"") {
            Ok(Self::VerifyingKeyJson)
        } else {
            Err(Error::invalid(
                "the file",
                "a JSON object with neither pi_a nor vk_alpha_1",
                "proof.json or verification_key.json",
            ))
        }
    }
}
