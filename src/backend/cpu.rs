//! The CPU backend: the reference that every other backend is compared with, and the one that is
//! always there. Streams do their work at once, in the calling thread and rayon's pool.

pub(super) mod expand;
pub(super) mod matvec;
pub(super) mod msm;
pub(super) mod ntt;
pub(super) mod quotient;
pub(super) mod raise;

use bytemuck::Pod;
use zeroize::Zeroize;

use super::{
    Backend, DeviceInfo, DeviceMatrix, Matrix, Msm, Multiples, Output, Packed, Quotient, Raised,
    Rates, Shared, Transform,
};
use crate::Result;
use crate::budget::{Budget, Lease, Reservation};
use crate::compact::Compact;
use crate::curve::{Affine, Coordinate, Point, fixed_base};
use crate::field::Fr;

/// The host's cores and memory. The cores are those of rayon's current pool when it was opened.
pub struct Cpu {
    info: DeviceInfo,
    budget: Budget,
    threads: usize,
}

impl Cpu {
    /// The CPU with all of the host's memory as its budget.
    pub fn open() -> Self {
        Self::with_capacity(Self::host_bytes())
    }

    /// Bytes of the host's memory.
    pub fn host_bytes() -> u64 {
        let system = sysinfo::System::new_with_specifics(
            sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::everything()),
        );
        // A host that does not tell has no limit but its own.
        let bytes = system.map_or(0, |system| system.total_memory());
        if bytes == 0 { u64::MAX } else { bytes }
    }

    /// The CPU with a budget of `capacity` bytes.
    pub fn with_capacity(capacity: u64) -> Self {
        let threads = rayon::current_num_threads();
        let info = DeviceInfo {
            backend: "cpu",
            name: format!("{} ({threads} threads)", std::env::consts::ARCH),
            memory_bytes: capacity,
            max_buffer_bytes: capacity,
            unified: true,
            rates: rates(threads),
        };
        Self { info, budget: Budget::new(capacity), threads }
    }
}

/// Measured on two cores of an AMD EPYC (Zen 4), 2^18 elements; a rough measure for any.
fn rates(threads: usize) -> Rates {
    let threads = threads as f64;
    Rates {
        upload: f64::INFINITY,
        download: f64::INFINITY,
        butterflies: 25e6 * threads,
        g1_terms: 0.2e6 * threads,
        g2_terms: 0.07e6 * threads,
        seconds_per_sum: 1e-3,
        raised_share: 0.9,
        raise_sums: 25.0,
    }
}

/// The sum of `scalars[i] bases[i]` on the host, for the few sums outside a proof's plan (public
/// inputs of a verification).
pub(crate) fn host_msm<F: Coordinate>(bases: &[Affine<F>], scalars: &[Fr]) -> Point<F> {
    let threads = rayon::current_num_threads();
    let words = msm::Plan::<F>::new(scalars.len(), threads).scratch_words();
    let bases = msm::Bases { points: bases, range: 0..bases.len(), raised: None };
    msm::msm(bases, scalars, None, threads, &mut vec![0; words])
}

/// [`Backend::expand`] on the host, for vectors that no device has room for.
pub(crate) fn host_expand(compact: &Compact, output: Output, out: &mut [Fr]) {
    let (blocks, small, wide) = compact.parts();
    expand::expand(blocks, small, wide, output, out);
}

/// [`Backend::matvec`] on the host.
pub(crate) fn host_matvec(matrix: &Matrix, x: &[Fr], output: Output, out: &mut [Fr]) {
    let Matrix { row_start, column, coefficient, table } = matrix;
    let rows = matvec::Rows { start: row_start, column, coefficient, table };
    matvec::matvec(&rows, x, output, out);
}

/// [`Backend::quotient`] on the host.
pub(crate) fn host_quotient(step: Quotient, accumulator: &mut [Fr], operand: &[Fr]) {
    quotient::quotient(step, accumulator, operand);
}

/// Host memory, charged to a lease. What this backend allocated is wiped when dropped; what it
/// shares with the host is the host's to wipe.
pub struct CpuBuffer<T: Pod> {
    data: Data<T>,
    _reservation: Reservation,
}

enum Data<T> {
    Owned(Vec<T>),
    Shared(Shared<T>),
}

impl<T: Pod> CpuBuffer<T> {
    fn as_slice(&self) -> &[T] {
        match &self.data {
            Data::Owned(data) => data,
            Data::Shared(data) => (**data).as_ref(),
        }
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.data {
            Data::Owned(data) => data,
            Data::Shared(_) => unreachable!("adopted buffers are read-only (backends.md)"),
        }
    }
}

impl<T: Pod> Drop for CpuBuffer<T> {
    fn drop(&mut self) {
        if let Data::Owned(data) = &mut self.data {
            bytemuck::cast_slice_mut::<T, u8>(data).zeroize();
        }
    }
}

impl<T: Pod + Send + Sync> super::Buffer<T> for CpuBuffer<T> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }
}

/// A result that is already there.
pub struct Ready<R>(R);

impl<R: Send> super::Pending<R> for Ready<R> {
    fn wait(self) -> Result<R> {
        Ok(self.0)
    }
}

impl Backend for Cpu {
    type Buffer<T: Pod + Send + Sync> = CpuBuffer<T>;
    type Stream = ();
    type Pending<R: Send + 'static> = Ready<R>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn foreign_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn stream(&self) -> Result<()> {
        Ok(())
    }

    fn join(&self, _waiter: &(), _on: &()) -> Result<()> {
        Ok(())
    }

    fn alloc<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
    ) -> Result<CpuBuffer<T>> {
        // A length that overflows is more than any lease has.
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let reservation = lease.reserve(label, bytes)?;
        Ok(CpuBuffer { data: Data::Owned(bytemuck::zeroed_vec(len)), _reservation: reservation })
    }

    fn adopt<T: Pod + Send + Sync>(
        &self,
        _stream: &(),
        lease: &Lease,
        label: &'static str,
        data: Shared<T>,
    ) -> Result<CpuBuffer<T>> {
        let reservation = lease.reserve(label, size_of_val((*data).as_ref()) as u64)?;
        Ok(CpuBuffer { data: Data::Shared(data), _reservation: reservation })
    }

    fn upload<T: Pod + Send + Sync>(
        &self,
        _stream: &(),
        source: &[T],
        target: &mut CpuBuffer<T>,
        at: usize,
    ) -> Result<()> {
        target.as_mut_slice()[at..at + source.len()].copy_from_slice(source);
        Ok(())
    }

    fn download<T: Pod + Send + Sync>(
        &self,
        _stream: &(),
        source: &CpuBuffer<T>,
        at: usize,
        target: &mut [T],
    ) -> Result<()> {
        target.copy_from_slice(&source.as_slice()[at..at + target.len()]);
        Ok(())
    }

    fn expand(
        &self,
        _stream: &(),
        packed: Packed<'_, Self>,
        output: Output,
        out: &mut CpuBuffer<Fr>,
    ) -> Result<()> {
        let Packed { blocks, small, wide } = packed;
        let out = out.as_mut_slice();
        expand::expand(blocks.as_slice(), small.as_slice(), wide.as_slice(), output, out);
        Ok(())
    }

    fn matvec(
        &self,
        _stream: &(),
        matrix: &DeviceMatrix<Self>,
        x: &CpuBuffer<Fr>,
        output: Output,
        out: &mut CpuBuffer<Fr>,
    ) -> Result<()> {
        let rows = matvec::Rows {
            start: matrix.row_start.as_slice(),
            column: matrix.column.as_slice(),
            coefficient: matrix.coefficient.as_slice(),
            table: matrix.table.as_slice(),
        };
        matvec::matvec(&rows, x.as_slice(), output, out.as_mut_slice());
        Ok(())
    }

    fn ntt(
        &self,
        _stream: &(),
        transform: Transform,
        table: &CpuBuffer<Fr>,
        data: &mut CpuBuffer<Fr>,
    ) -> Result<()> {
        ntt::ntt(transform, table.as_slice(), data.as_mut_slice());
        Ok(())
    }

    fn ntt_table(&self, _stream: &(), lease: &Lease, log_n: u32) -> Result<CpuBuffer<Fr>> {
        let len = ntt::table_len(log_n);
        let mut table = self.alloc(lease, "transform table", len)?;
        ntt::fill_table(log_n, table.as_mut_slice());
        Ok(table)
    }

    fn ntt_table_bytes(&self, log_n: u32) -> u64 {
        (ntt::table_len(log_n) * Fr::BYTES) as u64
    }

    fn quotient(
        &self,
        _stream: &(),
        step: Quotient,
        accumulator: &mut CpuBuffer<Fr>,
        operand: &CpuBuffer<Fr>,
    ) -> Result<()> {
        quotient::quotient(step, accumulator.as_mut_slice(), operand.as_slice());
        Ok(())
    }

    fn msm<F: Coordinate>(
        &self,
        _stream: &(),
        msm: Msm<'_, Self, F>,
        scratch: &mut CpuBuffer<u64>,
    ) -> Result<Ready<Point<F>>> {
        let scalars = &msm.scalars.as_slice()[msm.range];
        let density = msm.density.map(|density| density.as_slice());
        let Msm { base_range: range, raised, .. } = msm;
        let bases = msm::Bases { points: msm.bases.as_slice(), range, raised };
        Ok(Ready(msm::msm(bases, scalars, density, self.threads, scratch.as_mut_slice())))
    }

    fn msm_scratch<F: Coordinate>(&self, len: usize) -> u64 {
        msm::Plan::<F>::new(len, self.threads).scratch_words() as u64 * 8
    }

    fn raised_scratch<F: Coordinate>(&self, raised: Raised, len: usize) -> u64 {
        msm::Plan::<F>::over(Some(raised), len, self.threads).scratch_words() as u64 * 8
    }

    fn raise<F: Coordinate>(
        &self,
        _stream: &(),
        raised: Raised,
        points: &mut CpuBuffer<Affine<F>>,
    ) -> Result<()> {
        raise::raise(raised, points.as_mut_slice());
        Ok(())
    }

    fn raised_for<F: Coordinate>(&self, len: usize) -> Option<Raised> {
        Some(msm::raised_for(len))
    }

    fn multiples<F: Coordinate>(
        &self,
        _stream: &(),
        multiples: Multiples<'_, Self, F>,
        out: &mut CpuBuffer<Affine<F>>,
    ) -> Result<()> {
        let Multiples { table, window_bits, scalars, range } = multiples;
        let out = &mut out.as_mut_slice()[..range.len()];
        let scalars = &scalars.as_slice()[range];
        fixed_base::multiples(table.as_slice(), window_bits, scalars, out);
        Ok(())
    }
}
