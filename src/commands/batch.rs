//! `forebay batch`.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use forebay::engine::{Engine, Job, JobHandle, Partition, Priority, Proved};
use forebay::format::{Progress, json, wtns};
use forebay::key::{LoadedKey, ProvingKey, load_key};
use forebay::witness::Assignment;
use forebay::{Error, Result};
use serde::Deserialize;
use serde_json::json;

use super::output::{Output, expect_distinct};
use super::proving::{check_of, leave, start, timeline_paths};
use super::read_with;
use crate::cli::Batch;
use crate::terminal::Terminal;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Jobs {
    jobs: Vec<JobEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobEntry {
    key: PathBuf,
    partitions: Vec<PartitionEntry>,
    #[serde(default)]
    priority: PriorityName,
    deadline_seconds: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionEntry {
    witness: PathBuf,
    proof: PathBuf,
    public: PathBuf,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PriorityName {
    Low,
    #[default]
    Normal,
    High,
}

impl From<PriorityName> for Priority {
    fn from(name: PriorityName) -> Self {
        match name {
            PriorityName::Low => Self::Low,
            PriorityName::Normal => Self::Normal,
            PriorityName::High => Self::High,
        }
    }
}

/// Proves all jobs; a job that fails does not keep the others from being done. The first failure is the command's.
pub fn run(options: &Batch, terminal: &Arc<Terminal>) -> Result<()> {
    let parse = |text: &[u8]| {
        serde_json::from_slice::<Jobs>(text).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            Error::invalid(place, error, "jobs as `forebay batch --help` says")
        })
    };
    let mut jobs = read_with(&options.jobs, parse)?.jobs;
    let folder = options.jobs.parent().unwrap_or(Path::new("")).to_owned();
    jobs.iter_mut().for_each(|job| job.resolve(&folder));
    expect_distinct(&inputs(options, &jobs), &outputs(options, &jobs))?;

    let engine = start(&options.engine, terminal)?;
    let mut keys = HashMap::new();
    let total: usize = jobs.iter().map(|job| job.partitions.len()).sum();
    let mut waiting = Vec::new();
    for (index, entry) in jobs.iter().enumerate() {
        let of_key = jobs.iter().filter(|job| job.key == entry.key);
        let expected = of_key.map(|job| job.partitions.len()).sum();
        let submitted = key_of(entry, options, terminal, &mut keys)
            .and_then(|key| submit(&engine, index, entry, key, expected));
        waiting.push(submitted);
    }
    terminal.begin("proofs", total as u64);
    let mut results: Vec<Option<Result<Vec<Proved>>>> = Vec::new();
    let handles = waiting.into_iter().map(|submitted| match submitted {
        Ok(handle) => {
            results.push(None);
            Some(handle)
        }
        Err(error) => {
            results.push(Some(Err(error)));
            None
        }
    });
    let handles: Vec<_> = handles.collect();
    let started = Instant::now();
    each_when_done(handles, |index, result| {
        let result = result.and_then(|proved| {
            write(&jobs[index], &proved)?;
            Ok(proved)
        });
        terminal.advance(jobs[index].partitions.len() as u64);
        results[index] = Some(result);
    });
    let results: Vec<_> = results.into_iter().flatten().collect();
    terminal.say(format!("{} jobs in {:.2?}", jobs.len(), started.elapsed()));
    leave(&options.engine, &engine, terminal)?;
    report(&jobs, results, options.json, terminal)
}

impl JobEntry {
    /// Makes names of files relative to `folder`.
    fn resolve(&mut self, folder: &Path) {
        let of_partitions = self.partitions.iter_mut();
        let of_partitions =
            of_partitions.flat_map(|p| [&mut p.witness, &mut p.proof, &mut p.public]);
        for path in of_partitions.chain([&mut self.key]) {
            *path = folder.join(&*path);
        }
    }
}

fn inputs<'a>(options: &'a Batch, jobs: &'a [JobEntry]) -> Vec<&'a Path> {
    let of_jobs = jobs.iter().flat_map(|job| {
        let witnesses = job.partitions.iter().map(|partition| partition.witness.as_path());
        std::iter::once(job.key.as_path()).chain(witnesses)
    });
    std::iter::once(options.jobs.as_path()).chain(of_jobs).collect()
}

fn outputs<'a>(options: &'a Batch, jobs: &'a [JobEntry]) -> Vec<&'a Path> {
    let partitions = jobs.iter().flat_map(|job| &job.partitions);
    let of_jobs = partitions.flat_map(|partition| [partition.proof.as_path(), &partition.public]);
    timeline_paths(&options.engine).chain(of_jobs).collect()
}

/// The key of a job, loaded once for all that name it.
fn key_of(
    entry: &JobEntry,
    options: &Batch,
    terminal: &Terminal,
    keys: &mut HashMap<PathBuf, Arc<ProvingKey>>,
) -> Result<Arc<ProvingKey>> {
    if let Some(key) = keys.get(&entry.key) {
        return Ok(key.clone());
    }
    let LoadedKey { key, insecurity, .. } =
        load_key(&entry.key, &check_of(options.skip_key_checks), terminal)?;
    if let Some(why) = insecurity {
        let path = entry.key.display();
        terminal.warn(format!("{path}: INSECURE key, anyone can forge its proofs: {why}"));
    }
    let key = Arc::new(key);
    keys.insert(entry.key.clone(), key.clone());
    Ok(key)
}

fn submit(
    engine: &Engine,
    index: usize,
    entry: &JobEntry,
    key: Arc<ProvingKey>,
    expected: usize,
) -> Result<JobHandle> {
    let partition = |partition: &PartitionEntry| {
        let path = partition.witness.clone();
        // In the file a value has 32 bytes, in memory at most half a byte more; and both stand side by side for a while.
        let size = std::fs::metadata(&path).map_err(Error::io(&path))?.len();
        Partition::synthesised(size.saturating_mul(3), move || {
            Ok(Assignment::from_witness(&wtns::read_file(&path)?))
        })
    };
    let partitions = entry.partitions.iter().map(partition).collect::<Result<Vec<_>>>()?;
    let job = Job::new(format!("job {index}"), key, partitions).expecting(expected);
    let job = job.priority(entry.priority.into());
    engine.submit(match entry.deadline_seconds {
        None => job,
        Some(seconds) => job.deadline(Instant::now() + Duration::from_secs(seconds.into())),
    })
}

/// Writes a job's files, all or none.
fn write(entry: &JobEntry, proved: &[Proved]) -> Result<()> {
    let mut outputs = Vec::new();
    for (partition, proved) in entry.partitions.iter().zip(proved) {
        outputs.push(Output::with_contents(&partition.proof, &json::write_proof(&proved.proof))?);
        let public = json::write_public(&proved.public_inputs);
        outputs.push(Output::with_contents(&partition.public, &public)?);
    }
    Output::finish(outputs)
}

/// Says what became of the jobs; the first error is returned, the others are printed.
fn report(
    jobs: &[JobEntry],
    results: Vec<Result<Vec<Proved>>>,
    as_json: bool,
    terminal: &Terminal,
) -> Result<()> {
    if as_json {
        let entries = results.iter().zip(jobs).map(|(result, job)| {
            let key = job.key.display().to_string();
            match result {
                Err(error) => json!({ "key": key, "error": error.to_string() }),
                Ok(proved) => json!({
                    "key": key,
                    "partitions": proved.iter().map(|proved| json!({
                        "backend": proved.backend,
                        "device": proved.device,
                        "tries": proved.tries,
                        "seconds": proved.elapsed.as_secs_f64(),
                        "plan": proved.plan,
                    })).collect::<Vec<_>>(),
                }),
            }
        });
        let report = json!({ "jobs": entries.collect::<Vec<_>>() });
        println!("{}", serde_json::to_string_pretty(&report).expect("plain fields"));
    }
    let mut first = None;
    for (index, result) in results.into_iter().enumerate() {
        let Err(error) = result else { continue };
        terminal.warn(format!("job {index} failed: {error}"));
        first.get_or_insert(error);
    }
    first.map_or(Ok(()), Err)
}

/// Calls `then` for each job as soon as it has ended.
fn each_when_done(
    mut handles: Vec<Option<JobHandle>>,
    mut then: impl FnMut(usize, Result<Vec<Proved>>),
) {
    /// Tells which job to look at.
    struct Look(usize, Mutex<Sender<usize>>);

    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            let sender = self.1.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody looks any more when all jobs have ended.
            let _ = sender.send(self.0);
        }
    }

    let (sender, receiver) = channel();
    let wakers: Vec<Waker> = (0..handles.len())
        .map(|index| Arc::new(Look(index, Mutex::new(sender.clone()))).into())
        .collect();
    wakers.iter().for_each(Waker::wake_by_ref);
    let mut left = handles.iter().flatten().count();
    while left > 0 {
        let Ok(index) = receiver.recv() else { return };
        let Some(handle) = &mut handles[index] else { continue };
        let mut context = Context::from_waker(&wakers[index]);
        if let Poll::Ready(result) = Pin::new(handle).poll(&mut context) {
            handles[index] = None;
            left -= 1;
            then(index, result);
        }
    }
}
