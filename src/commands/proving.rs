//! What the commands that prove have in common.

use std::path::Path;

use forebay::Result;
use forebay::engine::{Engine, OnFailure, Options};
use forebay::key::{Check, CheckedKeys};

use super::output::Output;
use crate::cli::{EngineOptions, FailureChoice};
use crate::terminal::Terminal;

/// Which points to check of keys that are loaded.
pub fn check_of(skip: bool) -> Check {
    match CheckedKeys::of_user() {
        _ if skip => Check::Skip,
        Some(known) => Check::Once(known),
        None => Check::Always,
    }
}

/// An engine on the devices that were asked for.
pub fn start(options: &EngineOptions, terminal: &Terminal) -> Result<Engine> {
    start_with(options, terminal, timeline_paths(options).next().is_some())
}

/// The same, recording whether or not the timeline is to go anywhere.
pub fn start_recording(options: &EngineOptions, terminal: &Terminal) -> Result<Engine> {
    start_with(options, terminal, true)
}

fn start_with(options: &EngineOptions, terminal: &Terminal, record: bool) -> Result<Engine> {
    let on_failure = match options.on_failure {
        FailureChoice::Error => OnFailure::Error,
        FailureChoice::Cpu => OnFailure::Cpu,
    };
    Engine::new(
        options.devices.open(terminal, record)?,
        Options { on_failure, record, ..Options::default() },
    )
}

/// Where the timeline is to go.
pub fn timeline_paths(options: &EngineOptions) -> impl Iterator<Item = &Path> {
    [&options.svg, &options.trace].into_iter().flatten().map(|path| path.as_path())
}

/// Writes the timeline where it was asked for.
pub fn leave(options: &EngineOptions, engine: &Engine, terminal: &Terminal) -> Result<()> {
    let Some(timeline) = engine.timeline() else { return Ok(()) };
    let svg = options.svg.as_ref().map(|path| (path, timeline.to_svg()));
    let trace = options.trace.as_ref().map(|path| (path, timeline.to_chrome_json()));
    let files: Vec<_> = svg.into_iter().chain(trace).collect();
    let outputs = files.iter().map(|(path, text)| Output::with_contents(path, text.as_bytes()));
    Output::finish(outputs.collect::<Result<Vec<_>>>()?)?;
    for (path, _) in files {
        terminal.say(format!("{}: written", path.display()));
    }
    Ok(())
}
