//! What this process claims of a card, told to other processes that care to ask. Nothing enforces it,
//! and nothing uses it unless asked to.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::registry::canonical;
use crate::{Error, Result};

/// A file that all processes on one card share, with a line `pid start bytes` for each that claims memory
/// (`start`: seconds since 1970, so that a reused PID is not taken for the old process). It is changed
/// under a file lock, so claims are atomic. Lines of processes that are gone do not count, and go with
/// the next claim.
///
/// One per card and process: the line is the process's. Dropping it withdraws the claim.
#[derive(Debug)]
pub struct AdvisoryFile {
    path: PathBuf,
    start: u64,
}

#[derive(Clone, Copy)]
struct Claim {
    pid: u32,
    start: u64,
    bytes: u64,
}

impl AdvisoryFile {
    /// The file of the card `id` (as in [`Budget::of_card`](super::Budget::of_card)) in the user's runtime
    /// directory, `XDG_RUNTIME_DIR`, or else in a directory of the user's in the temporary directory.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory or file cannot be made.
    pub fn open(id: &str) -> Result<Self> {
        let directory = match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(directory) if Path::new(&directory).is_absolute() => {
                PathBuf::from(directory).join("forebay")
            }
            _ => {
                let user = ["USER", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
                let user = file_name(&user.unwrap_or_else(|| "user".into()));
                std::env::temp_dir().join(format!("forebay-{user}"))
            }
        };
        Self::open_in(&directory, id)
    }

    /// The same in a directory of the caller's choice, which is made, for this user alone, if it is not there.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory or file cannot be made.
    pub fn open_in(directory: &Path, id: &str) -> Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(directory).map_err(Error::io(directory))?;
        // In a directory that all may write to, another user can put a link there first.
        if fs::symlink_metadata(directory).map_err(Error::io(directory))?.is_symlink() {
            let link = std::io::Error::other("a symbolic link instead of a directory");
            return Err(Error::io(directory)(link));
        }
        let path = directory.join(format!("{}.leases", file_name(&canonical(id))));
        let pid = process::id();
        let system = processes(&[pid]).map_err(Error::io(&path))?;
        let file = Self { path, start: start_of(&system, pid).unwrap_or(0) };
        file.locked(|_| Ok(()))?;
        Ok(file)
    }

    /// Claims `bytes` in place of what this process claimed before, and returns what the others claim: a lower
    /// bound for [`Budget::set_foreign`](super::Budget::set_foreign).
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Invalid`] if the file holds something else: then delete it.
    pub fn claim(&self, bytes: u64) -> Result<u64> {
        self.locked(|file| {
            let mut claims = self.others(file)?;
            let total = claims.iter().fold(0u64, |sum, claim| sum.saturating_add(claim.bytes));
            if bytes > 0 {
                claims.push(Claim { pid: process::id(), start: self.start, bytes });
            }
            let text: String = claims
                .iter()
                .map(|claim| format!("{} {} {}\n", claim.pid, claim.start, claim.bytes))
                .collect();
            let io = || Error::io(&self.path);
            file.rewind().map_err(io())?;
            file.set_len(0).map_err(io())?;
            file.write_all(text.as_bytes()).map_err(io())?;
            Ok(total)
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The claims of other processes that are still there.
    fn others(&self, file: &mut File) -> Result<Vec<Claim>> {
        // Far more than any number of processes needs; not the memory that a wrong file would take.
        const LIMIT: u64 = 1 << 20;
        let mut text = String::new();
        file.rewind().map_err(Error::io(&self.path))?;
        file.take(LIMIT).read_to_string(&mut text).map_err(Error::io(&self.path))?;
        let mut claims = text
            .lines()
            .enumerate()
            .map(|(index, line)| parse(index + 1, line).map_err(|error| error.in_file(&self.path)))
            .collect::<Result<Vec<Claim>>>()?;
        claims.retain(|claim| claim.pid != process::id());
        let pids: Vec<u32> = claims.iter().map(|claim| claim.pid).collect();
        let system = processes(&pids).map_err(Error::io(&self.path))?;
        // Seconds, counted from a boot time that moves a little when the clock is set.
        claims.retain(|claim| {
            start_of(&system, claim.pid).is_some_and(|start| start.abs_diff(claim.start) <= 2)
        });
        Ok(claims)
    }

    fn locked<R>(&self, f: impl FnOnce(&mut File) -> Result<R>) -> Result<R> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&self.path).map_err(Error::io(&self.path))?;
        // Closing the file unlocks it.
        file.lock().map_err(Error::io(&self.path))?;
        f(&mut file)
    }
}

impl Drop for AdvisoryFile {
    fn drop(&mut self) {
        // If it fails, the line goes stale when the process ends.
        let _ = self.claim(0);
    }
}

fn parse(number: usize, line: &str) -> Result<Claim> {
    let words: Vec<&str> = line.split(' ').collect();
    let claim = match words[..] {
        [pid, start, bytes] => match (pid.parse(), start.parse(), bytes.parse()) {
            (Ok(pid), Ok(start), Ok(bytes)) => Some(Claim { pid, start, bytes }),
            _ => None,
        },
        _ => None,
    };
    claim.ok_or_else(|| Error::invalid(format!("line {number}"), line, "three numbers"))
}

/// Which of these processes there are. Fails where the system cannot be asked.
pub(super) fn processes(pids: &[u32]) -> std::io::Result<System> {
    let pids: Vec<Pid> = pids.iter().copied().map(Pid::from_u32).collect();
    let mut system = System::new().map_err(std::io::Error::other)?;
    let nothing = ProcessRefreshKind::nothing();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, nothing);
    Ok(system)
}

pub(super) fn start_of(system: &System, pid: u32) -> Option<u64> {
    system.process(Pid::from_u32(pid)).map(sysinfo::Process::start_time)
}

/// `id` without anything that a path gives a meaning to.
fn file_name(id: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    id.chars().map(keep).collect()
}
