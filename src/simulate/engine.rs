//! The event loop: virtual time, two engines, locks, an allocator and the admission policy.
//!
//! 1. Time is whole nanoseconds. Events of one time are handled in the order in which they were made, so a
//!    scenario has one outcome.
//! 2. A worker runs its steps until one blocks. Steps take no time; stages do.
//! 3. The copy and the compute engine run one stage at a time. Of those that may start, the oldest
//!    partition's goes first. Host stages have a thread each.
//! 4. A device-wide call returns when all that the card was given before it has ended; what the card is given
//!    after it does not start before that.
//! 5. The run ends when all partitions are done, when an allocation fails, or when nothing can happen any
//!    more: then the wait-for graph has a cycle, which is reported.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::scenario::{Phase, Resource, Scenario, WhenFull};
use super::schemes::{Lock, Op, Scheme, Step, program};
use crate::budget::admission::{Admission, Priority, Ticket};
use crate::bytes;
use crate::timeline::{Class, Span, Timeline};

/// How a run ended that did not complete.
pub(super) enum Failure {
    /// The allocator has less than was asked for.
    OutOfMemory(String),
    /// Workers wait for one another in a circle.
    Deadlock(String),
    /// A partition does not fit the card at all, and was refused before its first byte.
    Refused(String),
}

/// What a run leaves behind.
pub(super) struct Outcome {
    pub(super) timeline: Timeline,
    pub(super) failure: Option<Failure>,
    pub(super) end_ns: u64,
    pub(super) compute_busy_ns: u64,
    pub(super) high_water: u64,
    pub(super) in_use_at_end: u64,
    pub(super) device_wide_calls: u64,
    pub(super) done: u64,
}

/// Runs a checked scenario.
pub(super) fn run(scenario: &Scenario, scheme: Scheme) -> Outcome {
    Engine::new(scenario, scheme).run()
}

/// A stage of a partition that was started or queued.
struct Activity {
    worker: usize,
    partition: usize,
    stage: usize,
    pageable: bool,
    /// In the order of all that the card was given.
    seq: u64,
    started_ns: Option<u64>,
    note: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blocked {
    /// For its next partition's synthesis, or for ever.
    Work,
    Stage(usize),
    Lock(Lock),
    Memory(u64),
    /// In a device-wide call with this number.
    DeviceWide(u64, &'static str),
    Lease,
}

struct Worker {
    partition: Option<usize>,
    steps: VecDeque<Step>,
    blocked: Option<Blocked>,
    since_ns: u64,
    blocked_seq: u64,
    note: &'static str,
    /// Which buffers it has on the card.
    buffers: Vec<bool>,
    ticket: Option<Ticket>,
    lane: usize,
    background_lane: usize,
    /// The last span of its lane, to be made longer by an adjacent one of the same kind.
    driving: Option<usize>,
}

#[derive(Default)]
struct Mutex {
    holder: Option<usize>,
    queue: VecDeque<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An activity ends.
    Ends(usize),
    /// A proof is synthesised.
    Ready,
}

struct Engine<'a> {
    scenario: &'a Scenario,
    program: Vec<Step>,
    now: u64,
    seq: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    runnable: VecDeque<usize>,
    workers: Vec<Worker>,
    /// Which stages of each partition have ended.
    ended: Vec<Vec<bool>>,
    /// The stages that each stage comes after.
    after: Vec<Vec<usize>>,
    activities: Vec<Activity>,
    /// The activities that have not ended.
    unfinished: Vec<usize>,
    busy: [bool; 2],
    lanes: [usize; 2],
    next_partition: usize,
    mutexes: [Mutex; 2],
    sizes: Vec<u64>,
    in_use: u64,
    high_water: u64,
    memory_queue: VecDeque<usize>,
    admission: Option<Admission>,
    device_wide_calls: u64,
    compute_busy_ns: u64,
    done: u64,
    failure: Option<Failure>,
    timeline: Timeline,
}

fn engine_index(resource: Resource) -> Option<usize> {
    match resource {
        Resource::Host => None,
        Resource::Copy => Some(0),
        Resource::Compute => Some(1),
    }
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario, scheme: Scheme) -> Self {
        let mut timeline = Timeline::new("");
        timeline.limit_bytes = Some(scenario.card_bytes);
        let background = scenario.stages.iter().any(|stage| stage.phase == Phase::Background);
        let sizes: Vec<u64> = scenario.buffers().map(|buffer| buffer.bytes).collect();
        let worker = |index: usize| {
            let lane = timeline.lane(&format!("worker {}", index + 1));
            let background_lane =
                if background { timeline.lane(&format!("threads of {}", index + 1)) } else { lane };
            Worker {
                partition: None,
                steps: VecDeque::new(),
                blocked: None,
                since_ns: 0,
                blocked_seq: 0,
                note: "",
                buffers: vec![false; sizes.len()],
                ticket: None,
                lane,
                background_lane,
                driving: None,
            }
        };
        let workers: Vec<Worker> = (0..scenario.workers as usize).map(worker).collect();
        let lanes = [timeline.lane("copy engine"), timeline.lane("compute engine")];
        let capacity = scenario.card_bytes - scenario.baseline_bytes;
        Self {
            scenario,
            program: program(scenario, scheme),
            now: 0,
            seq: 0,
            events: BinaryHeap::new(),
            runnable: (0..workers.len()).collect(),
            workers,
            ended: vec![vec![false; scenario.stages.len()]; scenario.partitions() as usize],
            after: scenario.stages.iter().map(|stage| scenario.indices(&stage.after)).collect(),
            activities: Vec::new(),
            unfinished: Vec::new(),
            busy: [false; 2],
            lanes,
            next_partition: 0,
            mutexes: Default::default(),
            sizes,
            in_use: scenario.baseline_bytes,
            high_water: scenario.baseline_bytes,
            memory_queue: VecDeque::new(),
            admission: (scheme == Scheme::Admission).then(|| Admission::new(capacity)),
            device_wide_calls: 0,
            compute_busy_ns: 0,
            done: 0,
            failure: None,
            timeline,
        }
    }

    fn run(mut self) -> Outcome {
        self.count_bytes();
        for job in 1..self.scenario.jobs {
            let ready = u64::from(job) * self.scenario.job_interval_ns;
            if ready > 0 {
                self.event(ready, Event::Ready);
            }
        }
        loop {
            while let Some(worker) = self.runnable.pop_front() {
                self.step(worker);
                if self.failure.is_some() {
                    return self.finish();
                }
            }
            self.start_stages();
            let Some(Reverse((time, _, event))) = self.events.pop() else { break };
            debug_assert!(time >= self.now);
            self.now = time;
            match event {
                Event::Ends(activity) => self.ended(activity),
                Event::Ready => self.wake_where(|_, _, blocked| blocked == Blocked::Work),
            }
        }
        if self.done < self.scenario.partitions() {
            self.failure = Some(Failure::Deadlock(self.cycle()));
        }
        self.finish()
    }

    fn event(&mut self, time: u64, event: Event) {
        self.seq += 1;
        self.events.push(Reverse((time, self.seq, event)));
    }

    fn partition_name(&self, partition: usize) -> String {
        let per_job = self.scenario.partitions_per_job as usize;
        format!("{}.{}", partition / per_job + 1, partition % per_job + 1)
    }

    // Workers.

    /// Runs a worker until it blocks.
    fn step(&mut self, index: usize) {
        loop {
            if self.workers[index].steps.is_empty() && !self.next_work(index) {
                return self.block(index, Blocked::Work, "");
            }
            let Some(Step { op, note }) = self.workers[index].steps.pop_front() else { continue };
            match op {
                Op::Lock(lock) => {
                    let mutex = &mut self.mutexes[lock as usize];
                    if mutex.holder.is_some() {
                        mutex.queue.push_back(index);
                        return self.block(index, Blocked::Lock(lock), note);
                    }
                    mutex.holder = Some(index);
                }
                Op::Unlock(lock) => {
                    let mutex = &mut self.mutexes[lock as usize];
                    debug_assert_eq!(mutex.holder, Some(index));
                    mutex.holder = mutex.queue.pop_front();
                    if let Some(next) = mutex.holder {
                        self.wake(next);
                    }
                }
                Op::Alloc(buffers) => {
                    let mut left = VecDeque::from(buffers);
                    while let Some(buffer) = left.pop_front() {
                        if self.allocate(index, buffer) {
                            continue;
                        }
                        if self.failure.is_none() {
                            left.push_front(buffer);
                            self.workers[index]
                                .steps
                                .push_front(Step { op: Op::Alloc(left.into()), note });
                            self.memory_queue.push_back(index);
                            self.block(index, Blocked::Memory(self.sizes[buffer]), note);
                        }
                        return;
                    }
                }
                Op::Free(buffers) => {
                    for buffer in buffers {
                        debug_assert!(self.workers[index].buffers[buffer], "freed twice");
                        self.workers[index].buffers[buffer] = false;
                        self.in_use -= self.sizes[buffer];
                    }
                    self.count_bytes();
                    // Waiters try again in their order; those that still do not fit queue again.
                    for waiter in std::mem::take(&mut self.memory_queue) {
                        self.wake(waiter);
                    }
                }
                Op::Start { stage, pageable } => {
                    let partition =
                        self.workers[index].partition.expect("a program runs for a partition");
                    self.seq += 1;
                    self.unfinished.push(self.activities.len());
                    self.activities.push(Activity {
                        worker: index,
                        partition,
                        stage,
                        pageable,
                        seq: self.seq,
                        started_ns: None,
                        note,
                    });
                }
                Op::Join(stage) => {
                    let partition =
                        self.workers[index].partition.expect("a program runs for a partition");
                    if !self.ended[partition][stage] {
                        return self.block(index, Blocked::Stage(stage), note);
                    }
                }
                Op::DeviceWide(call) => {
                    self.device_wide_calls += 1;
                    self.seq += 1;
                    if self.card_busy_before(self.seq) {
                        return self.block(index, Blocked::DeviceWide(self.seq, call), note);
                    }
                }
                Op::IfFree { need, reserve, then, otherwise } => {
                    let compute = &self.mutexes[Lock::Compute as usize];
                    let contended = compute.holder.is_some() || !compute.queue.is_empty();
                    let wanted = need.saturating_add(if contended { reserve } else { 0 });
                    let chosen = if self.scenario.card_bytes - self.in_use >= wanted {
                        then
                    } else {
                        otherwise
                    };
                    for step in chosen.into_iter().rev() {
                        self.workers[index].steps.push_front(step);
                    }
                }
                Op::Lease(releases) => {
                    let admission = self.admission.as_mut().expect("the scheme has leases");
                    match admission.request(&releases, Priority::Normal) {
                        Ok(ticket) => {
                            self.workers[index].ticket = Some(ticket);
                            self.block(index, Blocked::Lease, note);
                            self.admit();
                        }
                        Err(refused) => {
                            self.failure = Some(Failure::Refused(format!(
                                "a partition needs {}, there are {}",
                                bytes::text(refused.need),
                                bytes::text(refused.capacity)
                            )));
                        }
                    }
                    return;
                }
                Op::Shrink(bytes) => {
                    let ticket = self.workers[index].ticket.expect("the scheme has leases");
                    self.admission.as_mut().expect("the scheme has leases").release(ticket, bytes);
                    self.admit();
                }
            }
        }
    }

    /// Ends the worker's partition, if it has one, and takes the next; false if there is none now.
    fn next_work(&mut self, index: usize) -> bool {
        if self.workers[index].partition.take().is_some() {
            self.done += 1;
            debug_assert!(
                self.workers[index].buffers.iter().all(|held| !held),
                "a buffer was never freed"
            );
        }
        let partition = self.next_partition;
        let job = partition as u64 / u64::from(self.scenario.partitions_per_job);
        if partition as u64 == self.scenario.partitions()
            || job * self.scenario.job_interval_ns > self.now
        {
            return false;
        }
        self.next_partition += 1;
        self.workers[index].partition = Some(partition);
        self.workers[index].steps = self.program.iter().cloned().collect();
        true
    }

    fn block(&mut self, index: usize, on: Blocked, note: &'static str) {
        self.seq += 1;
        let worker = &mut self.workers[index];
        (worker.blocked, worker.since_ns, worker.note) = (Some(on), self.now, note);
        worker.blocked_seq = self.seq;
    }

    /// Lets a blocked worker go on, and draws how long it waited.
    fn wake(&mut self, index: usize) {
        self.draw_waiting(index);
        self.workers[index].blocked = None;
        self.runnable.push_back(index);
    }

    /// Lets all go on that can, in the order in which they blocked.
    fn wake_where(&mut self, goes_on: impl Fn(&Self, &Worker, Blocked) -> bool) {
        let can = |index: &usize| {
            let worker = &self.workers[*index];
            worker.blocked.is_some_and(|blocked| goes_on(self, worker, blocked))
        };
        let mut all: Vec<usize> = (0..self.workers.len()).filter(can).collect();
        all.sort_by_key(|index| self.workers[*index].blocked_seq);
        for index in all {
            self.wake(index);
        }
    }

    fn draw_waiting(&mut self, index: usize) {
        let worker = &self.workers[index];
        let (Some(on), Some(partition)) = (worker.blocked, worker.partition) else { return };
        if worker.since_ns == self.now {
            return;
        }
        let name = self.partition_name(partition);
        let (class, label, what) = match on {
            Blocked::Work => return,
            Blocked::Stage(stage) => match self.scenario.stages[stage].resource {
                Resource::Host if self.scenario.stages[stage].phase == Phase::Background => {
                    (Class::Wait, name, format!("waits for {}", self.scenario.stages[stage].name))
                }
                // Drawn by the stage itself.
                Resource::Host => return,
                _ => (Class::Drive, name, "computes on the card".to_owned()),
            },
            Blocked::Lock(lock) => (Class::Wait, name, format!("waits for the {}", lock.name())),
            Blocked::Memory(bytes) => {
                (Class::Wait, name, format!("waits for {}", bytes::text(bytes)))
            }
            Blocked::DeviceWide(_, call) => (Class::Stall, name, call.to_owned()),
            Blocked::Lease => (Class::Wait, name, "waits for admission".to_owned()),
        };
        let detail = format!("{what}; {}", worker.note);
        let (lane, start_ns, end_ns) = (worker.lane, worker.since_ns, self.now);
        let last = worker.driving.map(|span| &self.timeline.spans()[span]);
        let goes_on = last.is_some_and(|last| {
            last.class == class
                && last.end_ns == start_ns
                && last.label == label
                && last.detail == detail
        });
        match worker.driving {
            Some(span) if goes_on => self.timeline.extend(span, end_ns),
            _ => {
                self.workers[index].driving = Some(self.timeline.spans().len());
                self.timeline.span(Span { lane, label, detail, class, start_ns, end_ns });
            }
        }
    }

    // Stages.

    /// Whether the card still has something to do that it was given before number `seq`.
    fn card_busy_before(&self, seq: u64) -> bool {
        self.unfinished.iter().map(|index| &self.activities[*index]).any(|activity| {
            self.scenario.stages[activity.stage].resource != Resource::Host && activity.seq < seq
        })
    }

    /// Starts every activity that can start.
    fn start_stages(&mut self) {
        let device_wide = self.workers.iter().filter_map(|worker| match worker.blocked {
            Some(Blocked::DeviceWide(seq, _)) => Some(seq),
            _ => None,
        });
        let barrier = device_wide.min().unwrap_or(u64::MAX);
        let activities = &self.activities;
        self.unfinished.sort_by_key(|index| (activities[*index].partition, activities[*index].seq));
        for index in self.unfinished.clone() {
            let activity = &mut self.activities[index];
            let stage = &self.scenario.stages[activity.stage];
            let ended = &self.ended[activity.partition];
            let ready = self.after[activity.stage].iter().all(|before| ended[*before]);
            if activity.started_ns.is_some() || !ready {
                continue;
            }
            if let Some(engine) = engine_index(stage.resource) {
                if self.busy[engine] || activity.seq > barrier {
                    continue;
                }
                self.busy[engine] = true;
            }
            activity.started_ns = Some(self.now);
            let end = self.now + self.scenario.duration(stage, activity.pageable);
            self.event(end, Event::Ends(index));
        }
    }

    fn ended(&mut self, index: usize) {
        self.draw_stage(index);
        self.unfinished.retain(|other| *other != index);
        let Activity { partition, stage, .. } = self.activities[index];
        self.ended[partition][stage] = true;
        if let Some(engine) = engine_index(self.scenario.stages[stage].resource) {
            self.busy[engine] = false;
        }
        self.wake_where(|engine, worker, blocked| match blocked {
            Blocked::Stage(other) => worker.partition == Some(partition) && other == stage,
            Blocked::DeviceWide(seq, _) => !engine.card_busy_before(seq),
            _ => false,
        });
    }

    /// Draws an activity that was started, from then to now.
    fn draw_stage(&mut self, index: usize) {
        let activity = &self.activities[index];
        let Some(start_ns) = activity.started_ns else { return };
        let stage = &self.scenario.stages[activity.stage];
        let worker = &self.workers[activity.worker];
        let (lane, class) = match (stage.resource, stage.phase) {
            (Resource::Host, Phase::Background) => (worker.background_lane, Class::Host),
            (Resource::Host, _) => (worker.lane, Class::Host),
            (Resource::Copy, _) => (self.lanes[0], Class::Copy),
            (Resource::Compute, _) => (self.lanes[1], Class::Msm),
        };
        if stage.resource == Resource::Compute {
            self.compute_busy_ns += self.now - start_ns;
        }
        let pageable = if activity.pageable && stage.bytes > 0 { ", pageable" } else { "" };
        let texts = [stage.source.as_str(), activity.note];
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        self.timeline.span(Span {
            lane,
            label: self.partition_name(activity.partition),
            detail: texts
                .fold(format!("{}{pageable}", stage.name), |all, text| format!("{all}; {text}")),
            class: stage.class.unwrap_or(class),
            start_ns,
            end_ns: self.now,
        });
    }

    // Memory.

    /// Allocates a buffer; false if there is too little, and `failure` is set where that is the end.
    fn allocate(&mut self, index: usize, buffer: usize) -> bool {
        let need = self.sizes[buffer];
        let left = self.scenario.card_bytes - self.in_use;
        if need <= left {
            self.workers[index].buffers[buffer] = true;
            self.in_use += need;
            self.high_water = self.high_water.max(self.in_use);
            self.count_bytes();
            return true;
        }
        let never = need > self.scenario.card_bytes - self.scenario.baseline_bytes;
        if self.scenario.when_full == WhenFull::Fail || never {
            let name = self.scenario.buffers().nth(buffer).map_or("", |buffer| &buffer.name);
            let partition = self.workers[index].partition.expect("a program runs for a partition");
            self.timeline.bytes("asked for", self.now, self.in_use + need);
            self.failure = Some(Failure::OutOfMemory(format!(
                "worker {} (partition {}) needs {} for {name}, {} left; {}",
                index + 1,
                self.partition_name(partition),
                bytes::text(need),
                bytes::text(left),
                self.holders(),
            )));
        }
        false
    }

    fn held(&self, index: usize) -> u64 {
        let buffers = self.workers[index].buffers.iter().zip(&self.sizes);
        buffers.filter(|(held, _)| **held).map(|(_, bytes)| bytes).sum()
    }

    /// Who has how much, in words.
    fn holders(&self) -> String {
        let all = (0..self.workers.len()).filter(|index| self.held(*index) > 0);
        let words: Vec<String> = all
            .map(|index| {
                let doing = match self.workers[index].blocked {
                    Some(Blocked::Lock(lock)) => format!(" and waits for the {}", lock.name()),
                    _ => String::new(),
                };
                format!("worker {} has {}{doing}", index + 1, bytes::text(self.held(index)))
            })
            .collect();
        words.join(", ")
    }

    fn count_bytes(&mut self) {
        self.timeline.bytes("in use", self.now, self.in_use);
        if let Some(admission) = &self.admission {
            let leased = self.scenario.baseline_bytes + admission.leased();
            debug_assert!(self.in_use <= leased, "allocated outside of a lease");
            self.timeline.bytes("leased", self.now, leased);
        }
    }

    fn admit(&mut self) {
        let admission = self.admission.as_mut().expect("the scheme has leases");
        for ticket in admission.admit() {
            let holder = self.workers.iter().position(|worker| worker.ticket == Some(ticket));
            self.wake(holder.expect("every ticket is a worker's"));
        }
        self.count_bytes();
    }

    // The end.

    /// Whom a blocked worker waits for.
    fn waits_for(&self, index: usize) -> (Vec<usize>, String) {
        let all = || 0..self.workers.len();
        match self.workers[index].blocked {
            Some(Blocked::Lock(lock)) => (
                self.mutexes[lock as usize].holder.into_iter().collect(),
                format!("the {}", lock.name()),
            ),
            Some(Blocked::Memory(bytes)) => {
                // Its own buffers count only if nobody else has any.
                let (own, others): (Vec<usize>, Vec<usize>) =
                    all().filter(|other| self.held(*other) > 0).partition(|other| *other == index);
                (if others.is_empty() { own } else { others }, bytes::text(bytes))
            }
            Some(Blocked::Lease) => {
                let leases = |other: &usize| {
                    let ticket = self.workers[*other].ticket;
                    let admission = self.admission.as_ref();
                    ticket.is_some_and(|ticket| {
                        admission.is_some_and(|admission| admission.held(ticket) > 0)
                    })
                };
                (all().filter(leases).collect(), "admission".to_owned())
            }
            _ => (Vec::new(), "nothing".to_owned()),
        }
    }

    /// A cycle of the wait-for graph, in words.
    fn cycle(&self) -> String {
        for start in 0..self.workers.len() {
            // Depth first; the graph is as small as the number of workers.
            let mut stack = vec![vec![start]];
            let mut seen = vec![false; self.workers.len()];
            while let Some(path) = stack.pop() {
                let last = path[path.len() - 1];
                for next in self.waits_for(last).0 {
                    if next == start {
                        let words =
                            path.iter().zip(path.iter().cycle().skip(1)).map(|(from, to)| {
                                format!(
                                    "worker {} waits for {} held by worker {}",
                                    from + 1,
                                    self.waits_for(*from).1,
                                    to + 1
                                )
                            });
                        return words.collect::<Vec<_>>().join(", ");
                    }
                    if !std::mem::replace(&mut seen[next], true) {
                        stack.push(path.iter().copied().chain([next]).collect());
                    }
                }
            }
        }
        "nothing can happen any more".to_owned()
    }

    fn finish(mut self) -> Outcome {
        // What was under way when it ended is drawn up to there.
        for index in std::mem::take(&mut self.unfinished) {
            self.draw_stage(index);
        }
        for index in 0..self.workers.len() {
            self.draw_waiting(index);
        }
        match &self.failure {
            Some(Failure::OutOfMemory(_)) => self.timeline.mark(self.now, "OUT OF MEMORY"),
            Some(Failure::Deadlock(_)) => self.timeline.mark(self.now, "DEADLOCK"),
            Some(Failure::Refused(_)) => self.timeline.mark(self.now, "REFUSED"),
            None => {}
        }
        Outcome {
            end_ns: self.now,
            compute_busy_ns: self.compute_busy_ns,
            high_water: self.high_water,
            in_use_at_end: self.in_use,
            device_wide_calls: self.device_wide_calls,
            done: self.done,
            failure: self.failure,
            timeline: self.timeline,
        }
    }
}
