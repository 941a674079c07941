//! The steps of a sum: kernels, what they bind, in launches of bounded length.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{ALIGNMENT, FOLD, JOIN, Plan, Region, Terms};
use crate::Result;
use crate::backend::wgpu::Gpu;
use crate::backend::wgpu::commands::{Binding, Commands};
use crate::backend::wgpu::kernels::{Curve, Kernel, LANES, SCAN_LANES, SCAN_RUN};
use crate::backend::wgpu::memory::Memory;
use crate::curve::Coordinate;

/// `Parameters` in shaders/msm_ranks.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Ranks {
    words: u32,
    density_at: u32,
    ranks_at: u32,
    unused: u32,
}

/// `Parameters` in shaders/msm_digits.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Digits {
    len: u32,
    scalars_at: u32,
    position: u32,
    density_at: u32,
    dense: u32,
    first_point: u32,
    points: u32,
    window_bits: u32,
    first_window: u32,
    windows: u32,
    ranks_at: u32,
    unused: u32,
}

/// `Parameters` in shaders/scan_*.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Scan {
    len: u32,
    sums_at: u32,
    unused: [u32; 2],
}

/// `Parameters` in shaders/msm_scatter.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Scatter {
    points: u32,
    entries: u32,
    first: u32,
    unused: u32,
}

/// `Parameters` in shaders/msm_accumulate.wgsl and, but for the last, in shaders/msm_join.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Runs {
    run: u32,
    runs: u32,
    first_run: u32,
    buckets: u32,
    /// Whether buckets have points of earlier chunks; or the distance of heads.
    more: u32,
    bases_at: u32,
    unused: [u32; 2],
}

/// `Parameters` in shaders/msm_reduce.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Reduce {
    segments: u32,
    first_segment: u32,
    len: u32,
    unused: u32,
}

/// `Parameters` in shaders/msm_fold.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Fold {
    parts: u32,
    first_part: u32,
    len: u32,
    list_parts: u32,
    step: u32,
    bits: u32,
    first: u32,
    unused: u32,
}

/// The bases of a chunk: all in one segment.
#[derive(Clone, Debug)]
struct Chunk {
    /// Among the bases of the sum.
    points: Range<usize>,
}

/// A sum's work on a device.
pub(super) struct Work<'a, 'b, F> {
    gpu: &'a Gpu,
    plan: &'b Plan<F>,
    terms: &'b Terms<'b>,
    scratch: &'b Memory,
    commands: Commands<'a>,
}

impl<'a, 'b, F: Coordinate> Work<'a, 'b, F> {
    /// All of a sum's work, in a list.
    pub fn all(
        gpu: &'a Gpu,
        plan: &'b Plan<F>,
        terms: &'b Terms<'b>,
        scratch: &'b Memory,
    ) -> Result<Commands<'a>> {
        assert!(8 * scratch.len() >= plan.layout.end, "scratch below what msm_scratch says");
        let mut work = Self { gpu, plan, terms, scratch, commands: Commands::new(gpu) };
        work.ranks()?;
        for first_window in (0..plan.windows).step_by(plan.group_windows) {
            let windows = plan.group_windows.min(plan.windows - first_window);
            for chunk in work.chunks() {
                work.digits(&chunk, first_window, windows)?;
                work.sort(&chunk, windows)?;
                work.accumulate(&chunk, windows)?;
                work.join(&chunk, windows)?;
            }
            work.reduce(windows)?;
            work.fold(first_window / plan.group_windows, windows)?;
        }
        Ok(work.commands)
    }

    fn binding(&self, region: Region) -> Binding {
        let words = region.at / 8..(region.at + region.bytes) / 8;
        let piece = self.scratch.pieces(words).next().expect("regions are not empty");
        debug_assert_eq!(piece.size as usize, region.bytes, "regions are within segments");
        Binding::of(&piece, ALIGNMENT as u64).0
    }

    fn curve(&self) -> Curve {
        self.gpu.curve::<F>()
    }

    /// Launches `kernel` for `len` threads, so many at a time as a submission may have: `launch` gets the first one's number.
    fn launch<P: Pod>(
        &mut self,
        kernel: Kernel,
        lanes: u32,
        len: usize,
        bindings: &[Binding],
        parameters: impl Fn(u32) -> P,
    ) -> Result<()> {
        let most = self.gpu.groups_at_once(kernel) as usize * lanes as usize;
        for first in (0..len).step_by(most) {
            let groups = most.min(len - first).div_ceil(lanes as usize) as u32;
            self.commands.run(kernel, bindings, &parameters(first as u32), groups)?;
        }
        Ok(())
    }

    /// Chunks end with segments of the bases.
    fn chunks(&self) -> Vec<Chunk> {
        let Range { start, end } = self.terms.base_range;
        let mut chunks = Vec::new();
        let mut at = start;
        while at < end {
            let next = end.min(self.terms.bases.segment_end(at)).min(at + self.plan.chunk);
            chunks.push(Chunk { points: at - start..next - start });
            at = next;
        }
        chunks
    }

    /// For each word of the density the bits set before it. Ranks of 64 positions are a word of the scratch, from its first on.
    fn ranks(&mut self) -> Result<()> {
        let Some(density) = self.terms.density else { return Ok(()) };
        let words = self.terms.range.len().div_ceil(64);
        let mut at = 0;
        while at < words {
            let next = words.min(density.segment_end(at)).min(self.scratch.segment_end(at));
            let bindings = [Binding::whole(density.segment_of(at)), self.ranks_of(at)];
            let [density_at, ranks_at] =
                [density.place(at), self.scratch.place(at)].map(|place| 2 * place as u32);
            let len = 2 * (next - at);
            self.launch(Kernel::MsmRanks, LANES, len, &bindings, |first| Ranks {
                words: len as u32 - first,
                density_at: density_at + first,
                ranks_at: ranks_at + first,
                unused: 0,
            })?;
            at = next;
        }
        let segments = self.scratch.pieces(0..words);
        let parts: Vec<_> =
            segments.map(|piece| (self.ranks_of(piece.start), 2 * piece.len)).collect();
        let sums = self.binding(self.plan.layout.rank_sums);
        self.scan(&parts, sums)
    }

    /// The ranks in the segment that has those of word `word` of the density.
    fn ranks_of(&self, word: usize) -> Binding {
        let start = 8 * (word - self.scratch.place(word));
        let end = self.plan.layout.ranks.bytes.min(8 * self.scratch.segment_end(word));
        self.binding(Region { at: start, bytes: end - start })
    }

    /// Replaces each of so many values, part by part, by the sum of those before.
    fn scan(&mut self, parts: &[(Binding, usize)], sums: Binding) -> Result<()> {
        let tiles = |len: usize| len.div_ceil((SCAN_LANES * SCAN_RUN) as usize) as u32;
        let mut all = 0;
        let mut launches = Vec::new();
        for (values, len) in parts {
            let parameters = Scan { len: *len as u32, sums_at: all, unused: [0; 2] };
            launches.push(([values.clone(), sums.clone()], parameters, tiles(*len)));
            all += tiles(*len);
        }
        for (bindings, parameters, groups) in &launches {
            self.commands.run(Kernel::ScanTiles, bindings, parameters, *groups)?;
        }
        let parameters = Scan { len: all, sums_at: 0, unused: [0; 2] };
        self.commands.run(Kernel::ScanSums, &[sums], &parameters, 1)?;
        for (bindings, parameters, groups) in &launches {
            self.commands.run(Kernel::ScanPlace, bindings, parameters, *groups)?;
        }
        Ok(())
    }

    /// The digits of a chunk's scalars in so many windows, and how many entries each bucket has.
    fn digits(&mut self, chunk: &Chunk, first_window: usize, windows: usize) -> Result<()> {
        let l = &self.plan.layout;
        self.clear(l.starts);
        let [starts, keys, orders] =
            [l.starts, l.keys, l.orders].map(|region| self.binding(region));
        // Without a density points are positions, and other positions need no look.
        let Range { start, end } = self.terms.range;
        let mut at = start + if self.terms.density.is_none() { chunk.points.start } else { 0 };
        let end = match self.terms.density {
            None => start + chunk.points.end,
            Some(_) => end,
        };
        let scalars = self.terms.scalars;
        while at < end {
            let mut next = end.min(scalars.segment_end(at));
            // The word, counted in 64 bits, that has the position's bit.
            let word = (at - start) / 64;
            let (density, [density_at, ranks_at]) = match self.terms.density {
                // Not looked at.
                None => (Binding::whole(scalars.segment_of(at)), [0; 2]),
                Some(density) => {
                    let end = density.segment_end(word).min(self.scratch.segment_end(word));
                    next = next.min(start + 64 * end);
                    let places = [density.place(word), self.scratch.place(word)];
                    let at = places.map(|place| (2 * place as u32).wrapping_sub(2 * word as u32));
                    (Binding::whole(density.segment_of(word)), at)
                }
            };
            let ranks = self.ranks_of(if self.terms.density.is_some() { word } else { 0 });
            let bindings = [
                Binding::whole(scalars.segment_of(at)),
                density,
                ranks,
                starts.clone(),
                keys.clone(),
                orders.clone(),
            ];
            let len = next - at;
            let parameters = Digits {
                len: len as u32,
                scalars_at: scalars.place(at) as u32,
                position: (at - start) as u32,
                density_at,
                dense: self.terms.density.is_some().into(),
                first_point: chunk.points.start as u32,
                points: chunk.points.len() as u32,
                window_bits: self.plan.window_bits,
                first_window: first_window as u32,
                windows: windows as u32,
                ranks_at,
                unused: 0,
            };
            self.launch(Kernel::MsmDigits, LANES, len, &bindings, |first| Digits {
                len: parameters.len - first,
                scalars_at: parameters.scalars_at + first,
                position: parameters.position + first,
                ..parameters
            })?;
            at = next;
        }
        Ok(())
    }

    /// The entries sorted by bucket.
    fn sort(&mut self, chunk: &Chunk, windows: usize) -> Result<()> {
        let l = &self.plan.layout;
        let [starts, sums] = [l.starts, l.start_sums].map(|region| self.binding(region));
        self.scan(&[(starts, self.plan.buckets(windows) + 1)], sums)?;
        let l = &self.plan.layout;
        let entries = windows * chunk.points.len();
        let bindings = [l.keys, l.orders, l.starts, l.sorted].map(|region| self.binding(region));
        self.launch(Kernel::MsmScatter, LANES, entries, &bindings, |first| Scatter {
            points: chunk.points.len() as u32,
            entries: entries as u32,
            first,
            unused: 0,
        })
    }

    fn clear(&mut self, region: Region) {
        let words = region.at / 8..(region.at + region.bytes) / 8;
        for piece in self.scratch.pieces(words) {
            self.commands.clear(&piece);
        }
    }

    /// The sums of runs of sorted entries, in buckets, heads and tails.
    fn accumulate(&mut self, chunk: &Chunk, windows: usize) -> Result<()> {
        let first = self.first_base(chunk);
        if chunk.points.start == 0 {
            self.clear(self.plan.layout.buckets);
        }
        let parameters = self.runs(chunk, windows);
        let bases = Binding::whole(self.terms.bases.segment_of(first));
        let bindings = [std::slice::from_ref(&bases), &self.of_runs()].concat();
        let kernel = Kernel::MsmAccumulate(self.curve());
        let len = parameters.runs as usize;
        let of = |first_run| Runs { first_run, ..parameters };
        self.launch(kernel, self.lanes(), len, &bindings, of)
    }

    /// Heads and tails to their buckets: heads until one has all of its bucket, then that with the tail.
    fn join(&mut self, chunk: &Chunk, windows: usize) -> Result<()> {
        let parameters = self.runs(chunk, windows);
        let bindings = self.of_runs();
        let kernel = Kernel::MsmJoin(self.curve());
        let len = parameters.runs as usize;
        let distances = std::iter::successors(Some(1), |distance| Some(distance * JOIN));
        for distance in distances.take_while(|distance| *distance < len).chain([0]) {
            let of = |first_run| Runs { first_run, more: distance as u32, ..parameters };
            self.launch(kernel, self.lanes(), len, &bindings, of)?;
        }
        Ok(())
    }

    fn first_base(&self, chunk: &Chunk) -> usize {
        self.terms.base_range.start + chunk.points.start
    }

    fn lanes(&self) -> u32 {
        self.curve().registers.lanes()
    }

    fn runs(&self, chunk: &Chunk, windows: usize) -> Runs {
        Runs {
            run: self.plan.run as u32,
            runs: (windows * chunk.points.len()).div_ceil(self.plan.run) as u32,
            first_run: 0,
            buckets: self.plan.buckets(windows) as u32,
            more: (chunk.points.start > 0).into(),
            bases_at: self.terms.bases.place(self.first_base(chunk)) as u32,
            unused: [0; 2],
        }
    }

    fn of_runs(&self) -> [Binding; 6] {
        let l = &self.plan.layout;
        let [sorted, starts, buckets, heads, tails] =
            [l.sorted, l.starts, l.buckets, l.heads, l.tails].map(|region| self.binding(region));
        [sorted, starts, buckets, heads, tails, self.gpu.program(self.curve())]
    }

    /// The sums of segments of the buckets of so many windows.
    fn reduce(&mut self, windows: usize) -> Result<()> {
        let l = &self.plan.layout;
        let [buckets, sums, weighted] =
            [l.buckets, l.sums, l.weighted].map(|region| self.binding(region));
        let bindings = [buckets, sums, weighted, self.gpu.program(self.curve())];
        let segments = windows << self.plan.bits();
        let len = 1 << self.plan.log_segment;
        let kernel = Kernel::MsmReduce(self.curve());
        self.launch(kernel, self.lanes(), segments, &bindings, |first_segment| Reduce {
            segments: segments as u32,
            first_segment,
            len,
            unused: 0,
        })
    }

    /// From these to a group's results.
    fn fold(&mut self, group: usize, windows: usize) -> Result<()> {
        let l = &self.plan.layout;
        let [sums, weighted, results] =
            [l.sums, l.weighted, l.results[group]].map(|region| self.binding(region));
        let folds = l.folds.map(|region| self.binding(region));
        let program = self.gpu.program(self.curve());
        let bits = self.plan.bits();
        let lists = windows * self.plan.lists();
        let kernel = Kernel::MsmFold(self.curve());
        let mut len = 1 << (bits - 1);
        let mut source = sums;
        for step in 0.. {
            let parts = usize::div_ceil(len, FOLD);
            let target = if parts == 1 { &results } else { &folds[step % 2] };
            let bindings = [source, weighted.clone(), target.clone(), program.clone()];
            self.launch(kernel, self.lanes(), lists * parts, &bindings, |first_part| Fold {
                parts: (lists * parts) as u32,
                first_part,
                len: len as u32,
                list_parts: parts as u32,
                step: FOLD as u32,
                bits,
                first: (step == 0).into(),
                unused: 0,
            })?;
            if parts == 1 {
                break;
            }
            (len, source) = (parts, target.clone());
        }
        Ok(())
    }
}
