//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay::Result;
use forebay::backend::cpu::Cpu;
use forebay::engine::Devices;
use forebay::simulate::Scheme;
use tracing::level_filters::LevelFilter;

/// A Groth16 prover for BLS12-381.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 done; 1 the proof or an input is invalid; 2 usage, a file that does not exist among it; 3 the machine failed."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print nothing but errors and what was asked for.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// How much to log to standard error: off, error, warn, info, debug or trace.
    #[arg(long, global = true, default_value = "warn", value_name = "LEVEL")]
    pub log: LevelFilter,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Make a proof from a key and a witness (rapidsnark's argument order).
    Prove(Prove),
    /// Check a proof (snarkjs' argument order), more strictly than snarkjs.
    Verify(Verify),
    /// Make an INSECURE development key from a constraint system, without a ceremony.
    Setup(Setup),
    /// Write the verification_key.json of a proving key.
    ExportVk(ExportVk),
    /// Say what a file is: .zkey, .wtns, .r1cs, .params, .vk, proofs, snarkjs' JSON.
    Inspect(Inspect),
    /// List the backends and the devices they found, and why others are missing.
    Devices,
    /// Check this machine's arithmetic against known answers.
    Doctor,
    /// Simulate proofs on one card in virtual time, under several ways of sharing its memory.
    Simulate(Simulate),
}

/// `forebay prove`.
#[derive(Args)]
pub struct Prove {
    /// The proving key, a .zkey of snarkjs for Groth16 over BLS12-381.
    pub key: PathBuf,
    /// The witness, a .wtns of circom or snarkjs.
    pub witness: PathBuf,
    /// Where to write the proof.
    pub proof: PathBuf,
    /// Where to write the public signals.
    pub public: PathBuf,
    /// What computes the proof.
    #[command(flatten)]
    pub devices: DeviceOptions,
    /// The constraint system: if the witness breaks it, say at which row.
    #[arg(long, value_name = "CIRCUIT.R1CS")]
    pub r1cs: Option<PathBuf>,
    /// Trust the key's points: do not check that they are on the curve and of order r. Without this
    /// they are checked when a key is first used.
    #[arg(long)]
    pub skip_key_checks: bool,
}

/// Which devices to use, and how much of them.
#[derive(Args)]
pub struct DeviceOptions {
    /// What computes.
    #[arg(long, default_value = "auto")]
    pub backend: BackendChoice,
    /// The memory to use of each device, such as 16GiB, instead of all that is free.
    #[arg(long, value_name = "BYTES", value_parser = forebay::bytes::parse)]
    pub vram: Option<u64>,
}

impl DeviceOptions {
    /// Opens the devices.
    ///
    /// # Errors
    /// If the backend asked for has none.
    pub fn open(&self) -> Result<Devices> {
        let mut devices = Devices::new();
        match self.backend {
            BackendChoice::Cpu | BackendChoice::Auto => {
                let capacity = self.vram.unwrap_or_else(Cpu::host_bytes);
                devices.add(move || Ok(Cpu::with_capacity(capacity)))?;
            }
        }
        Ok(devices)
    }
}

/// The backends that can be asked for.
#[derive(Clone, Copy, ValueEnum)]
pub enum BackendChoice {
    /// The fastest that is there.
    Auto,
    /// The processor.
    Cpu,
}

/// `forebay verify`.
#[derive(Args)]
pub struct Verify {
    /// The verification_key.json.
    pub key: PathBuf,
    /// The public.json.
    pub public: PathBuf,
    /// The proof.json.
    pub proof: PathBuf,
    /// Accept a key whose gamma equals delta, for which anyone can forge proofs.
    #[arg(long)]
    pub allow_insecure_key: bool,
}

/// `forebay setup`.
#[derive(Args)]
pub struct Setup {
    /// The constraint system, an .r1cs of circom.
    pub r1cs: PathBuf,
    /// Where to write the key.
    pub key: PathBuf,
    /// Yes, this key is for development only: whoever made it can forge proofs.
    #[arg(long)]
    pub insecure: bool,
    /// Take the secrets from a JSON file (tau, alpha, beta, delta in hexadecimal) instead of the system's
    /// random numbers.
    #[arg(long, value_name = "TOXIC.JSON")]
    pub secrets: Option<PathBuf>,
    /// Write the H points as snarkjs would from a powers-of-tau file of 2^POWER points; they differ where that is
    /// exactly the domain.
    #[arg(long, value_name = "POWER")]
    pub ptau_power: Option<u32>,
}

/// `forebay export-vk`.
#[derive(Args)]
pub struct ExportVk {
    /// The proving key: .zkey or .params; or a .vk.
    pub key: PathBuf,
    /// Where to write the verification_key.json.
    pub verification_key: PathBuf,
}

/// `forebay inspect`.
#[derive(Args)]
pub struct Inspect {
    /// The file.
    pub file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Check every point to be on the curve and of order r.
    #[arg(long)]
    pub check: bool,
}

/// `forebay simulate`.
#[derive(Args)]
pub struct Simulate {
    /// porep-32gib, porep-32gib-compact, or a JSON file.
    pub scenario: String,
    /// How the workers share the card.
    #[arg(long, default_value = "admission")]
    pub scheme: SchemeChoice,
    /// The card's memory, such as 16GiB, instead of the scenario's.
    #[arg(long, value_name = "BYTES", value_parser = forebay::bytes::parse)]
    pub vram: Option<u64>,
    /// The number of workers, instead of the scenario's.
    #[arg(long)]
    pub workers: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Draw the run.
    #[arg(long, value_name = "OUT.SVG")]
    pub svg: Option<PathBuf>,
    /// Draw only its first seconds.
    #[arg(long, value_name = "N", requires = "svg")]
    pub seconds: Option<u64>,
    /// Write the run for Perfetto or Chrome's tracing.
    #[arg(long, value_name = "OUT.JSON")]
    pub trace: Option<PathBuf>,
}

/// The ways to share a card.
#[derive(Clone, Copy, ValueEnum)]
pub enum SchemeChoice {
    /// One mutex around upload and compute.
    SingleLock,
    /// A lock for staging, one for computing.
    TwoLock,
    /// The same with device-wide questions and a slow fallback.
    TwoLockSync,
    /// The whole peak leased first; leases only shrink.
    Admission,
}

impl From<SchemeChoice> for Scheme {
    fn from(choice: SchemeChoice) -> Self {
        match choice {
            SchemeChoice::SingleLock => Self::SingleLock,
            SchemeChoice::TwoLock => Self::TwoLock,
            SchemeChoice::TwoLockSync => Self::TwoLockSync,
            SchemeChoice::Admission => Self::Admission,
        }
    }
}
