//! `forebay inspect`.

use std::path::Path;

use forebay::format::fbkey::{self, Fbkey};
use forebay::format::r1cs::R1cs;
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{FileSource, Kind, arkworks, bellman, json, wtns};
use forebay::key::{Basis, Query, VerifyingKey};
use forebay::proof::Proof;
use forebay::{Error, Result};
use serde_json::{Map, Value, json};

use super::{read_file, read_with};
use crate::cli::Inspect;
use crate::terminal::Terminal;

type Facts = Map<String, Value>;

/// Prints what a file is.
pub fn run(options: &Inspect, terminal: &Terminal) -> Result<()> {
    let source = FileSource::open(&options.file)?;
    let kind = Kind::of(&source).map_err(|error| error.in_file(&options.file))?;
    let mut facts = Facts::new();
    facts.insert("file".into(), json!(options.file));
    facts.insert("kind".into(), json!(kind.to_string()));
    facts.insert("bytes".into(), json!(forebay::format::Source::len(&source)));
    facts.insert("blake3".into(), json!(source.digest()?.to_hex().as_str()));
    facts.insert("curve".into(), json!("BLS12-381"));
    let reading = Options { check_points: options.check, scratch: None, progress: terminal };
    let more = facts_of(kind, &source, &options.file, reading)
        .map_err(|error| error.in_file(&options.file))?;
    facts.extend(more);

    if options.json {
        println!("{:#}", Value::Object(facts));
    } else {
        for (name, value) in &facts {
            match value {
                Value::String(text) => println!("{name:24} {text}"),
                other => println!("{name:24} {other}"),
            }
        }
    }
    Ok(())
}

fn facts_of(kind: Kind, source: &FileSource, path: &Path, reading: Options<'_>) -> Result<Facts> {
    let facts = match kind {
        Kind::Zkey => {
            let zkey = Zkey::open(source)?;
            let key = zkey.read(reading)?;
            json!({
                "protocol": "groth16",
                "variables": key.variables,
                "public signals": key.inputs - 1,
                "domain": 1u64 << key.log_n,
                "log2 of the domain": key.log_n,
                "H basis": basis(key.basis),
                "coefficients": zkey.coefficients,
                "infinity in A": infinity(&key.a),
                "infinity in B1": infinity(&key.b_g1),
                "infinity in B2": infinity(&key.b_g2),
                "infinity in C": infinity(&key.l),
                "points checked": reading.check_points,
                "contributions": zkey.header.contributions,
                "insecure": zkey.header.insecurity(),
            })
        }
        Kind::Fbkey => {
            let file = Fbkey::map(source)?;
            if reading.check_points {
                file.check_digests(reading.progress)?;
                file.check_points(reading.progress)?;
            }
            let (header, key) = (&file.header, file.key()?);
            json!({
                "protocol": "groth16",
                "version": fbkey::VERSION,
                "made by": header.program,
                "variables": key.variables,
                "public signals": key.inputs - 1,
                "domain": 1u64 << key.log_n,
                "log2 of the domain": key.log_n,
                "H basis": basis(key.basis),
                "coefficients": key.matrices.iter().flatten().map(|m| m.column.len()).sum::<usize>(),
                "points in H": key.h.len(),
                "points in L": key.l.points.len(),
                "points in A": key.a.points.len(),
                "points in B1": key.b_g1.points.len(),
                "points in B2": key.b_g2.points.len(),
                "points checked when made": header.points_checked,
                "points checked": reading.check_points,
                "digests checked": reading.check_points,
                "contributions": header.contributions,
                "insecure": header.insecurity(),
            })
        }
        Kind::Params => {
            let params = bellman::Params::open(source)?;
            if reading.check_points {
                params.read(reading)?;
            }
            let shape = params.shape;
            json!({
                "protocol": "groth16",
                "variables": shape.inputs + shape.l,
                "public signals": shape.inputs - 1,
                "domain": 1u64 << shape.log_n,
                "log2 of the domain": shape.log_n,
                "H basis": basis(Basis::Coefficients),
                "points in H": shape.h,
                "points in L": shape.l,
                "points in A": shape.a,
                "points in B": shape.b,
                "points checked": reading.check_points,
                "insecure": params.vk.vk.insecurity(),
            })
        }
        Kind::ArkworksPk => {
            let pk = arkworks::Pk::open(source)?;
            let key = pk.read(reading)?;
            json!({
                "protocol": "groth16",
                "compressed": pk.form() == arkworks::Form::Compressed,
                "variables": key.variables,
                "public signals": key.inputs - 1,
                "domain": 1u64 << key.log_n,
                "log2 of the domain": key.log_n,
                "H basis": basis(key.basis),
                "infinity in A": infinity(&key.a),
                "infinity in B1": infinity(&key.b_g1),
                "infinity in B2": infinity(&key.b_g2),
                "infinity in L": infinity(&key.l),
                "points checked": reading.check_points,
                "insecure": key.vk.insecurity(),
            })
        }
        Kind::ArkworksVk => verifying_key(&arkworks::read_vk(source)?),
        Kind::BellmanVk => verifying_key(&bellman::read_vk(source)?.vk),
        Kind::VerifyingKeyJson => verifying_key(&read_with(path, json::read_verifying_key)?),
        Kind::Wtns => {
            let values = wtns::read_file(path)?;
            let share = |predicate: fn(&[u64; 4]) -> bool| {
                let count =
                    values.iter().filter(|value| predicate(&value.to_canonical_limbs())).count();
                count as f64 / values.len() as f64
            };
            json!({
                "values": values.len(),
                "share of 0": share(|v| *v == [0; 4]),
                "share of 1": share(|v| *v == [1, 0, 0, 0]),
            })
        }
        Kind::R1cs => {
            let r1cs = R1cs::read(source)?;
            let mut terms = [0u64; 3];
            r1cs.for_each(|_, sides| {
                terms.iter_mut().zip(sides).for_each(|(sum, side)| *sum += side.len() as u64);
                Ok(())
            })?;
            let header = r1cs.header;
            json!({
                "constraints": header.constraints,
                "wires": header.wires,
                "public outputs": header.public_outputs,
                "public inputs": header.public_inputs,
                "private inputs": header.private_inputs,
                "terms in A, B, C": terms,
            })
        }
        Kind::Proofs => {
            let proofs = read_with(path, Proof::many_from_bytes)?;
            json!({ "proofs": proofs.len() })
        }
        Kind::ProofJson => proof(&json::read_proof(&read_file(path)?)?),
        Kind::ArkworksProof => proof(&arkworks::read_proof(&read_file(path)?)?),
        Kind::PublicJson => {
            json!({ "public signals": json::read_public(&read_file(path)?)?.len() })
        }
    };
    match facts {
        Value::Object(facts) => Ok(facts),
        _ => Err(Error::Usage("inspect has nothing to say".into())),
    }
}

fn verifying_key(vk: &VerifyingKey) -> Value {
    json!({ "protocol": "groth16", "public signals": vk.public_inputs(), "insecure": vk.insecurity() })
}

fn proof(proof: &Proof) -> Value {
    let bytes: String = proof.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "protocol": "groth16", "192 bytes": bytes })
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Coefficients => "coefficients (bellman, arkworks)",
        Basis::OddCoset => "odd coset (snarkjs)",
    }
}

/// The share of a query's variables whose point is infinity.
fn infinity<F>(query: &Query<F>) -> f64 {
    let len = query.density.as_ref().map_or(query.points.len(), |density| density.len);
    if len == 0 { 0.0 } else { 1.0 - query.points.len() as f64 / len as f64 }
}
