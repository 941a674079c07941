//! Multiples beside bases, and sums over such bases, in both groups.

use super::msm::{Sum, bases};
use super::*;

/// The windows to try: the backend's own choice for `len` bases, and others, of which some end where scalars do.
fn windows<F: Group, B: Backend>(backend: &B, len: usize, others: &[u32]) -> Vec<Raised> {
    let others = others.iter().map(|window_bits| Raised::new(*window_bits));
    backend.raised_for::<F>(len).into_iter().chain(others).collect()
}

pub fn raise_matches_multiples<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("raise_matches_multiples", 0x4a_15e5);
    let (first, step) = (random.scalar(), random.scalar());
    for len in [0, 1, 2, 31, 33, 63, 64, 65, 127, 128, 129, 257, 300] {
        // One copy takes one inversion, or shares it with others, as many as there are.
        for raised in windows::<F, B>(backend, len, &[2, 16, 20][..if len < 65 { 3 } else { 1 }]) {
            let what = format!("{} bases of {}, {raised:?}", len, F::GROUP);
            // Every fifth is infinity, every fifth the one before, every fifth the opposite of the one before.
            let arrange = |of: Bases<F>| {
                of.rearranged(len, |i| match i % 5 {
                    1 => (i - 1, 1),
                    2 => (i, 0),
                    4 => (i - 1, -1),
                    _ => (i, 1),
                })
            };
            let of_copy = |k: usize| {
                let factor = oracle::power_of_two(k * raised.window_bits() as usize);
                arrange(Bases::<F>::new(factor * first, factor * step, len)).points
            };
            let point = size_of::<Affine<F>>();
            let session = Session::new(backend, (raised.windows() * len * point) as u64);
            let dirt = pattern(&mut Random::silent(5), raised.windows() * len);
            let mut points = session.put::<Affine<F>>(&dirt);
            let bases: Vec<_> = of_copy(0).iter().map(F::base).collect();
            backend.upload(&session.stream, &bases, &mut points, 0).expect("upload");
            backend.raise::<F>(&session.stream, raised, &mut points).expect("raise");
            let got = session.take(&points);
            for k in 0..raised.windows() {
                for (i, want) in of_copy(k).iter().enumerate() {
                    let got = got[k * len + i];
                    assert!(got == F::base(want), "{what}: copy {k} of base {i} is {got:?}");
                }
            }
        }
    }
}

/// The base that stands at a place, and its sign.
type Choose = fn(usize) -> (usize, i8);

pub fn raised_sums<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("raised_sums", 0x4a_50a5);
    let all = bases::<F>(random, 4100);
    let around = |k: u32| [(1 << k) - 1, 1 << k, (1 << k) + 1];
    for len in [0, 1, 2, 33].into_iter().chain(around(7)).chain(around(10)).chain([4100]) {
        let bases = all.rearranged(len, |i| (i, 1));
        let scalars = random.scalars(len);
        for raised in windows::<F, B>(backend, len, &[5, 13][..if len < 1000 { 2 } else { 0 }]) {
            let sum = Sum { raised: Some(raised), ..Sum::plain(&bases, &scalars) };
            sum.check(backend, "random scalars");
        }
    }
    let (zero, one, any) = (Scalar::from(0u64), Scalar::from(1u64), random.scalar());
    let len = 300;
    // Powers of two, what is one less, and both negated: carries out of any window, at any place.
    let around = |i| [oracle::power_of_two(i), oracle::power_of_two(i) - one];
    let powers: Vec<_> = (0..255).flat_map(around).flat_map(|x| [x, -x]).collect();
    let mut mostly_bits: Vec<_> = (0..len as u64).map(|i| Scalar::from(i % 2)).collect();
    mostly_bits.iter_mut().step_by(50).for_each(|x| *x = random.scalar());
    let scalars = [
        ("all 0", vec![zero; len]),
        ("all 1", vec![one; len]),
        ("all r - 1", vec![-one; len]),
        ("all equal", vec![any; len]),
        ("mostly bits", mostly_bits),
        ("edges", mixed_scalars(random, len)),
        ("around powers of two", powers),
    ];
    let kinds: [(&str, Choose); 5] = [
        ("different", |i| (i, 1)),
        ("infinity among them", |i| (i, (i % 3 > 0) as i8)),
        ("all infinity", |_| (0, 0)),
        ("all equal", |_| (0, 1)),
        ("pairs of opposite", |i| (i / 2, 1 - 2 * (i % 2) as i8)),
    ];
    for (kind, choose) in kinds {
        for (scalar_kind, scalars) in &scalars {
            let bases = all.rearranged(scalars.len(), choose);
            for raised in windows::<F, B>(backend, scalars.len(), &[]) {
                let sum = Sum { raised: Some(raised), ..Sum::plain(&bases, scalars) };
                let what = format_args!("bases {kind}, scalars {scalar_kind}");
                sum.check(backend, what);
            }
        }
    }
}

/// Ranges of the scalars, and densities: parts of a query whose multiples are those of all of it.
pub fn raised_parts<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("raised_parts", 0x4a_46e5);
    let all = bases::<F>(random, 1000);
    let raised = Some(backend.raised_for::<F>(100).unwrap_or(Raised::new(9)));
    let scalars = random.scalars(150);
    for range in [0..150, 1..150, 63..129, 77..78, 75..75] {
        let bases = all.rearranged(range.len(), |i| (i, 1));
        let what = format!("range {range:?} of {}", scalars.len());
        let sum = Sum { range, raised, ..Sum::plain(&bases, &scalars) };
        sum.check(backend, what);
    }
    for len in [1, 64, 65, 1000] {
        let (before, behind) = (13, 5);
        let scalars = random.scalars(before + len + behind);
        let kinds: [(&str, Vec<bool>); 3] = [
            ("half", (0..len).map(|_| random.below(2) == 0).collect()),
            ("empty", vec![false; len]),
            ("only the last", (0..len).map(|i| i == len - 1).collect()),
        ];
        for (kind, density) in &kinds {
            let ones = density.iter().filter(|bit| **bit).count();
            let bases = all.rearranged(ones, |i| (i, 1));
            let range = before..before + len;
            let what = format!("density {kind}, range {range:?} of {}", scalars.len());
            let density = Some(&density[..]);
            let sum = Sum { range, density, raised, ..Sum::plain(&bases, &scalars) };
            sum.check(backend, what);
        }
    }
}
