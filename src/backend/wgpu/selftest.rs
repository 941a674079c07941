//! Known answers from every kernel, before any work: a driver that compiles one wrongly must not be found out by a proof.
//!
//! A check runs an operation on small inputs, in segments small enough that there are several, and compares with the CPU
//! backend. The checks are in the order in which operations stand on one another, so that the first that fails names the kernel. What
//! a driver has passed is kept, and not done again.

mod sums;

use std::path::PathBuf;

use bytemuck::Pod;

use super::commands::{Binding, Commands};
use super::kernels::{Curve, Group, Kernel};
use super::memory::Memory;
use super::staging::Reading;
use super::{BACKEND, Wgpu, WgpuBuffer, adapter, expand, matvec, ntt, quotient};
use crate::backend::cpu::Cpu;
use crate::backend::shader::Registers;
use crate::backend::{Backend, Buffer, DeviceMatrix, Matrix, Output, Quotient, Transform};
use crate::budget::{Budget, Lease};
use crate::cache::kept;
use crate::compact::{self, Block, Compact};
use crate::field::{Field, Fp, Fp2, Fr};
use crate::{Error, Result};

/// The folder's name has the version of the files' layout.
const FOLDER: &str = "selftests-1";

/// Bytes of a segment of the checks.
const SEGMENT_BYTES: u64 = 1 << 12;

/// Memory of a check at most. It is not the budget's: nobody has that yet.
const BYTES: u64 = 16 << 20;

/// What a check found: how the first wrong element differs.
type Found = std::result::Result<(), String>;

/// A kernel, and what shows that it is right if those before are.
type Check = (Kernel, fn(&Tester<'_>) -> Result<Found>);

/// All checks, for kernels whose registers are there.
fn checks(registers: Registers) -> Vec<Check> {
    let [one, two] = [Group::G1, Group::G2].map(|group| Curve { group, registers });
    vec![
        (Kernel::Quotient, check_quotient),
        (Kernel::Expand, check_expand),
        (Kernel::Matvec, check_matvec),
        (Kernel::Ntt, |tester| check_ntt(tester, 1 << 20)),
        (Kernel::NttAcross, |tester| check_ntt(tester, SEGMENT_BYTES)),
        (Kernel::ScanTiles, sums::scan_tiles),
        (Kernel::ScanSums, sums::scan_sums),
        (Kernel::ScanPlace, sums::scan_place),
        (Kernel::MsmRanks, sums::ranks),
        (Kernel::MsmDigits, sums::digits),
        (Kernel::MsmScatter, sums::scatter),
        (Kernel::MsmAccumulate(one), sums::accumulate::<Fp>),
        (Kernel::MsmJoin(one), sums::join::<Fp>),
        (Kernel::MsmReduce(one), sums::reduce::<Fp>),
        (Kernel::MsmFold(one), sums::fold::<Fp>),
        (Kernel::MsmAccumulate(two), sums::accumulate::<Fp2>),
        (Kernel::MsmJoin(two), sums::join::<Fp2>),
        (Kernel::MsmReduce(two), sums::reduce::<Fp2>),
        (Kernel::MsmFold(two), sums::fold::<Fp2>),
        (Kernel::MultiplesScalars, sums::scalars),
        (Kernel::MultiplesAdd(one), sums::add::<Fp>),
        (Kernel::MultiplesAffine(one), sums::affine::<Fp>),
        (Kernel::MultiplesAdd(two), sums::add::<Fp2>),
        (Kernel::MultiplesAffine(two), sums::affine::<Fp2>),
    ]
}

/// Runs every check, unless this driver has passed them with these texts.
///
/// # Errors
/// [`Error::Kernel`] with the name of a kernel that computes wrongly.
pub(super) fn require(wgpu: &Wgpu, info: &wgpu::AdapterInfo) -> Result<()> {
    let file = file(wgpu, info);
    if file.as_ref().and_then(|file| kept::read(file)).is_some() {
        return Ok(());
    }
    let wrong = |kernel: Kernel, log: String| Error::Kernel {
        backend: BACKEND,
        name: kernel.name().into(),
        log: format!("computes wrongly on {}: {log}", info.name),
    };
    let tester = Tester {
        wgpu,
        lease: Budget::new(BYTES).lease("self-test", BYTES)?,
        cpu: Cpu::with_capacity(BYTES),
        cpu_lease: Budget::new(BYTES).lease("self-test", BYTES)?,
    };
    tester.check_mark().map_err(|error| wrong(Kernel::Mark, error.to_string()))?;
    for (kernel, check) in checks(wgpu.0.gpu.registers) {
        check(&tester)?.map_err(|log| wrong(kernel, log))?;
    }
    if let Some(file) = file
        && let Err(error) = kept::write(&file, b"passed")
    {
        tracing::warn!("cannot keep that the self-test was passed: {error}");
    }
    Ok(())
}

fn file(wgpu: &Wgpu, info: &wgpu::AdapterInfo) -> Option<PathBuf> {
    let texts = wgpu.0.gpu.pipelines.texts();
    let digest = adapter::digest(info, texts);
    Some(crate::cache::folder()?.join(FOLDER).join(digest.to_string()))
}

struct Tester<'a> {
    wgpu: &'a Wgpu,
    lease: Lease,
    cpu: Cpu,
    cpu_lease: Lease,
}

impl Tester<'_> {
    /// A buffer in small segments.
    fn put<T: Pod + Send + Sync>(&self, data: &[T], segment_bytes: u64) -> Result<WgpuBuffer<T>> {
        let mut buffer = self.wgpu.buffer(&self.lease, "self-test", data.len(), segment_bytes)?;
        self.wgpu.upload(&self.wgpu.stream()?, data, &mut buffer, 0)?;
        Ok(buffer)
    }

    fn take<T: Pod + Send + Sync>(&self, buffer: &WgpuBuffer<T>) -> Result<Vec<T>> {
        let mut elements = vec![T::zeroed(); buffer.len()];
        self.wgpu.download(&self.wgpu.stream()?, buffer, 0, &mut elements)?;
        Ok(elements)
    }

    /// Runs a kernel by itself on the first segments of these.
    fn run<P: Pod>(
        &self,
        kernel: Kernel,
        buffers: &[&Memory],
        parameters: &P,
        groups: usize,
    ) -> Result<()> {
        let bindings = buffers.iter().map(|memory| Binding::whole(memory.segment_of(0)));
        let bindings: Vec<_> = bindings.collect();
        let mut commands = Commands::new(&self.wgpu.0.gpu);
        commands.run(kernel, &bindings, parameters, groups as u32)?;
        commands.submit()
    }

    /// The same for one over a curve, with its table of operations, in so many threads.
    fn run_on<P: Pod>(
        &self,
        curve: Curve,
        kernel: Kernel,
        buffers: &[&Memory],
        parameters: &P,
        threads: usize,
    ) -> Result<()> {
        let gpu = &self.wgpu.0.gpu;
        let bindings = buffers.iter().map(|memory| Binding::whole(memory.segment_of(0)));
        let bindings: Vec<_> = bindings.chain([gpu.program(curve)]).collect();
        let groups = threads.div_ceil(curve.registers.lanes() as usize);
        let mut commands = Commands::new(gpu);
        commands.run(kernel, &bindings, parameters, groups as u32)?;
        commands.submit()
    }

    /// Compares the elements of a buffer with what they should be.
    fn compare(&self, what: &str, got: &WgpuBuffer<Fr>, want: &[Fr]) -> Result<Found> {
        let elements = self.take(got)?;
        let differs = |i: &usize| elements[*i] != want[*i];
        Ok(match (0..want.len()).find(differs) {
            None => Ok(()),
            Some(i) => Err(format!(
                "{what}: element {i} of {} is {:?}, not {:?}",
                want.len(),
                elements[i],
                want[i]
            )),
        })
    }

    fn check_mark(&self) -> Result<()> {
        let gpu = &self.wgpu.0.gpu;
        let buffer = gpu.device.create(
            "self-test",
            4,
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            false,
        )?;
        let mut commands = Commands::new(gpu);
        commands.clear_bytes(&buffer, 0, 4);
        Reading::submit(commands, buffer, 4, None)?.finish(|_| ())
    }
}

/// 0, 1, r - 1, and numbers of all sizes.
fn elements(len: usize, seed: u64) -> Vec<Fr> {
    let mut elements = vec![Fr::ZERO, Fr::ONE, -Fr::ONE];
    let mut next = Fr::from(seed + 2);
    while elements.len() < len {
        elements.push(next);
        next = next.square() + Fr::from(5);
    }
    elements.rotate_left(seed as usize % len);
    elements.truncate(len);
    elements
}

fn check_quotient(tester: &Tester<'_>) -> Result<Found> {
    let (a, x) = (elements(300, 1), elements(300, 8));
    let operand = tester.put(&x, SEGMENT_BYTES)?;
    let half = Fr::from(2).inverse();
    for step in [Quotient::Product, Quotient::Difference, Quotient::HalfDifference] {
        let accumulator = tester.put(&a, SEGMENT_BYTES)?;
        quotient::quotient(&tester.wgpu.0.gpu, step, accumulator.memory(), operand.memory())?;
        let want = a.iter().zip(&x).map(|(a, x)| match step {
            Quotient::Product => *a * *x,
            Quotient::Difference => *a - *x,
            Quotient::HalfDifference => (*x - *a) * half,
        });
        let want: Vec<_> = want.collect();
        let found = tester.compare(&format!("{step:?}"), &accumulator, &want)?;
        if found.is_err() {
            return Ok(found);
        }
    }
    Ok(Ok(()))
}

fn check_expand(tester: &Tester<'_>) -> Result<Found> {
    // Small numbers and their negatives among wide ones, in more than one segment of each.
    let mut values = elements(600, 3);
    for (i, value) in values.iter_mut().enumerate() {
        match i % 4 {
            0 => *value = Fr::from(i as u64 * 7),
            1 => *value = -Fr::from(u64::from(u32::MAX) - i as u64),
            _ => {}
        }
    }
    values.resize(1300, Fr::from(77_777));
    let packed = std::sync::Arc::new(Compact::pack(&values));
    let part = || compact::Part(packed.clone());
    let blocks = tester.put::<Block>(AsRef::<[Block]>::as_ref(&part()), SEGMENT_BYTES)?;
    let small = tester.put::<u32>(AsRef::<[u32]>::as_ref(&part()), SEGMENT_BYTES / 4)?;
    let wide = tester.put::<Fr>(AsRef::<[Fr]>::as_ref(&part()), SEGMENT_BYTES)?;
    let old = elements(1400, 4);
    for output in [Output::Set, Output::Multiply] {
        let out = tester.put(&old, SEGMENT_BYTES)?;
        let (blocks, small, wide) = (blocks.memory(), small.memory(), wide.memory());
        expand::expand(&tester.wgpu.0.gpu, blocks, small, wide, output, out.memory())?;
        let want = old.iter().enumerate().map(|(i, old)| {
            let value = values.get(i).copied().unwrap_or(Fr::ZERO);
            if output == Output::Set { value } else { *old * value }
        });
        let want: Vec<_> = want.collect();
        let found = tester.compare(&format!("{output:?}"), &out, &want)?;
        if found.is_err() {
            return Ok(found);
        }
    }
    Ok(Ok(()))
}

fn check_matvec(tester: &Tester<'_>) -> Result<Found> {
    // Rows of no entry, of some, and two that a workgroup has to add up together.
    const COLUMNS: usize = 200;
    let mut table = vec![Fr::ONE, -Fr::ONE];
    table.extend(elements(20, 5));
    let (mut row_start, mut column, mut coefficient) = (vec![0], Vec::new(), Vec::new());
    for row in 0..300usize {
        let len = if row % 140 == 60 { 500 } else { row % 5 };
        for entry in 0..len {
            column.push(((row * 31 + entry * 17) % COLUMNS) as u32);
            coefficient.push(((row + entry * 3) % table.len()) as u32);
        }
        row_start.push(column.len() as u32);
    }
    let x = elements(COLUMNS, 6);
    let old = elements(310, 7);
    let matrix = Matrix {
        row_start: row_start.into(),
        column: column.into(),
        coefficient: coefficient.into(),
        table: table.into(),
    };
    let cpu = &tester.cpu;
    let on_cpu = DeviceMatrix::adopt(cpu, &(), &tester.cpu_lease, &matrix)?;
    let x_on_cpu =
        cpu.adopt(&(), &tester.cpu_lease, "self-test", std::sync::Arc::new(x.clone()))?;
    let row_start = tester.put(&matrix.row_start, SEGMENT_BYTES / 4)?;
    let column = tester.put(&matrix.column, SEGMENT_BYTES)?;
    let coefficient = tester.put(&matrix.coefficient, SEGMENT_BYTES)?;
    let table = tester.put(&matrix.table, 512)?;
    let x = tester.put(&x, SEGMENT_BYTES)?;
    let arrays = matvec::Arrays {
        row_start: row_start.memory(),
        column: column.memory(),
        coefficient: coefficient.memory(),
        table: table.memory(),
    };
    for output in [Output::Set, Output::Multiply] {
        let out = tester.put(&old, SEGMENT_BYTES)?;
        matvec::matvec(&tester.wgpu.0.gpu, &arrays, x.memory(), output, out.memory())?;
        let mut want = old.clone();
        let mut out_on_cpu = cpu.alloc(&tester.cpu_lease, "self-test", old.len())?;
        cpu.upload(&(), &old, &mut out_on_cpu, 0)?;
        cpu.matvec(&(), &on_cpu, &x_on_cpu, output, &mut out_on_cpu)?;
        cpu.download(&(), &out_on_cpu, 0, &mut want)?;
        let found = tester.compare(&format!("{output:?}"), &out, &want)?;
        if found.is_err() {
            return Ok(found);
        }
    }
    Ok(Ok(()))
}

fn check_ntt(tester: &Tester<'_>, segment_bytes: u64) -> Result<Found> {
    const LOG_N: u32 = 11;
    let input = elements(1 << LOG_N, 9);
    let (cpu, gpu) = (&tester.cpu, &tester.wgpu.0.gpu);
    let table_on_cpu = cpu.ntt_table(&(), &tester.cpu_lease, LOG_N)?;
    let log_segment = (segment_bytes / Fr::BYTES as u64).ilog2();
    let table = tester.put(&ntt::table(gpu, LOG_N, log_segment), gpu.whole_bytes)?;
    for transform in [
        Transform::Interpolate,
        Transform::Evaluate,
        Transform::InterpolateOdd,
        Transform::EvaluateOdd,
    ] {
        let mut want = input.clone();
        let mut on_cpu = cpu.alloc(&tester.cpu_lease, "self-test", input.len())?;
        cpu.upload(&(), &input, &mut on_cpu, 0)?;
        cpu.ntt(&(), transform, &table_on_cpu, &mut on_cpu)?;
        cpu.download(&(), &on_cpu, 0, &mut want)?;
        let data = tester.put(&input, segment_bytes)?;
        ntt::ntt(gpu, transform, table.memory(), data.memory())?;
        let found = tester.compare(&format!("{transform:?}"), &data, &want)?;
        if found.is_err() {
            return Ok(found);
        }
    }
    Ok(Ok(()))
}
