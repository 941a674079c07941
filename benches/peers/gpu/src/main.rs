//! forebay's CUDA backend beside sppark, on the same card, in the same process and on the same data. Prints rows of a
//! Markdown table; a wrong result ends the run.

mod inputs;
mod polynomial;
mod sppark;
mod sums;
mod table;
mod transforms;
mod turns;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use forebay::backend::Backend;
use forebay::backend::cuda::{Cuda, Options, devices};

use crate::table::Table;

/// Measures forebay's sums and transforms beside sppark's, on the first card
#[derive(Parser)]
struct Arguments {
    /// Leave out what has more than 2^N elements, for a small card or a quick look
    #[arg(long, value_name = "N", default_value_t = 27)]
    max_log_n: u32,

    /// File to write all runs to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let started = Instant::now();
    // sppark takes its memory from the driver, beside what we lease.
    let vram = devices()?.first().map(|card| card.memory_bytes / 2);
    let card = Cuda::open(0, Options { vram, ..Options::default() })?;
    eprintln!("{}: opened in {:.1?}", card.info().name, started.elapsed());
    sppark::start()?;
    let mut table = Table::new(&card.info().name);
    sums::measure(&card, arguments.max_log_n, &mut table)?;
    transforms::measure(&card, arguments.max_log_n, &mut table)?;
    arguments.json.map_or(Ok(()), |path| table.write(&path))
}
