//! One operation of the seam with all that goes into it, on the host, so that any backend can do it at any time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::array::Array;
use crate::backend::{
    Backend, Buffer, DeviceCompact, DeviceMatrix, Matrix, Msm, Output, Pending, Quotient, Transform,
};
use crate::budget::{Lease, Request};
use crate::compact::Compact;
use crate::curve::{Affine, Coordinate, G1Affine, G2Affine};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::key::Density;
use crate::proof::Proof;
use crate::{Error, Result};

/// Field elements, shared by the stages that read them; they come from a witness, and are wiped.
pub(super) type Vector = Arc<Zeroizing<Vec<Fr>>>;

/// Elements whose bytes are hashed at a time.
const TILE: usize = 1 << 16;

/// An operation and its inputs.
#[derive(Clone)]
pub(super) enum Operation {
    /// [`Backend::expand`].
    Expand { values: Arc<Compact>, onto: Onto },
    /// [`Backend::matvec`].
    Matvec { matrix: Matrix, x: Vector, onto: Onto },
    /// [`Backend::ntt`].
    Transform { transform: Transform, data: Vector },
    /// [`Backend::quotient`].
    Quotient { step: Quotient, accumulator: Vector, operand: Vector },
    /// [`Backend::msm`] in G1.
    SumG1(Terms<Fp>),
    /// [`Backend::msm`] in G2.
    SumG2(Terms<Fp2>),
}

/// What stands in the output before the operation, and with that what becomes of it.
#[derive(Clone)]
pub(super) enum Onto {
    /// So many zeros, to be set.
    Zeros(usize),
    /// These, to be multiplied.
    Values(Vector),
}

/// The terms of a sum.
#[derive(Clone)]
pub(super) struct Terms<F> {
    pub(super) bases: Array<Affine<F>>,
    /// Those before `first`, and those behind the last that may have a base, have no part in the sum.
    pub(super) scalars: Vector,
    pub(super) first: usize,
    /// Which of the scalars from `first` on have a base; `None` if as many as there are bases.
    pub(super) density: Option<Density>,
}

/// What an operation gives.
#[derive(Clone)]
pub(super) enum Values {
    Scalars(Vector),
    G1(G1Affine),
    G2(G2Affine),
    /// The proof, if it verified.
    Proof(Option<Proof>),
}

/// How two results differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The first element that differs, in a vector.
    pub index: Option<usize>,
    /// How many elements differ.
    pub count: usize,
    /// What stands there on the first backend.
    pub expected: String,
    /// What stands there on the other.
    pub found: String,
}

impl Onto {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Zeros(len) => *len,
            Self::Values(values) => values.len(),
        }
    }

    fn output(&self) -> Output {
        match self {
            Self::Zeros(_) => Output::Set,
            Self::Values(_) => Output::Multiply,
        }
    }

    fn only(&self, kept: &[usize]) -> Self {
        match self {
            Self::Zeros(_) => Self::Zeros(kept.len()),
            Self::Values(values) => Self::Values(only(values, kept)),
        }
    }
}

impl<F: Coordinate> Terms<F> {
    /// Scalars that may have a base.
    fn len(&self) -> usize {
        self.density.as_ref().map_or(self.bases.len(), |density| density.len)
    }

    /// The terms of the scalars that `kept` names, counted from `first`.
    fn only(&self, kept: &[usize]) -> Self {
        let before = self.scalars[..self.first].iter().copied();
        let scalars = before.chain(kept.iter().map(|place| self.scalars[self.first + place]));
        let scalars = Arc::new(Zeroizing::new(scalars.collect()));
        // Of nothing there is no density.
        let density = self.density.as_ref().filter(|_| !kept.is_empty());
        let Some(density) = density else {
            let bases = kept.iter().map(|place| self.bases[*place]).collect();
            return Self { bases, scalars, first: self.first, density: None };
        };
        let mut rank = 0;
        let ranks: Vec<Option<usize>> = density
            .bits()
            .map(|has| {
                rank += usize::from(has);
                has.then(|| rank - 1)
            })
            .collect();
        let bases = kept.iter().filter_map(|place| Some(self.bases[ranks[*place]?])).collect();
        let density = Density::from_bits(kept.iter().map(|place| ranks[*place].is_some()));
        Self { bases, scalars, first: self.first, density: Some(density) }
    }

    /// The same sum said more plainly: without the scalars around it, without a density.
    fn simpler(&self) -> Vec<Self> {
        let end = self.first + self.len();
        let alone = Arc::new(Zeroizing::new(self.scalars[self.first..end].to_vec()));
        let alone = Self { scalars: alone, first: 0, ..self.clone() };
        let Some(density) = &alone.density else { return vec![alone] };
        let with_base = density.bits().zip(alone.scalars.iter());
        let scalars = with_base.filter_map(|(has, scalar)| has.then_some(*scalar)).collect();
        let dense =
            Self { scalars: Arc::new(Zeroizing::new(scalars)), density: None, ..alone.clone() };
        vec![dense, alone]
    }

    fn bytes(&self) -> u64 {
        let density = self.density.as_ref().map_or(0, |density| size_of_val(&density.words[..]));
        (size_of_val(&self.bases[..]) + size_of_val(&self.scalars[..]) + density) as u64
    }

    fn run<B: Backend>(&self, on: &On<'_, B>) -> Result<(Affine<F>, Duration)> {
        let On { backend, stream, lease } = on;
        let bases = backend.adopt(stream, lease, "bases", self.bases.shared())?;
        let scalars = backend.adopt::<Fr>(stream, lease, "scalars", self.scalars.clone())?;
        let density = match &self.density {
            Some(density) => {
                Some(backend.adopt::<u64>(stream, lease, "density", density.words.shared())?)
            }
            None => None,
        };
        let words = backend.msm_scratch::<F>(self.len()).div_ceil(8) as usize;
        let mut scratch = backend.alloc(lease, "MSM scratch", words)?;
        on.settle(&scratch)?;
        let started = Instant::now();
        let msm = Msm {
            bases: &bases,
            base_range: 0..self.bases.len(),
            scalars: &scalars,
            range: self.first..self.first + self.len(),
            density: density.as_ref(),
            raised: None,
        };
        let sum = backend.msm::<F>(stream, msm, &mut scratch)?.wait()?;
        Ok((sum.to_affine(), started.elapsed()))
    }
}

/// Where an operation is done.
struct On<'a, B: Backend> {
    backend: &'a B,
    stream: B::Stream,
    lease: &'a Lease,
}

impl<B: Backend> On<'_, B> {
    fn vector(&self, values: &[Fr]) -> Result<B::Buffer<Fr>> {
        let mut buffer = self.backend.alloc(self.lease, "vector", values.len())?;
        self.backend.upload(&self.stream, values, &mut buffer, 0)?;
        Ok(buffer)
    }

    fn output(&self, onto: &Onto) -> Result<B::Buffer<Fr>> {
        match onto {
            Onto::Zeros(len) => self.backend.alloc(self.lease, "vector", *len),
            Onto::Values(values) => self.vector(values),
        }
    }

    /// Waits for the stream.
    fn settle<T: Pod + Send + Sync>(&self, buffer: &B::Buffer<T>) -> Result<()> {
        let mut first = [T::zeroed()];
        let len = buffer.len().min(1);
        self.backend.download(&self.stream, buffer, 0, &mut first[..len])
    }

    /// What `launch` makes of `buffer`, and how long that takes without the copies.
    fn timed(
        &self,
        mut buffer: B::Buffer<Fr>,
        launch: impl FnOnce(&mut B::Buffer<Fr>) -> Result<()>,
    ) -> Result<(Values, Duration)> {
        self.settle(&buffer)?;
        let started = Instant::now();
        launch(&mut buffer)?;
        self.settle(&buffer)?;
        let elapsed = started.elapsed();
        let mut values = Zeroizing::new(vec![Fr::ZERO; buffer.len()]);
        self.backend.download(&self.stream, &buffer, 0, &mut values)?;
        Ok((Values::Scalars(Arc::new(values)), elapsed))
    }
}

impl Operation {
    /// Does it, in memory of just its size.
    ///
    /// # Errors
    /// [`Error::NeverFits`] if the device has no room for it at all; the backend's own.
    pub(super) fn run<B: Backend>(&self, backend: &B) -> Result<(Values, Duration)> {
        const LABEL: &str = "a stage to compare";
        let buffers = self.buffer_bytes(backend);
        let (most, capacity) =
            (buffers.iter().copied().max().unwrap_or_default(), backend.info().max_buffer_bytes);
        if most > capacity {
            let label = format!("one buffer of {LABEL}");
            return Err(Error::NeverFits { label, need: most, capacity });
        }
        let lease = backend.budget().wait(Request::new(LABEL, &[buffers.iter().sum()]))?;
        let done = self.run_in(backend, &lease);
        // The device ends what is still queued, and the lease with it.
        lease.hand_over();
        done
    }

    /// Bytes of each buffer that [`Operation::run_in`] makes.
    fn buffer_bytes<B: Backend>(&self, backend: &B) -> Vec<u64> {
        let vector = |len: usize| (len * Fr::BYTES) as u64;
        fn sum<B: Backend, F: Coordinate>(terms: &Terms<F>, backend: &B) -> Vec<u64> {
            // A density is far smaller than its scalars, so that it does not matter which buffer it counts with.
            vec![terms.bytes(), backend.msm_scratch::<F>(terms.len()).next_multiple_of(8)]
        }
        match self {
            Self::Expand { values, onto } => vec![values.bytes(), vector(onto.len())],
            Self::Matvec { matrix, x, onto } => {
                vec![matrix.bytes(), vector(x.len()), vector(onto.len())]
            }
            Self::Transform { data, .. } => {
                vec![backend.ntt_table_bytes(data.len().ilog2()), vector(data.len())]
            }
            Self::Quotient { accumulator, operand, .. } => {
                vec![vector(accumulator.len()), vector(operand.len())]
            }
            Self::SumG1(terms) => sum(terms, backend),
            Self::SumG2(terms) => sum(terms, backend),
        }
    }

    fn run_in<B: Backend>(&self, backend: &B, lease: &Lease) -> Result<(Values, Duration)> {
        let on = On { backend, stream: backend.stream()?, lease };
        let stream = &on.stream;
        match self {
            Self::Expand { values, onto } => {
                let packed = DeviceCompact::adopt(backend, stream, lease, "packed values", values)?;
                on.timed(on.output(onto)?, |out| {
                    backend.expand(stream, packed.packed(), onto.output(), out)
                })
            }
            Self::Matvec { matrix, x, onto } => {
                let matrix = DeviceMatrix::adopt(backend, stream, lease, matrix)?;
                let x = backend.adopt::<Fr>(stream, lease, "witness", x.clone())?;
                on.timed(on.output(onto)?, |out| {
                    backend.matvec(stream, &matrix, &x, onto.output(), out)
                })
            }
            Self::Transform { transform, data } => {
                let table = backend.ntt_table(stream, lease, data.len().ilog2())?;
                on.timed(on.vector(data)?, |data| backend.ntt(stream, *transform, &table, data))
            }
            Self::Quotient { step, accumulator, operand } => {
                let operand = backend.adopt::<Fr>(stream, lease, "operand", operand.clone())?;
                on.timed(on.vector(accumulator)?, |accumulator| {
                    backend.quotient(stream, *step, accumulator, &operand)
                })
            }
            Self::SumG1(terms) => terms.run(&on).map(|(sum, time)| (Values::G1(sum), time)),
            Self::SumG2(terms) => terms.run(&on).map(|(sum, time)| (Values::G2(sum), time)),
        }
    }

    /// Elements that it works on, which is what [`Operation::only`] chooses from: those of the output, or the terms of a sum.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Expand { onto, .. } | Self::Matvec { onto, .. } => onto.len(),
            Self::Transform { data, .. } => data.len(),
            Self::Quotient { accumulator, .. } => accumulator.len(),
            Self::SumG1(terms) => terms.len(),
            Self::SumG2(terms) => terms.len(),
        }
    }

    /// The same operation on nothing but the elements that `kept` names, in ascending order. Those of a transform, which are
    /// all its own, are kept in place, and the others are 0.
    pub(super) fn only(&self, kept: &[usize]) -> Self {
        match self {
            Self::Expand { values, onto } => {
                let plain = Zeroizing::new(values.unpack());
                let there = kept.iter().filter_map(|index| plain.get(*index).copied());
                let packed = Compact::pack(&Zeroizing::new(there.collect::<Vec<_>>()));
                Self::Expand { values: Arc::new(packed), onto: onto.only(kept) }
            }
            Self::Matvec { matrix, x, onto } => {
                let there = kept.iter().copied().take_while(|row| *row < matrix.rows());
                let matrix = rows_of(matrix, there);
                Self::Matvec { matrix, x: x.clone(), onto: onto.only(kept) }
            }
            Self::Transform { transform, data } => {
                let mut alone = Zeroizing::new(vec![Fr::ZERO; data.len()]);
                kept.iter().for_each(|index| alone[*index] = data[*index]);
                Self::Transform { transform: *transform, data: Arc::new(alone) }
            }
            Self::Quotient { step, accumulator, operand } => Self::Quotient {
                step: *step,
                accumulator: only(accumulator, kept),
                operand: only(operand, kept),
            },
            Self::SumG1(terms) => Self::SumG1(terms.only(kept)),
            Self::SumG2(terms) => Self::SumG2(terms.only(kept)),
        }
    }

    /// The same with less around it, the simplest first.
    pub(super) fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Matvec { matrix, x, onto } => {
                let (matrix, x) = without_unused_columns(matrix, x);
                vec![Self::Matvec { matrix, x, onto: onto.clone() }]
            }
            Self::SumG1(terms) => terms.simpler().into_iter().map(Self::SumG1).collect(),
            Self::SumG2(terms) => terms.simpler().into_iter().map(Self::SumG2).collect(),
            Self::Expand { .. } | Self::Transform { .. } | Self::Quotient { .. } => Vec::new(),
        }
    }

    /// Bytes of all inputs.
    pub(super) fn bytes(&self) -> u64 {
        let vector = |len: usize| (len * Fr::BYTES) as u64;
        let old = |onto: &Onto| match onto {
            Onto::Zeros(_) => 0,
            Onto::Values(values) => vector(values.len()),
        };
        match self {
            Self::Expand { values, onto } => vector(values.len()) + old(onto),
            Self::Matvec { matrix, x, onto } => {
                // Each entry is written with its coefficient.
                vector(matrix.column.len() + matrix.rows() + x.len()) + old(onto)
            }
            Self::Transform { data, .. } => vector(data.len()),
            Self::Quotient { accumulator, operand, .. } => {
                vector(accumulator.len() + operand.len())
            }
            Self::SumG1(terms) => terms.bytes(),
            Self::SumG2(terms) => terms.bytes(),
        }
    }
}

/// The elements that `kept` names.
fn only(values: &Vector, kept: &[usize]) -> Vector {
    Arc::new(Zeroizing::new(kept.iter().map(|index| values[*index]).collect()))
}

/// The matrix of some rows of another.
fn rows_of(matrix: &Matrix, rows: impl Iterator<Item = usize>) -> Matrix {
    let (mut row_start, mut column, mut coefficient) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let entries = matrix.row_start[row] as usize..matrix.row_start[row + 1] as usize;
        column.extend_from_slice(&matrix.column[entries.clone()]);
        coefficient.extend_from_slice(&matrix.coefficient[entries]);
        row_start.push(column.len() as u32);
    }
    let [row_start, column, coefficient] = [row_start, column, coefficient].map(Array::from);
    Matrix { row_start, column, coefficient, table: matrix.table.clone() }
}

/// The matrix and the vector without the columns that no entry has.
fn without_unused_columns(matrix: &Matrix, x: &Vector) -> (Matrix, Vector) {
    let mut places: BTreeMap<u32, u32> = matrix.column.iter().map(|column| (*column, 0)).collect();
    for (place, new) in places.values_mut().zip(0..) {
        *place = new;
    }
    let kept: Vec<usize> = places.keys().map(|column| *column as usize).collect();
    let column = matrix.column.iter().map(|column| places[column]).collect();
    (Matrix { column, ..matrix.clone() }, only(x, &kept))
}

impl Values {
    /// BLAKE3 of the canonical bytes: elements one after another, little-endian; the coordinates of a point, affine; a proof's 192
    /// bytes, or nothing. An element that is not reduced, as every element has to be, stands as its limbs are: no
    /// element is the same then.
    pub(super) fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        match self {
            Self::Scalars(values) => {
                for tile in values.chunks(TILE) {
                    let bytes: Vec<[u8; Fr::BYTES]> = tile.par_iter().map(bytes_of).collect();
                    hasher.update(Zeroizing::new(bytes).as_flattened());
                }
            }
            Self::G1(point) => digest_point(&mut hasher, point),
            Self::G2(point) => digest_point(&mut hasher, point),
            Self::Proof(Some(proof)) => {
                hasher.update(&proof.to_bytes());
            }
            Self::Proof(None) => {}
        }
        hasher.finalize()
    }

    /// How `found` differs from this.
    pub(super) fn difference(&self, found: &Self) -> Option<Difference> {
        let differ = |expected: String, found: String| {
            (expected != found).then_some(Difference { index: None, count: 1, expected, found })
        };
        match (self, found) {
            (Self::Scalars(expected), Self::Scalars(found)) => {
                let differ = |index: &usize| expected[*index] != found[*index];
                let index = (0..expected.len()).into_par_iter().find_first(differ)?;
                let count = (index..expected.len()).into_par_iter().filter(differ).count();
                let (expected, found) = (hex(&expected[index]), hex(&found[index]));
                Some(Difference { index: Some(index), count, expected, found })
            }
            (Self::G1(expected), Self::G1(found)) => differ(point(expected), point(found)),
            (Self::G2(expected), Self::G2(found)) => differ(point(expected), point(found)),
            (Self::Proof(expected), Self::Proof(found)) => differ(proof(expected), proof(found)),
            _ => unreachable!("one operation gives one kind of result"),
        }
    }
}

/// The canonical bytes of a reduced element; the limbs of another, which as a number are not below r.
fn bytes_of(value: &Fr) -> [u8; Fr::BYTES] {
    let limbs: [u64; 4] = bytemuck::cast(*value);
    match Fr::from_montgomery_limbs(limbs) {
        Some(value) => value.to_le_bytes(),
        None => {
            let mut bytes = [0; Fr::BYTES];
            bytes.as_chunks_mut::<8>().0.iter_mut().zip(limbs).for_each(|(bytes, limb)| {
                *bytes = limb.to_le_bytes();
            });
            bytes
        }
    }
}

fn digest_point<F: Coordinate>(hasher: &mut blake3::Hasher, point: &Affine<F>) {
    F::coordinates(point).for_each(|coordinate| {
        hasher.update(&coordinate.to_le_bytes());
    });
}

fn hex(value: &Fr) -> String {
    bytes_of(value).iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

fn point<F: Coordinate>(point: &Affine<F>) -> String {
    if point.is_infinity() {
        return "infinity".into();
    }
    let coordinates: Vec<_> =
        F::coordinates(point).map(|coordinate| format!("{:x}", coordinate.to_biguint())).collect();
    format!("({})", coordinates.join(", "))
}

fn proof(proof: &Option<Proof>) -> String {
    match proof {
        Some(proof) => proof.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
        None => "no proof: what was made does not verify".into(),
    }
}
