//! A plan as a picture: a few partitions in time, with the memory that they hold.

use crate::bytes;
use crate::timeline::{Class, Span, Timeline};

use super::{Plan, Shape};

/// Partitions that are drawn.
const PARTITIONS: usize = 3;

/// The first partitions of a job under `plan`, at the device's rough speeds, on a card of `capacity` bytes: copies and
/// kernels, and below them what is leased.
pub fn to_timeline(plan: &Plan, shape: &Shape, capacity: u64) -> Timeline {
    let mut timeline = Timeline::new(format!("A domain of 2^{}: {}", shape.log_n, plan.summary()));
    timeline.subtitle = format!(
        "needs {}, peak of a partition {}, {:.3} s each; speeds are rough",
        bytes::text(plan.needs()),
        bytes::text(plan.peak()),
        plan.seconds
    );
    timeline.limit_bytes = Some(capacity);
    let lanes = [timeline.lane("copy"), timeline.lane("kernels")];
    let mut changes: Vec<(u64, i64)> = Vec::new();
    let at = |seconds: f64| (seconds * 1e9) as u64;
    // A partition starts when the last one has given back enough, the kernels when they are free.
    let (mut admitted, mut free) = (0.0, 0.0_f64);
    for partition in 1..=PARTITIONS {
        changes.push((at(admitted), plan.peak() as i64));
        let (mut now, mut next) = (f64::max(admitted, 0.0), None);
        for (index, (stage, release)) in plan.stages.iter().zip(plan.releases()).enumerate() {
            let (copies, kernels) = (stage.copy_seconds, stage.kernel_seconds);
            let mut span = |lane: usize, class, start: f64, seconds: f64| {
                if seconds > 0.0 {
                    timeline.span(Span {
                        lane: lanes[lane],
                        label: format!("{partition}: {}", stage.name),
                        detail: format!(
                            "{} up, {} down, {} leased",
                            bytes::text(stage.upload),
                            bytes::text(stage.download),
                            bytes::text(plan.bytes_from(index))
                        ),
                        class,
                        start_ns: at(start),
                        end_ns: at(start + seconds),
                    });
                }
            };
            span(0, Class::Copy, now, copies);
            let class = if index == 0 { Class::Transform } else { Class::Msm };
            // The quotient needs all that is copied for it; sums start with the first points.
            let start = f64::max(if index == 0 { now + copies } else { now }, free);
            span(1, class, start, kernels);
            now = f64::max(start + kernels, now + copies);
            free = start + kernels;
            changes.push((at(now), -(release as i64)));
            if plan.in_flight > 1 && index == 0 {
                next = Some(now);
            }
        }
        admitted = next.unwrap_or(now);
    }
    changes.sort_unstable();
    let mut held = plan.resident_bytes as i64;
    timeline.bytes("leased", 0, plan.resident_bytes);
    for (time, change) in changes {
        held += change;
        timeline.bytes("leased", time, held as u64);
    }
    timeline
}
