//! Transforms, and the quotient of them. Vectors are on the card for both. A turn is so many transforms that starting and
//! waiting for the last of them is nothing beside them.

use std::sync::Arc;

use anyhow::{Result, ensure};
use forebay::backend::cuda::{Cuda, CudaBuffer, CudaStream};
use forebay::backend::{Backend, Buffer, DeviceCompact, Output, Quotient, Transform};
use forebay::budget::Lease;
use forebay::compact::Compact;
use forebay::field::{Field, Fr};
use rayon::prelude::*;

use crate::inputs::{Scalars, uniform};
use crate::polynomial::{at_evaluations, at_natural, at_reversed};
use crate::sppark::{self, Vector};
use crate::table::{Row, Table};
use crate::turns::take_turns;

const SIZES: [u32; 3] = [20, 24, 27];
const BAR: f64 = 0.85;
const QUOTIENT_SIZE: u32 = 24;
const QUOTIENT_BAR: f64 = 0.70;
/// Quotients of a turn.
const QUOTIENTS: u32 = 4;

/// All transforms of up to 2^max_log_n elements.
pub fn measure(card: &Cuda, max_log_n: u32, table: &mut Table) -> Result<()> {
    for log_n in SIZES.into_iter().filter(|log_n| *log_n <= max_log_n) {
        transforms(card, log_n, table)?;
    }
    if QUOTIENT_SIZE <= max_log_n {
        quotients(card, QUOTIENT_SIZE, table)?;
    }
    sppark::trim()
}

/// Ours: vectors of 2^log_n elements and the table for their transforms.
struct Ours<'a> {
    card: &'a Cuda,
    stream: CudaStream,
    table: CudaBuffer<Fr>,
    lease: Lease,
}

impl<'a> Ours<'a> {
    /// With room for so many vectors, and so many bytes beside them.
    fn new(card: &'a Cuda, log_n: u32, vectors: u64, bytes: u64) -> Result<Self> {
        let bytes = bytes + vectors * ((Fr::BYTES as u64) << log_n);
        let lease = card.budget().lease("transforms", bytes + card.ntt_table_bytes(log_n))?;
        let stream = card.stream()?;
        let table = card.ntt_table(&stream, &lease, log_n)?;
        Ok(Self { card, stream, table, lease })
    }

    fn vector(&self, elements: &[Fr]) -> Result<CudaBuffer<Fr>> {
        let mut vector = self.card.alloc(&self.lease, "vector", elements.len())?;
        self.card.upload(&self.stream, elements, &mut vector, 0)?;
        Ok(vector)
    }

    fn ntt(&self, transform: Transform, vector: &mut CudaBuffer<Fr>) -> Result<()> {
        Ok(self.card.ntt(&self.stream, transform, &self.table, vector)?)
    }

    fn quotient(&self, step: Quotient, a: &mut CudaBuffer<Fr>, b: &CudaBuffer<Fr>) -> Result<()> {
        Ok(self.card.quotient(&self.stream, step, a, b)?)
    }

    fn download(&self, vector: &CudaBuffer<Fr>) -> Result<Vec<Fr>> {
        let mut elements = vec![Fr::ZERO; vector.len()];
        self.card.download(&self.stream, vector, 0, &mut elements)?;
        Ok(elements)
    }

    /// Waits for what is queued.
    fn wait(&self, vector: &CudaBuffer<Fr>) -> Result<()> {
        Ok(self.card.download(&self.stream, vector, 0, &mut [Fr::ZERO])?)
    }
}

fn per(count: u32, times: Vec<f64>) -> Vec<f64> {
    times.into_iter().map(|time| time / f64::from(count)).collect()
}

/// `Interpolate` and `Evaluate`, each beside sppark's forward transform from natural to natural order.
fn transforms(card: &Cuda, log_n: u32, table: &mut Table) -> Result<()> {
    let n = 1usize << log_n;
    let elements = Scalars::Random.make(n);
    let mut peer = Vector::new(&elements)?;
    // A few places tell any wrong butterfly, for each output is a sum over all inputs.
    let places = [0, 1, n / 2 + 1, n - 3];
    let root = |place: usize| Fr::root_of_unity(log_n).pow(place as u64);
    peer.evaluate(1)?;
    let evaluated = peer.download()?;
    for place in places {
        ensure!(
            evaluated[place] == at_natural(&elements, root(place)),
            "sppark's 2^{log_n} is wrong"
        );
    }
    drop(evaluated);

    let ours = Ours::new(card, log_n, 1, 0)?;
    let mut vector = ours.vector(&elements)?;
    let count = 1u32 << (28 - log_n).clamp(2, 8);
    for (transform, name) in
        [(Transform::Interpolate, "Interpolate"), (Transform::Evaluate, "Evaluate")]
    {
        card.upload(&ours.stream, &elements, &mut vector, 0)?;
        ours.ntt(transform, &mut vector)?;
        let transformed = ours.download(&vector)?;
        let (coefficients, values) = match transform {
            Transform::Interpolate => (&transformed, &elements),
            _ => (&elements, &transformed),
        };
        for place in places {
            let value = at_reversed(coefficients, root(place));
            ensure!(values[place] == value, "our {name} of 2^{log_n} is wrong");
        }
        let run = || {
            (0..count).try_for_each(|_| ours.ntt(transform, &mut vector))?;
            ours.wait(&vector)
        };
        let times = take_turns(log_n, run, || peer.evaluate(count), |_, ()| Ok(()))?;
        let [ours, peer] = times.map(|times| per(count, times));
        let what = format!("{name}, against NN forward");
        table.push(Row { what, log_n, ours, peer, bar: Some(BAR) });
    }
    Ok(())
}

/// Six of our transforms beside seven of sppark's.
fn quotients(card: &Cuda, log_n: u32, table: &mut Table) -> Result<()> {
    let n = 1usize << log_n;
    let a = Scalars::Random.make(n);
    let b: Vec<_> = (0..n).into_par_iter().map(|i| uniform((n + i) as u64)).collect();
    let c: Vec<_> = a.par_iter().zip(&b).map(|(a, b)| *a * *b).collect();
    // (A B - C)(z) = h(z) (z^n - 1) at a point that nobody chose is as good as everywhere.
    let z = uniform(1 << 50);
    let vanishing = z.pow(n as u64) - Fr::ONE;
    let [at_a, at_b, at_c] = [&a, &b, &c].map(|values| at_evaluations(values, z));
    let expected = (at_a * at_b - at_c) * vanishing.inverse();

    let [mut their_a, mut their_b, mut their_c] =
        [Vector::new(&a)?, Vector::new(&b)?, Vector::new(&c)?];
    their_a.quotient(&mut their_b, &mut their_c, 1)?;
    ensure!(at_natural(&their_a.download()?, z) == expected, "sppark's quotient is wrong");

    let packed = [&a, &b].map(|values| Arc::new(Compact::pack(values)));
    let bytes = packed.iter().map(|packed| packed.bytes()).sum();
    let ours = Ours::new(card, log_n, 3, bytes)?;
    let adopt = |packed| DeviceCompact::adopt(card, &ours.stream, &ours.lease, "rows", packed);
    let [packed_a, packed_b] = [adopt(&packed[0])?, adopt(&packed[1])?];
    let product_rows = |out: &mut CudaBuffer<Fr>| -> Result<()> {
        card.expand(&ours.stream, packed_b.packed(), Output::Set, out)?;
        Ok(card.expand(&ours.stream, packed_a.packed(), Output::Multiply, out)?)
    };
    for (what, with_rows) in [("quotient", false), ("quotient and the rows of c", true)] {
        let mut vectors = [ours.vector(&a)?, ours.vector(&b)?, ours.vector(&c)?];
        // As src/groth16/quotient.rs queues it.
        let quotient = |[a, b, c]: &mut [CudaBuffer<Fr>; 3]| -> Result<()> {
            for vector in [&mut *a, &mut *b] {
                ours.ntt(Transform::Interpolate, vector)?;
                ours.ntt(Transform::EvaluateOdd, vector)?;
            }
            ours.quotient(Quotient::Product, a, b)?;
            if with_rows {
                product_rows(c)?;
            }
            ours.ntt(Transform::Interpolate, c)?;
            ours.ntt(Transform::InterpolateOdd, a)?;
            ours.quotient(Quotient::HalfDifference, a, c)
        };
        quotient(&mut vectors)?;
        let h = ours.download(&vectors[0])?;
        ensure!(at_reversed(&h, z) == expected, "our {what} is wrong");
        let run = || {
            (0..QUOTIENTS).try_for_each(|_| quotient(&mut vectors))?;
            ours.wait(&vectors[0])
        };
        let peer = || their_a.quotient(&mut their_b, &mut their_c, QUOTIENTS);
        let times = take_turns(log_n, run, peer, |_, ()| Ok(()))?;
        let [ours, peer] = times.map(|times| per(QUOTIENTS, times));
        table.push(Row { what: what.into(), log_n, ours, peer, bar: Some(QUOTIENT_BAR) });
    }
    Ok(())
}
