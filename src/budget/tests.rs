use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::registry::canonical;
use super::*;

/// Waits, without sleeping longer than it must, until `n` requests wait.
fn until_waiting(budget: &Budget, n: usize) {
    while budget.waiting() != n {
        thread::yield_now();
    }
}

#[test]
fn a_lease_is_whole_or_refused() {
    let budget = Budget::new(100);
    let first = budget.lease("first", 60).unwrap();
    let refused = budget.lease("second", 41).unwrap_err();
    assert!(matches!(refused, Error::OutOfMemory { need: 41, left: 40, .. }), "{refused}");
    drop(first);
    assert_eq!(budget.lease("second", 100).unwrap().bytes(), 100);
    assert_eq!((budget.leased(), budget.high_water(), budget.waiting()), (0, 100, 0));
    let refused = budget.lease("third", 101).unwrap_err();
    assert!(matches!(refused, Error::OutOfMemory { need: 101, left: 100, .. }), "{refused}");
}

#[test]
fn a_lease_outlives_its_handle_while_buffers_live() {
    let budget = Budget::new(100);
    let lease = budget.lease("l", 50).unwrap();
    let buffer = lease.reserve("b", 30).unwrap();
    assert!(lease.reserve("c", 21).is_err());
    drop(lease);
    assert_eq!(budget.leased(), 50);
    drop(buffer);
    assert_eq!(budget.leased(), 0);
}

#[test]
fn a_lease_shrinks_to_what_is_in_use_and_never_grows() {
    let budget = Budget::new(100);
    let lease = budget.lease("l", 50).unwrap();
    let buffers = [20, 5, 5].map(|bytes| lease.reserve("b", bytes).unwrap());
    lease.shrink(10);
    assert_eq!((lease.bytes(), budget.leased()), (30, 30));
    lease.shrink(90);
    assert_eq!((lease.bytes(), budget.leased()), (30, 30));
    // What was asked for is given back as buffers go, and no more than that.
    let [large, small, last] = buffers;
    drop(small);
    assert_eq!((lease.bytes(), budget.leased()), (25, 25));
    drop(large);
    assert_eq!((lease.bytes(), budget.leased()), (10, 10));
    drop(last);
    assert_eq!((lease.bytes(), budget.leased()), (10, 10));
}

#[test]
fn what_is_in_use_beyond_a_shrink_returns_with_its_buffers() {
    let budget = Budget::new(100);
    let lease = budget.lease("l", 50).unwrap();
    let (large, small) = (lease.reserve("large", 30).unwrap(), lease.reserve("small", 5).unwrap());
    lease.shrink(10);
    assert_eq!((lease.bytes(), budget.leased()), (35, 35));
    drop(large);
    assert_eq!((lease.bytes(), budget.leased()), (10, 10));
    assert!(lease.reserve("the rest", 5).is_ok() && lease.reserve("more", 6).is_err());
    drop(small);
    assert_eq!(budget.leased(), 10);
}

#[test]
fn who_needs_returning_bytes_waits_for_them() {
    let budget = Budget::new(100);
    let lease = budget.lease("l", 50).unwrap();
    let (first, _other) = (lease.reserve("a", 40).unwrap(), lease.reserve("b", 5).unwrap());
    assert!(matches!(lease.reserve("c", 10), Err(Error::OutOfMemory { left: 5, .. })));
    first.returning();
    // Not even what is returning would do.
    assert!(matches!(lease.reserve("c", 46), Err(Error::OutOfMemory { .. })));
    let waiter = {
        let lease = lease.clone();
        thread::spawn(move || lease.reserve("c", 45).map(drop))
    };
    thread::sleep(Duration::from_millis(20));
    assert!(!waiter.is_finished());
    drop(first);
    assert!(waiter.join().unwrap().is_ok());

    // A shrink takes the hope away.
    let second = lease.reserve("d", 40).unwrap();
    second.returning();
    let waiter = {
        let lease = lease.clone();
        thread::spawn(move || lease.reserve("e", 45).map(drop))
    };
    lease.shrink(20);
    assert!(matches!(waiter.join().unwrap(), Err(Error::OutOfMemory { .. })));
    drop(second);
    assert_eq!(budget.leased(), 20);
}

#[test]
fn waiters_start_in_order_as_leases_shrink_and_end() {
    let budget = Budget::new(16);
    let first = budget.wait(Request::new("first", &[7, 5])).unwrap();
    let (started, order) = mpsc::channel();
    thread::scope(|scope| {
        for (waiting, bytes) in [(1, 10), (2, 9)] {
            let (budget, started) = (&budget, started.clone());
            scope.spawn(move || {
                let lease = budget.wait(Request::new("next", &[bytes])).unwrap();
                started.send(bytes).unwrap();
                drop(lease);
            });
            until_waiting(budget, waiting);
        }
        // 4 are free. The first in line needs 6 more and gets 7, so 1 is to spare.
        let attempts = [1, 2].map(|bytes| budget.lease("passer", bytes).is_ok());
        first.shrink(5);
        assert_eq!(
            (attempts, order.recv().unwrap(), order.recv().unwrap()),
            ([true, false], 10, 9)
        );
    });
    drop(first);
    assert_eq!((budget.leased(), budget.waiting()), (0, 0));
    assert!(budget.0.lock().waiters.is_empty() && budget.0.lock().holders.is_empty());
}

#[test]
fn what_never_fits_is_refused_at_once() {
    let budget = Budget::new(16);
    let refused = budget.wait(Request::new("key", &[10, 7])).unwrap_err();
    assert!(matches!(refused, Error::NeverFits { need: 17, capacity: 16, .. }), "{refused}");
    assert_eq!(refused.exit_code(), 3);
}

#[test]
fn a_deadline_ends_the_wait_and_lets_the_next_start() {
    let budget = Budget::new(16);
    let first = budget.lease("first", 10).unwrap();
    first.hand_over();
    let soon = Instant::now() + Duration::from_millis(50);
    let request = Request { deadline: Some(soon), ..Request::new("second", &[16]) };
    thread::scope(|scope| {
        let third = scope.spawn(|| {
            until_waiting(&budget, 1);
            budget.wait(Request::new("third", &[6])).unwrap().bytes()
        });
        let error = budget.wait(request).unwrap_err();
        assert!(matches!(&error, Error::Deadline { label } if label == "second"), "{error}");
        assert!(Instant::now() >= soon);
        assert_eq!(third.join().unwrap(), 6);
    });
    let request = Request { deadline: Some(soon), ..Request::new("late from the start", &[1]) };
    assert!(matches!(budget.wait(request), Err(Error::Deadline { .. })));
    let request = Request {
        deadline: Some(Instant::now() + Duration::from_secs(600)),
        ..Request::new("fits", &[1])
    };
    assert!(budget.wait(request).is_ok());
}

#[test]
fn cancelling_ends_all_waits_of_the_job_and_lets_others_start() {
    let budget = Budget::new(16);
    let first = budget.lease("first", 10).unwrap();
    let cancel = Cancel::new();
    thread::scope(|scope| {
        let jobs: Vec<_> = (1..=3)
            .map(|n| {
                let request = Request { cancel: Some(&cancel), ..Request::new("job", &[16]) };
                let budget = &budget;
                let job = scope.spawn(move || budget.wait(request).map(drop));
                until_waiting(budget, n);
                job
            })
            .collect();
        let other = scope.spawn(|| budget.wait(Request::new("other", &[6])).map(drop));
        until_waiting(&budget, 4);
        cancel.clone().cancel();
        for job in jobs {
            let error = job.join().unwrap().unwrap_err();
            assert!(matches!(&error, Error::Cancelled { label } if label == "job"), "{error}");
        }
        other.join().unwrap().unwrap();
    });
    drop(first);
    let request = Request { cancel: Some(&cancel), ..Request::new("too late", &[1]) };
    assert!(matches!(budget.wait(request), Err(Error::Cancelled { .. })));
    assert!(cancel.lock().waits.is_empty());
    assert_eq!(budget.leased(), 0);
}

#[test]
fn nobody_waits_while_holding() {
    let budget = Budget::new(16);
    let lease = budget.lease("the first", 1).unwrap();
    let error = budget.wait(Request::new("the second", &[1])).unwrap_err();
    let text = "the second would wait for memory in a thread that holds the first";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (text, 3));
    // Another budget is another matter, and so is another thread.
    Budget::new(1).wait(Request::new("elsewhere", &[1])).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| budget.wait(Request::new("there", &[1])).map(drop)).join()
    })
    .unwrap()
    .unwrap();
    lease.hand_over();
    drop(budget.wait(Request::new("the second", &[1])).unwrap());
    let resident = lease.into_resident(|| ());
    let pin = resident.pin().unwrap();
    assert!(matches!(budget.wait(Request::new("l", &[1])), Err(Error::HoldAndWait { .. })));
    drop(pin);
    budget.wait(Request::new("l", &[1])).unwrap();
}

/// A resident that counts its evictions, and keeps a buffer of its lease until then.
fn resident(budget: &Budget, bytes: u64, evicted: &Arc<AtomicUsize>) -> Resident {
    let lease = budget.lease("key", bytes).unwrap();
    let buffer = lease.reserve("points", bytes).unwrap();
    let evicted = evicted.clone();
    lease.into_resident(move || {
        drop(buffer);
        evicted.fetch_add(1, Ordering::Relaxed);
    })
}

#[test]
fn the_least_recently_used_residents_make_room_and_no_more_than_needed() {
    let budget = Budget::new(16);
    let evicted = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = || [0, 1, 2].map(|i| evicted[i].load(Ordering::Relaxed));
    let keys = [0, 1, 2].map(|i| resident(&budget, 4, &evicted[i]));
    assert!(keys[0].touch());
    drop(keys[1].pin().unwrap());
    assert_eq!(budget.lease("partition", 8).unwrap().bytes(), 8);
    assert_eq!((counts(), budget.leased()), ([0, 0, 1], 8));
    assert!(keys[2].pin().is_none() && !keys[2].touch());
    assert_eq!(budget.wait(Request::new("partition", &[12])).unwrap().bytes(), 12);
    assert_eq!((counts(), budget.leased()), ([1, 0, 1], 4));
    drop(keys);
    assert_eq!((counts(), budget.leased()), ([1, 0, 1], 0), "an owner drops its own buffers");
}

#[test]
fn nothing_is_evicted_in_vain_or_while_pinned() {
    let budget = Budget::new(16);
    let evicted = Arc::new(AtomicUsize::new(0));
    let [unused, used] = [0, 1].map(|_| resident(&budget, 4, &evicted));
    let pin = used.pin().unwrap();
    assert!(budget.lease("too much", 13).is_err());
    assert_eq!(evicted.load(Ordering::Relaxed), 0);
    thread::scope(|scope| {
        let large = scope.spawn(|| budget.wait(Request::new("large", &[16])).unwrap().bytes());
        until_waiting(&budget, 1);
        assert_eq!(evicted.load(Ordering::Relaxed), 0);
        drop(pin);
        assert_eq!(large.join().unwrap(), 16);
    });
    assert_eq!(evicted.load(Ordering::Relaxed), 2);
    assert!(unused.pin().is_none() && used.pin().is_none());
    assert_eq!(budget.leased(), 0);
}

#[test]
fn what_the_first_in_line_uses_stays_for_it() {
    let budget = Budget::new(16);
    let evicted = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = || [0, 1].map(|i| evicted[i].load(Ordering::Relaxed));
    // Least recently used, so it would go first.
    let [wanted, other] = [0, 1].map(|i| resident(&budget, 4, &evicted[i]));
    let with = |bytes, resident: &Resident| {
        let (releases, uses) = ([bytes], Some(resident.ticket()));
        budget.wait(Request { uses, ..Request::new("partition", &releases) })
    };
    let lease = with(12, &wanted).unwrap();
    assert_eq!(counts(), [0, 1]);
    assert!(wanted.pin().is_some() && other.pin().is_none());
    drop(lease);
    // For others it goes.
    drop(with(16, &other).unwrap());
    assert_eq!(counts(), [1, 1]);
}

#[test]
fn what_others_use_is_not_admitted_but_leases_stay() {
    let budget = Budget::new(16);
    let lease = budget.lease("l", 10).unwrap();
    budget.set_foreign(8);
    assert_eq!((budget.capacity(), lease.bytes()), (8, 10));
    assert!(budget.lease("nothing", 0).is_err());
    let error = budget.wait(Request::new("m", &[9])).unwrap_err();
    assert!(matches!(error, Error::HoldAndWait { .. }), "{error}");
    lease.hand_over();
    let error = budget.wait(Request::new("m", &[9])).unwrap_err();
    assert!(matches!(error, Error::NeverFits { need: 9, capacity: 8, .. }), "{error}");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| budget.wait(Request::new("m", &[8])).unwrap().bytes());
        until_waiting(&budget, 1);
        budget.set_foreign(0);
        budget.set_foreign(99);
        assert_eq!(budget.capacity(), 0);
        budget.set_foreign(8);
        drop(lease);
        assert_eq!(waiter.join().unwrap(), 8);
    });
}

#[test]
fn one_budget_for_each_card() {
    let card = Budget::of_card("00000000:3B:00.0", 16);
    let same = Budget::of_card("0000:3b:00.0", 99);
    assert!(card.is(&same) && same.capacity() == 16);
    assert!(!card.is(&Budget::of_card("0000:3c:00.0", 16)));
    assert_eq!(canonical("3B:00.0"), "0000:3b:00.0");
    assert_eq!(canonical("00010000:3b:00.0"), "10000:3b:00.0");
    assert_eq!(canonical(" GPU-5A0C-11"), "5a0c-11");
}

#[cfg(unix)]
#[test]
fn a_claim_is_seen_while_its_process_lives() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("made");
    let file = AdvisoryFile::open_in(&directory, "../GPU-1/2").unwrap();
    assert_eq!(file.path().parent(), Some(directory.as_path()));
    assert_eq!(file.claim(7).unwrap(), 0);
    let mine = std::fs::read_to_string(file.path()).unwrap();
    let words: Vec<&str> = mine.trim_end().split(' ').collect();
    assert_eq!((words[0], words[2]), (std::process::id().to_string().as_str(), "7"));
    // The parent process lives; with another start it is a process of the same PID that is gone.
    let parent = std::os::unix::process::parent_id();
    let start = advisory::start_of(&advisory::processes(&[parent]).unwrap(), parent).unwrap();
    let text = format!("{mine}{parent} {start} 5\n{parent} 1 6\n4294967294 {start} 4\n");
    std::fs::write(file.path(), text).unwrap();
    assert_eq!(file.claim(8).unwrap(), 5);
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(text, format!("{parent} {start} 5\n{} {} 8\n", words[0], words[1]));
    std::fs::write(file.path(), "garbage\n").unwrap();
    let error = file.claim(8).unwrap_err().to_string();
    assert!(error.ends_with(".leases: line 1: found garbage, expected three numbers"), "{error}");
    std::fs::write(file.path(), "").unwrap();
    file.claim(8).unwrap();
    let path = file.path().to_owned();
    drop(file);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "");
    let error = AdvisoryFile::open_in(Path::new("/dev/null"), "card").unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

/// Many threads, few bytes: the sum of what they hold is never above the capacity, and all are served.
#[test]
fn many_threads_share_a_budget() {
    const CAPACITY: u64 = 100;
    let budget = Budget::new(CAPACITY);
    let evicted = Arc::new(AtomicUsize::new(0));
    let held = AtomicUsize::new(0);
    let hold = |bytes: u64| {
        let before = held.fetch_add(bytes as usize, Ordering::SeqCst);
        assert!(before as u64 + bytes <= CAPACITY, "{before} + {bytes}");
    };
    let release = |bytes: u64| {
        held.fetch_sub(bytes as usize, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        for seed in 0..8u64 {
            let (budget, evicted) = (&budget, &evicted);
            scope.spawn(move || {
                for round in 0..200u64 {
                    let (a, b) = ((seed * 31 + round * 17) % 50 + 1, (seed * 7 + round * 3) % 50);
                    let cancel = Cancel::new();
                    let releases = [a, b];
                    let request =
                        Request { cancel: Some(&cancel), ..Request::new("job", &releases) };
                    let lease = budget.wait(request).unwrap();
                    hold(a + b);
                    release(a);
                    lease.shrink(b);
                    release(b);
                    drop(lease);
                    if round % 50 == seed {
                        // Residents are not in `held`: they end when somebody else needs the bytes.
                        let lease = budget.wait(Request::new("key", &[10])).unwrap();
                        let evicted = evicted.clone();
                        std::mem::forget(lease.into_resident(move || {
                            evicted.fetch_add(1, Ordering::Relaxed);
                        }));
                    }
                }
            });
        }
    });
    assert!(budget.high_water() <= CAPACITY);
    drop(budget.lease("all", CAPACITY).unwrap());
    assert_eq!((budget.leased(), evicted.load(Ordering::Relaxed)), (0, 32));
}

#[test]
fn the_end_of_a_lease_is_told_when_its_last_buffer_is_gone() {
    let budget = Budget::new(16);
    let lease = budget.lease("a lease", 8).unwrap();
    let buffer = lease.reserve("a buffer", 4).unwrap();
    let ended = lease.ended();
    let (told, hears) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        ended.wait();
        told.send(()).unwrap();
    });
    drop(lease);
    assert!(hears.recv_timeout(Duration::from_millis(20)).is_err(), "a buffer is there");
    drop(buffer);
    hears.recv().unwrap();
    waiter.join().unwrap();
    assert_eq!(budget.leased(), 0);
}
