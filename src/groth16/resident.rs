//! Parts of a key that stay on a device.

use crate::Result;
use crate::array::Array;
use crate::backend::{Backend, DeviceMatrix, Raised};
use crate::budget::Lease;
use crate::curve::{Affine, Coordinate};
use crate::field::{Fp, Fp2};
use crate::key::{Density, Query};
use crate::plan::{Part, Plan};

use super::Task;

/// The resident parts of a key, read by any number of partitions. Dropping it gives their bytes back to the lease.
pub struct DeviceKey<B: Backend> {
    pub(super) matrices: Option<[DeviceMatrix<B>; 2]>,
    pub(super) h: Option<DeviceQuery<B, Fp>>,
    pub(super) l: Option<DeviceQuery<B, Fp>>,
    pub(super) a: Option<DeviceQuery<B, Fp>>,
    pub(super) b_g1: Option<DeviceQuery<B, Fp>>,
    pub(super) b_g2: Option<DeviceQuery<B, Fp2>>,
}

/// The points of a query, with multiples if they are raised, and which variables have one, unless all have.
pub(super) struct DeviceQuery<B: Backend, F: Coordinate> {
    pub(super) points: B::Buffer<Affine<F>>,
    pub(super) raised: Option<Raised>,
    pub(super) density: Option<B::Buffer<u64>>,
}

impl<B: Backend> DeviceKey<B> {
    /// Brings the parts of the task's key that `plan` has resident to the device, and raises those that it has raised:
    /// [`Plan::resident_bytes`] of `lease`. Returns when they are there, so that every stream may read them.
    pub fn load(backend: &B, task: &Task<'_>, plan: &Plan, lease: &Lease) -> Result<Self> {
        let stream = backend.stream()?;
        let has = |part| plan.is_resident(part);
        let (key, densities) = (task.key, &task.densities);
        let matrices = match &key.matrices {
            Some([a, b]) if has(Part::Matrices) => {
                let bring = |matrix| DeviceMatrix::adopt(backend, &stream, lease, matrix);
                Some([bring(a)?, bring(b)?])
            }
            _ => None,
        };
        let loader = Loader { backend, stream: &stream, lease, plan };
        let loaded = Self {
            matrices,
            h: match has(Part::H) {
                true => Some(loader.points(Part::H, "H query", &key.h)?),
                false => None,
            },
            l: loader.query(Part::L, "L query", &key.l, &densities.l)?,
            a: loader.query(Part::A, "A query", &key.a, &densities.a)?,
            b_g1: loader.query(Part::BG1, "B query in G1", &key.b_g1, &densities.b_g1)?,
            b_g2: loader.query(Part::BG2, "B query in G2", &key.b_g2, &densities.b_g2)?,
        };
        loaded.settle(backend, &stream)?;
        Ok(loaded)
    }

    /// Waits for all that `stream` was given so far: it is in order, so one element of any buffer will do. A plan's
    /// parts begin with the matrices or H.
    fn settle(&self, backend: &B, stream: &B::Stream) -> Result<()> {
        if let Some(h) = &self.h {
            return backend.download(stream, &h.points, 0, &mut [Affine::INFINITY]);
        }
        match &self.matrices {
            Some([_, b]) => backend.download(stream, &b.row_start, 0, &mut [0]),
            None => Ok(()),
        }
    }
}

struct Loader<'a, B: Backend> {
    backend: &'a B,
    stream: &'a B::Stream,
    lease: &'a Lease,
    plan: &'a Plan,
}

impl<B: Backend> Loader<'_, B> {
    fn query<F: Coordinate>(
        &self,
        part: Part,
        label: &'static str,
        query: &Query<F>,
        density: &Density,
    ) -> Result<Option<DeviceQuery<B, F>>> {
        if !self.plan.is_resident(part) || query.points.is_empty() {
            return Ok(None);
        }
        let Self { backend, stream, lease, .. } = self;
        let density = match query.points.len() == density.len {
            true => None,
            false => Some(backend.adopt(stream, lease, "density", density.words.shared())?),
        };
        Ok(Some(DeviceQuery { density, ..self.points(part, label, &query.points)? }))
    }

    /// The points of a query, with their multiples if the plan wants these.
    fn points<F: Coordinate>(
        &self,
        part: Part,
        label: &'static str,
        points: &Array<Affine<F>>,
    ) -> Result<DeviceQuery<B, F>> {
        let Self { backend, stream, lease, plan } = self;
        let raised = match plan.raised.contains(&part) {
            true => backend.raised_for::<F>(points.len()),
            false => None,
        };
        let points = match raised {
            None => backend.adopt(stream, lease, label, points.shared())?,
            Some(raised) => {
                let mut copies = backend.alloc(lease, label, points.len() * raised.windows())?;
                backend.upload(stream, points, &mut copies, 0)?;
                backend.raise::<F>(stream, raised, &mut copies)?;
                copies
            }
        };
        Ok(DeviceQuery { points, raised, density: None })
    }
}
