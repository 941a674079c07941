//! Two programs in turns.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::table::milliseconds;

/// A card that was idle needs as long to come to its clock.
const WARM_UP: Duration = Duration::from_millis(300);

/// Runs after the warm-up, an odd number.
fn runs(log_n: u32) -> usize {
    match log_n {
        ..=20 => 15,
        21..=22 => 9,
        23..=24 => 7,
        25.. => 5,
    }
}

/// Milliseconds of `ours` and of `theirs`, which take turns, so that a drift of the card hits both alike. The first
/// turns, two at least, are not counted. `check` sees every result.
pub fn take_turns<T>(
    log_n: u32,
    mut ours: impl FnMut() -> Result<T>,
    mut theirs: impl FnMut() -> Result<T>,
    check: impl Fn(&str, T) -> Result<()>,
) -> Result<[Vec<f64>; 2]> {
    let mut turn = || {
        let started = Instant::now();
        let our_result = ours()?;
        let our_time = started.elapsed();
        let started = Instant::now();
        let their_result = theirs()?;
        let their_time = started.elapsed();
        check("ours", our_result)?;
        check("the peer's", their_result)?;
        anyhow::Ok([our_time, their_time].map(milliseconds))
    };
    let started = Instant::now();
    for count in 0.. {
        if count >= 2 && started.elapsed() >= WARM_UP {
            break;
        }
        turn()?;
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..runs(log_n) {
        for (times, time) in times.iter_mut().zip(turn()?) {
            times.push(time);
        }
    }
    Ok(times)
}
