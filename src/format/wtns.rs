//! `.wtns`, version 2: section 1 holds the prime and the number of values, section 2 the values, 32 bytes
//! little-endian and canonical, wire by wire; the first is the constant one.

use std::path::Path;

use zeroize::{Zeroize, Zeroizing};

use super::iden3::{Container, expect_r};
use super::{FileSource, Source, expect_length};
use crate::field::{Field, Fr};
use crate::{Error, Result};

/// The values of the witness, ONE first, wiped when dropped.
pub fn read<S: Source + ?Sized>(source: &S) -> Result<Zeroizing<Vec<Fr>>> {
    let file = Container::read(source, b"wtns", 2)?;
    let mut header = file.cursor(file.section(1, "header")?, "section 1 (header)");
    expect_r(&mut header)?;
    let count = header.u32("number of values")?;
    header.finish()?;
    let section = file.section(2, "values")?;
    let place = "section 2 (values)";
    expect_length(place, section.bytes(), count.into(), 32, "values")?;

    let mut values = Zeroizing::new(Vec::with_capacity(count as usize));
    let mut piece = Zeroizing::new(vec![0u8; 32 << 11]);
    let mut offset = section.start;
    while offset < section.end {
        let bytes = piece.len().min((section.end - offset) as usize);
        source.read_at(offset, &mut piece[..bytes])?;
        for bytes in piece[..bytes].as_chunks::<32>().0 {
            let Some(value) = Fr::from_le_bytes(bytes) else {
                let index = values.len();
                let place =
                    format!("{place}, offset {}, value {index}", section.start + 32 * index as u64);
                return Err(Error::invalid(
                    place,
                    "a number that is not below r",
                    "a canonical number below r",
                ));
            };
            values.push(value);
        }
        offset += bytes as u64;
    }
    piece.zeroize();
    match values.first() {
        Some(one) if *one == Fr::ONE => Ok(values),
        Some(_) => {
            Err(Error::invalid(format!("{place}, value 0"), "another number", "the constant 1"))
        }
        None => Err(Error::invalid(place, "no values", "at least the constant 1")),
    }
}

/// Reads the file at `path`; see [`read`].
pub fn read_file(path: &Path) -> Result<Zeroizing<Vec<Fr>>> {
    let source = FileSource::open(path)?;
    read(&source).map_err(|error| error.in_file(path))
}
