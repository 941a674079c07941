//! A backend that does one thing wrong, so that the suite can be seen to notice.
//!
//! Everything is done through the interface of the backend inside: what goes in or comes out is
//! altered, or kept from it. So the same faults serve for any backend.
//!
//! Not among the faults: a `join` that does nothing. On a backend that works at once, as the CPU's
//! does, there is nothing to wait for, and no wrapper can take back an order that the work already
//! has; a backend with real queues has to leave the call out in its own source to see its test fail.

use std::sync::Arc;

use bytemuck::Pod;
use forebay::backend::{
    Backend, Buffer, DeviceInfo, DeviceMatrix, Matrix, Msm, Multiples, Output, Packed, Quotient,
    Raised, Shared, Transform, bit_reverse,
};
use forebay::budget::{Budget, Lease};
use forebay::curve::{Affine, Coordinate, Point};
use forebay::field::{Field, Fr};
use forebay::{Error, Result};

/// Defines [`Fault`] and the list of all of them from one list, so that neither can lack one.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident,)*) => {
        /// What is done wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Fault { $($(#[$doc])* $fault,)* }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$fault,)*];
        }
    };
}

faults! {
    /// A new buffer holds what memory held before.
    AllocDirty,
    /// Buffers are not charged, so never refused.
    AllocUncharged,
    /// A buffer's bytes do not return to the lease.
    AllocNeverReturned,
    /// A refused buffer is charged nevertheless, with all that the lease has left.
    AllocChargesRefused,
    /// Adopted data are not charged.
    AdoptUncharged,
    /// Adopted data lose their last element.
    AdoptDropsLast,
    /// Data go to one element before their place.
    UploadOffByOne,
    /// Data go to the right place, and zeros behind them.
    UploadPads,
    /// Data come from one element before their place.
    DownloadOffByOne,
    /// Zeros come instead of data.
    DownloadZeroed,
    /// Nothing comes: the target stays as it was.
    DownloadStale,

    /// The transform table is charged one element more than the query said.
    TableOvercharged,
    /// A query for scratch leases memory.
    QueryLeases,
    /// More scalars are said to need less scratch.
    ScratchFalls,
    /// An MSM on G1 is said to need half of its scratch.
    ScratchTooSmallG1,
    /// An MSM on G2 is said to need half of its scratch.
    ScratchTooSmallG2,
    /// A matrix product leases memory for itself.
    MatvecLeases,
    /// An expansion leases memory for itself.
    ExpandLeases,
    /// A transform leases memory for itself.
    NttLeases,
    /// A step of the quotient leases memory for itself.
    QuotientLeases,
    /// An MSM leases memory for itself.
    MsmLeases,

    /// A negative small value comes out positive.
    ExpandLosesSign,
    /// A block's wide values start one early.
    ExpandMisplacesWide,
    /// Places that have no element keep what the output held.
    ExpandKeepsTail,
    /// The output is set where it should be multiplied.
    ExpandSets,

    /// The last entry of each row is left out.
    MatvecDropsLastEntry,
    /// Of entries with the same column in a row only the first counts.
    MatvecDropsDuplicates,
    /// The coefficient -1 is taken for 1.
    MatvecLosesSign,
    /// Rows that the matrix does not have keep what the output held.
    MatvecKeepsTail,
    /// The output is set where it should be multiplied.
    MatvecSets,

    /// Coefficients come in natural order.
    InterpolateOrder,
    /// Coefficients are not divided by n.
    InterpolateScale,
    /// Evaluations are taken to be on the odd coset.
    InterpolateDomain,
    /// Coefficients are taken in natural order.
    EvaluateOrder,
    /// Evaluations are divided by n.
    EvaluateScale,
    /// Evaluations are on the odd coset.
    EvaluateDomain,
    /// Coefficients come in natural order.
    InterpolateOddOrder,
    /// Coefficients are not divided by n.
    InterpolateOddScale,
    /// Evaluations are taken to be on the subgroup.
    InterpolateOddDomain,
    /// Coefficients are taken in natural order.
    EvaluateOddOrder,
    /// Evaluations are divided by n.
    EvaluateOddScale,
    /// Evaluations are on the subgroup.
    EvaluateOddDomain,
    /// A transform above 2^12 elements exchanges the last two.
    NttLargeSwapsLast,

    /// The last product is not taken.
    ProductDropsLast,
    /// The operands of the difference are exchanged.
    DifferenceNegated,
    /// Half of the difference is not halved.
    HalfDifferenceNotHalved,

    /// The density is ignored: bases go with the first scalars.
    MsmDensityG1,
    /// See [`Fault::MsmDensityG1`].
    MsmDensityG2,
    /// The range is taken from the start of the scalars.
    MsmOffsetG1,
    /// See [`Fault::MsmOffsetG1`].
    MsmOffsetG2,
    /// Scalars above r/2 are replaced by their negatives, whose sign is forgotten.
    MsmSignG1,
    /// See [`Fault::MsmSignG1`].
    MsmSignG2,
    /// Bit 254, the highest, of scalars is lost.
    MsmTopBitG1,
    /// See [`Fault::MsmTopBitG1`].
    MsmTopBitG2,
    /// An MSM on G1 takes the first bases of the buffer, not those of `base_range`.
    MsmFirstBaseG1,
    /// See [`Fault::MsmFirstBaseG1`].
    MsmFirstBaseG2,
    /// The last base is left out.
    MsmLastBaseG1,
    /// See [`Fault::MsmLastBaseG1`].
    MsmLastBaseG2,
    /// A base at infinity is taken for a point.
    MsmInfinityG1,
    /// See [`Fault::MsmInfinityG1`].
    MsmInfinityG2,
    /// Of neighbours that are equal, with equal scalars, one is lost: P + P = P.
    MsmDoublingG1,
    /// See [`Fault::MsmDoublingG1`].
    MsmDoublingG2,
    /// Of neighbours that are opposite, with equal scalars, one is lost: P - P = P.
    MsmCancellingG1,
    /// See [`Fault::MsmCancellingG1`].
    MsmCancellingG2,

    /// More scalars over raised bases are said to need less scratch.
    RaisedScratchFalls,
    /// Raising leases memory for itself.
    RaiseLeases,
    /// The last base's multiples are left out.
    RaiseLastG1,
    /// See [`Fault::RaiseLastG1`].
    RaiseLastG2,
    /// A base at infinity has the generator's multiples.
    RaiseInfinityG1,
    /// See [`Fault::RaiseInfinityG1`].
    RaiseInfinityG2,
    /// Copies are one window's doublings too few, but the first.
    RaiseLateG1,
    /// See [`Fault::RaiseLateG1`].
    RaiseLateG2,
    /// A sum over raised bases leaves out the highest window.
    RaisedTopG1,
    /// See [`Fault::RaisedTopG1`].
    RaisedTopG2,
    /// Copies are taken to be as long as the bases that are meant.
    RaisedCopyG1,
    /// See [`Fault::RaisedCopyG1`].
    RaisedCopyG2,

    /// Multiples lease memory for themselves.
    MultiplesLease,
    /// The range is taken from the start of the scalars.
    MultiplesOffsetG1,
    /// See [`Fault::MultiplesOffsetG1`].
    MultiplesOffsetG2,
    /// The last multiple is left out.
    MultiplesLastG1,
    /// See [`Fault::MultiplesLastG1`].
    MultiplesLastG2,
    /// What stands behind the results is overwritten.
    MultiplesPadG1,
    /// See [`Fault::MultiplesPadG1`].
    MultiplesPadG2,
    /// Bit 254, the highest, of scalars is lost.
    MultiplesTopBitG1,
    /// See [`Fault::MultiplesTopBitG1`].
    MultiplesTopBitG2,
}

/// Without bit 254, the highest.
fn clear_top_bits(scalars: &mut [Fr]) {
    for x in scalars {
        let [a, b, c, d] = x.to_canonical_limbs();
        *x = Fr::from_canonical_limbs([a, b, c, d & !(1 << 62)]).expect("smaller");
    }
}

/// A backend with a fault, or with none.
pub struct Faulty<B> {
    inner: B,
    fault: Option<Fault>,
    /// Of a budget that is not the device's: what the faults need is charged to nobody.
    hidden: Lease,
}

impl<B: Backend> Faulty<B> {
    /// `inner`, spoiled by `fault`.
    pub fn new(inner: B, fault: Option<Fault>) -> Self {
        let hidden = Budget::new(u64::MAX).lease("faults", u64::MAX).expect("all of it");
        Self { inner, fault, hidden }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether the fault is the one of the two that is for `F`'s group.
    fn has_for<F: Coordinate>(&self, g1: Fault, g2: Fault) -> bool {
        self.has(if F::DEGREE == 1 { g1 } else { g2 })
    }

    /// Leases some of the device's memory for a moment, if that is the fault.
    fn lease_if(&self, fault: Fault) -> Result<Option<Lease>> {
        self.has(fault).then(|| self.inner.budget().lease("hidden scratch", 64)).transpose()
    }

    fn read<T: Pod + Send + Sync>(
        &self,
        stream: &B::Stream,
        buffer: &B::Buffer<T>,
    ) -> Result<Vec<T>> {
        let mut data = vec![T::zeroed(); buffer.len()];
        self.inner.download(stream, buffer, 0, &mut data)?;
        Ok(data)
    }

    /// A buffer of the fault's own.
    fn write<T: Pod + Send + Sync>(
        &self,
        stream: &B::Stream,
        data: Vec<T>,
    ) -> Result<B::Buffer<T>> {
        self.inner.adopt(stream, &self.hidden, "altered", Arc::new(data))
    }

    /// Alters a buffer in place.
    fn alter<T: Pod + Send + Sync>(
        &self,
        stream: &B::Stream,
        buffer: &mut B::Buffer<T>,
        alter: impl FnOnce(&mut Vec<T>),
    ) -> Result<()> {
        let mut data = self.read(stream, buffer)?;
        alter(&mut data);
        self.inner.upload(stream, &data, buffer, 0)
    }

    /// A sum over raised bases, copy by copy those that are meant.
    fn msm_over_raised<F: Coordinate>(
        &self,
        stream: &B::Stream,
        msm: Msm<'_, Self, F>,
        raised: Raised,
        scratch: &mut B::Buffer<u64>,
    ) -> Result<B::Pending<Point<F>>> {
        let Msm { bases, base_range, scalars, range, density, .. } = msm;
        let all = self.read(stream, bases)?;
        let copy_len = match self.has_for::<F>(Fault::RaisedCopyG1, Fault::RaisedCopyG2) {
            true => base_range.len(),
            false => all.len() / raised.windows(),
        };
        let copy = |k| &all[k * copy_len + base_range.start..][..base_range.len()];
        let mut bases = (0..raised.windows()).flat_map(copy).copied().collect::<Vec<_>>();
        if self.has_for::<F>(Fault::RaisedTopG1, Fault::RaisedTopG2) {
            bases.iter_mut().rev().take(base_range.len()).for_each(|base| *base = Affine::INFINITY);
        }
        let bases = self.write(stream, bases)?;
        let base_range = 0..base_range.len();
        let raised = Some(raised);
        let altered = Msm::<B, F> { bases: &bases, base_range, scalars, range, density, raised };
        self.inner.msm(stream, altered, scratch)
    }

    /// Puts element `bit_reverse(i)` in place i.
    fn permute(&self, stream: &B::Stream, buffer: &mut B::Buffer<Fr>) -> Result<()> {
        self.alter(stream, buffer, |data| {
            let log_n = data.len().ilog2();
            *data = (0..data.len()).map(|i| data[bit_reverse(i, log_n)]).collect();
        })
    }
}

impl<B: Backend> Backend for Faulty<B> {
    type Buffer<T: Pod + Send + Sync> = B::Buffer<T>;
    type Stream = B::Stream;
    type Pending<R: Send + 'static> = B::Pending<R>;

    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn budget(&self) -> &Budget {
        self.inner.budget()
    }

    fn foreign_bytes(&self) -> Result<u64> {
        self.inner.foreign_bytes()
    }

    fn stream(&self) -> Result<B::Stream> {
        self.inner.stream()
    }

    fn join(&self, waiter: &B::Stream, on: &B::Stream) -> Result<()> {
        self.inner.join(waiter, on)
    }

    fn alloc<T: Pod + Send + Sync>(
        &self,
        lease: &Lease,
        label: &'static str,
        len: usize,
    ) -> Result<B::Buffer<T>> {
        if self.has(Fault::AllocUncharged) {
            return self.inner.alloc(&self.hidden, label, len);
        }
        if self.has(Fault::AllocNeverReturned) {
            std::mem::forget(lease.reserve(label, (len * size_of::<T>()) as u64)?);
            return self.inner.alloc(&self.hidden, label, len);
        }
        let mut buffer = self.inner.alloc(lease, label, len);
        if self.has(Fault::AllocChargesRefused)
            && let Err(Error::OutOfMemory { left, .. }) = &buffer
        {
            std::mem::forget(lease.reserve(label, *left)?);
        }
        if self.has(Fault::AllocDirty)
            && let Ok(buffer) = &mut buffer
        {
            let mut dirt = vec![T::zeroed(); len];
            bytemuck::cast_slice_mut::<T, u8>(&mut dirt).fill(0xa5);
            self.inner.upload(&self.inner.stream()?, &dirt, buffer, 0)?;
        }
        buffer
    }

    fn adopt<T: Pod + Send + Sync>(
        &self,
        stream: &B::Stream,
        lease: &Lease,
        label: &'static str,
        data: Shared<T>,
    ) -> Result<B::Buffer<T>> {
        if self.has(Fault::AdoptUncharged) {
            return self.inner.adopt(stream, &self.hidden, label, data);
        }
        if self.has(Fault::AdoptDropsLast) {
            let mut data = (*data).as_ref().to_vec();
            data.iter_mut().rev().take(1).for_each(|last| *last = T::zeroed());
            return self.inner.adopt(stream, lease, label, Arc::new(data));
        }
        self.inner.adopt(stream, lease, label, data)
    }

    fn upload<T: Pod + Send + Sync>(
        &self,
        stream: &B::Stream,
        source: &[T],
        target: &mut B::Buffer<T>,
        at: usize,
    ) -> Result<()> {
        if self.has(Fault::UploadOffByOne) {
            return self.inner.upload(stream, source, target, at.saturating_sub(1));
        }
        self.inner.upload(stream, source, target, at)?;
        let end = at + source.len();
        if self.has(Fault::UploadPads) && end < target.len() {
            self.inner.upload(stream, &[T::zeroed()], target, end)?;
        }
        Ok(())
    }

    fn download<T: Pod + Send + Sync>(
        &self,
        stream: &B::Stream,
        source: &B::Buffer<T>,
        at: usize,
        target: &mut [T],
    ) -> Result<()> {
        if self.has(Fault::DownloadStale) {
            return Ok(());
        }
        if self.has(Fault::DownloadZeroed) {
            target.fill(T::zeroed());
            return Ok(());
        }
        let early = self.has(Fault::DownloadOffByOne) as usize;
        self.inner.download(stream, source, at.saturating_sub(early), target)
    }

    fn expand(
        &self,
        stream: &B::Stream,
        packed: Packed<'_, Self>,
        output: Output,
        out: &mut B::Buffer<Fr>,
    ) -> Result<()> {
        let _scratch = self.lease_if(Fault::ExpandLeases)?;
        let Packed { blocks, small, wide } = packed;
        let mut altered = self.read(stream, blocks)?;
        if self.has(Fault::ExpandLosesSign) {
            // The lowest bit of a small value's tag is its sign.
            altered.iter_mut().for_each(|block| block.planes[0] &= !block.planes[2]);
        }
        if self.has(Fault::ExpandMisplacesWide) {
            altered.iter_mut().for_each(|block| block.wide = block.wide.saturating_sub(1));
        }
        let blocks = self.write(stream, altered)?;
        let output = if self.has(Fault::ExpandSets) { Output::Set } else { output };
        let before = self.read(stream, out)?;
        let covered = (blocks.len() * forebay::compact::BLOCK).min(before.len());
        self.inner.expand(stream, Packed { blocks: &blocks, small, wide }, output, out)?;
        if self.has(Fault::ExpandKeepsTail) {
            self.inner.upload(stream, &before[covered..], out, covered)?;
        }
        Ok(())
    }

    fn matvec(
        &self,
        stream: &B::Stream,
        matrix: &DeviceMatrix<Self>,
        x: &B::Buffer<Fr>,
        output: Output,
        out: &mut B::Buffer<Fr>,
    ) -> Result<()> {
        let _scratch = self.lease_if(Fault::MatvecLeases)?;
        // A matrix of this backend's has to become one of the inner backend's in any case.
        let row_start = self.read(stream, &matrix.row_start)?;
        let column = self.read(stream, &matrix.column)?;
        let mut coefficient = self.read(stream, &matrix.coefficient)?;
        if self.has(Fault::MatvecLosesSign) {
            // By index, since a backend need not read the first two of the table.
            coefficient.iter_mut().filter(|index| **index == 1).for_each(|index| *index = 0);
        }
        let (mut starts, mut columns, mut coefficients) = (Vec::new(), Vec::new(), Vec::new());
        starts.extend(row_start.first());
        for row in row_start.windows(2) {
            let (start, end) = (row[0] as usize, row[1] as usize);
            let drop_last = self.has(Fault::MatvecDropsLastEntry) && start < end;
            for entry in start..end - drop_last as usize {
                let duplicate = column[start..entry].contains(&column[entry]);
                if !(duplicate && self.has(Fault::MatvecDropsDuplicates)) {
                    columns.push(column[entry]);
                    coefficients.push(coefficient[entry]);
                }
            }
            starts.push(columns.len() as u32);
        }
        let altered = Matrix {
            row_start: starts.into(),
            column: columns.into(),
            coefficient: coefficients.into(),
            table: self.read(stream, &matrix.table)?.into(),
        };
        let altered = DeviceMatrix::adopt(&self.inner, stream, &self.hidden, &altered)?;

        let rows = row_start.len().saturating_sub(1);
        let before = self.read(stream, out)?;
        let output = if self.has(Fault::MatvecSets) { Output::Set } else { output };
        self.inner.matvec(stream, &altered, x, output, out)?;
        if self.has(Fault::MatvecKeepsTail) {
            self.inner.upload(stream, &before[rows..], out, rows)?;
        }
        Ok(())
    }

    fn ntt(
        &self,
        stream: &B::Stream,
        transform: Transform,
        table: &B::Buffer<Fr>,
        data: &mut B::Buffer<Fr>,
    ) -> Result<()> {
        let _scratch = self.lease_if(Fault::NttLeases)?;
        let n = data.len();
        let (order, scale, domain, other) = match transform {
            Transform::Interpolate => (
                Fault::InterpolateOrder,
                Fault::InterpolateScale,
                Fault::InterpolateDomain,
                Transform::InterpolateOdd,
            ),
            Transform::Evaluate => (
                Fault::EvaluateOrder,
                Fault::EvaluateScale,
                Fault::EvaluateDomain,
                Transform::EvaluateOdd,
            ),
            Transform::InterpolateOdd => (
                Fault::InterpolateOddOrder,
                Fault::InterpolateOddScale,
                Fault::InterpolateOddDomain,
                Transform::Interpolate,
            ),
            Transform::EvaluateOdd => (
                Fault::EvaluateOddOrder,
                Fault::EvaluateOddScale,
                Fault::EvaluateOddDomain,
                Transform::Evaluate,
            ),
        };
        let interpolates = matches!(transform, Transform::Interpolate | Transform::InterpolateOdd);
        if self.has(order) && !interpolates {
            self.permute(stream, data)?;
        }
        let transform = if self.has(domain) { other } else { transform };
        self.inner.ntt(stream, transform, table, data)?;
        if self.has(order) && interpolates {
            self.permute(stream, data)?;
        }
        if self.has(scale) {
            let factor = Fr::from(n as u64);
            let factor = if interpolates { factor } else { factor.inverse() };
            self.alter(stream, data, |data| data.iter_mut().for_each(|x| *x *= factor))?;
        }
        if self.has(Fault::NttLargeSwapsLast) && n > 1 << 12 {
            self.alter(stream, data, |data| data[n - 2..].reverse())?;
        }
        Ok(())
    }

    fn ntt_table(&self, stream: &B::Stream, lease: &Lease, log_n: u32) -> Result<B::Buffer<Fr>> {
        if self.has(Fault::TableOvercharged) {
            std::mem::forget(lease.reserve("transform table", Fr::BYTES as u64)?);
        }
        self.inner.ntt_table(stream, lease, log_n)
    }

    fn ntt_table_bytes(&self, log_n: u32) -> u64 {
        self.inner.ntt_table_bytes(log_n)
    }

    fn quotient(
        &self,
        stream: &B::Stream,
        step: Quotient,
        accumulator: &mut B::Buffer<Fr>,
        operand: &B::Buffer<Fr>,
    ) -> Result<()> {
        let _scratch = self.lease_if(Fault::QuotientLeases)?;
        let before = self.read(stream, accumulator)?;
        self.inner.quotient(stream, step, accumulator, operand)?;
        let (dropped, negated, doubled) = match step {
            Quotient::Product => (self.has(Fault::ProductDropsLast), false, false),
            Quotient::Difference => (false, self.has(Fault::DifferenceNegated), false),
            Quotient::HalfDifference => (false, false, self.has(Fault::HalfDifferenceNotHalved)),
        };
        if !(dropped || negated || doubled) {
            return Ok(());
        }
        self.alter(stream, accumulator, |data| {
            if dropped {
                let last = data.len() - 1;
                data[last] = before[last];
            }
            for x in data.iter_mut() {
                *x = if negated { -*x } else { *x };
                *x = if doubled { x.double() } else { *x };
            }
        })
    }

    fn msm<F: Coordinate>(
        &self,
        stream: &B::Stream,
        msm: Msm<'_, Self, F>,
        scratch: &mut B::Buffer<u64>,
    ) -> Result<B::Pending<Point<F>>> {
        let _scratch = self.lease_if(Fault::MsmLeases)?;
        let need = match msm.raised {
            None => self.inner.msm_scratch::<F>(msm.range.len()),
            Some(raised) => self.inner.raised_scratch::<F>(raised, msm.range.len()),
        };
        assert!(
            8 * scratch.len() as u64 >= need,
            "an MSM on {} was given scratch of {} bytes and needs {need}",
            F::GROUP,
            8 * scratch.len()
        );
        if let Some(raised) = msm.raised {
            return self.msm_over_raised(stream, msm, raised, scratch);
        }
        let from = match self.has_for::<F>(Fault::MsmFirstBaseG1, Fault::MsmFirstBaseG2) {
            true => 0,
            false => msm.base_range.start,
        };
        let mut bases = self.read(stream, msm.bases)?[from..][..msm.base_range.len()].to_vec();
        let mut scalars = self.read(stream, msm.scalars)?;
        let (mut range, mut density) = (msm.range, msm.density);
        if self.has_for::<F>(Fault::MsmDensityG1, Fault::MsmDensityG2) && density.take().is_some() {
            range.end = range.start + bases.len();
        }
        if self.has_for::<F>(Fault::MsmOffsetG1, Fault::MsmOffsetG2) {
            range = 0..range.len();
        }
        if self.has_for::<F>(Fault::MsmSignG1, Fault::MsmSignG2) {
            let magnitude = |x: Fr| {
                let high = |x: Fr| x.to_canonical_limbs().into_iter().rev().collect::<Vec<_>>();
                if high(-x) < high(x) { -x } else { x }
            };
            scalars.iter_mut().for_each(|x| *x = magnitude(*x));
        }
        if self.has_for::<F>(Fault::MsmTopBitG1, Fault::MsmTopBitG2) {
            clear_top_bits(&mut scalars);
        }
        if self.has_for::<F>(Fault::MsmLastBaseG1, Fault::MsmLastBaseG2) {
            bases.iter_mut().rev().take(1).for_each(|base| *base = Affine::INFINITY);
        }
        if self.has_for::<F>(Fault::MsmInfinityG1, Fault::MsmInfinityG2) {
            let at_infinity = bases.iter_mut().filter(|base| base.is_infinity());
            at_infinity.for_each(|base| *base = F::generator());
        }
        let equal = self.has_for::<F>(Fault::MsmDoublingG1, Fault::MsmDoublingG2);
        let opposite = self.has_for::<F>(Fault::MsmCancellingG1, Fault::MsmCancellingG2);
        if (equal || opposite) && density.is_none() {
            for (pair, scalars) in bases.chunks_exact_mut(2).zip(scalars[range.clone()].chunks(2)) {
                let alike = equal && pair[0] == pair[1] || opposite && pair[0] == pair[1].neg();
                if alike && scalars[0] == scalars[1] {
                    pair[1] = Affine::INFINITY;
                }
            }
        }
        let (bases, scalars) = (self.write(stream, bases)?, self.write(stream, scalars)?);
        let base_range = 0..bases.len();
        let altered = Msm::<B, F> {
            bases: &bases,
            base_range,
            scalars: &scalars,
            range,
            density,
            raised: None,
        };
        self.inner.msm(stream, altered, scratch)
    }

    fn msm_scratch<F: Coordinate>(&self, len: usize) -> u64 {
        let bytes = self.inner.msm_scratch::<F>(len);
        if self.has(Fault::QueryLeases) {
            std::mem::forget(self.inner.budget().lease("a query", 1));
        }
        if self.has(Fault::ScratchFalls) && len > 1000 {
            return bytes / 1000;
        }
        if self.has_for::<F>(Fault::ScratchTooSmallG1, Fault::ScratchTooSmallG2) {
            return bytes / 2;
        }
        bytes
    }

    fn raised_scratch<F: Coordinate>(&self, raised: Raised, len: usize) -> u64 {
        let bytes = self.inner.raised_scratch::<F>(raised, len);
        if self.has(Fault::RaisedScratchFalls) && len > 1000 { bytes / 1000 } else { bytes }
    }

    fn raise<F: Coordinate>(
        &self,
        stream: &B::Stream,
        raised: Raised,
        points: &mut B::Buffer<Affine<F>>,
    ) -> Result<()> {
        let _scratch = self.lease_if(Fault::RaiseLeases)?;
        let len = points.len() / raised.windows();
        let before = self.read(stream, points)?;
        if self.has_for::<F>(Fault::RaiseInfinityG1, Fault::RaiseInfinityG2) {
            let mut bases = before[..len].to_vec();
            let at_infinity = bases.iter_mut().filter(|base| base.is_infinity());
            at_infinity.for_each(|base| *base = F::generator());
            self.inner.upload(stream, &bases, points, 0)?;
        }
        self.inner.raise(stream, raised, points)?;
        self.inner.upload(stream, &before[..len], points, 0)?;
        let last = self.has_for::<F>(Fault::RaiseLastG1, Fault::RaiseLastG2);
        let late = self.has_for::<F>(Fault::RaiseLateG1, Fault::RaiseLateG2);
        if !(last || late) || len == 0 {
            return Ok(());
        }
        self.alter(stream, points, |points| {
            if last {
                for copy in points.chunks_exact_mut(len).skip(1) {
                    copy[len - 1] = Affine::INFINITY;
                }
            }
            if late {
                let end = points.len() - len;
                points.copy_within(..end, len);
            }
        })
    }

    fn raised_for<F: Coordinate>(&self, len: usize) -> Option<Raised> {
        self.inner.raised_for::<F>(len)
    }

    fn multiples<F: Coordinate>(
        &self,
        stream: &B::Stream,
        multiples: Multiples<'_, Self, F>,
        out: &mut B::Buffer<Affine<F>>,
    ) -> Result<()> {
        let _scratch = self.lease_if(Fault::MultiplesLease)?;
        let Multiples { table, window_bits, scalars, mut range } = multiples;
        let mut scalars = self.read(stream, scalars)?;
        if self.has_for::<F>(Fault::MultiplesTopBitG1, Fault::MultiplesTopBitG2) {
            clear_top_bits(&mut scalars);
        }
        let end = range.len();
        if self.has_for::<F>(Fault::MultiplesOffsetG1, Fault::MultiplesOffsetG2) {
            range = 0..end;
        }
        if self.has_for::<F>(Fault::MultiplesLastG1, Fault::MultiplesLastG2) && end > 0 {
            range.end -= 1;
        }
        let scalars = self.write(stream, scalars)?;
        let altered = Multiples::<B, F> { table, window_bits, scalars: &scalars, range };
        self.inner.multiples(stream, altered, out)?;
        if self.has_for::<F>(Fault::MultiplesPadG1, Fault::MultiplesPadG2) && end < out.len() {
            self.inner.upload(stream, &[Affine::INFINITY], out, end)?;
        }
        Ok(())
    }
}
