//! Shapes to plan for without a task at hand.

use crate::profile::{Kinds, Profile};

use super::{Packed, QueryShape, RowsShape, Shape};

impl Shape {
    /// The shape of a circuit of which counts and kinds of values are known.
    pub fn of_profile(profile: &Profile) -> Self {
        let Profile { log_n, inputs, aux, a, b, rows, .. } = *profile;
        let variables = profile.variables();
        let row_bytes: f64 = profile.sides.iter().map(Kinds::bytes).sum();
        Self {
            log_n,
            inputs,
            variables,
            h: (1 << log_n) - 1,
            queries: [
                QueryShape::unknown(aux, aux),
                QueryShape::unknown(a, variables),
                QueryShape::unknown(b, variables),
                QueryShape::unknown(b, variables),
            ],
            rows: RowsShape::Packed { bytes: (rows as f64 * row_bytes).ceil() as u64 },
            packed: Packed::Rate { len: variables, bytes: profile.values[0].bytes() },
        }
    }

    /// The shape of `key`, of whose witnesses nothing is known: all their values are taken to be wide, and what the key does
    /// not say of densities is taken to be the worst.
    pub fn of_key(key: &crate::key::ProvingKey) -> Self {
        let query = |points: usize, len: usize, density: &Option<crate::key::Density>| match density
        {
            Some(density) => QueryShape::of(points, density),
            None => QueryShape::unknown(points, len),
        };
        let (all, n) = (key.variables, 1u64 << key.log_n);
        let rows = match &key.matrices {
            Some(matrices) => RowsShape::Matrices {
                bytes: matrices.iter().map(crate::backend::Matrix::bytes).sum(),
            },
            None => RowsShape::Packed { bytes: 65 * n },
        };
        Self {
            log_n: key.log_n,
            inputs: key.inputs,
            variables: all,
            h: key.h.len(),
            queries: [
                query(key.l.points.len(), all - key.inputs, &key.l.density),
                query(key.a.points.len(), all, &key.a.density),
                query(key.b_g1.points.len(), all, &key.b_g1.density),
                query(key.b_g2.points.len(), all, &key.b_g2.density),
            ],
            rows,
            packed: Packed::Rate { len: all, bytes: 32.5 },
        }
    }
}
