//! Work for the queue: kernels, copies and clears in order, in submissions of bounded length.
//!
//! There is one queue, and all of it is in order, whichever stream the work comes from. Work is first a list; it becomes a
//! submission when that is long enough, or at its end. How long is measured in products of Fr, of which each kernel's workgroup
//! has about so many: some drivers stop what takes long.

use bytemuck::Pod;

use super::device::Device;
use super::kernels::Kernel;
use super::marks::{PARAMETER_BYTES, Slip, Then};
use super::memory::Piece;
use super::{Gpu, PARAMETER_STRIDE};
use crate::Result;
use crate::backend::shader::Registers;

/// Workgroups of one dimension of a dispatch; WebGPU has no more.
const MOST_GROUPS: u32 = 65_535;

/// A part of a buffer that a kernel sees.
#[derive(Clone)]
pub(super) struct Binding {
    buffer: wgpu::Buffer,
    offset: u64,
    /// All that is behind the offset if there is none.
    size: Option<wgpu::BufferSize>,
}

impl Binding {
    /// All of a buffer.
    pub fn whole(buffer: &wgpu::Buffer) -> Self {
        Self { buffer: buffer.clone(), offset: 0, size: None }
    }

    /// The elements of a piece and what is before them down to the next place that may be bound, and the words between.
    pub fn of(piece: &Piece<'_>, alignment: u64) -> (Self, u32) {
        let offset = piece.offset / alignment * alignment;
        let words = (piece.offset - offset) / 4;
        let size = wgpu::BufferSize::new(piece.offset + piece.size - offset);
        let binding = Self { buffer: piece.buffer.clone(), offset, size };
        (binding, u32::try_from(words).expect("less than the alignment"))
    }
}

enum Step {
    Run { kernel: Kernel, bindings: Vec<Binding>, parameters: u32, groups: u32 },
    Copy { from: (wgpu::Buffer, u64), to: (wgpu::Buffer, u64), bytes: u64 },
    Clear { buffer: wgpu::Buffer, offset: u64, bytes: u64 },
}

/// A list of work for a card. Nothing happens before [`Commands::submit`], or when the list becomes long.
pub(super) struct Commands<'a> {
    gpu: &'a Gpu,
    steps: Vec<Step>,
    parameters: Vec<u8>,
    products: u64,
    then: Vec<Then>,
    maps: Vec<(wgpu::Buffer, wgpu::MapMode, Mapped)>,
    urgent: bool,
}

/// What is called when a buffer is mapped.
type Mapped = Box<dyn FnOnce(std::result::Result<(), wgpu::BufferAsyncError>) + Send>;

impl<'a> Commands<'a> {
    pub fn new(gpu: &'a Gpu) -> Self {
        Self {
            gpu,
            steps: Vec::new(),
            parameters: Vec::new(),
            products: 0,
            then: Vec::new(),
            maps: Vec::new(),
            urgent: false,
        }
    }

    /// The same, but submitted however many submissions are under way.
    pub fn urgent(gpu: &'a Gpu) -> Self {
        Self { urgent: true, ..Self::new(gpu) }
    }

    /// The device that the work is for.
    pub fn device(&self) -> &std::sync::Arc<Device> {
        &self.gpu.device
    }

    /// Whether the processor does the work.
    pub fn is_software(&self) -> bool {
        self.gpu.registers == Registers::Shared
    }

    /// Runs `groups` workgroups of `kernel`, or a few more, which it must recognise by its parameters.
    pub fn run<P: Pod>(
        &mut self,
        kernel: Kernel,
        bindings: &[Binding],
        parameters: &P,
        groups: u32,
    ) -> Result<()> {
        debug_assert_eq!(bindings.len(), kernel.bindings().len(), "the bindings of {kernel:?}");
        if groups == 0 {
            return Ok(());
        }
        let stride = PARAMETER_STRIDE;
        let bytes = (size_of::<P>() as u64).next_multiple_of(stride);
        let products = u64::from(groups) * kernel.products();
        // The mark has parameters too.
        let is_full = self.parameters.len() as u64 + bytes + stride > PARAMETER_BYTES;
        if is_full || (self.products > 0 && self.products + products > self.gpu.slice_products) {
            self.flush(Vec::new(), Vec::new())?;
        }
        let at = self.push_parameters(bytemuck::bytes_of(parameters));
        self.products += products;
        self.steps.push(Step::Run { kernel, bindings: bindings.to_vec(), parameters: at, groups });
        Ok(())
    }

    fn push_parameters(&mut self, bytes: &[u8]) -> u32 {
        let at = self.parameters.len();
        self.parameters.extend_from_slice(bytes);
        let end = self.parameters.len().next_multiple_of(PARAMETER_STRIDE as usize);
        self.parameters.resize(end, 0);
        u32::try_from(at).expect("below PARAMETER_BYTES")
    }

    /// Copies `bytes` bytes, from and to offsets that are multiples of 4.
    pub fn copy(&mut self, from: (&wgpu::Buffer, u64), to: (&wgpu::Buffer, u64), bytes: u64) {
        let (from, to) = ((from.0.clone(), from.1), (to.0.clone(), to.1));
        self.steps.push(Step::Copy { from, to, bytes });
    }

    /// Sets a piece to zero.
    pub fn clear(&mut self, piece: &Piece<'_>) {
        self.clear_bytes(piece.buffer, piece.offset, piece.size);
    }

    /// Sets `bytes` bytes to zero.
    pub fn clear_bytes(&mut self, buffer: &wgpu::Buffer, offset: u64, bytes: u64) {
        self.steps.push(Step::Clear { buffer: buffer.clone(), offset, bytes });
    }

    /// Has `then` done when all of the work is.
    pub fn then(&mut self, then: impl FnOnce(Result<()>) + Send + 'static) {
        self.then.push(Box::new(then));
    }

    /// Maps a buffer when all of the work is done.
    pub fn map(
        &mut self,
        buffer: &wgpu::Buffer,
        mode: wgpu::MapMode,
        mapped: impl FnOnce(std::result::Result<(), wgpu::BufferAsyncError>) + Send + 'static,
    ) {
        self.maps.push((buffer.clone(), mode, Box::new(mapped)));
    }

    /// Puts what is not yet submitted in the queue.
    pub fn submit(mut self) -> Result<()> {
        let (then, maps) = (std::mem::take(&mut self.then), std::mem::take(&mut self.maps));
        if self.steps.is_empty() && then.is_empty() && maps.is_empty() {
            return self.gpu.device.check();
        }
        self.flush(then, maps)
    }

    fn flush(
        &mut self,
        then: Vec<Then>,
        maps: Vec<(wgpu::Buffer, wgpu::MapMode, Mapped)>,
    ) -> Result<()> {
        let gpu = self.gpu;
        gpu.device.check()?;
        let (slip, number) = gpu.marks.slip(self.urgent)?;
        let mark = self.push_parameters(bytemuck::bytes_of(&[number, 0, 0, 0]));
        let word = Binding::whole(&slip.word);
        let kernel = Kernel::Mark;
        self.steps.push(Step::Run { kernel, bindings: vec![word], parameters: mark, groups: 1 });
        let from = (slip.word.clone(), 0);
        self.steps.push(Step::Copy { from, to: (slip.read.clone(), 0), bytes: 4 });
        let steps = std::mem::take(&mut self.steps);
        let parameters = std::mem::take(&mut self.parameters);
        self.products = 0;
        // One at a time, so that marks are waited for in the queue's order.
        let _turn = gpu.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let submitted = gpu.device.scoped("a submission", || {
            gpu.device.queue().write_buffer(&slip.parameters, 0, &parameters);
            let commands = encode(gpu, &slip, steps);
            gpu.device.queue().submit([commands])
        });
        match submitted {
            Ok(index) => {
                for (buffer, mode, mapped) in maps {
                    buffer.map_async(mode, .., mapped);
                }
                gpu.marks.submitted(index, slip, number, then);
                Ok(())
            }
            Err(error) => {
                gpu.marks.unused(slip);
                Err(error)
            }
        }
    }
}

fn encode(gpu: &Gpu, slip: &Slip, steps: Vec<Step>) -> wgpu::CommandBuffer {
    let raw = gpu.device.raw();
    let mut encoder = raw.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Copy { from, to, bytes } => {
                encoder.copy_buffer_to_buffer(&from.0, from.1, &to.0, to.1, Some(bytes));
            }
            Step::Clear { buffer, offset, bytes } => {
                encoder.clear_buffer(&buffer, offset, Some(bytes));
            }
            Step::Run { .. } => {
                // Kernels in a row share a pass.
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                let mut run = Some(step);
                while let Some(Step::Run { kernel, bindings, parameters, groups }) = run {
                    let pipeline = gpu.pipelines.of(kernel);
                    let group = bind(gpu, slip, &pipeline.layout, &bindings);
                    pass.set_pipeline(&pipeline.raw);
                    pass.set_bind_group(0, &group, &[parameters]);
                    let (x, y) = grid(groups);
                    pass.dispatch_workgroups(x, y, 1);
                    run = steps.next_if(|step| matches!(step, Step::Run { .. }));
                }
            }
        }
    }
    encoder.finish()
}

fn bind(
    gpu: &Gpu,
    slip: &Slip,
    layout: &wgpu::BindGroupLayout,
    bindings: &[Binding],
) -> wgpu::BindGroup {
    let resource = |buffer, offset, size| {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size })
    };
    let size = wgpu::BufferSize::new(PARAMETER_STRIDE);
    let parameters = resource(&slip.parameters, 0, size);
    let others = bindings.iter().map(|of| resource(&of.buffer, of.offset, of.size));
    let entries: Vec<_> = (0..)
        .zip(std::iter::once(parameters).chain(others))
        .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
        .collect();
    let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
    gpu.device.raw().create_bind_group(&descriptor)
}

/// A grid of at least `groups` workgroups, and fewer than a row more.
fn grid(groups: u32) -> (u32, u32) {
    let rows = groups.div_ceil(MOST_GROUPS);
    (groups.div_ceil(rows.max(1)), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_hold_all_groups_and_few_more() {
        for groups in [1, 2, 65_534, 65_535, 65_536, 131_070, 131_071, 1 << 24, (1 << 31) + 7] {
            let (x, y) = grid(groups);
            assert!(x <= MOST_GROUPS && y <= MOST_GROUPS, "{groups}: {x} {y}");
            let all = u64::from(x) * u64::from(y);
            assert!(all >= groups.into() && all < u64::from(groups) + u64::from(y), "{groups}");
        }
    }
}
