//! The second peer: bellperson on the CPU.
//!
//! bellperson synthesises and proves in one call, and tells the log where the
//! one ends and the other begins. A logger of our own reads the clocks at these
//! two messages, so what is measured is exactly bellperson's "prover time".

use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Context, Result, ensure};
use bellpepper_core::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use bellperson::groth16::{
    Parameters, PreparedVerifyingKey, create_proof, prepare_verifying_key, verify_proof,
};
use blstrs::{Bls12, Scalar as Fr};
use ff::PrimeField;
use log::{LevelFilter, Log, Metadata, Record};

use crate::cost::{Cost, Snapshot};
use crate::key;
use crate::prover::{Blinding, Case, Proved, Prover, ProverName};
use crate::system::{Scalar, System, Term};

/// One side of a row: coefficients at columns.
type Side = Vec<(Fr, usize)>;

/// A system in bellperson's field elements.
struct Converted {
    inputs: usize,
    rows: Vec<[Side; 3]>,
    assignment: Vec<Fr>,
}

impl Converted {
    fn new(system: &System) -> Result<Self> {
        let side = |terms: &[Term]| -> Result<Side> {
            let terms = terms.iter();
            terms.map(|t| Ok((to_fr(&t.coeff)?, t.column as usize))).collect()
        };
        Ok(Converted {
            inputs: system.inputs(),
            rows: (system.rows.iter())
                .map(|row| Ok([side(&row.a)?, side(&row.b)?, side(&row.c)?]))
                .collect::<Result<_>>()?,
            assignment: system.assignment.iter().map(to_fr).collect::<Result<_>>()?,
        })
    }
}

fn to_fr(scalar: &Scalar) -> Result<Fr> {
    Option::from(Fr::from_repr(*scalar)).context("a scalar is not canonical")
}

/// A system as a circuit for bellperson.
struct SystemCircuit(Arc<Converted>);

impl Circuit<Fr> for SystemCircuit {
    fn synthesize<CS: ConstraintSystem<Fr>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let system = &*self.0;
        let mut columns = vec![CS::one()];
        for (column, value) in system.assignment.iter().enumerate().skip(1) {
            columns.push(if column < system.inputs {
                cs.alloc_input(|| "input", || Ok(*value))?
            } else {
                cs.alloc(|| "aux", || Ok(*value))?
            });
        }
        for [a, b, c] in &system.rows {
            cs.enforce(
                || "row",
                |zero| combination(zero, a, &columns),
                |zero| combination(zero, b, &columns),
                |zero| combination(zero, c, &columns),
            );
        }
        Ok(())
    }
}

fn combination(
    zero: LinearCombination<Fr>,
    side: &Side,
    columns: &[Variable],
) -> LinearCombination<Fr> {
    side.iter().fold(zero, |sum, &(coeff, column)| sum + (coeff, columns[column]))
}

/// bellperson with its parameters loaded.
pub struct Bellperson {
    parameters: Parameters<Bls12>,
    verifier: PreparedVerifyingKey<Bls12>,
    system: Arc<Converted>,
}

impl Bellperson {
    pub fn new(case: &Case) -> Result<Self> {
        ProofClock::install()?;
        let bytes = key::parameters(&case.key)?;
        let parameters = Parameters::<Bls12>::read(&bytes[..], false)
            .context("bellperson does not read the key")?;
        Ok(Bellperson {
            verifier: prepare_verifying_key(&parameters.vk),
            parameters,
            system: Arc::new(Converted::new(&case.system)?),
        })
    }
}

impl Prover for Bellperson {
    fn name(&self) -> ProverName {
        ProverName::Bellperson
    }

    fn prove(&mut self, blinding: &Blinding) -> Result<Proved> {
        let (r, s) = (to_fr(&blinding.r)?, to_fr(&blinding.s)?);
        let circuit = SystemCircuit(self.system.clone());
        CLOCK.reset();
        let proof = create_proof(circuit, &self.parameters, r, s)?;
        let cost = CLOCK.cost().context("bellperson did not log its prover time")?;
        let publics = &self.system.assignment[1..self.system.inputs];
        ensure!(
            verify_proof(&self.verifier, &proof, publics)?,
            "bellperson's proof does not verify"
        );
        let mut bytes = [0; 192];
        proof.write(&mut bytes[..])?;
        Ok(Proved { cost, proof: Some(bytes) })
    }
}

/// The logger that measures between bellperson's two messages. It serves one
/// proof at a time.
struct ProofClock {
    state: Mutex<ClockState>,
}

#[derive(Clone, Copy)]
enum ClockState {
    Idle,
    Running(Snapshot),
    Done(Cost),
}

static CLOCK: ProofClock = ProofClock { state: Mutex::new(ClockState::Idle) };

impl ProofClock {
    /// Makes this the process's logger, once.
    fn install() -> Result<()> {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        let installed = *INSTALLED.get_or_init(|| {
            log::set_max_level(LevelFilter::Info);
            log::set_logger(&CLOCK).is_ok()
        });
        ensure!(installed, "another logger is in the place of this one");
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn reset(&self) {
        *self.state() = ClockState::Idle;
    }

    fn cost(&self) -> Option<Cost> {
        match *self.state() {
            ClockState::Done(cost) => Some(cost),
            _ => None,
        }
    }
}

impl Log for ProofClock {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.target().starts_with("bellperson::groth16::prover")
    }

    fn log(&self, record: &Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut state = self.state();
        match *state {
            ClockState::Running(start) => {
                let cost = start.elapsed();
                if record.args().to_string().starts_with("prover time") {
                    *state = ClockState::Done(cost);
                }
            }
            _ => {
                if record.args().to_string() == "starting proof timer" {
                    *state = ClockState::Running(Snapshot::now());
                }
            }
        }
    }

    fn flush(&self) {}
}
