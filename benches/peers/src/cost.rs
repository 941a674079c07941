//! What a piece of work costs: CPU seconds of the whole process, and wall time.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// CPU time (user and system, all threads) and wall time of a piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu: Duration,
    pub wall: Duration,
}

impl Cost {
    /// Runs `work` and says what it cost.
    pub fn of<T>(work: impl FnOnce() -> T) -> (T, Cost) {
        let start = Snapshot::now();
        let result = work();
        (result, start.elapsed())
    }
}

/// A moment to measure from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    cpu: Duration,
    wall: Instant,
}

impl Snapshot {
    pub fn now() -> Self {
        Snapshot { cpu: process_cpu_time(), wall: Instant::now() }
    }

    /// The cost of what was done since this moment.
    pub fn elapsed(&self) -> Cost {
        Cost { wall: self.wall.elapsed(), cpu: process_cpu_time().saturating_sub(self.cpu) }
    }
}

/// User and system time of this process so far, over all its threads.
fn process_cpu_time() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is valid for writes of one `rusage`, and it is read only
    // where the call has filled it.
    let usage = unsafe {
        let status = libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        assert_eq!(status, 0, "getrusage(RUSAGE_SELF) failed");
        usage.assume_init()
    };
    let duration = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}
