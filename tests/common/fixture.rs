//! Small circuits with all that proofs of them are made from.

use std::sync::Arc;

use forebay::Result;
use forebay::backend::Backend;
use forebay::backend::cpu::Cpu;
use forebay::engine::{Job, Partition};
use forebay::field::Fr;
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{Silent, bellman, wtns};
use forebay::groth16::{Blinding, prove};
use forebay::key::ProvingKey;
use forebay::profile::{Profile, synthetic};
use forebay::proof::Proof;
use forebay::witness::Assignment;

use super::vectors::{Bellman, Circom};

/// A key, an assignment, and the r and s of the proof that somebody else made.
#[derive(Clone)]
pub struct Fixture {
    pub name: String,
    pub key: Arc<ProvingKey>,
    pub assignment: Arc<Assignment>,
    pub r_and_s: [Fr; 2],
}

const READ: Options<'static> = Options { check_points: false, scratch: None, progress: &Silent };

impl Fixture {
    /// A circuit with matrices.
    pub fn circom(name: &str) -> Self {
        let circom = Circom::named(name);
        let key = Zkey::open(&circom.zkey()[..]).and_then(|file| file.read(READ)).expect("zkey");
        let values = wtns::read(&circom.file("wtns")[..]).expect("wtns");
        Self {
            name: name.to_owned(),
            key: Arc::new(key),
            assignment: Arc::new(Assignment::from_witness(&values)),
            r_and_s: Circom::r_and_s(),
        }
    }

    /// The partitions of a circuit with the rows' values.
    pub fn bellman(name: &str) -> Vec<Self> {
        let bellman = Bellman::named(name);
        let params = bellman.file("params");
        let key = bellman::Params::open(&params[..]).and_then(|file| file.read(READ));
        let key = Arc::new(key.expect("params"));
        let part = |folder: std::path::PathBuf| Self {
            name: name.to_owned(),
            key: key.clone(),
            assignment: Arc::new(bellman.assignment(&folder)),
            r_and_s: Bellman::r_and_s(&folder),
        };
        bellman.parts().into_iter().map(part).collect()
    }

    /// A made-up one with a circuit's counts and kinds of values.
    pub fn synthetic(name: &str, log_n: u32) -> Self {
        let profile = Profile::named(name).and_then(|profile| profile.scaled(log_n)).expect(name);
        let (key, assignment) = synthetic::synthesise(&profile, 1).expect(name);
        Self {
            name: name.to_owned(),
            key: Arc::new(key),
            assignment: Arc::new(assignment),
            r_and_s: [Fr::from(3), Fr::from(5)],
        }
    }

    /// The smallest one of each kind.
    pub fn smallest() -> [Self; 2] {
        [Self::circom("pub0"), Self::bellman("edge8").remove(0)]
    }

    pub fn blinding(&self) -> Blinding {
        let [r, s] = self.r_and_s;
        Blinding::fixed_for_testing(r, s)
    }

    /// The proof with the fixture's r and s.
    pub fn prove<B: Backend>(&self, backend: &B) -> Result<Proof> {
        prove(backend, &self.key, &self.assignment, &self.blinding(), &Silent)
    }

    /// For a job, with the fixture's r and s.
    pub fn partition(&self) -> Partition {
        Partition::new(self.assignment.clone()).expect("random numbers").blinding(self.blinding())
    }

    /// So many of them.
    pub fn job(&self, label: &str, partitions: usize) -> Job {
        Job::new(label, self.key.clone(), (0..partitions).map(|_| self.partition()).collect())
    }

    /// What every backend has to give.
    pub fn right(&self) -> Proof {
        self.prove(&Cpu::open()).expect("a proof")
    }
}
