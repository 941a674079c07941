//! `.fbkey`: this crate's own form of a proving key, which is mapped and used as it stands.
//!
//! The arrays of a [`ProvingKey`], byte for byte as they are in memory: points affine and Montgomery in little-endian limbs (G1 = x y, G2 =
//! x.c0 x.c1 y.c0 y.c1), none of them infinity, H in the prover's order, densities as bits, matrices as their four arrays.
//! A header of 4096 bytes says where they are and what their BLAKE3 digests are. All numbers but the byte order's mark are little-endian.
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 8 | magic: 0x89 `fbkey` CR LF |
//! | 8 | 4 | 0x01020304 in the byte order of the machine that wrote the file, which is that of its limbs |
//! | 12 | 4 | version, 1 |
//! | 16 | 32 | BLAKE3 of the 4096 bytes of the header, with zeros in this place |
//! | 48 | 8 | bytes of the file |
//! | 56 | 4 | sections |
//! | 60 | 4 | what was checked of every point when the file was made: 3 on the curve and of order r, 0 nothing |
//! | 64 | 4 | log2 of the domain, 1 to 31 |
//! | 68 | 4 | basis of H: 0 coefficients (bellman), 1 odd coset (snarkjs) |
//! | 72 | 8 | inputs, the constant 1 among them |
//! | 80 | 8 | variables, the inputs among them |
//! | 88 | 8 | contributions that the ceremony's record had, 2^64 - 1 if there was none |
//! | 96 | 32 | the program that made the file and its version, text, the rest zero |
//! | 128 | 16 | curve, `BLS12-381`, the rest zero |
//! | 144 | 864 | alpha1 beta1 delta1 (96 each) beta2 gamma2 delta2 (192 each) |
//! | 1008 | 64 a section | u32 kind, u32 bytes an element, u64 offset, u64 bytes, u64 zero, 32 bytes BLAKE3 of the section |
//! | behind | to 4096 | zero |
//!
//! Sections stand in the order of their kinds, each at the first multiple of 4096 behind the one before, with zeros between; the file
//! ends with the last one. So there is one file of a key.
//!
//! | kind | content | elements |
//! | --- | --- | --- |
//! | 1 | IC, a point an input | 96 bytes |
//! | 2, 4, 6, 8, 10 | the points of A, B in G1, B in G2, L, H | 96 bytes; 6: 192 |
//! | 3, 5, 7, 9 | which variables have a point in A, B in G1, B in G2, L, as bits; absent where the key does not say (bellman) | u64 |
//! | 11, 12, 13 | matrix A: rows + 1 starts, columns, indices of coefficients | u32 |
//! | 14 | matrix A: distinct coefficients, Montgomery | 32 bytes |
//! | 15 to 18 | matrix B; A and B are both there or both absent | as 11 to 14 |
//!
//! The digests say that the file is as it was made. They are no signature: whoever makes a file can say in it that points were checked. A
//! file of unknown origin is checked with [`Check::Always`](crate::key::Check::Always).

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use rayon::prelude::*;

use super::points::{Encoding, Points, Reading, encode, point_bytes, read_point};
use super::{Cursor, FileSource, Progress, Silent};
use crate::array::Array;
use crate::backend::{Matrix, Shared};
use crate::curve::{Affine, Coordinate, G1Affine, G2Affine};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::key::{Basis, Density, ProvingKey, Query, VerifyingKey, insecurity};
use crate::{Error, Result};

/// The first bytes: not text, and spoiled by whoever takes them for text.
pub(crate) const MAGIC: [u8; 8] = *b"\x89fbkey\r\n";
/// The version that is written, and read.
pub const VERSION: u32 = 1;
/// The alignment of sections, and the header's length.
const PAGE: u64 = 4096;
const BYTE_ORDER: u32 = 0x0102_0304;
/// The header's own digest.
const DIGEST: Range<usize> = 16..48;
/// On the curve and of order r.
const CHECKED: u32 = 3;
const CURVE: [u8; 16] = *b"BLS12-381\0\0\0\0\0\0\0";
const PROGRAM: &str = concat!("forebay ", env!("CARGO_PKG_VERSION"));
const PROGRAM_BYTES: usize = 32;
const SECTION_BYTES: usize = 64;
/// Bytes that are digested at a time: enough for all threads.
const PIECE: usize = 1 << 24;

const _: () = assert!(PROGRAM.len() <= PROGRAM_BYTES);

/// What a section holds; the number is its kind in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Kind {
    Ic = 1,
    A,
    ADensity,
    BG1,
    BG1Density,
    BG2,
    BG2Density,
    L,
    LDensity,
    H,
    ARows,
    AColumns,
    ACoefficients,
    ATable,
    BRows,
    BColumns,
    BCoefficients,
    BTable,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Ic,
        Self::A,
        Self::ADensity,
        Self::BG1,
        Self::BG1Density,
        Self::BG2,
        Self::BG2Density,
        Self::L,
        Self::LDensity,
        Self::H,
        Self::ARows,
        Self::AColumns,
        Self::ACoefficients,
        Self::ATable,
        Self::BRows,
        Self::BColumns,
        Self::BCoefficients,
        Self::BTable,
    ];
    /// The arrays of the two matrices.
    const MATRICES: [[Self; 4]; 2] = [
        [Self::ARows, Self::AColumns, Self::ACoefficients, Self::ATable],
        [Self::BRows, Self::BColumns, Self::BCoefficients, Self::BTable],
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Ic => "IC",
            Self::A => "A query",
            Self::ADensity => "density of A",
            Self::BG1 => "B query in G1",
            Self::BG1Density => "density of B in G1",
            Self::BG2 => "B query in G2",
            Self::BG2Density => "density of B in G2",
            Self::L => "L query",
            Self::LDensity => "density of L",
            Self::H => "H query",
            Self::ARows => "rows of matrix A",
            Self::AColumns => "columns of matrix A",
            Self::ACoefficients => "coefficients of matrix A",
            Self::ATable => "coefficient table of matrix A",
            Self::BRows => "rows of matrix B",
            Self::BColumns => "columns of matrix B",
            Self::BCoefficients => "coefficients of matrix B",
            Self::BTable => "coefficient table of matrix B",
        }
    }

    /// "section 2 (A query)".
    fn place(self) -> String {
        format!("section {} ({})", self as u32, self.name())
    }

    fn element_bytes(self) -> u64 {
        match self {
            Self::Ic | Self::A | Self::BG1 | Self::L | Self::H => point_bytes::<Fp>(),
            Self::BG2 => point_bytes::<Fp2>(),
            Self::ADensity | Self::BG1Density | Self::BG2Density | Self::LDensity => 8,
            Self::ATable | Self::BTable => Fr::BYTES as u64,
            _ => 4,
        }
    }

    /// Whether every key has it.
    fn is_required(self) -> bool {
        matches!(self, Self::Ic | Self::A | Self::BG1 | Self::BG2 | Self::L | Self::H)
    }
}

/// Something that a section's contents must not be.
struct Wrong {
    section: Kind,
    found: String,
    expected: String,
}

impl Wrong {
    fn new(section: Kind, found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Self {
        Self { section, found: found.to_string(), expected: expected.to_string() }
    }
}

/// What a file says beside its arrays.
#[derive(Clone, Debug)]
pub struct Header {
    /// The program that made it.
    pub program: String,
    /// Whether every point was found on the curve and of order r when the file was made.
    pub points_checked: bool,
    /// The contributions in the ceremony's record, where there was one.
    pub contributions: Option<u32>,
    /// The domain has 2^log_n points.
    pub log_n: u32,
    /// The basis of H.
    pub basis: Basis,
    /// The constant 1 and the public inputs.
    pub inputs: usize,
    /// Inputs and private variables.
    pub variables: usize,
    /// What verifies: all of its points are checked whenever a file is opened.
    pub vk: VerifyingKey,
    /// beta in G1.
    pub beta_g1: G1Affine,
    /// delta in G1.
    pub delta_g1: G1Affine,
    /// BLAKE3 of the header, and so of all digests in it: equal for equal files only.
    pub digest: blake3::Hash,
}

impl Header {
    /// Why anyone could forge proofs for this key, if that can be seen from the file.
    pub fn insecurity(&self) -> Option<&'static str> {
        insecurity(&self.vk, self.contributions)
    }
}

/// A part of the file.
struct Section {
    kind: Kind,
    offset: u64,
    bytes: u64,
    digest: [u8; 32],
}

impl Section {
    fn place(&self) -> String {
        format!("{}, offset {}", self.kind.place(), self.offset)
    }

    fn range(&self) -> Range<usize> {
        self.offset as usize..(self.offset + self.bytes) as usize
    }

    fn len(&self) -> usize {
        (self.bytes / self.kind.element_bytes()) as usize
    }
}

/// A `.fbkey` file whose header is whole and fits the file.
pub struct Fbkey {
    bytes: Shared<u8>,
    /// What it says.
    pub header: Header,
    sections: Vec<Section>,
}

impl Fbkey {
    /// Maps a file, and checks its header. The map lives as long as what [`Fbkey::key`] makes of it.
    ///
    /// A file must not be changed while it is mapped: replace it by another, as `forebay convert` does.
    pub fn map(file: &FileSource) -> Result<Self> {
        if super::Source::is_empty(file) {
            return Err(too_short(0));
        }
        Self::new(Arc::new(file.map()?))
    }

    /// The same for a file's contents.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::new(Arc::new(Aligned::copy(bytes)))
    }

    fn new(shared: Shared<u8>) -> Result<Self> {
        let bytes: &[u8] = (*shared).as_ref();
        let first = &bytes[..bytes.len().min(PAGE as usize)];
        let fields = Fields::read(first, bytes.len() as u64)?;
        let sections = fields.sections(first)?;
        for (index, section) in sections.iter().enumerate() {
            if section.offset.saturating_add(section.bytes) > bytes.len() as u64 {
                let found = format!("the file's end at {}", bytes.len());
                return Err(Error::invalid(
                    section.place(),
                    found,
                    format!("{} bytes", section.bytes),
                ));
            }
            let before = index.checked_sub(1).map_or(PAGE, |before| {
                let before = &sections[before];
                before.offset + before.bytes
            });
            let between = &bytes[before as usize..section.offset as usize];
            if let Some(at) = between.iter().position(|byte| *byte != 0) {
                let place =
                    format!("offset {}, before {}", before + at as u64, section.kind.place());
                return Err(Error::invalid(place, between[at], "0"));
            }
        }
        let end = sections.last().map_or(PAGE, |last| last.offset + last.bytes);
        for (what, found) in [
            ("the file", bytes.len() as u64),
            ("the header, offset 48, bytes of the file", fields.file_bytes),
        ] {
            if found != end {
                return Err(Error::invalid(
                    what,
                    format!("{found} bytes"),
                    format!("{end} bytes, where the last section ends"),
                ));
            }
        }
        fields.check_counts(&sections)?;
        let header = fields.header(bytes, first, &sections)?;
        Ok(Self { bytes: shared, header, sections })
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.all().len() as u64
    }

    /// Whether there is none: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compares every section with its digest, on all threads.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the first section that is another.
    pub fn check_digests(&self, progress: &dyn Progress) -> Result<()> {
        progress.begin("reading the key", self.sections.iter().map(|section| section.bytes).sum());
        for section in &self.sections {
            let mut hasher = blake3::Hasher::new();
            for piece in self.all()[section.range()].chunks(PIECE) {
                hasher.update_rayon(piece);
                progress.advance(piece.len() as u64);
            }
            let (found, recorded) = (hasher.finalize(), blake3::Hash::from_bytes(section.digest));
            if found != recorded {
                let place = format!("{}, BLAKE3 of its {} bytes", section.place(), section.bytes);
                return Err(Error::invalid(
                    place,
                    found.to_hex(),
                    format!("{} as the header says: the file was altered", recorded.to_hex()),
                ));
            }
        }
        Ok(())
    }

    /// Checks every point to be on the curve and of order r, whatever the header says.
    pub fn check_points(&self, progress: &dyn Progress) -> Result<()> {
        let queries = [Kind::A, Kind::BG1, Kind::L, Kind::H];
        let in_g1 = queries.map(|kind| self.array::<G1Affine>(kind));
        let in_g2 = self.array::<G2Affine>(Kind::BG2);
        let points = in_g1.iter().map(|points| points.len()).sum::<usize>() + in_g2.len();
        progress.begin("checking the key", points as u64);
        for (kind, points) in queries.into_iter().zip(&in_g1) {
            self.check_query(kind, points, progress)?;
        }
        self.check_query(Kind::BG2, &in_g2, progress)
    }

    fn check_query<F: Coordinate>(
        &self,
        kind: Kind,
        points: &[Affine<F>],
        progress: &dyn Progress,
    ) -> Result<()> {
        let Some(section) = self.section(kind) else { return Ok(()) };
        let place = kind.place();
        let (source, start, count) = (self.all(), section.offset, section.len());
        Points { source, what: &place, start, count }.check(reading(progress), points)
    }

    /// The key, whose arrays are parts of the file. Densities and matrices are checked to be such; points, of which there are
    /// many, are not looked at.
    pub fn key(&self) -> Result<ProvingKey> {
        let header = &self.header;
        let Header { inputs, variables, .. } = *header;
        let density = |kind, len| {
            let words = self.section(kind).map(|_| self.array::<u64>(kind));
            words.map(|words| Density { words, len })
        };
        let has_matrices = self.section(Kind::ARows).is_some();
        let matrix = |[rows, columns, coefficients, table]: [Kind; 4]| Matrix {
            row_start: self.array(rows),
            column: self.array(columns),
            coefficient: self.array(coefficients),
            table: self.array(table),
        };
        let key = ProvingKey {
            log_n: header.log_n,
            inputs,
            variables,
            basis: header.basis,
            vk: header.vk.clone(),
            beta_g1: header.beta_g1,
            delta_g1: header.delta_g1,
            a: Query { points: self.array(Kind::A), density: density(Kind::ADensity, variables) },
            b_g1: Query {
                points: self.array(Kind::BG1),
                density: density(Kind::BG1Density, variables),
            },
            b_g2: Query {
                points: self.array(Kind::BG2),
                density: density(Kind::BG2Density, variables),
            },
            l: Query {
                points: self.array(Kind::L),
                density: density(Kind::LDensity, variables - inputs),
            },
            h: self.array(Kind::H),
            matrices: has_matrices.then(|| Kind::MATRICES.map(matrix)),
        };
        check_contents(&key).map_err(|wrong| {
            let section = self.section(wrong.section);
            let place = section.map_or_else(|| wrong.section.place(), Section::place);
            Error::invalid(place, wrong.found, wrong.expected)
        })?;
        Ok(key)
    }

    fn all(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    fn section(&self, kind: Kind) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == kind)
    }

    /// The elements of a section; none where it is absent.
    fn array<T: Pod + Send + Sync>(&self, kind: Kind) -> Array<T> {
        debug_assert_eq!(kind.element_bytes(), size_of::<T>() as u64);
        match self.section(kind) {
            None => Array::default(),
            Some(section) => Array::part(self.bytes.clone(), section.range()),
        }
    }
}

/// Bytes that start where a u64 may.
struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    fn copy(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self { words, len: bytes.len() }
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

fn reading(progress: &dyn Progress) -> Reading<'_> {
    Reading { encoding: Encoding::Snarkjs, check: true, infinity: false, scratch: None, progress }
}

fn too_short(len: u64) -> Error {
    let expected = format!("at least the {PAGE} bytes of a header");
    Error::invalid("the file", format!("{len} bytes"), expected)
}

/// The header's numbers.
struct Fields {
    digest: blake3::Hash,
    file_bytes: u64,
    sections: u32,
    points_checked: bool,
    log_n: u32,
    basis: Basis,
    inputs: u64,
    variables: u64,
    contributions: Option<u32>,
    program: String,
    /// The offset of alpha1.
    points: u64,
}

impl Fields {
    /// Reads the header of a file of `len` bytes, of which `first` are the first.
    fn read(first: &[u8], len: u64) -> Result<Self> {
        let mut cursor = Cursor::new(first, "the header", 0, first.len() as u64);
        let magic = cursor.bytes::<8>("magic")?;
        if magic != MAGIC {
            let expected = format!("\"{}\" of a .fbkey", MAGIC.escape_ascii());
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(Error::invalid("the header, offset 0, magic", found, expected));
        }
        let order = u32::from_ne_bytes(cursor.bytes("byte order")?);
        if order != BYTE_ORDER {
            let found = match order == BYTE_ORDER.swap_bytes() {
                true => "that of a machine with the other byte order".into(),
                false => format!("{order:#010x}"),
            };
            let expected = "this machine's: convert the key on such a one as this";
            return Err(Error::invalid("the header, offset 8, byte order", found, expected));
        }
        let version = cursor.u32("version")?;
        if version != VERSION {
            let expected = match version > VERSION {
                true => {
                    format!("{VERSION}: a newer forebay made this, convert the key with this one")
                }
                false => VERSION.to_string(),
            };
            return Err(Error::invalid("the header, offset 12, version", version, expected));
        }
        if len < PAGE {
            return Err(too_short(len));
        }
        let digest = blake3::Hash::from_bytes(cursor.bytes("digest")?);
        let found = header_digest(first);
        if digest != found {
            return Err(Error::invalid(
                "the header, offset 0, BLAKE3 of its 4096 bytes",
                found.to_hex(),
                format!(
                    "{} as offset {} says: the file was altered",
                    digest.to_hex(),
                    DIGEST.start
                ),
            ));
        }

        let file_bytes = cursor.u64("bytes of the file")?;
        let sections = cursor.u32("sections")?;
        let points_checked = match cursor.u32("checks")? {
            0 => false,
            CHECKED => true,
            other => return Err(cursor.invalid("checks", other, "0 or 3")),
        };
        let log_n = cursor.u32("log2 of the domain")?;
        if !(1..=31).contains(&log_n) {
            return Err(cursor.invalid("log2 of the domain", log_n, "1 to 31"));
        }
        let basis = match cursor.u32("basis of H")? {
            0 => Basis::Coefficients,
            1 => Basis::OddCoset,
            other => return Err(cursor.invalid("basis of H", other, "0 or 1")),
        };
        let (inputs, variables) = (cursor.u64("inputs")?, cursor.u64("variables")?);
        if !(1..=variables).contains(&inputs) || variables > 1 << 32 {
            let found = format!("{inputs} of {variables}");
            return Err(cursor.invalid(
                "inputs and variables",
                found,
                "1 or more inputs, at most 2^32 variables",
            ));
        }
        let contributions =
            match cursor.u64("contributions")? {
                u64::MAX => None,
                count => Some(u32::try_from(count).map_err(|_| {
                    cursor.invalid("contributions", count, "below 2^32, or 2^64 - 1")
                })?),
            };
        let program = cursor.bytes::<PROGRAM_BYTES>("program")?;
        let text = program.iter().position(|byte| *byte == 0).unwrap_or(PROGRAM_BYTES);
        if program[text..].iter().any(|byte| *byte != 0) {
            return Err(cursor.invalid("program", "more behind a zero", "zeros"));
        }
        let program = program[..text].escape_ascii().to_string();
        let curve = cursor.bytes::<16>("curve")?;
        if curve != CURVE {
            return Err(cursor.invalid("curve", curve.escape_ascii(), "BLS12-381"));
        }
        let points = cursor.offset();
        Ok(Self {
            digest,
            file_bytes,
            sections,
            points_checked,
            log_n,
            basis,
            inputs,
            variables,
            contributions,
            program,
            points,
        })
    }

    /// Reads the table of the sections, which must stand where they have to, one behind the other.
    fn sections(&self, first: &[u8]) -> Result<Vec<Section>> {
        let start = self.points + 3 * point_bytes::<Fp>() + 3 * point_bytes::<Fp2>();
        let mut cursor = Cursor::new(first, "the header", start, PAGE);
        if self.sections as usize > Kind::ALL.len() {
            let expected = format!("at most {}", Kind::ALL.len());
            return Err(Error::invalid("the header, offset 56, sections", self.sections, expected));
        }
        let mut sections: Vec<Section> = Vec::new();
        let mut free = PAGE;
        for _ in 0..self.sections {
            let number = cursor.u32("kind of a section")?;
            let kind = Kind::ALL.into_iter().find(|kind| *kind as u32 == number);
            let last = sections.last().map_or(0, |section| section.kind as u32);
            let Some(kind) = kind.filter(|_| number > last) else {
                return Err(cursor.invalid(
                    "kind of a section",
                    number,
                    format!("{} to 18", last + 1),
                ));
            };
            let name = |what: &str| format!("{} of {}", what, kind.place());
            let element = cursor.u32(&name("bytes an element"))?;
            if u64::from(element) != kind.element_bytes() {
                return Err(cursor.invalid(
                    &name("bytes an element"),
                    element,
                    kind.element_bytes(),
                ));
            }
            let offset = cursor.u64(&name("offset"))?;
            let expected = free.checked_next_multiple_of(PAGE);
            if Some(offset) != expected {
                let expected = expected.map_or_else(|| "none".into(), |offset| offset.to_string());
                return Err(cursor.invalid(&name("offset"), offset, expected));
            }
            let bytes = cursor.u64(&name("bytes"))?;
            free = match offset.checked_add(bytes) {
                Some(end) if bytes.is_multiple_of(element.into()) => end,
                _ => {
                    let expected = format!("whole elements of {element} bytes");
                    return Err(cursor.invalid(&name("bytes"), bytes, expected));
                }
            };
            if cursor.u64(&name("eight zeros"))? != 0 {
                return Err(cursor.invalid(&name("eight zeros"), "another number", "0"));
            }
            let digest = cursor.bytes::<32>(&name("digest"))?;
            sections.push(Section { kind, offset, bytes, digest });
        }
        while cursor.remaining() > 0 {
            if cursor.bytes::<1>("the rest")? != [0] {
                return Err(cursor.invalid("the rest", "another byte", "0"));
            }
        }
        Ok(sections)
    }

    /// That there are the sections of a key, with as many elements as the numbers say.
    fn check_counts(&self, sections: &[Section]) -> Result<()> {
        let find = |kind: Kind| sections.iter().find(|section| section.kind == kind);
        for kind in Kind::ALL {
            let in_matrix = Kind::MATRICES.iter().flatten().any(|other| *other == kind);
            let needed = kind.is_required() || in_matrix && find(Kind::ARows).is_some();
            if find(kind).is_none() && needed {
                return Err(Error::invalid("the header, the sections", "none", kind.place()));
            }
            if in_matrix && find(kind).is_some() && find(Kind::ARows).is_none() {
                let missing = Kind::ARows.place();
                return Err(Error::invalid("the header, the sections", kind.place(), missing));
            }
        }
        let (n, private) = (1u64 << self.log_n, self.variables - self.inputs);
        let h = match self.basis {
            Basis::Coefficients => n - 1,
            Basis::OddCoset => n,
        };
        let words = |len: u64| len.div_ceil(64);
        let exact = [
            (Kind::Ic, self.inputs),
            (Kind::ADensity, words(self.variables)),
            (Kind::BG1Density, words(self.variables)),
            (Kind::BG2Density, words(self.variables)),
            (Kind::LDensity, words(private)),
            (Kind::H, h),
        ];
        let most = [
            (Kind::A, self.variables),
            (Kind::BG1, self.variables),
            (Kind::BG2, self.variables),
            (Kind::L, private),
            (Kind::ARows, n + 1),
            (Kind::BRows, n + 1),
        ];
        for (kind, len, exactly) in exact
            .map(|(kind, len)| (kind, len, true))
            .into_iter()
            .chain(most.map(|(kind, len)| (kind, len, false)))
        {
            let Some(section) = find(kind) else { continue };
            let found = section.len() as u64;
            if found > len || exactly && found != len {
                let expected = format!("{}{len}", if exactly { "" } else { "at most " });
                return Err(Error::invalid(
                    format!("{}, elements", section.place()),
                    found,
                    expected,
                ));
            }
        }
        Ok(())
    }

    /// Reads the verifying key, every point checked.
    fn header(self, bytes: &[u8], first: &[u8], sections: &[Section]) -> Result<Header> {
        let [g1, g2] = [point_bytes::<Fp>(), point_bytes::<Fp2>()];
        let reading = reading(&Silent);
        let point_g1 = |name: &str, at: u64| {
            read_point(first, &format!("the header, {name}"), self.points + at, reading)
        };
        let point_g2 = |name: &str, at: u64| {
            read_point(first, &format!("the header, {name}"), self.points + 3 * g1 + at, reading)
        };
        let section = &sections[0];
        let place = section.kind.place();
        let ic =
            Points { source: bytes, what: &place, start: section.offset, count: section.len() };
        let vk = VerifyingKey {
            alpha_g1: point_g1("alpha1", 0)?,
            beta_g2: point_g2("beta2", 0)?,
            gamma_g2: point_g2("gamma2", g2)?,
            delta_g2: point_g2("delta2", 2 * g2)?,
            ic: ic.read(reading)?.to_vec(),
        };
        Ok(Header {
            beta_g1: point_g1("beta1", g1)?,
            delta_g1: point_g1("delta1", 2 * g1)?,
            program: self.program,
            points_checked: self.points_checked,
            contributions: self.contributions,
            log_n: self.log_n,
            basis: self.basis,
            inputs: self.inputs as usize,
            variables: self.variables as usize,
            vk,
            digest: self.digest,
        })
    }
}

/// What the prover and the devices rely on without looking again.
fn check_contents(key: &ProvingKey) -> std::result::Result<(), Wrong> {
    fn query<F>(kind: Kind, of: Kind, query: &Query<F>) -> std::result::Result<(), Wrong> {
        let Some(density) = &query.density else { return Ok(()) };
        let spare = density.words.last().filter(|_| !density.len.is_multiple_of(64));
        if spare.is_some_and(|word| word >> (density.len % 64) != 0) {
            return Err(Wrong::new(kind, "bits behind the last variable", "none"));
        }
        match density.ones() == query.points.len() {
            true => Ok(()),
            false => Err(Wrong::new(
                kind,
                format!("{} bits", density.ones()),
                format!("{}, the points of {}", query.points.len(), of.place()),
            )),
        }
    }
    query(Kind::ADensity, Kind::A, &key.a)?;
    query(Kind::BG1Density, Kind::BG1, &key.b_g1)?;
    query(Kind::BG2Density, Kind::BG2, &key.b_g2)?;
    query(Kind::LDensity, Kind::L, &key.l)?;
    for (matrix, kinds) in key.matrices.iter().flatten().zip(Kind::MATRICES) {
        check_matrix(matrix, kinds, key.variables)?;
    }
    Ok(())
}

fn check_matrix(
    matrix: &Matrix,
    [rows, columns, coefficients, table]: [Kind; 4],
    variables: usize,
) -> std::result::Result<(), Wrong> {
    let Matrix { row_start, column, coefficient, table: values } = matrix;
    let entries = column.len();
    if row_start.first() != Some(&0) || row_start.last().copied() != u32::try_from(entries).ok() {
        let found = format!("{:?} to {:?}", row_start.first(), row_start.last());
        return Err(Wrong::new(rows, found, format!("0 to {entries}, the columns")));
    }
    if !row_start.par_windows(2).with_min_len(PIECE).all(|pair| pair[0] <= pair[1]) {
        return Err(Wrong::new(rows, "a row that ends before it starts", "rising offsets"));
    }
    if coefficient.len() != entries {
        return Err(Wrong::new(coefficients, coefficient.len(), format!("{entries}, the columns")));
    }
    let above = |values: &[u32], len: usize| {
        let largest =
            values.par_chunks(PIECE).filter_map(|piece| piece.iter().max()).max().copied();
        largest.filter(|largest| *largest as usize >= len)
    };
    if let Some(found) = above(column, variables) {
        return Err(Wrong::new(columns, found, format!("below {variables}, the variables")));
    }
    if let Some(found) = above(coefficient, values.len()) {
        return Err(Wrong::new(coefficients, found, format!("below {}, the table", values.len())));
    }
    if values.get(..2) != Some(&[Fr::ONE, -Fr::ONE]) {
        return Err(Wrong::new(table, "other first values", "1 and -1"));
    }
    if values.iter().any(|value| Fr::from_montgomery_limbs(value.0).is_none()) {
        return Err(Wrong::new(table, "a number that is not below r", "numbers below r"));
    }
    Ok(())
}

/// BLAKE3 of a header but for that digest.
fn header_digest(header: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header[..DIGEST.start]).update(&[0; DIGEST.end - DIGEST.start]);
    hasher.update(&header[DIGEST.end..]).finalize()
}

/// What a file is to say beside the key.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// That every point was found on the curve and of order r.
    pub points_checked: bool,
    /// The contributions in the ceremony's record, if there was one.
    pub contributions: Option<u32>,
}

/// Writes a key. The same key and facts give the same bytes.
///
/// # Errors
/// [`Error::Invalid`] if the key's parts do not fit one another, or what `out` fails with.
pub fn write(
    key: &ProvingKey,
    facts: Facts,
    progress: &dyn Progress,
    out: &mut impl Write,
) -> Result<()> {
    check_contents(key)
        .map_err(|wrong| Error::invalid(wrong.section.name(), wrong.found, wrong.expected))?;
    let contents = contents_of(key);
    let header = header_of(key, facts, &contents);
    let sections = Fields::read(&header, PAGE).and_then(|fields| {
        let sections = fields.sections(&header)?;
        fields.check_counts(&sections)?;
        Ok(sections)
    })?;
    progress.begin("writing the key", sections.iter().map(|section| section.bytes).sum());
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(Error::io("the new key".as_ref()));
    put(&header)?;
    let mut end = PAGE;
    for (section, (_, bytes)) in sections.iter().zip(contents) {
        put(&[0; PAGE as usize][..(section.offset - end) as usize])?;
        for piece in bytes.chunks(PIECE) {
            put(piece)?;
            progress.advance(piece.len() as u64);
        }
        end = section.offset + section.bytes;
    }
    Ok(())
}

/// The bytes of every section, in order.
fn contents_of(key: &ProvingKey) -> Vec<(Kind, &[u8])> {
    fn bytes<T: Pod>(elements: &[T]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }
    let densities = [
        (Kind::ADensity, key.a.density.as_ref()),
        (Kind::BG1Density, key.b_g1.density.as_ref()),
        (Kind::BG2Density, key.b_g2.density.as_ref()),
        (Kind::LDensity, key.l.density.as_ref()),
    ];
    let mut contents = vec![
        (Kind::Ic, bytes(&key.vk.ic)),
        (Kind::A, bytes(&key.a.points)),
        (Kind::BG1, bytes(&key.b_g1.points)),
        (Kind::BG2, bytes(&key.b_g2.points)),
        (Kind::L, bytes(&key.l.points)),
        (Kind::H, bytes(&key.h)),
    ];
    contents.extend(
        densities.into_iter().filter_map(|(kind, set)| Some((kind, bytes(&set?.words[..])))),
    );
    for (matrix, kinds) in key.matrices.iter().flatten().zip(Kind::MATRICES) {
        let arrays = [
            bytes(&matrix.row_start),
            bytes(&matrix.column),
            bytes(&matrix.coefficient),
            bytes(&matrix.table),
        ];
        contents.extend(kinds.into_iter().zip(arrays));
    }
    contents.sort_by_key(|(kind, _)| *kind as u32);
    contents
}

/// The 4096 bytes before the sections.
fn header_of(key: &ProvingKey, facts: Facts, contents: &[(Kind, &[u8])]) -> Vec<u8> {
    let mut table = Vec::new();
    let mut end = PAGE;
    for (kind, bytes) in contents {
        let offset = end.next_multiple_of(PAGE);
        let mut hasher = blake3::Hasher::new();
        hasher.update_rayon(bytes);
        table.extend((*kind as u32).to_le_bytes());
        table.extend((kind.element_bytes() as u32).to_le_bytes());
        table.extend(offset.to_le_bytes());
        table.extend((bytes.len() as u64).to_le_bytes());
        table.extend([0; 8]);
        table.extend(hasher.finalize().as_bytes());
        end = offset + bytes.len() as u64;
    }
    debug_assert_eq!(table.len(), contents.len() * SECTION_BYTES);
    let basis = match key.basis {
        Basis::Coefficients => 0u32,
        Basis::OddCoset => 1,
    };
    let mut header = MAGIC.to_vec();
    header.extend(BYTE_ORDER.to_ne_bytes());
    header.extend(VERSION.to_le_bytes());
    header.extend([0; DIGEST.end - DIGEST.start]);
    header.extend(end.to_le_bytes());
    header.extend((contents.len() as u32).to_le_bytes());
    header.extend(if facts.points_checked { CHECKED } else { 0 }.to_le_bytes());
    header.extend(key.log_n.to_le_bytes());
    header.extend(basis.to_le_bytes());
    header.extend((key.inputs as u64).to_le_bytes());
    header.extend((key.variables as u64).to_le_bytes());
    header.extend(facts.contributions.map_or(u64::MAX, u64::from).to_le_bytes());
    header.extend(PROGRAM.as_bytes());
    header.resize(header.len() + PROGRAM_BYTES - PROGRAM.len(), 0);
    header.extend(CURVE);
    for point in [&key.vk.alpha_g1, &key.beta_g1, &key.delta_g1] {
        encode(point, Encoding::Snarkjs, &mut header);
    }
    for point in [&key.vk.beta_g2, &key.vk.gamma_g2, &key.vk.delta_g2] {
        encode(point, Encoding::Snarkjs, &mut header);
    }
    header.extend(table);
    header.resize(PAGE as usize, 0);
    let digest = header_digest(&header);
    header[DIGEST].copy_from_slice(digest.as_bytes());
    header
}
