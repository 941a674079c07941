//! Checks of the kernels of sums and multiples, each by itself: what goes in comes from the host, and so does what should
//! come out.

use bytemuck::Pod;

use super::{Found, Tester, elements};
use crate::Result;
use crate::backend::wgpu::WgpuBuffer;
use crate::backend::wgpu::kernels::{Curve, Kernel, LANES, SCAN_LANES, SCAN_RUN};
use crate::backend::wgpu::msm::jacobian;
use crate::curve::{Affine, Coordinate, FixedBase, Point};
use crate::field::{Field, Fp, Fr};

/// A segment that holds all of a check's buffer.
const WHOLE: u64 = 1 << 20;

/// No digit.
const NONE: u32 = u32::MAX;

type Xyzz<F> = [F; 4];

impl Tester<'_> {
    fn whole<T: Pod + Send + Sync>(&self, data: &[T]) -> Result<WgpuBuffer<T>> {
        self.put(data, WHOLE)
    }

    fn curve<F: Coordinate>(&self) -> Curve {
        self.wgpu.0.gpu.curve::<F>()
    }
}

/// How two lists differ first.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], want: &[T]) -> Found {
    match got.iter().zip(want).position(|(got, want)| got != want) {
        None => Ok(()),
        Some(i) => Err(format!("{what}: {i} is {:?}, not {:?}", got[i], want[i])),
    }
}

/// How points differ first.
fn same_points<F: Coordinate>(what: &str, got: &[Xyzz<F>], want: &[Point<F>]) -> Found {
    match got.iter().zip(want).position(|(got, want)| jacobian(got) != *want) {
        None => Ok(()),
        Some(i) => Err(format!("{what}: point {i} of {}", want.len())),
    }
}

/// Numbers whose sums are scanned: more than one tile's.
fn values() -> Vec<u32> {
    (0..5000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 24).collect()
}

fn scanned(values: &[u32]) -> Vec<u32> {
    let mut sum = 0;
    let before = |value: &u32| {
        sum += value;
        sum - value
    };
    values.iter().map(before).collect()
}

fn tile_sums(values: &[u32]) -> Vec<u32> {
    values.chunks((SCAN_LANES * SCAN_RUN) as usize).map(|tile| tile.iter().sum()).collect()
}

pub(super) fn scan_tiles(tester: &Tester<'_>) -> Result<Found> {
    let values = values();
    let want = tile_sums(&values);
    let (input, sums) = (tester.whole(&values)?, tester.whole(&vec![7; want.len()])?);
    let len = [values.len() as u32, 0, 0, 0];
    tester.run(Kernel::ScanTiles, &[input.memory(), sums.memory()], &len, want.len())?;
    Ok(same("sum of a tile", &tester.take(&sums)?, &want))
}

pub(super) fn scan_sums(tester: &Tester<'_>) -> Result<Found> {
    let sums = &values()[..700];
    let buffer = tester.whole(sums)?;
    tester.run(Kernel::ScanSums, &[buffer.memory()], &[sums.len() as u32, 0, 0, 0], 1)?;
    Ok(same("sum before a tile", &tester.take(&buffer)?, &scanned(sums)))
}

pub(super) fn scan_place(tester: &Tester<'_>) -> Result<Found> {
    let values = values();
    let before = scanned(&tile_sums(&values));
    let (buffer, sums) = (tester.whole(&values)?, tester.whole(&before)?);
    let len = [values.len() as u32, 0, 0, 0];
    tester.run(Kernel::ScanPlace, &[buffer.memory(), sums.memory()], &len, before.len())?;
    Ok(same("sum before a value", &tester.take(&buffer)?, &scanned(&values)))
}

/// A density of 300 positions.
fn density() -> Vec<u64> {
    let words: [u64; 5] = [0x8000_0000_0000_0001, 0, u64::MAX, 0x0123_4567_89ab_cdef, 0xfff];
    words.to_vec()
}

fn halves(words: &[u64]) -> Vec<u32> {
    words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect()
}

pub(super) fn ranks(tester: &Tester<'_>) -> Result<Found> {
    let density = density();
    let want: Vec<_> = halves(&density).iter().map(|word| word.count_ones()).collect();
    let (input, out) = (tester.whole(&density)?, tester.whole(&vec![7u32; want.len()])?);
    let parameters = [want.len() as u32, 0, 0, 0];
    let groups = want.len().div_ceil(LANES as usize);
    tester.run(Kernel::MsmRanks, &[input.memory(), out.memory()], &parameters, groups)?;
    Ok(same("set bits of a word", &tester.take(&out)?, &want))
}

/// Digits as the kernel leaves them, of scalars with a density or without.
struct Digits {
    scalars: Vec<Fr>,
    counts: Vec<u32>,
    keys: Vec<u32>,
    orders: Vec<u32>,
}

const WINDOW_BITS: u32 = 5;
const WINDOWS: u32 = 254 / WINDOW_BITS + 1;
const HALF: u32 = 1 << (WINDOW_BITS - 1);

fn digits_of(tester: &Tester<'_>, dense: bool) -> Result<Digits> {
    let (positions, density) = (elements(300, 21), density());
    let is_set = |i: &usize| !dense || density[i / 64] >> (i % 64) & 1 == 1;
    let scalars: Vec<_> = (0..300).filter(is_set).map(|i| positions[i]).collect();
    let counts: Vec<_> = halves(&density).iter().map(|word| word.count_ones()).collect();
    let entries = scalars.len() * WINDOWS as usize;
    let (on_device, density) = (tester.whole(&positions)?, tester.whole(&density)?);
    let ranks = tester.whole(&scanned(&counts))?;
    let counts = tester.whole(&vec![0u32; (WINDOWS * HALF) as usize + 1])?;
    let (keys, orders) = (tester.whole(&vec![7u32; entries])?, tester.whole(&vec![0; entries])?);
    let mut parameters = [0u32; 12];
    parameters[0] = positions.len() as u32;
    parameters[4] = dense.into();
    parameters[6] = scalars.len() as u32;
    parameters[7] = WINDOW_BITS;
    parameters[9] = WINDOWS;
    let buffers = [
        on_device.memory(),
        density.memory(),
        ranks.memory(),
        counts.memory(),
        keys.memory(),
        orders.memory(),
    ];
    let groups = positions.len().div_ceil(LANES as usize);
    tester.run(Kernel::MsmDigits, &buffers, &parameters, groups)?;
    Ok(Digits {
        scalars,
        counts: tester.take(&counts)?,
        keys: tester.take(&keys)?,
        orders: tester.take(&orders)?,
    })
}

/// Digits are right if they add up to their scalar or its negative, and every entry of a bucket has a place of its own.
pub(super) fn digits(tester: &Tester<'_>) -> Result<Found> {
    for dense in [false, true] {
        let Digits { scalars, counts, keys, orders } = digits_of(tester, dense)?;
        let points = scalars.len();
        let mut places = vec![Vec::new(); counts.len()];
        for (point, scalar) in scalars.iter().enumerate() {
            let mut sum = Fr::ZERO;
            for window in (0..WINDOWS).rev() {
                sum = (0..WINDOW_BITS).fold(sum, |sum, _| sum.double());
                let at = window as usize * points + point;
                if keys[at] == NONE {
                    continue;
                }
                let bucket = keys[at] & 0x7fff_ffff;
                let Some(digit) = bucket.checked_sub(window * HALF).filter(|digit| *digit < HALF)
                else {
                    return Ok(Err(format!("scalar {point}: window {window}: bucket {bucket}")));
                };
                places[bucket as usize].push(orders[at]);
                let digit = Fr::from(u64::from(digit) + 1);
                sum = if keys[at] >> 31 == 1 { sum - digit } else { sum + digit };
            }
            if sum != *scalar {
                return Ok(Err(format!(
                    "scalar {point}: the digits add up to {sum:?}, not {scalar:?}"
                )));
            }
        }
        for (bucket, places) in places.iter_mut().enumerate() {
            places.sort_unstable();
            if !(0..counts[bucket]).eq(places.iter().copied()) {
                return Ok(Err(format!("bucket {bucket}: {places:?} of {}", counts[bucket])));
            }
        }
    }
    Ok(Ok(()))
}

pub(super) fn scatter(tester: &Tester<'_>) -> Result<Found> {
    let Digits { scalars, counts, keys, orders } = digits_of(tester, false)?;
    let starts = scanned(&counts);
    let mut want = vec![[0u32; 2]; keys.len()];
    for (at, key) in keys.iter().enumerate().filter(|(_, key)| **key != NONE) {
        let bucket = key & 0x7fff_ffff;
        let point = (at % scalars.len()) as u32;
        want[(starts[bucket as usize] + orders[at]) as usize] = [point | key & 1 << 31, bucket];
    }
    let (keys, orders) = (tester.whole(&keys)?, tester.whole(&orders)?);
    let (starts, sorted) = (tester.whole(&starts)?, tester.whole(&vec![[0u32; 2]; want.len()])?);
    let parameters = [scalars.len() as u32, want.len() as u32, 0, 0];
    let buffers = [keys.memory(), orders.memory(), starts.memory(), sorted.memory()];
    tester.run(Kernel::MsmScatter, &buffers, &parameters, want.len().div_ceil(LANES as usize))?;
    Ok(same("sorted entry", &tester.take(&sorted)?, &want))
}

/// Multiples of the generator, infinity among them.
fn bases<F: Coordinate>() -> Vec<Affine<F>> {
    let g = F::generator();
    let multiple = |k: u64| g.to_point().scale(&Fr::from(k)).to_affine();
    vec![g, multiple(2), g.neg(), Affine::INFINITY, multiple(3), multiple(5), g]
}

/// The same point with ZZ = z^2 and ZZZ = z^3, z = the number + 2.
fn xyzz<F: Coordinate>(number: usize, point: &Point<F>) -> Xyzz<F> {
    let affine = point.to_affine();
    if affine.is_infinity() {
        return [F::ZERO; 4];
    }
    let z = (0..number + 2).fold(F::ZERO, |z, _| z + F::ONE);
    let (zz, zzz) = (z.square(), z.square() * z);
    [affine.x() * zz, affine.y() * zzz, zz, zzz]
}

fn all_xyzz<F: Coordinate>(points: &[Point<F>]) -> Vec<Xyzz<F>> {
    points.iter().enumerate().map(|(i, point)| xyzz(i, point)).collect()
}

/// Entries in runs, and what should come of them.
struct Runs<F> {
    sorted: Vec<[u32; 2]>,
    starts: Vec<u32>,
    runs: usize,
    /// What is in the buckets before, and after.
    before: Vec<Point<F>>,
    buckets: Vec<Point<F>>,
    heads: Vec<Point<F>>,
    tails: Vec<Point<F>>,
    /// Sums of all entries of each bucket.
    whole: Vec<Point<F>>,
}

/// Entries of a run.
const RUN: usize = 4;
/// Entries of each bucket: none, one, few, and so many that their runs are joined in more than one step.
const COUNTS: [usize; 8] = [2, 3, 0, 1, 50, 9, 1, 2];

fn runs<F: Coordinate>(more: bool) -> Runs<F> {
    let bases: Vec<Affine<F>> = bases();
    let mut sorted = Vec::new();
    let mut starts = vec![0];
    for (bucket, count) in COUNTS.iter().enumerate() {
        for i in 0..*count {
            // In the first bucket a point and itself, in the second one and its negative, too.
            let point =
                if bucket < 2 { 2 * (i as u32 % 2) * bucket as u32 } else { (i * 5 % 7) as u32 };
            let sign = u32::from(bucket > 2 && i % 3 == 1);
            sorted.push([point | sign << 31, bucket as u32]);
        }
        starts.push(sorted.len() as u32);
    }
    let of = |entry: &[u32; 2]| {
        let base = bases[(entry[0] & 0x7fff_ffff) as usize];
        if entry[0] >> 31 == 1 { base.neg() } else { base }
    };
    let filled = |bucket: usize| bases[bucket % bases.len()].to_point();
    let before: Vec<_> =
        (0..COUNTS.len()).map(|i| if more { filled(i) } else { Point::INFINITY }).collect();
    let count = sorted.len().div_ceil(RUN);
    let none = vec![Point::INFINITY; count];
    let (mut buckets, mut heads, mut tails, mut whole) =
        (before.clone(), none.clone(), none, before.clone());
    for (run, entries) in sorted.chunks(RUN).enumerate() {
        let (begin, end) = (run * RUN, run * RUN + entries.len());
        for group in entries.chunk_by(|a, b| a[1] == b[1]) {
            let bucket = group[0][1] as usize;
            let sum: Point<F> = group.iter().fold(Point::INFINITY, |sum, entry| sum + of(entry));
            whole[bucket] = whole[bucket] + sum;
            if (starts[bucket] as usize) < begin {
                heads[run] = sum;
            } else if starts[bucket + 1] as usize > end {
                tails[run] = before[bucket] + sum;
            } else {
                buckets[bucket] = before[bucket] + sum;
            }
        }
    }
    Runs { sorted, starts, runs: count, before, buckets, heads, tails, whole }
}

pub(super) fn accumulate<F: Coordinate>(tester: &Tester<'_>) -> Result<Found> {
    let curve = tester.curve::<F>();
    for more in [false, true] {
        let runs = runs::<F>(more);
        let bases = tester.whole(&bases::<F>())?;
        let (sorted, starts) = (tester.whole(&runs.sorted)?, tester.whole(&runs.starts)?);
        let buckets = tester.whole(&all_xyzz(&runs.before))?;
        let nothing = vec![[F::ZERO; 4]; runs.runs];
        let (heads, tails) = (tester.whole(&nothing)?, tester.whole(&nothing)?);
        let (count, all) = (runs.runs as u32, COUNTS.len() as u32);
        let parameters = [RUN as u32, count, 0, all, more.into(), 0, 0, 0];
        let buffers = [
            bases.memory(),
            sorted.memory(),
            starts.memory(),
            buckets.memory(),
            heads.memory(),
            tails.memory(),
        ];
        tester.run_on(curve, Kernel::MsmAccumulate(curve), &buffers, &parameters, runs.runs)?;
        for (what, got, want) in [
            ("head", &heads, &runs.heads),
            ("tail", &tails, &runs.tails),
            ("bucket", &buckets, &runs.buckets),
        ] {
            let found = same_points(what, &tester.take(got)?, want);
            if found.is_err() {
                return Ok(found);
            }
        }
    }
    Ok(Ok(()))
}

pub(super) fn join<F: Coordinate>(tester: &Tester<'_>) -> Result<Found> {
    let curve = tester.curve::<F>();
    let runs = runs::<F>(false);
    let (sorted, starts) = (tester.whole(&runs.sorted)?, tester.whole(&runs.starts)?);
    let buckets = tester.whole(&all_xyzz(&runs.buckets))?;
    let heads = tester.whole(&all_xyzz(&runs.heads))?;
    let tails = tester.whole(&all_xyzz(&runs.tails))?;
    for distance in [1, 4, 16, 0] {
        let parameters = [RUN as u32, runs.runs as u32, 0, COUNTS.len() as u32, distance, 0, 0, 0];
        let buffers =
            [sorted.memory(), starts.memory(), buckets.memory(), heads.memory(), tails.memory()];
        tester.run_on(curve, Kernel::MsmJoin(curve), &buffers, &parameters, runs.runs)?;
    }
    Ok(same_points("bucket", &tester.take(&buckets)?, &runs.whole))
}

/// Twelve points, some infinite, some equal.
fn points<F: Coordinate>() -> Vec<Point<F>> {
    bases::<F>().iter().cycle().take(12).map(Affine::to_point).collect()
}

fn sum_of<F: Coordinate>(points: impl Iterator<Item = Point<F>>) -> Point<F> {
    points.fold(Point::INFINITY, |sum, point| sum + point)
}

pub(super) fn reduce<F: Coordinate>(tester: &Tester<'_>) -> Result<Found> {
    const LEN: usize = 4;
    let curve = tester.curve::<F>();
    let points = points::<F>();
    let segments = points.len() / LEN;
    let buckets = tester.whole(&all_xyzz(&points))?;
    let nothing = vec![[F::ONE; 4]; segments];
    let (sums, weighted) = (tester.whole(&nothing)?, tester.whole(&nothing)?);
    let parameters = [segments as u32, 0, LEN as u32, 0];
    let buffers = [buckets.memory(), sums.memory(), weighted.memory()];
    tester.run_on(curve, Kernel::MsmReduce(curve), &buffers, &parameters, segments)?;
    let want: Vec<_> = points.chunks(LEN).map(|part| sum_of(part.iter().copied())).collect();
    let found = same_points("sum", &tester.take(&sums)?, &want);
    if found.is_err() {
        return Ok(found);
    }
    let weigh = |part: &[Point<F>]| sum_of((0..LEN).flat_map(|k| vec![part[k]; k + 1]));
    let want: Vec<_> = points.chunks(LEN).map(weigh).collect();
    Ok(same_points("sum by weight", &tester.take(&weighted)?, &want))
}

pub(super) fn fold<F: Coordinate>(tester: &Tester<'_>) -> Result<Found> {
    const BITS: usize = 3;
    const LISTS: usize = BITS + 2;
    let curve = tester.curve::<F>();
    let points = points::<F>();
    let (of_segments, by_weight) = (&points[..8], &points[4..]);
    let sums = tester.whole(&all_xyzz(of_segments))?;
    let weighted = tester.whole(&all_xyzz(by_weight))?;
    let out = tester.whole(&[[F::ONE; 4]; LISTS])?;
    let buffers = [sums.memory(), weighted.memory(), out.memory()];
    let parameters = [LISTS as u32, 0, 4, 1, 4, BITS as u32, 1, 0];
    tester.run_on(curve, Kernel::MsmFold(curve), &buffers, &parameters, LISTS)?;
    let with_bit = |bit: usize| {
        sum_of((0..8).filter(|segment| segment >> bit & 1 == 1).map(|segment| of_segments[segment]))
    };
    let halves = by_weight.chunks(4).map(|half| sum_of(half.iter().copied()));
    let want: Vec<_> = (0..BITS).map(with_bit).chain(halves).collect();
    let found = same_points("list", &tester.take(&out)?, &want);
    if found.is_err() {
        return Ok(found);
    }
    // A later step: lists of two.
    let lists = tester.whole(&all_xyzz(&points[..2 * LISTS]))?;
    let buffers = [lists.memory(), weighted.memory(), out.memory()];
    let parameters = [LISTS as u32, 0, 2, 1, 4, BITS as u32, 0, 0];
    tester.run_on(curve, Kernel::MsmFold(curve), &buffers, &parameters, LISTS)?;
    let pairs = points[..2 * LISTS].chunks(2);
    let want: Vec<_> = pairs.map(|pair| sum_of(pair.iter().copied())).collect();
    Ok(same_points("list of two", &tester.take(&out)?, &want))
}

fn canonical(scalars: &[Fr]) -> Vec<[u64; 4]> {
    scalars.iter().map(Fr::to_canonical_limbs).collect()
}

pub(super) fn scalars(tester: &Tester<'_>) -> Result<Found> {
    let scalars = elements(100, 31);
    let (input, out) = (tester.whole(&scalars)?, tester.whole(&vec![[7u64; 4]; scalars.len()])?);
    let parameters = [scalars.len() as u32, 0, 0, 0];
    let groups = scalars.len().div_ceil(LANES as usize);
    let buffers = [input.memory(), out.memory()];
    tester.run(Kernel::MultiplesScalars, &buffers, &parameters, groups)?;
    Ok(same("canonical scalar", &tester.take(&out)?, &canonical(&scalars)))
}

pub(super) fn add<F: Coordinate>(tester: &Tester<'_>) -> Result<Found> {
    const WINDOW_BITS: u32 = 4;
    let curve = tester.curve::<F>();
    let scalars = elements(10, 33);
    let g = F::generator();
    let entries = FixedBase::with_window(&g, WINDOW_BITS).table;
    let windows = entries.len() >> (WINDOW_BITS - 1);
    let (table, canonical) = (tester.whole(&entries)?, tester.whole(&canonical(&scalars))?);
    let sums = tester.whole(&vec![[F::ONE; 4]; scalars.len()])?;
    let (len, count) = (scalars.len() as u32, entries.len() as u32);
    let parameters = [len, WINDOW_BITS, 0, windows as u32, 0, count, 1, 0];
    let buffers = [table.memory(), canonical.memory(), sums.memory()];
    tester.run_on(curve, Kernel::MultiplesAdd(curve), &buffers, &parameters, scalars.len())?;
    let want: Vec<_> = scalars.iter().map(|scalar| g.to_point().scale(scalar)).collect();
    Ok(same_points("multiple", &tester.take(&sums)?, &want))
}

pub(super) fn affine<F: Coordinate>(tester: &Tester<'_>) -> Result<Found> {
    const BATCH: usize = 5;
    let curve = tester.curve::<F>();
    let points = points::<F>();
    let threads = points.len().div_ceil(BATCH);
    let sums = tester.whole(&all_xyzz(&points))?;
    let products = tester.whole(&vec![Fp::ZERO; points.len()])?;
    let out = tester.whole(&vec![F::generator(); points.len() + 1])?;
    let mut exponent = Fp::MODULUS;
    exponent[0] -= 2;
    let mut parameters = [0u32; 16];
    parameters[..12].copy_from_slice(bytemuck::cast_slice(&exponent));
    parameters[12..].copy_from_slice(&[points.len() as u32, threads as u32, BATCH as u32, 1]);
    let buffers = [sums.memory(), products.memory(), out.memory()];
    tester.run_on(curve, Kernel::MultiplesAffine(curve), &buffers, &parameters, threads)?;
    let mut want = vec![F::generator()];
    want.extend(points.iter().map(Point::to_affine));
    Ok(same("affine form", &tester.take(&out)?, &want))
}
