//! The four operations on each backend, by size: `cargo bench --bench ops`. Transfers are outside.
#![allow(missing_docs, reason = "criterion's macros")]

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay::backend::cpu::Cpu;
use forebay::backend::{
    Backend, Buffer, DeviceCompact, DeviceMatrix, Matrix, Msm, Output, Pending, Quotient, Transform,
};
use forebay::compact::Compact;
use forebay::curve::{Affine, Coordinate};
use forebay::field::{Field, Fp, Fp2, Fr};

/// Full-size scalars from a fixed recurrence.
fn scalars(len: usize) -> Vec<Fr> {
    let step = Fr::from(3).inverse();
    std::iter::successors(Some(step), |x| Some(*x * (*x + step))).take(len).collect()
}

/// Distinct points: an arithmetic progression. A sum never meets one of them again.
fn points<F: Coordinate>(len: usize) -> Vec<Affine<F>> {
    let g = F::generator().to_point().scale(&Fr::from(7).inverse()).to_affine();
    std::iter::successors(Some(F::generator().to_point()), |p| Some(*p + g))
        .take(len)
        .map(|p| p.to_affine())
        .collect()
}

fn operations<B: Backend>(c: &mut Criterion, backend: &B) {
    let name = backend.info().backend;
    let stream = backend.stream().unwrap();
    for log_n in [14, 18] {
        let n = 1 << log_n;
        let lease = backend.budget().lease("bench", 1 << 31).unwrap();
        let id = |what: &str| BenchmarkId::new(format!("{what}/{name}"), format!("2^{log_n}"));
        let mut group = c.benchmark_group("ops");
        group.sample_size(10).throughput(Throughput::Elements(n as u64));

        let x = backend.adopt(&stream, &lease, "x", Arc::new(scalars(n))).unwrap();
        let mut data = backend.alloc::<Fr>(&lease, "data", n).unwrap();
        backend.upload(&stream, &scalars(n), &mut data, 0).unwrap();

        // Three entries a row, two of them with coefficient 1, as circuits have them.
        let matrix = Matrix {
            row_start: (0..=n as u32).map(|row| 3 * row).collect(),
            column: (0..3 * n as u32).map(|entry| (entry * 7919) % n as u32).collect(),
            coefficient: (0..3 * n as u32)
                .map(|entry| if entry % 3 == 2 { 2 } else { 0 })
                .collect(),
            table: vec![Fr::ONE, -Fr::ONE, Fr::from(5).inverse()].into(),
        };
        let matrix = DeviceMatrix::adopt(backend, &stream, &lease, &matrix).unwrap();
        group.bench_function(id("matvec"), |b| {
            b.iter(|| backend.matvec(&stream, &matrix, &x, Output::Set, &mut data).unwrap());
        });
        let table = backend.ntt_table(&stream, &lease, log_n).unwrap();
        for (what, transform) in [
            ("ntt interpolate", Transform::Interpolate),
            ("ntt evaluate odd", Transform::EvaluateOdd),
        ] {
            group.bench_function(id(what), |b| {
                b.iter(|| backend.ntt(&stream, transform, &table, &mut data).unwrap());
            });
        }
        group.bench_function(id("quotient"), |b| {
            b.iter(|| backend.quotient(&stream, Quotient::Product, &mut data, &x).unwrap());
        });
        let bits: Vec<Fr> =
            scalars(n).iter().map(|s| Fr::from(s.to_canonical_limbs()[0] & 1)).collect();
        let bits = backend.adopt(&stream, &lease, "bits", Arc::new(bits)).unwrap();
        msm::<B, Fp>(&mut group, backend, &lease, id("msm G1 random"), &x);
        msm::<B, Fp>(&mut group, backend, &lease, id("msm G1 bits"), &bits);
        msm::<B, Fp2>(&mut group, backend, &lease, id("msm G2 random"), &x);
        group.finish();
    }
}

fn msm<B: Backend, F: Coordinate>(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    backend: &B,
    lease: &forebay::budget::Lease,
    id: BenchmarkId,
    scalars: &B::Buffer<Fr>,
) {
    let stream = backend.stream().unwrap();
    let len = scalars.len();
    let bases = backend.adopt(&stream, lease, "bases", Arc::new(points::<F>(len))).unwrap();
    let mut scratch = backend
        .alloc::<u64>(lease, "scratch", (backend.msm_scratch::<F>(len) / 8) as usize)
        .unwrap();
    group.bench_function(id, |b| {
        b.iter(|| {
            let msm = Msm {
                bases: &bases,
                base_range: 0..len,
                scalars,
                range: 0..len,
                density: None,
                raised: None,
            };
            backend.msm::<F>(&stream, msm, &mut scratch).unwrap().wait().unwrap()
        });
    });
}

/// A row's value as in a PoRep partition: shares of 0, 1, -1 and below 2^32 in percent, the rest wide.
fn mix(len: usize, shares: [u64; 4]) -> Vec<Fr> {
    let wide = scalars(len);
    let bounds =
        [shares[0], shares[0] + shares[1], shares[..3].iter().sum(), shares.iter().sum::<u64>()];
    let value = |wide: &Fr| {
        let random = wide.to_canonical_limbs()[0];
        match random % 100 {
            p if p < bounds[0] => Fr::ZERO,
            p if p < bounds[1] => Fr::ONE,
            p if p < bounds[2] => -Fr::ONE,
            p if p < bounds[3] => Fr::from(random >> 32),
            _ => *wide,
        }
    };
    wide.iter().map(value).collect()
}

/// Packing and expanding, with the bytes a row printed: a and b of a PoRep partition together, and wide values.
fn compact<B: Backend>(c: &mut Criterion, backend: &B) {
    let (name, stream) = (backend.info().backend, backend.stream().unwrap());
    let n = 1 << 20;
    let lease = backend.budget().lease("bench", 1 << 30).unwrap();
    let mut group = c.benchmark_group("compact");
    group.sample_size(10).throughput(Throughput::Elements(n as u64));
    let (a, b, dense) = (mix(n, [49, 18, 6, 25]), mix(n, [49, 50, 0, 0]), scalars(n));
    let bytes = |values: &[Fr]| Compact::pack(values).bytes() as f64 / n as f64;
    println!(
        "bytes a row: PoRep a {:.2} and b {:.2}, together {:.2}; wide {:.2}, of 32 plain",
        bytes(&a),
        bytes(&b),
        bytes(&a) + bytes(&b),
        bytes(&dense)
    );
    for (kind, values) in [("PoRep a", a), ("wide", dense)] {
        group.bench_function(format!("pack/{kind}"), |b| b.iter(|| Compact::pack(&values)));
        let packed = Arc::new(Compact::pack(&values));
        let packed = DeviceCompact::adopt(backend, &stream, &lease, "packed", &packed).unwrap();
        let mut out = backend.alloc::<Fr>(&lease, "out", n).unwrap();
        group.bench_function(format!("expand/{name}/{kind}"), |b| {
            b.iter(|| backend.expand(&stream, packed.packed(), Output::Set, &mut out).unwrap());
        });
    }
}

fn all(c: &mut Criterion) {
    compact(c, &Cpu::open());
    operations(c, &Cpu::open());
}

criterion_group!(benches, all);
criterion_main!(benches);
