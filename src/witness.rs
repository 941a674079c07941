//! What is proven: the values of all variables and, where the key has no matrices, the rows' values. All of it
//! is held compact, and wiped when dropped.

use std::sync::Arc;

use rayon::prelude::*;

use crate::compact::Compact;
use crate::field::Fr;
use crate::key::Density;
use crate::{Error, Result};

/// An assignment to a circuit's variables.
#[derive(Clone)]
pub struct Assignment {
    /// The constant 1, the public inputs, the private variables.
    pub values: Arc<Compact>,
    /// The rows, for keys without matrices.
    pub rows: Option<Rows>,
}

/// The rows of a synthesised circuit, as bellman's prover records them: the circuit's constraints in
/// order, then one row `x_i * 0 = 0` for each input. C's are not kept: they are those of A times those of B.
#[derive(Clone)]
pub struct Rows {
    /// A w, row by row.
    pub a: Arc<Compact>,
    /// B w, row by row.
    pub b: Arc<Compact>,
    /// The private variables that stand in A with a coefficient that is not zero.
    pub a_aux: Density,
    /// The inputs that stand in B.
    pub b_inputs: Density,
    /// The private variables that stand in B.
    pub b_aux: Density,
}

impl Assignment {
    /// The assignment of a witness file.
    pub fn from_witness(values: &[Fr]) -> Self {
        Self { values: Arc::new(Compact::pack(values)), rows: None }
    }

    /// Bytes of all that it holds.
    pub fn bytes(&self) -> u64 {
        let density = |density: &Density| size_of_val(&density.words[..]) as u64;
        let rows = self.rows.as_ref().map_or(0, |rows| {
            let Rows { a, b, a_aux, b_inputs, b_aux } = rows;
            a.bytes() + b.bytes() + density(a_aux) + density(b_inputs) + density(b_aux)
        });
        self.values.bytes() + rows
    }
}

impl Rows {
    /// Rows from the values of A, B and C, which are checked to hold.
    ///
    /// # Errors
    /// [`Error::Unsatisfied`] with the first row in which a b is not c, [`Error::Invalid`] if the lengths differ.
    pub fn new(
        a: &[Fr],
        b: &[Fr],
        c: &[Fr],
        a_aux: Density,
        b_inputs: Density,
        b_aux: Density,
    ) -> Result<Self> {
        let lengths = [a.len(), b.len(), c.len()];
        if lengths != [a.len(); 3] {
            return Err(Error::invalid(
                "a, b and c, number of rows",
                format!("{lengths:?}"),
                "the same",
            ));
        }
        let sides = a.par_iter().zip(b).zip(c);
        if let Some(row) = sides.position_first(|((a, b), c)| *a * *b != *c) {
            return Err(Error::Unsatisfied(format!("row {row}: a * b is not c")));
        }
        let pack = |values| Arc::new(Compact::pack(values));
        Ok(Self { a: pack(a), b: pack(b), a_aux, b_inputs, b_aux })
    }

    /// A's variables: all `inputs`, and the private ones that stand in A.
    pub(crate) fn a_density(&self, inputs: usize) -> Density {
        Density::full(inputs).followed_by(&self.a_aux)
    }

    /// B's variables.
    pub(crate) fn b_density(&self) -> Density {
        self.b_inputs.followed_by(&self.b_aux)
    }
}
