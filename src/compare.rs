//! The same proof on several backends, stage by stage: where they differ, and the smallest input that shows it.
//!
//! 1. Each stage of a proof is one operation of the seam. It is done on every backend with the same input, the first backend's result
//!    of the stage before, so that one wrong stage does not taint the next.
//! 2. Results are equal if their elements, or affine points, are; a digest stands for each in reports.
//! 3. Last, each backend makes the whole proof by itself, in the way that it plans: what goes wrong only between stages, or only
//!    in parts, shows there.
//! 4. The first operation that differs is done again with less and less input, on both backends every time, as long as they differ:
//!    [`Failing`].
//!
//! r and s are fixed, so that proofs can be compared: they are not zero-knowledge, and nothing returns them.

mod file;
mod operation;
mod report;
mod shrink;

use std::time::{Duration, Instant};

use crate::backend::{Backend, DeviceInfo, Quotient, Transform};
use crate::field::{Fp, Fr};
use crate::format::Progress;
use crate::groth16::{Blinding, Task, prove};
use crate::key::{Basis, Density, ProvingKey, Query};
use crate::witness::Assignment;
use crate::{Error, Result};

use self::operation::{Onto, Operation, Terms, Values, Vector};
use self::shrink::shrink;

pub use self::operation::Difference;

/// The stages in order; of some only one of two is in a proof, by the basis of its key.
pub const STAGES: [&str; 20] = [
    "witness",
    "rows of A",
    "rows of B",
    "rows of C",
    "a: interpolate",
    "a: evaluate odd",
    "b: interpolate",
    "b: evaluate odd",
    "product",
    "c: interpolate",
    "c: evaluate odd",
    "product: interpolate odd",
    "difference",
    "half difference",
    "H sum",
    "L sum",
    "A sum",
    "B sum in G1",
    "B sum in G2",
    PROOF,
];

const PROOF: &str = "proof";

/// A backend of whatever type.
trait Side {
    fn info(&self) -> &DeviceInfo;
    fn run(&self, operation: &Operation) -> Result<(Values, Duration)>;
    fn prove(
        &self,
        key: &ProvingKey,
        assignment: &Assignment,
        progress: &dyn Progress,
    ) -> Result<(Values, Duration)>;
}

impl<B: Backend> Side for B {
    fn info(&self) -> &DeviceInfo {
        Backend::info(self)
    }

    fn run(&self, operation: &Operation) -> Result<(Values, Duration)> {
        operation.run(self)
    }

    fn prove(
        &self,
        key: &ProvingKey,
        assignment: &Assignment,
        progress: &dyn Progress,
    ) -> Result<(Values, Duration)> {
        let blinding = Blinding::fixed_for_testing(Fr::from(2), Fr::from(3));
        let started = Instant::now();
        let proof = match prove(self, key, assignment, &blinding, progress) {
            Ok(proof) => Some(proof),
            Err(Error::SelfVerify(_)) => None,
            Err(other) => return Err(other),
        };
        Ok((Values::Proof(proof), started.elapsed()))
    }
}

/// Backends to compare; the first is what the others are compared with.
#[derive(Default)]
pub struct Backends(Vec<Box<dyn Side>>);

impl Backends {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more.
    pub fn add<B: Backend>(&mut self, backend: B) {
        self.0.push(Box::new(backend));
    }

    fn infos(&self) -> Vec<DeviceInfo> {
        self.0.iter().map(|side| side.info().clone()).collect()
    }

    fn expect_some_to_compare(&self) -> Result<()> {
        match self.0.len() {
            0 | 1 => Err(Error::Usage("a comparison needs two backends or more".into())),
            _ => Ok(()),
        }
    }

    /// Does something on each, and compares what comes out.
    fn stage(
        &self,
        name: &'static str,
        elements: usize,
        run: impl Fn(&dyn Side) -> Result<(Values, Duration)>,
    ) -> Result<(Stage, Values)> {
        let (expected, elapsed) = run(&*self.0[0])?;
        let mut results = vec![Outcome { digest: expected.digest(), elapsed, difference: None }];
        for side in &self.0[1..] {
            let (found, elapsed) = run(&**side)?;
            let difference = expected.difference(&found);
            results.push(Outcome { digest: found.digest(), elapsed, difference });
        }
        Ok((Stage { name, elements, results }, expected))
    }
}

/// What every backend made of one stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// One of [`STAGES`].
    pub name: &'static str,
    /// Elements of its result, or terms of its sum; variables of a proof.
    pub elements: usize,
    /// In the order of the backends.
    pub results: Vec<Outcome>,
}

impl Stage {
    /// The first backend that differs from the first of all.
    pub fn differs(&self) -> Option<(usize, &Difference)> {
        let results = self.results.iter().enumerate();
        results.filter_map(|(index, outcome)| Some((index, outcome.difference.as_ref()?))).next()
    }
}

/// What one backend made of one stage.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// BLAKE3 of the canonical bytes of the result: elements, affine coordinates, or the 192 bytes of a proof.
    pub digest: blake3::Hash,
    /// How long it took, without copies to and from the device; of a proof, all of it.
    pub elapsed: Duration,
    /// How it differs from the first backend's, if it does.
    pub difference: Option<Difference>,
}

/// What a comparison found.
pub struct Report {
    /// What was compared, in order.
    pub devices: Vec<DeviceInfo>,
    /// The stages, in order.
    pub stages: Vec<Stage>,
    /// Whether the first backend's proof verified, if one was made.
    pub proved: Option<bool>,
    /// The first operation that differs, if one does, with the smallest input for which it does.
    pub finding: Option<Finding>,
}

/// The first operation that differs.
pub struct Finding {
    /// The backend that differs from the first, by its place.
    pub backend: usize,
    /// How, with the input below.
    pub difference: Difference,
    /// Its input, as small as could be if it came again.
    pub failing: Failing,
    /// What became of the search for a smaller input.
    pub search: Search,
}

/// How a search for the smallest failing input ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// With an input of which nothing can be left out.
    Smallest,
    /// With a smaller input, before all was tried.
    Stopped,
    /// At once: the same operation with the same input did not differ when it was done again.
    NotAgain,
}

/// An operation with an input for which two backends differ. It holds values of the witness.
pub struct Failing {
    stage: &'static str,
    operation: Operation,
    expected: blake3::Hash,
    found: blake3::Hash,
}

impl Failing {
    /// The largest file, in bytes.
    pub const MOST_BYTES: u64 = file::MOST_BYTES;

    /// The stage that it is from.
    pub fn stage(&self) -> &'static str {
        self.stage
    }

    /// Elements of its result, or terms of its sum.
    pub fn elements(&self) -> usize {
        self.operation.len()
    }

    /// The digest that the first backend's result had.
    pub fn expected(&self) -> blake3::Hash {
        self.expected
    }

    /// The digest that the other backend's result had.
    pub fn found(&self) -> blake3::Hash {
        self.found
    }

    /// As a file; `None` if that would be larger than [`Failing::MOST_BYTES`].
    pub fn to_json(&self) -> Option<Vec<u8>> {
        file::write(self)
    }

    /// From a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not one that [`Failing::to_json`] wrote.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        file::read(text)
    }
}

/// Does every stage of a proof on every backend, and compares.
///
/// # Errors
/// [`Error::Usage`] for fewer than two backends; those of [`Task::new`]; [`Error::NeverFits`] if a device has no room for a
/// stage; the backends' own, and what `progress` stops the work with. A proof that does not verify is a result.
pub fn compare(
    backends: &Backends,
    key: &ProvingKey,
    assignment: &Assignment,
    progress: &dyn Progress,
) -> Result<Report> {
    backends.expect_some_to_compare()?;
    let task = Task::new(key, assignment)?;
    let mut walk = Walk { backends, progress, stages: Vec::new(), first: None };

    let values = assignment.values.clone();
    let witness =
        walk.vector("witness", Operation::Expand { values, onto: Onto::Zeros(key.variables) })?;
    let rows = Rows { key, assignment, witness: &witness };
    let mut vectors: [Vector; 3] = Default::default();
    for Step { name, vector, makes } in steps(key.basis) {
        let operation = match makes {
            Makes::Rows(side) => rows.operation(side, Onto::Zeros(1 << key.log_n)),
            Makes::RowsTimes(side, by) => rows.operation(side, Onto::Values(vectors[by].clone())),
            Makes::Transform(transform) => {
                Operation::Transform { transform, data: vectors[vector].clone() }
            }
            Makes::Quotient(step, by) => {
                let (accumulator, operand) = (vectors[vector].clone(), vectors[by].clone());
                Operation::Quotient { step, accumulator, operand }
            }
        };
        vectors[vector] = walk.vector(name, operation)?;
    }

    let [h, ..] = vectors;
    let of_h = Terms { bases: key.h.clone(), scalars: h, first: 0, density: None };
    walk.run("H sum", Operation::SumG1(of_h))?;
    let densities = task.densities();
    let over_witness = |query: &Query<Fp>, first, density| {
        let (bases, scalars) = (query.points.clone(), witness.clone());
        Operation::SumG1(Terms { bases, scalars, first, density: unless_full(density) })
    };
    walk.run("L sum", over_witness(&key.l, key.inputs, &densities.l))?;
    walk.run("A sum", over_witness(&key.a, 0, &densities.a))?;
    walk.run("B sum in G1", over_witness(&key.b_g1, 0, &densities.b_g1))?;
    let (bases, density) = (key.b_g2.points.clone(), unless_full(&densities.b_g2));
    let in_g2 = Terms { bases, scalars: witness.clone(), first: 0, density };
    walk.run("B sum in G2", Operation::SumG2(in_g2))?;

    progress.check()?;
    progress.stage(PROOF);
    let (proof, proved) =
        backends.stage(PROOF, key.variables, |side| side.prove(key, assignment, progress))?;
    walk.stages.push(proof);
    let finding = walk.first.take().map(|first| first.shrink(backends, progress)).transpose()?;
    let proved = Some(matches!(proved, Values::Proof(Some(_))));
    Ok(Report { devices: backends.infos(), stages: walk.stages, proved, finding })
}

/// Does a failing input's operation again, on every backend.
///
/// # Errors
/// As of [`compare`].
pub fn replay(backends: &Backends, failing: &Failing) -> Result<Report> {
    backends.expect_some_to_compare()?;
    let run = |side: &dyn Side| side.run(&failing.operation);
    let (stage, _) = backends.stage(failing.stage, failing.elements(), run)?;
    Ok(Report { devices: backends.infos(), stages: vec![stage], proved: None, finding: None })
}

/// A stage up to the scalars of the H sum: which of the vectors a, b, c it changes, and how.
struct Step {
    name: &'static str,
    vector: usize,
    makes: Makes,
}

enum Makes {
    /// The rows of a side.
    Rows(usize),
    /// The rows of a side times a vector.
    RowsTimes(usize, usize),
    Transform(Transform),
    /// A step with a vector as its operand.
    Quotient(Quotient, usize),
}

/// The prover's steps. It makes the rows of C late, in b's place, from rows of B that it makes again; here those are still there.
fn steps(basis: Basis) -> [Step; 11] {
    const A: usize = 0;
    const B: usize = 1;
    const C: usize = 2;
    let step = |name, vector, makes| Step { name, vector, makes };
    let transform = |name, vector, transform| step(name, vector, Makes::Transform(transform));
    let [last_transform, last] = match basis {
        Basis::OddCoset => [
            transform("c: evaluate odd", C, Transform::EvaluateOdd),
            step("difference", A, Makes::Quotient(Quotient::Difference, C)),
        ],
        Basis::Coefficients => [
            transform("product: interpolate odd", A, Transform::InterpolateOdd),
            step("half difference", A, Makes::Quotient(Quotient::HalfDifference, C)),
        ],
    };
    [
        step("rows of A", A, Makes::Rows(A)),
        step("rows of B", B, Makes::Rows(B)),
        step("rows of C", C, Makes::RowsTimes(A, B)),
        transform("a: interpolate", A, Transform::Interpolate),
        transform("a: evaluate odd", A, Transform::EvaluateOdd),
        transform("b: interpolate", B, Transform::Interpolate),
        transform("b: evaluate odd", B, Transform::EvaluateOdd),
        step("product", A, Makes::Quotient(Quotient::Product, B)),
        transform("c: interpolate", C, Transform::Interpolate),
        last_transform,
        last,
    ]
}

/// What rows are made from.
struct Rows<'a> {
    key: &'a ProvingKey,
    assignment: &'a Assignment,
    witness: &'a Vector,
}

impl Rows<'_> {
    fn operation(&self, side: usize, onto: Onto) -> Operation {
        match (&self.assignment.rows, &self.key.matrices) {
            (Some(rows), _) => Operation::Expand { values: [&rows.a, &rows.b][side].clone(), onto },
            (None, Some(matrices)) => {
                let (matrix, x) = (matrices[side].clone(), self.witness.clone());
                Operation::Matvec { matrix, x, onto }
            }
            (None, None) => unreachable!("checked when the task was made"),
        }
    }
}

/// A density as the prover hands it to a sum.
fn unless_full(density: &Density) -> Option<Density> {
    (density.ones() != density.len).then(|| density.clone())
}

/// A comparison on its way through the stages.
struct Walk<'a> {
    backends: &'a Backends,
    progress: &'a dyn Progress,
    stages: Vec<Stage>,
    first: Option<First>,
}

/// The first operation that differs, whole.
struct First {
    stage: &'static str,
    operation: Operation,
    backend: usize,
    difference: Difference,
    digests: [blake3::Hash; 2],
}

impl Walk<'_> {
    /// Does a stage, and returns the first backend's result.
    fn run(&mut self, name: &'static str, operation: Operation) -> Result<Values> {
        self.progress.check()?;
        self.progress.stage(name);
        let elements = operation.len();
        let (stage, values) = self.backends.stage(name, elements, |side| side.run(&operation))?;
        if let (None, Some((backend, difference))) = (&self.first, stage.differs()) {
            self.first = Some(First {
                stage: name,
                operation,
                backend,
                difference: difference.clone(),
                digests: [0, backend].map(|index| stage.results[index].digest),
            });
        }
        self.stages.push(stage);
        Ok(values)
    }

    fn vector(&mut self, name: &'static str, operation: Operation) -> Result<Vector> {
        match self.run(name, operation)? {
            Values::Scalars(values) => Ok(values),
            _ => unreachable!("an operation on vectors"),
        }
    }
}

impl First {
    fn shrink(self, backends: &Backends, progress: &dyn Progress) -> Result<Finding> {
        let Self { stage, operation, backend, difference, digests: [expected, found] } = self;
        progress.stage("search for the smallest failing input");
        let shrunk = shrink(&operation, &|operation| {
            progress.check()?;
            let run = |index: usize| backends.0[index].run(operation).map(|(values, _)| values);
            Ok([run(0)?, run(backend)?])
        })?;
        Ok(match shrunk {
            Some(shrunk) => Finding {
                backend,
                difference: shrunk.difference,
                search: if shrunk.smallest { Search::Smallest } else { Search::Stopped },
                failing: Failing {
                    stage,
                    operation: shrunk.operation,
                    expected: shrunk.expected,
                    found: shrunk.found,
                },
            },
            None => Finding {
                backend,
                difference,
                search: Search::NotAgain,
                failing: Failing { stage, operation, expected, found },
            },
        })
    }
}
