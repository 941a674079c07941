//! The counts that decide a partition's memory.

use std::ops::Range;
use std::sync::Arc;

use crate::backend::Matrix;
use crate::compact::Compact;
use crate::field::Fr;
use crate::groth16::Densities;
use crate::key::{Density, ProvingKey};
use crate::witness::Assignment;

use super::Part;

/// What a plan needs to know of a key and an assignment.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The domain has 2^log_n points.
    pub log_n: u32,
    /// The constant 1 and the public inputs.
    pub inputs: usize,
    /// Inputs and private variables.
    pub variables: usize,
    /// Points of the H query.
    pub h: usize,
    /// L (over the private variables), A, B in G1, B in G2 (over all).
    pub queries: [QueryShape; 4],
    /// What the rows are made from.
    pub rows: RowsShape,
    /// The witness as it is staged.
    pub packed: Packed,
}

/// The points of one query.
#[derive(Clone, Debug)]
pub struct QueryShape {
    /// Points.
    pub points: usize,
    /// Variables that may have one.
    pub len: usize,
    /// Which have one.
    pub ranks: Ranks,
}

/// How many of the first variables have a point.
#[derive(Clone, Debug)]
pub enum Ranks {
    /// All of them.
    All,
    /// Those of a density; `before[k]` of the first 4096 k.
    Of {
        /// The set.
        density: Density,
        /// Members before every 64th word.
        before: Arc<Vec<usize>>,
    },
    /// Not known; the worst is assumed, which for the peak is that the first ones have.
    Unknown,
}

/// What the rows are made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowsShape {
    /// The key's matrices A and B.
    Matrices {
        /// Their bytes.
        bytes: u64,
    },
    /// The rows' values, packed.
    Packed {
        /// Bytes of both sides.
        bytes: u64,
    },
}

impl RowsShape {
    /// Device bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Matrices { bytes } | Self::Packed { bytes } => bytes,
        }
    }
}

/// A witness as it is staged.
#[derive(Clone, Debug)]
pub enum Packed {
    /// This one.
    Known(Arc<Compact>),
    /// One of so many bytes an element, all over.
    Rate {
        /// Elements.
        len: usize,
        /// Bytes an element.
        bytes: f64,
    },
}

impl Packed {
    /// Bytes of the whole vector.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Known(compact) => compact.bytes(),
            Self::Rate { len, bytes } => (*len as f64 * bytes).ceil() as u64,
        }
    }

    /// Bytes of a part that starts at a whole block.
    pub fn slice_bytes(&self, range: Range<usize>) -> u64 {
        match self {
            Self::Known(compact) => compact.slice_bytes(range),
            Self::Rate { bytes, .. } => (range.len() as f64 * bytes).ceil() as u64,
        }
    }
}

impl QueryShape {
    /// `points` points, those of the variables in `density`.
    pub fn of(points: usize, density: &Density) -> Self {
        if points == density.len {
            return Self { points, len: density.len, ranks: Ranks::All };
        }
        let mut before = vec![0];
        for words in density.words.chunks(64) {
            let ones: usize = words.iter().map(|word| word.count_ones() as usize).sum();
            before.push(before[before.len() - 1] + ones);
        }
        let ranks = Ranks::Of { density: density.clone(), before: Arc::new(before) };
        Self { points, len: density.len, ranks }
    }

    /// `points` points somewhere among `len` variables.
    pub fn unknown(points: usize, len: usize) -> Self {
        let ranks = if points == len { Ranks::All } else { Ranks::Unknown };
        Self { points, len, ranks }
    }

    /// Points of the variables before `index`.
    pub fn rank(&self, index: usize) -> usize {
        match &self.ranks {
            Ranks::All => index,
            Ranks::Unknown => index.min(self.points),
            Ranks::Of { density, before } => {
                let (group, word) = (index / 4096, index / 64);
                let whole = &density.words[group * 64..word];
                let ones: usize = whole.iter().map(|word| word.count_ones() as usize).sum();
                let rest = match index % 64 {
                    0 => 0,
                    bits => (density.words[word] & ((1 << bits) - 1)).count_ones() as usize,
                };
                before[group] + ones + rest
            }
        }
    }

    /// Whether the variable at `index` has a point.
    pub(crate) fn has(&self, index: usize) -> bool {
        match &self.ranks {
            Ranks::Of { density, .. } => density.words[index / 64] >> (index % 64) & 1 == 1,
            _ => true,
        }
    }

    /// Bytes of the density of `len` variables; nothing if all have a point.
    pub(super) fn density_bytes(&self, len: usize) -> u64 {
        if matches!(self.ranks, Ranks::All) { 0 } else { 8 * len.div_ceil(64) as u64 }
    }
}

impl Shape {
    pub(crate) fn new(key: &ProvingKey, assignment: &Assignment, densities: &Densities) -> Self {
        let rows = match &assignment.rows {
            Some(rows) => RowsShape::Packed { bytes: rows.a.bytes() + rows.b.bytes() },
            None => RowsShape::Matrices {
                bytes: key.matrices.iter().flatten().map(Matrix::bytes).sum(),
            },
        };
        let queries = [
            QueryShape::of(key.l.points.len(), &densities.l),
            QueryShape::of(key.a.points.len(), &densities.a),
            QueryShape::of(key.b_g1.points.len(), &densities.b_g1),
            QueryShape::of(key.b_g2.points.len(), &densities.b_g2),
        ];
        Self {
            log_n: key.log_n,
            inputs: key.inputs,
            variables: key.variables,
            h: key.h.len(),
            queries,
            rows,
            packed: Packed::Known(assignment.values.clone()),
        }
    }

    /// Bytes of the plain witness.
    pub fn witness_bytes(&self) -> u64 {
        (self.variables * Fr::BYTES) as u64
    }

    /// The query of [`Part::QUERIES`] that is `part`.
    pub fn query(&self, part: Part) -> Option<&QueryShape> {
        Part::QUERIES.iter().position(|query| *query == part).map(|index| &self.queries[index])
    }

    /// Points of a part of the key; the matrices have none.
    pub(super) fn points(&self, part: Part) -> usize {
        match part {
            Part::H => self.h,
            _ => self.query(part).map_or(0, |query| query.points),
        }
    }

    /// Bytes of a part of the key on a device.
    pub fn part_bytes(&self, part: Part) -> u64 {
        match (part, self.rows) {
            (Part::Matrices, RowsShape::Matrices { bytes }) => bytes,
            (Part::Matrices, RowsShape::Packed { .. }) => 0,
            (Part::H, _) => 96 * self.h as u64,
            _ => self.query(part).map_or(0, |query| {
                part.point_bytes() * query.points as u64 + query.density_bytes(query.len)
            }),
        }
    }
}
