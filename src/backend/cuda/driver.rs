//! The CUDA driver: the only file that names its functions, so that all its calls are counted.
//!
//! What the driver hands out is owned here: contexts, streams, events, pinned host memory, physical memory and its
//! addresses, modules. Device addresses are plain numbers to the host: the driver checks each against what is mapped, and
//! a wrong one breaks the device's context, never the host's memory. Host memory that a copy still reads or writes is
//! never handed out: [`Pinned`] waits for its last copy first.
#![allow(unsafe_code, reason = "the driver is a C library")]

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;
use sys::CUresult;

use crate::{Error, Result};

/// How often the driver was asked for what, since its device was opened. There is no pool of the driver's, so nothing
/// that could be trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCalls {
    /// Allocations of device memory and of pinned host memory.
    pub allocations: u64,
    /// The ends of such.
    pub frees: u64,
    /// Changes of what stands at an address of the device: units mapped and unmapped.
    pub maps: u64,
    /// Waits for the whole device.
    pub synchronizations: u64,
    /// Questions for how much memory is free.
    pub memory_infos: u64,
    /// Streams and events made.
    pub handles: u64,
    /// Waits of the host for one event.
    pub event_waits: u64,
    /// Copies between the host and the device.
    pub copies: u64,
    /// Stretches of device memory set to zero.
    pub wipes: u64,
    /// Kernels launched.
    pub launches: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Default)]
        struct Counters { $($name: AtomicU64,)* }

        impl Counters {
            fn snapshot(&self) -> DriverCalls {
                DriverCalls { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}
counters!(
    allocations,
    frees,
    maps,
    synchronizations,
    memory_infos,
    handles,
    event_waits,
    copies,
    wipes,
    launches
);

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Why there is no driver, or no device `index` of it.
fn no_device(reason: impl Into<String>) -> Error {
    Error::NoDevice { backend: "cuda".into(), reason: reason.into() }
}

/// The driver's name for a result and its words.
fn describe(result: CUresult) -> String {
    let text = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: cuGetErrorName and cuGetErrorString write a pointer to a static string, or null for numbers that
        // they do not know.
        let text = unsafe {
            ask(result, &mut text);
            if text.is_null() { None } else { Some(CStr::from_ptr(text)) }
        };
        text.map(|text| text.to_string_lossy().into_owned())
    };
    let name = text(sys::cuGetErrorName).unwrap_or_else(|| format!("error {}", result as u32));
    format!("{name}: {}", text(sys::cuGetErrorString).unwrap_or_default())
}

/// Whether after this result the device's context is of no use any more.
fn is_fatal(result: CUresult) -> bool {
    use CUresult::*;
    matches!(
        result,
        CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_UNKNOWN
    )
}

/// Ok, or what `operation` failed with.
fn check(result: CUresult, operation: &str) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let reason = format!("{operation}: {}", describe(result));
    if is_fatal(result) {
        return Err(Error::DeviceLost { backend: "cuda", reason });
    }
    Err(Error::Device { backend: "cuda", operation: operation.into(), reason: describe(result) })
}

/// Logs what a destructor cannot return. The calls that follow return the same, if it is fatal.
fn log_failure(result: Result<()>) {
    if let Err(error) = result {
        tracing::error!("{error}");
    }
}

/// Loads and starts the driver, once; the number of devices, or why there are none.
pub(super) fn device_count() -> Result<usize> {
    // SAFETY: loading a library runs its initialisers; this is the vendor's, found by the system's own rules.
    if !unsafe { sys::is_culib_present() } {
        return Err(no_device("there is no NVIDIA driver (libcuda) on this system"));
    }
    let mut count = 0;
    // SAFETY: cuInit may be called any number of times; cuDeviceGetCount writes one int.
    let result = unsafe {
        match sys::cuInit(0) {
            CUresult::CUDA_SUCCESS => sys::cuDeviceGetCount(&mut count),
            failed => failed,
        }
    };
    if result != CUresult::CUDA_SUCCESS {
        return Err(no_device(describe(result)));
    }
    if count == 0 {
        return Err(no_device("the driver knows no device"));
    }
    Ok(count as usize)
}

/// What a device is.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    pub name: String,
    /// `0000:3b:00.0`.
    pub pci_bus_id: String,
    /// Major and minor.
    pub compute_capability: (u32, u32),
    pub total_bytes: u64,
    pub multiprocessors: u32,
    /// 12090 is 12.9.
    pub driver_version: u32,
}

/// One device with its primary context. Every call makes that the calling thread's own first.
pub(super) struct Driver {
    device: sys::CUdevice,
    context: sys::CUcontext,
    properties: Properties,
    counters: Counters,
    /// Events that nobody uses, to be used again.
    events: Mutex<Vec<RawEvent>>,
}

/// An event's handle. The driver's handles may be used from any thread.
struct RawEvent(sys::CUevent);

// SAFETY: "the driver API is thread-safe" (CUDA driver API, "Difference between the driver and runtime APIs"); handles
// are tied to a context, not to a thread.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Send for Driver {}
// SAFETY: as above; what is behind references is atomic or behind a mutex.
unsafe impl Sync for Driver {}

impl Driver {
    /// Device `index`, in the driver's order (`CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` apply).
    pub fn open(index: usize) -> Result<Arc<Self>> {
        let count = device_count()?;
        if index >= count {
            return Err(no_device(format!("there is no device {index}, the driver knows {count}")));
        }
        let mut device = 0;
        // SAFETY: writes one int; `index` is below the count.
        check(unsafe { sys::cuDeviceGet(&mut device, index as c_int) }, "finding a device")?;
        let properties = properties(device)?;
        // An old name of CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
        use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
        if attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? == 0 {
            let reason = format!("{}: the driver cannot map device memory", properties.name);
            return Err(no_device(reason));
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: writes one handle, which `drop` releases.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) };
        check(result, "starting a context")?;
        Ok(Arc::new(Self {
            device,
            context,
            properties,
            counters: Counters::default(),
            events: Mutex::default(),
        }))
    }

    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    pub fn calls(&self) -> DriverCalls {
        self.counters.snapshot()
    }

    /// Makes the context the calling thread's.
    fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as `self`.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "entering the context")
    }

    /// Bytes of the device that nobody has.
    pub fn free_bytes(&self) -> Result<u64> {
        self.bind()?;
        count(&self.counters.memory_infos);
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, "asking for free memory")?;
        Ok(free as u64)
    }

    /// Waits for everything on the device. Only for its end.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        count(&self.counters.synchronizations);
        // SAFETY: takes nothing.
        check(unsafe { sys::cuCtxSynchronize() }, "waiting for the device")
    }

    /// A new stream, in no order with any other.
    pub fn stream(self: &Arc<Self>) -> Result<Stream> {
        self.bind()?;
        count(&self.counters.handles);
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: writes one handle, which the stream's `drop` destroys.
        check(unsafe { sys::cuStreamCreate(&mut raw, flags) }, "making a stream")?;
        Ok(Stream { driver: self.clone(), raw })
    }

    fn event(self: &Arc<Self>) -> Result<Event> {
        let unused = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let raw = match unused {
            Some(RawEvent(raw)) => raw,
            None => {
                self.bind()?;
                count(&self.counters.handles);
                let mut raw = std::ptr::null_mut();
                use sys::CUevent_flags::{CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING};
                let flags = CU_EVENT_BLOCKING_SYNC as c_uint | CU_EVENT_DISABLE_TIMING as c_uint;
                // SAFETY: writes one handle, which the driver's `drop` destroys.
                check(unsafe { sys::cuEventCreate(&mut raw, flags) }, "making an event")?;
                raw
            }
        };
        Ok(Event { driver: self.clone(), raw })
    }

    /// A new event that has a time. It is not used again.
    pub fn timed_event(self: &Arc<Self>) -> Result<TimedEvent> {
        self.bind()?;
        count(&self.counters.handles);
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as c_uint;
        // SAFETY: writes one handle, which the event's `drop` destroys.
        check(unsafe { sys::cuEventCreate(&mut raw, flags) }, "making an event")?;
        Ok(TimedEvent { driver: self.clone(), raw })
    }

    /// Pinned host memory, zero.
    pub fn pinned(self: &Arc<Self>, len: usize) -> Result<Pinned> {
        self.bind()?;
        let last = self.event()?;
        count(&self.counters.allocations);
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one pointer to `len` bytes, which the `drop` of `Pinned` frees.
        let result = unsafe { sys::cuMemHostAlloc(&mut raw, len, 0) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(refused("pinned host memory", len as u64, result));
        }
        check(result, "pinning host memory")?;
        let Some(start) = NonNull::new(raw.cast::<u8>()) else {
            return Err(refused("pinned host memory", len as u64, result));
        };
        // SAFETY: `start` points to `len` bytes of ours, which nobody else uses yet.
        unsafe { start.write_bytes(0, len) };
        Ok(Pinned { driver: self.clone(), start, len, last, copying: Copying::Done })
    }

    /// Loads machine code for this device.
    pub fn module(self: &Arc<Self>, name: &str, cubin: &[u8]) -> Result<Module> {
        self.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is an ELF file whose header says how long it is; the driver checks what it reads, and the
        // caller has compared the bytes with their digest.
        let result = unsafe { sys::cuModuleLoadData(&mut raw, cubin.as_ptr().cast()) };
        if result != CUresult::CUDA_SUCCESS && !is_fatal(result) {
            let log = format!("cannot be loaded: {}", describe(result));
            return Err(Error::Kernel { backend: "cuda", name: name.into(), log });
        }
        check(result, "loading a module")?;
        Ok(Module { driver: self.clone(), raw, name: name.into() })
    }

    /// Physical memory of the device: `len` bytes, a multiple of [`Driver::unit_bytes`].
    pub fn create_unit(&self, label: &str, len: u64) -> Result<Unit> {
        self.bind()?;
        count(&self.counters.allocations);
        let mut raw = 0;
        // SAFETY: writes one handle; the description outlives the call.
        let result = unsafe { sys::cuMemCreate(&mut raw, len as usize, &self.on_device(), 0) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(refused(label, len, result));
        }
        check(result, "allocating device memory")?;
        Ok(Unit(raw))
    }

    /// Gives physical memory back. It must not be mapped.
    pub fn release_unit(&self, unit: Unit) {
        log_failure(self.bind());
        count(&self.counters.frees);
        // SAFETY: the handle is ours, and consumed here.
        log_failure(check(unsafe { sys::cuMemRelease(unit.0) }, "freeing device memory"));
    }

    /// What sizes of physical memory must be multiples of.
    pub fn unit_bytes(&self) -> Result<u64> {
        self.bind()?;
        let mut bytes = 0;
        let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: writes one size; the description outlives the call.
        let result =
            unsafe { sys::cuMemGetAllocationGranularity(&mut bytes, &self.on_device(), option) };
        check(result, "asking for the granularity of memory")?;
        Ok(bytes as u64)
    }

    /// `len` addresses of the device at which nothing stands yet.
    pub fn reserve_addresses(&self, len: u64) -> Result<u64> {
        self.bind()?;
        let mut start = 0;
        // SAFETY: writes one address, which `free_addresses` gives back.
        let result = unsafe { sys::cuMemAddressReserve(&mut start, len as usize, 0, 0, 0) };
        check(result, "reserving addresses")?;
        Ok(start)
    }

    /// Gives reserved addresses back. Nothing may stand at them.
    pub fn free_addresses(&self, start: u64, len: u64) {
        log_failure(self.bind());
        // SAFETY: the range is one that `reserve_addresses` returned.
        let result = unsafe { sys::cuMemAddressFree(start, len as usize) };
        log_failure(check(result, "freeing addresses"));
    }

    /// Makes `units` of `len` bytes each stand one behind the other from `address` on, for this device to read and write.
    pub fn map(&self, address: u64, len: u64, units: &[Unit]) -> Result<()> {
        self.bind()?;
        let mut end = address;
        for unit in units {
            count(&self.counters.maps);
            // SAFETY: the handle is ours, of `len` bytes; the driver refuses addresses that are not free.
            let result = unsafe { sys::cuMemMap(end, len as usize, 0, unit.0, 0) };
            check(result, "mapping device memory")?;
            end += len;
        }
        let access = sys::CUmemAccessDesc {
            location: self.location(),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: all of the range was mapped above; one description, which outlives the call.
        let result = unsafe { sys::cuMemSetAccess(address, (end - address) as usize, &access, 1) };
        check(result, "opening device memory")
    }

    /// Takes away what stands at `address`, one unit of `len` bytes.
    pub fn unmap(&self, address: u64, len: u64) -> Result<()> {
        self.bind()?;
        count(&self.counters.maps);
        // SAFETY: the driver refuses addresses at which nothing stands.
        check(unsafe { sys::cuMemUnmap(address, len as usize) }, "unmapping device memory")
    }

    fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.device,
        }
    }

    /// Plain memory on this device.
    fn on_device(&self) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType(0),
            location: self.location(),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        log_failure(self.bind());
        let events = std::mem::take(self.events.get_mut().unwrap_or_else(PoisonError::into_inner));
        for RawEvent(event) in events {
            // SAFETY: nobody has the handle any more: every `Event` keeps its driver alive.
            log_failure(check(unsafe { sys::cuEventDestroy_v2(event) }, "ending an event"));
        }
        // SAFETY: retained in `open`; everything made in the context is gone, for it keeps its driver alive.
        let result = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        log_failure(check(result, "ending the context"));
    }
}

/// Physical memory of a device; see [`Driver::create_unit`]. Given back by [`Driver::release_unit`] alone.
pub(super) struct Unit(sys::CUmemGenericAllocationHandle);

fn refused(label: &str, bytes: u64, result: CUresult) -> Error {
    Error::Refused { backend: "cuda", label: label.into(), bytes, reason: describe(result) }
}

fn attribute(device: sys::CUdevice, attribute: sys::CUdevice_attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: writes one int.
    let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
    check(result, "asking for an attribute")?;
    Ok(value as u32)
}

fn properties(device: sys::CUdevice) -> Result<Properties> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    };
    let text = |ask: unsafe fn(*mut std::ffi::c_char, c_int, sys::CUdevice) -> CUresult| {
        let mut text = [0u8; 256];
        // SAFETY: writes at most as many bytes as it is told, a zero at the end among them.
        let result = unsafe { ask(text.as_mut_ptr().cast(), text.len() as c_int, device) };
        check(result, "asking for a device's name")?;
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy);
        Ok::<_, Error>(text.unwrap_or_default().into_owned())
    };
    let (mut total, mut version) = (0, 0);
    // SAFETY: each writes one number.
    let results = unsafe {
        [sys::cuDeviceTotalMem_v2(&mut total, device), sys::cuDriverGetVersion(&mut version)]
    };
    results.into_iter().try_for_each(|result| check(result, "asking for a device's memory"))?;
    Ok(Properties {
        name: text(sys::cuDeviceGetName)?,
        pci_bus_id: text(sys::cuDeviceGetPCIBusId)?,
        compute_capability: (
            attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        total_bytes: total as u64,
        multiprocessors: attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        driver_version: version as u32,
    })
}

/// What the device `index` is, without starting anything on it.
pub(super) fn device_properties(index: usize) -> Result<Properties> {
    let mut device = 0;
    // SAFETY: writes one int; the driver refuses an index that it does not know.
    check(unsafe { sys::cuDeviceGet(&mut device, index as c_int) }, "finding a device")?;
    properties(device)
}

/// A queue of work on the device.
pub(super) struct Stream {
    driver: Arc<Driver>,
    raw: sys::CUstream,
}

// SAFETY: see `RawEvent`.
unsafe impl Send for Stream {}
// SAFETY: see `RawEvent`; every call on a stream only adds to its queue.
unsafe impl Sync for Stream {}

impl Stream {
    /// An event that happens when all work that is in the stream now is done.
    pub fn record(&self) -> Result<Event> {
        let event = self.driver.event()?;
        event.record(self)?;
        Ok(event)
    }

    /// Fails if the device is lost.
    pub fn check(&self) -> Result<()> {
        self.driver.bind()?;
        // SAFETY: the handle is alive.
        match unsafe { sys::cuStreamQuery(self.raw) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            result => check(result, "asking a stream"),
        }
    }

    /// Work put in the stream from now on starts after `event`.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.driver.bind()?;
        // SAFETY: both handles are alive.
        check(unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) }, "joining streams")
    }

    /// Sets `len` bytes from `address` on to zero.
    pub fn wipe(&self, address: u64, len: u64) -> Result<()> {
        self.driver.bind()?;
        count(&self.driver.counters.wipes);
        // SAFETY: writes device memory alone; see the module's text on addresses.
        let result = unsafe { sys::cuMemsetD8Async(address, 0, len as usize, self.raw) };
        check(result, "wiping")
    }

    /// Launches `function`.
    ///
    /// # Safety
    /// `arguments` point to values of exactly the types of the kernel's parameters, in their order, and the kernel
    /// reads and writes only device memory that may be used in this stream, for this grid and these arguments.
    pub unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        self.driver.bind()?;
        count(&self.driver.counters.launches);
        // SAFETY: the caller vouches for the arguments; the driver copies them before it returns.
        let result = unsafe {
            sys::cuLaunchKernel(
                function.raw,
                grid[0],
                grid[1],
                grid[2],
                block,
                1,
                1,
                function.shared_bytes,
                self.raw,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(result, function.name)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        log_failure(self.driver.bind());
        // SAFETY: nobody else has the handle. Work that is left in the stream is still done.
        log_failure(check(unsafe { sys::cuStreamDestroy_v2(self.raw) }, "ending a stream"));
    }
}

/// A point in a stream's work. Back in the driver's store when dropped, even while streams wait for it: they wait for
/// what it was when they were told to.
pub(super) struct Event {
    driver: Arc<Driver>,
    raw: sys::CUevent,
}

// SAFETY: see `RawEvent`.
unsafe impl Send for Event {}

impl Event {
    fn record(&self, stream: &Stream) -> Result<()> {
        self.driver.bind()?;
        // SAFETY: both handles are alive and of one context.
        check(unsafe { sys::cuEventRecord(self.raw, stream.raw) }, "recording an event")
    }

    /// Sleeps until it happens.
    pub fn wait(&self) -> Result<()> {
        self.driver.bind()?;
        count(&self.driver.counters.event_waits);
        // SAFETY: the handle is alive.
        check(unsafe { sys::cuEventSynchronize(self.raw) }, "waiting for the device's work")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut events = self.driver.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(RawEvent(self.raw));
    }
}

/// A point in a stream's work, with its time on the device's clock.
pub(super) struct TimedEvent {
    driver: Arc<Driver>,
    raw: sys::CUevent,
}

// SAFETY: see `RawEvent`.
unsafe impl Send for TimedEvent {}
// SAFETY: see `RawEvent`; what takes `&self` is recording, waiting and reading the time, which are thread-safe.
unsafe impl Sync for TimedEvent {}

impl TimedEvent {
    /// Makes it the end of all work that is in `stream` now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.driver.bind()?;
        // SAFETY: both handles are alive and of one context.
        check(unsafe { sys::cuEventRecord(self.raw, stream.raw) }, "recording an event")
    }

    /// Sleeps until it happens.
    pub fn wait(&self) -> Result<()> {
        self.driver.bind()?;
        count(&self.driver.counters.event_waits);
        // SAFETY: the handle is alive.
        check(unsafe { sys::cuEventSynchronize(self.raw) }, "waiting for the device's work")
    }

    /// The time since `earlier`; `None` if one of them has not happened yet.
    pub fn milliseconds_after(&self, earlier: &Self) -> Result<Option<f32>> {
        self.driver.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: writes one float; both handles are alive.
        match unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, earlier.raw, self.raw) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(None),
            result => check(result, "reading a time").map(|()| Some(milliseconds)),
        }
    }
}

impl Drop for TimedEvent {
    fn drop(&mut self) {
        log_failure(self.driver.bind());
        // SAFETY: nobody else has the handle.
        log_failure(check(unsafe { sys::cuEventDestroy_v2(self.raw) }, "ending an event"));
    }
}

/// Host memory that the device copies from and to by itself. One copy at a time.
pub(super) struct Pinned {
    driver: Arc<Driver>,
    start: NonNull<u8>,
    len: usize,
    last: Event,
    copying: Copying,
}

/// What is known of the last copy.
#[derive(Clone, Copy)]
enum Copying {
    /// It is done.
    Done,
    /// It is done when the event has happened.
    UntilEvent,
    /// The driver failed: it is done when the device is.
    Unknown,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Waits until the last copy is done.
    pub fn wait(&mut self) -> Result<()> {
        match self.copying {
            Copying::Done => {}
            Copying::UntilEvent => self.last.wait()?,
            Copying::Unknown => self.driver.synchronize()?,
        }
        self.copying = Copying::Done;
        Ok(())
    }

    /// The memory, when the last copy is done.
    pub fn bytes(&mut self) -> Result<&mut [u8]> {
        self.wait()?;
        // SAFETY: `len` bytes of ours, all set; no copy is going on, and none can start while they are borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }

    /// Copies the first `len` bytes to `address`, in the order of `stream`.
    pub fn upload(&mut self, stream: &Stream, address: u64, len: usize) -> Result<()> {
        assert!(len <= self.len, "a copy of {len} bytes out of {}", self.len);
        self.wait()?;
        self.driver.bind()?;
        count(&self.driver.counters.copies);
        self.copying = Copying::Unknown;
        // SAFETY: reads `len` bytes of ours, which are neither written nor freed before `last` has happened.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, self.start.as_ptr().cast(), len, stream.raw)
        };
        check(result, "copying to the device")?;
        self.end_with_event(stream)
    }

    /// Copies `len` bytes from `address` to the first ones, in the order of `stream`.
    pub fn download(&mut self, stream: &Stream, address: u64, len: usize) -> Result<()> {
        assert!(len <= self.len, "a copy of {len} bytes into {}", self.len);
        self.wait()?;
        self.driver.bind()?;
        count(&self.driver.counters.copies);
        self.copying = Copying::Unknown;
        // SAFETY: writes `len` bytes of ours, which are neither read nor freed before `last` has happened.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(self.start.as_ptr().cast(), address, len, stream.raw)
        };
        check(result, "copying from the device")?;
        self.end_with_event(stream)
    }
}

impl Pinned {
    fn end_with_event(&mut self, stream: &Stream) -> Result<()> {
        self.last.record(stream)?;
        self.copying = Copying::UntilEvent;
        Ok(())
    }
}

impl Drop for Pinned {
    /// Wipes; leaves the memory to the driver if a copy may still be going on.
    fn drop(&mut self) {
        match self.bytes() {
            Ok(bytes) => zeroize::Zeroize::zeroize(bytes),
            Err(error) => return log_failure(Err(error)),
        }
        log_failure(self.driver.bind());
        count(&self.driver.counters.frees);
        // SAFETY: allocated by `Driver::pinned`, no copy is going on, and nobody has a reference any more.
        let result = unsafe { sys::cuMemFreeHost(self.start.as_ptr().cast()) };
        log_failure(check(result, "freeing pinned memory"));
    }
}

/// Loaded machine code.
pub(super) struct Module {
    driver: Arc<Driver>,
    raw: sys::CUmodule,
    name: String,
}

// SAFETY: see `RawEvent`.
unsafe impl Send for Module {}
// SAFETY: see `RawEvent`.
unsafe impl Sync for Module {}

impl Module {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel `name`, launched with `shared_bytes` of dynamic shared memory. It must not outlive the module.
    pub fn function(&self, name: &'static str, shared_bytes: u32) -> Result<Function> {
        self.driver.bind()?;
        let c_name = CString::new(name).unwrap_or_default();
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle, which lives as long as the module; the name ends with a zero.
        let result = unsafe { sys::cuModuleGetFunction(&mut raw, self.raw, c_name.as_ptr()) };
        if result == CUresult::CUDA_ERROR_NOT_FOUND {
            let log = format!("{} has no kernel of this name", self.name);
            return Err(Error::Kernel { backend: "cuda", name: name.into(), log });
        }
        check(result, name)?;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the handle is alive.
        let result = unsafe { sys::cuFuncSetAttribute(raw, attribute, shared_bytes as c_int) };
        check(result, name)?;
        Ok(Function { raw, name, shared_bytes })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        log_failure(self.driver.bind());
        // SAFETY: the handle is ours. What was launched from it is done: see `Card`, whose end waits.
        log_failure(check(unsafe { sys::cuModuleUnload(self.raw) }, "unloading a module"));
    }
}

/// A kernel.
pub(super) struct Function {
    raw: sys::CUfunction,
    name: &'static str,
    shared_bytes: u32,
}

// SAFETY: see `RawEvent`.
unsafe impl Send for Function {}
// SAFETY: see `RawEvent`.
unsafe impl Sync for Function {}
