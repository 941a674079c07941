//! Runs one kernel once, for tests of what modules are made of.

use wgpu::util::DeviceExt;

use super::Core;

/// A device, with SHADER_INT64 if it has that.
pub(crate) struct Harness {
    device: wgpu::Device,
    queue: wgpu::Queue,
    int64: bool,
}

impl Harness {
    /// The software adapter.
    pub fn lavapipe() -> Self {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        let instance = wgpu::Instance::new(descriptor);
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
        let is_software = |a: &wgpu::Adapter| a.get_info().device_type == wgpu::DeviceType::Cpu;
        let adapter = adapters.into_iter().find(is_software).expect("a software adapter");
        let features = adapter.features() & wgpu::Features::SHADER_INT64;
        let descriptor = wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: wgpu::Limits::default(),
            ..Default::default()
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).expect("a device");
        Self { device, queue, int64: !features.is_empty() }
    }

    /// The cores that it can run.
    pub fn cores(&self) -> impl Iterator<Item = Core> {
        Core::ALL.into_iter().filter(|core| self.int64 || !core.needs_int64())
    }

    /// What `main` of `module` with so many workgroups leaves in its storage buffers, bound from 0 on.
    pub fn run(&self, module: &str, groups: u32, buffers: &[&[u32]]) -> Vec<Vec<u32>> {
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(module.into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = |contents: &[u32]| {
            self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
                label: None,
                contents: bytemuck::cast_slice(contents),
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
            })
        };
        let device_buffers: Vec<_> = buffers.iter().map(|contents| buffer(contents)).collect();
        let entries: Vec<_> = (0..)
            .zip(&device_buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(groups, 1, 1);
        }
        let staging: Vec<_> = device_buffers
            .iter()
            .map(|source| {
                let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: source.size(),
                    usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                encoder.copy_buffer_to_buffer(source, 0, &staging, 0, source.size());
                staging
            })
            .collect();
        self.queue.submit([encoder.finish()]);
        for buffer in &staging {
            buffer.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("a mapped buffer"));
        }
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device");
        let read = |buffer: wgpu::Buffer| {
            let bytes = buffer.get_mapped_range(..).expect("a mapped buffer");
            bytemuck::pod_collect_to_vec(&bytes)
        };
        staging.into_iter().map(read).collect()
    }
}
