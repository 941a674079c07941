//! Multi-scalar multiplications. Ours: from the call to the end of `Pending::wait`. sppark's: its call, with the points
//! uploaded and the buckets allocated before. Points and scalars are on the card for both.

use anyhow::{Result, ensure};
use forebay::backend::cuda::{Cuda, CudaBuffer, CudaStream};
use forebay::backend::{Backend, Msm, Pending};
use forebay::budget::Lease;
use forebay::curve::{Affine, Point};
use forebay::field::{Fp, Fp2, Fr};

use crate::inputs::{Progression, Scalars};
use crate::sppark::{self, Group, Sum, Vector};
use crate::table::{Row, Table};
use crate::turns::take_turns;

/// Sizes, and the bars that go with them.
type Bars = &'static [(u32, f64)];

const G1_RANDOM: Bars = &[(16, 0.40), (18, 0.30), (20, 0.45), (22, 0.55), (24, 0.60), (26, 0.60)];
const G1_BITS: Bars = &[(24, 0.45), (26, 0.45)];
const G2_RANDOM: Bars = &[(20, 0.65), (22, 0.65), (24, 0.65)];
/// One value, or small ones, against uniform ones.
const SKEWED: Bars = &[(20, 1.5), (24, 1.5)];

/// All sums of up to 2^max_log_n terms.
pub fn measure(card: &Cuda, max_log_n: u32, table: &mut Table) -> Result<()> {
    if let Some(sums) = Sums::<Fp>::new(card, &[G1_RANDOM, G1_BITS, SKEWED], 22, max_log_n)? {
        sums.beside_sppark(Scalars::Random, "random", G1_RANDOM, table)?;
        sums.beside_sppark(Scalars::Bits, "90 % bits", G1_BITS, table)?;
        sums.beside_random(Scalars::Same, "one value", table)?;
        sums.beside_random(Scalars::Small, "below 2^32", table)?;
    }
    if let Some(sums) = Sums::<Fp2>::new(card, &[G2_RANDOM], 20, max_log_n)? {
        sums.beside_sppark(Scalars::Random, "random", G2_RANDOM, table)?;
    }
    Ok(())
}

/// Points of one group, for sums of the first of them.
struct Sums<'a, F: Group> {
    card: &'a Cuda,
    stream: CudaStream,
    max_log_n: u32,
    points: Progression<F>,
    bases: CudaBuffer<Affine<F>>,
    _lease: Lease,
}

impl<'a, F: Group> Sums<'a, F> {
    /// As many points as the largest sum has, 2^log_distinct different ones; `None` if no sum is small enough.
    fn new(
        card: &'a Cuda,
        bars: &[Bars],
        log_distinct: u32,
        max_log_n: u32,
    ) -> Result<Option<Self>> {
        let sizes = bars.iter().flat_map(|bars| bars.iter()).map(|(log_n, _)| *log_n);
        let Some(largest) = sizes.filter(|log_n| *log_n <= max_log_n).max() else {
            return Ok(None);
        };
        eprintln!("{}: making 2^{largest} points", F::GROUP);
        let points = Progression::<F>::new(1 << largest, 1 << log_distinct);
        let lease = card.budget().lease("points", size_of_val(&points.points[..]) as u64)?;
        let stream = card.stream()?;
        let mut bases = card.alloc(&lease, "points", points.points.len())?;
        card.upload(&stream, &points.points, &mut bases, 0)?;
        Ok(Some(Self { card, stream, max_log_n, points, bases, _lease: lease }))
    }

    fn sizes(&self, bars: Bars) -> impl Iterator<Item = (u32, f64)> {
        bars.iter().copied().filter(|(log_n, _)| *log_n <= self.max_log_n)
    }

    fn beside_sppark(
        &self,
        kind: Scalars,
        name: &str,
        bars: Bars,
        table: &mut Table,
    ) -> Result<()> {
        for (log_n, bar) in self.sizes(bars) {
            let (scalars, expected) = self.scalars(kind, log_n);
            let mut ours = Ours::new(self, &scalars)?;
            let mut peer = Sum::new(&self.points.points[..1 << log_n])?;
            let mut vector = Vector::new(&scalars)?;
            let check = |whose: &str, sum: Point<F>| {
                ensure!(
                    sum == expected,
                    "{whose} sum of 2^{log_n} {name} terms in {} is wrong",
                    F::GROUP
                );
                Ok(())
            };
            let [ours, peer] = take_turns(log_n, || ours.run(), || peer.run(&mut vector), check)?;
            let what = format!("{} sum, {name}", F::GROUP);
            table.push(Row { what, log_n, ours, peer, bar: Some(bar) });
        }
        sppark::trim()
    }

    fn beside_random(&self, kind: Scalars, name: &str, table: &mut Table) -> Result<()> {
        for (log_n, bar) in self.sizes(SKEWED) {
            let (scalars, expected) = self.scalars(kind, log_n);
            let (random, _) = self.scalars(Scalars::Random, log_n);
            let mut skewed = Ours::new(self, &scalars)?;
            let mut uniform = Ours::new(self, &random)?;
            // Sums of random scalars were compared before.
            let run_uniform = || uniform.run().map(|_| expected);
            let check = |_: &str, sum: Point<F>| {
                ensure!(sum == expected, "our sum of 2^{log_n} terms, {name}, is wrong");
                Ok(())
            };
            let [ours, peer] = take_turns(log_n, || skewed.run(), run_uniform, check)?;
            let what = format!("{} sum, {name}, against our random", F::GROUP);
            table.push(Row { what, log_n, ours, peer, bar: Some(bar) });
        }
        Ok(())
    }

    /// 2^log_n scalars, and the sum that they make.
    fn scalars(&self, kind: Scalars, log_n: u32) -> (Vec<Fr>, Point<F>) {
        let scalars = kind.make(1 << log_n);
        let expected = self.points.sum(&scalars);
        (scalars, expected)
    }
}

/// Our sum of the first points with scalars on the card.
struct Ours<'a, F: Group> {
    sums: &'a Sums<'a, F>,
    scalars: CudaBuffer<Fr>,
    scratch: CudaBuffer<u64>,
    len: usize,
    _lease: Lease,
}

impl<'a, F: Group> Ours<'a, F> {
    fn new(sums: &'a Sums<'a, F>, scalars: &[Fr]) -> Result<Self> {
        let (card, len) = (sums.card, scalars.len());
        let scratch = card.msm_scratch::<F>(len).div_ceil(8);
        let lease = card.budget().lease("sum", size_of_val(scalars) as u64 + 8 * scratch)?;
        let mut buffer = card.alloc(&lease, "scalars", len)?;
        card.upload(&sums.stream, scalars, &mut buffer, 0)?;
        let scratch = card.alloc(&lease, "scratch", scratch as usize)?;
        Ok(Self { sums, scalars: buffer, scratch, len, _lease: lease })
    }

    fn run(&mut self) -> Result<Point<F>> {
        let Self { sums, scalars, scratch, len, .. } = self;
        let msm = Msm {
            bases: &sums.bases,
            base_range: 0..*len,
            scalars,
            range: 0..*len,
            density: None,
            raised: None,
        };
        Ok(sums.card.msm(&sums.stream, msm, scratch)?.wait()?)
    }
}
