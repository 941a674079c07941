//! Loading a key's file, its points checked once and the file remembered by digest.

use std::path::{Path, PathBuf};

use super::ProvingKey;
use crate::format::arkworks::Pk;
use crate::format::bellman::Params;
use crate::format::fbkey::Fbkey;
use crate::format::zkey::{Header, Options, Zkey};
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

/// Whether a key's points are checked when it is loaded. Also whether the sections of a `.fbkey` are compared with their digests:
/// always, but for [`Check::Skip`].
#[derive(Clone, Debug)]
pub enum Check {
    /// Every time.
    Always,
    /// Unless the same file was checked before, or is a `.fbkey` that says that its points were checked when it was made.
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
    /// The contributions in its ceremony's record, where there is one.
    pub contributions: Option<u32>,
    /// Why anyone could forge proofs for this key, if that can be seen.
    pub insecurity: Option<&'static str>,
}

/// Loads the proving key at `path`, a `.zkey`, `.params`, arkworks' or a `.fbkey`. The last is mapped: see [`Fbkey::map`].
pub fn load_key(path: &Path, check: &Check, progress: &dyn Progress) -> Result<LoadedKey> {
    load(path, check, None, progress)
}

/// The same for a key that memory may be too small for: its points stand in temporary files in the folder `scratch`, which needs
/// room for as many bytes as a `.fbkey` of the key has.
pub fn load_large_key(
    path: &Path,
    check: &Check,
    scratch: &Path,
    progress: &dyn Progress,
) -> Result<LoadedKey> {
    load(path, check, Some(scratch), progress)
}

fn load(
    path: &Path,
    check: &Check,
    scratch: Option<&Path>,
    progress: &dyn Progress,
) -> Result<LoadedKey> {
    let read = || {
        let source = FileSource::open(path)?;
        // Structure and lengths first: a digest of gigabytes is no use for a file that is no key.
        match Kind::of(&source)? {
            Kind::Zkey => {
                let zkey = Zkey::open(&source)?;
                let loaded =
                    checked(&source, check, scratch, progress, |options| zkey.read(options))?;
                let Header { contributions, .. } = zkey.header;
                Ok(LoadedKey { contributions, insecurity: zkey.header.insecurity(), ..loaded })
            }
            Kind::Params => {
                let params = Params::open(&source)?;
                checked(&source, check, scratch, progress, |options| params.read(options))
            }
            Kind::ArkworksPk => {
                let pk = Pk::open(&source)?;
                checked(&source, check, scratch, progress, |options| pk.read(options))
            }
            Kind::Fbkey => mapped(&source, check, progress),
            other => {
                let expected = "a .zkey, .params or .fbkey, or arkworks' proving key";
                Err(Error::invalid("the file", other, expected))
            }
        }
    };
    read().map_err(|error: Error| error.in_file(path))
}

/// Reads a key with its points checked, or not, as `check` and its memory say.
fn checked(
    source: &FileSource,
    check: &Check,
    scratch: Option<&Path>,
    progress: &dyn Progress,
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
    let key = read(Options { check_points: checked == Checked::Now, scratch, progress })?;
    if let (Some((known, digest)), Checked::Now) = (digest, checked) {
        // What was read must be what was digested.
        if source.digest()? != digest {
            let found = "other bytes than when it was opened";
            return Err(Error::invalid("the file", found, "a file that stays as it is"));
        }
        remember(known, &digest, source.path());
    }
    let insecurity = key.vk.insecurity();
    Ok(LoadedKey { key, checked, contributions: None, insecurity })
}

/// Maps a key; its digest is its header's.
fn mapped(source: &FileSource, check: &Check, progress: &dyn Progress) -> Result<LoadedKey> {
    let file = Fbkey::map(source)?;
    let header = &file.header;
    let checked = match check {
        Check::Always => Checked::Now,
        Check::Once(_) if header.points_checked => Checked::Before,
        Check::Once(known) if known.contains(&header.digest) => Checked::Before,
        Check::Once(_) => Checked::Now,
        Check::Skip => Checked::Skipped,
    };
    if checked != Checked::Skipped {
        file.check_digests(progress)?;
    }
    let key = file.key()?;
    if checked == Checked::Now {
        file.check_points(progress)?;
        if let Check::Once(known) = check {
            remember(known, &header.digest, source.path());
        }
    }
    let (contributions, insecurity) = (header.contributions, header.insecurity());
    Ok(LoadedKey { key, checked, contributions, insecurity })
}

fn remember(known: &CheckedKeys, digest: &blake3::Hash, path: &Path) {
    if let Err(error) = known.remember(digest) {
        tracing::warn!("cannot remember that {} was checked: {error}", path.display());
    }
}
