//! The pointwise steps of the quotient.

use rayon::prelude::*;

use crate::backend::Quotient;
use crate::field::{Field, Fr};

pub(in crate::backend) fn quotient(step: Quotient, accumulator: &mut [Fr], operand: &[Fr]) {
    let half = Fr::from(2).inverse();
    accumulator.par_iter_mut().with_min_len(1 << 10).zip(operand).for_each(|(a, &x)| {
        *a = match step {
            Quotient::Product => *a * x,
            Quotient::Difference => *a - x,
            Quotient::HalfDifference => (x - *a) * half,
        }
    });
}
