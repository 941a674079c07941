//! What was measured: rows of one Markdown table, and the same with every run as JSON.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// One comparison.
#[derive(Serialize)]
pub struct Row {
    pub what: String,
    pub log_n: u32,
    /// Milliseconds of each run.
    pub ours: Vec<f64>,
    /// The same for the peer, or for what else `what` says is compared with.
    pub peer: Vec<f64>,
    /// The most that ours may be of the peer's, by the medians.
    pub bar: Option<f64>,
}

impl Row {
    pub fn ratio(&self) -> f64 {
        median(&self.ours) / median(&self.peer)
    }

    /// Whether the ratio is within the bar.
    pub fn ok(&self) -> Option<bool> {
        self.bar.map(|bar| self.ratio() <= bar)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, peer) = (median(&self.ours), median(&self.peer));
        let bar = self.bar.map_or(String::new(), |bar| format!("{bar:.2}"));
        let ok = match self.ok() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        let Self { what, log_n, .. } = self;
        let ratio = self.ratio();
        write!(f, "| {what} | 2^{log_n} | {ours:.3} | {peer:.3} | {ratio:.3} | {bar} | {ok} |")
    }
}

/// The rows of one program.
#[derive(Serialize)]
pub struct Table {
    pub device: String,
    pub rows: Vec<Row>,
}

impl Table {
    pub fn new(device: impl Into<String>) -> Self {
        Self { device: device.into(), rows: Vec::new() }
    }

    /// Adds a row and prints it: the table's head is printed by who puts the programs' rows together.
    pub fn push(&mut self, row: Row) {
        println!("{row}");
        self.rows.push(row);
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)?;
        std::fs::write(path, json + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The middle one of an odd number of runs.
pub fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
