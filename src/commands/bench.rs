//! `forebay bench`.

mod operations;

use std::sync::Arc;
use std::time::Instant;

use forebay::engine::{Engine, Job, Partition, Proved, Usage};
use forebay::key::ProvingKey;
use forebay::profile::{Profile, synthetic};
use forebay::timeline::{Class, Timeline};
use forebay::witness::Assignment;
use forebay::{Error, Result, bytes};
use serde_json::{Value, json};

use super::proving;
use crate::cli::Bench;
use crate::terminal::Terminal;

/// Any: every run measures the same values.
const SEED: u64 = 1;

/// Partitions of the jobs that come first: the key stays after them, kernels have run, and memory has grown to what is needed.
const WARM_UP: usize = 8;

/// Such jobs at most. There is another as long as the last one needed a device-wide call.
const WARM_UPS: usize = 4;

/// Proves partitions with a circuit's counts and kinds of values, and says how long that took and what it used.
pub fn run(options: &Bench, terminal: &Arc<Terminal>) -> Result<()> {
    let Some(shape) = &options.shape else {
        return operations::run(options, &options.operations, terminal);
    };
    let mut profile = Profile::named(shape)?;
    match options.log_n[..] {
        [] => {}
        [log_n] => profile = profile.scaled(log_n)?,
        _ => return Err(Error::Usage("a circuit has one size: one --log-n".into())),
    }
    if options.partitions == 0 {
        return Err(Error::Usage("no partition, nothing to measure".into()));
    }
    let engine = proving::start_recording(&options.engine, terminal)?;
    let started = Instant::now();
    let (key, assignment) = synthetic::synthesise(&profile, SEED)?;
    let (key, assignment) = (Arc::new(key), Arc::new(assignment));
    terminal.say(format!(
        "{}, 2^{}: a synthetic key of {} made in {:.1?}",
        shape,
        profile.log_n,
        bytes::text(key.bytes()),
        started.elapsed()
    ));
    let measured = measure(&engine, &key, &assignment, shape, options.partitions as usize)?;
    match options.json {
        true => {
            println!("{}", serde_json::to_string_pretty(&measured.to_json()).expect("plain fields"))
        }
        false => measured.print(),
    }
    proving::leave(&options.engine, &engine, terminal)
}

/// What a job of partitions took.
struct Measured {
    seconds: f64,
    proved: Vec<Proved>,
    devices: Vec<Device>,
}

struct Device {
    usage: Usage,
    /// The share of the time in which a kernel was running; `None` if the device does not record that.
    busy: Option<f64>,
    /// Device-wide calls during the job.
    device_wide_calls: u64,
}

fn measure(
    engine: &Engine,
    key: &Arc<ProvingKey>,
    assignment: &Arc<Assignment>,
    shape: &str,
    partitions: usize,
) -> Result<Measured> {
    let devices = engine.devices().len();
    // The first job is planned as the one that is measured.
    let expected = WARM_UP * devices + partitions;
    let prove = |partitions: usize| {
        let partition = |_| Partition::new(assignment.clone());
        let partitions = (0..partitions).map(partition).collect::<Result<_>>()?;
        let job = Job::new(shape, key.clone(), partitions).expecting(expected);
        engine.submit(job)?.wait()
    };
    let device_wide = || engine.usage().iter().map(|usage| usage.device_wide_calls).sum::<u64>();
    for _ in 0..WARM_UPS {
        let before = device_wide();
        prove(WARM_UP * devices)?;
        if device_wide() == before {
            break;
        }
    }
    let end = |timeline: Option<Timeline>| timeline.map_or(0, |timeline| timeline.end_ns());
    let (from, before) = (end(engine.timeline()), engine.usage());
    let started = Instant::now();
    let proved = prove(partitions)?;
    let seconds = started.elapsed().as_secs_f64();
    let timeline = engine.timeline().unwrap_or_default();
    let until = timeline.end_ns();
    let device = |(usage, before): (Usage, Usage)| {
        let lanes = timeline.lanes();
        let of_device = format!(" of {}", usage.name);
        let is_there =
            |lane: usize| lanes[lane].starts_with("stream ") && lanes[lane].ends_with(&of_device);
        let is_kernel = |class| matches!(class, Class::Transform | Class::Msm);
        let busy =
            timeline.busy_ns(from, until, |span| is_kernel(span.class) && is_there(span.lane));
        Device {
            busy: (busy > 0).then(|| busy as f64 / (until - from) as f64),
            device_wide_calls: usage.device_wide_calls - before.device_wide_calls,
            usage,
        }
    };
    let devices = engine.usage().into_iter().zip(before).map(device).collect();
    Ok(Measured { seconds, proved, devices })
}

impl Measured {
    fn seconds_each(&self) -> f64 {
        self.seconds / self.proved.len() as f64
    }

    /// Partitions that `device` proved.
    fn on<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = &'a Proved> {
        self.proved.iter().filter(|proved| proved.device == device.usage.name)
    }

    fn print(&self) {
        let count = self.proved.len();
        println!(
            "{count} partitions in {:.3} s, {:.3} s each, all verified",
            self.seconds,
            self.seconds_each()
        );
        for device in &self.devices {
            let Device { usage, busy, device_wide_calls } = device;
            println!("{}: {} partitions", usage.name, self.on(device).count());
            if let Some(proved) = self.on(device).next() {
                println!("  plan: {}", proved.plan);
                let most =
                    self.on(device).map(|proved| proved.used_bytes).max().unwrap_or_default();
                let (most, planned) = (bytes::text(most), bytes::text(proved.planned_bytes));
                println!("  a partition's bytes: at most {most} in use, {planned} planned");
            }
            if let Some(busy) = busy {
                println!("  kernels ran in {:.1} % of the time", busy * 100.0);
            }
            let (high_water, capacity) =
                (bytes::text(usage.high_water), bytes::text(usage.capacity));
            println!(
                "  at most {high_water} of {capacity} leased; {device_wide_calls} device-wide calls"
            );
        }
    }

    fn to_json(&self) -> Value {
        let devices: Vec<_> = self
            .devices
            .iter()
            .map(|device| {
                let first = self.on(device).next();
                json!({
                    "device": device.usage.name,
                    "partitions": self.on(device).count(),
                    "plan": first.map(|proved| &proved.plan),
                    "planned_bytes": first.map(|proved| proved.planned_bytes),
                    "used_bytes": self.on(device).map(|proved| proved.used_bytes).max(),
                    "capacity_bytes": device.usage.capacity,
                    "high_water_bytes": device.usage.high_water,
                    "busy_fraction": device.busy,
                    "device_wide_calls": device.device_wide_calls,
                })
            })
            .collect();
        json!({
            "partitions": self.proved.len(),
            "seconds": self.seconds,
            "seconds_each": self.seconds_each(),
            "devices": devices,
        })
    }
}
