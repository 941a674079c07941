//! Parts of a key that stay on a device.

use crate::Result;
use crate::backend::{Backend, DeviceMatrix};
use crate::budget::Lease;
use crate::curve::{Affine, Coordinate};
use crate::field::{Fp, Fp2};
use crate::key::{Density, Query};
use crate::plan::Part;

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

/// The points of a query, and which variables have one, unless all have.
pub(super) struct DeviceQuery<B: Backend, F: Coordinate> {
    pub(super) points: B::Buffer<Affine<F>>,
    pub(super) density: Option<B::Buffer<u64>>,
}

impl<B: Backend> DeviceKey<B> {
    /// Brings `parts` of the task's key to the device: [`Shape::part_bytes`](crate::plan::Shape::part_bytes) of `lease` for
    /// each. Returns when they are there, so that every stream may read them.
    pub fn load(backend: &B, task: &Task<'_>, parts: &[Part], lease: &Lease) -> Result<Self> {
        let stream = backend.stream()?;
        let has = |part| parts.contains(&part);
        let (key, densities) = (task.key, &task.densities);
        let matrices = match &key.matrices {
            Some([a, b]) if has(Part::Matrices) => {
                let bring = |matrix| DeviceMatrix::adopt(backend, &stream, lease, matrix);
                Some([bring(a)?, bring(b)?])
            }
            _ => None,
        };
        let loader = Loader { backend, stream: &stream, lease };
        let loaded = Self {
            matrices,
            h: match has(Part::H) {
                true => {
                    let points = backend.adopt(&stream, lease, "H query", key.h.clone())?;
                    Some(DeviceQuery { points, density: None })
                }
                false => None,
            },
            l: loader.query(has(Part::L), "L query", &key.l, &densities.l)?,
            a: loader.query(has(Part::A), "A query", &key.a, &densities.a)?,
            b_g1: loader.query(has(Part::BG1), "B query in G1", &key.b_g1, &densities.b_g1)?,
            b_g2: loader.query(has(Part::BG2), "B query in G2", &key.b_g2, &densities.b_g2)?,
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
}

impl<B: Backend> Loader<'_, B> {
    fn query<F: Coordinate>(
        &self,
        wanted: bool,
        label: &'static str,
        query: &Query<F>,
        density: &Density,
    ) -> Result<Option<DeviceQuery<B, F>>> {
        if !wanted || query.points.is_empty() {
            return Ok(None);
        }
        let Self { backend, stream, lease } = self;
        let points = backend.adopt(stream, lease, label, query.points.clone())?;
        let density = match query.points.len() == density.len {
            true => None,
            false => Some(backend.adopt(stream, lease, "density", density.words.clone())?),
        };
        Ok(Some(DeviceQuery { points, density }))
    }
}
