//! The sums of a partition: how they are cut, and what stands in memory meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Serialize;

use crate::backend::Rates;
use crate::compact::BLOCK;
use crate::field::Fr;

use super::{Part, Queries, Shape, Stage, Stays};

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

    /// How H is cut where it takes turns: its chunks last as long as those over a witness of bits take to be copied.
    fn of_h(self, turns: bool) -> Self {
        match self {
            Self::Bases { log_len } | Self::Witness { log_len } if turns => {
                Self::Bases { log_len: log_len - 1 }
            }
            _ => self,
        }
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
    /// Whether its multiples do, too.
    pub raised: bool,
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

/// The sums of the two stages, in the prover's order. The second stage has those that are left when H is summed; a sum
/// without bases is left out.
///
/// One after the other: H first; then, chunk after chunk of the witness, L, A, B in G1, B in G2. In turns, see [`in_turns`].
pub(super) fn items(
    shape: &Shape,
    rates: &Rates,
    [resident, raised]: [&[Part]; 2],
    chunks: Chunks,
    turns: bool,
) -> [Vec<Item>; 2] {
    let is_resident = |part| resident.contains(&part);
    let is_raised = |part| raised.contains(&part);
    let of_h = chunks.of_h(turns).cut(0..shape.h).map(|range| Item {
        part: Part::H,
        scalars: range.clone(),
        bases: range.clone(),
        loaded: range,
        resident: is_resident(Part::H),
        raised: is_raised(Part::H),
        dense: true,
    });
    let mut of_witness = Vec::new();
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
                let raised = is_raised(part);
                let dense = bases.len() == scalars.len();
                if !bases.is_empty() {
                    of_witness.push(Item { part, scalars, bases, loaded, resident, raised, dense });
                }
            }
        }
    }
    match turns {
        false => [of_h.collect(), of_witness],
        true => in_turns(&Costs::new(shape, rates), of_h, of_witness),
    }
}

/// Takes H's sums in turns with those over the witness. A sum's points are copied while the last sum is computed. H's scalars
/// are wide, so its sums last longer than their copies; a witness of bits is summed in less time than its points take. So
/// after each sum comes one over the witness if its copy hides behind that one, else one of H.
fn in_turns(
    costs: &Costs<'_>,
    of_h: impl Iterator<Item = Item>,
    of_witness: Vec<Item>,
) -> [Vec<Item>; 2] {
    let (mut of_h, mut of_witness) = (of_h.peekable(), of_witness.into_iter().peekable());
    let (mut items, mut last) = (Vec::new(), 0.0);
    while let (Some(h), Some(witness)) = (of_h.peek(), of_witness.peek()) {
        let copy = costs.copy(witness);
        let next = match copy <= last || copy <= costs.copy(h) {
            true => of_witness.next(),
            false => of_h.next(),
        };
        last = next.as_ref().map_or(0.0, |item| costs.kernels(item));
        items.extend(next);
    }
    items.extend(of_h);
    [items, of_witness.collect()]
}

/// A scalar of a bit costs so much of a wide one: measured on an H200 with nine of ten scalars bits.
const COST_OF_A_BIT: f64 = 0.14;

/// What sums take, by a device's rates.
struct Costs<'a> {
    shape: &'a Shape,
    rates: &'a Rates,
    /// What a scalar of the witness costs, on average, of a wide one.
    of_witness: f64,
}

impl<'a> Costs<'a> {
    fn new(shape: &'a Shape, rates: &'a Rates) -> Self {
        // Tags take half a byte; the rest tells how wide values are.
        let bytes = shape.packed.bytes() as f64 / shape.variables as f64 - 0.5;
        let wide = (bytes / Fr::BYTES as f64).clamp(0.0, 1.0);
        Self { shape, rates, of_witness: wide + (1.0 - wide) * COST_OF_A_BIT }
    }

    /// Seconds of kernels.
    fn kernels(&self, item: &Item) -> f64 {
        let Rates { seconds_per_sum, raised_share, .. } = *self.rates;
        let share = if item.raised { raised_share } else { 1.0 };
        let cost = if item.part == Part::H { 1.0 } else { self.of_witness };
        share * (item.bases.len() as f64 * cost / item.part.terms(self.rates) + seconds_per_sum)
    }

    /// Seconds of copies.
    fn copy(&self, item: &Item) -> f64 {
        item.bytes(self.shape) as f64 / self.rates.upload
    }

    /// Seconds of `items`: each is copied while the last is computed, in the place of the one before that.
    fn seconds(&self, items: &[Item]) -> f64 {
        let (mut copied, mut before, mut done) = (0.0f64, 0.0, 0.0);
        for item in items {
            copied = copied.max(before) + self.copy(item);
            (before, done) = (done, copied.max(done) + self.kernels(item));
        }
        done
    }
}

/// What the sums of one cut need, apart from where the quotient stands.
pub(super) struct Sums {
    chunks: Chunks,
    turns: bool,
    stages: [StageOfSums; 2],
}

/// Some sums, all in the same scratch.
struct StageOfSums {
    items: Vec<Item>,
    scratch: u64,
    kernel_seconds: f64,
    /// From first to last, with the copies that kernels do not hide.
    seconds: f64,
}

impl StageOfSums {
    fn new(items: Vec<Item>, device: &dyn Queries, costs: &Costs<'_>) -> Self {
        // More scalars never need less, so the longest of each group decides, and of each query that has its own windows.
        let mut longest: BTreeMap<_, &Item> = BTreeMap::new();
        for item in &items {
            let alike = (item.part == Part::BG2, item.raised.then_some(item.part));
            let there = longest.entry(alike).or_insert(item);
            if there.scalars.len() < item.scalars.len() {
                *there = item;
            }
        }
        let bytes = |item: &&Item| {
            let points = costs.shape.points(item.part);
            let raised = if item.raised { device.raised_for(item.part, points) } else { None };
            device.scratch_bytes(item.part, raised, item.scalars.len())
        };
        Self {
            scratch: longest.values().map(bytes).max().unwrap_or_default(),
            kernel_seconds: items.iter().map(|item| costs.kernels(item)).sum(),
            seconds: costs.seconds(&items),
            items,
        }
    }

    fn has_witness(&self) -> bool {
        self.items.iter().any(|item| item.part != Part::H)
    }
}

impl Sums {
    /// `None` if there is nothing to take turns with.
    pub(super) fn new(
        shape: &Shape,
        device: &dyn Queries,
        stays: &Stays,
        chunks: Chunks,
        turns: bool,
    ) -> Option<Self> {
        let rates = &device.device().rates;
        let costs = Costs::new(shape, rates);
        let stays = [&stays.resident[..], &stays.raised[..]];
        let stages = items(shape, rates, stays, chunks, turns)
            .map(|items| StageOfSums::new(items, device, &costs));
        let sums = Self { chunks, turns, stages };
        (!turns || sums.stages[0].has_witness()).then_some(sums)
    }

    pub(super) fn chunks(&self) -> Chunks {
        self.chunks
    }

    pub(super) fn turns(&self) -> bool {
        self.turns
    }

    /// Bytes of scratch of each stage.
    pub(super) fn scratch(&self) -> [u64; 2] {
        self.stages.each_ref().map(|stage| stage.scratch)
    }

    /// The largest buffer.
    pub(super) fn largest(&self, out_of_core: bool) -> u64 {
        let items = || self.stages.iter().flat_map(|stage| &stage.items);
        let bases = items().map(Item::largest).max().unwrap_or_default();
        let brought = items().filter(|item| out_of_core || item.part != Part::H);
        let scalars = brought.map(|item| item.loaded.len()).max().unwrap_or_default();
        let [h, w] = self.scratch();
        bases.max((scalars * Fr::BYTES) as u64).max(h).max(w)
    }

    /// The stages of the sums, and the seconds of both. `out_of_core`: the quotient is on the host; `kept`: the witness is
    /// on the device already. `None` if these do not go together.
    pub(super) fn stages(
        &self,
        shape: &Shape,
        rates: &Rates,
        out_of_core: bool,
        kept: bool,
    ) -> Option<([Stage; 2], f64)> {
        let by_chunk = matches!(self.chunks, Chunks::Witness { .. });
        // A witness that stands whole for the matrices is not cut later.
        if kept && by_chunk {
            return None;
        }
        let [first, second] = &self.stages;
        let h_on_device = if out_of_core { 0 } else { (Fr::BYTES as u64) << shape.log_n };
        let (witness, packed) = (shape.witness_bytes(), shape.packed.bytes());
        let (mut walks, mut uploads) = ([Walked::default(); 2], 0);
        let mut walk = Walk {
            shape,
            brings: [
                if out_of_core { Brings::Plain } else { Brings::Nothing },
                if by_chunk { Brings::Packed } else { Brings::Nothing },
            ],
            loaded: Default::default(),
        };
        let mut is_there = kept;
        for (index, stage) in self.stages.iter().enumerate() {
            let h = if index == 0 { h_on_device } else { 0 };
            let walked = &mut walks[index];
            // A witness that stands whole comes when it is first wanted.
            if !by_chunk && !is_there && stage.has_witness() {
                walked.add(h + witness + packed, packed);
                is_there = true;
            }
            let whole = if is_there { witness } else { 0 };
            uploads += walked.upload;
            uploads += walk.over(&stage.items, h + whole, stage.scratch, walked);
            // H is done.
            walk.loaded[0] = Loaded::default();
        }
        let stage = |name, walked: Walked, kernel_seconds| Stage {
            kernel_seconds,
            ..Stage::new(name, walked.peak, [walked.upload, 0], rates)
        };
        let stages = [
            stage("H sum", walks[0], first.kernel_seconds),
            stage("sums over the witness", walks[1], second.kernel_seconds),
        ];
        Some((stages, first.seconds + second.seconds + uploads as f64 / rates.upload))
    }
}

/// A walk over items as the prover takes them: the next one's buffers are brought before the last one's are dropped.
struct Walk<'a> {
    shape: &'a Shape,
    /// For scalars of H, and of the witness.
    brings: [Brings; 2],
    loaded: [Loaded; 2],
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

/// Scalars that were brought.
#[derive(Default)]
struct Loaded {
    range: Option<Range<usize>>,
    bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Walked {
    peak: u64,
    upload: u64,
}

impl Walked {
    /// So many bytes are there at once, and so many more were uploaded.
    fn add(&mut self, live: u64, upload: u64) {
        self.peak = self.peak.max(live);
        self.upload += upload;
    }
}

impl Walk<'_> {
    /// Adds what `items` need to `walked`; `base` is there all the time, the scratch from the first sum on. Returns the
    /// uploads for scalars.
    fn over(&mut self, items: &[Item], mut base: u64, scratch: u64, walked: &mut Walked) -> u64 {
        let (mut held, mut uploads) = (0, 0);
        for (index, item) in items.iter().enumerate() {
            let mut live = base + held + self.loaded_bytes();
            let source = usize::from(item.part != Part::H);
            if self.loaded[source].range.as_ref() != Some(&item.loaded) {
                let plain = (item.loaded.len() * Fr::BYTES) as u64;
                let packed = || self.shape.packed.slice_bytes(item.loaded.clone());
                let (now, packed, upload) = match self.brings[source] {
                    Brings::Nothing => (0, 0, 0),
                    Brings::Plain => (plain, 0, plain),
                    Brings::Packed => (plain, packed(), packed()),
                };
                walked.add(live + now + packed, upload);
                uploads += upload;
                live += now;
                self.loaded[source] = Loaded { range: Some(item.loaded.clone()), bytes: now };
            }
            if index == 0 {
                base += scratch;
                live += scratch;
            }
            held = item.bytes(self.shape);
            walked.add(live + held, held);
        }
        uploads
    }

    fn loaded_bytes(&self) -> u64 {
        self.loaded.iter().map(|loaded| loaded.bytes).sum()
    }
}
