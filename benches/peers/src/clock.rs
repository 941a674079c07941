//! What bellperson's proving costs. It synthesises and proves in one call, and tells the log where the one ends
//! and the other begins: a logger of our own reads the clocks at these two messages, so what is measured is exactly
//! bellperson's "prover time".

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, bail, ensure};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::cost::{Cost, Snapshot};

/// The logger that measures between bellperson's two messages. It serves one
/// proof at a time.
pub struct ProofClock {
    state: Mutex<ClockState>,
}

enum ClockState {
    Idle,
    Running(Snapshot),
    Done(Cost),
    /// Of whatever it warns, it goes on without the card.
    Warned(String),
}

/// The one that is installed.
pub static CLOCK: ProofClock = ProofClock { state: Mutex::new(ClockState::Idle) };

impl ProofClock {
    /// Makes this the process's logger, once.
    pub fn install() -> Result<()> {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        let installed = *INSTALLED.get_or_init(|| {
            log::set_max_level(LevelFilter::Info);
            log::set_logger(&CLOCK).is_ok()
        });
        ensure!(installed, "another logger is in the place of this one");
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before a proof.
    pub fn reset(&self) {
        *self.state() = ClockState::Idle;
    }

    /// The cost of the proof that was made since.
    ///
    /// # Errors
    /// If bellperson warned of something meanwhile, or did not say when it proved.
    pub fn cost(&self) -> Result<Cost> {
        match &*self.state() {
            ClockState::Done(cost) => Ok(*cost),
            ClockState::Warned(warning) => bail!("bellperson warns: {warning}"),
            _ => bail!("bellperson did not log its prover time"),
        }
    }
}

impl Log for ProofClock {
    fn enabled(&self, metadata: &Metadata) -> bool {
        let target = metadata.target();
        target.starts_with("bellperson::groth16::prover")
            || target.starts_with("bellperson") && metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let message = record.args().to_string();
        let mut state = self.state();
        *state = match &*state {
            ClockState::Warned(_) => return,
            _ if record.level() <= Level::Warn => ClockState::Warned(message),
            ClockState::Running(start) if message.starts_with("prover time") => {
                ClockState::Done(start.elapsed())
            }
            ClockState::Running(_) => return,
            _ if message == "starting proof timer" => ClockState::Running(Snapshot::now()),
            _ => return,
        };
    }

    fn flush(&self) {}
}
