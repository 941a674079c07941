//! `forebay convert`.

use std::io::BufWriter;
use std::time::Instant;

use forebay::format::fbkey::{self, Facts};
use forebay::key::{Checked, load_large_key};
use forebay::{Error, Result, bytes};

use super::output::{Output, expect_distinct, folder_of};
use super::proving::check_of;
use crate::cli::Convert;
use crate::terminal::Terminal;

/// Writes a key in the form that is mapped; its points are checked first, unless that was done before. The key may be larger than the
/// memory.
pub fn run(options: &Convert, terminal: &Terminal) -> Result<()> {
    expect_distinct(&[&options.key], &[&options.converted])?;
    let started = Instant::now();
    // The folder must have room for the converted key anyway.
    let scratch = folder_of(&options.converted);
    let loaded = load_large_key(&options.key, &check_of(false), scratch, terminal)?;
    if let Some(why) = loaded.insecurity {
        terminal.warn(format!(
            "{}: INSECURE key, anyone can forge its proofs: {why}",
            options.key.display()
        ));
    }
    let facts = Facts {
        points_checked: loaded.checked != Checked::Skipped,
        contributions: loaded.contributions,
    };
    let mut output = BufWriter::with_capacity(1 << 20, Output::create(&options.converted)?);
    let written = fbkey::write(&loaded.key, facts, terminal, &mut output).and_then(|()| {
        output.into_inner().map_err(|error| Error::io(&options.converted)(error.into_error()))
    });
    Output::finish([written.map_err(|error| error.in_file(&options.key))?])?;
    let len = std::fs::metadata(&options.converted).map_err(Error::io(&options.converted))?.len();
    let points = match loaded.checked {
        Checked::Now => "points checked now",
        Checked::Before => "points checked before",
        Checked::Skipped => "points NOT checked",
    };
    terminal.say(format!(
        "{}: {}, {points}; made in {:.2?}",
        options.converted.display(),
        bytes::text(len),
        started.elapsed()
    ));
    Ok(())
}
