//! What can be typed.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use forebay::backend::Backend;
use forebay::backend::cpu::Cpu;
#[cfg(feature = "cuda")]
use forebay::backend::cuda::{self, Cuda};
use forebay::backend::virtual_card::{CardModel, VirtualCard};
#[cfg(feature = "wgpu")]
use forebay::backend::wgpu::{self, Adapter, Wgpu};
use forebay::compare::Backends;
use forebay::engine::Devices;
use forebay::profile::Profile;
use forebay::simulate::Scheme;
use forebay::{Error, Result};
use tracing::level_filters::LevelFilter;

use crate::terminal::Terminal;

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
    /// Make many proofs: jobs of a JSON file, on devices that stay loaded.
    Batch(Batch),
    /// Measure whole proofs with the counts and values of a real circuit.
    Bench(Bench),
    /// Make one proof on several backends, stage by stage, and say where they differ. r and s are fixed: no such proof is kept.
    Compare(Compare),
    /// Say how proofs of a key would run in a given memory, and why so.
    Plan(Plan),
    /// Check a proof (snarkjs' argument order), more strictly than snarkjs.
    Verify(Verify),
    /// Make an INSECURE development key from a constraint system, without a ceremony.
    Setup(Setup),
    /// Write a proving key as a .fbkey, which every command maps instead of reading it.
    Convert(Convert),
    /// Write the verification_key.json of a proving key.
    ExportVk(ExportVk),
    /// Say what a file is: .zkey, .wtns, .r1cs, .params, .fbkey, .vk, arkworks' keys, proofs, snarkjs' JSON.
    Inspect(Inspect),
    /// List the backends and the devices they found, and why others are missing.
    Devices,
    /// Check this machine's arithmetic against known answers.
    Doctor,
    /// Compile the kernels for NVIDIA cards, for machines that have a driver but no compiler.
    #[cfg(feature = "cuda")]
    Kernels {
        /// What to do.
        #[command(subcommand)]
        command: Kernels,
    },
    /// Simulate proofs on one card in virtual time, under several ways of sharing its memory.
    Simulate(Simulate),
}

/// `forebay prove`.
#[derive(Args)]
pub struct Prove {
    /// The proving key, a .zkey of snarkjs for Groth16 over BLS12-381, or a .fbkey made from one.
    pub key: PathBuf,
    /// The witness, a .wtns of circom or snarkjs.
    pub witness: PathBuf,
    /// Where to write the proof.
    pub proof: PathBuf,
    /// Where to write the public signals.
    pub public: PathBuf,
    #[command(flatten)]
    pub engine: EngineOptions,
    /// The constraint system: if the witness breaks it, say at which row.
    #[arg(long, value_name = "CIRCUIT.R1CS")]
    pub r1cs: Option<PathBuf>,
    /// Trust the key's points: do not check that they are on the curve and of order r, nor a .fbkey's digests. Without this
    /// the points are checked when a key is first used, and digests always.
    #[arg(long)]
    pub skip_key_checks: bool,
}

/// Which devices to use, and how much of them.
#[derive(Args)]
pub struct DeviceOptions {
    /// What computes.
    #[arg(long, default_value = "auto")]
    pub backend: BackendChoice,
    /// One NVIDIA card, by its number in `forebay devices`, instead of all.
    #[arg(long, value_name = "INDEX")]
    pub device: Option<usize>,
    /// The adapter of the backend wgpu, by its number in `forebay devices`, a part of its name or its PCI id, instead of the
    /// first GPU.
    #[cfg(feature = "wgpu")]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<Adapter>,
    /// The memory to use of each device, such as 16GiB, instead of all that is free.
    #[arg(long, value_name = "BYTES", value_parser = forebay::bytes::parse)]
    pub vram: Option<u64>,
}

impl DeviceOptions {
    /// One of a backend, and `vram` of it.
    fn of(backend: BackendChoice, vram: Option<u64>) -> Self {
        Self {
            backend,
            device: None,
            #[cfg(feature = "wgpu")]
            adapter: None,
            vram,
        }
    }

    /// The same for another backend, as far as it is for that one.
    pub fn with_backend(&self, backend: BackendChoice) -> Self {
        let mut devices = Self::of(backend, self.vram);
        if devices.has_cards() {
            devices.device = self.device;
        }
        #[cfg(feature = "wgpu")]
        if backend == BackendChoice::Wgpu {
            devices.adapter = self.adapter.clone();
        }
        devices
    }

    /// How fast each way to multiply is on the adapter.
    #[cfg(feature = "wgpu")]
    pub fn speeds(&self) -> Result<Vec<wgpu::Speed>> {
        wgpu::speeds(&self.adapter_options())
    }

    /// Opens the devices, to record what they do if told so; says why `auto` is not a faster backend.
    ///
    /// # Errors
    /// If the backend asked for has none.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only cards record"))]
    pub fn open(&self, terminal: &Terminal, record: bool) -> Result<Devices> {
        self.expect_what_they_are_for()?;
        let mut devices = Devices::new();
        match self.backend {
            BackendChoice::Cpu => self.add_cpu(&mut devices)?,
            #[cfg(feature = "cuda")]
            BackendChoice::Cuda => self.add_cards(&mut devices, record)?,
            #[cfg(feature = "wgpu")]
            BackendChoice::Wgpu => self.add_adapter(&mut devices)?,
            #[cfg(feature = "cuda")]
            BackendChoice::Auto => {
                if let Err(error) = self.add_cards(&mut devices, record) {
                    terminal.say(format!("{error}; computing on the CPU"));
                    self.add_cpu(&mut devices)?;
                }
            }
            #[cfg(not(feature = "cuda"))]
            BackendChoice::Auto => {
                terminal.say("cuda is not part of this build; computing on the CPU");
                self.add_cpu(&mut devices)?;
            }
            BackendChoice::Virtual => {
                let card = self.virtual_card();
                devices.add(move || Ok(card.clone()))?;
            }
        }
        Ok(devices)
    }

    /// Does `work` on one device, the first if there are more; says why `auto` is not a faster backend.
    ///
    /// # Errors
    /// If the backend asked for has no device, and the work's own.
    pub fn run(&self, work: impl Work, terminal: &Terminal) -> Result<()> {
        self.expect_what_they_are_for()?;
        match self.backend {
            BackendChoice::Cpu => work.on(&self.cpu()),
            #[cfg(feature = "cuda")]
            BackendChoice::Cuda => work.on(&self.card()?),
            #[cfg(feature = "wgpu")]
            BackendChoice::Wgpu => work.on(&self.adapter()?),
            #[cfg(feature = "cuda")]
            BackendChoice::Auto => match self.card() {
                Ok(card) => work.on(&card),
                Err(error) => {
                    terminal.say(format!("{error}; computing on the CPU"));
                    work.on(&self.cpu())
                }
            },
            #[cfg(not(feature = "cuda"))]
            BackendChoice::Auto => {
                terminal.say("cuda is not part of this build; computing on the CPU");
                work.on(&self.cpu())
            }
            BackendChoice::Virtual => work.on(&self.virtual_card()),
        }
    }

    /// Whether NVIDIA cards are meant, by their own driver.
    fn has_cards(&self) -> bool {
        match self.backend {
            BackendChoice::Cpu | BackendChoice::Virtual => false,
            #[cfg(feature = "wgpu")]
            BackendChoice::Wgpu => false,
            _ => true,
        }
    }

    fn expect_what_they_are_for(&self) -> Result<()> {
        if self.device.is_some() && !self.has_cards() {
            return Err(Error::Usage("--device is for NVIDIA cards".into()));
        }
        #[cfg(feature = "wgpu")]
        if self.adapter.is_some() && self.backend != BackendChoice::Wgpu {
            return Err(Error::Usage("--adapter is for --backend wgpu".into()));
        }
        Ok(())
    }

    fn cpu(&self) -> Cpu {
        Cpu::with_capacity(self.vram.unwrap_or_else(Cpu::host_bytes))
    }

    fn virtual_card(&self) -> VirtualCard {
        let mut model = CardModel::midrange();
        model.memory_bytes = self.vram.unwrap_or(model.memory_bytes);
        VirtualCard::open(model)
    }

    #[cfg(feature = "cuda")]
    fn card(&self) -> Result<Cuda> {
        Cuda::open(self.device.unwrap_or(0), cuda::Options { vram: self.vram, record: false })
    }

    #[cfg(feature = "wgpu")]
    fn adapter_options(&self) -> wgpu::Options {
        let adapter = self.adapter.clone().unwrap_or_default();
        wgpu::Options { adapter, vram: self.vram, ..Default::default() }
    }

    #[cfg(feature = "wgpu")]
    fn adapter(&self) -> Result<Wgpu> {
        Wgpu::open(self.adapter_options())
    }

    #[cfg(feature = "wgpu")]
    fn add_adapter(&self, devices: &mut Devices) -> Result<()> {
        let options = self.adapter_options();
        devices.add(move || Wgpu::open(options.clone()))
    }

    fn add_cpu(&self, devices: &mut Devices) -> Result<()> {
        let capacity = self.vram.unwrap_or_else(Cpu::host_bytes);
        devices.add(move || Ok(Cpu::with_capacity(capacity)))
    }

    #[cfg(feature = "cuda")]
    fn add_cards(&self, devices: &mut Devices, record: bool) -> Result<()> {
        let options = cuda::Options { vram: self.vram, record };
        match self.device {
            Some(index) => devices.add(move || Cuda::open(index, options)),
            None => devices.add_cards(options),
        }
    }
}

/// What is done on one device, of whatever backend.
pub trait Work {
    /// Does it.
    fn on<B: Backend>(self, backend: &B) -> Result<()>;
}

/// How an engine runs and what it leaves behind.
#[derive(Args)]
pub struct EngineOptions {
    /// Where.
    #[command(flatten)]
    pub devices: DeviceOptions,
    /// What happens to a proof that failed twice on a device.
    #[arg(long, default_value = "error", value_name = "POLICY")]
    pub on_failure: FailureChoice,
    /// Draw what ran when, and the memory that was leased.
    #[arg(long, value_name = "OUT.SVG")]
    pub svg: Option<PathBuf>,
    /// Write the same for Perfetto or Chrome's tracing.
    #[arg(long, value_name = "OUT.JSON")]
    pub trace: Option<PathBuf>,
}

/// What happens to a proof that failed twice.
#[derive(Clone, Copy, ValueEnum)]
pub enum FailureChoice {
    /// Its job fails.
    Error,
    /// The processor makes it, and that is said.
    Cpu,
}

/// `forebay batch`.
#[derive(Args)]
pub struct Batch {
    /// The jobs: {"jobs": [{"key": "c.zkey", "partitions": [{"witness": "w.wtns", "proof": "proof.json", "public":
    /// "public.json"}], "priority": "low|normal|high", "deadline_seconds": 60}]}; the last two may be left out. Names of files
    /// are relative to this file's folder.
    pub jobs: PathBuf,
    #[command(flatten)]
    pub engine: EngineOptions,
    /// Trust the keys' points: do not check that they are on the curve and of order r, nor a .fbkey's digests.
    #[arg(long)]
    pub skip_key_checks: bool,
    /// Print JSON: what became of each job.
    #[arg(long)]
    pub json: bool,
}

/// `forebay bench`.
#[derive(Args)]
#[command(group(ArgGroup::new("measured").required(true).args(["shape", "operations"])))]
pub struct Bench {
    /// A circuit: porep-32gib, snap-32gib, window-post-32gib, winning-post-32gib, dense-K, bits-K; -32gib and -K may be left out. Its
    /// key is synthetic: it takes some 350 bytes a row of host memory.
    #[arg(long, value_name = "NAME")]
    pub shape: Option<String>,
    /// Measure sums and transforms, not whole proofs, on these backends, such as cuda,wgpu: their times are compared with the
    /// first one's.
    #[arg(long, value_delimiter = ',', value_name = "BACKENDS", conflicts_with_all = ["backend", "partitions"])]
    pub operations: Vec<BackendChoice>,
    /// Scale the circuit to a domain of 2^K; the sizes of operations, such as 16,20,22.
    #[arg(long, value_delimiter = ',', value_name = "K")]
    pub log_n: Vec<u32>,
    /// Partitions to prove, after a few that warm up.
    #[arg(long, default_value_t = 10)]
    pub partitions: u32,
    #[command(flatten)]
    pub engine: EngineOptions,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `forebay compare`.
#[derive(Args)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true).args(["key", "shape", "log_n", "replay"])),
    after_help = "r and s are fixed, so that proofs can be compared: such proofs are not zero-knowledge, and none is written.\n\
                  Exit codes: 0 all agree; 1 some differ, or no proof verifies; 2 usage; 3 a machine failed."
)]
pub struct Compare {
    /// What to compare, such as cpu,cuda: everything is compared with the first, and has its input from it.
    #[arg(long, required = true, value_delimiter = ',', value_name = "BACKENDS")]
    pub backends: Vec<BackendChoice>,
    /// A proving key, a .zkey of snarkjs for Groth16 over BLS12-381, or a .fbkey made from one.
    #[arg(requires = "witness", conflicts_with_all = ["shape", "log_n", "seed", "replay"])]
    pub key: Option<PathBuf>,
    /// A witness of it, a .wtns of circom or snarkjs.
    pub witness: Option<PathBuf>,
    /// Instead of files: the counts and kinds of values of a circuit, with a synthetic key. porep-32gib, snap-32gib,
    /// window-post-32gib, winning-post-32gib, dense-K, bits-K.
    #[arg(long, value_name = "NAME", conflicts_with = "replay")]
    pub shape: Option<String>,
    /// Scale the shape to a domain of 2^K; without a shape, random values that fill one.
    #[arg(long, value_name = "K", conflicts_with = "replay")]
    pub log_n: Option<u32>,
    /// What synthetic values and keys are made from.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// Do what is in a file of --out again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "out"])]
    pub replay: Option<PathBuf>,
    /// Where to write the smallest input for which some differ, if they do. It holds values of the witness.
    #[arg(long, default_value = "failing.json", value_name = "FILE")]
    pub out: PathBuf,
    /// The memory to use of each device, such as 16GiB, instead of all that is free.
    #[arg(long, value_name = "BYTES", value_parser = forebay::bytes::parse)]
    pub vram: Option<u64>,
    /// The adapter of the backend wgpu, by its number in `forebay devices`, a part of its name or its PCI id, instead of the
    /// first GPU.
    #[cfg(feature = "wgpu")]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<Adapter>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What backends are compared by.
pub enum What<'a> {
    /// A key and a witness.
    Files(&'a Path, &'a Path),
    /// A circuit's counts and kinds of values.
    Shape(Profile),
    /// A failing input.
    Replay(&'a Path),
}

impl Compare {
    /// What to compare by.
    ///
    /// # Errors
    /// If that is missing, or no circuit of this name or size.
    pub fn what(&self) -> Result<What<'_>> {
        match (&self.replay, &self.key, &self.witness, &self.shape, self.log_n) {
            (Some(path), ..) => Ok(What::Replay(path)),
            (_, Some(key), Some(witness), ..) => Ok(What::Files(key, witness)),
            (.., Some(name), None) => Profile::named(name).map(What::Shape),
            (.., Some(name), Some(log_n)) => Profile::named(name)?.scaled(log_n).map(What::Shape),
            (.., Some(log_n)) => Profile::named(&format!("dense-{log_n}")).map(What::Shape),
            _ => Err(Error::Usage(
                "a key and a witness, a shape, a size, or a file to replay".into(),
            )),
        }
    }

    /// Opens the backends.
    ///
    /// # Errors
    /// If one has no device, or is no one's name.
    pub fn open(&self) -> Result<Backends> {
        let mut backends = Backends::new();
        for (index, backend) in self.backends.iter().enumerate() {
            if self.backends[..index].contains(backend) {
                return Err(Error::Usage("a backend is named twice".into()));
            }
            let devices = DeviceOptions::of(*backend, self.vram);
            match backend {
                BackendChoice::Auto => {
                    return Err(Error::Usage("auto is no backend: name those to compare".into()));
                }
                BackendChoice::Cpu => backends.add(devices.cpu()),
                BackendChoice::Virtual => backends.add(devices.virtual_card()),
                #[cfg(feature = "cuda")]
                BackendChoice::Cuda => backends.add(devices.card()?),
                #[cfg(feature = "wgpu")]
                BackendChoice::Wgpu => {
                    let devices = DeviceOptions { adapter: self.adapter.clone(), ..devices };
                    backends.add(devices.adapter()?);
                }
            }
        }
        Ok(backends)
    }
}

impl Plan {
    /// Whose answers to plan by.
    pub fn devices(&self) -> DeviceOptions {
        DeviceOptions::of(self.backend, self.vram)
    }
}

/// `forebay plan`.
#[derive(Args)]
pub struct Plan {
    /// A proving key (.zkey, .params, .fbkey or arkworks'), or a shape: porep-32gib, snap-32gib, window-post-32gib, winning-post-32gib, dense-K,
    /// bits-K.
    pub shape: String,
    /// Whose answers to plan by; a virtual card has no other limits than --vram.
    #[arg(long, default_value = "virtual")]
    pub backend: BackendChoice,
    /// The memory to plan for, such as 16GiB.
    #[arg(long, value_name = "BYTES", value_parser = forebay::bytes::parse)]
    pub vram: Option<u64>,
    /// Partitions that are expected under the key: with many it pays to raise the points that stay on the device.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub partitions: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Draw the first partitions under the chosen plan.
    #[arg(long, value_name = "OUT.SVG")]
    pub svg: Option<PathBuf>,
}

/// The backends that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// The fastest that is there.
    Auto,
    /// The processor.
    Cpu,
    /// A card that is not there: the processor computes, memory and time are counted as on a card. For tests and plans.
    Virtual,
    /// An NVIDIA card.
    #[cfg(feature = "cuda")]
    Cuda,
    /// Any GPU, through Vulkan, Metal or DX12.
    #[cfg(feature = "wgpu")]
    Wgpu,
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
#[command(mut_arg("backend", |backend| backend.default_value("cpu")))]
pub struct Setup {
    /// The constraint system, an .r1cs of circom.
    pub r1cs: PathBuf,
    /// Where to write the key.
    pub key: PathBuf,
    #[command(flatten)]
    pub devices: DeviceOptions,
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

/// `forebay convert`.
#[derive(Args)]
pub struct Convert {
    /// The proving key: .zkey, .params or arkworks', also one larger than memory. Its points are checked unless that was done before.
    pub key: PathBuf,
    /// Where to write the .fbkey; while it is made, the folder holds it twice.
    pub converted: PathBuf,
}

/// `forebay export-vk`.
#[derive(Args)]
pub struct ExportVk {
    /// The proving key: .zkey, .params, .fbkey or arkworks'; or a .vk or arkworks' verifying key.
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
    /// Check every point to be on the curve and of order r, and a .fbkey's digests.
    #[arg(long)]
    pub check: bool,
}

/// `forebay kernels`.
#[cfg(feature = "cuda")]
#[derive(Subcommand)]
pub enum Kernels {
    /// Compile what the cache does not have yet, and say where it is.
    Build {
        /// The architectures, such as sm_86,sm_90; by default those of the cards that are there.
        #[arg(long, value_delimiter = ',', value_name = "ARCHITECTURES")]
        arch: Vec<forebay::backend::cuda::module::Architecture>,
    },
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
