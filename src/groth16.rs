//! The prover, written once for every backend, in the letters of the paper (Groth 2016, "On the Size
//! of Pairing-based Non-interactive Arguments", section 3.2).
//!
//! With witness w, rows a = A w, b = B w, c = a b, and h = (a b - c)/Z:
//!
//! - A = alpha + sum w_i A_i + r delta
//! - B = beta + sum w_i B_i + s delta
//! - C = sum over private i of w_i L_i + sum h_j H_j + s A + r B - r s delta
//!
//! Six transforms in two vectors of n elements are the whole quotient, in either basis of H: a and b to
//! the odd coset, their product; then c, in b's place.

use std::ops::Range;
use std::time::Instant;

use zeroize::Zeroize;

use crate::backend::{
    Backend, DeviceCompact, DeviceMatrix, Msm, Output, Pending, Quotient, Transform,
};
use crate::budget::Lease;
use crate::curve::{Coordinate, Point};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::format::Progress;
use crate::key::{Basis, Density, ProvingKey, Query};
use crate::proof::{Proof, verify};
use crate::witness::{Assignment, Rows};
use crate::{Error, Result};

/// The random elements that make a proof zero-knowledge; wiped when dropped.
pub struct Blinding {
    r: Fr,
    s: Fr,
}

impl Blinding {
    /// Fresh r and s from the operating system. Every proof that leaves the machine needs these.
    pub fn random() -> Result<Self> {
        Ok(Self { r: Fr::random()?, s: Fr::random()? })
    }

    /// Given r and s, which make proofs reproducible and comparable, and no longer zero-knowledge: for
    /// tests and comparisons alone.
    pub fn fixed_for_testing(r: Fr, s: Fr) -> Self {
        Self { r, s }
    }
}

impl Drop for Blinding {
    fn drop(&mut self) {
        self.r.zeroize();
        self.s.zeroize();
    }
}

/// Proves, and verifies the proof before returning it.
///
/// # Errors
/// [`Error::Invalid`] if key and assignment do not fit, [`Error::Unsatisfied`] if the assignment breaks a
/// row, [`Error::SelfVerify`] if the proof does not verify (with a key that has no C matrix, that is how an
/// unsatisfied witness shows), or the backend's own errors.
pub fn prove<B: Backend>(
    backend: &B,
    key: &ProvingKey,
    assignment: &Assignment,
    blinding: &Blinding,
    progress: &dyn Progress,
) -> Result<Proof> {
    let densities = check_shapes(key, assignment)?;
    let size = WorkingSet::new(backend, key, assignment);
    let lease = backend.budget().lease("a proof's working set", size.peak())?;
    let stream = backend.stream()?;
    let prover = Prover { backend, key, stream: &stream, lease: &lease };

    // Steps are additions in G1, about: three for one in G2, and the quotient is an eighth of H's sum.
    let n = 1 << key.log_n;
    let [l, a, b] = [&key.l, &key.a, &key.b_g1].map(|query| query.points.len() as u64);
    progress.begin("proving", n / 8 + n + l + a + b + 3 * b);
    let mut since = Instant::now();
    let mut done = |stage, steps| {
        tracing::info!("{stage}: {:.1?}", since.elapsed());
        since = Instant::now();
        progress.advance(steps);
    };
    let mut w = backend.alloc(&lease, "witness", key.variables)?;
    let packed =
        DeviceCompact::adopt(backend, &stream, &lease, "packed witness", &assignment.values)?;
    backend.expand(&stream, packed.packed(), Output::Set, &mut w)?;
    drop(packed);
    let h = prover.quotient(&w, assignment)?;
    done("quotient", n / 8);
    lease.shrink(size.after_quotient());
    let mut scratch = backend.alloc(&lease, "MSM scratch", size.msm_scratch_words)?;

    let bases = backend.adopt(&stream, &lease, "H query", key.h.clone())?;
    let msm = Msm { bases: &bases, scalars: &h, range: 0..key.h.len(), density: None };
    let sum_h = backend.msm::<Fp>(&stream, msm, &mut scratch)?.wait()?;
    drop((bases, h));
    done("H sum", n);
    let (private, all) = (key.inputs..key.variables, 0..key.variables);
    let sum_l = prover.query_sum("L query", &key.l, &densities.l, private, &w, &mut scratch)?;
    done("L sum", l);
    let sum_a = prover.query_sum("A query", &key.a, &densities.a, all.clone(), &w, &mut scratch)?;
    done("A sum", a);
    let sum_b_g1 = prover.query_sum(
        "B query in G1",
        &key.b_g1,
        &densities.b_g1,
        all.clone(),
        &w,
        &mut scratch,
    )?;
    done("B sum in G1", b);
    let sum_b_g2 =
        prover.query_sum("B query in G2", &key.b_g2, &densities.b_g2, all, &w, &mut scratch)?;
    done("B sum in G2", 3 * b);

    let (r, s) = (&blinding.r, &blinding.s);
    let (delta_g1, delta_g2) = (key.delta_g1.to_point(), key.vk.delta_g2.to_point());
    let a = sum_a + key.vk.alpha_g1 + delta_g1.scale(r);
    let b_g1 = sum_b_g1 + key.beta_g1 + delta_g1.scale(s);
    let b = sum_b_g2 + key.vk.beta_g2 + delta_g2.scale(s);
    let c = sum_l + sum_h + a.scale(s) + b_g1.scale(r) + delta_g1.scale(&-(*r * *s));
    let proof = Proof { a: a.to_affine(), b: b.to_affine(), c: c.to_affine() };

    if [proof.a, proof.c].iter().any(|point| point.is_infinity()) || proof.b.is_infinity() {
        return Err(Error::SelfVerify("a point of the proof is infinity".into()));
    }
    if !verify(&key.vk, &assignment.values.first(key.inputs)[1..], &proof)? {
        return Err(Error::SelfVerify(
            "the witness does not satisfy the circuit, or the key is damaged".into(),
        ));
    }
    done("points and verification", 0);
    Ok(proof)
}

/// Device bytes of one proof, a pure function of the key's shape and the backend's answers.
#[derive(Clone, Copy, Debug)]
pub struct WorkingSet {
    /// Bytes of the witness.
    pub witness: u64,
    /// Bytes of the packed witness, which is there while it is expanded.
    pub packed_witness: u64,
    /// Bytes during the quotient: two vectors, the table, the matrices or the packed rows.
    pub quotient: u64,
    /// Bytes during the H sum beside the witness: h, the H query, scratch.
    pub sum_h: u64,
    /// Bytes during the largest other sum: a query, its density, scratch.
    pub sum_query: u64,
    /// Scratch for any of the sums.
    pub msm_scratch_words: usize,
}

impl WorkingSet {
    /// The working set of a proof of `key` on `backend`.
    pub fn new<B: Backend>(backend: &B, key: &ProvingKey, assignment: &Assignment) -> Self {
        let n = 1usize << key.log_n;
        let vector = (n * Fr::BYTES) as u64;
        let rows = match &assignment.rows {
            Some(rows) => rows.a.bytes() + rows.b.bytes(),
            None => key.matrices.iter().flatten().map(crate::backend::Matrix::bytes).sum(),
        };
        let in_g1 = backend.msm_scratch::<Fp>(n.max(key.variables));
        let msm_scratch_words =
            in_g1.max(backend.msm_scratch::<Fp2>(key.variables)).div_ceil(8) as usize;
        let scratch = 8 * msm_scratch_words as u64;
        let density = 8 * key.variables.div_ceil(64) as u64;
        let points_g1 =
            key.a.points.len().max(key.b_g1.points.len()).max(key.l.points.len()) as u64;
        let points = (96 * points_g1).max(192 * key.b_g2.points.len() as u64);
        Self {
            witness: (key.variables * Fr::BYTES) as u64,
            packed_witness: assignment.values.bytes(),
            quotient: 2 * vector + backend.ntt_table_bytes(key.log_n) + rows,
            sum_h: vector + size_of_val(&key.h[..]) as u64 + scratch,
            sum_query: points + density + scratch,
            msm_scratch_words,
        }
    }

    /// The most bytes at any time.
    pub fn peak(&self) -> u64 {
        self.witness + self.packed_witness.max(self.quotient).max(self.sum_h).max(self.sum_query)
    }

    /// The most bytes once the quotient is done.
    pub fn after_quotient(&self) -> u64 {
        self.witness + self.sum_h.max(self.sum_query)
    }
}

/// Which variables have a point in each query: the private ones in L, all of them in the others.
struct Densities {
    l: Density,
    a: Density,
    b_g1: Density,
    b_g2: Density,
}

/// Checks that key and assignment fit, which is all that the operations below the seam rely on.
fn check_shapes(key: &ProvingKey, assignment: &Assignment) -> Result<Densities> {
    let values = &assignment.values;
    if values.len() != key.variables {
        let expected = format!("{} as in the key", key.variables);
        return Err(Error::invalid("the witness, number of values", values.len(), expected));
    }
    if values.first(1) != [Fr::ONE] {
        return Err(Error::invalid("the witness, value 0", "another number", "the constant 1"));
    }
    // Device indices are 32 bits, one of them a sign.
    if key.variables > 1 << 31 {
        return Err(Error::invalid("the key, variables", key.variables, "at most 2^31"));
    }
    let (mut a, mut b) = (None, None);
    if let Some(rows) = &assignment.rows {
        check_rows(key, rows)?;
        a = Some(rows.a_density(key.inputs));
        b = Some(rows.b_density());
    } else if key.matrices.is_none() {
        return Err(Error::Usage(
            "a key without matrices needs the rows' values (Assignment::rows)".into(),
        ));
    }
    Ok(Densities {
        l: density("L", &key.l, key.variables - key.inputs, None)?,
        a: density("A", &key.a, key.variables, a)?,
        b_g1: density("B in G1", &key.b_g1, key.variables, b.clone())?,
        b_g2: density("B in G2", &key.b_g2, key.variables, b)?,
    })
}

/// A query's density, which is the key's where the key has one, and must have as many ones as
/// there are points.
fn density<F>(name: &str, query: &Query<F>, len: usize, given: Option<Density>) -> Result<Density> {
    let missing = || Error::Usage(format!("neither key nor assignment has the density of {name}"));
    let density = query.density.clone().or(given).ok_or_else(missing)?;
    if density.len != len || density.ones() != query.points.len() {
        let found = format!("{} of {} variables", density.ones(), density.len);
        let expected = format!("{} of {len}, as the key has points", query.points.len());
        return Err(Error::invalid(format!("the density of {name}"), found, expected));
    }
    Ok(density)
}

/// Checks the number of rows.
fn check_rows(key: &ProvingKey, rows: &Rows) -> Result<()> {
    let (n, lengths) = (1usize << key.log_n, [rows.a.len(), rows.b.len()]);
    if lengths[0] == lengths[1] && lengths[0] <= n {
        return Ok(());
    }
    let expected = format!("the same, at most {n}");
    Err(Error::invalid("a and b, number of rows", format!("{lengths:?}"), expected))
}

/// Where the rows' values come from.
enum DeviceRows<B: Backend> {
    /// The matrices A and B, and the witness.
    Matrices([DeviceMatrix<B>; 2]),
    /// The values of A and B, packed.
    Packed([DeviceCompact<B>; 2]),
}

/// One side of the rows.
#[derive(Clone, Copy)]
enum Side {
    A = 0,
    B = 1,
}

struct Prover<'a, B: Backend> {
    backend: &'a B,
    key: &'a ProvingKey,
    stream: &'a B::Stream,
    lease: &'a Lease,
}

impl<B: Backend> Prover<'_, B> {
    /// The scalars of the H sum: h's coefficients, or A B - C on the odd coset.
    fn quotient(&self, w: &B::Buffer<Fr>, assignment: &Assignment) -> Result<B::Buffer<Fr>> {
        let (backend, stream, lease) = (self.backend, self.stream, self.lease);
        let n = 1 << self.key.log_n;
        let table = backend.ntt_table(stream, lease, self.key.log_n)?;
        let ntt =
            |transform, data: &mut B::Buffer<Fr>| backend.ntt(stream, transform, &table, data);
        let vector = |label| backend.alloc::<Fr>(lease, label, n);

        let rows = self.rows(assignment)?;
        let write = |side: Side, output, out: &mut B::Buffer<Fr>| match &rows {
            DeviceRows::Matrices(matrices) => {
                backend.matvec(stream, &matrices[side as usize], w, output, out)
            }
            DeviceRows::Packed(packed) => {
                backend.expand(stream, packed[side as usize].packed(), output, out)
            }
        };

        let (mut a, mut b) = (vector("a")?, vector("b")?);
        write(Side::A, Output::Set, &mut a)?;
        write(Side::B, Output::Set, &mut b)?;
        for vector in [&mut a, &mut b] {
            ntt(Transform::Interpolate, vector)?;
            ntt(Transform::EvaluateOdd, vector)?;
        }
        backend.quotient(stream, Quotient::Product, &mut a, &b)?;

        // c takes b's place.
        let mut c = b;
        write(Side::B, Output::Set, &mut c)?;
        write(Side::A, Output::Multiply, &mut c)?;
        ntt(Transform::Interpolate, &mut c)?;
        let last = match self.key.basis {
            Basis::OddCoset => {
                ntt(Transform::EvaluateOdd, &mut c)?;
                Quotient::Difference
            }
            Basis::Coefficients => {
                ntt(Transform::InterpolateOdd, &mut a)?;
                Quotient::HalfDifference
            }
        };
        backend.quotient(stream, last, &mut a, &c)?;
        Ok(a)
    }

    /// Brings what the rows' values are made from to the device.
    fn rows(&self, assignment: &Assignment) -> Result<DeviceRows<B>> {
        let (backend, stream, lease) = (self.backend, self.stream, self.lease);
        let packed = |rows| DeviceCompact::adopt(backend, stream, lease, "packed rows", rows);
        let matrix = |matrix| DeviceMatrix::adopt(backend, stream, lease, matrix);
        match (&assignment.rows, &self.key.matrices) {
            (Some(rows), _) => Ok(DeviceRows::Packed([packed(&rows.a)?, packed(&rows.b)?])),
            (None, Some([a, b])) => Ok(DeviceRows::Matrices([matrix(a)?, matrix(b)?])),
            (None, None) => unreachable!("check_shapes asks for one of them"),
        }
    }

    /// The sum of one query over the variables of `range`.
    fn query_sum<F: Coordinate>(
        &self,
        label: &'static str,
        query: &Query<F>,
        density: &Density,
        range: Range<usize>,
        w: &B::Buffer<Fr>,
        scratch: &mut B::Buffer<u64>,
    ) -> Result<Point<F>> {
        let (backend, stream, lease) = (self.backend, self.stream, self.lease);
        let bases = backend.adopt(stream, lease, label, query.points.clone())?;
        let density = if query.points.len() == density.len {
            None
        } else {
            Some(backend.adopt(stream, lease, "density", density.words.clone())?)
        };
        let msm = Msm { bases: &bases, scalars: w, range, density: density.as_ref() };
        backend.msm(stream, msm, scratch)?.wait()
    }
}
