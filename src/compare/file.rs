//! A failing input as a file, JSON: to try it again elsewhere, and to add it to a report.
//!
//! ```json
//! {"format": "forebay failing input", "version": 1, "blake3": "...", "input": {
//!     "stage": "a: interpolate", "expected": "...", "found": "...",
//!     "operation": {"transform": {"transform": "interpolate", "data": ["1", "0"]}}}}
//! ```
//!
//! Numbers are canonical, in hexadecimal, without leading zeros. Points are their affine coordinates in the order of device buffers,
//! zeros for infinity. `expected` and `found` are the digests of both results, `blake3` that of `input` as it is written without
//! spaces. A file that is cut short, altered, larger than [`MOST_BYTES`] or not plainly written is refused.

use std::collections::HashMap;
use std::sync::Arc;

use num_bigint::BigUint;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::array::Array;
use crate::backend::{Matrix, Quotient, Transform};
use crate::compact::Compact;
use crate::curve::{Affine, Coordinate};
use crate::field::{Field, Fp, Fr};
use crate::key::{Density, log_domain};
use crate::{Error, Result};

use super::Failing;
use super::operation::{Onto, Operation, Terms, Vector};

const FORMAT: &str = "forebay failing input";
const VERSION: u32 = 1;

/// The largest file that is written or read. Reading one takes some thirty times as much memory at most: that of a short zero
/// is an element.
pub(super) const MOST_BYTES: u64 = 16 << 20;

/// The most zeros that a file may ask for by their number.
const MOST_ZEROS: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    blake3: String,
    input: Input,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    stage: String,
    expected: String,
    found: String,
    operation: Text,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Text {
    Expand {
        values: Vec<Hex<Fr>>,
        onto: OntoText,
    },
    /// Rows of columns and coefficients.
    Matvec {
        rows: Vec<Vec<(u32, Hex<Fr>)>>,
        x: Vec<Hex<Fr>>,
        onto: OntoText,
    },
    Transform {
        #[serde(with = "TransformText")]
        transform: Transform,
        data: Vec<Hex<Fr>>,
    },
    Quotient {
        #[serde(with = "QuotientText")]
        step: Quotient,
        accumulator: Vec<Hex<Fr>>,
        operand: Vec<Hex<Fr>>,
    },
    SumInG1(TermsText),
    SumInG2(TermsText),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OntoText {
    Zeros(usize),
    Values(Vec<Hex<Fr>>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsText {
    bases: Vec<Vec<Hex<Fp>>>,
    scalars: Vec<Hex<Fr>>,
    first: usize,
    has_base: Option<Vec<bool>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Transform", rename_all = "kebab-case")]
enum TransformText {
    Interpolate,
    Evaluate,
    InterpolateOdd,
    EvaluateOdd,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Quotient", rename_all = "kebab-case")]
enum QuotientText {
    Product,
    Difference,
    HalfDifference,
}

/// A field element as text.
struct Hex<F>(F);

/// The fields whose elements stand in files.
trait Number: Field {
    const BYTES: usize;
    fn to_integer(&self) -> BigUint;
    fn from_integer(value: &BigUint) -> Option<Self>;
}

macro_rules! number {
    ($field:ty) => {
        impl Number for $field {
            const BYTES: usize = <$field>::BYTES;
            fn to_integer(&self) -> BigUint {
                self.to_biguint()
            }
            fn from_integer(value: &BigUint) -> Option<Self> {
                Self::from_biguint(value)
            }
        }
    };
}
number!(Fr);
number!(Fp);

impl<F: Number> Serialize for Hex<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:x}", self.0.to_integer()))
    }
}

impl<'de, F: Number> Deserialize<'de> for Hex<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let plain = text.len() <= 2 * F::BYTES && text.bytes().all(is_digit);
        let canonical = plain && (text == "0" || !text.starts_with('0'));
        let number = canonical.then(|| BigUint::parse_bytes(text.as_bytes(), 16)).flatten();
        // The text may be a value of a witness, which does not belong in a message.
        number.and_then(|number| F::from_integer(&number)).map(Self).ok_or_else(|| {
            let expected = "a hexadecimal number below the modulus, without leading zeros";
            D::Error::custom(format_args!("a number that is not {expected}"))
        })
    }
}

/// The file of a failing input; `None` if it would be larger than [`MOST_BYTES`].
pub(super) fn write(failing: &Failing) -> Option<Vec<u8>> {
    if failing.operation.bytes() > MOST_BYTES {
        return None;
    }
    let input = Input {
        stage: failing.stage.into(),
        expected: failing.expected.to_hex().to_string(),
        found: failing.found.to_hex().to_string(),
        operation: Text::of(&failing.operation),
    };
    let file = File { format: FORMAT.into(), version: VERSION, blake3: digest(&input), input };
    let mut text = serde_json::to_vec_pretty(&file).expect("plain fields");
    text.push(b'\n');
    (text.len() as u64 <= MOST_BYTES).then_some(text)
}

/// The failing input of a file.
pub(super) fn read(text: &[u8]) -> Result<Failing> {
    if text.len() as u64 > MOST_BYTES {
        let found = format!("{} bytes", text.len());
        return Err(Error::invalid("the file", found, format!("at most {MOST_BYTES}")));
    }
    let file: File = serde_json::from_slice(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Error::invalid(place, error, "a failing input as `forebay compare` writes it")
    })?;
    if (file.format.as_str(), file.version) != (FORMAT, VERSION) {
        let expected = format!("\"{FORMAT}\", version {VERSION}");
        return Err(Error::invalid("format and version", "others", expected));
    }
    if file.blake3 != digest(&file.input) {
        let expected = "the digest of the input: the file was altered";
        return Err(Error::invalid("blake3", "another digest", expected));
    }
    let Input { stage, expected, found, operation } = file.input;
    let known = super::STAGES.iter().find(|known| **known == stage);
    let stage = known.ok_or_else(|| Error::invalid("stage", "no stage", "the name of one"))?;
    let hash = |place: &str, text: &str| {
        blake3::Hash::from_hex(text)
            .map_err(|_| Error::invalid(place, "no digest", "64 hexadecimal digits"))
    };
    Ok(Failing {
        stage,
        operation: operation.operation()?,
        expected: hash("expected", &expected)?,
        found: hash("found", &found)?,
    })
}

fn digest(input: &Input) -> String {
    let plain = serde_json::to_vec(input).expect("plain fields");
    blake3::hash(&plain).to_hex().to_string()
}

impl Text {
    fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Expand { values, onto } => Self::Expand {
                values: texts(&Zeroizing::new(values.unpack())),
                onto: OntoText::of(onto),
            },
            Operation::Matvec { matrix, x, onto } => {
                let Matrix { row_start, column, coefficient, table } = matrix;
                let entry = |entry: u32| {
                    let entry = entry as usize;
                    (column[entry], Hex(table[coefficient[entry] as usize]))
                };
                let row = |ends: &[u32]| (ends[0]..ends[1]).map(entry).collect();
                let rows = row_start.windows(2).map(row).collect();
                Self::Matvec { rows, x: texts(x), onto: OntoText::of(onto) }
            }
            Operation::Transform { transform, data } => {
                Self::Transform { transform: *transform, data: texts(data) }
            }
            Operation::Quotient { step, accumulator, operand } => Self::Quotient {
                step: *step,
                accumulator: texts(accumulator),
                operand: texts(operand),
            },
            Operation::SumG1(terms) => Self::SumInG1(TermsText::of(terms)),
            Operation::SumG2(terms) => Self::SumInG2(TermsText::of(terms)),
        }
    }

    /// Checks what the operations below the seam rely on.
    fn operation(self) -> Result<Operation> {
        Ok(match self {
            Self::Expand { values, onto } => {
                let onto = onto.onto()?;
                expect_at_most("expand, number of values", values.len(), onto.len())?;
                let values = Arc::new(Compact::pack(&vector(values)));
                Operation::Expand { values, onto }
            }
            Self::Matvec { rows, x, onto } => {
                let onto = onto.onto()?;
                expect_at_most("matvec, number of rows", rows.len(), onto.len())?;
                let matrix = matrix(rows, x.len())?;
                Operation::Matvec { matrix, x: vector(x), onto }
            }
            Self::Transform { transform, data } => {
                log_domain("transform, number of elements", data.len() as u64)?;
                Operation::Transform { transform, data: vector(data) }
            }
            Self::Quotient { step, accumulator, operand } => {
                let (accumulator, operand) = (vector(accumulator), vector(operand));
                if accumulator.is_empty() || accumulator.len() != operand.len() {
                    let found = format!("{} and {}", accumulator.len(), operand.len());
                    let expected = "the same, at least 1";
                    return Err(Error::invalid("quotient, number of elements", found, expected));
                }
                Operation::Quotient { step, accumulator, operand }
            }
            Self::SumInG1(terms) => Operation::SumG1(terms.terms()?),
            Self::SumInG2(terms) => Operation::SumG2(terms.terms()?),
        })
    }
}

impl OntoText {
    fn of(onto: &Onto) -> Self {
        match onto {
            Onto::Zeros(len) => Self::Zeros(*len),
            Onto::Values(values) => Self::Values(texts(values)),
        }
    }

    fn onto(self) -> Result<Onto> {
        let onto = match self {
            Self::Zeros(len) => {
                expect_at_most("onto, number of zeros", len, MOST_ZEROS)?;
                Onto::Zeros(len)
            }
            Self::Values(values) => Onto::Values(vector(values)),
        };
        match onto.len() {
            0 => Err(Error::invalid("onto, number of elements", 0, "at least 1")),
            _ => Ok(onto),
        }
    }
}

impl TermsText {
    fn of<F: Coordinate>(terms: &Terms<F>) -> Self {
        let base = |base: &Affine<F>| F::coordinates(base).map(Hex).collect();
        Self {
            bases: terms.bases.iter().map(base).collect(),
            scalars: texts(&terms.scalars),
            first: terms.first,
            has_base: terms.density.as_ref().map(|density| density.bits().collect()),
        }
    }

    fn terms<F: Coordinate>(self) -> Result<Terms<F>> {
        let point = |(i, coordinates): (usize, Vec<Hex<Fp>>)| {
            let coordinates: Vec<Fp> = coordinates.into_iter().map(|hex| hex.0).collect();
            let is_whole = coordinates.len() == 2 * F::DEGREE;
            let point = is_whole.then(|| {
                let (x, y) = coordinates.split_at(F::DEGREE);
                Affine([F::from_coefficients(x), F::from_coefficients(y)])
            });
            point.filter(F::on_curve).ok_or_else(|| {
                let expected = format!("the coordinates of a point of {}'s curve", F::GROUP);
                Error::invalid(format!("base {i}"), "others", expected)
            })
        };
        let bases: Vec<Affine<F>> =
            self.bases.into_iter().enumerate().map(point).collect::<Result<_>>()?;
        let density = self.has_base.map(Density::from_bits);
        let len = match &density {
            Some(density) if density.len == 0 || density.ones() != bases.len() => {
                let found = format!("{} of {}", density.ones(), density.len);
                let expected = format!("{} of 1 or more", bases.len());
                return Err(Error::invalid("has_base, number of bases", found, expected));
            }
            Some(density) => density.len,
            None => bases.len(),
        };
        let end = self.first.saturating_add(len);
        expect_at_most("first, end of the terms", end, self.scalars.len())?;
        let scalars = vector(self.scalars);
        Ok(Terms { bases: bases.into(), scalars, first: self.first, density })
    }
}

fn texts(values: &[Fr]) -> Vec<Hex<Fr>> {
    values.iter().copied().map(Hex).collect()
}

fn vector(texts: Vec<Hex<Fr>>) -> Vector {
    Arc::new(Zeroizing::new(texts.into_iter().map(|hex| hex.0).collect()))
}

fn matrix(rows: Vec<Vec<(u32, Hex<Fr>)>>, columns: usize) -> Result<Matrix> {
    let mut table = vec![Fr::ONE, -Fr::ONE];
    let mut places: HashMap<Fr, u32> = table.iter().copied().zip(0..).collect();
    let (mut row_start, mut column, mut coefficient) = (vec![0], Vec::new(), Vec::new());
    for (i, row) in rows.into_iter().enumerate() {
        for (of, Hex(value)) in row {
            if of as usize >= columns {
                let place = format!("matvec, row {i}, column");
                return Err(Error::invalid(place, of, format!("below {columns}")));
            }
            let place = *places.entry(value).or_insert_with(|| {
                table.push(value);
                table.len() as u32 - 1
            });
            column.push(of);
            coefficient.push(place);
        }
        row_start.push(column.len() as u32);
    }
    let [row_start, column, coefficient] = [row_start, column, coefficient].map(Array::from);
    Ok(Matrix { row_start, column, coefficient, table: table.into() })
}

fn expect_at_most(place: &str, found: usize, most: usize) -> Result<()> {
    if found <= most {
        return Ok(());
    }
    Err(Error::invalid(place, found, format!("at most {most}")))
}
