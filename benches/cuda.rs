//! The operations on a card, data resident, as tables: `cargo bench --bench cuda`, or `-- multiples` and the like for one of them.
//! The numbers in backends.md are from here.

use std::time::{Duration, Instant};

use forebay::Result;
use forebay::backend::cuda::{Cuda, Options};
use forebay::backend::{Backend, Multiples, Quotient, Transform};
use forebay::curve::{Affine, Coordinate, FixedBase};
use forebay::field::{Field, Fp, Fp2, Fr};

fn main() -> Result<()> {
    let started = Instant::now();
    let card = Cuda::open(0, Options::default())?;
    println!("{}; opened in {:.2?}", card.info().name, started.elapsed());
    let asked: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let wanted = |table: &str| asked.is_empty() || asked.iter().any(|word| word == table);
    if wanted("copies") {
        copies(&card)?;
    }
    if wanted("transforms") {
        println!("| n | interpolate | evaluate | interpolate odd | evaluate odd | product, ms |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for log_n in (16..=27).filter(|log_n| 64 << log_n < card.budget().capacity() as u128) {
            transforms(&card, log_n)?;
        }
    }
    if wanted("multiples") {
        println!("| multiples | {} bits, ms |", WINDOWS.map(|bits| bits.to_string()).join(" | "));
        println!("| --- |{}", " --- |".repeat(WINDOWS.len()));
        for log_n in [14, 17, 20, 22] {
            multiples::<Fp>(&card, log_n)?;
            multiples::<Fp2>(&card, log_n)?;
        }
    }
    Ok(())
}

/// Windows of the tables that multiples are made from.
const WINDOWS: [u32; 5] = [8, 10, 12, 14, 16];

fn multiples<F: Coordinate>(card: &Cuda, log_n: u32) -> Result<()> {
    let n = 1usize << log_n;
    let mut row = vec![format!("2^{log_n}, {}", F::GROUP)];
    for window_bits in WINDOWS {
        let base = FixedBase::with_window(&F::generator(), window_bits);
        let point = size_of::<Affine<F>>();
        let bytes = n * (Fr::BYTES + point) + base.table.len() * point;
        let lease = card.budget().lease("multiples", bytes as u64)?;
        let stream = card.stream()?;
        let table = card.adopt(&stream, &lease, "table", base.table)?;
        let mut on_device = card.alloc::<Fr>(&lease, "scalars", n)?;
        card.upload(&stream, &scalars(n), &mut on_device, 0)?;
        let mut out = card.alloc::<Affine<F>>(&lease, "points", n)?;
        let mut run = || {
            let started = Instant::now();
            let multiples =
                Multiples { table: &table, window_bits, scalars: &on_device, range: 0..n };
            card.multiples::<F>(&stream, multiples, &mut out)?;
            card.download(&stream, &out, 0, &mut [F::generator()])?;
            Ok(started.elapsed())
        };
        row.push(format!("{:.3}", median(&mut run)?.as_secs_f64() * 1e3));
    }
    println!("| {} |", row.join(" | "));
    Ok(())
}

/// Full-size scalars from a fixed recurrence, the same 2^12 again and again.
fn scalars(len: usize) -> Vec<Fr> {
    let step = Fr::from(3).inverse();
    let some: Vec<_> =
        std::iter::successors(Some(step), |x| Some(*x * (*x + step))).take(1 << 12).collect();
    some.into_iter().cycle().take(len).collect()
}

fn copies(card: &Cuda) -> Result<()> {
    let stream = card.stream()?;
    for log_len in [20, 25, 30] {
        let mut data = vec![7u8; 1 << log_len];
        let lease = card.budget().lease("copies", 1 << log_len)?;
        let mut buffer = card.alloc::<u8>(&lease, "copies", data.len())?;
        let rate = |time: Duration| (1u64 << log_len) as f64 / time.as_secs_f64() / 1e9;
        let mut up = || {
            let started = Instant::now();
            card.upload(&stream, &data, &mut buffer, 0)?;
            card.download(&stream, &buffer, 0, &mut [0])?;
            Ok(started.elapsed())
        };
        let up = median(&mut up)?;
        let mut down = || {
            let started = Instant::now();
            card.download(&stream, &buffer, 0, &mut data)?;
            Ok(started.elapsed())
        };
        let down = median(&mut down)?;
        println!(
            "2^{log_len} bytes of plain memory: {:.1} GB/s up, {:.1} down",
            rate(up),
            rate(down)
        );
    }
    Ok(())
}

fn transforms(card: &Cuda, log_n: u32) -> Result<()> {
    let n = 1usize << log_n;
    let bytes = 2 * (n * Fr::BYTES) as u64 + card.ntt_table_bytes(log_n);
    let lease = card.budget().lease("transforms", bytes)?;
    let stream = card.stream()?;
    let table = card.ntt_table(&stream, &lease, log_n)?;
    let mut data = card.alloc::<Fr>(&lease, "data", n)?;
    card.upload(&stream, &scalars(n), &mut data, 0)?;
    let mut operand = card.alloc::<Fr>(&lease, "operand", n)?;
    card.upload(&stream, &scalars(n), &mut operand, 0)?;

    // So many at once that starting and waiting for the last of them is nothing beside them.
    let repeat = 1u32 << (28 - log_n).clamp(2, 10);
    let mut row = vec![format!("2^{log_n}")];
    for transform in [
        Transform::Interpolate,
        Transform::Evaluate,
        Transform::InterpolateOdd,
        Transform::EvaluateOdd,
    ] {
        let mut run = || {
            let started = Instant::now();
            for _ in 0..repeat {
                card.ntt(&stream, transform, &table, &mut data)?;
            }
            card.download(&stream, &data, 0, &mut [Fr::ZERO])?;
            Ok(started.elapsed() / repeat)
        };
        row.push(format!("{:.4}", median(&mut run)?.as_secs_f64() * 1e3));
    }
    let mut run = || {
        let started = Instant::now();
        for _ in 0..repeat {
            card.quotient(&stream, Quotient::Product, &mut data, &operand)?;
        }
        card.download(&stream, &data, 0, &mut [Fr::ZERO])?;
        Ok(started.elapsed() / repeat)
    };
    row.push(format!("{:.4}", median(&mut run)?.as_secs_f64() * 1e3));
    println!("| {} |", row.join(" | "));
    Ok(())
}

/// The median of seven runs, after one that is not counted.
fn median(run: &mut dyn FnMut() -> Result<Duration>) -> Result<Duration> {
    run()?;
    let mut times = (0..7).map(|_| run()).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[3])
}
