//! The container of iden3's files, `.r1cs`, `.wtns` and `.zkey`: magic, u32 version, u32 number of sections, then
//! for each a u32 id, a u64 length and the body, in any order. All little-endian.

use super::{Cursor, Source};
use crate::field::{Fp, Fr};
use crate::{Error, Result};

/// A section's place in the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The section's number.
    pub id: u32,
    /// Offset of its body.
    pub start: u64,
    /// Offset of the first byte behind it.
    pub end: u64,
}

impl Section {
    /// Bytes of the body.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// A container whose section table was read and found to fit the file.
pub struct Container<'a, S: ?Sized> {
    /// The bytes.
    pub source: &'a S,
    /// The file's version.
    pub version: u32,
    /// The sections in the file's order.
    pub sections: Vec<Section>,
}

/// Section tables longer than this are refused: the formats define at most a dozen sections.
const MAX_SECTIONS: u32 = 1 << 10;

impl<'a, S: Source + ?Sized> Container<'a, S> {
    /// Reads the table of a file with this `magic` and a version of at most `max_version`.
    ///
    /// Unknown sections are kept and ignored; a section twice, a length beyond the file and bytes
    /// behind the last section are errors.
    pub fn read(source: &'a S, magic: &[u8; 4], max_version: u32) -> Result<Self> {
        let mut cursor = Cursor::new(source, "file header", 0, source.len());
        let found: [u8; 4] = cursor.bytes("magic")?;
        if found != *magic {
            let show = |bytes: &[u8; 4]| format!("\"{}\"", bytes.escape_ascii());
            return Err(Error::invalid("file header, offset 0, magic", show(&found), show(magic)));
        }
        let version = cursor.u32("version")?;
        if version == 0 || version > max_version {
            return Err(Error::invalid(
                "file header, offset 4, version",
                version,
                format!("1 to {max_version}"),
            ));
        }
        let count = cursor.u32("number of sections")?;
        if count > MAX_SECTIONS {
            let at = "file header, offset 8, number of sections";
            return Err(Error::invalid(at, count, format!("at most {MAX_SECTIONS}")));
        }
        let mut sections: Vec<Section> = Vec::new();
        let mut offset = 12;
        for index in 0..count {
            let mut cursor = Cursor::new(
                source,
                "section table",
                offset,
                source.len().min(offset + 12).max(offset),
            );
            let id = cursor.u32(&format!("id of section entry {index}"))?;
            let bytes = cursor.u64(&format!("length of section {id}"))?;
            let start = offset + 12;
            let left = source.len() - start;
            if bytes > left {
                let place = format!("section {id}, offset {}, length", offset + 4);
                return Err(Error::invalid(
                    place,
                    format!("{bytes} bytes"),
                    format!("at most the file's remaining {left}"),
                ));
            }
            if sections.iter().any(|section| section.id == id) {
                return Err(Error::invalid(
                    format!("section table, offset {offset}"),
                    format!("section {id} again"),
                    "each section once",
                ));
            }
            offset = start + bytes;
            sections.push(Section { id, start, end: offset });
        }
        if offset != source.len() {
            let extra = source.len() - offset;
            let place = format!("after the last section, offset {offset}");
            return Err(Error::invalid(
                place,
                format!("{extra} more bytes"),
                "the end of the file",
            ));
        }
        Ok(Self { source, version, sections })
    }

    /// The section `id`, if the file has it.
    pub fn find(&self, id: u32) -> Option<Section> {
        self.sections.iter().copied().find(|section| section.id == id)
    }

    /// The section `id`, which holds the `what`.
    pub fn section(&self, id: u32, what: &str) -> Result<Section> {
        self.find(id).ok_or_else(|| {
            Error::invalid(
                "section table",
                format!("no section {id}"),
                format!("section {id} ({what})"),
            )
        })
    }

    /// A cursor over the body of `section`.
    pub fn cursor<'c>(&self, section: Section, place: &'c str) -> Cursor<'c, S>
    where
        'a: 'c,
    {
        Cursor::new(self.source, place, section.start, section.end)
    }
}

/// Reads a prime as u32 length and little-endian bytes, and checks that it is `name`'s.
fn expect_prime<S: Source + ?Sized, const N: usize>(
    cursor: &mut Cursor<'_, S>,
    name: &str,
    modulus: &[u64],
) -> Result<()> {
    let length = cursor.u32(&format!("bytes of {name}"))?;
    if length as usize != N {
        return Err(cursor.invalid(
            &format!("bytes of {name}"),
            length,
            format!("{N} (BLS12-381)"),
        ));
    }
    let found: [u8; N] = cursor.bytes(name)?;
    let expected: Vec<u8> = modulus.iter().flat_map(|limb| limb.to_le_bytes()).collect();
    if found[..] != expected {
        let hex = |bytes: &[u8]| bytes.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
        return Err(cursor.invalid(
            &format!("the prime {name}"),
            format!("0x{}{}", hex(&found), curve_of(&found)),
            format!("0x{} (BLS12-381)", hex(&expected)),
        ));
    }
    Ok(())
}

/// The scalar field's prime: u32 32, then r.
pub(crate) fn expect_r<S: Source + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<()> {
    expect_prime::<S, 32>(cursor, "r", &Fr::MODULUS)
}

/// The base field's prime: u32 48, then q.
pub(crate) fn expect_q<S: Source + ?Sized>(cursor: &mut Cursor<'_, S>) -> Result<()> {
    expect_prime::<S, 48>(cursor, "q", &Fp::MODULUS)
}

/// The curve of a known foreign prime, by its lowest bytes, for the message.
fn curve_of(prime: &[u8]) -> &'static str {
    match prime[..4] {
        [0x01, 0x00, 0x00, 0xf0] => " (BN254's r: compile the circuit with -p bls12381)",
        [0x47, 0xfd, 0x7c, 0xd8] => " (BN254's q)",
        _ => "",
    }
}
