//! The commands, one module each.

pub mod batch;
pub mod bench;
pub mod compare;
pub mod convert;
pub mod devices;
pub mod doctor;
pub mod export_vk;
pub mod inspect;
#[cfg(feature = "cuda")]
pub mod kernels;
mod output;
pub mod plan;
pub mod prove;
mod proving;
pub mod setup;
pub mod simulate;
pub mod verify;

use std::path::Path;

use forebay::{Error, Result};

/// The contents of a small file (JSON); an error names it.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(Error::io(path))
}

/// `parse` of the contents of the file at `path`; an error names it.
fn read_with<T>(path: &Path, parse: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    parse(&read_file(path)?).map_err(|error| error.in_file(path))
}
