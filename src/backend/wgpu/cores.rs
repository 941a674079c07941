//! Which multiplier an adapter computes with: the fastest of those that it can run, measured once for each driver.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::device::Device;
use super::kernels::{CHAIN, Kernel, LANES, ProductsParameters};
use super::pipelines::{Pipeline, Pipelines};
use super::{PARAMETER_STRIDE, adapter};
use crate::Result;
use crate::backend::shader::{Core, Prime};
use crate::cache::kept;

/// The folder's name has the version of the files' layout.
const FOLDER: &str = "cores-1";

/// Workgroups from which a GPU has no more to do at once.
const MOST_GROUPS: u32 = 1 << 12;

/// How long a measurement takes at least, so that it is not the launch that is measured.
const LEAST: Duration = Duration::from_millis(10);

/// How long an adapter is kept busy before: its clocks rise with the work.
const WARM_UP: Duration = Duration::from_millis(150);

/// How fast a core is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// The core.
    pub core: Core,
    /// Products of Fr a second.
    pub fr: f64,
    /// Products of Fp a second.
    pub fp: f64,
}

/// Speeds as they are kept, by the cores' names.
#[derive(Serialize, Deserialize)]
struct Kept {
    core: String,
    fr: f64,
    fp: f64,
}

/// The speeds of `cores` on this device: kept from an earlier time, or measured now.
pub(super) fn speeds(
    device: &Device,
    info: &wgpu::AdapterInfo,
    cores: &[Core],
) -> Result<Vec<Speed>> {
    let file = file(info, cores);
    if let Some(speeds) = file.as_ref().and_then(|file| read(file, cores)) {
        return Ok(speeds);
    }
    let speeds =
        cores.iter().map(|core| measure(device, info, *core)).collect::<Result<Vec<_>>>()?;
    for Speed { core, fr, fp } in &speeds {
        tracing::info!("{}: {core:?}: {fr:.3e} products of Fr a second, {fp:.3e} of Fp", info.name);
    }
    if let Some(file) = file {
        let kept =
            |speed: &Speed| Kept { core: format!("{:?}", speed.core), fr: speed.fr, fp: speed.fp };
        let kept: Vec<_> = speeds.iter().map(kept).collect();
        let text = serde_json::to_vec(&kept).expect("plain fields");
        if let Err(error) = kept::write(&file, &text) {
            tracing::warn!("cannot keep the cores' speeds for the next time: {error}");
        }
    }
    Ok(speeds)
}

/// The core for all kernels: sums, whose products are of Fp, take most of a proof.
pub(super) fn fastest(speeds: &[Speed]) -> Option<Speed> {
    speeds.iter().copied().max_by(|a, b| a.fp.total_cmp(&b.fp))
}

fn file(info: &wgpu::AdapterInfo, cores: &[Core]) -> Option<PathBuf> {
    let module = |core: &Core| {
        [Prime::Fr, Prime::Fp].map(|prime| Kernel::Products(prime).module(*core)).concat()
    };
    let texts: Vec<_> = cores.iter().map(module).collect();
    let digest = adapter::digest(info, texts.iter().map(String::as_str));
    Some(crate::cache::folder()?.join(FOLDER).join(digest.to_string()))
}

fn read(file: &std::path::Path, cores: &[Core]) -> Option<Vec<Speed>> {
    let kept: Vec<Kept> = serde_json::from_slice(&kept::read(file)?).ok()?;
    let speed = |core: &Core| {
        let kept = kept.iter().find(|kept| kept.core == format!("{core:?}"))?;
        Some(Speed { core: *core, fr: kept.fr, fp: kept.fp })
    };
    cores.iter().map(speed).collect()
}

fn measure(device: &Device, info: &wgpu::AdapterInfo, core: Core) -> Result<Speed> {
    let kernels = [Prime::Fr, Prime::Fp].map(Kernel::Products);
    let (pipelines, _) = Pipelines::build(device, info, core, kernels.into_iter(), |_, text| text)?;
    let [fr, fp] = kernels.map(|kernel| rate(device, pipelines.of(kernel)));
    Ok(Speed { core, fr: fr?, fp: fp? })
}

/// Products a second: more and more of them, until they take long enough.
fn rate(device: &Device, pipeline: &Pipeline) -> Result<f64> {
    use wgpu::BufferUsages as Usage;
    let out = u64::from(MOST_GROUPS * LANES) * 4;
    let out = device.create("speeds", out, Usage::STORAGE, false)?;
    let uniform = Usage::UNIFORM | Usage::COPY_DST;
    let parameters = device.create("parameters", PARAMETER_STRIDE, uniform, false)?;
    let run = |groups: u32, turns: u32| -> Result<f64> {
        let started = Instant::now();
        let index = device.scoped("measuring a core", || {
            let values = ProductsParameters { turns, chain: CHAIN, unused: [0; 2] };
            device.queue().write_buffer(&parameters, 0, bytemuck::bytes_of(&values));
            let resource = |buffer, size| {
                let size = wgpu::BufferSize::new(size);
                wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: 0, size })
            };
            let group = device.raw().create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.layout,
                entries: &[
                    wgpu::BindGroupEntry {
                        binding: 0,
                        resource: resource(&parameters, PARAMETER_STRIDE),
                    },
                    wgpu::BindGroupEntry { binding: 1, resource: resource(&out, 0) },
                ],
            });
            let mut encoder = device.raw().create_command_encoder(&Default::default());
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline.raw);
            pass.set_bind_group(0, &group, &[0]);
            pass.dispatch_workgroups(groups, 1, 1);
            drop(pass);
            device.queue().submit([encoder.finish()])
        })?;
        device.wait(&index)?;
        Ok(started.elapsed().as_secs_f64())
    };
    let products = |groups: u32, turns: u32| {
        u64::from(groups) as f64 * f64::from(LANES * CHAIN) * f64::from(turns)
    };
    let (mut groups, mut turns) = (4, 1);
    // The first run compiles.
    run(groups, turns)?;
    let mut seconds = run(groups, turns)?;
    while seconds < LEAST.as_secs_f64() && turns < 1 << 12 {
        match groups < MOST_GROUPS {
            true => groups *= 4,
            false => turns *= 4,
        }
        seconds = run(groups, turns)?;
    }
    if groups == MOST_GROUPS {
        let started = Instant::now();
        while started.elapsed() < WARM_UP {
            seconds = seconds.min(run(groups, turns)?);
        }
    }
    Ok(products(groups, turns) / seconds)
}
