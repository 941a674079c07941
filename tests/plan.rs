//! Plans: properties of all of them on made-up shapes, and the promise that matters on real ones: the same proof, and
//! exactly the bytes that the plan says.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::fixture::Fixture;
use forebay::Error;
use forebay::backend::cpu::Cpu;
use forebay::backend::virtual_card::VirtualCard;
use forebay::backend::{Backend, DeviceInfo, Raised, Rates};
use forebay::compact::Compact;
use forebay::field::Fr;
use forebay::format::Silent;
use forebay::groth16::{DeviceKey, Task};
use forebay::key::Density;
use forebay::plan::{self, Options, Packed, Part, Plan, Queries, QueryShape, RowsShape, Shape};
use proptest::prelude::*;

const ALL: Options =
    Options { max_in_flight: 2, resident: true, host_bytes: u64::MAX, partitions: 1000 };

/// A card of a kind: only its answers.
struct Card(DeviceInfo);

impl Card {
    fn new() -> Self {
        Self(DeviceInfo {
            backend: "card",
            name: "card".into(),
            memory_bytes: 16 << 30,
            max_buffer_bytes: u64::MAX,
            unified: false,
            rates: Rates {
                upload: 25e9,
                download: 25e9,
                butterflies: 20e9,
                g1_terms: 100e6,
                g2_terms: 40e6,
                seconds_per_sum: 1e-3,
                raised_share: 0.8,
                raise_sums: 25.0,
            },
        })
    }
}

impl Queries for Card {
    fn device(&self) -> &DeviceInfo {
        &self.0
    }

    fn table_bytes(&self, log_n: u32) -> u64 {
        64 << (log_n / 2)
    }

    fn scratch_bytes(&self, part: Part, raised: Option<Raised>, len: usize) -> u64 {
        let bucket = if part == Part::BG2 { 256 } else { 128 };
        let windows = raised.map_or(2, Raised::windows) as u64;
        20 * windows * len as u64 + (bucket << 16)
    }

    fn raised_for(&self, part: Part, points: usize) -> Option<Raised> {
        (part != Part::A && points > 1).then(|| Raised::new(16))
    }
}

/// A density of `len` variables, about `percent` of which have a point.
fn density(len: usize, percent: usize) -> Density {
    Density::from_bits((0..len).map(|i| i.wrapping_mul(2_654_435_761) % 100 < percent))
}

fn shape(log_n: u32, variables: usize, inputs: usize, percent: usize, packed: bool) -> Shape {
    let query = |len: usize, percent| {
        let density = density(len, percent);
        QueryShape::of(density.ones(), &density)
    };
    let rows = if packed {
        RowsShape::Packed { bytes: 4 << log_n }
    } else {
        RowsShape::Matrices { bytes: 60 << log_n }
    };
    let values: Vec<Fr> = (0..variables as u64).map(|i| Fr::from(i * i * i % 7 * i)).collect();
    Shape {
        log_n,
        inputs,
        variables,
        h: (1 << log_n) - 1,
        queries: [
            QueryShape::unknown(variables - inputs, variables - inputs),
            query(variables, percent),
            query(variables, percent / 2),
            query(variables, percent / 2),
        ],
        rows,
        packed: Packed::Known(Arc::new(Compact::pack(&values))),
    }
}

fn any_shape() -> impl Strategy<Value = Shape> {
    (1u32..=11, 0usize..=100, any::<bool>())
        .prop_flat_map(|(log_n, percent, packed)| {
            let variables = (2usize..=2 << log_n).prop_flat_map(|v| (Just(v), 1..v));
            (Just(log_n), variables, Just(percent), Just(packed))
        })
        .prop_map(|(log_n, (variables, inputs), percent, packed)| {
            shape(log_n, variables, inputs, percent, packed)
        })
}

/// Every plan's decisions, without its figures.
fn decisions(plan: &Plan) -> String {
    plan.summary()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_element_is_covered_exactly_once(shape in any_shape()) {
        let card = Card::new();
        for plan in plan::candidates(&shape, &card, &ALL) {
            let mut next: BTreeMap<Part, (usize, usize)> = BTreeMap::new();
            for item in plan.items(&shape, &card.0.rates).concat() {
                let first = if item.part == Part::L { shape.inputs } else { 0 };
                let (scalar, base) = next.entry(item.part).or_insert((first, 0));
                // A chunk without bases is left out: the scalars between have none.
                let query = shape.query(item.part);
                let rank = |index: usize| query.map_or(index, |query| query.rank(index - first));
                prop_assert_eq!(rank(item.scalars.start), rank(*scalar));
                prop_assert_eq!(item.bases.clone(), *base..rank(item.scalars.end));
                prop_assert!(!item.bases.is_empty());
                prop_assert!(item.loaded.start <= item.scalars.start && item.scalars.end <= item.loaded.end);
                prop_assert_eq!(item.dense, item.bases.len() == item.scalars.len());
                (*scalar, *base) = (item.scalars.end, item.bases.end);
            }
            for part in [Part::H].into_iter().chain(Part::QUERIES) {
                let points = shape.query(part).map_or(shape.h, |query| query.points);
                prop_assert_eq!(next.get(&part).map_or(0, |(_, bases)| *bases), points);
            }
        }
    }

    #[test]
    fn a_chosen_plan_fits_and_more_memory_is_never_slower(shape in any_shape(), parts in 2u64..200) {
        let card = Card::new();
        let ladder = plan::ladder(&shape, &card, &ALL);
        let (largest, smallest) = (ladder[0].needs(), ladder[ladder.len() - 1].needs());
        let mut last: Option<Plan> = None;
        for capacity in (0..=parts).map(|part| smallest + (largest - smallest) * part / parts) {
            let plan = plan::choose(&shape, &card, capacity, &ALL).unwrap();
            prop_assert!(plan.needs() <= capacity);
            prop_assert!(plan.resident_bytes + plan.peak() <= capacity);
            prop_assert_eq!(plan.releases().iter().sum::<u64>(), plan.peak());
            prop_assert!(last.is_none_or(|last| plan.seconds <= last.seconds));
            last = Some(plan);
        }
        prop_assert_eq!(last, Some(ladder[0].clone()));
        let error = plan::choose(&shape, &card, smallest - 1, &ALL).unwrap_err();
        prop_assert!(matches!(error, Error::NeverFits { need, .. } if need == smallest), "{}", error);
    }

    #[test]
    fn more_needs_more(log_n in 7u32..=12, percent in 1usize..=100, packed in any::<bool>()) {
        let card = Card::new();
        let of = |log_n: u32| shape(log_n, (1 << log_n) - 5, 3, percent, packed);
        let (small, large) = (of(log_n), of(log_n + 1));
        let by_decision = |shape: &Shape| -> BTreeMap<String, Plan> {
            plan::candidates(shape, &card, &ALL).into_iter().map(|plan| (decisions(&plan), plan)).collect()
        };
        let large_plans = by_decision(&large);
        let mut compared = 0;
        for (decision, plan) in by_decision(&small) {
            let Some(larger) = large_plans.get(&decision) else { continue };
            compared += 1;
            prop_assert!(plan.needs() <= larger.needs(), "{}", decision);
            prop_assert!(plan.transfers() <= larger.transfers(), "{}", decision);
            prop_assert!(plan.seconds <= larger.seconds, "{}", decision);
        }
        prop_assert!(compared > 10, "only {} decisions are possible for both", compared);
        let smallest = |shape| plan::ladder(shape, &card, &ALL).last().map(Plan::needs);
        prop_assert!(smallest(&small) <= smallest(&large));
    }
}

#[test]
fn queries_are_raised_where_enough_partitions_are_expected() {
    let shape = shape(12, 4000, 3, 60, true);
    let card = Card::new();
    let fastest = |partitions: usize, capacity: u64| {
        let options = Options { partitions, ..ALL };
        plan::choose(&shape, &card, capacity, &options).unwrap()
    };
    let plain = fastest(1, u64::MAX);
    assert!(plain.raised.is_empty() && plain.raising_seconds == 0.0, "{}", plain.summary());
    assert_eq!(plain.resident.len(), 5, "{}", plain.summary());
    // Each costs as much as 25 sums, and spares a fifth of one.
    assert_eq!(fastest(125, u64::MAX).summary(), plain.summary());
    // A has none on this card.
    let raised = fastest(1_000_000, u64::MAX);
    assert_eq!(raised.raised, [Part::H, Part::L, Part::BG1, Part::BG2]);
    assert!(raised.summary().contains("with multiples of H, L, B in G1, B in G2;"));
    assert!(raised.raising_seconds > 0.0 && raised.seconds < plain.seconds);
    // 15 more copies of each.
    let points = |part| shape.query(part).unwrap().points as u64;
    let in_g1 = shape.h as u64 + points(Part::L) + points(Part::BG1);
    let copies = 15 * (96 * in_g1 + 192 * points(Part::BG2));
    assert_eq!(raised.resident_bytes, plain.resident_bytes + copies);
    // Where the last query's have no room, it has none; chunks of sums do not give as much.
    let one = Options { partitions: 1_000_000, max_in_flight: 1, ..ALL };
    let all = plan::choose(&shape, &card, u64::MAX, &one).unwrap();
    let room = all.needs() - 15 * 192 * points(Part::BG2);
    let fewer = plan::choose(&shape, &card, room, &one).unwrap();
    assert_eq!((all.raised, fewer.raised), (raised.raised.clone(), raised.raised[..3].to_vec()));
    // A plan that is fitted to another task of the key keeps them, and what they cost.
    let fitted = raised.refit(&shape, &card).unwrap();
    assert_eq!(fitted, raised);
}

#[test]
fn a_device_of_small_buffers_gets_plans_of_small_buffers() {
    let shape = shape(12, 4000, 3, 60, true);
    let mut card = Card::new();
    let fastest = &plan::ladder(&shape, &card, &ALL)[0];
    assert_eq!(fastest.quotient, plan::Quotient::PackedRows);
    card.0.max_buffer_bytes = 1 << 16;
    // Scratch of this card has a constant part; without it anything can be cut small enough.
    struct Lean(Card);
    impl Queries for Lean {
        fn device(&self) -> &DeviceInfo {
            self.0.device()
        }
        fn table_bytes(&self, log_n: u32) -> u64 {
            self.0.table_bytes(log_n)
        }
        fn scratch_bytes(&self, _part: Part, _raised: Option<Raised>, len: usize) -> u64 {
            8 * len as u64
        }
        fn raised_for(&self, _part: Part, _points: usize) -> Option<Raised> {
            Some(Raised::new(20))
        }
    }
    let ladder = plan::ladder(&shape, &Lean(card), &ALL);
    assert!(!ladder.is_empty());
    for plan in ladder {
        assert!(
            matches!(plan.quotient, plan::Quotient::OutOfCore { log_block } if log_block <= 11)
        );
        for item in plan.items(&shape, &Card::new().0.rates).concat() {
            let point = if item.part == Part::BG2 { 192 } else { 96 };
            assert!(point * item.bases.len() <= 1 << 16, "{item:?}");
        }
    }
}

/// Runs every plan there is for a fixture.
fn run_all<B: Backend>(backend: &B, fixture: &Fixture) {
    let Fixture { name, key, assignment, .. } = fixture;
    let want = fixture.prove(backend).unwrap();
    let task = Task::new(key, assignment).unwrap();
    let one = Options { max_in_flight: 1, ..ALL };
    let plans = plan::candidates(task.shape(), backend, &one);
    assert!(plans.len() > 3, "{name} has only {} plans", plans.len());
    let raises = plans.iter().any(|plan| !plan.raised.is_empty());
    assert_eq!(raises, !backend.info().unified, "{name}: multiples of resident queries");
    for plan in plans {
        let what = format!("{name}: {}", plan.summary());
        let resident = (!plan.resident.is_empty()).then(|| {
            let lease = backend.budget().lease("a resident key", plan.resident_bytes).unwrap();
            let key = DeviceKey::load(backend, &task, &plan, &lease).unwrap();
            assert_eq!(lease.high_water(), plan.resident_bytes, "{what}");
            key
        });
        let lease = backend.budget().lease(&what, plan.peak()).unwrap();
        let sums = task.sums(backend, &plan, resident.as_ref(), &lease, &Silent).expect(&what);
        assert_eq!(lease.high_water(), plan.peak(), "{what}");
        // What is in use beyond that is on its way back.
        assert!(lease.allowance() <= plan.bytes_from(2), "{what}");
        drop((lease, resident));
        assert!(sums.prove(&task, &fixture.blinding()).expect(&what) == want, "{what}");
    }
}

#[test]
fn every_plan_gives_the_same_proof_in_exactly_its_bytes() {
    for fixture in [Fixture::circom("edge"), Fixture::bellman("edge16").remove(0)] {
        run_all(&Cpu::open(), &fixture);
        run_all(&VirtualCard::open(common::card_model(1 << 30)), &fixture);
    }
    run_all(&Cpu::open(), &Fixture::bellman("mimc322").remove(0));
    // Of many chunks, in which queries differ.
    for name in ["porep-32gib", "window-post-32gib"] {
        run_all(&Cpu::open(), &Fixture::synthetic(name, 10));
    }
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn every_plan_gives_the_same_proof_on_a_card() {
    let card = common::cuda::card();
    for fixture in [Fixture::circom("edge"), Fixture::synthetic("porep-32gib", 10)] {
        run_all(&card, &fixture);
    }
}
