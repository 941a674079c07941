//! The constraint systems that every prover proves, in a form that belongs to
//! none of them.
//!
//! Columns are numbered ONE first, then the public inputs, then the witness
//! (`aux`). All field elements are canonical, 32 bytes, little-endian.

use std::fmt;

use anyhow::{Result, ensure};
use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A scalar: canonical, little-endian.
pub type Scalar = [u8; 32];

/// The seed of the witness.
const SEED: u64 = 0x7065_6572_7301;

/// In [`Kind::Bits`], one row of so many is a dense step.
const BITS_PERIOD: usize = 10;

/// Which system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Every row is a step `(x + 3) * x = x'` of a chain: full-size values only.
    Dense,
    /// Of every ten rows nine are `b * (b - 1) = 0` and one is a dense step.
    Bits,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Dense => "dense",
            Kind::Bits => "bits",
        })
    }
}

/// One term of a row: a coefficient at a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub column: u32,
    pub coeff: Scalar,
}

/// One constraint, `<a, z> * <b, z> = <c, z>`. No column comes twice in a
/// side, and no coefficient is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub a: Vec<Term>,
    pub b: Vec<Term>,
    pub c: Vec<Term>,
}

/// A constraint system with a satisfying assignment.
#[derive(Clone, Debug)]
pub struct System {
    pub kind: Kind,
    pub log_n: u32,
    /// The number of public inputs, ONE not counted.
    pub publics: usize,
    pub rows: Vec<Row>,
    /// The value of every column: ONE, the public inputs, the witness.
    pub assignment: Vec<Scalar>,
}

/// `a`, `b` and `c` of every row of the domain: the rows of the system, and
/// then, for each input (ONE and the publics), the row `input * 0 = 0` that
/// both peers add.
#[derive(Clone, Debug)]
pub struct Evaluations {
    pub a: Vec<Scalar>,
    pub b: Vec<Scalar>,
    pub c: Vec<Scalar>,
}

/// Which columns occur in `a` and in `b`. The inputs always occur in `a`, by
/// the rows that [`Evaluations`] describes. The points of all other columns
/// are at infinity in the key's queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Densities {
    pub a_aux: Vec<bool>,
    pub b_input: Vec<bool>,
    pub b_aux: Vec<bool>,
}

impl System {
    /// The smallest and the largest size that [`System::new`] makes.
    pub const LOG_N: std::ops::RangeInclusive<u32> = 4..=26;

    /// Makes the system whose rows and inputs fill a domain of exactly
    /// `2^log_n`. The same arguments always make the same system.
    pub fn new(kind: Kind, log_n: u32) -> Result<Self> {
        ensure!(Self::LOG_N.contains(&log_n), "2^{log_n} is not a size that this benchmark makes");
        let publics = 1;
        let num_rows = (1usize << log_n) - (publics + 1);
        let is_step = |row: usize| match kind {
            Kind::Dense => true,
            Kind::Bits => row % BITS_PERIOD == BITS_PERIOD - 1,
        };
        let steps = (0..num_rows).filter(|&row| is_step(row)).count();

        let mut rng = ChaCha20Rng::seed_from_u64(SEED);
        let one = to_bytes(Fr::ONE);
        let three = to_bytes(Fr::from(3u64));
        let minus_one = to_bytes(-Fr::ONE);
        let term = |column: usize, coeff: Scalar| Term { column: column as u32, coeff };

        let mut x = Fr::rand(&mut rng);
        // ONE, the public input (set by the last step), the first x.
        let mut assignment = vec![one, [0; 32], to_bytes(x)];
        let mut x_column = 2;
        let mut steps_left = steps;
        let mut rows = Vec::with_capacity(num_rows);
        for row in 0..num_rows {
            if is_step(row) {
                let next = (x + Fr::from(3u64)) * x;
                steps_left -= 1;
                let next_column = if steps_left == 0 {
                    assignment[1] = to_bytes(next);
                    1
                } else {
                    assignment.push(to_bytes(next));
                    assignment.len() - 1
                };
                rows.push(Row {
                    a: vec![term(0, three), term(x_column, one)],
                    b: vec![term(x_column, one)],
                    c: vec![term(next_column, one)],
                });
                (x, x_column) = (next, next_column);
            } else {
                let bit = rng.next_u32() & 1 == 1;
                assignment.push(if bit { one } else { [0; 32] });
                let column = assignment.len() - 1;
                rows.push(Row {
                    a: vec![term(column, one)],
                    b: vec![term(0, minus_one), term(column, one)],
                    c: vec![],
                });
            }
        }
        Ok(System { kind, log_n, publics, rows, assignment })
    }

    /// The number of inputs: ONE and the publics.
    pub fn inputs(&self) -> usize {
        self.publics + 1
    }

    /// The values of the public inputs, ONE left out.
    pub fn public_values(&self) -> &[Scalar] {
        &self.assignment[1..self.inputs()]
    }

    /// `a`, `b` and `c` of every row of the domain.
    pub fn evaluate(&self) -> Evaluations {
        let z: Vec<Fr> = self.assignment.iter().map(to_fr).collect();
        let dot = |terms: &[Term]| {
            let sum: Fr = terms.iter().map(|t| to_fr(&t.coeff) * z[t.column as usize]).sum();
            to_bytes(sum)
        };
        let zeros = vec![to_bytes(Fr::ZERO); self.inputs()];
        let mut a: Vec<_> = self.rows.iter().map(|row| dot(&row.a)).collect();
        let mut b: Vec<_> = self.rows.iter().map(|row| dot(&row.b)).collect();
        let mut c: Vec<_> = self.rows.iter().map(|row| dot(&row.c)).collect();
        a.extend_from_slice(&self.assignment[..self.inputs()]);
        b.extend_from_slice(&zeros);
        c.extend_from_slice(&zeros);
        Evaluations { a, b, c }
    }

    /// Which columns occur in `a` and in `b`.
    pub fn densities(&self) -> Densities {
        let mut in_a = vec![false; self.assignment.len()];
        let mut in_b = vec![false; self.assignment.len()];
        for row in &self.rows {
            row.a.iter().for_each(|t| in_a[t.column as usize] = true);
            row.b.iter().for_each(|t| in_b[t.column as usize] = true);
        }
        let inputs = self.inputs();
        Densities { a_aux: in_a.split_off(inputs), b_aux: in_b.split_off(inputs), b_input: in_b }
    }
}

/// A scalar as ark's field element.
pub fn to_fr(scalar: &Scalar) -> Fr {
    Fr::from_le_bytes_mod_order(scalar)
}

/// ark's field element as a scalar.
pub fn to_bytes(value: Fr) -> Scalar {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&value.into_bigint().to_bytes_le());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_the_domain_and_is_satisfied() {
        for kind in [Kind::Dense, Kind::Bits] {
            for log_n in [4, 5, 8] {
                let system = System::new(kind, log_n).unwrap();
                assert_eq!(system.rows.len() + system.inputs(), 1 << log_n);
                let Evaluations { a, b, c } = system.evaluate();
                assert_eq!(a.len(), 1 << log_n);
                for ((a, b), c) in a.iter().zip(&b).zip(&c) {
                    assert_eq!(to_fr(a) * to_fr(b), to_fr(c));
                }
            }
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(System::new(Kind::Dense, 3).is_err());
        assert!(System::new(Kind::Dense, 27).is_err());
    }
}
