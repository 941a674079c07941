//! The prover, written once for every backend, in the letters of the paper (Groth 2016, "On the Size
//! of Pairing-based Non-interactive Arguments", section 3.2).
//!
//! With witness w, rows a = A w, b = B w, c = a b, and h = (a b - c)/Z:
//!
//! - A = alpha + sum w_i A_i + r delta
//! - B = beta + sum w_i B_i + s delta
//! - C = sum over private i of w_i L_i + sum h_j H_j + s A + r B - r s delta
//!
//! A [`Task`] is a key and an assignment that fit together. [`Task::sums`] does all that a device does for it, the way a
//! [`Plan`] says, inside a lease of the plan's peak; [`Sums::prove`] does the rest on the host, and verifies.

mod out_of_core;
mod quotient;
mod resident;
mod sums;

use zeroize::{Zeroize, Zeroizing};

use crate::backend::cpu::Cpu;
use crate::backend::{Backend, Buffer};
use crate::budget::{Lease, Request};
use crate::curve::{G1Affine, G2Affine, Point};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::format::{Progress, Silent};
use crate::key::{Density, ProvingKey, Query};
use crate::plan::{self, Plan, Shape};
use crate::proof::{Proof, verify};
use crate::witness::{Assignment, Rows};
use crate::{Error, Result};

pub use resident::DeviceKey;

/// The random elements that make a proof zero-knowledge; wiped when dropped.
#[derive(Clone)]
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

/// Proves on `backend` alone, with the fastest plan that its budget has room for, and verifies the proof before
/// returning it. [`Engine`](crate::engine::Engine) does the same for many proofs, with keys that stay on the device.
///
/// # Errors
/// Those of [`Task::new`], [`plan::choose`], [`Task::sums`] and [`Sums::prove`], and
/// [`HoldAndWait`](Error::HoldAndWait) if this thread holds memory of the budget.
pub fn prove<B: Backend>(
    backend: &B,
    key: &ProvingKey,
    assignment: &Assignment,
    blinding: &Blinding,
    progress: &dyn Progress,
) -> Result<Proof> {
    let task = Task::new(key, assignment)?;
    let options = plan::Options { max_in_flight: 1, resident: false, ..plan::Options::default() };
    let plan = plan::choose(&task.shape, backend, backend.budget().capacity(), &options)?;
    let lease = backend.budget().wait(Request::new("a proof's working set", &plan.releases()))?;
    let sums = task.sums(backend, &plan, None, &lease, progress);
    // After an error the device ends what is still queued, and the lease with it.
    lease.hand_over();
    drop(lease);
    sums?.prove(&task, blinding)
}

/// A key and an assignment that fit together.
pub struct Task<'a> {
    key: &'a ProvingKey,
    assignment: &'a Assignment,
    densities: Densities,
    shape: Shape,
}

impl<'a> Task<'a> {
    /// Checks that key and assignment fit, which is all that the operations below the seam rely on.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they do not, [`Error::Usage`] if neither has the rows or the densities.
    pub fn new(key: &'a ProvingKey, assignment: &'a Assignment) -> Result<Self> {
        let densities = check_shapes(key, assignment)?;
        let shape = Shape::new(key, assignment, &densities);
        Ok(Self { key, assignment, densities, shape })
    }

    /// The counts that decide its plans.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What is proved.
    pub(crate) fn assignment(&self) -> &Assignment {
        self.assignment
    }

    pub(crate) fn densities(&self) -> &Densities {
        &self.densities
    }

    /// The scalars of the H sum, by the CPU backend: for who needs them without a sum.
    pub(crate) fn quotient_on_host(&self) -> Result<Zeroizing<Vec<Fr>>> {
        let backend = &Cpu::open();
        let options =
            plan::Options { max_in_flight: 1, resident: false, ..plan::Options::default() };
        let plan = &plan::choose(&self.shape, backend, backend.budget().capacity(), &options)?;
        let lease = &backend.budget().lease("the quotient", plan.peak())?;
        let (copy, compute) = (backend.stream()?, backend.stream()?);
        let work = sums::Work {
            task: self,
            backend,
            plan,
            resident: None,
            lease,
            progress: &Silent,
            copy,
            compute,
        };
        match work.quotient()?.h {
            sums::Scalars::Device(h) => {
                let mut values = Zeroizing::new(vec![Fr::ZERO; h.len()]);
                backend.download(&work.compute, &h, 0, &mut values)?;
                Ok(values)
            }
            sums::Scalars::Host(values) => Ok(values),
            sums::Scalars::Packed => unreachable!("of the witness alone"),
        }
    }

    /// All that the device does: the quotient and the five sums, the way `plan` says, in `lease` of at least the
    /// plan's peak, which is shrunk as stages end. `resident` holds the parts of the key that the plan has resident.
    ///
    /// # Errors
    /// What `progress` stops the work with, or the backend's own.
    pub fn sums<B: Backend>(
        &self,
        backend: &B,
        plan: &Plan,
        resident: Option<&DeviceKey<B>>,
        lease: &Lease,
        progress: &dyn Progress,
    ) -> Result<Sums> {
        let [copy, compute] = [backend.stream()?, backend.stream()?];
        sums::Work { task: self, backend, plan, resident, lease, progress, copy, compute }.run()
    }
}

/// The sums over the queries: all that is left of a task when the device is done with it.
#[derive(Clone, Debug)]
pub struct Sums {
    h: Point<Fp>,
    l: Point<Fp>,
    a: Point<Fp>,
    b_g1: Point<Fp>,
    b_g2: Point<Fp2>,
}

impl Sums {
    /// Of nothing.
    const ZERO: Self = Self {
        h: Point::INFINITY,
        l: Point::INFINITY,
        a: Point::INFINITY,
        b_g1: Point::INFINITY,
        b_g2: Point::INFINITY,
    };

    /// The proof, blinded and verified.
    ///
    /// # Errors
    /// [`Error::SelfVerify`] if the proof does not verify; with a key that has no C matrix, that is how an unsatisfied
    /// witness shows.
    pub fn prove(&self, task: &Task<'_>, blinding: &Blinding) -> Result<Proof> {
        let Task { key, assignment, .. } = task;
        let (r, s) = (&blinding.r, &blinding.s);
        let (delta_g1, delta_g2) = (key.delta_g1.to_point(), key.vk.delta_g2.to_point());
        let a = self.a + key.vk.alpha_g1 + delta_g1.scale(r);
        let b_g1 = self.b_g1 + key.beta_g1 + delta_g1.scale(s);
        let b = self.b_g2 + key.vk.beta_g2 + delta_g2.scale(s);
        let c = self.l + self.h + a.scale(s) + b_g1.scale(r) + delta_g1.scale(&-(*r * *s));
        let proof = Proof { a: a.to_affine(), b: b.to_affine(), c: c.to_affine() };

        let at_infinity = |a: &G1Affine, b: &G2Affine| a.is_infinity() || b.is_infinity();
        if at_infinity(&proof.a, &proof.b) || proof.c.is_infinity() {
            return Err(Error::SelfVerify("a point of the proof is infinity".into()));
        }
        if !verify(&key.vk, &assignment.values.first(key.inputs)[1..], &proof)? {
            return Err(Error::SelfVerify(
                "the witness does not satisfy the circuit, or the key is damaged".into(),
            ));
        }
        Ok(proof)
    }
}

/// Which variables have a point in each query: the private ones in L, all of them in the others.
#[derive(Clone, PartialEq)]
pub(crate) struct Densities {
    pub(crate) l: Density,
    pub(crate) a: Density,
    pub(crate) b_g1: Density,
    pub(crate) b_g2: Density,
}
/// The densities, once everything is checked to fit.
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
