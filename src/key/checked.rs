//! Loading a key's file, its points checked once and the file remembered by digest.

use std::path::{Path, PathBuf};

use super::ProvingKey;
use crate::format::bellman::Params;
use crate::format::zkey::{Options, Zkey};
use crate::format::{FileSource, Kind, Progress};
use crate::{Error, Result};

/// What a remembered file says; a change of what is checked changes the text and forgets all.
const MARK: &str = "forebay: all points on the curve and of order r, version 1\n";

/// The keys whose points were found on the curve and of order r, one small file a key, named by the
/// BLAKE3 digest of the key's file.
#[derive(Clone, Debug)]
pub struct CheckedKeys {
    folder: PathBuf,
}

impl CheckedKeys {
    /// Keys remembered in `folder`, which is made when the first is.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The user's own, in `$FOREBAY_CACHE` or else the cache folder of the system's custom. `None` where neither is
    /// known.
    pub fn of_user() -> Option<Self> {
        Some(Self::in_folder(crate::cache::folder()?.join("checked-keys")))
    }

    fn contains(&self, digest: &blake3::Hash) -> bool {
        std::fs::read(self.file(digest)).is_ok_and(|text| text == MARK.as_bytes())
    }

    fn remember(&self, digest: &blake3::Hash) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        std::io::Write::write_all(&mut file, MARK.as_bytes())?;
        file.persist(self.file(digest))?;
        Ok(())
    }

    fn file(&self, digest: &blake3::Hash) -> PathBuf {
        self.folder.join(digest.to_hex().as_str())
    }
}

/// Whether a key's points are checked when it is loaded.
#[derive(Clone, Debug)]
pub enum Check {
    /// Every time.
    Always,
    /// Unless the same file was checked before.
    Once(CheckedKeys),
    /// Not at all: for keys whose origin vouches for them. A wrong point then shows only as a proof that
    /// does not verify.
    Skip,
}

/// What happened to the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// The points were checked now.
    Now,
    /// The same file was checked before.
    Before,
    /// The check was skipped.
    Skipped,
}

/// A key and what loading it found out.
pub struct LoadedKey {
    /// The key.
    pub key: ProvingKey,
    /// What happened to the check of its points.
    pub checked: Checked,
    /// Why anyone could forge proofs for this key, if that can be seen.
    pub insecurity: Option<&'static str>,
}

/// Loads the proving key at `path`, a `.zkey` or a `.params`.
pub fn load_key(path: &Path, check: &Check, progress: &dyn Progress) -> Result<LoadedKey> {
    let load = || {
        let source = FileSource::open(path)?;
        // Structure and lengths first: a digest of gigabytes is no use for a file that is no key.
        match Kind::of(&source)? {
            Kind::Zkey => {
                let zkey = Zkey::open(&source)?;
                let insecurity = zkey.header.insecurity();
                checked(&source, check, progress, insecurity, |options| zkey.read(options))
            }
            Kind::Params => {
                let params = Params::open(&source)?;
                let insecurity = params.vk.vk.insecurity();
                checked(&source, check, progress, insecurity, |options| params.read(options))
            }
            other => Err(Error::invalid("the file", other, "a .zkey or .params")),
        }
    };
    load().map_err(|error: Error| error.in_file(path))
}

/// Reads a key with its points checked, or not, as `check` and its memory say.
fn checked(
    source: &FileSource,
    check: &Check,
    progress: &dyn Progress,
    insecurity: Option<&'static str>,
    read: impl FnOnce(Options<'_>) -> Result<ProvingKey>,
) -> Result<LoadedKey> {
    let (digest, checked) = match check {
        Check::Always => (None, Checked::Now),
        Check::Skip => (None, Checked::Skipped),
        Check::Once(known) => {
            let digest = source.digest()?;
            let before = known.contains(&digest);
            (Some((known, digest)), if before { Checked::Before } else { Checked::Now })
        }
    };
    let key = read(Options { check_points: checked == Checked::Now, progress })?;
    if let (Some((known, digest)), Checked::Now) = (digest, checked) {
        // What was read must be what was digested.
        if source.digest()? != digest {
            let found = "other bytes than when it was opened";
            return Err(Error::invalid("the file", found, "a file that stays as it is"));
        }
        if let Err(error) = known.remember(&digest) {
            tracing::warn!("cannot remember that {} was checked: {error}", source.path().display());
        }
    }
    Ok(LoadedKey { key, checked, insecurity })
}
