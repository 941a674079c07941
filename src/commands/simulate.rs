//! `forebay simulate`.

use std::path::{Path, PathBuf};

use forebay::simulate::{Report, Scenario, simulate};
use forebay::{Error, Result, bytes};

use super::output::{Output, expect_distinct};
use super::read_with;
use crate::cli::Simulate;
use crate::terminal::Terminal;

/// Simulates a scenario and prints what came of it; a run that fails is a result too.
pub fn run(options: &Simulate, terminal: &Terminal) -> Result<()> {
    let (mut scenario, file) = match Scenario::built_in(&options.scenario) {
        Some(scenario) => (scenario, None),
        None => {
            let path = PathBuf::from(&options.scenario);
            let scenario =
                read_with(&path, Scenario::from_json).map_err(|error| known(error, &path))?;
            (scenario, Some(path))
        }
    };
    let inputs: Vec<&Path> = file.as_deref().into_iter().collect();
    let outputs: Vec<&Path> =
        [&options.svg, &options.trace].into_iter().flatten().map(PathBuf::as_path).collect();
    expect_distinct(&inputs, &outputs)?;
    if let Some(vram) = options.vram {
        scenario.card_bytes = vram;
    }
    if let Some(workers) = options.workers {
        scenario.workers = workers;
    }
    // The file was valid; what it became by the options is the caller's business.
    scenario.check().map_err(|error| Error::Usage(error.to_string()))?;
    let (report, timeline) = simulate(&scenario, options.scheme.into())?;

    let shown = match options.seconds {
        Some(seconds) => timeline.window(0, seconds.saturating_mul(1_000_000_000)),
        None => timeline.clone(),
    };
    let drawn = options.svg.as_ref().map(|path| (path, shown.to_svg()));
    let traced = options.trace.as_ref().map(|path| (path, timeline.to_chrome_json()));
    let files: Vec<_> = drawn.into_iter().chain(traced).collect();
    let files = files.iter().map(|(path, text)| Output::with_contents(path, text.as_bytes()));
    Output::finish(files.collect::<Result<Vec<_>>>()?)?;
    for path in outputs {
        terminal.say(format!("{}: written", path.display()));
    }
    print(&report, options.json);
    Ok(())
}

/// A name that is neither a file nor a built-in scenario: says which there are.
fn known(error: Error, path: &Path) -> Error {
    match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let names: Vec<&str> = Scenario::built_in_names().collect();
            Error::Usage(format!(
                "{}: no such file, and no scenario of this name: there are {}",
                path.display(),
                names.join(", ")
            ))
        }
        other => other,
    }
}

fn print(report: &Report, json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(report).expect("plain fields"));
        return;
    }
    let rows = [
        ("scenario", report.scenario.clone()),
        ("scheme", report.scheme.name().to_owned()),
        ("completed", report.completed.to_string()),
        ("out of memory", report.oom.to_string()),
        ("deadlock", report.deadlock.to_string()),
        ("failure", report.failure.clone().unwrap_or_else(|| "none".to_owned())),
        ("partitions", format!("{} of {}", report.partitions_done, report.partitions)),
        ("workers", report.workers.to_string()),
        ("makespan", format!("{:.3} s", report.makespan_s)),
        ("card busy", format!("{:.1} %", report.gpu_busy_fraction * 100.0)),
        (
            "high water",
            format!(
                "{} of {}",
                bytes::text(report.high_water_bytes),
                bytes::text(report.vram_bytes)
            ),
        ),
        ("device-wide calls", report.device_global_syncs.to_string()),
    ];
    for (name, value) in rows {
        println!("{name:18} {value}");
    }
}
