//! The sums of a partition: how they are cut, and what stands in memory meanwhile.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use crate::backend::Rates;
use crate::compact::BLOCK;
use crate::field::Fr;

use super::{Part, Queries, Shape, Stage};

/// How the sums are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chunks {
    /// Each query is summed at once.
    Whole,
    /// The whole witness stands on the device; each sum takes the points of at most 2^log_len scalars.
    Bases {
        /// The log2 of a chunk's scalars.
        log_len: u32,
    },
    /// At most 2^log_len scalars of the witness stand there, with their points, one query after another.
    Witness {
        /// The log2 of a chunk's scalars.
        log_len: u32,
    },
}

impl fmt::Display for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole sums"),
            Self::Bases { log_len } => write!(f, "sums in chunks of 2^{log_len} points"),
            Self::Witness { log_len } => write!(f, "witness and sums in chunks of 2^{log_len}"),
        }
    }
}

impl Chunks {
    /// The ways worth trying: whole, and down to 64 chunks of whole blocks.
    pub(super) fn of(shape: &Shape) -> Vec<Self> {
        let longest = shape.variables.max(shape.h);
        let log_longest = longest.next_power_of_two().ilog2();
        let lengths = (log_longest.saturating_sub(6)..log_longest)
            .filter(|log_len| *log_len >= BLOCK.ilog2())
            .rev();
        let cut = lengths.flat_map(|log_len| [Self::Bases { log_len }, Self::Witness { log_len }]);
        std::iter::once(Self::Whole).chain(cut).collect()
    }

    fn len(self) -> usize {
        match self {
            Self::Whole => usize::MAX,
            Self::Bases { log_len } | Self::Witness { log_len } => 1 << log_len,
        }
    }

    /// The chunks of `range`.
    fn cut(self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let Range { start, end } = range;
        let len = self.len().min(end - start).max(1);
        (start..end).step_by(len).map(move |at| at..end.min(at.saturating_add(len)))
    }
}

/// One sum: the points of some variables of one query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The query; [`Part::H`] with elements of the quotient for variables.
    pub part: Part,
    /// The scalars, as indices into the whole witness or quotient.
    pub scalars: Range<usize>,
    /// The bases, as indices into the query's points.
    pub bases: Range<usize>,
    /// The part of the witness that stands on the device for it.
    pub loaded: Range<usize>,
    /// Whether the whole query stays on the device.
    pub resident: bool,
    /// Whether every scalar has a base, so that no density is needed.
    pub dense: bool,
}

impl Item {
    /// Whether the key's own density is the right one: the item is the whole query and that stays on the device.
    fn density_is_resident(&self, shape: &Shape) -> bool {
        let whole = shape.query(self.part).is_some_and(|query| query.len == self.scalars.len());
        self.resident && whole
    }

    /// Bytes that are brought for it, and again for the density.
    fn bytes(&self, shape: &Shape) -> u64 {
        let bases =
            if self.resident { 0 } else { self.part.point_bytes() * self.bases.len() as u64 };
        let density = if self.dense || self.density_is_resident(shape) {
            0
        } else {
            8 * self.scalars.len().div_ceil(64) as u64
        };
        bases + density
    }

    /// The largest buffer that is brought for it.
    fn largest(&self) -> u64 {
        self.part.point_bytes() * self.bases.len() as u64
    }
}

/// All sums, in the prover's order: H first; then, chunk after chunk of the witness, L, A, B in G1, B in G2. A sum
/// without bases is left out.
pub(super) fn items(shape: &Shape, resident: &[Part], chunks: Chunks) -> Vec<Item> {
    let is_resident = |part| resident.contains(&part);
    let of_h = chunks.cut(0..shape.h).map(|range| Item {
        part: Part::H,
        scalars: range.clone(),
        bases: range.clone(),
        loaded: range,
        resident: is_resident(Part::H),
        dense: true,
    });
    let mut items: Vec<Item> = of_h.collect();
    let loads: Vec<Range<usize>> = match chunks {
        Chunks::Witness { .. } => chunks.cut(0..shape.variables).collect(),
        _ => std::iter::once(0..shape.variables).collect(),
    };
    for loaded in loads {
        for (part, query) in Part::QUERIES.into_iter().zip(&shape.queries) {
            let first = if part == Part::L { shape.inputs } else { 0 };
            for scalars in chunks.cut(loaded.start.max(first)..loaded.end.max(first)) {
                let bases = query.rank(scalars.start - first)..query.rank(scalars.end - first);
                let (loaded, resident) = (loaded.clone(), is_resident(part));
                let dense = bases.len() == scalars.len();
                if !bases.is_empty() {
                    items.push(Item { part, scalars, bases, loaded, resident, dense });
                }
            }
        }
    }
    items
}

/// What the sums of one cut need, apart from where the quotient stands.
pub(super) struct Sums {
    chunks: Chunks,
    /// (items, scratch) of H and of the rest.
    h: (Vec<Item>, u64),
    w: (Vec<Item>, u64),
    /// Seconds of kernels.
    seconds: [f64; 2],
}

impl Sums {
    pub(super) fn new(
        shape: &Shape,
        device: &dyn Queries,
        resident: &[Part],
        chunks: Chunks,
    ) -> Self {
        let all = items(shape, resident, chunks);
        let (h, w): (Vec<_>, Vec<_>) = all.into_iter().partition(|item| item.part == Part::H);
        // More scalars never need less, so the longest of each group decides.
        let scratch = |items: &[Item]| {
            let longest = |in_g2: bool| {
                let of_group = items.iter().filter(|item| (item.part == Part::BG2) == in_g2);
                of_group.max_by_key(|item| item.scalars.len())
            };
            let bytes = |item: &Item| device.scratch_bytes(item.part, item.scalars.len());
            longest(false).map_or(0, bytes).max(longest(true).map_or(0, bytes))
        };
        let rates = &device.device().rates;
        let seconds = |items: &[Item]| {
            let one = |item: &Item| {
                let rate = if item.part == Part::BG2 { rates.g2_terms } else { rates.g1_terms };
                item.bases.len() as f64 / rate + rates.seconds_per_sum
            };
            items.iter().map(one).sum()
        };
        let seconds = [seconds(&h), seconds(&w)];
        let (scratch_h, scratch_w) = (scratch(&h), scratch(&w));
        Self { chunks, h: (h, scratch_h), w: (w, scratch_w), seconds }
    }

    pub(super) fn chunks(&self) -> Chunks {
        self.chunks
    }

    /// Bytes of scratch for H and for the rest.
    pub(super) fn scratch(&self) -> [u64; 2] {
        [self.h.1, self.w.1]
    }

    /// The largest buffer.
    pub(super) fn largest(&self, out_of_core: bool) -> u64 {
        let (h, w) = (&self.h, &self.w);
        let bases = h.0.iter().chain(&w.0).map(Item::largest).max().unwrap_or_default();
        let scalars = |items: &[Item]| items.iter().map(|item| item.loaded.len()).max();
        let (of_h, of_w) = (scalars(&h.0).unwrap_or_default(), scalars(&w.0).unwrap_or_default());
        let scalars = if out_of_core { of_h.max(of_w) } else { of_w };
        bases.max((scalars * Fr::BYTES) as u64).max(h.1).max(w.1)
    }

    /// The H sum and the sums over the witness. `out_of_core`: the quotient is on the host; `kept`: the witness is
    /// on the device already. `None` if these do not go together.
    pub(super) fn stages(
        &self,
        shape: &Shape,
        rates: &Rates,
        out_of_core: bool,
        kept: bool,
    ) -> Option<[Stage; 2]> {
        let by_chunk = matches!(self.chunks, Chunks::Witness { .. });
        // A witness that stands whole for the matrices is not cut later.
        if kept && by_chunk {
            return None;
        }
        let (of_h, witness) = ((Fr::BYTES as u64) << shape.log_n, shape.witness_bytes());
        let base = self.h.1 + if out_of_core { 0 } else { of_h } + if kept { witness } else { 0 };
        let h = Walk { base, brings: if out_of_core { Brings::Plain } else { Brings::Nothing } };
        let h = h.over(shape, &self.h.0);
        let base = self.w.1 + if by_chunk { 0 } else { witness };
        let w = Walk { base, brings: if by_chunk { Brings::Packed } else { Brings::Nothing } };
        let mut w = w.over(shape, &self.w.0);
        if !by_chunk && !kept {
            let packed = shape.packed.bytes();
            w.peak = w.peak.max(witness + packed);
            w.upload += packed;
        }
        let stage = |name, walk: Walked, kernel_seconds| Stage {
            kernel_seconds,
            ..Stage::new(name, walk.peak, [walk.upload, 0], rates)
        };
        let [of_h, of_w] = self.seconds;
        Some([stage("H sum", h, of_h), stage("sums over the witness", w, of_w)])
    }
}

/// A walk over items as the prover takes them: the next one's buffers are brought before the last one's are dropped.
struct Walk {
    /// What is there all the time.
    base: u64,
    brings: Brings,
}

/// What is brought when the scalars that must be there change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brings {
    /// Nothing: all scalars are there.
    Nothing,
    /// The plain scalars.
    Plain,
    /// Packed ones, to be expanded.
    Packed,
}

struct Walked {
    peak: u64,
    upload: u64,
}

impl Walk {
    fn over(&self, shape: &Shape, items: &[Item]) -> Walked {
        let mut walked = Walked { peak: self.base, upload: 0 };
        let (mut held, mut scalars, mut last): (u64, u64, Option<&Item>) = (0, 0, None);
        for item in items {
            let mut live = self.base + held + scalars;
            if last.is_none_or(|last| last.loaded != item.loaded) {
                let plain = (item.loaded.len() * Fr::BYTES) as u64;
                let packed = || shape.packed.slice_bytes(item.loaded.clone());
                let (now, packed, upload) = match self.brings {
                    Brings::Nothing => (0, 0, 0),
                    Brings::Plain => (plain, 0, plain),
                    Brings::Packed => (plain, packed(), packed()),
                };
                walked.peak = walked.peak.max(live + now + packed);
                walked.upload += upload;
                (scalars, live) = (now, live + now);
            }
            let bytes = item.bytes(shape);
            walked.peak = walked.peak.max(live + bytes);
            walked.upload += bytes;
            (held, last) = (bytes, Some(item));
        }
        walked
    }
}
