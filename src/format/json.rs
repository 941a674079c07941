//! snarkjs' JSON: `proof.json`, `public.json`, `verification_key.json`.
//!
//! Reading is stricter than snarkjs: numbers are decimal strings, canonical (no sign, no leading zero, below the
//! modulus); points are affine with a third coordinate of exactly 1, on the curve, of order r, and not
//! infinity; lengths are exact; protocol and curve are named and right. Writing gives snarkjs' bytes
//! (`JSON.stringify(value, null, 1)`, no newline at the end).

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};

use crate::blst::pairing_product;
use crate::curve::{Affine, Coordinate};
use crate::field::{Fp, Fp2, Fr};
use crate::key::VerifyingKey;
use crate::proof::Proof;
use crate::{Error, Result};

const PROTOCOL: &str = "groth16";
const CURVE: &str = "bls12381";

/// A point of G1 as text: x, y, z.
type G1Text = Vec<String>;
/// A point of G2 as text: x, y, z, each c0, c1.
type G2Text = Vec<Vec<String>>;

#[derive(Serialize, Deserialize)]
struct ProofText {
    pi_a: G1Text,
    pi_b: G2Text,
    pi_c: G1Text,
    protocol: String,
    curve: String,
}

#[derive(Serialize, Deserialize)]
#[allow(non_snake_case, reason = "snarkjs' names")]
struct VerifyingKeyText {
    protocol: String,
    curve: String,
    nPublic: usize,
    vk_alpha_1: G1Text,
    vk_beta_2: G2Text,
    vk_gamma_2: G2Text,
    vk_delta_2: G2Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    vk_alphabeta_12: Option<Vec<Vec<Vec<String>>>>,
    IC: Vec<G1Text>,
}

/// Reads a `proof.json`.
pub fn read_proof(text: &[u8]) -> Result<Proof> {
    let text: ProofText = parse(text)?;
    expect_kind(&text.protocol, &text.curve)?;
    let proof = Proof {
        a: g1("pi_a", &text.pi_a)?,
        b: g2("pi_b", &text.pi_b)?,
        c: g1("pi_c", &text.pi_c)?,
    };
    Ok(proof)
}

/// Writes a `proof.json`.
pub fn write_proof(proof: &Proof) -> Vec<u8> {
    to_json(&ProofText {
        pi_a: g1_text(&proof.a),
        pi_b: g2_text(&proof.b),
        pi_c: g1_text(&proof.c),
        protocol: PROTOCOL.into(),
        curve: CURVE.into(),
    })
}

/// Reads a `public.json`: the public signals, without the constant 1.
pub fn read_public(text: &[u8]) -> Result<Vec<Fr>> {
    let text: Vec<String> = parse(text)?;
    let number = |(i, text): (usize, &String)| {
        let place = format!("public signal {i}");
        let value = decimal(&place, text, 78)?;
        Fr::from_biguint(&value).ok_or_else(|| Error::invalid(place, text, "a number below r"))
    };
    text.iter().enumerate().map(number).collect()
}

/// Writes a `public.json`.
pub fn write_public(public: &[Fr]) -> Vec<u8> {
    to_json(&public.iter().map(|value| value.to_biguint().to_string()).collect::<Vec<_>>())
}

/// Reads a `verification_key.json`. If it has `vk_alphabeta_12`, it must be the pairing of alpha and beta.
pub fn read_verifying_key(text: &[u8]) -> Result<VerifyingKey> {
    let text: VerifyingKeyText = parse(text)?;
    expect_kind(&text.protocol, &text.curve)?;
    if text.IC.len().checked_sub(1) != Some(text.nPublic) {
        let found = format!("{} points", text.IC.len());
        return Err(Error::invalid(
            "IC",
            found,
            format!("nPublic + 1 = {}", text.nPublic as u128 + 1),
        ));
    }
    let ic = text.IC.iter().enumerate().map(|(i, point)| g1(&format!("IC[{i}]"), point));
    let vk = VerifyingKey {
        alpha_g1: g1("vk_alpha_1", &text.vk_alpha_1)?,
        beta_g2: g2("vk_beta_2", &text.vk_beta_2)?,
        gamma_g2: g2("vk_gamma_2", &text.vk_gamma_2)?,
        delta_g2: g2("vk_delta_2", &text.vk_delta_2)?,
        ic: ic.collect::<Result<_>>()?,
    };
    if text.vk_alphabeta_12.is_some_and(|given| given != alphabeta_text(&vk)) {
        return Err(Error::invalid(
            "vk_alphabeta_12",
            "another value",
            "the pairing of vk_alpha_1 and vk_beta_2",
        ));
    }
    Ok(vk)
}

/// Writes a `verification_key.json`.
pub fn write_verifying_key(vk: &VerifyingKey) -> Vec<u8> {
    to_json(&VerifyingKeyText {
        protocol: PROTOCOL.into(),
        curve: CURVE.into(),
        nPublic: vk.public_inputs(),
        vk_alpha_1: g1_text(&vk.alpha_g1),
        vk_beta_2: g2_text(&vk.beta_g2),
        vk_gamma_2: g2_text(&vk.gamma_g2),
        vk_delta_2: g2_text(&vk.delta_g2),
        vk_alphabeta_12: Some(alphabeta_text(vk)),
        IC: vk.ic.iter().map(g1_text).collect(),
    })
}

/// e(alpha, beta) as text, `[c0, c1][c0, c1, c2][c0, c1]`.
fn alphabeta_text(vk: &VerifyingKey) -> Vec<Vec<Vec<String>>> {
    let text = |c: [Fp; 2]| c.map(|c| c.to_biguint().to_string()).to_vec();
    let pairing = pairing_product(&[(vk.alpha_g1, vk.beta_g2)]);
    pairing.map(|c| c.map(text).to_vec()).to_vec()
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Error::invalid(place, error, "snarkjs' JSON")
    })
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    // Writing plain strings and numbers to memory cannot fail.
    value.serialize(&mut serializer).expect("JSON to memory");
    out
}

/// Protocol and curve; the curve's name is compared as snarkjs does, upper case and letters and digits only.
fn expect_kind(protocol: &str, curve: &str) -> Result<()> {
    if protocol != PROTOCOL {
        return Err(Error::invalid(
            "protocol",
            format!("\"{protocol}\""),
            format!("\"{PROTOCOL}\""),
        ));
    }
    let plain: String = curve.chars().filter(char::is_ascii_alphanumeric).collect();
    if !plain.eq_ignore_ascii_case(CURVE) {
        return Err(Error::invalid("curve", format!("\"{curve}\""), format!("\"{CURVE}\"")));
    }
    Ok(())
}

/// A canonical decimal number of at most `digits` digits.
fn decimal(place: &str, text: &str, digits: usize) -> Result<BigUint> {
    let plain = text.len() <= digits && text.bytes().all(|b| b.is_ascii_digit());
    let canonical = plain && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().ok()).flatten().ok_or_else(|| {
        let shown: String = text.chars().take(digits + 1).collect();
        Error::invalid(
            place,
            format!("\"{shown}\""),
            "a decimal number without sign or leading zero, below the modulus",
        )
    })
}

fn coordinate(place: &str, text: &str) -> Result<Fp> {
    let value = decimal(place, text, 115)?;
    Fp::from_biguint(&value).ok_or_else(|| Error::invalid(place, text, "a number below q"))
}

fn exactly<'a, T, const N: usize>(place: &str, items: &'a [T], what: &str) -> Result<&'a [T; N]> {
    items.try_into().map_err(|_| {
        Error::invalid(place, format!("{} {what}", items.len()), format!("{N} {what}"))
    })
}

fn g1(place: &str, text: &[String]) -> Result<Affine<Fp>> {
    let [x, y, z] = exactly(place, text, "coordinates")?;
    if z != "1" {
        return Err(Error::invalid(
            format!("{place}[2]"),
            format!("\"{z}\""),
            "\"1\" (an affine point, not infinity)",
        ));
    }
    valid(
        place,
        Affine([coordinate(&format!("{place}[0]"), x)?, coordinate(&format!("{place}[1]"), y)?]),
    )
}

fn g2(place: &str, text: &[Vec<String>]) -> Result<Affine<Fp2>> {
    let [x, y, z] = exactly(place, text, "coordinates")?;
    if z[..] != ["1", "0"] {
        return Err(Error::invalid(
            format!("{place}[2]"),
            format!("{z:?}"),
            "[\"1\", \"0\"] (an affine point, not infinity)",
        ));
    }
    let fp2 = |i: usize, text: &[String]| -> Result<Fp2> {
        let place = format!("{place}[{i}]");
        let [c0, c1] = exactly(&place, text, "components")?;
        Ok(Fp2::new(
            coordinate(&format!("{place}[0]"), c0)?,
            coordinate(&format!("{place}[1]"), c1)?,
        ))
    };
    valid(place, Affine([fp2(0, x)?, fp2(1, y)?]))
}

fn valid<F: Coordinate>(place: &str, point: Affine<F>) -> Result<Affine<F>> {
    if point.is_infinity() || !F::on_curve(&point) {
        return Err(Error::invalid(
            place,
            "a point that is not on the curve",
            format!("a point of {}", F::GROUP),
        ));
    }
    if !F::in_subgroup(&point) {
        return Err(Error::invalid(
            place,
            "a point outside the subgroup of order r",
            format!("a point of {}", F::GROUP),
        ));
    }
    Ok(point)
}

fn g1_text(point: &Affine<Fp>) -> G1Text {
    if point.is_infinity() {
        return ["0", "1", "0"].map(String::from).to_vec();
    }
    vec![point.x().to_biguint().to_string(), point.y().to_biguint().to_string(), "1".into()]
}

fn g2_text(point: &Affine<Fp2>) -> G2Text {
    if point.is_infinity() {
        return [["0", "0"], ["1", "0"], ["0", "0"]].map(|c| c.map(String::from).to_vec()).to_vec();
    }
    let text = |c: Fp2| vec![c.c0().to_biguint().to_string(), c.c1().to_biguint().to_string()];
    vec![text(point.x()), text(point.y()), vec!["1".into(), "0".into()]]
}
