//! Arrays on their way out of a file, in memory or, where that may be too small, in a temporary file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;

use super::source::map;
use crate::array::Array;
use crate::{Error, Result};

/// An array that is being filled, in any order.
pub(crate) struct Filling<T> {
    place: Place<T>,
    len: usize,
}

enum Place<T> {
    Memory(Vec<T>),
    /// A file without a name, in the folder.
    File(File, PathBuf),
}

impl<T: Pod + Send + Sync> Filling<T> {
    /// With room for `capacity` elements in memory, or in a file in the folder `scratch`.
    pub fn new(scratch: Option<&Path>, capacity: usize) -> Result<Self> {
        let place = match scratch {
            None => Place::Memory(Vec::with_capacity(capacity)),
            Some(folder) => {
                let file = tempfile::tempfile_in(folder).map_err(Error::io(folder))?;
                Place::File(file, folder.to_owned())
            }
        };
        Ok(Self { place, len: 0 })
    }

    /// Puts elements behind the last.
    pub fn append(&mut self, elements: &[T]) -> Result<()> {
        self.put(self.len, elements)
    }

    /// Puts elements at the place `at`. What is never put is zero.
    pub fn put(&mut self, at: usize, elements: &[T]) -> Result<()> {
        let end = at + elements.len();
        match &mut self.place {
            Place::Memory(vector) => {
                if vector.len() < end {
                    vector.resize(end, T::zeroed());
                }
                vector[at..end].copy_from_slice(elements);
            }
            Place::File(file, folder) => {
                let offset = (at * size_of::<T>()) as u64;
                write_at(file, offset, bytemuck::cast_slice(elements))
                    .map_err(Error::io(folder))?;
            }
        }
        self.len = self.len.max(end);
        Ok(())
    }

    /// The array up to the last element. A file is mapped, and gone with the array.
    pub fn finish(self) -> Result<Array<T>> {
        match self.place {
            Place::Memory(mut vector) => {
                vector.shrink_to_fit();
                Ok(vector.into())
            }
            Place::File(..) if self.len == 0 => Ok(Array::default()),
            Place::File(file, folder) => {
                let map = map(&file).map_err(Error::io(&folder))?;
                Ok(Array::part(Arc::new(map), 0..self.len * size_of::<T>()))
            }
        }
    }
}

#[cfg(unix)]
fn write_at(file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
