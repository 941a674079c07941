//! The keys: made here when they are first needed, then kept. Whoever makes a key can forge its proofs, so these are for
//! measuring and trying, not for a network; Filecoin's own keys have the same form and names.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use bellperson::Circuit;
use bellperson::groth16::VerifyingKey;
use blstrs::{Bls12, Scalar};
use forebay::backend::cpu::Cpu;
use forebay::bellpepper02;
use forebay::format::Silent;
use forebay::key::{Check, CheckedKeys, ProvingKey, load_key};
use forebay::setup::{Secrets, write_params};

/// One key, twice: as forebay proves with it, and as bellperson verifies with it.
pub struct Key {
    /// For the engine.
    pub proving: Arc<ProvingKey>,
    /// As bellperson reads it, from the same file.
    pub verifying: VerifyingKey<Bls12>,
}

/// The file of the key called `name` in `folder`, made from the circuit `blank` if there is none. The file is whole or not
/// there.
///
/// # Errors
/// If the circuit cannot be synthesised without a witness, or the file not be written.
pub fn make<C: Circuit<Scalar>>(folder: &Path, name: &str, blank: C) -> Result<PathBuf> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(path);
    }
    let in_folder = || format!("cannot write into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(in_folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(in_folder)?;
    let constraints = bellpepper02::constraints(blank)?;
    let mut out = BufWriter::new(file.as_file_mut());
    write_params(&Cpu::open(), &constraints, &Secrets::random()?, &Silent, &mut out)?;
    out.flush().with_context(in_folder)?;
    drop(out);
    file.as_file().sync_all().with_context(in_folder)?;
    file.persist(&path).with_context(in_folder)?;
    Ok(path)
}

/// Reads a key. Its points are checked once; that they were is remembered beside it.
///
/// # Errors
/// If the file is no key of bellman's form.
pub fn load(path: &Path) -> Result<Key> {
    let known = path.parent().unwrap_or(Path::new("")).join("checked");
    let check = Check::Once(CheckedKeys::in_folder(known));
    let proving = Arc::new(load_key(path, &check, &Silent)?.key);
    // A .params file begins with its verifying key.
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let verifying = VerifyingKey::read(BufReader::new(file))?;
    Ok(Key { proving, verifying })
}
