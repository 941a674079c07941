//! The virtual card: its memory, queues, faults and clock, a test a rule, and whole proofs on it.

mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use forebay::backend::cpu::Cpu;
use forebay::backend::virtual_card::{
    Counters, Fault, VirtualBuffer, VirtualCard, VirtualPending, VirtualStream,
};
use forebay::backend::{Backend, Msm, Pending, Quotient};
use forebay::budget::{Lease, Request};
use forebay::curve::{Coordinate, Point};
use forebay::field::{Field, Fp, Fr};
use forebay::format::Silent;
use forebay::groth16::Task;
use forebay::plan;
use forebay::timeline::{Span, Timeline};
use forebay::{Error, Result};

use common::card_model;
use common::fixture::Fixture;

/// Bytes of the cards of most tests.
const BYTES: u64 = 1 << 20;
/// Elements of most buffers: a quotient of them takes 1000 ns, an upload 3200.
const LEN: usize = 1000;
const UPLOAD_NS: u64 = 3200;
const QUOTIENT_NS: u64 = 1000;
const DOWNLOAD_NS: u64 = 6400;

fn card() -> VirtualCard {
    VirtualCard::open(card_model(BYTES))
}

/// All that the card has.
fn lease(card: &VirtualCard) -> Lease {
    card.budget().lease("a test", card.budget().capacity()).expect("a lease")
}

fn zeros(card: &VirtualCard, lease: &Lease) -> VirtualBuffer<Fr> {
    card.alloc(lease, "zeros", LEN).expect("alloc")
}

fn twos(card: &VirtualCard, stream: &VirtualStream, lease: &Lease) -> VirtualBuffer<Fr> {
    let data = Arc::new(vec![Fr::from(2); LEN]);
    card.adopt(stream, lease, "twos", data).expect("adopt")
}

fn subtract(
    card: &VirtualCard,
    stream: &VirtualStream,
    a: &mut VirtualBuffer<Fr>,
    x: &VirtualBuffer<Fr>,
) {
    card.quotient(stream, Quotient::Difference, a, x).expect("quotient");
}

fn read(card: &VirtualCard, stream: &VirtualStream, buffer: &VirtualBuffer<Fr>) -> Result<Vec<Fr>> {
    let mut data = vec![Fr::ONE; LEN];
    card.download(stream, buffer, 0, &mut data).map(|()| data)
}

/// The sum of no points: any result at all.
fn sum_of_nothing(
    card: &VirtualCard,
    stream: &VirtualStream,
    lease: &Lease,
) -> VirtualPending<Point<Fp>> {
    let bases = card.alloc(lease, "bases", 0).expect("alloc");
    let scalars = card.alloc(lease, "scalars", 0).expect("alloc");
    let words = card.msm_scratch::<Fp>(0).div_ceil(8) as usize;
    let mut scratch = card.alloc(lease, "scratch", words).expect("alloc");
    let msm = Msm {
        bases: &bases,
        scalars: &scalars,
        base_range: 0..0,
        range: 0..0,
        density: None,
        raised: None,
    };
    card.msm(stream, msm, &mut scratch).expect("msm")
}

/// No test fails for want of this. It is there so that one that should fail does, on a slow machine too.
fn time_to_err() {
    thread::sleep(Duration::from_millis(50));
}

/// Waits until every lease is back, and checks that so is the memory. In a thread of its own: one that dropped a
/// lease whose work is still queued may not wait for it.
fn assert_all_returned(card: &VirtualCard) {
    thread::scope(|scope| {
        let wait = scope.spawn(|| {
            let everything = [card.budget().capacity()];
            let mut request = Request::new("everything", &everything);
            request.deadline = Some(Instant::now() + Duration::from_secs(60));
            card.budget().wait(request).map(drop)
        });
        wait.join().expect("a thread").expect("every lease ends");
    });
    assert_eq!((card.budget().leased(), card.physical_in_use()), (0, 0));
}

fn assert_failed<T>(what: &str, result: Result<T>, in_operation: &str) {
    match result {
        Err(Error::Device { backend: "virtual", operation, .. }) if operation == in_operation => {}
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: done"),
    }
}

fn assert_lost<T>(what: &str, result: Result<T>) {
    match result {
        Err(Error::DeviceLost { backend: "virtual", .. }) => {}
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: done"),
    }
}

fn assert_refused<T>(what: &str, result: Result<T>, need: u64) {
    match result {
        Err(Error::Refused { backend: "virtual", bytes, .. }) => assert_eq!(bytes, need, "{what}"),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: granted"),
    }
}

/// Starts and ends on a lane, with the names of what was done.
fn spans(timeline: &Timeline, lane: &str) -> Vec<(String, u64, u64)> {
    let lane = timeline.lanes().iter().position(|name| name == lane).expect("a lane");
    let span = |span: &Span| (span.label.clone(), span.start_ns, span.end_ns);
    timeline.spans().iter().filter(|span| span.lane == lane).map(span).collect()
}

#[test]
fn leases_end_when_the_device_is_done() {
    let card = card();
    let stream = card.stream().expect("a stream");
    let lease = lease(&card);
    let mut a = zeros(&card, &lease);
    card.pause();
    card.upload(&stream, &[Fr::ONE; LEN], &mut a, 0).expect("upload");
    drop(zeros(&card, &lease));
    let bytes = (LEN * Fr::BYTES) as u64;
    assert_eq!(card.physical_in_use(), bytes, "a buffer that nothing uses is gone at once");
    drop(a);
    lease.shrink(0);
    assert_eq!((lease.bytes(), card.physical_in_use()), (bytes, bytes), "queued, not done");
    drop((lease, stream));
    assert_eq!((card.budget().leased(), card.physical_in_use()), (bytes, bytes));
    card.resume();
    assert_all_returned(&card);
    assert_eq!((card.counters().allocations, card.counters().frees), (2, 2));
}

#[test]
fn calls_return_before_the_device_begins_and_uploads_are_taken() {
    let card = card();
    let (stream, lease) = (card.stream().expect("a stream"), lease(&card));
    card.pause();
    let mut source = vec![Fr::from(5); LEN];
    let mut a = zeros(&card, &lease);
    card.upload(&stream, &source, &mut a, 0).expect("upload");
    source.fill(Fr::ONE);
    let x = twos(&card, &stream, &lease);
    subtract(&card, &stream, &mut a, &x);
    let sum = sum_of_nothing(&card, &stream, &lease);
    time_to_err();
    assert_eq!(card.timeline().spans(), [], "the card is paused");
    card.resume();
    assert!(sum.wait().expect("a sum") == Point::INFINITY);
    assert_eq!(read(&card, &stream, &a).expect("download"), [Fr::from(3); LEN]);
}

#[test]
fn more_than_the_lease_is_refused_before_the_card_is_asked() {
    let card = card();
    let stream = card.stream().expect("a stream");
    let lease = card.budget().lease("a test", 1000).expect("a lease");
    for result in [
        card.alloc::<u64>(&lease, "words", 126).map(drop),
        card.adopt(&stream, &lease, "words", Arc::new(vec![0u64; 126])).map(drop),
        card.ntt_table(&stream, &lease, 8).map(drop),
    ] {
        assert!(matches!(result, Err(Error::OutOfMemory { left: 1000, .. })), "{result:?}");
    }
    assert_eq!(card.counters(), Counters::default());
}

#[test]
fn what_others_have_taken_is_refused_though_it_was_leased() {
    let mut model = card_model(10_000);
    model.max_buffer_bytes = 9_000;
    let card = VirtualCard::open(model);
    let lease = lease(&card);
    let bytes = |len| card.alloc::<u8>(&lease, "bytes", len);
    assert_refused("above the largest buffer", bytes(9_001), 9_001);
    card.take_memory(3_001).expect("free");
    assert_refused("another process's", card.take_memory(7_000), 7_000);
    assert_refused("a byte too many", bytes(7_000), 7_000);
    let buffer = bytes(6_999).expect("what is left");
    assert_refused("one more", bytes(1), 1);
    assert_eq!(card.foreign_bytes().expect("a query"), 3_001);
    card.give_back_memory(1_000);
    assert_eq!(card.foreign_bytes().expect("a query"), 2_001);
    let more = bytes(999).expect("most of what was given back");
    assert_eq!((card.physical_in_use(), card.physical_high_water()), (7_998, 7_998));
    drop(more);
    assert_eq!((card.physical_in_use(), card.physical_high_water()), (6_999, 7_998));
    drop(lease.reserve("the rest", 3_001).expect("what was refused is not charged"));
    drop((buffer, lease));
    assert_all_returned(&card);
    let want = Counters { allocations: 5, frees: 2, memory_queries: 2, ..Counters::default() };
    assert_eq!(card.counters(), want);
}

#[test]
fn a_failed_launch_sticks_to_its_stream_and_to_who_joins_it() {
    let card = card();
    let [first, second, third] = [0; 3].map(|_| card.stream().expect("a stream"));
    let lease = lease(&card);
    let (mut a, mut b) = (zeros(&card, &lease), zeros(&card, &lease));
    let x = twos(&card, &first, &lease);
    read(&card, &first, &x).expect("download");
    card.inject(Fault::FailLaunch, 2);
    subtract(&card, &first, &mut a, &x);
    let before = sum_of_nothing(&card, &first, &lease);
    subtract(&card, &first, &mut a, &x);
    let behind = sum_of_nothing(&card, &first, &lease);
    assert!(before.wait().expect("it was done before") == Point::INFINITY);
    assert_failed("a result behind it", behind.wait(), "quotient");
    assert_failed("a download behind it", read(&card, &first, &x), "quotient");
    assert_failed("and every other", read(&card, &first, &x), "quotient");

    subtract(&card, &second, &mut b, &x);
    assert_eq!(read(&card, &second, &b).expect("another stream"), [-Fr::from(2); LEN]);
    assert_eq!(read(&card, &second, &a).expect("another stream"), [-Fr::from(2); LEN]);
    card.join(&third, &first).expect("join");
    assert_failed("a stream that waits for it", read(&card, &third, &b), "quotient");

    drop((a, b, x, lease, first, second, third));
    assert_all_returned(&card);
}

#[test]
fn a_failed_copy_sticks_to_its_stream() {
    let card = card();
    let lease = lease(&card);
    let other = card.stream().expect("a stream");
    let mut a = zeros(&card, &lease);

    let stream = card.stream().expect("a stream");
    card.inject(Fault::FailCopy, 0);
    card.upload(&stream, &[Fr::ONE; LEN], &mut a, 0).expect("it is queued");
    assert_failed("behind an upload", read(&card, &stream, &a), "upload");
    assert_failed("behind an upload", sum_of_nothing(&card, &stream, &lease).wait(), "upload");
    assert_eq!(read(&card, &other, &a).expect("another stream"), [Fr::ZERO; LEN]);

    let stream = card.stream().expect("a stream");
    card.inject(Fault::FailCopy, 0);
    let x = twos(&card, &stream, &lease);
    assert_failed("behind an adoption", read(&card, &stream, &x), "adopt");

    let stream = card.stream().expect("a stream");
    card.inject(Fault::FailCopy, 1);
    read(&card, &stream, &a).expect("the first");
    assert_failed("a download", read(&card, &stream, &a), "download");
    assert_failed("behind a download", read(&card, &stream, &a), "download");

    drop((a, x, lease, stream, other));
    assert_all_returned(&card);
}

#[test]
fn an_allocation_is_refused_once() {
    let card = card();
    let lease = lease(&card);
    card.inject(Fault::RefuseAllocation, 1);
    let first = zeros(&card, &lease);
    let bytes = (LEN * Fr::BYTES) as u64;
    assert_refused("the second", card.alloc::<Fr>(&lease, "zeros", LEN), bytes);
    let third = zeros(&card, &lease);
    assert_eq!((lease.high_water(), card.physical_high_water()), (2 * bytes, 2 * bytes));
    drop((first, third, lease));
    assert_all_returned(&card);
}

#[test]
fn a_corrupt_launch_has_one_wrong_bit() {
    let card = card();
    let (stream, lease) = (card.stream().expect("a stream"), lease(&card));
    let x = twos(&card, &stream, &lease);
    let mut results = [0; 3].map(|_| zeros(&card, &lease));
    card.inject(Fault::CorruptLaunch, 1);
    results.iter_mut().for_each(|a| subtract(&card, &stream, a, &x));
    let wrong = results.map(|a| {
        let data = read(&card, &stream, &a).expect("nobody is told");
        let limbs = |data: &[Fr]| bytemuck::cast_slice::<Fr, u64>(data).to_vec();
        let pairs = limbs(&data).into_iter().zip(limbs(&[-Fr::from(2); LEN]));
        pairs.map(|(got, want)| (got ^ want).count_ones()).sum::<u32>()
    });
    assert_eq!(wrong, [0, 1, 0]);

    card.inject(Fault::CorruptLaunch, 0);
    let sum = sum_of_nothing(&card, &stream, &lease).wait().expect("nobody is told");
    assert!(sum != Point::INFINITY, "the sum of nothing is wrong");
}

#[test]
fn a_lost_device_is_lost_for_everything_until_it_is_reset() {
    let card = card();
    let [stream, other] = [0; 2].map(|_| card.stream().expect("a stream"));
    let old_lease = lease(&card);
    let mut old = zeros(&card, &old_lease);
    let x = twos(&card, &stream, &old_lease);
    read(&card, &stream, &x).expect("download");
    card.take_memory(1000).expect("free");
    // An allocation, a copy and a launch count alike.
    card.inject(Fault::LoseDevice, 2);
    let more = zeros(&card, &old_lease);
    card.upload(&other, &[Fr::ONE; 1], &mut old, 0).expect("upload");
    let sum = card.quotient(&stream, Quotient::Difference, &mut old, &x);
    sum.expect("it is queued");
    assert_lost("the stream", read(&card, &stream, &x));
    assert_lost("the stream again", read(&card, &stream, &x));
    assert_lost("another stream", read(&card, &other, &x));
    assert_lost("a launch", card.quotient(&other, Quotient::Product, &mut old, &x));
    assert_lost("a new stream", card.stream());
    assert_lost("a join", card.join(&stream, &other));
    assert_lost("an allocation", card.alloc::<u8>(&old_lease, "bytes", 1));
    assert_lost("a query", card.foreign_bytes());

    card.reopen();
    assert_eq!(card.physical_in_use(), 0, "a reset leaves nothing on the card");
    assert_eq!((card.foreign_bytes().expect("a query"), card.counters().device_syncs), (1000, 1));
    assert_lost("a stream from before", read(&card, &stream, &x));
    let stream = card.stream().expect("a new stream");
    assert_lost("a buffer from before", read(&card, &stream, &x));
    drop((x, more, other));
    assert_eq!(card.physical_in_use(), 0, "what was lost is not given back twice");
    let bytes = (LEN * Fr::BYTES) as u64;
    assert_eq!(old_lease.bytes(), BYTES);
    let mut a = zeros(&card, &old_lease);
    let x = twos(&card, &stream, &old_lease);
    assert_eq!(card.physical_in_use(), 2 * bytes);
    subtract(&card, &stream, &mut a, &x);
    assert_eq!(read(&card, &stream, &a).expect("download"), [-Fr::from(2); LEN]);
    drop((old, a, x, old_lease));
    assert_all_returned(&card);
    assert_eq!(card.timeline().marks().len(), 1, "lost once");
}

#[test]
fn a_reset_of_a_card_that_works_takes_all_from_it() {
    let card = card();
    let (stream, lease) = (card.stream().expect("a stream"), lease(&card));
    let x = twos(&card, &stream, &lease);
    card.reopen();
    assert_eq!(card.physical_in_use(), 0);
    assert_lost("a stream from before", read(&card, &stream, &x));
    let a = zeros(&card, &lease);
    let stream = card.stream().expect("a new stream");
    assert_eq!(read(&card, &stream, &a).expect("download"), [Fr::ZERO; LEN]);
    drop((x, a, lease));
    assert_all_returned(&card);
}

#[test]
fn a_device_is_lost_by_an_allocation_too() {
    let card = card();
    let lease = lease(&card);
    card.inject(Fault::LoseDevice, 0);
    assert_lost("an allocation", card.alloc::<u8>(&lease, "bytes", 1));
    assert_lost("a stream", card.stream());
    drop(lease);
    assert_all_returned(&card);
}

#[test]
fn a_stream_whose_thread_panicked_fails() {
    let card = card();
    let lease = lease(&card);
    let [stream, other] = [0; 2].map(|_| card.stream().expect("a stream"));
    let mut short = card.alloc::<Fr>(&lease, "too short", 1).expect("alloc");
    // A breach of contract: two elements into a buffer of one.
    card.upload(&stream, &[Fr::ONE; 2], &mut short, 0).expect("it is queued");
    assert_failed("behind it", read(&card, &stream, &short), "download");
    let a = zeros(&card, &lease);
    assert_eq!(read(&card, &other, &a).expect("another stream"), [Fr::ZERO; LEN]);
    drop((short, a, lease));
    assert_all_returned(&card);
}

#[test]
fn engines_overlap_with_one_another_and_not_with_themselves() {
    let card = card();
    let [first, second] = [0; 2].map(|_| card.stream().expect("a stream"));
    let lease = lease(&card);
    let (mut a, mut b, x) = (zeros(&card, &lease), zeros(&card, &lease), zeros(&card, &lease));
    subtract(&card, &first, &mut a, &x);
    card.upload(&second, &[Fr::ONE; LEN], &mut b, 0).expect("upload");
    subtract(&card, &first, &mut a, &x);
    subtract(&card, &second, &mut b, &x);
    read(&card, &first, &a).expect("download");
    read(&card, &second, &b).expect("download");

    let timeline = card.timeline();
    let span = |label: &str, start, ns| (label.to_owned(), start, start + ns);
    let second_start = UPLOAD_NS.max(2 * QUOTIENT_NS);
    let compute = [
        span("quotient", 0, QUOTIENT_NS),
        span("quotient", QUOTIENT_NS, QUOTIENT_NS),
        span("quotient", second_start, QUOTIENT_NS),
    ];
    let downloads = [
        span("download", 2 * QUOTIENT_NS, DOWNLOAD_NS),
        span("download", 2 * QUOTIENT_NS + DOWNLOAD_NS, DOWNLOAD_NS),
    ];
    assert_eq!(spans(&timeline, "upload"), [span("upload", 0, UPLOAD_NS)]);
    assert_eq!(spans(&timeline, "compute"), compute);
    assert_eq!(spans(&timeline, "download"), downloads);
    let [c, d] = [&compute[..2], &downloads[..1]];
    assert_eq!(spans(&timeline, "stream 1"), [c, d].concat());
    assert_eq!(card.virtual_now_ns(), 2 * QUOTIENT_NS + 2 * DOWNLOAD_NS);
}

#[test]
fn one_engine_does_one_thing_at_a_time() {
    let card = card();
    let [first, second] = [0; 2].map(|_| card.stream().expect("a stream"));
    let lease = lease(&card);
    let (mut a, mut b, x) = (zeros(&card, &lease), zeros(&card, &lease), zeros(&card, &lease));
    for _ in 0..3 {
        subtract(&card, &first, &mut a, &x);
        subtract(&card, &second, &mut b, &x);
    }
    read(&card, &first, &a).expect("download");
    read(&card, &second, &b).expect("download");
    let compute = spans(&card.timeline(), "compute");
    assert_eq!(compute.len(), 6);
    assert!(compute.windows(2).all(|pair| pair[0].2 == pair[1].1), "{compute:?}");
}

#[test]
fn an_operation_starts_after_what_it_joined_and_what_its_thread_waited_for() {
    let card = card();
    let [first, second, third] = [0; 3].map(|_| card.stream().expect("a stream"));
    let lease = lease(&card);
    let (mut a, mut b) = (zeros(&card, &lease), zeros(&card, &lease));
    let x = twos(&card, &first, &lease);
    card.join(&second, &first).expect("join");
    subtract(&card, &second, &mut a, &x);
    read(&card, &second, &a).expect("download");
    subtract(&card, &third, &mut b, &x);
    read(&card, &third, &b).expect("download");
    let waited_ns = UPLOAD_NS + QUOTIENT_NS + DOWNLOAD_NS;
    let starts: Vec<u64> =
        spans(&card.timeline(), "compute").into_iter().map(|(_, start, _)| start).collect();
    assert_eq!(starts, [UPLOAD_NS, waited_ns]);
}

#[test]
fn a_stream_that_waits_for_another_holds_no_engine() {
    let card = card();
    let [first, second] = [0; 2].map(|_| card.stream().expect("a stream"));
    let lease = lease(&card);
    let (mut a, mut b) = (zeros(&card, &lease), zeros(&card, &lease));
    // The upload keeps the first from the compute engine until the second waits.
    card.pause();
    let x = twos(&card, &first, &lease);
    subtract(&card, &first, &mut a, &x);
    card.join(&second, &first).expect("join");
    subtract(&card, &second, &mut b, &a);
    time_to_err();
    card.resume();
    assert_eq!(read(&card, &second, &b).expect("download"), [Fr::from(2); LEN]);
}

#[test]
fn a_new_stream_starts_when_the_last_bytes_came_back() {
    let card = card();
    let first = card.stream().expect("a stream");
    let lease = lease(&card);
    let mut a = zeros(&card, &lease);
    let x = zeros(&card, &lease);
    let x_too = zeros(&card, &lease);
    subtract(&card, &first, &mut a, &x);
    drop(x);
    subtract(&card, &first, &mut a, &x_too);
    drop((a, x_too, lease));
    assert_all_returned(&card);

    // Another thread: this one has waited for nothing, so only the bytes can tell it.
    thread::scope(|scope| {
        scope.spawn(|| {
            let second = card.stream().expect("a stream");
            let lease = card.budget().lease("another", BYTES).expect("a lease");
            let _unused = [0; 2].map(|_| zeros(&card, &lease));
            let mut a = zeros(&card, &lease);
            card.upload(&second, &[Fr::ONE; LEN], &mut a, 0).expect("upload");
            read(&card, &second, &a).expect("download");
        });
    });
    let timeline = card.timeline();
    let start_ns = 2 * QUOTIENT_NS;
    assert_eq!(spans(&timeline, "upload")[0].1, start_ns);
    let bytes = (LEN * Fr::BYTES) as u64;
    let end_ns = start_ns + UPLOAD_NS + DOWNLOAD_NS;
    // The first x is back after what was queued until it was dropped; what nothing used, when its handle was dropped.
    let points = [(0, 3), (QUOTIENT_NS, 2), (start_ns, 3), (end_ns, 0)];
    let points: Vec<_> = points.map(|(ns, buffers)| (ns, buffers * bytes)).to_vec();
    assert_eq!(timeline.series()[0].points, points);
}

#[test]
fn durations_are_the_models() {
    let card = VirtualCard::open(card_model(1 << 30));
    let (stream, lease) = (card.stream().expect("a stream"), lease(&card));
    let n = 1 << 10;
    let table = card.ntt_table(&stream, &lease, 10).expect("table");
    let mut data = card.alloc::<Fr>(&lease, "data", n).expect("alloc");
    let transform = forebay::backend::Transform::Evaluate;
    card.ntt(&stream, transform, &table, &mut data).expect("ntt");
    fn sum<F: Coordinate>(card: &VirtualCard, stream: &VirtualStream, lease: &Lease) {
        let bases = card.alloc(lease, "bases", 100).expect("alloc");
        let scalars = card.alloc(lease, "scalars", 100).expect("alloc");
        let words = card.msm_scratch::<F>(100).div_ceil(8) as usize;
        let mut scratch = card.alloc(lease, "scratch", words).expect("alloc");
        let msm = Msm {
            bases: &bases,
            scalars: &scalars,
            base_range: 0..100,
            range: 0..100,
            density: None,
            raised: None,
        };
        let sum = card.msm::<F>(stream, msm, &mut scratch).and_then(Pending::wait);
        assert!(sum.expect("msm") == Point::INFINITY);
    }
    sum::<Fp>(&card, &stream, &lease);
    sum::<forebay::field::Fp2>(&card, &stream, &lease);
    let compute: Vec<_> = spans(&card.timeline(), "compute")
        .into_iter()
        .map(|(label, start, end)| (label, end - start))
        .collect();
    let want = [("transform table", 1025), ("ntt", 5 * 512), ("msm", 1000), ("msm", 4000)];
    assert_eq!(compute, want.map(|(label, ns)| (label.to_owned(), ns)));
}

/// A card with exactly the memory of the smallest plan.
fn smallest_card(fixture: &Fixture) -> VirtualCard {
    let ample = VirtualCard::open(card_model(1 << 30));
    let task = Task::new(&fixture.key, &fixture.assignment).expect("a task");
    let ladder = plan::ladder(task.shape(), &ample, &plan::Options::default());
    VirtualCard::open(card_model(ladder.last().expect("a plan").peak()))
}

#[test]
fn proofs_equal_the_cpus_on_a_card_with_no_byte_to_spare() {
    for fixture in Fixture::smallest() {
        let card = smallest_card(&fixture);
        let proof = fixture.prove(&card).expect(&fixture.name);
        let of_cpu = fixture.prove(&Cpu::open()).expect(&fixture.name);
        assert_eq!(proof.to_bytes(), of_cpu.to_bytes(), "{}", fixture.name);
        let leased = card.budget().high_water();
        assert_eq!(leased, card.budget().capacity(), "{}", fixture.name);
        let physical = card.physical_high_water();
        assert_eq!(physical, leased, "{}", fixture.name);
        let timeline = card.timeline();
        let drawn = timeline.series()[0].points.iter().map(|point| point.1).max();
        assert_eq!(drawn, Some(physical), "{}: the same in virtual time", fixture.name);
        let counters = card.counters();
        assert_eq!(counters.allocations, counters.frees, "{}", fixture.name);
        assert_eq!((counters.memory_queries, counters.device_syncs), (0, 0), "{}", fixture.name);
        assert_all_returned(&card);
    }
}

/// In a lease without a byte to spare: a sum's points come into the place of those before the last, while the last sum runs. A point of G1
/// takes 9.6 ns to bring and 10 to add.
#[test]
fn points_are_brought_while_the_sum_before_runs() {
    let fixture = Fixture::synthetic("porep-32gib", 12);
    let task = Task::new(&fixture.key, &fixture.assignment).expect("a task");
    let options = plan::Options { max_in_flight: 1, resident: false, ..plan::Options::default() };
    let plans = |card: &VirtualCard| {
        let mut plans = plan::candidates(task.shape(), card, &options);
        let is_cut = |plan: &plan::Plan| match plan.chunks {
            plan::Chunks::Bases { log_len } => log_len < 10,
            _ => false,
        };
        plans.retain(|plan| plan.quotient == plan::Quotient::PackedRows && is_cut(plan));
        plans
    };
    let count = plans(&VirtualCard::open(card_model(1 << 30))).len();
    assert!(count > 1, "only {count} plans cut the points alone");
    for index in 0..count {
        let card = VirtualCard::open(card_model(1 << 30));
        let plan = plans(&card).swap_remove(index);
        let lease = card.budget().lease("no byte to spare", plan.peak()).expect("a lease");
        task.sums(&card, &plan, None, &lease, &Silent).expect("sums");
        let compute = spans(&card.timeline(), "compute");
        let sums: Vec<_> = compute.into_iter().filter(|(name, ..)| name == "msm").collect();
        let took: u64 = sums.iter().map(|(_, start, end)| end - start).sum();
        let (first, last) = (sums[0].1, sums[sums.len() - 1].2);
        let share = took as f64 / (last - first) as f64;
        assert!(share > 0.85, "{}: sums run in {share:.3} of their time", plan.summary());
    }
}

#[test]
fn the_same_calls_give_the_same_timeline() {
    let run = |fixture: &Fixture| {
        let card = smallest_card(fixture);
        for _ in 0..2 {
            fixture.prove(&card).expect(&fixture.name);
        }
        (card.timeline(), card.virtual_now_ns())
    };
    for fixture in Fixture::smallest() {
        let (first, second) = (run(&fixture), run(&fixture));
        assert!(first.0.spans().len() > 40 && first.1 > 0, "{}", fixture.name);
        assert_eq!(first, second, "{}", fixture.name);
    }
}

#[test]
fn every_fault_in_a_proof_comes_out_and_leaves_nothing() {
    for fixture in Fixture::smallest() {
        let card = smallest_card(&fixture);
        let right = fixture.prove(&card).expect(&fixture.name).to_bytes();
        let clean = card.counters();
        let copies = clean.uploads + clean.downloads;
        let calls = clean.allocations + copies + clean.launches;
        assert!(clean.allocations > 10 && copies > 10 && clean.launches > 10, "{clean:?}");
        type Expected = fn(&Error) -> bool;
        let faults: [(Fault, u64, Expected); 5] = [
            (Fault::RefuseAllocation, clean.allocations, |e| matches!(e, Error::Refused { .. })),
            (Fault::FailCopy, copies, |e| matches!(e, Error::Device { .. })),
            (Fault::FailLaunch, clean.launches, |e| matches!(e, Error::Device { .. })),
            (Fault::CorruptLaunch, clean.launches, |e| matches!(e, Error::SelfVerify(_))),
            (Fault::LoseDevice, calls, |e| matches!(e, Error::DeviceLost { .. })),
        ];
        for (fault, count, expected) in faults {
            for after in 0..count {
                let what = format!("{}: {fault:?} after {after} of {count}", fixture.name);
                card.inject(fault, after);
                match fixture.prove(&card) {
                    Err(error) => assert!(expected(&error), "{what}: {error}"),
                    Ok(_) => panic!("{what}: a proof"),
                }
                assert_all_returned(&card);
                if fault == Fault::LoseDevice {
                    card.reopen();
                }
            }
            let again = fixture.prove(&card).expect("the card works again");
            assert_eq!(again.to_bytes(), right, "{}: after {fault:?}", fixture.name);
        }
    }
}
