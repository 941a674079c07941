//! `forebay plan`.

use std::path::Path;
use std::sync::Arc;

use forebay::backend::DeviceInfo;
use forebay::key::{Check, load_key};
use forebay::plan::{self, Options, Shape, to_timeline};
use forebay::profile::Profile;
use forebay::{Error, Result, bytes};
use serde_json::json;

use super::output::{Output, expect_distinct};
use crate::cli::Plan;
use crate::terminal::Terminal;

/// Prints the ladder of plans, the choice, and why.
pub fn run(options: &Plan, terminal: &Arc<Terminal>) -> Result<()> {
    let path = Path::new(&options.shape);
    let shape = match path.exists() {
        true => Shape::of_key(&load_key(path, &Check::Skip, &**terminal)?.key),
        false => Shape::of_profile(&Profile::named(&options.shape)?),
    };
    if let Some(svg) = &options.svg {
        expect_distinct(&[path], &[svg])?;
    }
    let devices = options.devices().open(terminal, false)?;
    let expected = Options { partitions: options.partitions, ..Options::default() };
    for (device, capacity, ladder) in devices.ladders(&shape, &expected)? {
        let chosen = ladder.iter().position(|plan| plan.needs() <= capacity);
        if options.json {
            print_json(&device, capacity, &ladder, chosen);
        } else {
            print(&device, capacity, &ladder, chosen);
        }
        let Some(chosen) = chosen else {
            return Err(Error::NeverFits {
                label: format!("the smallest plan for a domain of 2^{}", shape.log_n),
                need: ladder.last().map_or(0, plan::Plan::needs),
                capacity,
            });
        };
        if let Some(path) = &options.svg {
            let svg = to_timeline(&ladder[chosen], &shape, capacity).to_svg();
            Output::finish([Output::with_contents(path, svg.as_bytes())?])?;
            terminal.say(format!("{}: written", path.display()));
        }
    }
    Ok(())
}

fn print(device: &DeviceInfo, capacity: u64, ladder: &[plan::Plan], chosen: Option<usize>) {
    println!("{} ({}), {}", device.name, device.backend, bytes::text(capacity));
    println!(
        "  {:>10} {:>10} {:>10} {:>9}  plan, fastest first",
        "needs", "peak", "transfers", "seconds"
    );
    for (index, plan) in ladder.iter().enumerate() {
        println!(
            "{} {:>10} {:>10} {:>10} {:>9.3}  {}",
            if Some(index) == chosen { '>' } else { ' ' },
            bytes::text(plan.needs()),
            bytes::text(plan.peak()),
            bytes::text(plan.transfers()),
            plan.seconds,
            plan.summary()
        );
    }
    let Some(index) = chosen else { return };
    let plan = &ladder[index];
    for stage in &plan.stages {
        println!(
            "  {:22} {:>10}, {:>10} up, {:>10} down",
            stage.name,
            bytes::text(stage.bytes),
            bytes::text(stage.upload),
            bytes::text(stage.download)
        );
    }
    println!("chosen: {}", plan.summary());
    match index.checked_sub(1).map(|faster| &ladder[faster]) {
        None => println!("why: the fastest there is, and it fits"),
        Some(faster) => println!(
            "why: the fastest that fits; the next faster one needs {} more",
            bytes::text(faster.needs() - capacity)
        ),
    }
}

fn print_json(device: &DeviceInfo, capacity: u64, ladder: &[plan::Plan], chosen: Option<usize>) {
    let plans: Vec<_> = ladder
        .iter()
        .map(|plan| {
            json!({
                "summary": plan.summary(),
                "needs_bytes": plan.needs(),
                "peak_bytes": plan.peak(),
                "releases_bytes": plan.releases(),
                "transfer_bytes": plan.transfers(),
                "plan": plan,
            })
        })
        .collect();
    let report = json!({
        "device": device.name,
        "backend": device.backend,
        "capacity_bytes": capacity,
        "chosen": chosen,
        "ladder": plans,
    });
    println!("{}", serde_json::to_string_pretty(&report).expect("plain fields"));
}
