//! Kernels from text to pipelines: all at once, on all threads, with what the driver kept of the last time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::device::Device;
use super::kernels::{Access, Kernel};
use super::{BACKEND, PARAMETER_STRIDE, adapter};
use crate::backend::shader::Core;
use crate::cache::kept;
use crate::{Error, Result};

/// The folder's name has the version of the files' layout.
const FOLDER: &str = "pipelines-1";

/// A kernel that a device can run.
pub(super) struct Pipeline {
    pub raw: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// All kernels that a device was asked to have.
pub(super) struct Pipelines {
    of: HashMap<Kernel, Pipeline>,
    texts: Vec<String>,
}

/// How pipelines were made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    pub time: Duration,
    /// Whether the driver's cache of an earlier time was there.
    pub warm: bool,
}

impl Pipelines {
    /// Makes `kernels` with `core`; `spoil` may change a kernel's text.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the driver does not take one.
    pub fn build(
        device: &Device,
        info: &wgpu::AdapterInfo,
        core: Core,
        kernels: impl Iterator<Item = Kernel>,
        spoil: impl Fn(Kernel, String) -> String + Sync,
    ) -> Result<(Self, Built)> {
        let started = Instant::now();
        let kernels: Vec<_> =
            kernels.map(|kernel| (kernel, spoil(kernel, kernel.module(core)))).collect();
        let file = file_of(device, info, &kernels);
        let kept = file.as_ref().and_then(|file| kept::read(file));
        let warm = kept.is_some();
        let cache = file.is_some().then(|| pipeline_cache(device, kept.as_deref()));
        let next = AtomicUsize::new(0);
        let made = Mutex::new(Vec::new());
        let build = || {
            while let Some((kernel, text)) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = pipeline(device, *kernel, text, cache.as_ref());
                made.lock().unwrap_or_else(PoisonError::into_inner).push((*kernel, outcome));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            (0..threads.min(kernels.len())).for_each(|_| drop(scope.spawn(build)));
        });
        device.check()?;
        let made = made.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
        let pipelines =
            made.map(|(kernel, outcome)| Ok((kernel, outcome?))).collect::<Result<_>>()?;
        let built = Built { time: started.elapsed(), warm };
        if let (Some(file), Some(data)) = (file, cache.and_then(|cache| cache.get_data()))
            && kept.is_none_or(|kept| kept != data)
            && let Err(error) = kept::write(&file, &data)
        {
            tracing::warn!("cannot keep pipelines for the next time: {error}");
        }
        let texts = kernels.into_iter().map(|(_, text)| text).collect();
        Ok((Self { of: pipelines, texts }, built))
    }

    pub fn of(&self, kernel: Kernel) -> &Pipeline {
        &self.of[&kernel]
    }

    /// What they were made from.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }
}

fn pipeline(
    device: &Device,
    kernel: Kernel,
    text: &str,
    cache: Option<&wgpu::PipelineCache>,
) -> Result<Pipeline> {
    let raw = device.raw();
    let label = Some(kernel.name());
    let make = || {
        let layout = layout(raw, kernel);
        let module = trusted_module(raw, kernel, text);
        let whole = raw.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let raw = raw.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&whole),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Kernels write what they read of it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache,
        });
        Pipeline { raw, layout }
    };
    device.try_to(make).map_err(|error| Error::Kernel {
        backend: BACKEND,
        name: kernel.name().into(),
        log: error.to_string(),
    })
}

/// Binding 0 is a part of a slip's parameters; then come the kernel's buffers.
fn layout(raw: &wgpu::Device, kernel: Kernel) -> wgpu::BindGroupLayout {
    let entry = |binding, ty, has_dynamic_offset, size| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset,
            min_binding_size: wgpu::BufferSize::new(size),
        },
        count: None,
    };
    let parameters = entry(0, wgpu::BufferBindingType::Uniform, true, PARAMETER_STRIDE);
    let storage = |(binding, access): (u32, &Access)| {
        let read_only = *access == Access::Read;
        entry(binding, wgpu::BufferBindingType::Storage { read_only }, false, 0)
    };
    let others = (1..).zip(kernel.bindings()).map(storage);
    let entries: Vec<_> = std::iter::once(parameters).chain(others).collect();
    raw.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some(kernel.name()),
        entries: &entries,
    })
}

/// Without the checks that wgpu adds to modules of strangers: the counters that it puts in loops cost up to ten times.
#[allow(unsafe_code, reason = "wgpu cannot know that kernels stay within their buffers")]
fn trusted_module(raw: &wgpu::Device, kernel: Kernel, text: &str) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(kernel.name()),
        source: wgpu::ShaderSource::Wgsl(text.into()),
    };
    // SAFETY: the texts are this crate's. Their loops end, by counters; their indices are below the lengths that the
    // operations compute from the buffers that they bind.
    unsafe { raw.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) }
}

#[allow(unsafe_code, reason = "the driver reads the data of its cache")]
fn pipeline_cache(device: &Device, data: Option<&[u8]>) -> wgpu::PipelineCache {
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("kernels"), data, fallback: true };
    // SAFETY: the data are what `get_data` returned once: the file's digest was right, and its name is that of this adapter and
    // driver.
    unsafe { device.raw().create_pipeline_cache(&descriptor) }
}

/// The file that the driver's cache is kept in, for these kernels on this driver; `None` if the driver has no cache to keep, or
/// the system no folder for it.
fn file_of(
    device: &Device,
    info: &wgpu::AdapterInfo,
    kernels: &[(Kernel, String)],
) -> Option<PathBuf> {
    if !device.raw().features().contains(wgpu::Features::PIPELINE_CACHE) {
        return None;
    }
    let key = wgpu::util::pipeline_cache_key(info)?;
    let texts = kernels.iter().map(|(_, text)| text.as_str());
    let digest = adapter::digest(info, texts);
    Some(crate::cache::folder()?.join(FOLDER).join(format!("{key}-{digest}")))
}
