//! `forebay prove`.

use std::sync::Arc;
use std::time::Instant;

use forebay::engine::{Job, Partition, Proved};
use forebay::format::{FileSource, Kind, fbkey::Fbkey, json, r1cs::R1cs, wtns, zkey::Zkey};
use forebay::key::{Checked, LoadedKey, load_key};
use forebay::witness::Assignment;
use forebay::{Error, Result};

use super::output::{Output, expect_distinct};
use super::proving::{check_of, leave, start, timeline_paths};
use crate::cli::Prove;
use crate::terminal::Terminal;

/// Proves; writes nothing unless the proof verifies.
pub fn run(options: &Prove, terminal: &Arc<Terminal>) -> Result<()> {
    let mut inputs = vec![options.key.as_path(), &options.witness];
    inputs.extend(options.r1cs.as_deref());
    let mut outputs = vec![options.proof.as_path(), &options.public];
    outputs.extend(timeline_paths(&options.engine));
    expect_distinct(&inputs, &outputs)?;

    let values = wtns::read_file(&options.witness)?;
    if let Some(path) = &options.r1cs {
        let source = FileSource::open(path)?;
        let broken = R1cs::read(&source).and_then(|r1cs| r1cs.first_unsatisfied(&values));
        if let Some(broken) = broken.map_err(|error| error.in_file(path))? {
            return Err(Error::Unsatisfied(format!("{}, {broken}", path.display())));
        }
    }
    // Before the points, which take long: whether key and witness belong together at all.
    let source = FileSource::open(&options.key)?;
    let variables = match Kind::of(&source) {
        Ok(Kind::Fbkey) => Fbkey::map(&source).map(|file| file.header.variables),
        Ok(kind @ (Kind::Params | Kind::ArkworksPk)) => Err(without_matrices(&kind.to_string())),
        _ => Zkey::open(&source).map(|file| file.header.variables as usize),
    };
    let variables = variables.map_err(|error| error.in_file(&options.key))?;
    if values.len() != variables {
        let expected = format!("{variables}, the variables of {}", options.key.display());
        let error = Error::invalid("section 1 (header), number of values", values.len(), expected);
        return Err(error.in_file(&options.witness));
    }
    let check = check_of(options.skip_key_checks);
    let started = Instant::now();
    let LoadedKey { key, checked, insecurity, .. } = load_key(&options.key, &check, &**terminal)?;
    if key.matrices.is_none() {
        return Err(without_matrices("a key without matrices").in_file(&options.key));
    }
    if let Some(why) = insecurity {
        terminal.warn(format!(
            "{}: INSECURE key, anyone can forge its proofs: {why}",
            options.key.display()
        ));
    }
    let points = match checked {
        Checked::Now => "points checked now and remembered",
        Checked::Before => "points checked before",
        Checked::Skipped => "points NOT checked",
    };
    terminal.say(format!(
        "{}: {} variables, {} public, domain 2^{}; {points}; loaded in {:.2?}",
        options.key.display(),
        key.variables,
        key.inputs - 1,
        key.log_n,
        started.elapsed()
    ));
    let key = Arc::new(key);
    let public = values[1..key.inputs].to_vec();
    let assignment = Assignment::from_witness(&values);
    drop(values);

    let started = Instant::now();
    let engine = start(&options.engine, terminal)?;
    let partition = Partition::new(Arc::new(assignment))?;
    let job = Job::new(options.proof.display().to_string(), key, vec![partition]);
    let proved =
        engine.submit(job.progress(terminal.clone()))?.wait().map_err(|error| match error {
            Error::SelfVerify(why) if options.r1cs.is_none() => Error::SelfVerify(format!(
                "{why} (--r1cs names the first row that a witness breaks)"
            )),
            other => other.in_file(&options.witness),
        })?;
    let [Proved { proof, backend, .. }] = &proved[..] else {
        return Err(Error::Internal("one partition gives one proof".into()));
    };
    let outputs = [
        Output::with_contents(&options.proof, &json::write_proof(proof))?,
        Output::with_contents(&options.public, &json::write_public(&public))?,
    ];
    Output::finish(outputs)?;
    leave(&options.engine, &engine, terminal)?;
    terminal.say(format!(
        "{}: proved and verified on {backend} in {:.2?}",
        options.proof.display(),
        started.elapsed()
    ));
    Ok(())
}

/// A witness file has the variables' values; the rows' come from matrices, or from who synthesised the circuit.
fn without_matrices(found: &str) -> Error {
    let expected = "a key with the circuit's matrices, such as a .zkey: a witness file has no values of rows \
        (programs give them as Assignment::rows)";
    Error::invalid("the key", found, expected)
}
