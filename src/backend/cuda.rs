//! NVIDIA cards: kernels compiled for the card at hand, memory in one arena, work on streams.
//!
//! The files below: `driver` has every call of the driver, and counts them; `nvrtc` and [`module`] make machine code;
//! `arena` and `store` hold the memory, `staging` brings data there and back, `queue` has streams and the ends of
//! buffers; `launch` knows the kernels' arguments, and the operations know in what shapes they run.
//!
//! Nothing waits for the whole device, and once the arena has grown to what a workload needs, nothing is allocated, freed
//! or mapped: [`Cuda::driver_calls`] shows it.

mod arena;
mod driver;
mod launch;
pub mod module;
mod msm;
mod ntt;
mod nvrtc;
mod queue;
mod staging;
mod store;
mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use bytemuck::Pod;

use self::arena::{Block, Shape};
use self::driver::{Driver, Pinned};
use self::launch::{Kernels, Slice};
use self::module::Architecture;
use self::queue::Queue;
use self::staging::Ring;
use self::store::Store;
use self::trace::{Trace, What};
use super::{
    Backend, Buffer, DeviceInfo, DeviceMatrix, DeviceSpan, Msm, Multiples, Output, Packed, Pending,
    Quotient, Raised, Rates, Shared, Transform,
};
use crate::Result;
use crate::budget::{Budget, Lease, Reservation};
use crate::curve::{Affine, Coordinate, Point};
use crate::field::Fr;

pub use self::driver::DriverCalls;

/// How a card is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Bytes that may be leased. By default what is free on the card now, less a margin.
    pub vram: Option<u64>,
    /// Whether [`Backend::spans`] says when work ran. It costs two events an operation, which are kept.
    pub record: bool,
}

/// A device as the driver describes it, without opening it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The driver's number, as [`Cuda::open`] takes it.
    pub index: usize,
    /// The driver's name.
    pub name: String,
    /// Such as `0000:3b:00.0`.
    pub pci_bus_id: String,
    /// Bytes of memory, whoever uses them.
    pub memory_bytes: u64,
    /// What kernels are compiled for.
    pub architecture: Architecture,
}

/// The devices that the driver knows.
///
/// # Errors
/// [`Error::NoDevice`](crate::Error::NoDevice) with the reason why there is none.
pub fn devices() -> Result<Vec<Found>> {
    let found = |index| {
        let properties = driver::device_properties(index)?;
        Ok(Found {
            index,
            architecture: architecture(&properties),
            name: properties.name,
            pci_bus_id: properties.pci_bus_id,
            memory_bytes: properties.total_bytes,
        })
    };
    (0..driver::device_count()?).map(found).collect()
}

fn architecture(properties: &driver::Properties) -> Architecture {
    let (major, minor) = properties.compute_capability;
    Architecture::new(major, minor)
}

/// A card. Clones are handles to the same; so are all that one process opens of one card.
#[derive(Clone)]
pub struct Cuda(Arc<Card>);

/// The cards that are open in this process.
static OPEN: Mutex<BTreeMap<usize, Weak<Card>>> = Mutex::new(BTreeMap::new());

/// What a card's memory that is free when it is opened is not leased for: others' growth, and the driver's own.
const MARGIN_BYTES: u64 = 512 << 20;

/// Pinned memory for results that is made when a card is opened, so that none is made later because of who happens to wait
/// beside whom: bytes of the largest sum's last points, and sums that may be pending.
const RESULT_BYTES: usize = 1 << 17;
const RESULTS: usize = 16;

/// Measured on an NVIDIA H200; a rough measure for any.
const RATES: Rates = Rates {
    upload: 50e9,
    download: 35e9,
    butterflies: 58e9,
    g1_terms: 205e6,
    g2_terms: 64e6,
    seconds_per_sum: 4e-3,
    raised_share: 0.8,
    raise_sums: 25.0,
};

struct Card {
    driver: Arc<Driver>,
    info: DeviceInfo,
    budget: Budget,
    kernels: Kernels,
    ring: Ring,
    store: Arc<Store>,
    /// Queues that no stream has; the one that was used longest ago first, for it is idle most likely.
    queues: Mutex<VecDeque<Arc<Queue>>>,
    /// Pinned memory that no pending result has.
    results: Mutex<Vec<Pinned>>,
    /// For data that go to new buffers: they need not wait for what is in the caller's stream.
    adoptions: Arc<Queue>,
    /// Queues made so far.
    queues_made: AtomicUsize,
    trace: Option<Trace>,
}

impl Cuda {
    /// Opens card `index`, in the driver's order: compiles or loads its kernels, measures what others use of its memory. If
    /// this process has it open already, that is what is returned, whatever the options.
    ///
    /// # Errors
    /// [`Error::NoDevice`](crate::Error::NoDevice) with the reason, [`Error::Kernel`](crate::Error::Kernel) if a
    /// kernel does not compile or load, [`Error::DeviceLost`](crate::Error::DeviceLost) if the card was lost: after a fatal
    /// error the driver gives it to no process that had it then.
    pub fn open(index: usize, options: Options) -> Result<Self> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(card) = open.get(&index).and_then(Weak::upgrade) {
            card.adoptions.stream().check()?;
            return Ok(Self(card));
        }
        let card = Arc::new(Card::open(index, options)?);
        open.insert(index, Arc::downgrade(&card));
        Ok(Self(card))
    }

    fn multiprocessors(&self) -> u32 {
        self.0.driver.properties().multiprocessors
    }

    /// How often the driver was asked for what.
    pub fn driver_calls(&self) -> DriverCalls {
        self.0.driver.calls()
    }
}

/// What of `available` bytes may be leased: less the margin, and what the arena has beyond the budget.
fn leasable(available: u64, granularity: u64) -> u64 {
    let bytes = available.saturating_sub(MARGIN_BYTES);
    bytes.saturating_sub(Shape::slack_bytes(bytes, granularity))
}

impl Card {
    fn open(index: usize, options: Options) -> Result<Self> {
        let started = Instant::now();
        let driver = Driver::open(index)?;
        let properties = driver.properties().clone();
        let architecture = architecture(&properties);
        let kernels = Kernels::load(&driver, &module::build(architecture)?)?;
        let ring = Ring::new(&driver)?;

        let granularity = driver.unit_bytes()?;
        let wanted = options.vram.unwrap_or(properties.total_bytes);
        // Another's, perhaps, who came first and named other bytes.
        let budget = Budget::of_card(&properties.pci_bus_id, wanted);
        if options.vram.is_none() {
            let leasable = leasable(driver.free_bytes()?, granularity);
            budget.set_foreign(budget.total().saturating_sub(leasable));
        }
        // What others give back may be leased later, so addresses are there for all of the budget.
        let shape = Shape::new(budget.total(), granularity);
        let store = Arc::new(Store::new(&driver, shape)?);
        let adoptions = Arc::new(Queue::new(&driver, &store, 0)?);
        let results = (0..RESULTS).map(|_| driver.pinned(RESULT_BYTES)).collect::<Result<_>>()?;
        let trace = if options.record { Some(Trace::new(&driver)?) } else { None };
        let version = properties.driver_version;
        let info = DeviceInfo {
            backend: "cuda",
            name: format!(
                "{} ({architecture}, {} multiprocessors, CUDA {}.{}, {})",
                properties.name,
                properties.multiprocessors,
                version / 1000,
                version % 1000 / 10,
                properties.pci_bus_id
            ),
            memory_bytes: budget.capacity(),
            max_buffer_bytes: budget.total(),
            unified: false,
            rates: RATES,
        };
        tracing::info!("{}: opened in {:.1?}", info.name, started.elapsed());
        Ok(Self {
            driver,
            info,
            budget,
            kernels,
            ring,
            store,
            queues: Mutex::default(),
            results: Mutex::new(results),
            adoptions,
            queues_made: AtomicUsize::new(1),
            trace,
        })
    }

    /// Does `work`, which puts an operation in `queue`, and records when it ran if that is wanted.
    fn traced<R>(
        &self,
        queue: &Queue,
        what: impl FnOnce() -> What,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        match &self.trace {
            Some(trace) => trace.around(queue, what(), work),
            None => work(),
        }
    }
}

impl Drop for Card {
    /// Waits for the buffers that are still on their way back.
    fn drop(&mut self) {
        let queues = std::mem::take(self.queues.get_mut().unwrap_or_else(PoisonError::into_inner));
        queues.iter().chain([&self.adoptions]).for_each(|queue| queue.close());
    }
}

/// An in-order queue of work on a card.
pub struct CudaStream {
    card: Arc<Card>,
    queue: Arc<Queue>,
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        let mut queues = self.card.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.push_back(self.queue.clone());
    }
}

/// Elements in a card's memory.
pub struct CudaBuffer<T: Pod> {
    card: Arc<Card>,
    len: usize,
    /// `None` if there is no byte. Both are taken when the buffer is dropped.
    block: Option<Block>,
    reservation: Option<Reservation>,
    /// Where it was used, the latest last.
    uses: Mutex<Vec<Arc<Queue>>>,
    element: PhantomData<T>,
}

impl<T: Pod> CudaBuffer<T> {
    /// The elements, for work that is now put in `stream`.
    fn on(&self, stream: &CudaStream) -> Slice<T> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.retain(|queue| !Arc::ptr_eq(queue, &stream.queue));
        uses.push(stream.queue.clone());
        let address = self.block.as_ref().map_or(0, |block| self.card.store.address(block));
        Slice::new(address, self.len)
    }
}

impl<T: Pod + Send + Sync> Buffer<T> for CudaBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Pod> Drop for CudaBuffer<T> {
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        let uses = std::mem::take(self.uses.get_mut().unwrap_or_else(PoisonError::into_inner));
        let store = &self.card.store;
        match (self.block.take(), uses.split_last()) {
            (Some(block), Some((last, others))) => last.retire(others, store, block, reservation),
            (block, _) => store.put(block, reservation),
        }
    }
}

/// A result that the card is still working on, and how it is finished on the host.
pub struct CudaPending<R>(Box<dyn FnOnce() -> Result<R> + Send>);

impl<R: Send + 'static> CudaPending<R> {
    /// A result that is there.
    fn ready(result: R) -> Self {
        Self(Box::new(|| Ok(result)))
    }

    /// What `finish` makes of the elements of `slice` as the work in `stream` until now leaves them.
    fn of<T: Pod + Send + Sync>(
        stream: &CudaStream,
        slice: Slice<T>,
        finish: impl FnOnce(&[T]) -> R + Send + 'static,
    ) -> Result<Self> {
        let card = stream.card.clone();
        let len = slice.len * size_of::<T>();
        let mut pinned = card.pinned(len)?;
        pinned.download(stream.queue.stream(), slice.address, len)?;
        Ok(Self(Box::new(move || {
            let bytes = &mut pinned.bytes()?[..len];
            // The pinned memory starts on a page.
            let result = finish(bytemuck::cast_slice(bytes));
            zeroize::Zeroize::zeroize(bytes);
            card.results.lock().unwrap_or_else(PoisonError::into_inner).push(pinned);
            Ok(result)
        })))
    }
}

impl Card {
    /// Pinned memory of at least `len` bytes for a result.
    fn pinned(&self, len: usize) -> Result<Pinned> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        match results.iter().position(|pinned| pinned.len() >= len) {
            Some(at) => Ok(results.swap_remove(at)),
            None => self.driver.pinned(len.next_power_of_two().max(RESULT_BYTES)),
        }
    }
}

impl<R: Send> Pending<R> for CudaPending<R> {
    fn wait(self) -> Result<R> {
        self.0()
    }
}

impl Backend for Cuda {
    type Buffer<T: Pod + Send + Sync> = CudaBuffer<T>;
    type Stream = CudaStream;
    type Pending<R: Send + 'static> = CudaPending<R>;

    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn budget(&self) -> &Budget {
        &self.0.budget
    }

    fn foreign_bytes(&self) -> Result<u64> {
        let card = &self.0;
        let available = card.driver.free_bytes()? + card.store.held_bytes();
        let leasable = leasable(available, card.driver.unit_bytes()?);
        Ok(card.budget.total().saturating_sub(leasable))
    }

    fn device_wide_calls(&self) -> u64 {
        let DriverCalls { allocations, frees, maps, synchronizations, memory_infos, .. } =
            self.driver_calls();
        allocations + frees + maps + synchronizations + memory_infos
    }

    fn spans(&self) -> Vec<DeviceSpan> {
        self.0.trace.as_ref().map_or_else(Vec::new, Trace::spans)
    }

    fn stream(&self) -> Result<CudaStream> {
        let card = self.0.clone();
        let unused = card.queues.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let queue = match unused {
            Some(queue) => queue,
            None => {
                let number = card.queues_made.fetch_add(1, Ordering::Relaxed);
                Arc::new(Queue::new(&card.driver, &card.store, number)?)
            }
        };
        Ok(CudaStream { card, queue })
    }

    fn join(&self, waiter: &CudaStream, on: &CudaStream) -> Result<()> {
        waiter.queue.wait_for(&on.queue)
    }

    fn alloc<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
    ) -> Result<CudaBuffer<T>> {
        // A length that overflows is more than any lease has.
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let (block, reservation) = self.0.store.alloc(lease, label, bytes)?;
        Ok(CudaBuffer {
            card: self.0.clone(),
            len,
            block,
            reservation: Some(reservation),
            uses: Mutex::default(),
            element: PhantomData,
        })
    }

    fn adopt<T: Pod + Send + Sync>(
        &self,
        stream: &CudaStream,
        lease: &Lease,
        label: &'static str,
        data: Shared<T>,
    ) -> Result<CudaBuffer<T>> {
        let data = (*data).as_ref();
        let buffer = self.alloc(lease, label, data.len())?;
        let slice = buffer.on(stream);
        let adoptions = &self.0.adoptions;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let copy = || self.0.ring.upload(adoptions.stream(), bytes, slice.address);
        self.0.traced(adoptions, || What::copy(label, bytes.len()), copy)?;
        stream.queue.wait_for(adoptions)?;
        Ok(buffer)
    }

    fn upload<T: Pod + Send + Sync>(
        &self,
        stream: &CudaStream,
        source: &[T],
        target: &mut CudaBuffer<T>,
        at: usize,
    ) -> Result<()> {
        let part = target.on(stream).part(at, source.len());
        let (queue, bytes) = (&stream.queue, bytemuck::cast_slice(source));
        let copy = || self.0.ring.upload(queue.stream(), bytes, part.address);
        self.0.traced(queue, || What::copy("upload", bytes.len()), copy)
    }

    fn download<T: Pod + Send + Sync>(
        &self,
        stream: &CudaStream,
        source: &CudaBuffer<T>,
        at: usize,
        target: &mut [T],
    ) -> Result<()> {
        let part = source.on(stream).part(at, target.len());
        let (queue, target) = (&stream.queue, bytemuck::cast_slice_mut(target));
        let what = What::copy("download", target.len());
        let copy = || self.0.ring.download(queue.stream(), part.address, target);
        self.0.traced(queue, || what, copy)
    }

    fn expand(
        &self,
        stream: &CudaStream,
        packed: Packed<'_, Self>,
        output: Output,
        out: &mut CudaBuffer<Fr>,
    ) -> Result<()> {
        let (blocks, small, wide) =
            (packed.blocks.on(stream), packed.small.on(stream), packed.wide.on(stream));
        let (queue, out) = (&stream.queue, out.on(stream));
        let run = || self.0.kernels.expand(queue.stream(), blocks, small, wide, output, out);
        self.0.traced(queue, || What::elements("expand", out.len), run)
    }

    fn matvec(
        &self,
        stream: &CudaStream,
        matrix: &DeviceMatrix<Self>,
        x: &CudaBuffer<Fr>,
        output: Output,
        out: &mut CudaBuffer<Fr>,
    ) -> Result<()> {
        let (queue, out) = (&stream.queue, out.on(stream));
        let run = || {
            self.0.kernels.matvec(
                queue.stream(),
                matrix.row_start.on(stream),
                matrix.column.on(stream),
                matrix.coefficient.on(stream),
                matrix.table.on(stream),
                x.on(stream),
                output,
                out,
            )
        };
        self.0.traced(queue, || What::elements("matvec", out.len), run)
    }

    fn ntt(
        &self,
        stream: &CudaStream,
        transform: Transform,
        table: &CudaBuffer<Fr>,
        data: &mut CudaBuffer<Fr>,
    ) -> Result<()> {
        let (queue, table, data) = (&stream.queue, table.on(stream), data.on(stream));
        let run = || ntt::ntt(&self.0.kernels, queue.stream(), transform, table, data);
        self.0.traced(queue, || What::elements("transform", data.len), run)
    }

    fn ntt_table(&self, stream: &CudaStream, lease: &Lease, log_n: u32) -> Result<CudaBuffer<Fr>> {
        let table = self.alloc(lease, "transform table", ntt::table_len(log_n))?;
        let slice = table.on(stream);
        ntt::fill_table(&self.0.kernels, stream.queue.stream(), log_n, slice)?;
        Ok(table)
    }

    fn ntt_table_bytes(&self, log_n: u32) -> u64 {
        (ntt::table_len(log_n) * Fr::BYTES) as u64
    }

    fn quotient(
        &self,
        stream: &CudaStream,
        step: Quotient,
        accumulator: &mut CudaBuffer<Fr>,
        operand: &CudaBuffer<Fr>,
    ) -> Result<()> {
        let (queue, accumulator, operand) =
            (&stream.queue, accumulator.on(stream), operand.on(stream));
        let run = || self.0.kernels.quotient(queue.stream(), step, accumulator, operand);
        self.0.traced(queue, || What::elements("quotient", accumulator.len), run)
    }

    fn msm<F: Coordinate>(
        &self,
        stream: &CudaStream,
        msm: Msm<'_, Self, F>,
        scratch: &mut CudaBuffer<u64>,
    ) -> Result<CudaPending<Point<F>>> {
        let (queue, points) = (&stream.queue, msm.base_range.len());
        let run = || msm::msm(self, stream, msm, scratch);
        self.0.traced(queue, || What::points::<F>("sum", points), run)
    }

    fn msm_scratch<F: Coordinate>(&self, len: usize) -> u64 {
        msm::scratch_bytes::<F>(None, len, self.multiprocessors())
    }

    fn raised_scratch<F: Coordinate>(&self, raised: Raised, len: usize) -> u64 {
        msm::scratch_bytes::<F>(Some(raised), len, self.multiprocessors())
    }

    fn raise<F: Coordinate>(
        &self,
        stream: &CudaStream,
        raised: Raised,
        points: &mut CudaBuffer<Affine<F>>,
    ) -> Result<()> {
        let (queue, points) = (&stream.queue, points.on(stream));
        let run = || self.0.kernels.raise(queue.stream(), raised, points);
        self.0.traced(queue, || What::points::<F>("raise", points.len), run)
    }

    fn raised_for<F: Coordinate>(&self, len: usize) -> Option<Raised> {
        msm::raised_for(len)
    }

    fn multiples<F: Coordinate>(
        &self,
        stream: &CudaStream,
        multiples: Multiples<'_, Self, F>,
        out: &mut CudaBuffer<Affine<F>>,
    ) -> Result<()> {
        let Multiples { table, window_bits, scalars, range } = multiples;
        let scalars = scalars.on(stream).part(range.start, range.len());
        let (table, out) = (table.on(stream), out.on(stream).part(0, range.len()));
        let (queue, points) = (&stream.queue, range.len());
        let run = || self.0.kernels.multiples(queue.stream(), table, window_bits, scalars, out);
        self.0.traced(queue, || What::points::<F>("multiples", points), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Density;
    use crate::plan::{self, Part, Queries, QueryShape};
    use crate::profile::Profile;

    /// An H200's answers to plans.
    struct H200(DeviceInfo);

    impl Queries for H200 {
        fn device(&self) -> &DeviceInfo {
            &self.0
        }

        fn table_bytes(&self, log_n: u32) -> u64 {
            (ntt::table_len(log_n) * Fr::BYTES) as u64
        }

        fn scratch_bytes(&self, part: Part, raised: Option<Raised>, len: usize) -> u64 {
            match part {
                Part::BG2 => msm::scratch_bytes::<crate::field::Fp2>(raised, len, 132),
                _ => msm::scratch_bytes::<crate::field::Fp>(raised, len, 132),
            }
            .next_multiple_of(8)
        }

        fn raised_for(&self, _part: Part, points: usize) -> Option<Raised> {
            msm::raised_for(points)
        }
    }

    /// Three workers on 16 GiB, what this project was begun for: the key is streamed, and kernels hide its copies.
    #[test]
    fn a_partition_of_porep_in_16_gib_keeps_the_card_busy() {
        let info = DeviceInfo {
            backend: "cuda",
            name: "an H200's rates".into(),
            memory_bytes: 16 << 30,
            max_buffer_bytes: 16 << 30,
            unified: false,
            rates: RATES,
        };
        let mut shape = plan::Shape::of_profile(&Profile::named("porep-32gib").unwrap());
        // A quarter of the variables is in B, all over.
        let words = vec![0x1111_1111_1111_1111; shape.variables.div_ceil(64)];
        let density = Density { words: words.into(), len: shape.variables };
        let members = shape.variables.div_ceil(4);
        shape.queries[2] = QueryShape::of(members, &density);
        shape.queries[3] = shape.queries[2].clone();
        let plan = plan::choose(&shape, &H200(info), 16 << 30, &plan::Options::default()).unwrap();
        let kernels: f64 = plan.stages.iter().map(|stage| stage.kernel_seconds).sum();
        let text = format!("{}: {:.3} s, kernels {kernels:.3} s", plan.summary(), plan.seconds);
        assert!(plan.turns && kernels / plan.seconds > 0.9, "{text}: {plan:#?}");
    }
}
