//! What is proven: the values of all variables and, where the key has no matrices, the rows' values.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::field::Fr;
use crate::key::Density;

/// Field elements that are wiped when the last handle is dropped.
pub type Secret = Arc<Zeroizing<Vec<Fr>>>;

/// An assignment to a circuit's variables.
pub struct Assignment {
    /// The constant 1, the public inputs, the private variables.
    pub values: Secret,
    /// The rows, for keys without matrices.
    pub rows: Option<Rows>,
}

/// The rows of a synthesised circuit, as bellman's prover records them: the circuit's constraints in
/// order, then one row `x_i * 0 = 0` for each input.
pub struct Rows {
    /// A w, row by row.
    pub a: Secret,
    /// B w, row by row.
    pub b: Secret,
    /// C w, row by row.
    pub c: Secret,
    /// The private variables that stand in A with a coefficient that is not zero.
    pub a_aux: Density,
    /// The inputs that stand in B.
    pub b_inputs: Density,
    /// The private variables that stand in B.
    pub b_aux: Density,
}

impl Assignment {
    /// The assignment of a witness file.
    pub fn from_witness(values: Zeroizing<Vec<Fr>>) -> Self {
        Self { values: Arc::new(values), rows: None }
    }
}

impl Rows {
    /// A's variables: all `inputs`, and the private ones that stand in A.
    pub(crate) fn a_density(&self, inputs: usize) -> Density {
        Density::from_bits(std::iter::repeat_n(true, inputs).chain(self.a_aux.bits()))
    }

    /// B's variables.
    pub(crate) fn b_density(&self) -> Density {
        Density::from_bits(self.b_inputs.bits().chain(self.b_aux.bits()))
    }
}
