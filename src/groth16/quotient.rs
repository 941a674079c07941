//! The quotient: six transforms in two vectors of n elements, in either basis of H. a and b to the odd coset, their
//! product; then c, in b's place.
//!
//! The algorithm is written once, over two homes of the vectors: the device, or the host, for which the device
//! transforms blocks ([`super::out_of_core`]).

use zeroize::Zeroizing;

use crate::Result;
use crate::backend::cpu;
use crate::backend::{Backend, DeviceCompact, DeviceMatrix, Output, Quotient, Transform};
use crate::field::Fr;
use crate::key::Basis;
use crate::plan;

use super::Task;
use super::out_of_core::Blocks;
use super::sums::{Scalars, Work};

/// One side of the rows.
#[derive(Clone, Copy)]
enum Side {
    A = 0,
    B = 1,
}

/// A home of the quotient's vectors.
trait Vectors {
    type Vector;
    /// The rows of one side, in a new vector.
    fn rows(&mut self, side: Side) -> Result<Self::Vector>;
    /// The rows of C, which are those of A times those of B, in `vector`.
    fn product_rows(&mut self, vector: &mut Self::Vector) -> Result<()>;
    fn ntt(&mut self, transform: Transform, vector: &mut Self::Vector) -> Result<()>;
    fn quotient(
        &mut self,
        step: Quotient,
        accumulator: &mut Self::Vector,
        operand: &Self::Vector,
    ) -> Result<()>;
}

/// The scalars of the H sum: h's coefficients, or A B - C on the odd coset.
fn quotient<V: Vectors>(vectors: &mut V, basis: Basis) -> Result<V::Vector> {
    let (mut a, mut b) = (vectors.rows(Side::A)?, vectors.rows(Side::B)?);
    for vector in [&mut a, &mut b] {
        vectors.ntt(Transform::Interpolate, vector)?;
        vectors.ntt(Transform::EvaluateOdd, vector)?;
    }
    vectors.quotient(Quotient::Product, &mut a, &b)?;

    let mut c = b;
    vectors.product_rows(&mut c)?;
    vectors.ntt(Transform::Interpolate, &mut c)?;
    let last = match basis {
        Basis::OddCoset => {
            vectors.ntt(Transform::EvaluateOdd, &mut c)?;
            Quotient::Difference
        }
        Basis::Coefficients => {
            vectors.ntt(Transform::InterpolateOdd, &mut a)?;
            Quotient::HalfDifference
        }
    };
    vectors.quotient(last, &mut a, &c)?;
    Ok(a)
}

/// What the sums go on with.
pub(super) struct AfterQuotient<B: Backend> {
    /// The scalars of the H sum.
    pub(super) h: Scalars<B>,
    /// The witness, if it is on the device now.
    pub(super) witness: Option<B::Buffer<Fr>>,
}

impl<B: Backend> Work<'_, B> {
    pub(super) fn quotient(&self) -> Result<AfterQuotient<B>> {
        let Self { task, backend, lease, .. } = self;
        let (log_n, basis) = (task.shape.log_n, task.key.basis);
        if let plan::Quotient::OutOfCore { log_block } = self.plan.quotient {
            let blocks = Blocks::new(*backend, lease, log_block)?;
            let rows = HostRows { task };
            let mut vectors = OnHost { rows, blocks, progress: self.progress };
            let h = Scalars::Host(quotient(&mut vectors, basis)?);
            return Ok(AfterQuotient { h, witness: None });
        }
        let rows = match self.plan.quotient {
            plan::Quotient::Matrices => DeviceRows::Witness(self.witness(0..task.shape.variables)?),
            plan::Quotient::PackedRows => {
                let rows = task.assignment.rows.as_ref();
                let packed =
                    |rows| DeviceCompact::adopt(*backend, &self.copy, lease, "packed rows", rows);
                match rows {
                    Some(rows) => DeviceRows::Packed([packed(&rows.a)?, packed(&rows.b)?]),
                    None => unreachable!("the plan is of this task's shape"),
                }
            }
            _ => DeviceRows::Host(HostRows { task }),
        };
        let matrices = match (&rows, self.resident, &task.key.matrices) {
            (
                DeviceRows::Witness(_),
                None | Some(super::DeviceKey { matrices: None, .. }),
                Some([a, b]),
            ) => {
                let bring = |matrix| DeviceMatrix::adopt(*backend, &self.copy, lease, matrix);
                Some([bring(a)?, bring(b)?])
            }
            _ => None,
        };
        backend.join(&self.compute, &self.copy)?;
        let table = backend.ntt_table(&self.compute, lease, log_n)?;
        let mut vectors = OnDevice { work: self, rows, matrices, table, log_n };
        let h = Scalars::Device(quotient(&mut vectors, basis)?);
        let witness = match vectors.rows {
            DeviceRows::Witness(witness) => Some(witness),
            _ => None,
        };
        Ok(AfterQuotient { h, witness })
    }
}

/// Where the rows' values come from, for vectors on the device.
enum DeviceRows<'a, B: Backend> {
    /// The matrices and this witness.
    Witness(B::Buffer<Fr>),
    /// The values of A and B, packed.
    Packed([DeviceCompact<B>; 2]),
    /// The host.
    Host(HostRows<'a>),
}

/// Vectors on the device.
struct OnDevice<'a, B: Backend> {
    work: &'a Work<'a, B>,
    rows: DeviceRows<'a, B>,
    /// The matrices, if they do not stay there anyway.
    matrices: Option<[DeviceMatrix<B>; 2]>,
    table: B::Buffer<Fr>,
    log_n: u32,
}

impl<B: Backend> OnDevice<'_, B> {
    fn write(&self, side: Side, output: Output, out: &mut B::Buffer<Fr>) -> Result<()> {
        let Work { backend, compute, copy, resident, .. } = self.work;
        let there = resident.and_then(|key| key.matrices.as_ref());
        match (&self.rows, self.matrices.as_ref().or(there)) {
            (DeviceRows::Witness(witness), Some(matrices)) => {
                backend.matvec(compute, &matrices[side as usize], witness, output, out)
            }
            (DeviceRows::Witness(_), None) => unreachable!("brought before"),
            (DeviceRows::Packed(packed), _) => {
                backend.expand(compute, packed[side as usize].packed(), output, out)
            }
            (DeviceRows::Host(rows), _) => {
                let values = match output {
                    Output::Set => rows.of(side),
                    Output::Multiply => rows.product(),
                };
                backend.join(copy, compute)?;
                backend.upload(copy, &values, out, 0)?;
                backend.join(compute, copy)
            }
        }
    }
}

impl<B: Backend> Vectors for OnDevice<'_, B> {
    type Vector = B::Buffer<Fr>;

    fn rows(&mut self, side: Side) -> Result<Self::Vector> {
        let label = ["a", "b"][side as usize];
        let mut vector = self.work.backend.alloc(self.work.lease, label, 1 << self.log_n)?;
        self.write(side, Output::Set, &mut vector)?;
        Ok(vector)
    }

    fn product_rows(&mut self, vector: &mut Self::Vector) -> Result<()> {
        // The host uploads products at once.
        if !matches!(self.rows, DeviceRows::Host(_)) {
            self.write(Side::B, Output::Set, vector)?;
        }
        self.write(Side::A, Output::Multiply, vector)
    }

    fn ntt(&mut self, transform: Transform, vector: &mut Self::Vector) -> Result<()> {
        self.work.progress.check()?;
        self.work.backend.ntt(&self.work.compute, transform, &self.table, vector)
    }

    fn quotient(
        &mut self,
        step: Quotient,
        accumulator: &mut Self::Vector,
        operand: &Self::Vector,
    ) -> Result<()> {
        self.work.backend.quotient(&self.work.compute, step, accumulator, operand)
    }
}

/// Rows evaluated by the host.
struct HostRows<'a> {
    task: &'a Task<'a>,
}

impl HostRows<'_> {
    /// The values of one side, n of them.
    fn of(&self, side: Side) -> Zeroizing<Vec<Fr>> {
        let mut values = Zeroizing::new(vec![Fr::default(); 1 << self.task.shape.log_n]);
        self.write(side, Output::Set, &mut values);
        values
    }

    /// The products of both sides' values.
    fn product(&self) -> Zeroizing<Vec<Fr>> {
        let mut values = self.of(Side::B);
        self.write(Side::A, Output::Multiply, &mut values);
        values
    }

    fn write(&self, side: Side, output: Output, out: &mut [Fr]) {
        let Task { key, assignment, .. } = self.task;
        match (&assignment.rows, &key.matrices) {
            (Some(rows), _) => {
                cpu::host_expand([&rows.a, &rows.b][side as usize], output, out);
            }
            (None, Some(matrices)) => {
                let witness = Zeroizing::new(assignment.values.unpack());
                cpu::host_matvec(&matrices[side as usize], &witness, output, out);
            }
            (None, None) => unreachable!("checked when the task was made"),
        }
    }
}

/// Vectors on the host.
struct OnHost<'a, B: Backend> {
    rows: HostRows<'a>,
    blocks: Blocks<'a, B>,
    progress: &'a dyn crate::format::Progress,
}

impl<B: Backend> Vectors for OnHost<'_, B> {
    type Vector = Zeroizing<Vec<Fr>>;

    fn rows(&mut self, side: Side) -> Result<Self::Vector> {
        Ok(self.rows.of(side))
    }

    fn product_rows(&mut self, vector: &mut Self::Vector) -> Result<()> {
        self.rows.write(Side::B, Output::Set, vector);
        self.rows.write(Side::A, Output::Multiply, vector);
        Ok(())
    }

    fn ntt(&mut self, transform: Transform, vector: &mut Self::Vector) -> Result<()> {
        self.progress.check()?;
        self.blocks.ntt(transform, vector)
    }

    fn quotient(
        &mut self,
        step: Quotient,
        accumulator: &mut Self::Vector,
        operand: &Self::Vector,
    ) -> Result<()> {
        cpu::host_quotient(step, accumulator, operand);
        Ok(())
    }
}
