//! Files of the user's cache that are made again where they are missing. Each begins with the digest of what it holds, so
//! that one that was cut short or spoiled is found, and is named by the digest of everything that it is made from.

use std::path::Path;

use crate::{Error, Result};

/// A name for what is made from these texts.
pub(crate) fn digest<'a>(texts: impl Iterator<Item = &'a str>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        // With the length, so that no two lists of texts are the same bytes.
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize()
}

/// What a file holds, if it is there and whole.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (digest, data) = bytes.split_first_chunk::<{ blake3::OUT_LEN }>()?;
    if blake3::hash(data) != *digest {
        tracing::warn!("{} is damaged, and is made again", path.display());
        return None;
    }
    Some(data.to_vec())
}

/// Writes a file in one step, so that nobody sees a part of it.
pub(crate) fn write(path: &Path, data: &[u8]) -> Result<()> {
    let write = || {
        let folder = path.parent().unwrap_or(path);
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut file, blake3::hash(data).as_bytes())?;
        std::io::Write::write_all(&mut file, data)?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/file");
        assert_eq!(read(&path), None);
        write(&path, b"data").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"data"[..]));
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path), None);
        std::fs::write(&path, &bytes[..20]).unwrap();
        assert_eq!(read(&path), None);
    }
}
