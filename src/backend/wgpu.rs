//! Any GPU, through Vulkan, Metal or DX12: kernels in WGSL, memory in segments, one queue.
//!
//! The files below: `adapter` finds and chooses adapters, `capacity` asks for their memory; `device` has errors as values,
//! `kernels` is the list of kernels, `pipelines` compiles them, `cores` chooses how they multiply, and `selftest`
//! refuses a device that computes wrongly. `memory` holds segments, `staging` brings data there and back; `commands` puts work in
//! the queue, `marks` knows when it is done. The operations know in what shapes kernels run.
//!
//! All streams share the queue, so that work is done in the order of the calls, whichever stream it is in.

mod adapter;
mod capacity;
mod commands;
mod cores;
mod device;
mod expand;
mod kernels;
mod marks;
mod matvec;
mod memory;
mod msm;
mod multiples;
mod ntt;
mod pipelines;
mod quotient;
mod selftest;
mod staging;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytemuck::Pod;

use self::capacity::Capacity;
use self::commands::{Binding, Commands};
use self::device::Device;
use self::marks::Marks;
use self::memory::{Memory, Pool};
use self::pipelines::Pipelines;
use self::staging::Ring;
use super::shader::programs::Programs;
use super::{
    Backend, Buffer, DeviceInfo, DeviceMatrix, Msm, Multiples, Output, Packed, Pending, Quotient,
    Raised, Rates, Shared, Transform,
};
use crate::budget::{Budget, Lease, Reservation};
use crate::curve::{Affine, Coordinate, Point};
use crate::field::Fr;
use crate::{Error, Result};

pub use self::adapter::{Adapter, Found, devices};
pub use self::cores::Speed;
pub use self::kernels::{Access, Curve, Group, Kernel};
pub use super::shader::{Core, Prime, Registers};

/// The backend's name.
const BACKEND: &str = "wgpu";

/// Bytes of a kernel's parameters at most, and what their offsets are multiples of: no adapter asks for more.
const PARAMETER_STRIDE: u64 = 256;

/// The largest segment: places in it are counted in 32 bits, with room.
const MOST_SEGMENT_BYTES: u64 = 1 << 30;

/// How long a submission may take: a driver that also draws a desktop stops what takes long.
const SLICE: Duration = Duration::from_millis(50);

/// What of the memory that is free when a device is opened is not leased: others' growth, the driver's own, staging.
const MARGIN_BYTES: u64 = 512 << 20;

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which.
    pub adapter: Adapter,
    /// Bytes that may be leased. By default what is free on the card now, less a margin.
    pub vram: Option<u64>,
    /// How to multiply; by default in the way that is fastest there.
    pub core: Option<Core>,
    /// Whether kernels may have 64-bit integers, if the adapter does.
    pub int64: bool,
    /// Whether to do with what every implementation of WebGPU has, whatever the adapter has.
    pub default_limits: bool,
    /// Bytes of a segment of memory at most; by default as many as may be bound.
    pub segment_bytes: Option<u64>,
    /// For tests: a kernel, by its name, in whose text something is replaced.
    #[doc(hidden)]
    pub spoil: Option<(String, String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            adapter: Adapter::First,
            vram: None,
            core: None,
            int64: true,
            default_limits: false,
            segment_bytes: None,
            spoil: None,
        }
    }
}

/// A GPU. Clones are handles to the same.
#[derive(Clone)]
pub struct Wgpu(Arc<Card>);

struct Card {
    gpu: Arc<Gpu>,
    adapter: wgpu::Adapter,
    found: Found,
    info: DeviceInfo,
    budget: Budget,
    opening: Opening,
}

/// How opening a device went.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// How it multiplies, and how fast that is.
    pub speed: Speed,
    /// Bytes of a segment of memory at most.
    pub segment_bytes: u64,
    /// How long the kernels took to compile.
    pub kernels: Duration,
    /// Whether the driver had them from an earlier time.
    pub warm: bool,
    /// How long all of it took.
    pub all: Duration,
}

/// Transform tables by the sizes of vectors and segments.
type Tables = BTreeMap<(u32, u32), Arc<Vec<Fr>>>;

/// What operations work with.
struct Gpu {
    device: Arc<Device>,
    marks: Marks,
    pool: Arc<Pool>,
    pipelines: Pipelines,
    uploads: Ring,
    downloads: Ring,
    /// Held to submit.
    turn: Mutex<()>,
    /// Products of a submission at most, unless one launch has more.
    slice_products: u64,
    segment_bytes: u64,
    /// The largest buffer that may be bound.
    whole_bytes: u64,
    /// Bound where there is nothing to bind.
    nothing: wgpu::Buffer,
    /// Where [`matvec`] and [`multiples`] collect sums.
    sums: Mutex<wgpu::Buffer>,
    registers: Registers,
    /// The tables of G1 and G2: see [`programs`](super::shader::programs).
    programs: [wgpu::Buffer; 2],
    /// Buffers of [`msm::RESULT_BYTES`] that no sum has.
    results: Mutex<Vec<wgpu::Buffer>>,
    tables: Mutex<Tables>,
}

impl Gpu {
    /// Workgroups of `kernel` that one launch should have at most.
    fn groups_at_once(&self, kernel: Kernel) -> u32 {
        let groups = self.slice_products / kernel.products();
        groups.clamp(1, 1 << 24) as u32
    }

    /// The curve with coordinates F, as kernels compute on it here.
    fn curve<F: Coordinate>(&self) -> Curve {
        Curve::of::<F>(self.registers)
    }

    /// The table of a curve's operations.
    fn program(&self, curve: Curve) -> Binding {
        Binding::whole(&self.programs[curve.group as usize])
    }
}

impl Drop for Gpu {
    /// Waits for the buffers that are still on their way back.
    fn drop(&mut self) {
        self.marks.close();
        self.device.tidy();
        self.uploads.wipe();
    }
}

impl Wgpu {
    /// Opens an adapter: compiles its kernels, measures how it multiplies best if that is not known yet, and checks that it
    /// computes rightly.
    ///
    /// # Errors
    /// [`Error::NoDevice`] with the reason, [`Error::Kernel`] if a kernel does not compile or computes wrongly.
    pub fn open(options: Options) -> Result<Self> {
        let started = Instant::now();
        let (adapter, found) = adapter::choose(&options.adapter)?;
        let info = adapter.get_info();
        let device = Arc::new(request(&adapter, &found, &options)?);
        let speed = speed(&device, &info, &found, &options)?;
        let spoil = |kernel: Kernel, text: String| match &options.spoil {
            Some((name, from, to)) if name == kernel.name() => text.replace(from, to),
            _ => text,
        };
        let registers = match found.is_software {
            true => Registers::Shared,
            false => Registers::Private,
        };
        let kernels = Kernel::of_backend(registers);
        let (pipelines, built) = Pipelines::build(&device, &info, speed.core, kernels, spoil)?;

        let capacity = match (capacity::of(&adapter, &found), options.vram) {
            (Ok(capacity), _) => Some(capacity),
            (Err(_), Some(_)) => None,
            (Err(error), None) => return Err(error),
        };
        let wanted = options.vram.or(capacity.map(|capacity| capacity.total));
        let wanted = wanted.expect("one of the two is there");
        // Another's, perhaps, who came first and named other bytes.
        let budget = match (&found.pci_bus_id, found.is_software) {
            (Some(id), _) => Budget::of_card(id, wanted),
            // The host's memory is no card's.
            (None, true) => Budget::new(wanted),
            (None, false) => Budget::of_card(&format!("{BACKEND} {}", found.name), wanted),
        };
        if let (None, Some(Capacity { free, .. })) = (options.vram, capacity) {
            budget.set_foreign(budget.total().saturating_sub(free.saturating_sub(MARGIN_BYTES)));
        }

        let limits = device.raw().limits();
        let whole_bytes = limits
            .max_storage_buffer_binding_size
            .min(limits.max_buffer_size)
            .min(MOST_SEGMENT_BYTES);
        let segment_bytes = options.segment_bytes.unwrap_or(whole_bytes).min(whole_bytes);
        use wgpu::BufferUsages as Usage;
        let sums = Usage::STORAGE | Usage::COPY_DST;
        let slice_products = (speed.fr * SLICE.as_secs_f64()) as u64;
        let gpu = Arc::new(Gpu {
            marks: Marks::new(&device)?,
            pool: Arc::new(Pool::new(&device, budget.total())),
            pipelines,
            uploads: Ring::of_uploads(&device)?,
            downloads: Ring::of_downloads(&device)?,
            turn: Mutex::new(()),
            slice_products: slice_products.max(1 << 16),
            segment_bytes,
            whole_bytes,
            nothing: device.create("nothing", memory::ALIGNMENT, Usage::STORAGE, false)?,
            sums: Mutex::new(device.create("sums", matvec::SUMS_BYTES, sums, false)?),
            registers,
            programs: [program(&device, 1)?, program(&device, 2)?],
            results: Mutex::default(),
            tables: Mutex::default(),
            device,
        });
        let id = found.pci_bus_id.as_deref().unwrap_or(if found.is_software {
            "software"
        } else {
            "no PCI id"
        });
        let info = DeviceInfo {
            backend: BACKEND,
            name: format!(
                "{} ({}, {}, {:?} limbs, {id})",
                found.name, found.api, found.driver, speed.core
            ),
            memory_bytes: budget.capacity(),
            max_buffer_bytes: budget.total(),
            unified: false,
            rates: rates(&speed),
        };
        let opening = Opening {
            speed,
            segment_bytes,
            kernels: built.time,
            warm: built.warm,
            all: started.elapsed(),
        };
        tracing::info!(
            "{}: opened in {:.1?}, of which {:.1?} for kernels ({})",
            info.name,
            opening.all,
            opening.kernels,
            if opening.warm { "kept" } else { "new" }
        );
        let adapter_info = adapter.get_info();
        let opened = Self(Arc::new(Card { gpu, adapter, found, info, budget, opening }));
        selftest::require(&opened, &adapter_info)?;
        Ok(opened)
    }

    /// How opening it went.
    pub fn opening(&self) -> &Opening {
        &self.0.opening
    }

    /// Destroys the device, for tests of what comes then.
    #[doc(hidden)]
    pub fn destroy(&self) {
        self.0.gpu.device.destroy();
    }

    fn memory(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
        element_bytes: usize,
        segment_bytes: u64,
    ) -> Result<(Memory, Reservation)> {
        self.0.gpu.device.check()?;
        // A length that overflows is more than any lease has.
        let bytes = (len as u64).saturating_mul(element_bytes as u64);
        let reservation = lease.reserve(label, bytes)?;
        let memory = self.0.gpu.pool.take(label, len, element_bytes, segment_bytes)?;
        Ok((memory, reservation))
    }

    fn buffer<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
        segment_bytes: u64,
    ) -> Result<WgpuBuffer<T>> {
        let (memory, reservation) =
            self.memory(lease, label, len, size_of::<T>(), segment_bytes)?;
        Ok(WgpuBuffer {
            gpu: self.0.gpu.clone(),
            content: Some((memory, reservation)),
            len,
            element: PhantomData,
        })
    }
}

/// The table of the curve whose coordinates have so many elements of Fp.
fn program(device: &Device, degree: usize) -> Result<wgpu::Buffer> {
    let words = Programs::new(degree).words();
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let buffer =
        device.create("operations", bytes.len() as u64, wgpu::BufferUsages::STORAGE, true)?;
    device.scoped("writing a table", || {
        let view = buffer.get_mapped_range_mut(..bytes.len() as u64);
        view.map(|mut view| view.copy_from_slice(bytes)).expect("it was made mapped");
        buffer.unmap();
    })?;
    Ok(buffer)
}

/// Asks for a device with what the adapter has, or less if that is wanted.
fn request(adapter: &wgpu::Adapter, found: &Found, options: &Options) -> Result<Device> {
    let mut wanted = wgpu::Features::PIPELINE_CACHE;
    if options.int64 {
        wanted |= wgpu::Features::SHADER_INT64;
    }
    let limits = match options.default_limits {
        true => wgpu::Limits::default(),
        false => adapter.limits(),
    };
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("forebay"),
        required_features: adapter.features() & wanted,
        required_limits: limits,
        // Blocks of the driver's memory of which not all is used are not in the budget.
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    match pollster::block_on(adapter.request_device(&descriptor)) {
        Ok((raw, queue)) => Ok(Device::new(raw, queue)),
        Err(error) => Err(Error::NoDevice {
            backend: BACKEND.into(),
            reason: format!("{}: {error}", found.name),
        }),
    }
}

/// The core that is wanted, or the fastest; with its speed, of which plans and the length of submissions come.
fn speed(
    device: &Device,
    info: &wgpu::AdapterInfo,
    found: &Found,
    options: &Options,
) -> Result<Speed> {
    let speeds = cores::speeds(device, info, &candidates(device, found, options))?;
    cores::fastest(&speeds).ok_or_else(|| Error::NoDevice {
        backend: BACKEND.into(),
        reason: format!("{}: its kernels cannot have 64-bit integers", found.name),
    })
}

/// The cores that a device can run and that may be the fastest.
fn candidates(device: &Device, found: &Found, options: &Options) -> Vec<Core> {
    let int64 = device.raw().features().contains(wgpu::Features::SHADER_INT64);
    let candidates = match options.core {
        Some(core) => vec![core],
        // Software takes long to compile 13-bit limbs, and gains nothing.
        None if found.is_software => vec![Core::Wide, Core::Halves],
        None => Core::ALL.to_vec(),
    };
    candidates.into_iter().filter(|core| int64 || !core.needs_int64()).collect()
}

/// How fast an adapter multiplies in each of the ways that it can; measured once for each driver.
///
/// # Errors
/// [`Error::NoDevice`] with the reason.
pub fn speeds(options: &Options) -> Result<Vec<Speed>> {
    let (adapter, found) = adapter::choose(&options.adapter)?;
    let device = request(&adapter, &found, options)?;
    cores::speeds(&device, &adapter.get_info(), &candidates(&device, &found, options))
}

/// From the products alone: a butterfly has one, an addition in G1 some 10 and in G2 some 30, and a term of a large sum some 20
/// additions. Half of the products' rate is reached (NVIDIA H200 through Vulkan, 2026-11-30).
fn rates(speed: &Speed) -> Rates {
    Rates {
        upload: 10e9,
        download: 10e9,
        butterflies: speed.fr / 2.0,
        g1_terms: speed.fp / 400.0,
        g2_terms: speed.fp / 1200.0,
        seconds_per_sum: 5e-3,
        // Multiples are not taken.
        raised_share: 1.0,
        raise_sums: 0.0,
    }
}

/// Elements in a device's memory.
pub struct WgpuBuffer<T: Pod> {
    gpu: Arc<Gpu>,
    /// Taken when the buffer is dropped.
    content: Option<(Memory, Reservation)>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> WgpuBuffer<T> {
    fn memory(&self) -> &Memory {
        &self.content.as_ref().expect("it is there until the end").0
    }
}

impl<T: Pod + Send + Sync> Buffer<T> for WgpuBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Pod> Drop for WgpuBuffer<T> {
    /// Wipes the memory behind all work that is in the queue; the bytes are back when that is done.
    fn drop(&mut self) {
        let Some((memory, reservation)) = self.content.take() else { return };
        if memory.len() == 0 {
            return;
        }
        reservation.returning();
        let mut commands = Commands::urgent(&self.gpu);
        memory.segments().for_each(|(segment, _)| commands.clear_bytes(segment, 0, segment.size()));
        let pool = self.gpu.pool.clone();
        commands.then(move |outcome| {
            match outcome {
                Ok(()) => pool.put(memory),
                Err(_) => pool.forget(memory),
            }
            // Behind the memory: whoever gets the bytes finds it in the pool.
            drop(reservation);
        });
        if let Err(error) = commands.submit() {
            tracing::error!("a buffer cannot be wiped, and is lost: {error}");
        }
    }
}

/// A result that the device is still working on, and how it is finished on the host.
pub struct WgpuPending<R>(Waiting<R>);

/// What waits for a result, and finishes it.
type Waiting<R> = Box<dyn FnOnce() -> Result<R> + Send>;

impl<R: Send> Pending<R> for WgpuPending<R> {
    fn wait(self) -> Result<R> {
        self.0()
    }
}

/// A stream. All are one queue.
pub struct WgpuStream(());

impl Backend for Wgpu {
    type Buffer<T: Pod + Send + Sync> = WgpuBuffer<T>;
    type Stream = WgpuStream;
    type Pending<R: Send + 'static> = WgpuPending<R>;

    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn budget(&self) -> &Budget {
        &self.0.budget
    }

    fn foreign_bytes(&self) -> Result<u64> {
        let card = &self.0;
        // Where the driver does not say, nobody else is known of.
        let Ok(capacity) = capacity::of(&card.adapter, &card.found) else { return Ok(0) };
        let available = capacity.free + card.gpu.pool.held_bytes();
        Ok(card.budget.total().saturating_sub(available.saturating_sub(MARGIN_BYTES)))
    }

    fn device_wide_calls(&self) -> u64 {
        self.0.gpu.device.created()
    }

    fn stream(&self) -> Result<WgpuStream> {
        self.0.gpu.device.check()?;
        Ok(WgpuStream(()))
    }

    fn join(&self, _waiter: &WgpuStream, _on: &WgpuStream) -> Result<()> {
        self.0.gpu.device.check()
    }

    fn alloc<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
    ) -> Result<WgpuBuffer<T>> {
        self.buffer(lease, label, len, self.0.gpu.segment_bytes)
    }

    fn adopt<T: Pod + Send + Sync>(
        &self,
        stream: &WgpuStream,
        lease: &Lease,
        label: &'static str,
        data: Shared<T>,
    ) -> Result<WgpuBuffer<T>> {
        let data = (*data).as_ref();
        let mut buffer = self.alloc(lease, label, data.len())?;
        self.upload(stream, data, &mut buffer, 0)?;
        Ok(buffer)
    }

    fn upload<T: Pod + Send + Sync>(
        &self,
        _stream: &WgpuStream,
        source: &[T],
        target: &mut WgpuBuffer<T>,
        at: usize,
    ) -> Result<()> {
        let bytes = bytemuck::cast_slice(source);
        self.0.gpu.uploads.upload(&self.0.gpu, bytes, target.memory(), at, size_of::<T>())
    }

    fn download<T: Pod + Send + Sync>(
        &self,
        _stream: &WgpuStream,
        source: &WgpuBuffer<T>,
        at: usize,
        target: &mut [T],
    ) -> Result<()> {
        let target = bytemuck::cast_slice_mut(target);
        self.0.gpu.downloads.download(&self.0.gpu, source.memory(), at, size_of::<T>(), target)
    }

    fn expand(
        &self,
        _stream: &WgpuStream,
        packed: Packed<'_, Self>,
        output: Output,
        out: &mut WgpuBuffer<Fr>,
    ) -> Result<()> {
        let Packed { blocks, small, wide } = packed;
        let (blocks, small, wide) = (blocks.memory(), small.memory(), wide.memory());
        expand::expand(&self.0.gpu, blocks, small, wide, output, out.memory())
    }

    fn matvec(
        &self,
        _stream: &WgpuStream,
        matrix: &DeviceMatrix<Self>,
        x: &WgpuBuffer<Fr>,
        output: Output,
        out: &mut WgpuBuffer<Fr>,
    ) -> Result<()> {
        let arrays = matvec::Arrays {
            row_start: matrix.row_start.memory(),
            column: matrix.column.memory(),
            coefficient: matrix.coefficient.memory(),
            table: matrix.table.memory(),
        };
        matvec::matvec(&self.0.gpu, &arrays, x.memory(), output, out.memory())
    }

    fn ntt(
        &self,
        _stream: &WgpuStream,
        transform: Transform,
        table: &WgpuBuffer<Fr>,
        data: &mut WgpuBuffer<Fr>,
    ) -> Result<()> {
        ntt::ntt(&self.0.gpu, transform, table.memory(), data.memory())
    }

    fn ntt_table(&self, stream: &WgpuStream, lease: &Lease, log_n: u32) -> Result<WgpuBuffer<Fr>> {
        let gpu = &self.0.gpu;
        let contents = ntt::table(gpu, log_n, gpu.log_segment::<Fr>());
        let label = "transform table";
        let mut table = self.buffer(lease, label, contents.len(), gpu.whole_bytes)?;
        self.upload(stream, &contents, &mut table, 0)?;
        Ok(table)
    }

    fn ntt_table_bytes(&self, log_n: u32) -> u64 {
        (ntt::table_len(log_n, self.0.gpu.log_segment::<Fr>()) * Fr::BYTES) as u64
    }

    fn quotient(
        &self,
        _stream: &WgpuStream,
        step: Quotient,
        accumulator: &mut WgpuBuffer<Fr>,
        operand: &WgpuBuffer<Fr>,
    ) -> Result<()> {
        quotient::quotient(&self.0.gpu, step, accumulator.memory(), operand.memory())
    }

    fn msm<F: Coordinate>(
        &self,
        _stream: &WgpuStream,
        msm: Msm<'_, Self, F>,
        scratch: &mut WgpuBuffer<u64>,
    ) -> Result<WgpuPending<Point<F>>> {
        let terms = msm::Terms {
            bases: msm.bases.memory(),
            base_range: msm.base_range,
            scalars: msm.scalars.memory(),
            range: msm.range,
            density: msm.density.map(WgpuBuffer::memory),
        };
        Ok(WgpuPending(msm::msm(&self.0.gpu, &terms, scratch.memory())?))
    }

    fn msm_scratch<F: Coordinate>(&self, len: usize) -> u64 {
        msm::scratch_bytes::<F>(len, self.0.gpu.segment_bytes)
    }

    fn raised_scratch<F: Coordinate>(&self, _raised: Raised, len: usize) -> u64 {
        self.msm_scratch::<F>(len)
    }

    /// The host does it: no plan asks for it here, for sums take the first copy alone.
    fn raise<F: Coordinate>(
        &self,
        stream: &WgpuStream,
        raised: Raised,
        points: &mut WgpuBuffer<Affine<F>>,
    ) -> Result<()> {
        let mut all = vec![Affine::INFINITY; points.len()];
        let len = all.len() / raised.windows();
        self.download(stream, points, 0, &mut all[..len])?;
        super::cpu::raise::raise(raised, &mut all);
        self.upload(stream, &all, points, 0)
    }

    fn raised_for<F: Coordinate>(&self, _len: usize) -> Option<Raised> {
        None
    }

    fn multiples<F: Coordinate>(
        &self,
        _stream: &WgpuStream,
        multiples: Multiples<'_, Self, F>,
        out: &mut WgpuBuffer<Affine<F>>,
    ) -> Result<()> {
        let factors = multiples::Factors {
            table: multiples.table.memory(),
            window_bits: multiples.window_bits,
            scalars: multiples.scalars.memory(),
            range: multiples.range,
        };
        multiples::multiples::<F>(&self.0.gpu, &factors, out.memory())
    }
}

impl Gpu {
    /// Elements of T of a whole segment, as a power of two.
    fn log_segment<T>(&self) -> u32 {
        (self.segment_bytes / size_of::<T>() as u64).ilog2()
    }
}
