//! A card that is not there: the CPU backend's arithmetic behind the memory, the queues and the clock of a discrete
//! device, for plans, and for tests of what goes wrong only on one.
//!
//! 1. Memory is counted to the byte, beside the leases. Others can take some, and then an allocation is refused
//!    though it was leased.
//! 2. Everything but `download` and `Pending::wait` is queued, for the stream's own thread. A dropped buffer stays, on
//!    the card and in its lease, until what is queued with it is done.
//! 3. Time is virtual: durations come from the [`CardModel`], starts from what an operation waits for. The same calls
//!    give the same timeline on any machine.
//! 4. What fails on cards fails here when told to, a [`Fault`] at a time.

mod card;
mod clock;
mod fault;
mod memory;
mod queue;

use std::slice;
use std::sync::{Arc, Condvar, Mutex};

use bytemuck::Pod;

use self::card::Card;
use self::clock::{Op, Work};
use self::memory::{Extent, Memory, Wiped};
use super::cpu::{expand, matvec, msm, ntt, quotient, raise};
use super::{
    Backend, DeviceInfo, DeviceMatrix, Msm, Multiples, Output, Packed, Pending, Quotient, Raised,
    Rates, Shared, Transform,
};
use crate::Result;
use crate::budget::{Budget, Lease};
use crate::curve::{Affine, Coordinate, Point, fixed_base};
use crate::field::Fr;
use crate::timeline::Timeline;

pub use self::fault::{Counters, Fault};
pub use self::memory::VirtualBuffer;
pub use self::queue::{VirtualPending, VirtualStream};

const BACKEND: &str = "virtual";

/// What the scratch of a sum is cut for. The host's threads would make plans differ from machine to machine.
const LANES: usize = 4;

/// What raised bases spare a sum, and what raising them costs: about as on an NVIDIA H200.
const RAISED_SHARE: f64 = 0.75;
const RAISE_SUMS: u64 = 25;

/// What a card is like. Every rate is above 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardModel {
    /// Its name.
    pub name: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The largest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// Bytes a second from the host.
    pub upload_bytes_per_s: u64,
    /// Bytes a second to the host.
    pub download_bytes_per_s: u64,
    /// Bases a second of sums in G1.
    pub g1_points_per_s: u64,
    /// Bases a second of sums in G2.
    pub g2_points_per_s: u64,
    /// Butterflies a second; a transform of n elements has n/2 log2(n).
    pub butterflies_per_s: u64,
    /// Elements a second that `expand` and `quotient` write, that fill a transform's table, or that `matvec` reads
    /// and writes: entries and rows.
    pub elements_per_s: u64,
}

impl CardModel {
    /// Roughly a card of 16 GiB on PCIe 4 or 5: speeds are rounded from published times of proofs on one.
    pub fn midrange() -> Self {
        Self {
            name: "a virtual card of the middle range".into(),
            memory_bytes: 16 << 30,
            max_buffer_bytes: u64::MAX,
            upload_bytes_per_s: 25_000_000_000,
            download_bytes_per_s: 25_000_000_000,
            g1_points_per_s: 200_000_000,
            g2_points_per_s: 60_000_000,
            butterflies_per_s: 20_000_000_000,
            elements_per_s: 10_000_000_000,
        }
    }
}

/// A virtual card. Clones are handles to the same one, so a test can keep one while a prover has the other.
#[derive(Clone)]
pub struct VirtualCard {
    card: Arc<Card>,
    info: DeviceInfo,
    budget: Budget,
}

impl VirtualCard {
    /// A card with all of its memory as its budget.
    pub fn open(model: CardModel) -> Self {
        let capacity = model.memory_bytes;
        Self::with_capacity(model, capacity)
    }

    /// A card with a budget of `capacity` bytes.
    pub fn with_capacity(model: CardModel, capacity: u64) -> Self {
        let info = DeviceInfo {
            backend: BACKEND,
            name: model.name.clone(),
            memory_bytes: capacity,
            max_buffer_bytes: model.max_buffer_bytes,
            unified: false,
            rates: Rates {
                upload: model.upload_bytes_per_s as f64,
                download: model.download_bytes_per_s as f64,
                butterflies: model.butterflies_per_s as f64,
                g1_terms: model.g1_points_per_s as f64,
                g2_terms: model.g2_points_per_s as f64,
                seconds_per_sum: 0.0,
                raised_share: RAISED_SHARE,
                raise_sums: RAISE_SUMS as f64,
            },
        };
        let card = Card {
            model,
            state: Mutex::default(),
            resumed: Condvar::new(),
            engines: Default::default(),
        };
        Self { card: Arc::new(card), info, budget: Budget::new(capacity) }
    }

    /// Bytes of all buffers now.
    pub fn physical_in_use(&self) -> u64 {
        self.card.state().memory.in_use
    }

    /// The most bytes of buffers at once, to the byte.
    pub fn physical_high_water(&self) -> u64 {
        self.card.state().memory.high_water
    }

    /// Takes memory as another process would.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if the card has less that is free.
    pub fn take_memory(&self, bytes: u64) -> Result<()> {
        let mut state = self.card.state();
        state.memory.require(&self.card.model, "another process", bytes)?;
        state.memory.foreign += bytes;
        Ok(())
    }

    /// Gives back `bytes` of what [`VirtualCard::take_memory`] took, all of it if that was less.
    pub fn give_back_memory(&self, bytes: u64) {
        let mut state = self.card.state();
        state.memory.foreign = state.memory.foreign.saturating_sub(bytes);
    }

    /// From now on no engine begins anything, so that what is queued can be looked at: what is begun is still done,
    /// and a blocking call blocks until another thread says [`VirtualCard::resume`].
    pub fn pause(&self) {
        self.card.state().paused = true;
    }

    /// Ends [`VirtualCard::pause`].
    pub fn resume(&self) {
        self.card.state().paused = false;
        self.card.resumed.notify_all();
    }

    /// Has `fault` come once, after `after` more calls of its kind that go well. Calls count when they are made, not
    /// when their work is done.
    pub fn inject(&self, fault: Fault, after: u64) {
        self.card.state().faults.inject(fault, after);
    }

    /// Takes back all faults that are still to come.
    pub fn forgive(&self) {
        self.card.state().faults = Default::default();
    }

    /// Resets the card, lost or not: its memory is gone, streams and buffers stay dead, new ones work. What others
    /// have taken and the faults to come stay.
    pub fn reopen(&self) {
        let mut state = self.card.state();
        state.counters.device_syncs += 1;
        if !state.lost {
            state.lose();
        }
        state.lost = false;
    }

    /// The calls so far.
    pub fn counters(&self) -> Counters {
        self.card.state().counters
    }

    /// The virtual time at which the last operation that is done ended.
    pub fn virtual_now_ns(&self) -> u64 {
        self.card.state().clock.now_ns()
    }

    /// What is done so far: a lane for each engine and each stream, and the bytes of buffers, from when the thread
    /// that allocated one could, to the end of its last use or when its handle was dropped.
    pub fn timeline(&self) -> Timeline {
        self.card.state().clock.timeline(&self.card.model)
    }

    /// Queues an operation that writes `out`, with a wrong bit in its middle element if told so.
    fn launch<T: Pod + Send + Sync>(
        &self,
        stream: &VirtualStream,
        op: Op,
        inputs: &[&Extent],
        out: &VirtualBuffer<T>,
        run: impl Fn(&mut [T]) + Send + 'static,
    ) -> Result<()> {
        let buffers = [inputs, &[&out.memory.extent]].concat();
        let out = out.memory.clone();
        let run = move |corrupt| {
            let out = &mut out.write()[..];
            run(out);
            if corrupt && let Some(middle) = out.get_mut(out.len() / 2) {
                bytemuck::bytes_of_mut(middle)[0] ^= 1;
            }
        };
        self.card.submit(stream, op, &buffers, run).map(drop)
    }
}

/// Work on `points` points.
fn work_of<F: Coordinate>(points: u64) -> Work {
    if F::DEGREE == 1 { Work::G1Points(points) } else { Work::G2Points(points) }
}

impl Backend for VirtualCard {
    type Buffer<T: Pod + Send + Sync> = VirtualBuffer<T>;
    type Stream = VirtualStream;
    type Pending<R: Send + 'static> = VirtualPending<R>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn foreign_bytes(&self) -> Result<u64> {
        let mut state = self.card.state();
        state.require(state.epoch)?;
        state.counters.memory_queries += 1;
        // What the budget does not have anyway is nobody's loss.
        let beside = self.card.model.memory_bytes - self.info.memory_bytes;
        Ok(state.memory.foreign.saturating_sub(beside))
    }

    fn stream(&self) -> Result<VirtualStream> {
        VirtualStream::open(&self.card)
    }

    fn join(&self, waiter: &VirtualStream, on: &VirtualStream) -> Result<()> {
        let state = self.card.state();
        state.require(waiter.epoch())?;
        state.require(on.epoch())?;
        drop(state);
        waiter.join(on)
    }

    fn alloc<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
    ) -> Result<VirtualBuffer<T>> {
        // A length that overflows is more than any lease has.
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let extent = self.card.take(lease, label, bytes)?;
        Ok(VirtualBuffer { memory: Arc::new(Memory::new(len, extent)), len })
    }

    fn adopt<T: Pod + Send + Sync>(
        &self,
        stream: &VirtualStream,
        lease: &Lease,
        label: &'static str,
        data: Shared<T>,
    ) -> Result<VirtualBuffer<T>> {
        let buffer = self.alloc(lease, label, (*data).as_ref().len())?;
        let extent = &buffer.memory.extent;
        let work = Work::UploadBytes(extent.bytes);
        let op = Op { label: "adopt", detail: format!("{label}: {} bytes", extent.bytes), work };
        let memory = buffer.memory.clone();
        let run = move |_| memory.write().copy_from_slice((*data).as_ref());
        self.card.submit(stream, op, &[extent], run)?;
        Ok(buffer)
    }

    fn upload<T: Pod + Send + Sync>(
        &self,
        stream: &VirtualStream,
        source: &[T],
        target: &mut VirtualBuffer<T>,
        at: usize,
    ) -> Result<()> {
        let extent = &target.memory.extent;
        let bytes = size_of_val(source) as u64;
        let detail = format!("{}: {bytes} bytes", extent.label);
        let op = Op { label: "upload", detail, work: Work::UploadBytes(bytes) };
        let (staged, memory) = (Wiped(source.to_vec()), target.memory.clone());
        let run = move |_| memory.write()[at..at + staged.len()].copy_from_slice(&staged);
        self.card.submit(stream, op, &[extent], run).map(drop)
    }

    fn download<T: Pod + Send + Sync>(
        &self,
        stream: &VirtualStream,
        source: &VirtualBuffer<T>,
        at: usize,
        target: &mut [T],
    ) -> Result<()> {
        let extent = &source.memory.extent;
        let bytes = size_of_val(target) as u64;
        let detail = format!("{}: {bytes} bytes", extent.label);
        let op = Op { label: "download", detail, work: Work::DownloadBytes(bytes) };
        let (memory, range) = (source.memory.clone(), at..at + target.len());
        let run = move |_| Wiped(memory.read()[range.clone()].to_vec());
        target.copy_from_slice(&self.card.submit(stream, op, &[extent], run)?.wait()?);
        Ok(())
    }

    fn expand(
        &self,
        stream: &VirtualStream,
        packed: Packed<'_, Self>,
        output: Output,
        out: &mut VirtualBuffer<Fr>,
    ) -> Result<()> {
        let (blocks, small, wide) =
            (&packed.blocks.memory, &packed.small.memory, &packed.wide.memory);
        let inputs = [&blocks.extent, &small.extent, &wide.extent];
        let detail = format!("{output:?} {}", out.memory.extent.label);
        let op = Op { label: "expand", detail, work: Work::Elements(out.len as u64) };
        let (blocks, small, wide) = (blocks.clone(), small.clone(), wide.clone());
        self.launch(stream, op, &inputs, out, move |out| {
            expand::expand(&blocks.read(), &small.read(), &wide.read(), output, out);
        })
    }

    fn matvec(
        &self,
        stream: &VirtualStream,
        matrix: &DeviceMatrix<Self>,
        x: &VirtualBuffer<Fr>,
        output: Output,
        out: &mut VirtualBuffer<Fr>,
    ) -> Result<()> {
        let [start, column, coefficient] =
            [&matrix.row_start, &matrix.column, &matrix.coefficient].map(|buffer| &buffer.memory);
        let (table, x) = (&matrix.table.memory, &x.memory);
        let inputs = [&start.extent, &column.extent, &coefficient.extent, &table.extent, &x.extent];
        let detail = format!("{output:?} {}", out.memory.extent.label);
        let work = Work::Elements((matrix.column.len + out.len) as u64);
        let [start, column, coefficient] = [start, column, coefficient].map(Arc::clone);
        let (table, x) = (table.clone(), x.clone());
        self.launch(stream, Op { label: "matvec", detail, work }, &inputs, out, move |out| {
            let (start, column, coefficient) = (start.read(), column.read(), coefficient.read());
            let table = table.read();
            let rows = matvec::Rows {
                start: &start,
                column: &column,
                coefficient: &coefficient,
                table: &table,
            };
            matvec::matvec(&rows, &x.read(), output, out);
        })
    }

    fn ntt(
        &self,
        stream: &VirtualStream,
        transform: Transform,
        table: &VirtualBuffer<Fr>,
        data: &mut VirtualBuffer<Fr>,
    ) -> Result<()> {
        let log_n = data.len.ilog2();
        let work = Work::Butterflies(data.len as u64 / 2 * u64::from(log_n));
        let detail = format!("{transform:?} {}, 2^{log_n}", data.memory.extent.label);
        let (op, table) = (Op { label: "ntt", detail, work }, table.memory.clone());
        let inputs = [&table.clone().extent];
        self.launch(stream, op, &inputs, data, move |data| ntt::ntt(transform, &table.read(), data))
    }

    fn ntt_table(
        &self,
        stream: &VirtualStream,
        lease: &Lease,
        log_n: u32,
    ) -> Result<VirtualBuffer<Fr>> {
        let table = self.alloc(lease, "transform table", ntt::table_len(log_n))?;
        let work = Work::Elements(table.len as u64);
        let op = Op { label: "transform table", detail: format!("2^{log_n}"), work };
        self.launch(stream, op, &[], &table, move |table| ntt::fill_table(log_n, table))?;
        Ok(table)
    }

    fn ntt_table_bytes(&self, log_n: u32) -> u64 {
        (ntt::table_len(log_n) * Fr::BYTES) as u64
    }

    fn quotient(
        &self,
        stream: &VirtualStream,
        step: Quotient,
        accumulator: &mut VirtualBuffer<Fr>,
        operand: &VirtualBuffer<Fr>,
    ) -> Result<()> {
        let work = Work::Elements(accumulator.len as u64);
        let op = Op { label: "quotient", detail: format!("{step:?}"), work };
        let x = operand.memory.clone();
        self.launch(stream, op, &[&operand.memory.extent], accumulator, move |a| {
            quotient::quotient(step, a, &x.read());
        })
    }

    fn msm<F: Coordinate>(
        &self,
        stream: &VirtualStream,
        msm: Msm<'_, Self, F>,
        scratch: &mut VirtualBuffer<u64>,
    ) -> Result<VirtualPending<Point<F>>> {
        let Msm { bases, base_range, scalars, range, density, raised } = msm;
        let points = base_range.len() as u64;
        let share = if raised.is_some() { RAISED_SHARE } else { 1.0 };
        let work = work_of::<F>((points as f64 * share).ceil() as u64);
        let detail = format!("{}: {points} points of {}", bases.memory.extent.label, F::GROUP);
        let mut buffers =
            vec![&bases.memory.extent, &scalars.memory.extent, &scratch.memory.extent];
        buffers.extend(density.map(|density| &density.memory.extent));
        let (bases, scalars) = (bases.memory.clone(), scalars.memory.clone());
        let density = density.map(|density| density.memory.clone());
        let scratch = scratch.memory.clone();
        let run = move |corrupt| {
            let density = density.as_ref().map(|density| density.read());
            let (bases, scalars) = (bases.read(), scalars.read());
            let scalars = &scalars[range.clone()];
            let bases = msm::Bases { points: &bases, range: base_range.clone(), raised };
            let scratch = &mut scratch.write();
            let mut sum =
                msm::msm(bases, scalars, density.as_deref().map(|d| &**d), LANES, scratch);
            if corrupt {
                // A bit of one coordinate would not show at infinity.
                let limbs: &mut [u64] = bytemuck::cast_slice_mut(slice::from_mut(&mut sum));
                let coordinate = limbs.len() / 3;
                limbs.iter_mut().step_by(coordinate).for_each(|limb| *limb ^= 1);
            }
            sum
        };
        self.card.submit(stream, Op { label: "msm", detail, work }, &buffers, run)
    }

    fn msm_scratch<F: Coordinate>(&self, len: usize) -> u64 {
        msm::Plan::<F>::new(len, LANES).scratch_words() as u64 * 8
    }

    fn raised_scratch<F: Coordinate>(&self, raised: Raised, len: usize) -> u64 {
        msm::Plan::<F>::over(Some(raised), len, LANES).scratch_words() as u64 * 8
    }

    fn raise<F: Coordinate>(
        &self,
        stream: &VirtualStream,
        raised: Raised,
        points: &mut VirtualBuffer<Affine<F>>,
    ) -> Result<()> {
        let count = points.len / raised.windows();
        let work = work_of::<F>(RAISE_SUMS * count as u64);
        let detail = format!("{}: {count} points of {}", points.memory.extent.label, F::GROUP);
        self.launch(stream, Op { label: "raise", detail, work }, &[], points, move |points| {
            raise::raise(raised, points);
        })
    }

    fn raised_for<F: Coordinate>(&self, len: usize) -> Option<Raised> {
        Some(msm::raised_for(len))
    }

    fn multiples<F: Coordinate>(
        &self,
        stream: &VirtualStream,
        multiples: Multiples<'_, Self, F>,
        out: &mut VirtualBuffer<Affine<F>>,
    ) -> Result<()> {
        let Multiples { table, window_bits, scalars, range } = multiples;
        // About as many additions as for the terms of a sum.
        let work = work_of::<F>(range.len() as u64);
        let detail = format!("{}: {} points of {}", out.memory.extent.label, range.len(), F::GROUP);
        let (table, scalars) = (&table.memory, &scalars.memory);
        let inputs = [&table.extent, &scalars.extent];
        let (table, scalars) = (table.clone(), scalars.clone());
        self.launch(stream, Op { label: "multiples", detail, work }, &inputs, out, move |out| {
            let scalars = &scalars.read()[range.clone()];
            fixed_base::multiples(&table.read(), window_bits, scalars, &mut out[..range.len()]);
        })
    }
}
