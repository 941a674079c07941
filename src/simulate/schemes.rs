//! The schemes: what one worker does for one partition, as a program of locks, allocations and stages.
//!
//! Every scheme runs the same stages of the same scenario. A [`Step`] says which documented behaviour it stands
//! for; "proposal" is curio's c2-optimization-proposal of that number.

use serde::{Deserialize, Serialize};

use super::scenario::{Phase, Resource, Scenario};

/// A way to share one card between workers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// One mutex around upload and compute: who waits holds host data only (proposal 9's shape).
    SingleLock,
    /// A lock for staging and one for computing, staged buffers waiting on the card (proposal 10).
    TwoLock,
    /// The same, but device-wide questions before staging and a slow way if the card is full.
    TwoLockSync,
    /// The whole peak is leased before the first byte; leases only shrink.
    Admission,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 4] =
        [Self::SingleLock, Self::TwoLock, Self::TwoLockSync, Self::Admission];

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleLock => "single-lock",
            Self::TwoLock => "two-lock",
            Self::TwoLockSync => "two-lock-sync",
            Self::Admission => "admission",
        }
    }
}

/// A mutex, handed over first come, first served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lock {
    /// Around computing; the only one of `single-lock`.
    Compute,
    /// Around staging.
    Staging,
}

impl Lock {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute lock",
            Self::Staging => "staging lock",
        }
    }
}

/// What a worker does next. Stages are indices into [`Scenario::stages`].
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Takes a mutex, waiting for it.
    Lock(Lock),
    /// Gives it to the next in line.
    Unlock(Lock),
    /// Allocates buffers, one after another. Buffers are indices into [`Scenario::buffers`].
    Alloc(Vec<usize>),
    /// Frees buffers.
    Free(Vec<usize>),
    /// Starts a stage, or queues it on its engine, and goes on. `pageable`: from pageable host memory.
    Start {
        /// The stage.
        stage: usize,
        /// Whether its copy is from pageable memory.
        pageable: bool,
    },
    /// Waits until a stage has ended.
    Join(usize),
    /// A call that waits for all that the card was given before, and holds back all that comes after.
    DeviceWide(&'static str),
    /// If the measured free bytes allow to stage now, do that, else the other.
    IfFree {
        /// What staging allocates.
        need: u64,
        /// More that must be free while another worker has or awaits the compute lock.
        reserve: u64,
        /// The steps if there is room.
        then: Vec<Step>,
        /// The steps if there is not.
        otherwise: Vec<Step>,
    },
    /// Leases the sum of these amounts, whole, and waits until admitted; they come back in this order.
    Lease(Vec<u64>),
    /// Gives back a part of the lease.
    Shrink(u64),
}

/// An [`Op`] and the documented behaviour that it stands for.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) note: &'static str,
}

/// The steps of a worker for one partition.
pub(super) fn program(scenario: &Scenario, scheme: Scheme) -> Vec<Step> {
    let mut p = Program { scenario, steps: Vec::new() };
    p.background();
    match scheme {
        Scheme::SingleLock => {
            p.push(
                Op::Lock(Lock::Compute),
                "proposals 8 and 9: one gpu_mtx a card around upload, kernels and frees",
            );
            p.stage("proposal 9: pinned pre-staging, in the lock");
            p.compute(None, "proposal 9: kernels in the lock");
            p.push(Op::Unlock(Lock::Compute), "proposal 9: unlocked before prep_msm_thread.join()");
        }
        Scheme::TwoLock => {
            p.push(Op::Lock(Lock::Staging), "proposal 10, phase 1: lock(mem_mtx)");
            p.stage("proposal 10, phase 1: 12 GiB allocated, copies queued, under mem_mtx; cudaMalloc fails if full");
            p.push(
                Op::Unlock(Lock::Staging),
                "proposal 10, phase 1: unlock(mem_mtx), the buffers stay",
            );
            p.push(Op::Lock(Lock::Compute), "proposal 10, phase 2: lock(compute_mtx)");
            p.compute(
                scenario.prestaged_until.as_deref(),
                "proposal 10, phase 2: kernels in compute_mtx",
            );
            p.push(Op::Unlock(Lock::Compute), "proposal 10, phase 2: unlock(compute_mtx)");
        }
        Scheme::TwoLockSync => two_lock_sync(&mut p),
        Scheme::Admission => {
            p.lease();
            p.stage("staged in the lease");
            p.leased_compute();
        }
    }
    p.finish();
    p.steps
}

fn two_lock_sync(p: &mut Program<'_>) {
    let scenario = p.scenario;
    p.push(Op::Lock(Lock::Staging), "proposal 10, phase 1: lock(mem_mtx)");
    for call in ["cudaDeviceSynchronize", "cudaMemPoolTrimTo", "cudaMemGetInfo"] {
        p.push(
            Op::DeviceWide(call),
            "proposal 11, post-mortem: device-global, blocks until all streams complete",
        );
    }
    let mut staged = Program { scenario, steps: Vec::new() };
    staged.stage("proposal 10, phase 1: 12 GiB allocated, copies queued, under mem_mtx");
    staged
        .push(Op::Unlock(Lock::Staging), "proposal 10, phase 1: unlock(mem_mtx), the buffers stay");
    staged.push(Op::Lock(Lock::Compute), "proposal 10, phase 2: lock(compute_mtx)");
    staged.compute(
        scenario.prestaged_until.as_deref(),
        "proposal 10, phase 2: kernels in compute_mtx",
    );

    let mut late = Program { scenario, steps: Vec::new() };
    late.push(Op::Unlock(Lock::Staging), "proposal 10, VRAM safety: prestage_ok = false");
    late.push(Op::Lock(Lock::Compute), "proposal 10, phase 2: lock(compute_mtx)");
    late.stage_pageable(
        "proposal 10, VRAM safety: allocation and synchronous pageable copies under compute_mtx",
    );
    late.compute(None, "proposal 10, phase 2: kernels in compute_mtx");

    let staging = scenario.stages.iter().filter(|stage| stage.phase == Phase::Staging);
    let need = staging.flat_map(|stage| &stage.alloc).map(|buffer| buffer.bytes).sum();
    let reserve = scenario.staging_reserve_bytes.unwrap_or(scenario.peak_bytes());
    p.push(
        Op::IfFree { need, reserve, then: staged.steps, otherwise: late.steps },
        "proposal 10, VRAM safety: stage only where cudaMemGetInfo finds room, else fall back; with the room that \
         the post-mortem of proposal 11 misses, for a worker that enters compute_mtx first",
    );
    p.push(Op::Unlock(Lock::Compute), "proposal 10, phase 2: unlock(compute_mtx)");
}

struct Program<'a> {
    scenario: &'a Scenario,
    steps: Vec<Step>,
}

impl Program<'_> {
    fn push(&mut self, op: Op, note: &'static str) {
        self.steps.push(Step { op, note });
    }

    fn of(&self, phase: Phase) -> Vec<usize> {
        let stages = self.scenario.stages.iter().enumerate();
        stages.filter(|(_, stage)| stage.phase == phase).map(|(i, _)| i).collect()
    }

    /// Host threads that run beside everything else.
    fn background(&mut self) {
        for stage in self.of(Phase::Background) {
            self.push(
                Op::Start { stage, pageable: false },
                "a host thread, no lock (proposal 10, phase 0)",
            );
        }
    }

    /// Waits for what the host must have done before it gives the card this stage.
    fn join_host(&mut self, stage: usize, note: &'static str) {
        for before in self.scenario.indices(&self.scenario.stages[stage].after) {
            if self.scenario.stages[before].resource == Resource::Host {
                self.push(Op::Join(before), note);
            }
        }
    }

    fn stage(&mut self, note: &'static str) {
        for stage in self.of(Phase::Staging) {
            self.join_host(stage, note);
            self.push(Op::Alloc(self.allocs(stage)), note);
            self.push(Op::Start { stage, pageable: false }, note);
            if self.scenario.stages[stage].resource != Resource::Copy {
                self.push(Op::Join(stage), note);
            }
        }
    }

    fn stage_pageable(&mut self, note: &'static str) {
        for stage in self.of(Phase::Staging) {
            self.join_host(stage, note);
            self.push(Op::Alloc(self.allocs(stage)), note);
            self.push(Op::Start { stage, pageable: true }, note);
            self.push(Op::Join(stage), note);
        }
    }

    /// The compute stages one by one. Staged buffers that would be freed before the stage `keep` ends
    /// are kept until then.
    fn compute(&mut self, keep: Option<&str>, note: &'static str) {
        let keep =
            keep.and_then(|name| self.scenario.stages.iter().position(|stage| stage.name == name));
        let staged: Vec<usize> =
            self.of(Phase::Staging).into_iter().flat_map(|stage| self.allocs(stage)).collect();
        let mut kept = Vec::new();
        for stage in self.of(Phase::Compute) {
            self.compute_stage(stage, note);
            let mut freed = self.frees(stage);
            if keep.is_some_and(|last| stage < last) {
                kept.extend(freed.extract_if(.., |buffer| staged.contains(buffer)));
            }
            self.push(Op::Free(freed), note);
            if keep == Some(stage) {
                let kept = std::mem::take(&mut kept);
                self.push(
                    Op::Free(kept),
                    "pre-staged buffers stayed live through the H MSM (13.8 GiB peak)",
                );
            }
        }
    }

    /// The buffers that a stage allocates.
    fn allocs(&self, stage: usize) -> Vec<usize> {
        let before =
            self.scenario.stages[..stage].iter().map(|stage| stage.alloc.len()).sum::<usize>();
        (before..before + self.scenario.stages[stage].alloc.len()).collect()
    }

    /// The buffers that go when a stage ends.
    fn frees(&self, stage: usize) -> Vec<usize> {
        let names = self.scenario.buffers().map(|buffer| &buffer.name).enumerate();
        names
            .filter(|(_, name)| self.scenario.stages[stage].free.contains(name))
            .map(|(i, _)| i)
            .collect()
    }

    fn compute_stage(&mut self, stage: usize, note: &'static str) {
        self.join_host(stage, note);
        self.push(Op::Alloc(self.allocs(stage)), note);
        self.push(Op::Start { stage, pageable: false }, note);
        self.push(Op::Join(stage), note);
    }

    /// The most that is held during each stage or a later one: what a lease must still have then.
    fn still_needed(&self) -> Vec<u64> {
        let mut needed = self.scenario.profile();
        needed.push(0);
        for i in (0..needed.len() - 1).rev() {
            needed[i] = needed[i].max(needed[i + 1]);
        }
        needed
    }

    fn lease(&mut self) {
        let needed = self.still_needed();
        let parts =
            needed.windows(2).map(|pair| pair[0] - pair[1]).filter(|bytes| *bytes > 0).collect();
        self.push(
            Op::Lease(parts),
            "the whole peak, before the first byte; who waits holds nothing of the card",
        );
    }

    /// The compute stages one by one; after each the lease shrinks to what is still needed.
    fn leased_compute(&mut self) {
        let needed = self.still_needed();
        let mut held = needed[0];
        for stage in self.of(Phase::Compute) {
            self.compute_stage(
                stage,
                "computed in the lease; streams and events order it, no lock, no device-wide call",
            );
            self.push(Op::Free(self.frees(stage)), "back to the arena on the completion event");
            let after = needed[stage + 1];
            if after < held {
                self.push(
                    Op::Shrink(held - after),
                    "a lease shrinks as soon as the device is done with the bytes",
                );
                held = after;
            }
        }
    }

    fn finish(&mut self) {
        for stage in self.of(Phase::Finish) {
            self.join_host(stage, "joins the host threads, no lock (proposal 10, phase 3)");
            self.push(
                Op::Start { stage, pageable: false },
                "on the host, no lock (proposal 10, phase 3)",
            );
            self.push(Op::Join(stage), "on the host, no lock (proposal 10, phase 3)");
        }
        for stage in self.of(Phase::Background) {
            self.push(Op::Join(stage), "every host thread is joined before the next partition");
        }
    }
}
