//! `forebay compare`.

use std::path::Path;
use std::sync::Arc;

use forebay::compare::{Failing, compare, replay};
use forebay::format::wtns;
use forebay::key::{LoadedKey, load_key};
use forebay::profile::synthetic;
use forebay::witness::Assignment;
use forebay::{Error, Result};
use serde_json::json;

use super::output::{Output, expect_distinct};
use super::proving::check_of;
use super::read_with;
use crate::cli::{Compare, What};
use crate::terminal::Terminal;

/// Compares the backends; where they differ, writes the smallest input for which they do, and fails.
pub fn run(options: &Compare, terminal: &Arc<Terminal>) -> Result<()> {
    let inputs = [&options.key, &options.witness].into_iter().flatten();
    let inputs: Vec<&Path> = inputs.map(|path| path.as_path()).collect();
    expect_distinct(&inputs, &[&options.out])?;
    let backends = options.open()?;
    let report = match options.what()? {
        What::Replay(path) => replay(&backends, &failing(path)?)?,
        What::Files(key, witness) => {
            let values = wtns::read_file(witness)?;
            let LoadedKey { key, .. } = load_key(key, &check_of(false), &**terminal)?;
            compare(&backends, &key, &Assignment::from_witness(&values), &**terminal)?
        }
        What::Shape(profile) => {
            let (key, assignment) = synthetic::synthesise(&profile, options.seed)?;
            compare(&backends, &key, &assignment, &**terminal)?
        }
    };
    let file = report.finding.as_ref().map(|finding| finding.failing.to_json());
    if let Some(Some(file)) = &file {
        Output::finish([Output::with_contents(&options.out, file)?])?;
    }
    if options.json {
        let mut text = report.to_json();
        if let Some(file) = &file {
            text["failing"]["file"] = json!(file.as_ref().map(|_| &options.out));
        }
        println!("{text:#}");
    } else {
        println!("{report}");
        let out = options.out.display();
        match file {
            Some(Some(_)) => {
                println!("  written to {out}, with values of the witness, for --replay");
            }
            Some(None) => println!("  not written: larger than {} bytes", Failing::MOST_BYTES),
            None => {}
        }
    }
    report.outcome()
}

fn failing(path: &Path) -> Result<Failing> {
    // What is too long to be one is not read.
    let bytes = std::fs::metadata(path).map_err(Error::io(path))?.len();
    if bytes > Failing::MOST_BYTES {
        let expected = format!("at most {}", Failing::MOST_BYTES);
        return Err(Error::invalid("the file, bytes", bytes, expected).in_file(path));
    }
    read_with(path, Failing::from_json)
}
