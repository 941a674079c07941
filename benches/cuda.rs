//! The operations on a card, data resident, as tables: `cargo bench --bench cuda`, or `-- multiples` and the like for one of them.
//! The numbers in backends.md are from here.

use std::time::{Duration, Instant};

use forebay::Result;
use forebay::backend::cuda::{Cuda, Options};
use forebay::backend::{Backend, Msm, Multiples, Pending, Quotient, Raised, Transform};
use forebay::curve::{Affine, Coordinate, FixedBase, Point};
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
        quotient(&card, 24)?;
    }
    if wanted("sums") {
        println!("| n | G1 random | G1 90 % bits | G2 random, ms |");
        println!("| --- | --- | --- | --- |");
        for log_n in [16, 18, 20, 22, 24] {
            let random = sum::<Fp>(&card, log_n, false)?;
            let bits = sum::<Fp>(&card, log_n, true)?;
            let second = sum::<Fp2>(&card, log_n, false)?;
            println!("| 2^{log_n} | {random:.3} | {bits:.3} | {second:.3} |");
        }
    }
    if wanted("raised") {
        let columns = RAISED_WINDOWS.map(|bits| format!("{bits} bits"));
        println!("| n | plain | chosen | {} | to raise, ms |", columns.join(" | "));
        println!("| --- | --- | --- |{} --- |", " --- |".repeat(RAISED_WINDOWS.len()));
        // The largest has more digits than the sort takes at a time.
        for log_n in (16..=22).chain([24]) {
            raised::<Fp>(&card, log_n)?;
            if log_n <= 20 {
                raised::<Fp2>(&card, log_n)?;
            }
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

/// The quotient's six transforms and its pointwise steps, for the basis of coefficients, as the prover queues them.
fn quotient(card: &Cuda, log_n: u32) -> Result<()> {
    let n = 1usize << log_n;
    let bytes = 2 * (n * Fr::BYTES) as u64 + card.ntt_table_bytes(log_n);
    let lease = card.budget().lease("quotient", bytes)?;
    let stream = card.stream()?;
    let table = card.ntt_table(&stream, &lease, log_n)?;
    let vector = || -> Result<_> {
        let mut vector = card.alloc::<Fr>(&lease, "vector", n)?;
        card.upload(&stream, &scalars(n), &mut vector, 0)?;
        Ok(vector)
    };
    let (mut a, mut b) = (vector()?, vector()?);
    let mut run = || {
        let started = Instant::now();
        for vector in [&mut a, &mut b] {
            card.ntt(&stream, Transform::Interpolate, &table, vector)?;
            card.ntt(&stream, Transform::EvaluateOdd, &table, vector)?;
        }
        card.quotient(&stream, Quotient::Product, &mut a, &b)?;
        card.ntt(&stream, Transform::Interpolate, &table, &mut b)?;
        card.ntt(&stream, Transform::InterpolateOdd, &table, &mut a)?;
        card.quotient(&stream, Quotient::HalfDifference, &mut a, &b)?;
        card.download(&stream, &a, 0, &mut [Fr::ZERO])?;
        Ok(started.elapsed())
    };
    println!("six transforms of 2^{log_n} and two pointwise steps: {:.2?}", median(&mut run)?);
    Ok(())
}

/// Milliseconds of a sum over 2^log_n points, of which 2^14 are different. `bits`: 45 % of the scalars are 0, 45 % 1.
fn sum<F: Coordinate>(card: &Cuda, log_n: u32, bits: bool) -> Result<f64> {
    let n = 1usize << log_n;
    let mut point = F::generator().to_point();
    let some = std::iter::repeat_with(|| {
        point = point.double() + F::generator();
        point.to_affine()
    });
    let some: Vec<_> = some.take(n.min(1 << 14)).collect();
    let bases: Vec<Affine<F>> = some.into_iter().cycle().take(n).collect();
    let mut word = words();
    let mut scalar = || match if bits { word() % 20 } else { 19 } {
        0..9 => Fr::ZERO,
        9..18 => Fr::ONE,
        // Below 2^254, and so below r.
        _ => Fr::from_montgomery_limbs([word(), word(), word(), word() >> 2]).expect("below r"),
    };
    let scalars: Vec<_> = (0..n).map(|_| scalar()).collect();
    let scratch_bytes = card.msm_scratch::<F>(n).next_multiple_of(8);
    let bytes = size_of_val(&bases[..]) as u64 + (n * Fr::BYTES) as u64 + scratch_bytes;
    let lease = card.budget().lease("sum", bytes)?;
    let stream = card.stream()?;
    let mut scratch = card.alloc::<u64>(&lease, "scratch", (scratch_bytes / 8) as usize)?;
    let mut on_card = (card.alloc(&lease, "bases", n)?, card.alloc(&lease, "scalars", n)?);
    card.upload(&stream, &bases, &mut on_card.0, 0)?;
    card.upload(&stream, &scalars, &mut on_card.1, 0)?;
    let mut run = || {
        let started = Instant::now();
        let (bases, scalars) = (&on_card.0, &on_card.1);
        let msm =
            Msm { bases, base_range: 0..n, scalars, range: 0..n, density: None, raised: None };
        card.msm::<F>(&stream, msm, &mut scratch)?.wait()?;
        Ok(started.elapsed())
    };
    Ok(median(&mut run)?.as_secs_f64() * 1e3)
}

/// Windows to try beside the one that the card's backend chooses.
const RAISED_WINDOWS: [u32; 6] = [15, 16, 17, 18, 19, 20];

/// A row for sums over 2^log_n points, all different, random scalars: over plain bases, and over raised ones. All give the same.
fn raised<F: Coordinate>(card: &Cuda, log_n: u32) -> Result<()> {
    let n = 1usize << log_n;
    let chosen = card.raised_for::<F>(n).expect("multiples for sums of this size");
    let windows = RAISED_WINDOWS.map(Raised::new).into_iter();
    let point = size_of::<Affine<F>>();
    let scalars = random_scalars(n);
    let base = FixedBase::with_window(&F::generator(), 8);

    // Multiples of the generator by scalars that are far from each other.
    let lease = card
        .budget()
        .lease("points", (n * (Fr::BYTES + point) + base.table.len() * point) as u64)?;
    let stream = card.stream()?;
    let mut bases = vec![F::generator(); n];
    {
        let table = card.adopt(&stream, &lease, "table", base.table.clone())?;
        let mut logs = card.alloc::<Fr>(&lease, "logarithms", n)?;
        card.upload(&stream, &random_scalars(2 * n)[n..], &mut logs, 0)?;
        let mut points = card.alloc::<Affine<F>>(&lease, "points", n)?;
        let window_bits = base.window_bits;
        let multiples = Multiples { table: &table, window_bits, scalars: &logs, range: 0..n };
        card.multiples::<F>(&stream, multiples, &mut points)?;
        card.download(&stream, &points, 0, &mut bases)?;
    }

    let mut want: Option<Point<F>> = None;
    let mut row = vec![format!("2^{log_n}, {}", F::GROUP)];
    let mut to_raise = Duration::ZERO;
    for raised in [None, Some(chosen)].into_iter().chain(windows.map(Some)) {
        let (scratch_bytes, copies) = match raised {
            None => (card.msm_scratch::<F>(n), 1),
            Some(raised) => (card.raised_scratch::<F>(raised, n), raised.windows()),
        };
        let words = scratch_bytes.div_ceil(8) as usize;
        let bytes = 8 * words + n * (Fr::BYTES + copies * point);
        let lease = card.budget().lease("sum", bytes as u64)?;
        let mut scratch = card.alloc::<u64>(&lease, "scratch", words)?;
        let mut on_card = card.alloc::<Fr>(&lease, "scalars", n)?;
        card.upload(&stream, &scalars, &mut on_card, 0)?;
        let mut points = card.alloc::<Affine<F>>(&lease, "bases", n * copies)?;
        card.upload(&stream, &bases, &mut points, 0)?;
        if let Some(raised) = raised {
            card.download(&stream, &points, 0, &mut [F::generator()])?;
            let started = Instant::now();
            card.raise::<F>(&stream, raised, &mut points)?;
            card.download(&stream, &points, 0, &mut [F::generator()])?;
            if raised == chosen {
                to_raise = started.elapsed();
            }
        }
        let mut sum = None;
        let mut run = || {
            let started = Instant::now();
            let msm = Msm {
                bases: &points,
                base_range: 0..n,
                scalars: &on_card,
                range: 0..n,
                density: None,
                raised,
            };
            sum = Some(card.msm::<F>(&stream, msm, &mut scratch)?.wait()?);
            Ok(started.elapsed())
        };
        let ms = median(&mut run)?.as_secs_f64() * 1e3;
        row.push(match raised {
            Some(raised) if row.len() == 2 => format!("{ms:.3} ({} bits)", raised.window_bits()),
            _ => format!("{ms:.3}"),
        });
        let sum = sum.expect("it ran");
        assert!(*want.get_or_insert(sum) == sum, "{}: {raised:?} gives another sum", row[0]);
    }
    println!("| {} | {:.1} |", row.join(" | "), to_raise.as_secs_f64() * 1e3);
    Ok(())
}

/// Numbers that look random, the same every time (Marsaglia's xorshift).
fn words() -> impl FnMut() -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Scalars below 2^254, no two of which are related.
fn random_scalars(len: usize) -> Vec<Fr> {
    let mut word = words();
    let scalar = |_| {
        let limbs = [word(), word(), word(), word() >> 2];
        Fr::from_montgomery_limbs(limbs).expect("below r")
    };
    (0..len).map(scalar).collect()
}

/// The median of seven runs, after one that is not counted.
fn median(run: &mut dyn FnMut() -> Result<Duration>) -> Result<Duration> {
    run()?;
    let mut times = (0..7).map(|_| run()).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[3])
}
