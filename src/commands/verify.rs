//! `forebay verify`.

use forebay::format::json;
use forebay::proof::verify;
use forebay::{Error, Result};

use super::read_with;
use crate::cli::Verify;
use crate::terminal::Terminal;

/// Prints that the proof is valid, or fails.
pub fn run(options: &Verify, terminal: &Terminal) -> Result<()> {
    let vk = read_with(&options.key, json::read_verifying_key)?;
    let public = read_with(&options.public, json::read_public)?;
    let proof = read_with(&options.proof, json::read_proof)?;
    if vk.is_insecure() {
        if !options.allow_insecure_key {
            let error = Error::invalid(
                "vk_delta_2",
                "the same point as vk_gamma_2 (no second phase: anyone can forge proofs)",
                "another point, or --allow-insecure-key",
            );
            return Err(error.in_file(&options.key));
        }
        terminal
            .warn(format!("{}: INSECURE key, anyone can forge its proofs", options.key.display()));
    }
    if !verify(&vk, &public, &proof).map_err(|error| error.in_file(&options.public))? {
        let error = Error::invalid(
            "the proof",
            "a pairing equation that does not hold",
            "a proof of this statement",
        );
        return Err(error.in_file(&options.proof));
    }
    println!("OK: the proof is valid");
    Ok(())
}
