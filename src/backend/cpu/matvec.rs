//! Sparse matrix times vector, one row after another.

use rayon::prelude::*;

use crate::backend::Output;
use crate::field::{Field, Fr};

/// The arrays of a [`Matrix`](crate::backend::Matrix).
pub(in crate::backend) struct Rows<'a> {
    pub start: &'a [u32],
    pub column: &'a [u32],
    pub coefficient: &'a [u32],
    pub table: &'a [Fr],
}

impl Rows<'_> {
    fn dot(&self, row: usize, x: &[Fr]) -> Fr {
        let entries = self.start[row] as usize..self.start[row + 1] as usize;
        let terms = self.column[entries.clone()].iter().zip(&self.coefficient[entries]);
        terms.fold(Fr::ZERO, |sum, (&column, &coefficient)| {
            let x = x[column as usize];
            match coefficient {
                // table[0] = 1 and table[1] = -1: most entries of real circuits
                0 => sum + x,
                1 => sum - x,
                c => sum + self.table[c as usize] * x,
            }
        })
    }
}

pub(in crate::backend) fn matvec(rows: &Rows<'_>, x: &[Fr], output: Output, out: &mut [Fr]) {
    let count = rows.start.len().saturating_sub(1);
    out.par_iter_mut().with_min_len(1 << 10).enumerate().for_each(|(row, out)| {
        let sum = if row < count { rows.dot(row, x) } else { Fr::ZERO };
        match output {
            Output::Set => *out = sum,
            Output::Multiply => *out *= sum,
        }
    });
}
