//! The rules one by one, and all of them against a slow and literal reading of the module's text.

use proptest::prelude::*;

use super::*;

/// Requests that are admitted at once.
fn start(admission: &mut Admission, releases: &[u64]) -> Ticket {
    let ticket = admission.request(releases, Priority::Normal).unwrap();
    assert_eq!(admission.admit(), [ticket]);
    ticket
}

fn queue(admission: &mut Admission, releases: &[u64]) -> Ticket {
    admission.request(releases, Priority::Normal).unwrap()
}

#[test]
fn a_request_above_the_capacity_is_refused_at_once() {
    let mut admission = Admission::new(10);
    let refused = admission.request(&[6, 5], Priority::High);
    assert_eq!(refused, Err(TooLarge { need: 11, capacity: 10 }));
    let refused = admission.request(&[u64::MAX, 1], Priority::High);
    assert_eq!(refused, Err(TooLarge { need: u64::MAX, capacity: 10 }));
    assert_eq!(admission.waiting(), 0);
}

#[test]
fn the_next_partition_starts_when_the_quotient_of_the_last_is_done() {
    let mut admission = Admission::new(16);
    let first = start(&mut admission, &[7, 5]);
    let next = queue(&mut admission, &[7, 4]);
    assert_eq!((admission.admit(), admission.deficit()), (vec![], Some(7)));
    admission.release(first, 7);
    assert_eq!((admission.admit(), admission.deficit()), (vec![next], None));
    assert_eq!((admission.leased(), admission.high_water()), (16, 16));
    admission.release(first, 5);
    admission.release(next, 11);
    assert_eq!((admission.leased(), admission.high_water()), (0, 16));
}

#[test]
fn first_in_first_out_within_a_priority() {
    let mut admission = Admission::new(10);
    let running = start(&mut admission, &[10]);
    let mut request = |priority| admission.request(&[1], priority).unwrap();
    let [low, normal, high, late] =
        [Priority::Low, Priority::Normal, Priority::High, Priority::Normal].map(&mut request);
    admission.release(running, 10);
    assert_eq!(admission.admit(), [high, normal, late, low]);
}

#[test]
fn ageing_ends_the_wait_of_a_low_request() {
    let mut admission = Admission::new(10);
    let mut running = start(&mut admission, &[10]);
    let low = admission.request(&[10], Priority::Low).unwrap();
    for served in 0..=2 * AGEING {
        admission.request(&[10], Priority::High).unwrap();
        admission.release(running, 10);
        running = admission.admit()[0];
        assert_eq!(running == low, served == 2 * AGEING, "after {served} others");
    }
}

#[test]
fn a_passer_must_leave_room_for_the_head_at_the_release_that_lets_it_start() {
    // 10 of 16 are leased, and the head needs 4 more than are free: it starts at the release of 7.
    let state = || {
        let mut admission = Admission::new(16);
        start(&mut admission, &[7, 3]);
        let head = queue(&mut admission, &[10]);
        assert_eq!((admission.admit(), admission.deficit()), (vec![], Some(4)));
        (admission, head)
    };
    let (mut admission, _) = state();
    let passer = queue(&mut admission, &[3]);
    assert_eq!(admission.admit(), [passer], "7 come back, 4 are needed: 3 are to spare");
    queue(&mut admission, &[1]);
    assert_eq!(admission.admit(), [], "a second one would delay the head");
    let (mut admission, head) = state();
    let passer = queue(&mut admission, &[4]);
    assert_eq!(admission.admit(), [], "4 would delay it until the release of 3");
    // Without the head nothing is in the way.
    assert!(admission.cancel(head) && !admission.cancel(head));
    assert_eq!(admission.admit(), [passer]);
}

#[test]
fn sums_over_several_leases_count() {
    // Neither lease alone gives back the 8 that the head needs; both give 11, and 3 are to spare.
    let mut admission = Admission::new(20);
    start(&mut admission, &[5]);
    start(&mut admission, &[6]);
    queue(&mut admission, &[17]);
    queue(&mut admission, &[4]);
    let passer = queue(&mut admission, &[3]);
    assert_eq!((admission.deficit(), admission.admit()), (Some(8), vec![passer]));
}

#[test]
fn too_many_sums_let_nobody_pass() {
    // Leases of 2, 4, 8, ...: every even number is a total. The head needs an odd one, so 1 is to spare.
    let passers = |leases: u32| {
        let mut admission = Admission::new((2 << leases) + 1);
        (1..=leases).for_each(|bit| _ = start(&mut admission, &[1 << bit]));
        queue(&mut admission, &[(2 << leases) - 2]);
        queue(&mut admission, &[1]);
        admission.admit().len()
    };
    assert_eq!((passers(3), passers(12), passers(13)), (1, 1, 0));
    // Equal leases have few sums, however many they are.
    let mut admission = Admission::new(1003);
    (0..500).for_each(|_| _ = start(&mut admission, &[2]));
    queue(&mut admission, &[4]);
    let passer = queue(&mut admission, &[1]);
    assert_eq!(admission.admit(), [passer]);
}

#[test]
fn other_amounts_than_declared_are_taken_off_the_front() {
    let mut admission = Admission::new(20);
    let running = start(&mut admission, &[7, 5]);
    admission.release(running, 9);
    assert_eq!((admission.held(running), admission.leased()), (3, 3));
    queue(&mut admission, &[18]);
    let passer = queue(&mut admission, &[2]);
    assert_eq!(admission.admit(), [passer], "3 are to come at once, and 1 is needed");
    admission.release(running, 3);
    assert_eq!(admission.leased(), 2);
}

#[test]
fn a_request_above_a_fallen_capacity_is_set_aside() {
    let mut admission = Admission::new(20);
    let running = start(&mut admission, &[15]);
    let large = queue(&mut admission, &[18]);
    admission.set_capacity(10);
    let small = queue(&mut admission, &[10]);
    queue(&mut admission, &[0]);
    assert_eq!(admission.admit(), [], "more is leased than the capacity is now");
    assert_eq!((admission.free(), admission.deficit()), (0, Some(15)));
    admission.release(running, 15);
    assert_eq!(admission.admit().first(), Some(&small));
    admission.set_capacity(20);
    assert_eq!((admission.admit(), admission.deficit()), (vec![], Some(8)));
    admission.release(small, 10);
    assert_eq!(admission.admit(), [large]);
}

/// The module's rules, slowly and from the text.
#[derive(Default)]
struct Reference {
    capacity: u64,
    waiting: Vec<(Ticket, Vec<u64>, Priority, u32)>,
    admitted: Vec<(Ticket, Vec<u64>)>,
}

impl Reference {
    fn leased(&self) -> u64 {
        self.admitted.iter().flat_map(|(_, amounts)| amounts).sum()
    }

    /// The queue in its order.
    fn line(&self) -> Vec<(Ticket, u64)> {
        let mut line: Vec<_> = self.waiting.iter().collect();
        line.sort_by_key(|(ticket, _, priority, passed)| {
            let levels = [Priority::Low, Priority::Normal, Priority::High];
            let level = levels.iter().position(|level| level == priority).unwrap();
            (Reverse((level + (passed / AGEING) as usize).min(2)), *ticket)
        });
        line.iter().map(|(ticket, amounts, ..)| (*ticket, amounts.iter().sum())).collect()
    }

    /// Whether some interleaving of the releases has a total of `from..to`.
    fn reachable(admitted: &[(Ticket, Vec<u64>)], total: u64, from: u64, to: u64) -> bool {
        let Some(((_, amounts), rest)) = admitted.split_first() else {
            return (from..to).contains(&total);
        };
        (0..=amounts.len())
            .any(|n| Self::reachable(rest, total + amounts[..n].iter().sum::<u64>(), from, to))
    }

    fn next(&self) -> Option<Ticket> {
        if self.leased() > self.capacity {
            return None;
        }
        let line = self.line();
        let (head, needed) = *line.iter().find(|(_, bytes)| *bytes <= self.capacity)?;
        if self.leased() + needed <= self.capacity {
            return Some(head);
        }
        let deficit = self.leased() + needed - self.capacity;
        let may_pass = |&&(_, bytes): &&(Ticket, u64)| {
            self.leased() + bytes <= self.capacity
                && !Self::reachable(&self.admitted, 0, deficit, deficit + bytes)
        };
        line.iter().find(may_pass).map(|(ticket, _)| *ticket)
    }

    fn admit(&mut self) -> Vec<Ticket> {
        let mut started = Vec::new();
        while let Some(ticket) = self.next() {
            let index = self.waiting.iter().position(|waiting| waiting.0 == ticket).unwrap();
            let (_, amounts, ..) = self.waiting.remove(index);
            self.waiting.iter_mut().filter(|waiting| waiting.0 < ticket).for_each(|w| w.3 += 1);
            self.admitted.push((ticket, amounts));
            started.push(ticket);
        }
        started
    }

    fn release(&mut self, ticket: Ticket, mut bytes: u64) {
        let amounts = &mut self.admitted.iter_mut().find(|(of, _)| *of == ticket).unwrap().1;
        for amount in amounts.iter_mut() {
            let part = bytes.min(*amount);
            (*amount, bytes) = (*amount - part, bytes - part);
        }
        amounts.retain(|amount| *amount > 0);
        self.admitted.retain(|(_, amounts)| !amounts.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Request(Vec<u64>, Priority),
    /// The next declared amount of one of the leases.
    Release(prop::sample::Index),
    /// Another amount than declared.
    ReleaseOther(prop::sample::Index, u64),
    Cancel(prop::sample::Index),
    Capacity(u64),
}

/// Sizes around a capacity of 100, so that some fit together, some alone and few never.
fn releases() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        8 => prop::collection::vec(0..40u64, 0..4),
        1 => prop::collection::vec(40..110u64, 1..2),
    ]
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::Normal), Just(Priority::Low), Just(Priority::High)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (releases(), priority()).prop_map(|(releases, priority)| Step::Request(releases, priority)),
        4 => any::<prop::sample::Index>().prop_map(Step::Release),
        1 => (any::<prop::sample::Index>(), 0..60u64).prop_map(|(i, bytes)| Step::ReleaseOther(i, bytes)),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => prop_oneof![Just(100), 0..150u64].prop_map(Step::Capacity),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Same decisions as the reference; never over the capacity; everyone is served when leases end; and
    /// then nothing is leased.
    #[test]
    fn decides_as_the_rules_say(steps in prop::collection::vec(step(), 0..60)) {
        let mut admission = Admission::new(100);
        let mut reference = Reference { capacity: 100, ..Default::default() };
        let mut ended = Vec::new();
        for step in steps {
            match step {
                Step::Request(releases, priority) => {
                    let need = releases.iter().sum();
                    match admission.request(&releases, priority) {
                        Ok(ticket) => {
                            let releases = releases.into_iter().filter(|bytes| *bytes > 0).collect();
                            reference.waiting.push((ticket, releases, priority, 0));
                        }
                        Err(error) => {
                            let capacity = reference.capacity;
                            prop_assert!(need > capacity);
                            prop_assert_eq!(error, TooLarge { need, capacity });
                        }
                    }
                }
                Step::Release(_) | Step::ReleaseOther(..) if reference.admitted.is_empty() => {}
                Step::Release(index) => {
                    let (ticket, amounts) = index.get(&reference.admitted).clone();
                    let bytes = amounts.first().copied().unwrap_or(0);
                    admission.release(ticket, bytes);
                    reference.release(ticket, bytes);
                }
                Step::ReleaseOther(index, bytes) => {
                    let (ticket, amounts) = index.get(&reference.admitted).clone();
                    let bytes = bytes.min(amounts.iter().sum());
                    admission.release(ticket, bytes);
                    reference.release(ticket, bytes);
                }
                Step::Cancel(_) if reference.waiting.is_empty() => {}
                Step::Cancel(index) => {
                    let ticket = index.get(&reference.waiting).0;
                    reference.waiting.retain(|waiting| waiting.0 != ticket);
                    prop_assert!(admission.cancel(ticket));
                    ended.push(ticket);
                }
                Step::Capacity(bytes) => {
                    admission.set_capacity(bytes);
                    reference.capacity = bytes;
                }
            }
            let before = admission.leased();
            let started = admission.admit();
            prop_assert_eq!(&started, &reference.admit());
            prop_assert!(started.is_empty() || admission.leased() <= admission.capacity());
            prop_assert_eq!(admission.leased(), reference.leased());
            prop_assert_eq!(admission.waiting(), reference.waiting.len());
            prop_assert!(admission.leased() >= before);
            prop_assert!(ended.iter().all(|ticket| !admission.cancel(*ticket)));
        }
        admission.set_capacity(200);
        admission.admit();
        while let Some(ticket) = admission.admitted.keys().next_back().copied() {
            admission.release(ticket, admission.held(ticket));
            admission.admit();
        }
        prop_assert_eq!((admission.waiting(), admission.leased()), (0, 0));
    }

    /// The head starts at the same release as it would without the passers, even if those never end.
    #[test]
    fn a_passer_never_delays_the_head(
        running in prop::collection::vec(prop::collection::vec(1..30u64, 1..4), 1..5),
        free in 1..60u64,
        deficit in any::<prop::sample::Index>(),
        passers in prop::collection::vec(1..40u64, 1..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 16),
    ) {
        let leased = running.iter().flatten().sum::<u64>();
        let head = free + 1 + deficit.index(leased as usize) as u64;
        let mut with = Admission::new(leased + free);
        let mut running: Vec<_> = running
            .into_iter()
            .map(|releases| (start(&mut with, &releases), VecDeque::from(releases)))
            .collect();
        let head = with.request(&[head], Priority::Normal).unwrap();
        let mut without = with.clone();
        for bytes in passers {
            // Some are too large, and then are none.
            let _ = with.request(&[bytes], Priority::Normal);
        }
        prop_assert!(!with.admit().contains(&head));
        for index in order {
            if running.is_empty() {
                break;
            }
            let index = index.index(running.len());
            let (ticket, releases) = &mut running[index];
            let bytes = releases.pop_front().unwrap();
            let [with, without] = [&mut with, &mut without].map(|admission| {
                admission.release(*ticket, bytes);
                admission.admit().contains(&head)
            });
            prop_assert_eq!(with, without);
            if with {
                return Ok(());
            }
            running.retain(|(_, releases)| !releases.is_empty());
        }
        prop_assert!(false, "the head has not started, and nothing is left to wait for");
    }
}
