//! `forebay bench --operations`: what proofs are made of, on each backend, by size, with data resident.
//!
//! Every result is checked once, against another way to compute it in Fr: sums are of points whose logarithms are known, and
//! an interpolated polynomial is evaluated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::backend::{Backend, Msm, Pending, Transform, bit_reverse};
use forebay::curve::{Affine, Coordinate, FixedBase};
use forebay::field::{Field, Fp, Fp2, Fr};
use forebay::{Error, Result};
use serde_json::json;

use crate::cli::{BackendChoice, Bench, Work};
use crate::terminal::Terminal;

/// Different points of a sum.
const TILE: usize = 1 << 14;
/// A device is kept busy for so long before it is measured: its clocks rise with the work.
const WARM_UP: Duration = Duration::from_millis(250);
/// A measurement takes so long at least; of so many the median counts.
const LEAST: Duration = Duration::from_millis(20);
const MEASUREMENTS: usize = 5;

/// An operation and its size, with milliseconds, or why there are none.
type Row = (&'static str, u32, std::result::Result<f64, String>);

/// Measures on each backend, and prints one table: a column a backend, the first one's times and what the others take of them.
pub fn run(options: &Bench, backends: &[BackendChoice], terminal: &Arc<Terminal>) -> Result<()> {
    let log_ns = &options.log_n[..];
    let log_ns = if log_ns.is_empty() { &[16, 20] } else { log_ns };
    if let Some(log_n) = log_ns.iter().find(|log_n| !(4..=28).contains(*log_n)) {
        return Err(Error::Usage(format!("operations on 2^{log_n}: sizes are from 2^4 to 2^28")));
    }
    let mut columns: Vec<(String, Vec<Row>)> = Vec::new();
    for backend in backends {
        let mut column = (String::new(), Vec::new());
        let devices = options.engine.devices.with_backend(*backend);
        devices.run(Measure { log_ns, column: &mut column }, terminal)?;
        columns.push(column);
    }
    match options.json {
        true => print_json(&columns),
        false => print_table(&columns),
    }
    #[cfg(feature = "wgpu")]
    if backends.contains(&BackendChoice::Wgpu) {
        let speeds = options.engine.devices.with_backend(BackendChoice::Wgpu).speeds()?;
        if !options.json {
            for speed in speeds {
                let (fr, fp) = (speed.fr / 1e9, speed.fp / 1e9);
                println!("{:?}: {fr:.2} G products of Fr a second, {fp:.2} of Fp", speed.core);
            }
        }
    }
    Ok(())
}

fn print_table(columns: &[(String, Vec<Row>)]) {
    for (index, (device, _)) in columns.iter().enumerate() {
        println!("{}: {device}", index + 1);
    }
    let heads: Vec<_> = (1..=columns.len()).map(|column| format!("{column}, ms")).collect();
    println!("| operation | n | {} |", heads.join(" | "));
    println!("| --- | --- |{}", " --- |".repeat(columns.len()));
    let Some((_, first)) = columns.first() else { return };
    for (row, (operation, log_n, base)) in first.iter().enumerate() {
        let cell = |(index, (_, rows)): (usize, &(String, Vec<Row>))| match (&rows[row].2, base) {
            (Ok(time), Ok(base)) if index > 0 => format!("{time:.3} ({:.2})", time / base),
            (Ok(time), _) => format!("{time:.3}"),
            (Err(reason), _) => reason.clone(),
        };
        let cells: Vec<_> = columns.iter().enumerate().map(cell).collect();
        println!("| {operation} | 2^{log_n} | {} |", cells.join(" | "));
    }
}

fn print_json(columns: &[(String, Vec<Row>)]) {
    let devices: Vec<_> = columns
        .iter()
        .map(|(device, rows)| {
            let row = |(operation, log_n, time): &Row| match time {
                Ok(time) => json!({"operation": operation, "log_n": log_n, "milliseconds": time}),
                Err(reason) => json!({"operation": operation, "log_n": log_n, "reason": reason}),
            };
            json!({"device": device, "operations": rows.iter().map(row).collect::<Vec<_>>()})
        })
        .collect();
    println!("{}", serde_json::to_string_pretty(&json!(devices)).expect("plain fields"));
}

/// Fills a backend's column.
struct Measure<'a> {
    log_ns: &'a [u32],
    column: &'a mut (String, Vec<Row>),
}

impl Work for Measure<'_> {
    fn on<B: Backend>(self, backend: &B) -> Result<()> {
        let (device, rows) = self.column;
        *device = format!("{}, {}", backend.info().backend, backend.info().name);
        // What does not fit is a row without a time.
        let fits = |time: Result<f64>| match time {
            Ok(time) => Ok(Ok(time)),
            Err(Error::OutOfMemory { .. } | Error::Refused { .. }) => Ok(Err("no room".to_owned())),
            Err(error) => Err(error),
        };
        for log_n in self.log_ns {
            rows.push(("sum in G1", *log_n, fits(sum::<Fp, B>(backend, *log_n))?));
        }
        for log_n in self.log_ns {
            rows.push(("sum in G2", *log_n, fits(sum::<Fp2, B>(backend, *log_n))?));
        }
        for log_n in self.log_ns {
            rows.push(("Interpolate", *log_n, fits(interpolate(backend, *log_n))?));
        }
        Ok(())
    }
}

/// Wide values: each is made from the last.
fn values(len: usize) -> Vec<Fr> {
    let step = Fr::from(3).inverse();
    std::iter::successors(Some(step), |x| Some(*x * (*x + step))).take(len).collect()
}

/// Milliseconds of one operation. `run` does as many as it is told, then waits for the device.
fn median(mut run: impl FnMut(u32) -> Result<()>) -> Result<f64> {
    let mut timed = |count: u32| -> Result<Duration> {
        let started = Instant::now();
        run(count)?;
        Ok(started.elapsed())
    };
    // So many at once that the wait for the last is little beside them.
    let started = Instant::now();
    let mut count = 1;
    while timed(count)? < LEAST || started.elapsed() < WARM_UP {
        if timed(count)? < LEAST {
            count *= 2;
        }
    }
    let mut times = (0..MEASUREMENTS).map(|_| timed(count)).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[MEASUREMENTS / 2].as_secs_f64() * 1e3 / f64::from(count))
}

fn wrong(backend: &impl Backend, what: &str, log_n: u32) -> Error {
    let device = &backend.info().name;
    Error::SelfVerify(format!("{device}: {what} of 2^{log_n} is wrong"))
}

fn sum<F: Coordinate, B: Backend>(backend: &B, log_n: u32) -> Result<f64> {
    let n = 1usize << log_n;
    let words = backend.msm_scratch::<F>(n).div_ceil(8);
    let bytes = (n * (size_of::<Affine<F>>() + Fr::BYTES)) as u64 + 8 * words;
    let lease = backend.budget().lease("a sum", bytes)?;
    let logs = values(n.min(TILE));
    let tile = FixedBase::<F>::new(&F::generator(), logs.len()).multiply(&logs);
    let bases: Vec<Affine<F>> = tile.iter().copied().cycle().take(n).collect();
    let factors = values(n);
    let stream = backend.stream()?;
    let mut scratch = backend.alloc::<u64>(&lease, "scratch", words as usize)?;
    let bases = backend.adopt(&stream, &lease, "bases", Arc::new(bases))?;
    let scalars = backend.adopt(&stream, &lease, "scalars", Arc::new(factors.clone()))?;
    let mut run = || {
        let (bases, scalars) = (&bases, &scalars);
        let msm =
            Msm { bases, base_range: 0..n, scalars, range: 0..n, density: None, raised: None };
        backend.msm::<F>(&stream, msm, &mut scratch)?.wait()
    };
    let log = factors.iter().zip(logs.iter().cycle());
    let log = log.fold(Fr::ZERO, |sum, (factor, log)| sum + *factor * *log);
    if run()?.to_affine() != F::generator().to_point().scale(&log).to_affine() {
        return Err(wrong(backend, "a sum", log_n));
    }
    median(|count| (0..count).try_for_each(|_| run().map(|_| ())))
}

fn interpolate<B: Backend>(backend: &B, log_n: u32) -> Result<f64> {
    let n = 1usize << log_n;
    let bytes = (n * Fr::BYTES) as u64 + backend.ntt_table_bytes(log_n);
    let lease = backend.budget().lease("a transform", bytes)?;
    let stream = backend.stream()?;
    let table = backend.ntt_table(&stream, &lease, log_n)?;
    let mut data = backend.alloc::<Fr>(&lease, "values", n)?;
    let evaluations = values(n);
    backend.upload(&stream, &evaluations, &mut data, 0)?;
    backend.ntt(&stream, Transform::Interpolate, &table, &mut data)?;
    let mut coefficients = vec![Fr::ZERO; n];
    backend.download(&stream, &data, 0, &mut coefficients)?;
    let at = Fr::root_of_unity(log_n);
    let highest_first = (0..n).rev().map(|j| coefficients[bit_reverse(j, log_n)]);
    if highest_first.fold(Fr::ZERO, |sum, coefficient| sum * at + coefficient) != evaluations[1] {
        return Err(wrong(backend, "a transform", log_n));
    }
    median(|count| {
        for _ in 0..count {
            backend.ntt(&stream, Transform::Interpolate, &table, &mut data)?;
        }
        backend.download(&stream, &data, 0, &mut [Fr::ZERO])
    })
}
