//! Proofs of a statement's circuits, from forebay's engine.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bellperson::Circuit;
use bellperson::groth16::Proof;
use blstrs::{Bls12, Scalar};
use forebay::bellpepper02;
use forebay::circuit::Sizes;
use forebay::engine::{Engine, Job, Partition, Proved};
use forebay::key::ProvingKey;

/// One partition's proof, and what it took.
pub struct Done {
    /// Rows of the circuit, those of its inputs among them.
    pub rows: usize,
    /// The time of the circuit's synthesis.
    pub synthesis: Duration,
    /// The proof and how it came about.
    pub proved: Proved,
}

impl Done {
    /// The proof as bellperson has it: read from its 192 bytes, which checks that its points are of order r.
    pub fn proof(&self) -> Result<Proof<Bls12>> {
        Ok(Proof::read(&self.proved.proof.to_bytes()[..])?)
    }
}

/// Proves `circuits`, the partitions of one job; each is synthesised just ahead of its turn.
///
/// # Errors
/// If a circuit's witness does not satisfy it, and whatever the engine fails with.
pub fn prove<C: Circuit<Scalar> + Send + 'static>(
    engine: &Engine,
    label: &str,
    key: &Arc<ProvingKey>,
    circuits: Vec<C>,
) -> Result<Vec<Done>> {
    let sizes = Sizes::of_key(key);
    let (mut partitions, mut synthesised) = (Vec::new(), Vec::new());
    for circuit in circuits {
        let figures = Arc::new(OnceLock::new());
        synthesised.push(figures.clone());
        let (key, needs, sizes) = (key.clone(), sizes.clone(), sizes.clone());
        // `bellpepper02::partition` does the same without a clock.
        partitions.push(Partition::estimated(
            move || needs.bytes(),
            move || {
                let start = Instant::now();
                let assignment = bellpepper02::assignment(&key, circuit, &sizes)?;
                if let Some(rows) = &assignment.rows {
                    figures.get_or_init(|| (rows.a.len(), start.elapsed()));
                }
                Ok(assignment)
            },
        )?);
    }
    let proved = engine.submit(Job::new(label, key.clone(), partitions))?.wait()?;
    let done = |(proved, figures): (Proved, Arc<OnceLock<_>>)| {
        let (rows, synthesis) = *figures.get().context("a proof without rows")?;
        Ok(Done { rows, synthesis, proved })
    };
    proved.into_iter().zip(synthesised).map(done).collect()
}
