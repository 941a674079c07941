//! One suite for every backend. [`conformance!`] stamps it out, one test a check, so that a new
//! backend adds one line; and a table of spoiled backends shows that each check can fail.
//!
//! What is right is decided by `common/oracle.rs`, whose arithmetic is arkworks'.

mod common;

#[path = "backend/buffers.rs"]
mod buffers;
#[path = "backend/expand.rs"]
mod expand;
#[path = "backend/faults.rs"]
mod faults;
#[path = "backend/matvec.rs"]
mod matvec;
#[path = "backend/msm.rs"]
mod msm;
#[path = "backend/multiples.rs"]
mod multiples;
#[path = "backend/ntt.rs"]
mod ntt;
#[path = "backend/quotient.rs"]
mod quotient;
#[path = "backend/raised.rs"]
mod raised;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytemuck::Pod;
use forebay::backend::cpu::Cpu;
use forebay::backend::virtual_card::VirtualCard;
use forebay::backend::{
    Backend, Buffer, DeviceMatrix, Matrix, Msm, Output, Pending, Quotient, Raised, Transform,
    bit_reverse,
};
use forebay::budget::Lease;
use forebay::curve::{Affine, G1Affine, G2Affine};
use forebay::field::{Field, Fp, Fp2, Fr};
use forebay::format::Silent;
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{bellman, json, wtns};
use forebay::groth16::{Blinding, prove};
use forebay::witness::Assignment;
use forebay::{Error, Result};

use common::Random;
use common::faulty::{Fault, Faulty};
use common::oracle::{self, Base, Bases, Group, Row, Scalar, from_ark_all, to_ark};
use common::vectors::{Bellman, Circom};

/// The checks, handed to another macro: the only list of them.
macro_rules! for_each_check {
    ($then:ident!($($argument:tt)*)) => {
        $then! {
            ($($argument)*)
            alloc_is_zeroed = buffers::alloc_is_zeroed,
            copies_stay_in_place = buffers::copies_stay_in_place,
            adopted_data_are_the_same = buffers::adopted_data_are_the_same,
            leases_limit_buffers = buffers::leases_limit_buffers,
            tables_cost_what_the_query_says = buffers::tables_cost_what_the_query_says,
            queries_are_pure = buffers::queries_are_pure,
            operations_lease_nothing = buffers::operations_lease_nothing,
            joined_streams_keep_order = buffers::joined_streams_keep_order,
            expand_matches_values = expand::expand_matches_values,
            matvec_matches_rows = matvec::matvec_matches_rows,
            ntt_matches_definition = ntt::ntt_matches_definition,
            ntt_matches_samples = ntt::ntt_matches_samples,
            quotient_matches_formulas = quotient::quotient_matches_formulas,
            msm_lengths_g1 = msm::msm_lengths::<Fp, _>,
            msm_lengths_g2 = msm::msm_lengths::<Fp2, _>,
            msm_scalars_g1 = msm::msm_scalars::<Fp, _>,
            msm_scalars_g2 = msm::msm_scalars::<Fp2, _>,
            msm_bases_g1 = msm::msm_bases::<Fp, _>,
            msm_bases_g2 = msm::msm_bases::<Fp2, _>,
            msm_ranges_g1 = msm::msm_ranges::<Fp, _>,
            msm_ranges_g2 = msm::msm_ranges::<Fp2, _>,
            msm_densities_g1 = msm::msm_densities::<Fp, _>,
            msm_densities_g2 = msm::msm_densities::<Fp2, _>,
            raise_matches_multiples_g1 = raised::raise_matches_multiples::<Fp, _>,
            raise_matches_multiples_g2 = raised::raise_matches_multiples::<Fp2, _>,
            raised_sums_g1 = raised::raised_sums::<Fp, _>,
            raised_sums_g2 = raised::raised_sums::<Fp2, _>,
            raised_parts_g1 = raised::raised_parts::<Fp, _>,
            raised_parts_g2 = raised::raised_parts::<Fp2, _>,
            multiples_lengths_g1 = multiples::multiples_lengths::<Fp, _>,
            multiples_lengths_g2 = multiples::multiples_lengths::<Fp2, _>,
            multiples_scalars_g1 = multiples::multiples_scalars::<Fp, _>,
            multiples_scalars_g2 = multiples::multiples_scalars::<Fp2, _>,
            proofs_equal_the_fixtures = proofs_equal_the_fixtures,
        }
    };
}

macro_rules! define_checks {
    (() $($check:ident = $function:path,)*) => {
        /// A check by name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(non_camel_case_types, reason = "a check is called as its test is")]
        enum Check { $($check,)* }

        impl Check {
            const ALL: &[Self] = &[$(Self::$check,)*];

            /// Panics if `backend` fails, or if something stays leased.
            fn run<B: Backend>(self, backend: &B) {
                let leased = backend.budget().leased();
                match self { $(Self::$check => $function(backend),)* }
                assert_leased(backend, leased, format_args!("after {self:?}"));
            }
        }
    };
}
for_each_check! { define_checks!() }

/// Panics unless the budget has `want` bytes leased, now or as soon as the device is done.
fn assert_leased<B: Backend>(backend: &B, want: u64, when: impl Display) {
    let patience = Instant::now() + Duration::from_secs(10);
    while backend.budget().leased() != want && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(backend.budget().leased(), want, "bytes leased {when}");
}

/// `conformance!(name, || open_backend())`: the suite for one backend, as a module `name`. Attributes may follow, for
/// a backend that not every machine has.
macro_rules! conformance {
    ($module:ident, $open:expr $(, #[$attribute:meta])*) => {
        for_each_check! { stamp_out!($module, $open $(, #[$attribute])*) }
    };
}

macro_rules! stamp_out {
    (($module:ident, $open:expr $(, #[$attribute:meta])*) $($check:ident = $function:path,)*) => {
        stamp_out! { @ ($module, $open, [$(#[$attribute])*]) $($check,)* }
    };
    (@ ($module:ident, $open:expr, $attributes:tt) $($check:ident,)*) => {
        mod $module {
            use super::*;

            // A device has one budget, and the checks compare its numbers before and after.
            static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

            $(stamp_out! { @@ $attributes $check $open })*
        }
    };
    (@@ [$(#[$attribute:meta])*] $check:ident $open:expr) => {
        #[test]
        $(#[$attribute])*
        fn $check() {
            let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            let open = $open;
            Check::$check.run(&open());
        }
    };
}

conformance!(cpu, Cpu::open);
conformance!(virtual_card, || VirtualCard::open(common::card_model(1 << 30)));
#[cfg(feature = "cuda")]
conformance!(cuda, common::cuda::card, #[ignore = "needs an NVIDIA card: -- --include-ignored"]);
#[cfg(feature = "wgpu")]
conformance!(wgpu, common::wgpu::any, #[ignore = "needs a GPU: -- --include-ignored wgpu::"]);
#[cfg(feature = "wgpu")]
conformance!(lavapipe, common::wgpu::lavapipe, #[ignore = "needs Mesa: -- --include-ignored lavapipe::"]);
#[cfg(feature = "wgpu")]
conformance!(lavapipe_plain, common::wgpu::lavapipe_plain, #[ignore = "needs Mesa: -- --include-ignored"]);
#[cfg(feature = "wgpu")]
conformance!(lavapipe_small, common::wgpu::lavapipe_small, #[ignore = "needs Mesa: -- --include-ignored"]);
// The wrapper without a fault passes too, so what fails below fails by the fault.
conformance!(faultless, || Faulty::new(Cpu::open(), None));

/// A backend with a stream, and a lease for a check's buffers.
struct Session<'a, B: Backend> {
    backend: &'a B,
    stream: B::Stream,
    lease: Lease,
}

impl<'a, B: Backend> Session<'a, B> {
    /// With a lease of `bytes`.
    fn new(backend: &'a B, bytes: u64) -> Self {
        let lease = backend.budget().lease("a check", bytes).expect("a lease");
        Self { backend, stream: backend.stream().expect("a stream"), lease }
    }

    fn alloc<T: Pod + Send + Sync>(&self, len: usize) -> Result<B::Buffer<T>> {
        self.backend.alloc(&self.lease, "a buffer", len)
    }

    fn adopt<T: Pod + Send + Sync>(&self, data: &[T]) -> Result<B::Buffer<T>> {
        self.backend.adopt(&self.stream, &self.lease, "adopted", Arc::new(data.to_vec()))
    }

    /// A new buffer with the contents of `data`, for operations to write to.
    fn put<T: Pod + Send + Sync>(&self, data: &[T]) -> B::Buffer<T> {
        let mut buffer = self.alloc(data.len()).expect("alloc");
        self.backend.upload(&self.stream, data, &mut buffer, 0).expect("upload");
        buffer
    }

    /// The contents of a buffer, into memory that holds something else.
    fn take<T: Pod + Send + Sync>(&self, buffer: &B::Buffer<T>) -> Vec<T> {
        let mut data = pattern(&mut Random::silent(7), buffer.len());
        self.backend.download(&self.stream, buffer, 0, &mut data).expect("download");
        data
    }
}

/// Enough for the buffers of any check that does not ask for an exact lease.
const LEASE_BYTES: u64 = 16 << 20;

/// Elements of any bits. Copies must not care whether they are numbers below a modulus.
fn pattern<T: Pod>(random: &mut Random, len: usize) -> Vec<T> {
    let words = random.words((len * size_of::<T>()).div_ceil(8));
    bytemuck::cast_slice(&words)[..len].to_vec()
}

fn bytes<T: Pod>(data: &[T]) -> &[u8] {
    bytemuck::cast_slice(data)
}

/// Panics at the first element that differs. `got` is compared by limbs, see [`to_ark`].
fn assert_scalars(what: impl Display, got: &[Fr], want: &[Scalar]) {
    assert_eq!(got.len(), want.len(), "{what}: elements");
    let got = got.iter().map(to_ark);
    if let Some((i, (got, want))) = got.zip(want).enumerate().find(|(_, (got, want))| got != *want)
    {
        panic!("{what}: element {i} is {got}, not {want}");
    }
}

/// 0, 1, 2, r - 1, r - 2, and the two numbers around r/2, where signs turn.
fn edge_scalars() -> Vec<Scalar> {
    let half = Scalar::from(1u64) / Scalar::from(2u64);
    let small = [0u64, 1, 2].map(Scalar::from);
    [&small[..], &[-small[1], -small[2], half - small[1], half]].concat()
}

/// Edge values and random ones in random order.
fn mixed_scalars(random: &mut Random, len: usize) -> Vec<Scalar> {
    let edges = edge_scalars();
    let element = |_| match random.below(2 * edges.len()) {
        i if i < edges.len() => edges[i],
        _ => random.scalar(),
    };
    (0..len).map(element).collect()
}

/// The smallest fixture of each kind of key: all operations together, in both bases of H.
fn proofs_equal_the_fixtures<B: Backend>(backend: &B) {
    let options = Options { check_points: true, scratch: None, progress: &Silent };
    let circom = Circom::named("pub0");
    let key = Zkey::open(&circom.zkey()[..]).and_then(|file| file.read(options)).expect("zkey");
    let values = wtns::read(&circom.file("wtns")[..]).expect("wtns");
    let [r, s] = Circom::r_and_s();
    let blinding = Blinding::fixed_for_testing(r, s);
    let proof = prove(backend, &key, &Assignment::from_witness(&values), &blinding, &Silent);
    let want = json::read_proof(&circom.named_file("proof.json")).expect("proof.json");
    assert!(proof.expect("circom pub0") == want, "the proof of circom pub0");

    let bellman = Bellman::named("edge8");
    let params = bellman.file("params");
    let params = bellman::Params::open(&params[..]).and_then(|file| file.read(options));
    let [r, s] = Bellman::r_and_s(&bellman.folder);
    let blinding = Blinding::fixed_for_testing(r, s);
    let assignment = bellman.assignment(&bellman.folder);
    let proof = prove(backend, &params.expect("params"), &assignment, &blinding, &Silent);
    let proof = proof.expect("bellman edge8").to_bytes();
    assert!(proof[..] == bellman.file("proof"), "the proof of bellman edge8");
}

/// The CPU cuts its work by the number of threads, which is that of the machine that runs this.
#[test]
fn the_cpu_is_right_with_any_number_of_threads() {
    for threads in [1, 3, 16, 40] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            println!("{threads} threads");
            Check::queries_are_pure.run(&Cpu::open());
            Check::msm_lengths_g1.run(&Cpu::open());
            Check::ntt_matches_samples.run(&Cpu::open());
        });
    }
}
