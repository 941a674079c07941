//! A system as a circuit, as bellperson takes it.

use std::sync::Arc;

use anyhow::{Context, Result};
use bellpepper_core::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar as Fr;
use ff::PrimeField;

use crate::system::{Scalar, System, Term};

/// One side of a row: coefficients at columns.
type Side = Vec<(Fr, usize)>;

/// A system in bellperson's field elements.
pub struct Converted {
    inputs: usize,
    rows: Vec<[Side; 3]>,
    assignment: Vec<Fr>,
}

impl Converted {
    pub fn new(system: &System) -> Result<Self> {
        let side = |terms: &[Term]| -> Result<Side> {
            let terms = terms.iter();
            terms.map(|t| Ok((to_fr(&t.coeff)?, t.column as usize))).collect()
        };
        Ok(Converted {
            inputs: system.inputs(),
            rows: (system.rows.iter())
                .map(|row| Ok([side(&row.a)?, side(&row.b)?, side(&row.c)?]))
                .collect::<Result<_>>()?,
            assignment: system.assignment.iter().map(to_fr).collect::<Result<_>>()?,
        })
    }

    /// The values of the public inputs, ONE left out.
    pub fn publics(&self) -> &[Fr] {
        &self.assignment[1..self.inputs]
    }
}

/// A scalar as blstrs' field element.
pub fn to_fr(scalar: &Scalar) -> Result<Fr> {
    Option::from(Fr::from_repr(*scalar)).context("a scalar is not canonical")
}

/// A system as a circuit for bellperson.
pub struct SystemCircuit(pub Arc<Converted>);

impl Circuit<Fr> for SystemCircuit {
    fn synthesize<CS: ConstraintSystem<Fr>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let system = &*self.0;
        let mut columns = vec![CS::one()];
        for (column, value) in system.assignment.iter().enumerate().skip(1) {
            columns.push(if column < system.inputs {
                cs.alloc_input(|| "input", || Ok(*value))?
            } else {
                cs.alloc(|| "aux", || Ok(*value))?
            });
        }
        for [a, b, c] in &system.rows {
            cs.enforce(
                || "row",
                |zero| combination(zero, a, &columns),
                |zero| combination(zero, b, &columns),
                |zero| combination(zero, c, &columns),
            );
        }
        Ok(())
    }
}

fn combination(
    zero: LinearCombination<Fr>,
    side: &Side,
    columns: &[Variable],
) -> LinearCombination<Fr> {
    side.iter().fold(zero, |sum, &(coeff, column)| sum + (coeff, columns[column]))
}
