//! Development keys in bellman's form: a `.params` from a circuit's constraints and the secrets.

use std::io::Write;

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::points;
use super::{CHUNK, Derived, Secrets, Writer, combine, lagrange};
use crate::backend::{Backend, Matrix};
use crate::circuit::Constraints;
use crate::curve::{Affine, Coordinate};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::format::Progress;
use crate::format::points::{Encoding, encode};
use crate::{Error, Result};

/// Points that one thread encodes at a time.
const ENCODED: usize = 1 << 10;

/// Writes the `.params` of `constraints` for `secrets` (gamma is 1) to `out`, byte for byte what bellperson's generator makes of them;
/// `backend` makes the points, while others are written.
///
/// # Errors
/// If a private variable stands in no row, tau hits the domain, `out` or the device fails, or the device has no memory for a few points.
pub fn write_params<B: Backend>(
    backend: &B,
    constraints: &Constraints,
    secrets: &Secrets,
    progress: &dyn Progress,
    out: &mut impl Write,
) -> Result<()> {
    let (inputs, log_n) = (constraints.inputs, constraints.log_n()?);
    let n = 1usize << log_n;
    let lagrange = lagrange(secrets.tau, log_n, Fr::ONE, Fr::root_of_unity(log_n), n)?;
    let columns: Vec<Derived> = constraints
        .matrices
        .par_iter()
        .map(|matrix| column_sums(matrix, &lagrange, constraints.variables()))
        .collect();
    drop(lagrange);
    let [a, b, mut c] = columns.try_into().expect("three matrices");
    combine(&mut c, &a, &b, inputs, secrets);
    if let Some(aux) = c[inputs..].iter().position(Field::is_zero) {
        let place = format!("the circuit, private variable {aux}");
        return Err(Error::invalid(place, "no row that it stands in", "one or more"));
    }
    let present = |column: &Derived| -> Derived {
        Zeroizing::new(column.iter().copied().filter(|x| !x.is_zero()).collect())
    };
    let (a, b) = (present(&a), present(&b));
    let h = powers(secrets, log_n);
    let in_g1 = h.len() + c.len() + a.len() + b.len();
    progress.begin("computing the key", (in_g1 + b.len()) as u64);

    std::thread::scope(|scope| {
        let (sender, made) = points::queue();
        scope.spawn(|| {
            // In the order of the file.
            points::make(backend, [in_g1, b.len()], sender, |maker| {
                maker.g1(&[secrets.alpha, secrets.beta])?;
                maker.g2(&[secrets.beta, Fr::ONE])?;
                maker.g1(&[secrets.delta])?;
                maker.g2(&[secrets.delta])?;
                maker.g1(&c[..inputs])?;
                maker.g1(&h)?;
                maker.g1(&c[inputs..])?;
                maker.g1(&a)?;
                maker.g1(&b)?;
                maker.g2(&b)
            });
        });
        let mut out = Writer { out, made, progress };
        out.encoded::<Fp>(2)?;
        out.encoded::<Fp2>(2)?;
        out.encoded::<Fp>(1)?;
        out.encoded::<Fp2>(1)?;
        out.counted::<Fp>(inputs)?;
        out.counted::<Fp>(h.len())?;
        out.counted::<Fp>(c.len() - inputs)?;
        out.counted::<Fp>(a.len())?;
        out.counted::<Fp>(b.len())?;
        out.counted::<Fp2>(b.len())
    })
}

/// The columns of `matrix`, each the sum of its coefficients times their rows' Lagrange polynomials at tau.
fn column_sums(matrix: &Matrix, lagrange: &[Fr], variables: usize) -> Derived {
    let mut sums = Zeroizing::new(vec![Fr::ZERO; variables]);
    for (row, bounds) in matrix.row_start.windows(2).enumerate() {
        for entry in bounds[0] as usize..bounds[1] as usize {
            let sum = &mut sums[matrix.column[entry] as usize];
            match matrix.coefficient[entry] {
                0 => *sum += lagrange[row],
                1 => *sum -= lagrange[row],
                index => *sum += matrix.table[index as usize] * lagrange[row],
            }
        }
    }
    sums
}

/// The scalars of H: tau^i (tau^n - 1) / delta for i below n - 1.
fn powers(secrets: &Secrets, log_n: u32) -> Derived {
    let scale = (secrets.tau.pow(1 << log_n) - Fr::ONE) * secrets.delta.inverse();
    let mut h = Zeroizing::new(vec![Fr::ZERO; (1 << log_n) - 1]);
    h.par_chunks_mut(CHUNK).enumerate().for_each(|(block, h)| {
        let mut power = scale * secrets.tau.pow((block * CHUNK) as u64);
        for h in h {
            *h = power;
            power *= secrets.tau;
        }
    });
    h
}

impl<W: Write> Writer<'_, W> {
    /// The next `count` points behind their number.
    fn counted<F: Coordinate>(&mut self, count: usize) -> Result<()> {
        let number = u32::try_from(count)
            .map_err(|_| Error::invalid("a section of the new key, points", count, "below 2^32"))?;
        self.bytes(&number.to_be_bytes())?;
        self.encoded::<F>(count)
    }

    /// The next `count` points.
    fn encoded<F: Coordinate>(&mut self, count: usize) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let made = self.made.next()?;
            let points: &[Affine<F>] = bytemuck::cast_slice(made.bytes());
            let encoded: Vec<Vec<u8>> = points
                .par_chunks(ENCODED)
                .map(|points| {
                    let mut bytes = Vec::with_capacity(size_of_val(points));
                    points.iter().for_each(|point| encode(point, Encoding::Zcash, &mut bytes));
                    bytes
                })
                .collect();
            encoded.iter().try_for_each(|bytes| self.bytes(bytes))?;
            self.progress.advance(points.len() as u64);
            left -= points.len();
        }
        Ok(())
    }
}
