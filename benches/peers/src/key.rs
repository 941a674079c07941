//! The proving key: made by ark's setup from a fixed seed, kept on disk, and
//! handed to bellperson in bellperson's own file format.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ark_bls12_381::Bls12_381;
use ark_ec::AffineRepr;
use ark_groth16::{Groth16, ProvingKey};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::ark::Circuit;
use crate::system::System;

/// The seed of the setup. The key is of use for nothing but this benchmark.
const SEED: u64 = 0x7065_6572_7302;

/// To be raised with every change of a system, of a seed or of the format, so
/// that no stale key is read.
const VERSION: u32 = 1;

/// The key of `system`, read from `cache` or made and left there.
pub fn load_or_make(system: &System, cache: &Path) -> Result<ProvingKey<Bls12_381>> {
    let name = format!("ark-{}-{}-v{VERSION}.key", system.kind, system.log_n);
    let path = cache.join(name);
    let key = match File::open(&path) {
        Ok(file) => ProvingKey::deserialize_uncompressed_unchecked(BufReader::new(file))
            .with_context(|| format!("{} is damaged: remove it", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("making the key for {} 2^{}", system.kind, system.log_n);
            let key = make(system)?;
            store(&key, &path).with_context(|| format!("cannot write {}", path.display()))?;
            key
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    ensure!(
        key.a_query.len() == system.assignment.len()
            && key.h_query.len() == (1 << system.log_n) - 1
            && key.vk.gamma_abc_g1.len() == system.inputs(),
        "{} is not the key of this system: remove it",
        path.display()
    );
    Ok(key)
}

/// Runs ark's setup for `system`.
pub fn make(system: &System) -> Result<ProvingKey<Bls12_381>> {
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let circuit = Circuit::new(system);
    Groth16::<Bls12_381>::generate_random_parameters_with_reduction(circuit, &mut rng)
        .context("ark's setup failed")
}

/// Writes the key beside its place first, so that none is ever seen half
/// written.
fn store(key: &ProvingKey<Bls12_381>, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = path.with_extension("partial");
    let mut file = BufWriter::new(File::create(&partial)?);
    key.serialize_uncompressed(&mut file)?;
    file.flush()?;
    fs::rename(&partial, path)?;
    Ok(())
}

/// The key in the format of bellperson's parameter files: points uncompressed
/// in the zcash encoding, and those at infinity left out of the `a` and `b`
/// queries.
pub fn parameters(key: &ProvingKey<Bls12_381>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    point(&mut out, &key.vk.alpha_g1)?;
    point(&mut out, &key.beta_g1)?;
    point(&mut out, &key.vk.beta_g2)?;
    point(&mut out, &key.vk.gamma_g2)?;
    point(&mut out, &key.delta_g1)?;
    point(&mut out, &key.vk.delta_g2)?;
    points(&mut out, &key.vk.gamma_abc_g1)?;
    points(&mut out, &key.h_query)?;
    points(&mut out, &key.l_query)?;
    points(&mut out, &finite(&key.a_query))?;
    points(&mut out, &finite(&key.b_g1_query))?;
    points(&mut out, &finite(&key.b_g2_query))?;
    Ok(out)
}

fn finite<G: AffineRepr>(points: &[G]) -> Vec<G> {
    points.iter().filter(|p| !p.is_zero()).copied().collect()
}

fn point<G: AffineRepr>(out: &mut Vec<u8>, point: &G) -> Result<()> {
    Ok(point.serialize_uncompressed(out)?)
}

fn points<G: AffineRepr>(out: &mut Vec<u8>, points: &[G]) -> Result<()> {
    out.extend_from_slice(&u32::try_from(points.len())?.to_be_bytes());
    points.iter().try_for_each(|p| point(out, p))
}
