//! Errors, by what the caller can do about them.

use std::fmt;
use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. [`Error::exit_code`] groups the variants as the command line does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key, witness, proof or other input is not what it must be: get another one.
    #[error(transparent)]
    Invalid(#[from] Box<Invalid>),
    /// The witness does not satisfy the circuit.
    #[error("the witness does not satisfy the circuit: {0}")]
    Unsatisfied(String),
    /// A circuit could not be synthesised.
    #[error("the circuit could not be synthesised: {0}")]
    Synthesis(String),
    /// A proof was made but did not verify; nothing was returned.
    #[error("the new proof does not verify, so it was thrown away: {0}")]
    SelfVerify(String),
    /// Backends do not give the same.
    #[error("{0}")]
    Differ(String),
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// No device for a backend, and why.
    #[error("no device for the backend {backend}: {reason}")]
    NoDevice {
        /// The backend's name.
        backend: String,
        /// Why it has none.
        reason: String,
    },
    /// A lease or budget is too small: plan smaller, or wait.
    #[error("out of memory for {label}: need {need} bytes, {left} left")]
    OutOfMemory {
        /// What the memory was for, in the paper's names.
        label: String,
        /// The bytes asked for.
        need: u64,
        /// The bytes that were left.
        left: u64,
    },
    /// More than the device's whole budget: only a smaller plan helps.
    #[error("{label} never fits: need {need} bytes, the budget is {capacity}")]
    NeverFits {
        /// What the memory was for.
        label: String,
        /// The bytes asked for.
        need: u64,
        /// The bytes of the budget now.
        capacity: u64,
    },
    /// The deadline passed before the memory was free.
    #[error("the deadline of {label} passed while it waited for memory")]
    Deadline {
        /// What waited.
        label: String,
    },
    /// The job was cancelled before the memory was free.
    #[error("{label} was cancelled while it waited for memory")]
    Cancelled {
        /// What waited.
        label: String,
    },
    /// A thread wanted to wait for memory while it held some, which could wait forever: a bug.
    #[error("{label} would wait for memory in a thread that holds {held}")]
    HoldAndWait {
        /// What would have waited.
        label: String,
        /// What the thread holds.
        held: String,
    },
    /// The driver had less memory than the lease promised: others use the device too. Measure what they use, and
    /// plan again.
    #[error(
        "the driver of {backend} has no {bytes} bytes for {label}, though they were leased: {reason}"
    )]
    Refused {
        /// The backend's name.
        backend: &'static str,
        /// What the memory was for.
        label: String,
        /// The bytes asked for.
        bytes: u64,
        /// The driver's words.
        reason: String,
    },
    /// The driver failed in one operation; another try on fresh buffers may do.
    #[error("{backend} failed in {operation}: {reason}")]
    Device {
        /// The backend's name.
        backend: &'static str,
        /// What was asked of the device.
        operation: String,
        /// The driver's words.
        reason: String,
    },
    /// The device is gone, with everything on it; nothing more will run on this handle.
    #[error("the device of {backend} is lost: {reason}")]
    DeviceLost {
        /// The backend's name.
        backend: &'static str,
        /// The driver's words.
        reason: String,
    },
    /// A kernel does not compile or load on this device.
    #[error("kernel {name} of {backend}: {log}")]
    Kernel {
        /// The backend's name.
        backend: &'static str,
        /// The kernel or its file.
        name: String,
        /// The compiler's words.
        log: String,
    },
    /// The system refused what every program needs, such as a thread.
    #[error("the machine failed: {0}")]
    Machine(String),
    /// A bug in this program.
    #[error("a bug in forebay, please report it: {0}")]
    Internal(String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// This machine computes wrongly; nothing it says can be trusted.
    #[error("this machine's arithmetic is wrong: {0}")]
    WrongArithmetic(String),
    /// The operating system gave no random numbers.
    #[error("no random numbers from the operating system: {0}")]
    Entropy(String),
}

/// An input that is not what it must be.
#[derive(Debug)]
pub struct Invalid {
    /// The file, if it came from one.
    pub path: Option<PathBuf>,
    /// The place: section, field, index, offset.
    pub place: String,
    /// What stands there.
    pub found: String,
    /// What had to stand there.
    pub expected: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{}: found {}, expected {}", self.place, self.found, self.expected)
    }
}

impl std::error::Error for Invalid {}

impl Error {
    /// An [`Invalid`] without a file; [`Error::in_file`] adds it. What was found may be a file's own text: it is cut to
    /// some 200 characters, without control characters.
    pub fn invalid(
        place: impl Into<String>,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self::Invalid(Box::new(Invalid {
            path: None,
            place: place.into(),
            found: printable(&found.to_string()),
            expected: expected.to_string(),
        }))
    }

    /// Names the file of an [`Error::Invalid`] that has none yet; leaves every other error as it is.
    pub fn in_file(mut self, path: &Path) -> Self {
        if let Self::Invalid(invalid) = &mut self {
            invalid.path.get_or_insert_with(|| path.to_owned());
        }
        self
    }

    /// An [`Error::Io`] at `path`; for `map_err`.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// The command line's exit code: 1 the proof or an input is invalid, or backends differ, 2 usage (a file that does
    /// not exist among them), 3 the machine failed.
    pub fn exit_code(&self) -> u8 {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        match self {
            Self::Invalid(_)
            | Self::Unsatisfied(_)
            | Self::Synthesis(_)
            | Self::SelfVerify(_)
            | Self::Differ(_) => 1,
            Self::Usage(_) => 2,
            Self::Io { source, .. } => match source.kind() {
                NotFound | IsADirectory | NotADirectory => 2,
                _ => 3,
            },
            Self::NoDevice { .. }
            | Self::OutOfMemory { .. }
            | Self::NeverFits { .. }
            | Self::Deadline { .. }
            | Self::Cancelled { .. }
            | Self::HoldAndWait { .. }
            | Self::Refused { .. }
            | Self::Device { .. }
            | Self::DeviceLost { .. }
            | Self::Kernel { .. }
            | Self::Machine(_)
            | Self::Internal(_)
            | Self::WrongArithmetic(_)
            | Self::Entropy(_) => 3,
        }
    }
}

/// `text` as far as it is sure to do no harm to a terminal or a log.
fn printable(text: &str) -> String {
    const LEN: usize = 200;
    let mut out = String::new();
    for character in text.chars() {
        if out.len() > LEN {
            out.push_str("...");
            break;
        }
        match character.is_control() {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_is_cut_and_escaped() {
        assert_eq!(printable("three, äöü"), "three, äöü");
        assert_eq!(printable("\u{1b}[2J\n"), r"\u{1b}[2J\n");
        let long = printable(&"x".repeat(1 << 20));
        assert!(long.len() < 220 && long.ends_with("x..."), "{long}");
    }
}
