//! What only a card can show: that the driver is left alone, that results repeat, and whole proofs of every fixture. Without a
//! card all but the first two are ignored; `REQUIRE_GPU=1` makes that a failure.
#![cfg(feature = "cuda")]

#[path = "common/circuit.rs"]
mod circuit;
#[path = "common/cuda.rs"]
mod cuda;
#[path = "common/vectors.rs"]
mod vectors;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use circuit::Circuit;
use forebay::Error;
use forebay::backend::cpu::Cpu;
use forebay::backend::cuda::{Cuda, DriverCalls, Options, devices};
use forebay::backend::{Backend, DeviceCompact, DeviceMatrix, Matrix, Output, Quotient, Transform};
use forebay::compact::Compact;
use forebay::field::{Field, Fr};
use forebay::format::r1cs::R1cs;
use forebay::format::zkey::{Options as ZkeyOptions, Zkey};
use forebay::format::{Silent, bellman, json, wtns};
use forebay::groth16::{Blinding, prove};
use forebay::key::ProvingKey;
use forebay::setup::write_zkey;
use forebay::witness::Assignment;
use vectors::{Bellman, Circom};

const CHECKED: ZkeyOptions<'static> =
    ZkeyOptions { check_points: true, scratch: None, progress: &Silent };

/// The card's counters and its budget are everyone's: one test at a time.
fn turn() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_card_is_there_where_one_is_required() {
    let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
    let found = devices();
    assert!(!required || found.is_ok(), "REQUIRE_GPU=1, but {}", found.unwrap_err());
}

#[test]
fn a_missing_card_has_a_reason() {
    let Err(error) = Cuda::open(1000, Options::default()) else { panic!("a thousand cards") };
    assert!(
        matches!(&error, Error::NoDevice { backend, reason } if backend == "cuda" && !reason.is_empty()),
        "{error}"
    );
}

/// What must not happen while proofs are made, once the card is warm.
fn memory_calls(calls: DriverCalls) -> [u64; 5] {
    [calls.allocations, calls.frees, calls.maps, calls.synchronizations, calls.memory_infos]
}

fn circom(name: &str) -> (ProvingKey, Assignment) {
    let vector = Circom::named(name);
    let key = Zkey::open(&vector.zkey()[..]).and_then(|file| file.read(CHECKED)).expect(name);
    let values = wtns::read(&vector.file("wtns")[..]).expect(name);
    (key, Assignment::from_witness(&values))
}

fn fixed(r_and_s: [Fr; 2]) -> Blinding {
    let [r, s] = r_and_s;
    Blinding::fixed_for_testing(r, s)
}

#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn a_warm_card_is_asked_for_no_memory() {
    let _turn = turn();
    let card = cuda::card();
    let (key, assignment) = circom("pub0");
    let proof =
        || prove(&card, &key, &assignment, &fixed(Circom::r_and_s()), &Silent).expect("a proof");
    let want = proof();
    // Streams and buffers come back a moment after a proof: two at once, then, is the most there may be.
    for _ in 0..3 {
        assert!(proof() == want);
    }
    let before = card.driver_calls();
    for _ in 0..50 {
        assert!(proof() == want);
    }
    let after = card.driver_calls();
    assert_eq!(memory_calls(after), memory_calls(before), "{before:?} {after:?}");
    assert!(after.launches > before.launches && after.copies > before.copies);
    assert!(after.wipes > before.wipes && after.event_waits > before.event_waits);
}

#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn proofs_of_all_fixtures_equal_the_cpu_s() {
    let _turn = turn();
    let (card, cpu) = (cuda::card(), Cpu::open());
    for vector in Circom::all() {
        let (key, assignment) = circom(&vector.name);
        let proof = |blinding: &Blinding| {
            prove(&card, &key, &assignment, blinding, &Silent).expect(&vector.name)
        };
        let on_card = proof(&fixed(Circom::r_and_s()));
        let on_cpu = prove(&cpu, &key, &assignment, &fixed(Circom::r_and_s()), &Silent);
        assert!(on_card == on_cpu.expect(&vector.name), "{}", vector.name);
        let want = vector.named_file("proof.json");
        assert!(json::write_proof(&on_card) == want, "{}: proof.json", vector.name);
    }
    for vector in Bellman::all() {
        let params = vector.file("params");
        let params = bellman::Params::open(&params[..]).and_then(|file| file.read(CHECKED));
        let key = params.expect("params");
        for part in vector.parts() {
            let assignment = vector.assignment(&part);
            let blinding = fixed(Bellman::r_and_s(&part));
            let proof = prove(&card, &key, &assignment, &blinding, &Silent).expect("a proof");
            assert!(
                proof.to_bytes()[..] == vectors::read(&part.join("proof")),
                "{}",
                part.display()
            );
        }
    }
}

/// A key of 2^14 constraints from fixed secrets, with every kind of point of a key.
#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn a_key_made_on_the_card_is_the_cpu_s() {
    let _turn = turn();
    let wide = Fr::from(3).inverse();
    let r1cs = Circuit::chain(1 << 14, 3, wide, wide).r1cs();
    let r1cs = R1cs::read(&r1cs[..]).expect("r1cs");
    fn key<B: Backend>(backend: &B, r1cs: &R1cs<'_, [u8]>) -> Vec<u8> {
        let mut key = Vec::new();
        let secrets = Circom::secrets();
        write_zkey(backend, r1cs, &secrets, Default::default(), &Silent, &mut key).expect("setup");
        key
    }
    assert!(key(&cuda::card(), &r1cs) == key(&Cpu::open(), &r1cs));
}

/// Full-size scalars from a fixed recurrence.
fn scalars(len: usize) -> Vec<Fr> {
    let step = Fr::from(3).inverse();
    std::iter::successors(Some(step), |x| Some(*x * (*x + step))).take(len).collect()
}

#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn a_thousand_rounds_give_the_same_bytes() {
    let _turn = turn();
    let card = cuda::card();
    const LOG_N: u32 = 13;
    let n = 1usize << LOG_N;
    let lease = card.budget().lease("rounds", 64 << 20).expect("a lease");
    let stream = card.stream().expect("a stream");
    let values = scalars(n);
    let matrix = Matrix {
        row_start: (0..=n as u32).map(|row| 3 * row).collect(),
        column: (0..3 * n as u32).map(|entry| entry.wrapping_mul(7919) % n as u32).collect(),
        coefficient: (0..3 * n as u32).map(|entry| entry % 3).collect(),
        table: vec![Fr::ONE, -Fr::ONE, Fr::from(5).inverse()].into(),
    };
    let matrix = DeviceMatrix::adopt(&card, &stream, &lease, &matrix).expect("a matrix");
    let table = card.ntt_table(&stream, &lease, LOG_N).expect("a table");
    let packed = Arc::new(Compact::pack(&values));
    let round = || {
        let mut x = card.alloc::<Fr>(&lease, "x", n).expect("x");
        let mut a = card.alloc::<Fr>(&lease, "a", n).expect("a");
        let compact =
            DeviceCompact::adopt(&card, &stream, &lease, "packed", &packed).expect("packed");
        card.expand(&stream, compact.packed(), Output::Set, &mut x).expect("expand");
        card.matvec(&stream, &matrix, &x, Output::Set, &mut a).expect("matvec");
        for transform in [
            Transform::Interpolate,
            Transform::EvaluateOdd,
            Transform::InterpolateOdd,
            Transform::Evaluate,
        ] {
            card.ntt(&stream, transform, &table, &mut a).expect("ntt");
        }
        card.quotient(&stream, Quotient::HalfDifference, &mut a, &x).expect("quotient");
        let mut out = vec![Fr::ZERO; n];
        card.download(&stream, &a, 0, &mut out).expect("download");
        blake3::hash(bytemuck::cast_slice(&out))
    };
    let first = round();
    assert!((1..1000).all(|_| round() == first), "seed 1/3");
}

/// Streams that hold buffers for long do not hold up the buffers of others.
#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn a_busy_stream_keeps_its_own_buffers_alone() {
    let _turn = turn();
    let card = cuda::card();
    const LOG_N: u32 = 22;
    let n = 1usize << LOG_N;
    let lease = card.budget().lease("busy", 3 << 28).expect("a lease");
    let (busy, idle) = (card.stream().expect("a stream"), card.stream().expect("a stream"));
    let table = card.ntt_table(&busy, &lease, LOG_N).expect("a table");
    let mut data = card.alloc::<Fr>(&lease, "data", n).expect("data");
    for _ in 0..200 {
        card.ntt(&busy, Transform::Evaluate, &table, &mut data).expect("ntt");
    }
    drop(data);
    let small = card.budget().lease("small", 1 << 10).expect("a lease");
    let started = Instant::now();
    for _ in 0..20 {
        let mut buffer = card.alloc::<u64>(&small, "buffer", 128).expect("a buffer");
        card.upload(&idle, &[7; 128], &mut buffer, 0).expect("upload");
    }
    let (idle_took, left) = (started.elapsed(), lease.bytes());
    card.download(&busy, &table, 0, &mut [Fr::ZERO]).expect("download");
    assert_eq!(left, lease.bytes());
    assert!(
        idle_took < started.elapsed() / 4,
        "{idle_took:?} of {:?}, the time of the busy stream",
        started.elapsed()
    );
}

/// What a lease gives back while the device works returns when the work is done.
#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn a_shrunk_lease_returns_bytes_as_the_device_finishes() {
    let _turn = turn();
    let card = cuda::card();
    const LOG_N: u32 = 20;
    let bytes = 32u64 << LOG_N;
    let before = card.budget().leased();
    let lease =
        card.budget().lease("two vectors", 2 * bytes + card.ntt_table_bytes(LOG_N)).unwrap();
    let stream = card.stream().expect("a stream");
    let table = card.ntt_table(&stream, &lease, LOG_N).expect("a table");
    let mut vectors =
        [0; 2].map(|_| card.alloc::<Fr>(&lease, "a vector", 1 << LOG_N).expect("alloc"));
    for vector in &mut vectors {
        card.ntt(&stream, Transform::Evaluate, &table, vector).expect("ntt");
    }
    drop((vectors, table));
    lease.shrink(bytes);
    // The lease has room for this only when the others are back, for which it waits.
    let last = card.alloc::<Fr>(&lease, "the last", 1 << LOG_N).expect("alloc");
    let patience = Instant::now() + Duration::from_secs(10);
    while card.budget().leased() != before + bytes && Instant::now() < patience {
        std::thread::yield_now();
    }
    assert_eq!(card.budget().leased(), before + bytes);
    let mut zeros = vec![Fr::ONE; 1 << LOG_N];
    card.download(&stream, &last, 0, &mut zeros).expect("download");
    assert!(zeros.iter().all(Field::is_zero), "a new buffer in a used place");
}
