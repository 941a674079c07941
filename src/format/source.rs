//! Where bytes come from, and a cursor that reads them with the place in every error.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A file as memory.
pub(crate) type Map = memmap2::Mmap;

/// Bytes that can be read at any offset.
pub trait Source: Sync {
    /// Bytes in all.
    fn len(&self) -> u64;
    /// Whether there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Fills `out` from `offset`, which the caller has checked against [`Source::len`].
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
}

impl Source for [u8] {
    fn len(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let at = offset as usize;
        out.copy_from_slice(&self[at..at + out.len()]);
        Ok(())
    }
}

/// A file, read in pieces, so that one cut short meanwhile is an error and not a signal. Only a [`Fbkey`](super::fbkey::Fbkey) is
/// mapped.
pub struct FileSource {
    path: PathBuf,
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens `path` for reading.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        let metadata = file.metadata().map_err(Error::io(path))?;
        if metadata.is_dir() {
            return Err(Error::io(path)(std::io::ErrorKind::IsADirectory.into()));
        }
        Ok(Self { path: path.to_owned(), file, len: metadata.len() })
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the whole file, which must not be empty.
    pub(crate) fn map(&self) -> Result<Map> {
        map(&self.file).map_err(Error::io(&self.path))
    }

    /// BLAKE3 of the whole file.
    pub fn digest(&self) -> Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 22];
        let mut offset = 0;
        while offset < self.len {
            let piece = buffer.len().min((self.len - offset) as usize);
            self.read_at(offset, &mut buffer[..piece])?;
            hasher.update_rayon(&buffer[..piece]);
            offset += piece as u64;
        }
        Ok(hasher.finalize())
    }
}

/// Maps a file, which must not be empty.
pub(crate) fn map(file: &File) -> std::io::Result<Map> {
    // SAFETY: the bytes are only read, as integers, for which any bytes will do, and lengths are the map's own. The one
    // condition that no code here can meet is that nobody changes the file as long as it is mapped. `forebay convert` never does: it
    // renames a new file into the old one's place, which leaves the mapped one as it was; and a temporary file is ours alone, and has no
    // name. Where someone else writes into a mapped file, a proof of it does not verify and is thrown away, or an index out of bounds ends
    // the thread with a panic; where someone cuts it short, the system ends the process (SIGBUS). The digests are of the content at
    // conversion, and are compared when the key is loaded, not later.
    #[allow(unsafe_code, reason = "a map has no safe form")]
    unsafe {
        Map::map(file)
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(out, offset).map_err(Error::io(&self.path))
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut out: &mut [u8]) -> Result<()> {
        use std::os::windows::fs::FileExt;
        while !out.is_empty() {
            let read = self.file.seek_read(out, offset).map_err(Error::io(&self.path))?;
            if read == 0 {
                return Err(Error::io(&self.path)(std::io::ErrorKind::UnexpectedEof.into()));
            }
            out = &mut out[read..];
            offset += read as u64;
        }
        Ok(())
    }
}

/// Reads a stretch of a source from front to back. Every error names the stretch and the offset.
pub struct Cursor<'a, S: ?Sized> {
    source: &'a S,
    place: &'a str,
    /// Offset in the source of the next byte to be fetched into `buffer`.
    fetched: u64,
    end: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl<'a, S: Source + ?Sized> Cursor<'a, S> {
    /// A cursor over `start..end`, called `place` in errors.
    pub fn new(source: &'a S, place: &'a str, start: u64, end: u64) -> Self {
        Self { source, place, fetched: start, end, buffer: Vec::new(), used: 0 }
    }

    /// Offset in the source of the next byte.
    pub fn offset(&self) -> u64 {
        self.fetched - (self.buffer.len() - self.used) as u64
    }

    /// Bytes left.
    pub fn remaining(&self) -> u64 {
        self.end - self.offset()
    }

    /// An error at the current offset.
    pub fn invalid(
        &self,
        what: &str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Error {
        Error::invalid(format!("{}, offset {}, {what}", self.place, self.offset()), found, expected)
    }

    /// The next `N` bytes, which are `what`.
    pub fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        if self.remaining() < N as u64 {
            return Err(self.invalid(
                what,
                format!("the end after {} bytes", self.remaining()),
                format!("{N} bytes"),
            ));
        }
        if self.buffer.len() - self.used < N {
            let offset = self.offset();
            // Small stretches fetch no more than they are; 64 KiB amortises a system call.
            let piece = (self.end - offset).min((1 << 16).max(N as u64)) as usize;
            self.buffer.resize(piece, 0);
            self.source.read_at(offset, &mut self.buffer)?;
            self.fetched = offset + piece as u64;
            self.used = 0;
        }
        let mut out = [0; N];
        out.copy_from_slice(&self.buffer[self.used..self.used + N]);
        self.used += N;
        Ok(out)
    }

    /// Passes over the next `len` bytes, of which the caller knows that they are left.
    pub fn skip(&mut self, len: u64) {
        debug_assert!(len <= self.remaining());
        let buffered = (self.buffer.len() - self.used) as u64;
        if len <= buffered {
            self.used += len as usize;
        } else {
            self.fetched += len - buffered;
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// The next little-endian u32.
    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    /// The next little-endian u64.
    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    /// That nothing is left.
    pub fn finish(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.invalid("the end", format!("{left} more bytes"), "none")),
        }
    }
}
