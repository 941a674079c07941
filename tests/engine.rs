//! The engine on virtual cards: a test a rule, every fault of a proof, and a long run.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use common::card_model;
use common::fixture::Fixture;
use forebay::backend::Backend;
use forebay::backend::virtual_card::{Fault, VirtualCard};
use forebay::engine::{
    Devices, Engine, Job, JobHandle, OnFailure, Options, Partition, Priority, Proved, Stats,
};
use forebay::groth16::Task;
use forebay::plan::{self, Plan};
use forebay::proof::Proof;
use forebay::timeline::Class;
use forebay::witness::Assignment;
use forebay::{Error, Result};

fn options() -> Options {
    let (bytes, synthesisers) = (1 << 30, 1);
    Options { staging_bytes: bytes, vector_bytes: bytes, synthesisers, ..Options::default() }
}

/// An engine on cards that a test keeps handles of. A card that was lost is reset when it is opened again.
fn engine_on(cards: &[&VirtualCard], options: Options) -> Engine {
    let mut devices = Devices::new();
    for card in cards {
        let (card, first) = ((*card).clone(), AtomicBool::new(true));
        let open = move || {
            if !first.swap(false, Ordering::SeqCst) {
                card.reopen();
            }
            Ok(card.clone())
        };
        devices.add(open).expect("a virtual card opens");
    }
    Engine::new(devices, options).expect("an engine")
}

fn ample() -> VirtualCard {
    VirtualCard::open(card_model(1 << 30))
}

fn ladder(fixture: &Fixture, options: &plan::Options) -> Vec<Plan> {
    let task = Task::new(&fixture.key, &fixture.assignment).expect("a task");
    plan::ladder(task.shape(), &ample(), options)
}

impl Fixture {
    /// The assignment again, with one value changed so that rows break.
    fn broken(&self) -> Arc<Assignment> {
        let mut values = self.assignment.values.unpack();
        let last = values.len() - 1;
        values[last] += forebay::field::Fr::from(1);
        Arc::new(Assignment::from_witness(&values))
    }
}

fn proofs(proved: &[Proved]) -> Vec<Proof> {
    proved.iter().map(|proved| proved.proof).collect()
}

/// Nothing of a partition is left: residents may stay.
fn assert_idle(card: &VirtualCard, resident: u64) {
    // The last bytes return when the device is done, which may be a moment after the proof.
    let deadline = Instant::now() + Duration::from_secs(10);
    while card.budget().leased() != resident || card.physical_in_use() != resident {
        let (leased, physical) = (card.budget().leased(), card.physical_in_use());
        assert!(Instant::now() < deadline, "{leased} leased, {physical} in use, not {resident}");
        std::thread::yield_now();
    }
    assert_eq!(card.budget().waiting(), 0);
}

/// Waits for a job, and fails rather than hang.
fn wait(handle: JobHandle) -> Result<Vec<Proved>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(handle.wait()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("a job that ends")
}

/// Jobs that hold their worker in synthesis or on a paused card until told.
struct Gate(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

impl Gate {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self(sender, Arc::new(Mutex::new(receiver)))
    }

    /// A partition that is not synthesised before [`Gate::open`].
    fn partition(&self, fixture: &Fixture, bytes: u64) -> Partition {
        let (assignment, gate) = ((*fixture.assignment).clone(), self.1.clone());
        let partition = Partition::synthesised(bytes, move || {
            gate.lock().expect("no panic").recv().expect("the gate opens");
            Ok(assignment)
        });
        partition.expect("random numbers").blinding(fixture.blinding())
    }

    fn open(&self) {
        self.0.send(()).expect("the gate is there");
    }
}

#[test]
fn a_job_of_partitions_gives_their_proofs_in_order() {
    let parts = Fixture::bellman("window_post_3part");
    let right: Vec<Proof> = parts.iter().map(Fixture::right).collect();
    let card = ample();
    let engine = engine_on(&[&card], options());
    let partitions = parts.iter().map(Fixture::partition).collect();
    let job = Job::new("window post", parts[0].key.clone(), partitions);
    let proved = wait(engine.submit(job).expect("submitted")).expect("proofs");
    assert!(proofs(&proved) == right);
    for proved in &proved {
        assert_eq!((proved.backend, proved.tries), ("virtual", 1));
        assert!(proved.plan.starts_with("resident"), "{}", proved.plan);
    }
    // The key was brought once and stays.
    let resident = ladder(&parts[0], &plan::Options::default())[0].resident_bytes;
    assert_idle(&card, resident);
    let counters = card.counters();
    assert_eq!(counters.device_syncs, 0);
    assert_eq!(engine.stats(), Stats { proved: 3, ..Stats::default() });
    drop(engine);
    assert_idle(&card, 0);
}

#[test]
fn a_resident_key_is_raised_once_when_enough_partitions_are_expected() {
    let fixture = Fixture::circom("edge");
    let card = ample();
    let engine = engine_on(&[&card], options());
    let prove = |job: Job| {
        let proved = wait(engine.submit(job).expect("submitted")).expect("proofs");
        assert!(proofs(&proved).iter().all(|proof| *proof == fixture.right()));
        let raised: Vec<_> = proved.iter().map(|one| one.plan.contains("multiples of")).collect();
        assert!(raised.iter().all(|one| *one == raised[0]), "{raised:?}");
        raised[0]
    };
    let raises = || {
        let timeline = card.timeline();
        // In the lane of the card's engine, and in that of a stream.
        timeline.spans().iter().filter(|span| span.label == "raise").count() / 2
    };
    assert!(!prove(fixture.job("few", 3)));
    let plain = ladder(&fixture, &plan::Options::default())[0].resident_bytes;
    assert_idle(&card, plain);
    // The plain key is replaced.
    let many = plan::Options { partitions: 1_000_000, ..plan::Options::default() };
    let many = ladder(&fixture, &many).swap_remove(0);
    assert!(prove(fixture.job("first of many", 3).expecting(1_000_000)));
    assert_idle(&card, many.resident_bytes);
    let once = raises();
    assert_eq!(once, many.raised.len());
    // It is there, whoever comes.
    assert!(prove(fixture.job("few again", 3)));
    assert!(prove(fixture.job("more of many", 3).expecting(1_000_000)));
    assert_eq!(raises(), once);
    assert_idle(&card, many.resident_bytes);
}

#[test]
fn high_water_is_what_the_plan_needs_on_a_card_of_any_size() {
    let fixture = Fixture::circom("edge");
    for max_in_flight in [1, 2] {
        let plan_options = plan::Options { max_in_flight, ..plan::Options::default() };
        let ladder = ladder(&fixture, &plan_options);
        assert!(ladder.len() > 5);
        for plan in ladder {
            let card = VirtualCard::with_capacity(card_model(1 << 30), plan.needs());
            let engine = engine_on(&[&card], Options { plan: plan_options, ..options() });
            let proved = wait(engine.submit(fixture.job("edge", 4)).unwrap()).expect("proofs");
            for proved in &proved {
                assert_eq!(proved.plan, plan.summary());
            }
            let high_water = card.physical_high_water();
            let alone = plan.resident_bytes + plan.peak();
            assert!((alone..=plan.needs()).contains(&high_water), "{high_water}: {plan:?}");
            if plan.in_flight == 1 && max_in_flight == 1 {
                assert_eq!(high_water, plan.needs(), "{}", plan.summary());
            }
            assert!(card.budget().high_water() <= plan.needs());
        }
    }
}

#[test]
fn nothing_fits_is_said_with_the_bytes_of_the_smallest_plan() {
    let fixture = Fixture::circom("edge");
    let smallest = ladder(&fixture, &plan::Options::default()).last().unwrap().needs();
    let (small, large) = (VirtualCard::open(card_model(smallest - 1)), ample());
    let engine = engine_on(&[&small], options());
    let error = wait(engine.submit(fixture.job("edge", 2)).unwrap()).unwrap_err();
    assert!(matches!(error, Error::NeverFits { need, .. } if need == smallest), "{error}");
    // With another device it goes there.
    let engine = engine_on(&[&small, &large], options());
    assert_eq!(wait(engine.submit(fixture.job("edge", 2)).unwrap()).unwrap().len(), 2);
    assert_eq!(small.counters().launches, 0);
    // Or to the CPU, if that is wanted, and it is said.
    let engine = engine_on(&[&small], Options { on_failure: OnFailure::Cpu, ..options() });
    let proved = wait(engine.submit(fixture.job("edge", 2)).unwrap()).unwrap();
    assert!(proved.iter().all(|proved| proved.backend == "cpu"));
    assert_eq!(engine.stats().on_cpu, 2);
}

#[test]
fn every_failure_is_retried_and_every_proof_is_right() {
    let fixture = Fixture::circom("pub0");
    let right = fixture.right();
    // Two workers on one card, with a key that is streamed: everything is allocated for every proof.
    let plan = plan::Options { resident: false, ..plan::Options::default() };
    let card = ample();
    let engine = engine_on(&[&card], Options { plan, ..options() });
    let prove = |count| wait(engine.submit(fixture.job("pub0", count)).unwrap());
    prove(1).expect("a proof");
    let clean = card.counters();
    let copies = clean.uploads + clean.downloads;
    let calls = clean.allocations + copies + clean.launches;
    let faults = [
        (Fault::RefuseAllocation, clean.allocations),
        (Fault::FailCopy, copies),
        (Fault::FailLaunch, clean.launches),
        (Fault::CorruptLaunch, clean.launches),
        (Fault::LoseDevice, calls),
    ];
    let mut failures = 0;
    for (fault, count) in faults {
        for after in 0..count {
            card.inject(fault, after);
            let proved =
                prove(2).unwrap_or_else(|error| panic!("{fault:?} after {after}: {error}"));
            assert!(proofs(&proved) == [right, right], "{fault:?} after {after}");
            failures += 1;
            assert_idle(&card, 0);
        }
    }
    let Stats { proved, retried, replanned, on_cpu, failed, .. } = engine.stats();
    assert_eq!((proved, on_cpu, failed), (1 + 2 * failures, 0, 0));
    assert_eq!(replanned, clean.allocations);
    // Two partitions may be lost with one device.
    assert!(retried + replanned >= failures && retried <= 2 * failures, "{retried}");
}

#[test]
fn what_fails_twice_is_an_error_or_goes_to_the_cpu_and_the_next_job_succeeds() {
    let fixture = Fixture::circom("pub0");
    let plan = plan::Options { resident: false, max_in_flight: 1, ..plan::Options::default() };
    for fault in
        [Fault::FailLaunch, Fault::CorruptLaunch, Fault::LoseDevice, Fault::RefuseAllocation]
    {
        for on_failure in [OnFailure::Error, OnFailure::Cpu] {
            let card = ample();
            let engine = engine_on(&[&card], Options { plan, on_failure, ..options() });
            (0..1000).for_each(|after| card.inject(fault, after));
            let result = wait(engine.submit(fixture.job("pub0", 1)).unwrap());
            card.forgive();
            let stats = engine.stats();
            match on_failure {
                OnFailure::Error => {
                    let error = result.unwrap_err();
                    let expected = match fault {
                        Fault::CorruptLaunch => matches!(error, Error::SelfVerify(_)),
                        Fault::LoseDevice => matches!(error, Error::DeviceLost { .. }),
                        Fault::RefuseAllocation => matches!(error, Error::Refused { .. }),
                        _ => matches!(error, Error::Device { .. }),
                    };
                    assert!(expected, "{fault:?}: {error}");
                    assert_eq!((stats.failed, stats.on_cpu), (1, 0));
                }
                OnFailure::Cpu => {
                    let proved = result.expect("the CPU's proof");
                    assert!(proofs(&proved) == [fixture.right()]);
                    assert_eq!((proved[0].backend, stats.on_cpu, stats.failed), ("cpu", 1, 0));
                }
            }
            let proved =
                wait(engine.submit(fixture.job("pub0", 1)).unwrap()).expect("the next job");
            assert_eq!(proved[0].backend, "virtual");
            assert_idle(&card, 0);
        }
    }
}

#[test]
fn a_device_that_stays_lost_leaves_its_partitions_to_the_others() {
    let fixture = Fixture::circom("pub0");
    for others in [0, 1] {
        let (lost, mut devices) = (ample(), Devices::new());
        let (card, first) = (lost.clone(), AtomicBool::new(true));
        let open_once = move || match first.swap(false, Ordering::SeqCst) {
            true => Ok(card.clone()),
            false => {
                Err(Error::NoDevice { backend: "virtual".into(), reason: "it is gone".into() })
            }
        };
        devices.add(open_once).expect("a card");
        (0..others).for_each(|_| devices.add(|| Ok(ample())).expect("a card"));
        let engine = Engine::new(devices, options()).expect("an engine");
        lost.inject(Fault::LoseDevice, 3);
        // Jobs until the lost device has had its turn.
        let prove = || wait(engine.submit(fixture.job("pub0", 4)).unwrap());
        let outcome = (0..100).map(|_| prove()).find(|_| engine.usage().len() == others);
        let outcome = outcome.expect("a hundred jobs touch both devices");
        for outcome in [outcome, prove()] {
            match outcome {
                Ok(proved) => assert!(proofs(&proved) == [fixture.right(); 4] && others == 1),
                Err(error) => {
                    assert!(others == 0 && matches!(error, Error::NoDevice { .. }), "{error}");
                }
            }
        }
    }
}

#[test]
fn memory_that_others_take_is_planned_around() {
    let fixture = Fixture::circom("edge");
    let one = plan::Options { max_in_flight: 1, ..plan::Options::default() };
    let ladder = ladder(&fixture, &one);
    let (largest, smallest) = (&ladder[0], &ladder[ladder.len() - 1]);
    let card = VirtualCard::open(card_model(largest.needs()));
    let engine = engine_on(&[&card], Options { plan: one, ..options() });
    // After the engine has asked what others use, somebody takes all but the smallest plan's bytes.
    card.take_memory(largest.needs() - smallest.needs()).expect("nothing is in use");
    let proved = wait(engine.submit(fixture.job("edge", 1)).unwrap()).expect("a smaller plan");
    assert_eq!(proved[0].plan, smallest.summary());
    assert_eq!(engine.stats(), Stats { proved: 1, replanned: 1, ..Stats::default() });
    // With even less there is no plan, which is said with what there is; when it is back, proofs go on.
    card.take_memory(1).expect("nothing is in use");
    card.inject(Fault::RefuseAllocation, 0);
    let error = wait(engine.submit(fixture.job("edge", 1)).unwrap()).unwrap_err();
    let there = smallest.needs() - 1;
    assert!(matches!(error, Error::NeverFits { capacity, .. } if capacity == there), "{error}");
    card.give_back_memory(1);
    let engine = engine_on(&[&card], Options { plan: one, ..options() });
    assert!(wait(engine.submit(fixture.job("edge", 1)).unwrap()).is_ok());
}

#[test]
fn a_wrong_witness_is_an_error_and_not_a_proof() {
    let fixture = Fixture::circom("edge");
    for on_failure in [OnFailure::Error, OnFailure::Cpu] {
        let card = ample();
        let engine = engine_on(&[&card], Options { on_failure, ..options() });
        let partition = Partition::new(fixture.broken()).unwrap();
        let job = Job::new("broken", fixture.key.clone(), vec![partition]);
        let error = wait(engine.submit(job).unwrap()).unwrap_err();
        assert!(matches!(error, Error::SelfVerify(_)), "{error}");
        assert!(wait(engine.submit(fixture.job("right", 1)).unwrap()).is_ok());
    }
}

#[test]
fn a_job_that_fails_ends_at_once_and_leaves_the_others_alone() {
    let fixture = Fixture::circom("edge");
    let card = ample();
    let engine = engine_on(&[&card], options());
    let others: Vec<_> = (0..3).map(|_| engine.submit(fixture.job("other", 2)).unwrap()).collect();
    let mut partitions: Vec<Partition> = (0..4).map(|_| fixture.partition()).collect();
    let fails = Partition::synthesised(1000, || Err(Error::Unsatisfied("row 7".into()))).unwrap();
    partitions.insert(1, fails);
    let panics = Partition::synthesised(1000, || panic!("out of ideas")).unwrap();
    let failing = engine.submit(Job::new("failing", fixture.key.clone(), partitions)).unwrap();
    let panicking =
        engine.submit(Job::new("panicking", fixture.key.clone(), vec![panics])).unwrap();
    assert!(matches!(wait(failing), Err(Error::Unsatisfied(_))));
    let error = wait(panicking).unwrap_err();
    assert!(matches!(&error, Error::Internal(text) if text.contains("out of ideas")), "{error}");
    others.into_iter().for_each(|other| assert_eq!(wait(other).unwrap().len(), 2));
    engine.drain();
    drop(engine);
    assert_idle(&card, 0);
}

#[test]
fn cancel_and_deadline_end_a_job_wherever_it_is() {
    let fixture = Fixture::circom("edge");
    let plan = plan::Options { resident: false, max_in_flight: 1, ..plan::Options::default() };
    // Room for one: the first job is on the paused card, the second waits for memory, the third for synthesis.
    let needs = ladder(&fixture, &plan)[0].needs();
    for late in [false, true] {
        let card = VirtualCard::with_capacity(card_model(1 << 30), needs);
        let engine = engine_on(&[&card], Options { plan, ..options() });
        card.pause();
        let gate = Gate::new();
        let deadline = |job: Job| match late {
            true => job.deadline(Instant::now() + Duration::from_millis(1500)),
            false => job,
        };
        let on_card = engine.submit(deadline(fixture.job("on the card", 1))).unwrap();
        while card.budget().leased() == 0 {
            assert!(!on_card.is_finished(), "late before it was on the card");
            std::thread::yield_now();
        }
        let in_line = engine.submit(deadline(fixture.job("in line", 2))).unwrap();
        let raw = Job::new(
            "raw",
            fixture.key.clone(),
            vec![gate.partition(&fixture, 1000), gate.partition(&fixture, 1000)],
        );
        let raw = engine.submit(deadline(raw)).unwrap();
        if !late {
            [&on_card, &in_line, &raw].iter().for_each(|handle| handle.cancel());
        }
        for handle in [in_line, raw, on_card] {
            let error = wait(handle).unwrap_err();
            match late {
                true => assert!(matches!(error, Error::Deadline { .. }), "{error}"),
                false => assert!(matches!(error, Error::Cancelled { .. }), "{error}"),
            }
        }
        card.resume();
        gate.open();
        wait(engine.submit(fixture.job("next", 2)).unwrap()).expect("the next job");
        drop(engine);
        assert_idle(&card, 0);
    }
}

#[test]
fn the_urgent_come_first_and_nobody_starves() {
    let fixture = Fixture::circom("edge");
    let plan = plan::Options { resident: false, max_in_flight: 1, ..plan::Options::default() };
    let needs = ladder(&fixture, &plan)[0].needs();
    let card = VirtualCard::with_capacity(card_model(1 << 30), needs);
    let engine = engine_on(&[&card], Options { plan, record: true, ..options() });
    card.pause();
    let first = engine.submit(fixture.job("first", 1)).unwrap();
    while card.budget().leased() == 0 {
        std::thread::yield_now();
    }
    let low = engine.submit(fixture.job("low", 1).priority(Priority::Low)).unwrap();
    let normal = engine.submit(fixture.job("normal", 1)).unwrap();
    let high: Vec<_> = (0..12)
        .map(|i| {
            engine.submit(fixture.job(&format!("high {i}"), 1).priority(Priority::High)).unwrap()
        })
        .collect();
    card.resume();
    for handle in high.into_iter().chain([first, low, normal]) {
        wait(handle).unwrap();
    }
    // The order of claims is the order in which partitions ran: one at a time on this card.
    let timeline = engine.timeline().unwrap();
    let mut runs: Vec<_> =
        timeline.spans().iter().filter(|span| span.class == Class::Wait).collect();
    runs.sort_by_key(|span| span.end_ns);
    let last = |label: &str| runs.iter().rposition(|span| span.label == label).unwrap();
    assert!(last("high 0") < last("normal"), "{runs:?}");
    assert!(last("normal") < last("high 11"), "overtaken {runs:?}");
    assert!(last("low") < last("high 11"), "overtaken {runs:?}");
}

#[test]
fn partitions_are_synthesised_only_when_the_host_has_room() {
    let fixture = Fixture::circom("edge");
    let bytes = fixture.assignment.bytes();
    let card = ample();
    // Room for two assignments and a bit.
    let engine = engine_on(&[&card], Options { staging_bytes: 5 * bytes / 2, ..options() });
    card.pause();
    let made = Arc::new(AtomicUsize::new(0));
    let partition = || {
        let (made, assignment) = (made.clone(), (*fixture.assignment).clone());
        Partition::synthesised(bytes, move || {
            made.fetch_add(1, Ordering::SeqCst);
            Ok(assignment)
        })
    };
    let partitions = (0..6).map(|_| partition().unwrap()).collect();
    let handle = engine.submit(Job::new("six", fixture.key.clone(), partitions)).unwrap();
    while made.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(made.load(Ordering::SeqCst), 2);
    card.resume();
    assert_eq!(wait(handle).unwrap().len(), 6);
    // More than there is at all is an error, not a wait.
    let huge = Partition::synthesised(3 * bytes, || unreachable!("never admitted")).unwrap();
    let huge = engine.submit(Job::new("huge", fixture.key.clone(), vec![huge])).unwrap();
    assert!(matches!(wait(huge), Err(Error::NeverFits { .. })));
}

#[test]
fn assignments_larger_than_was_expected_wait_for_room_again() {
    let fixture = Fixture::circom("edge");
    let bytes = fixture.assignment.bytes();
    let card = ample();
    let options = Options { staging_bytes: 3 * bytes / 2, synthesisers: 2, ..options() };
    let engine = engine_on(&[&card], options);
    card.pause();
    let made = Arc::new(AtomicUsize::new(0));
    let partition = || {
        let (made, assignment) = (made.clone(), (*fixture.assignment).clone());
        let make = move || {
            made.fetch_add(1, Ordering::SeqCst);
            Ok(assignment)
        };
        Partition::estimated(move || bytes / 8, make).unwrap()
    };
    let partitions = (0..4).map(|_| partition()).collect();
    let handle = engine.submit(Job::new("four", fixture.key.clone(), partitions)).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // One stands ready, and each synthesiser waits with one more.
    assert!(made.load(Ordering::SeqCst) <= 3);
    card.resume();
    assert_eq!(wait(handle).unwrap().len(), 4);
}

#[test]
fn partitions_may_borrow_from_the_caller() {
    let fixture = Fixture::circom("edge");
    let engine = engine_on(&[&ample()], Options { synthesisers: 3, ..options() });
    let (assignment, bytes) = (&fixture.assignment, fixture.assignment.bytes());
    let prove = |fails: Option<usize>| {
        let make = |i| {
            move || match fails == Some(i) {
                true => Err(Error::Unsatisfied(format!("number {i}"))),
                false => Ok((**assignment).clone()),
            }
        };
        let partitions = (0..5).map(|i| (make(i), fixture.blinding())).collect();
        let key = fixture.key.clone();
        engine.prove_borrowed("borrowed", key, Priority::Normal, move || bytes, partitions)
    };
    assert!(proofs(&prove(None).unwrap()) == vec![fixture.right(); 5]);
    assert!(matches!(prove(Some(3)), Err(Error::Unsatisfied(why)) if why == "number 3"));
    assert!(proofs(&prove(None).unwrap()) == vec![fixture.right(); 5], "the engine goes on");
}

#[test]
fn partitions_go_to_whichever_device_has_room() {
    let fixture = Fixture::circom("edge");
    let (busy, free) = (ample(), ample());
    let engine = engine_on(&[&busy, &free], options());
    busy.pause();
    let proved = {
        let handle = engine.submit(fixture.job("edge", 12)).unwrap();
        // The paused card has at most what its workers took; the rest is done by the other.
        while handle.done().0 < 12 - 3 {
            std::thread::yield_now();
        }
        busy.resume();
        wait(handle).unwrap()
    };
    assert_eq!(proved.len(), 12);
    assert!(free.counters().launches > busy.counters().launches);
}

#[test]
fn two_keys_share_a_card_that_holds_one() {
    let (edge, perm) = (Fixture::circom("edge"), Fixture::circom("full"));
    let one = plan::Options { max_in_flight: 1, ..plan::Options::default() };
    let needs = [&edge, &perm].map(|fixture| ladder(fixture, &one)[0].needs());
    let card = VirtualCard::with_capacity(card_model(1 << 30), *needs.iter().max().unwrap());
    let engine = engine_on(&[&card], Options { plan: one, ..options() });
    for _ in 0..3 {
        let handles = [&edge, &perm].map(|fixture| engine.submit(fixture.job("a job", 2)).unwrap());
        for handle in handles {
            wait(handle).unwrap();
        }
    }
    drop(engine);
    assert_idle(&card, 0);
}

#[test]
fn copies_overlap_kernels_and_kernels_never_wait_for_the_host() {
    let fixture = Fixture::bellman("mimc322").remove(0);
    let card = ample();
    let plan = plan::Options { resident: false, ..plan::Options::default() };
    let engine = engine_on(&[&card], Options { plan, ..options() });
    wait(engine.submit(fixture.job("mimc", 6)).unwrap()).unwrap();
    let timeline = card.timeline();
    let lane = |name: &str| timeline.lanes().iter().position(|lane| lane == name).unwrap();
    let of = |name: &str| -> Vec<(u64, u64)> {
        let lane = lane(name);
        let spans = timeline.spans().iter().filter(|span| span.lane == lane);
        spans.map(|span| (span.start_ns, span.end_ns)).collect()
    };
    let (upload, compute) = (of("upload"), of("compute"));
    let total = |spans: &[(u64, u64)]| spans.iter().map(|(start, end)| end - start).sum::<u64>();
    let overlap: u64 = upload
        .iter()
        .flat_map(|a| compute.iter().map(move |b| b.1.min(a.1).saturating_sub(b.0.max(a.0))))
        .sum();
    // Points are brought while the last sum runs; only a proof's first copies have nothing to hide behind.
    assert!(2 * overlap > total(&upload), "{overlap} of {} ns overlap", total(&upload));
}

#[test]
fn a_handle_is_a_future() {
    struct Flag(mpsc::SyncSender<()>);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.try_send(()).ok();
        }
    }
    let fixture = Fixture::circom("edge");
    let card = ample();
    let engine = engine_on(&[&card], options());
    card.pause();
    let (sender, receiver) = mpsc::sync_channel(1);
    let waker = Arc::new(Flag(sender)).into();
    let mut context = Context::from_waker(&waker);
    let mut handle = pin!(engine.submit(fixture.job("edge", 2)).unwrap());
    assert!(handle.as_mut().poll(&mut context).is_pending());
    card.resume();
    receiver.recv_timeout(Duration::from_secs(60)).expect("woken");
    match handle.as_mut().poll(&mut context) {
        Poll::Ready(Ok(proved)) => assert_eq!(proved.len(), 2),
        other => panic!("{:?}", other.map(|result| result.map(|proved| proved.len()))),
    }
}

#[test]
fn dropping_an_engine_ends_what_waits() {
    let fixture = Fixture::circom("edge");
    let card = ample();
    let engine = engine_on(&[&card], options());
    card.pause();
    let handles: Vec<_> = (0..5).map(|_| engine.submit(fixture.job("edge", 2)).unwrap()).collect();
    let closer = std::thread::spawn(move || drop(engine));
    for handle in handles {
        assert!(matches!(wait(handle), Err(Error::Cancelled { .. })));
    }
    card.resume();
    closer.join().unwrap();
    assert_idle(&card, 0);
}

/// 200 proofs over 3 workers: the ledger is as after the first, and the process does not grow.
#[test]
fn a_long_run_leaves_nothing_behind() {
    let fixture = Fixture::circom("edge");
    let card = ample();
    let engine = engine_on(&[&card], options());
    let round = || wait(engine.submit(fixture.job("edge", 20)).unwrap()).expect("20 proofs");
    round();
    let resident = card.budget().leased();
    let before = resident_kib();
    for _ in 0..10 {
        assert_eq!(round().len(), 20);
        assert_idle(&card, resident);
    }
    let grown = resident_kib().saturating_sub(before);
    // The card's own record of its spans grows by less than that.
    assert!(grown < 16 << 10, "{grown} KiB more after 200 proofs");
    assert_eq!(engine.stats(), Stats { proved: 220, ..Stats::default() });
}

/// The process's resident memory, where the system tells (Linux).
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
