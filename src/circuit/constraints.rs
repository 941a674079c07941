//! The coefficients of a circuit's rows.

use std::collections::HashMap;

use crate::backend::Matrix;
use crate::field::{Field, Fr};
use crate::key::{Basis, Density, ProvingKey, log_domain};
use crate::{Error, Result};

use super::Variable;

/// Marks the column of a private variable until the number of inputs is known.
const AUX: u32 = 1 << 31;

/// The matrices A, B and C of a circuit, with a row in A for each input behind the circuit's own.
///
/// Columns are the inputs, then the private variables. Of each row only coefficients that are not zero are kept.
#[derive(Clone, Debug)]
pub struct Constraints {
    /// The constant 1 and the public inputs.
    pub inputs: usize,
    /// Private variables.
    pub aux: usize,
    /// A, B and C, with equally many rows.
    pub matrices: [Matrix; 3],
}

impl Constraints {
    /// Rows, those of the inputs among them.
    pub fn rows(&self) -> usize {
        self.matrices[0].rows()
    }

    /// Inputs and private variables.
    pub fn variables(&self) -> usize {
        self.inputs + self.aux
    }

    /// The variables that stand in A (side 0), B (1) or C (2).
    pub fn density(&self, side: usize) -> Density {
        let mut words = vec![0u64; self.variables().div_ceil(64)];
        for &column in self.matrices[side].column.iter() {
            words[column as usize / 64] |= 1 << (column % 64);
        }
        Density { words: words.into(), len: self.variables() }
    }

    /// The log2 of the domain of these rows.
    pub fn log_n(&self) -> Result<u32> {
        log_domain("the circuit, domain", (self.rows() as u64).next_power_of_two().max(2))
    }

    /// Gives a bellman key this circuit's matrices: then it proves from values alone
    /// ([`Recording::into_values`](super::Recording::into_values)), and rows are computed where the proof is.
    ///
    /// # Errors
    /// If the key is of another form, or was made from a circuit with other counts.
    pub fn attach(&self, key: &mut ProvingKey) -> Result<()> {
        if key.basis != Basis::Coefficients {
            return Err(Error::invalid("the key", "one of snarkjs", "one of bellman's form"));
        }
        let [a, b] = [0, 1].map(|side| self.density(side));
        let counts = |what: &str, of_key: usize, of_circuit: usize| match of_key == of_circuit {
            true => Ok(()),
            false => Err(Error::invalid(
                format!("the key, {what}"),
                of_key,
                format!("{of_circuit} as in the circuit"),
            )),
        };
        counts("log2 of the domain", key.log_n as usize, self.log_n()? as usize)?;
        counts("inputs", key.inputs, self.inputs)?;
        counts("variables", key.variables, self.variables())?;
        counts("points of A", key.a.points.len(), a.ones())?;
        counts("points of B in G1", key.b_g1.points.len(), b.ones())?;
        counts("points of B in G2", key.b_g2.points.len(), b.ones())?;
        counts("points of L", key.l.points.len(), self.aux)?;
        key.a.density = Some(a);
        key.b_g1.density = Some(b.clone());
        key.b_g2.density = Some(b);
        key.l.density = Some(Density::full(self.aux));
        let [a, b, _] = &self.matrices;
        key.matrices = Some([a.clone(), b.clone()]);
        Ok(())
    }
}

/// Records rows without values: the coefficients of each side, equal ones once.
#[derive(Default)]
pub struct Structure {
    inputs: usize,
    aux: usize,
    sides: [Side; 3],
}

impl Structure {
    /// Nothing, not even the constant 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next input.
    pub fn input(&mut self) -> usize {
        self.inputs += 1;
        self.inputs - 1
    }

    /// The next private variable.
    pub fn aux(&mut self) -> usize {
        self.aux += 1;
        self.aux - 1
    }

    /// The next row: the terms of A, B and C, each variable at most once a side.
    pub fn row(
        &mut self,
        a: impl Iterator<Item = (Variable, Fr)>,
        b: impl Iterator<Item = (Variable, Fr)>,
        c: impl Iterator<Item = (Variable, Fr)>,
    ) {
        let [in_a, in_b, in_c] = &mut self.sides;
        in_a.row(a);
        in_b.row(b);
        in_c.row(c);
    }

    /// Adds the rows of the inputs, and numbers the private variables behind the inputs.
    ///
    /// # Errors
    /// At 2^31 variables, or 2^32 coefficients of a matrix.
    pub fn finish(mut self) -> Result<Constraints> {
        let (inputs, aux) = (self.inputs, self.aux);
        if inputs + aux >= AUX as usize {
            return Err(Error::invalid("the circuit, variables", inputs + aux, "below 2^31"));
        }
        for input in 0..inputs {
            let of_input = std::iter::once((Variable::Input(input), Fr::ONE));
            self.row(of_input, std::iter::empty(), std::iter::empty());
        }
        let mut matrices = Vec::with_capacity(3);
        for (side, name) in self.sides.into_iter().zip(["A", "B", "C"]) {
            if side.column.len() > u32::MAX as usize {
                let place = format!("the circuit, coefficients of {name}");
                return Err(Error::invalid(place, side.column.len(), "below 2^32"));
            }
            matrices.push(side.finish(inputs as u32));
        }
        let matrices = matrices.try_into().expect("three sides");
        Ok(Constraints { inputs, aux, matrices })
    }
}

struct Side {
    row_start: Vec<u32>,
    column: Vec<u32>,
    coefficient: Vec<u32>,
    table: Vec<Fr>,
    /// The table's indices.
    index: HashMap<[u64; 4], u32>,
}

impl Default for Side {
    fn default() -> Self {
        let table = vec![Fr::ONE, -Fr::ONE];
        let index = table.iter().zip(0..).map(|(value, i)| (value.0, i)).collect();
        Self { row_start: vec![0], column: Vec::new(), coefficient: Vec::new(), table, index }
    }
}

impl Side {
    fn row(&mut self, terms: impl Iterator<Item = (Variable, Fr)>) {
        for (variable, coefficient) in terms.filter(|(_, coefficient)| !coefficient.is_zero()) {
            // Numbers that are too large are refused at the end.
            self.column.push(match variable {
                Variable::Input(i) => i as u32,
                Variable::Aux(i) => AUX | i as u32,
            });
            let next = self.table.len() as u32;
            let index = *self.index.entry(coefficient.0).or_insert(next);
            if index == next {
                self.table.push(coefficient);
            }
            self.coefficient.push(index);
        }
        self.row_start.push(self.column.len() as u32);
    }

    fn finish(mut self, inputs: u32) -> Matrix {
        for column in &mut self.column {
            if *column & AUX != 0 {
                *column = (*column & !AUX) + inputs;
            }
        }
        Matrix {
            row_start: self.row_start.into(),
            column: self.column.into(),
            coefficient: self.coefficient.into(),
            table: self.table.into(),
        }
    }
}
