//! `.r1cs`, version 1: section 1 the header, section 2 the constraints, each three linear combinations A, B, C of u32
//! term count and terms (u32 wire, 32 bytes canonical little-endian); A w * B w = C w.

use std::ops::Range;

use zeroize::Zeroize;

use super::iden3::{Container, Section, expect_r};
use super::points::fr_limbs;
use super::{Cursor, Source, expect_length};
use crate::field::{Field, Fr};
use crate::{Error, Result};

/// Counts of the header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Wires, the constant 1 included.
    pub wires: u32,
    /// Public outputs.
    pub public_outputs: u32,
    /// Public inputs.
    pub public_inputs: u32,
    /// Private inputs.
    pub private_inputs: u32,
    /// Labels of the symbol file.
    pub labels: u64,
    /// Constraints.
    pub constraints: u32,
}

impl Header {
    /// Outputs and public inputs: wires 1 to this.
    pub fn public(&self) -> u32 {
        self.public_outputs + self.public_inputs
    }
}

/// One term of a linear combination.
#[derive(Clone, Copy, Debug, Zeroize)]
pub struct Term {
    /// The wire, below [`Header::wires`].
    pub wire: u32,
    /// Its coefficient.
    pub coefficient: Fr,
}

/// Constraints that follow each other in the file. Blocks are independent: threads may read them at once.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    first_row: usize,
    rows: usize,
    place: Section,
    /// Terms of all A, all B and all C.
    pub terms: [u64; 3],
}

/// Bytes of a block, and what its last constraint has beyond that.
const BLOCK_BYTES: u64 = 1 << 20;

/// A constraint system in a file; the constraints are read when asked for.
pub struct R1cs<'a, S: ?Sized> {
    file: Container<'a, S>,
    constraints: Section,
    /// The counts.
    pub header: Header,
}

/// The row that a witness breaks, and what its sides come to.
#[derive(Debug)]
pub struct Unsatisfied {
    /// The constraint, from 0, in the file's order.
    pub row: usize,
    /// A w, B w and C w.
    pub sides: [Fr; 3],
}

impl std::fmt::Display for Unsatisfied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c] = self.sides.map(|side| side.to_biguint());
        write!(f, "constraint {}: A = {a}, B = {b}, C = {c}, but A * B is not C", self.row)
    }
}

/// The linear combinations of a constraint, in order.
const SIDES: [&str; 3] = ["A", "B", "C"];

/// The number of terms that follow, which the file has room for.
fn read_term_count<S: Source + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    row: usize,
    name: &str,
) -> Result<u32> {
    let count = cursor.u32("number of terms")?;
    if u64::from(count) * 36 > cursor.remaining() {
        let what = format!("constraint {row}, {name}, number of terms");
        return Err(cursor.invalid(&what, count, format!("at most {}", cursor.remaining() / 36)));
    }
    Ok(count)
}

impl<'a, S: Source + ?Sized> R1cs<'a, S> {
    /// Reads the header and finds the constraints.
    pub fn read(source: &'a S) -> Result<Self> {
        let file = Container::read(source, b"r1cs", 1)?;
        let mut cursor = file.cursor(file.section(1, "header")?, "section 1 (header)");
        expect_r(&mut cursor)?;
        let header = Header {
            wires: cursor.u32("number of wires")?,
            public_outputs: cursor.u32("number of public outputs")?,
            public_inputs: cursor.u32("number of public inputs")?,
            private_inputs: cursor.u32("number of private inputs")?,
            labels: cursor.u64("number of labels")?,
            constraints: cursor.u32("number of constraints")?,
        };
        cursor.finish()?;
        let public = u64::from(header.public_outputs) + u64::from(header.public_inputs);
        if public >= u64::from(header.wires) {
            let found = format!("{} wires for {public} public signals", header.wires);
            return Err(Error::invalid(
                "section 1 (header)",
                found,
                "more wires than public signals",
            ));
        }
        let constraints = file.section(2, "constraints")?;
        // Three empty combinations take 12 bytes.
        if constraints.bytes() < 12 * u64::from(header.constraints) {
            let found = format!("{} bytes", constraints.bytes());
            return Err(Error::invalid(
                "section 2 (constraints)",
                found,
                format!("{} constraints", header.constraints),
            ));
        }
        // The number of wires decides what is allocated, so the file must show that many: by the map from
        // wires to labels, or, without one, by terms.
        match file.find(3) {
            Some(map) => {
                expect_length(
                    "section 3 (wire map)",
                    map.bytes(),
                    header.wires.into(),
                    8,
                    "wires",
                )?;
            }
            None if u64::from(header.wires) > constraints.bytes() / 36 + 1 => {
                let expected =
                    "a wire map (section 3), or no more wires than the constraints have terms";
                let found = format!("{} wires", header.wires);
                return Err(Error::invalid("section 1 (header)", found, expected));
            }
            None => {}
        }
        if let Some(uses) = file.find(5).filter(|section| section.bytes() >= 4) {
            let count = file.cursor(uses, "section 5 (custom gates)").u32("number of uses")?;
            if count != 0 {
                return Err(Error::invalid(
                    "section 5 (custom gates)",
                    format!("{count} uses"),
                    "none: Groth16 has no custom gates",
                ));
            }
        }
        Ok(Self { file, constraints, header })
    }

    /// Hands every constraint in order to `sink(row, [A, B, C])`. Wires may repeat and come in any
    /// order; coefficients may be zero.
    pub fn for_each(
        &self,
        mut sink: impl FnMut(usize, &[Vec<Term>; 3]) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = self.cursor(self.constraints);
        self.read_rows(&mut cursor, 0..self.header.constraints as usize, &mut sink)?;
        cursor.finish()
    }

    /// All constraints as blocks of about a MiB, in order. Passes over the terms; reading them tells whether they are right.
    pub fn blocks(&self) -> Result<Vec<Block>> {
        let mut cursor = self.cursor(self.constraints);
        let mut blocks = Vec::new();
        let new_block = |first_row, start| Block {
            first_row,
            rows: 0,
            place: Section { start, ..self.constraints },
            terms: [0; 3],
        };
        let mut block = new_block(0, cursor.offset());
        for row in 0..self.header.constraints as usize {
            for (terms, name) in block.terms.iter_mut().zip(SIDES) {
                let count = read_term_count(&mut cursor, row, name)?;
                cursor.skip(36 * u64::from(count));
                *terms += u64::from(count);
            }
            block.rows += 1;
            block.place.end = cursor.offset();
            if block.place.bytes() >= BLOCK_BYTES || row + 1 == self.header.constraints as usize {
                blocks.push(block);
                block = new_block(row + 1, cursor.offset());
            }
        }
        cursor.finish()?;
        Ok(blocks)
    }

    /// [`R1cs::for_each`] of the constraints of `block`, which is one of [`R1cs::blocks`].
    pub fn for_each_of(
        &self,
        block: &Block,
        mut sink: impl FnMut(usize, &[Vec<Term>; 3]) -> Result<()>,
    ) -> Result<()> {
        let rows = block.first_row..block.first_row + block.rows;
        let mut cursor = self.cursor(block.place);
        self.read_rows(&mut cursor, rows, &mut sink)?;
        cursor.finish()
    }

    fn cursor(&self, place: Section) -> Cursor<'a, S> {
        self.file.cursor(place, "section 2 (constraints)")
    }

    fn read_rows(
        &self,
        cursor: &mut Cursor<'_, S>,
        rows: Range<usize>,
        sink: &mut impl FnMut(usize, &[Vec<Term>; 3]) -> Result<()>,
    ) -> Result<()> {
        let mut sides: [Vec<Term>; 3] = Default::default();
        for row in rows {
            for (side, name) in sides.iter_mut().zip(SIDES) {
                self.read_terms(cursor, row, name, side)?;
            }
            sink(row, &sides)?;
        }
        Ok(())
    }

    fn read_terms(
        &self,
        cursor: &mut Cursor<'_, S>,
        row: usize,
        name: &str,
        terms: &mut Vec<Term>,
    ) -> Result<()> {
        let count = read_term_count(cursor, row, name)?;
        terms.clear();
        for _ in 0..count {
            let wire = cursor.u32("wire")?;
            if wire >= self.header.wires {
                let what = format!("constraint {row}, {name}, wire");
                return Err(cursor.invalid(&what, wire, format!("below {}", self.header.wires)));
            }
            let bytes = cursor.bytes::<32>("coefficient")?;
            let coefficient = Fr::from_canonical_limbs(fr_limbs(&bytes)).ok_or_else(|| {
                let what = format!("constraint {row}, {name}, coefficient");
                cursor.invalid(&what, "a number that is not below r", "a canonical number below r")
            })?;
            terms.push(Term { wire, coefficient });
        }
        Ok(())
    }

    /// The first constraint that `values` breaks.
    ///
    /// # Errors
    /// If there is not exactly one value a wire, or the file is malformed.
    pub fn first_unsatisfied(&self, values: &[Fr]) -> Result<Option<Unsatisfied>> {
        if values.len() != self.header.wires as usize {
            return Err(Error::invalid(
                "section 1 (header)",
                format!("{} wires", self.header.wires),
                format!("{} as in the witness", values.len()),
            ));
        }
        let mut first = None;
        self.for_each(|row, sides| {
            if first.is_none() {
                let sides = sides.each_ref().map(|terms| {
                    terms.iter().fold(Fr::ZERO, |sum, term| {
                        sum + term.coefficient * values[term.wire as usize]
                    })
                });
                if sides[0] * sides[1] != sides[2] {
                    first = Some(Unsatisfied { row, sides });
                }
            }
            Ok(())
        })?;
        Ok(first)
    }
}
