//! Shapes to plan for without a key at hand.

use crate::{Error, Result};

use super::{Packed, QueryShape, RowsShape, Shape};

/// A circuit's counts, as measured from its blank circuit.
struct Counts {
    name: &'static str,
    log_n: u32,
    inputs: usize,
    aux: usize,
    /// Points of A and of B.
    a: usize,
    b: usize,
    rows: usize,
    /// Bytes that a packed row takes, both sides together, and a value of the witness.
    row_bytes: f64,
    value_bytes: f64,
}

/// Filecoin's circuits, one partition each. Counts are exact; bytes follow from the shares of bits, small and wide values
/// in real witnesses (WindowPoSt's and SnapDeals' are taken to be those of WinningPoSt and PoRep).
const COUNTS: [Counts; 4] = [
    Counts {
        name: "porep-32gib",
        log_n: 27,
        inputs: 328,
        aux: 130_169_893,
        a: 129_753_620,
        b: 33_112_282,
        rows: 130_278_869,
        row_bytes: 2.8,
        value_bytes: 0.92,
    },
    Counts {
        name: "snap-32gib",
        log_n: 27,
        inputs: 5,
        aux: 80_978_488,
        a: 80_743_586,
        b: 20_983_608,
        rows: 81_049_504,
        row_bytes: 2.8,
        value_bytes: 0.92,
    },
    Counts {
        name: "window-post-32gib",
        log_n: 27,
        inputs: 25_840,
        aux: 126_902_376,
        a: 96_205_645,
        b: 91_925_767,
        rows: 125_305_057,
        row_bytes: 55.7,
        value_bytes: 32.2,
    },
    Counts {
        name: "winning-post-32gib",
        log_n: 19,
        inputs: 133,
        aux: 375_210,
        a: 284_329,
        b: 272_185,
        rows: 370_723,
        row_bytes: 55.7,
        value_bytes: 32.2,
    },
];

impl Shape {
    /// The names that [`Shape::named`] knows, `K` standing for the log2 of a domain.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COUNTS.iter().map(|counts| counts.name).chain(["dense-K", "bits-K"])
    }

    /// A shape by name: one of Filecoin's, or `dense-20` and `bits-20`, circuits that fill a domain of 2^20 with wide
    /// values, or with bits in nine of ten places.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none of this name.
    pub fn named(name: &str) -> Result<Self> {
        if let Some(counts) = COUNTS.iter().find(|counts| counts.name == name) {
            return Ok(Self::of_counts(counts));
        }
        let size = |prefix| -> Option<u32> { name.strip_prefix(prefix)?.parse().ok() };
        let (log_n, value_bytes) = match (size("dense-"), size("bits-")) {
            (Some(log_n), _) => (log_n, 32.5),
            (_, Some(log_n)) => (log_n, 3.7),
            _ => {
                let names: Vec<_> = Self::names().collect();
                let names = names.join(", ");
                return Err(Error::Usage(format!(
                    "no file and no shape is called {name}: shapes are {names}"
                )));
            }
        };
        if !(2..=31).contains(&log_n) {
            return Err(Error::Usage(format!("{name}: domains are from 2^2 to 2^31")));
        }
        let n = 1usize << log_n;
        let counts = Counts {
            name: "",
            log_n,
            inputs: 2,
            aux: n - 3,
            a: n - 1,
            b: n - 1,
            rows: n,
            row_bytes: 2.0 * value_bytes,
            value_bytes,
        };
        Ok(Self::of_counts(&counts))
    }

    fn of_counts(counts: &Counts) -> Self {
        let Counts { log_n, inputs, aux, a, b, rows, row_bytes, value_bytes, .. } = *counts;
        let variables = inputs + aux;
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
            packed: Packed::Rate { len: variables, bytes: value_bytes },
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
