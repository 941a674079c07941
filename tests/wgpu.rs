//! What the wgpu backend promises beside what every backend does: whole proofs of every fixture, kernels that compute wrongly
//! found by name, a lost device, a warm one. On lavapipe, Mesa's software adapter; ignored unless asked for.
#![cfg(feature = "wgpu")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use common::fixture::Fixture;
use common::vectors::{Bellman, Circom};
use common::wgpu::{lavapipe, lavapipe_plain, lavapipe_small, software};
use forebay::Error;
use forebay::backend::wgpu::{Adapter, Options, Wgpu, devices};
use forebay::backend::{Backend, Msm, Output, Packed, Pending, Quotient, Transform};
use forebay::compact::Block;
use forebay::curve::{Coordinate, G1Affine};
use forebay::engine::{self, Devices, Engine, OnFailure};
use forebay::field::{Field, Fp, Fr};
use forebay::format::Progress;

/// What is replaced in each kernel by something that is a little wrong.
const SPOILS: [(&str, &str, &str); 26] = [
    ("mark", "= parameters.number", "= parameters.number + 1u"),
    ("quotient", "f_sub(left, right)", "f_sub(right, left)"),
    ("expand", "f_sub(f_zero(), value)", "value"),
    ("matvec", "f_sub(sum, term)", "f_add(sum, term)"),
    ("ntt", "f_sub(right, left)", "f_sub(left, right)"),
    ("ntt_across", "exponent = 0u - exponent;", ""),
    ("scan_tiles", "= scanned + sum", "= scanned"),
    ("scan_sums", "+= total", "+= total + 1u"),
    ("scan_place", "before += value", "before += value + 1u"),
    ("msm_ranks", "countOneBits(density[", "countOneBits(1u | density["),
    ("msm_digits", "u32(down != negative)", "u32(down)"),
    ("msm_scatter", "+ orders[i]", ""),
    ("msm_accumulate of G1", "f_sub(f_zero(), value)", "value"),
    ("msm_accumulate of G2", "f_sub(f_zero(), value)", "value"),
    ("msm_join of G1", "behind = run + 2u", "behind = run + 1u"),
    ("msm_join of G2", "behind = run + 2u", "behind = run + 1u"),
    ("msm_reduce of G1", "carry_over(0u, OTHER, POINT);", ""),
    ("msm_reduce of G2", "carry_over(0u, OTHER, POINT);", ""),
    ("msm_fold of G1", "(1u << bit) | low", "low"),
    ("msm_fold of G2", "(1u << bit) | low", "low"),
    ("multiples_scalars", "f_unit())", "f_one())"),
    ("multiples_add of G1", "f_sub(f_zero(), value)", "value"),
    ("multiples_add of G2", "f_sub(f_zero(), value)", "value"),
    ("multiples_affine of G1", "put(BEFORE, f_one())", "put(BEFORE, f_zero())"),
    ("multiples_affine of G2", "put(BEFORE, f_one())", "put(BEFORE, f_zero())"),
    ("group_that_is_none", "", ""),
];

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn a_kernel_that_computes_wrongly_is_named() {
    for (kernel, from, to) in SPOILS {
        let spoil = Some((kernel.into(), from.into(), to.into()));
        match Wgpu::open(Options { spoil, ..software() }) {
            Ok(_) => assert_eq!(kernel, "group_that_is_none", "a spoiled kernel is not found"),
            Err(error) => assert!(
                matches!(&error, Error::Kernel { backend: "wgpu", name, log }
                    if name == kernel && log.contains("computes wrongly")),
                "{kernel}: {error}"
            ),
        }
    }
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn a_kernel_that_does_not_compile_is_named() {
    let spoil = Some(("matvec".into(), "= column[at]".into(), "= no_column[at]".into()));
    let error = Wgpu::open(Options { spoil, ..software() }).err().expect("no such array");
    assert!(matches!(&error, Error::Kernel { name, .. } if name == "matvec"), "{error}");
}

/// Ranks take three segments, the density another three, scalars hundreds.
#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn a_long_density_takes_several_segments() {
    let card = Wgpu::open(Options { segment_bytes: Some(4 << 10), ..software() }).expect("Mesa");
    let (stream, lease) =
        (card.stream().expect("a stream"), card.budget().lease("test", 64 << 20).expect("a lease"));
    const LEN: usize = 70_001;
    let scalars: Vec<_> = (0..LEN as u64).map(|i| Fr::from(i * i + 1)).collect();
    let mut density = vec![0u64; LEN.div_ceil(64)];
    let chosen: Vec<_> = (0..LEN).filter(|i| i % 997 == 5 || *i + 1 == LEN).collect();
    chosen.iter().for_each(|i| density[i / 64] |= 1 << (i % 64));
    let g = Fp::generator().to_point();
    let multiple = |k: usize| g.scale(&Fr::from(k as u64 + 1)).to_affine();
    let bases: Vec<G1Affine> = (0..chosen.len()).map(multiple).collect();
    let total = chosen
        .iter()
        .enumerate()
        .fold(Fr::ZERO, |total, (k, i)| total + Fr::from(k as u64 + 1) * scalars[*i]);

    let bases = card.adopt(&stream, &lease, "bases", Arc::new(bases)).expect("adopt");
    let scalars = card.adopt(&stream, &lease, "scalars", Arc::new(scalars)).expect("adopt");
    let density = card.adopt(&stream, &lease, "density", Arc::new(density)).expect("adopt");
    let words = card.msm_scratch::<Fp>(LEN).div_ceil(8) as usize;
    let mut scratch = card.alloc::<u64>(&lease, "scratch", words).expect("scratch");
    let base_range = 0..chosen.len();
    let density = Some(&density);
    let (bases, scalars) = (&bases, &scalars);
    let sum = Msm { bases, base_range, scalars, range: 0..LEN, density, raised: None };
    let sum = card.msm::<Fp>(&stream, sum, &mut scratch).and_then(Pending::wait).expect("a sum");
    assert_eq!(sum.to_affine(), g.scale(&total).to_affine());
}

#[test]
fn a_missing_adapter_has_a_reason() {
    for adapter in [Adapter::Index(1000), Adapter::Named("no such adapter".into())] {
        let error = Wgpu::open(Options { adapter, ..Options::default() }).err().expect("none");
        assert!(
            matches!(&error, Error::NoDevice { backend, reason } if backend == "wgpu" && !reason.is_empty()),
            "{error}"
        );
    }
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn software_is_told_as_such() {
    let found = devices().expect("adapters");
    let is_it = |found: &&forebay::backend::wgpu::Found| found.name.contains("llvmpipe");
    assert!(found.iter().find(is_it).expect("lavapipe").is_software);
}

fn proofs_are_the_fixtures(backend: &Wgpu) {
    for vector in Circom::all() {
        let fixture = Fixture::circom(&vector.name);
        let proof = fixture.prove(backend).expect(&vector.name);
        let want = vector.named_file("proof.json");
        assert!(forebay::format::json::write_proof(&proof) == want, "{}", vector.name);
    }
    for vector in Bellman::all() {
        let name = vector.folder.file_name().and_then(|name| name.to_str()).expect("a name");
        for (fixture, part) in Fixture::bellman(name).iter().zip(vector.parts()) {
            let proof = fixture.prove(backend).expect(name);
            let want = common::vectors::read(&part.join("proof"));
            assert!(proof.to_bytes()[..] == want, "{}", part.display());
        }
    }
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn proofs_of_all_fixtures_are_right() {
    proofs_are_the_fixtures(&lavapipe());
}

#[test]
#[ignore = "needs a GPU: -- --include-ignored on_a_card"]
fn proofs_of_all_fixtures_are_right_on_a_card() {
    proofs_are_the_fixtures(&common::wgpu::any());
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn proofs_of_all_fixtures_are_right_without_64_bit_integers() {
    proofs_are_the_fixtures(&lavapipe_plain());
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn proofs_in_tiny_segments_are_right() {
    for fixture in Fixture::smallest() {
        assert!(fixture.prove(&lavapipe_small()).expect("a proof") == fixture.right());
    }
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn a_warm_device_is_asked_for_no_memory() {
    // Nobody else's buffers come and go.
    let device = Wgpu::open(software()).expect("lavapipe");
    let fixture = Fixture::circom("pub0");
    let want = fixture.right();
    // Buffers come back a moment after a proof, so that the next may need others: enough for three are more than enough.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let prove = || (0..3).for_each(|_| assert!(fixture.prove(&device).unwrap() == want));
            scope.spawn(prove);
        }
    });
    let before = device.device_wide_calls();
    for _ in 0..10 {
        assert!(fixture.prove(&device).expect("a proof") == want);
    }
    let after = device.device_wide_calls();
    assert!(before > 0 && after == before, "{} new buffers", after - before);
}

/// Many threads on one device: each in its order, whatever the others do.
#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn threads_do_not_disturb_one_another() {
    let device = lavapipe();
    let fixtures = [Fixture::circom("edge"), Fixture::bellman("edge8").remove(0)];
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (device, fixture) = (&device, &fixtures[i % 2]);
            scope.spawn(move || {
                let want = fixture.right();
                for _ in 0..3 {
                    assert!(fixture.prove(device).expect("a proof") == want);
                }
            });
        }
    });
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn every_call_to_a_lost_device_says_so() {
    let device = Wgpu::open(software()).expect("lavapipe");
    let lease = device.budget().lease("a device to lose", 1 << 20).expect("a lease");
    let stream = device.stream().expect("a stream");
    let mut a = device.alloc::<Fr>(&lease, "a", 8).expect("a");
    let x = device.alloc::<Fr>(&lease, "x", 8).expect("x");
    let blocks = device.alloc::<Block>(&lease, "blocks", 1).expect("blocks");
    let small = device.alloc::<u32>(&lease, "small", 1).expect("small");
    let table = device.ntt_table(&stream, &lease, 3).expect("table");
    device.destroy();
    let ones = [Fr::default(); 8];
    let packed = || Packed { blocks: &blocks, small: &small, wide: &x };
    let outcomes = [
        device.alloc::<Fr>(&lease, "b", 8).map(drop),
        device.upload(&stream, &ones, &mut a, 0),
        device.download(&stream, &x, 0, &mut [Fr::default(); 8]),
        device.quotient(&stream, Quotient::Product, &mut a, &x),
        device.expand(&stream, packed(), Output::Set, &mut a),
        device.ntt(&stream, Transform::Evaluate, &table, &mut a),
        device.stream().map(drop),
    ];
    for (i, outcome) in outcomes.into_iter().enumerate() {
        let error = outcome.expect_err("nothing is there");
        assert!(matches!(error, Error::DeviceLost { backend: "wgpu", .. }), "call {i}: {error}");
    }
    drop((a, x, blocks, small, table));
    drop(lease);
    assert_eq!(device.budget().leased(), 0, "bytes on a lost device");
}

/// The device that an engine has opened last.
static LAST: Mutex<Option<Wgpu>> = Mutex::new(None);

/// Loses it when the job that this is told of begins its third stage.
struct LoseOnce(AtomicU64);

impl Progress for LoseOnce {
    fn begin(&self, _what: &str, _total: u64) {}

    fn advance(&self, _steps: u64) {}

    fn stage(&self, _name: &'static str) {
        if self.0.fetch_add(1, Ordering::SeqCst) == 2 {
            let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            last.as_ref().expect("an open device").destroy();
        }
    }
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn an_engine_opens_a_lost_device_again() {
    a_lost_device_is_opened_again(software);
}

#[test]
#[ignore = "needs a GPU: -- --include-ignored on_a_card"]
fn an_engine_opens_a_lost_device_again_on_a_card() {
    a_lost_device_is_opened_again(|| Options { vram: Some(1 << 30), ..Options::default() });
}

fn a_lost_device_is_opened_again(options: fn() -> Options) {
    let fixture = Fixture::circom("edge");
    let open = move || {
        let device = Wgpu::open(options())?;
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(device.clone());
        Ok(device)
    };
    let mut devices = Devices::new();
    devices.add(open).expect("a device");
    let options = engine::Options { on_failure: OnFailure::Error, ..engine::Options::default() };
    let engine = Engine::new(devices, options).expect("an engine");
    let job = fixture.job("edge", 4).progress(Arc::new(LoseOnce(AtomicU64::new(0))));
    let proved = engine.submit(job).expect("submitted").wait().expect("proofs");
    assert!(proved.iter().all(|proved| proved.proof == fixture.right()));
    let stats = engine.stats();
    assert_eq!((stats.proved, stats.failed), (4, 0), "{stats:?}");
    assert!(stats.retried >= 1, "{stats:?}");
}

/// A lease of more than the driver has: that is refused by name, and the device goes on.
fn memory_that_is_not_there_is_refused(options: Options) {
    const LEN: usize = 1 << 38;
    let bytes = (LEN * size_of::<Fr>()) as u64;
    let device = Wgpu::open(Options { vram: Some(2 * bytes), ..options }).expect("a device");
    let lease = device.budget().lease("too much", bytes).expect("a lease");
    let refused = device.alloc::<Fr>(&lease, "a buffer", LEN).map(drop);
    assert!(
        matches!(&refused, Err(Error::Refused { backend: "wgpu", label, .. }) if label == "a buffer"),
        "{refused:?}"
    );
    drop(lease);
    let fixture = Fixture::circom("pub0");
    assert!(fixture.prove(&device).expect("a proof") == fixture.right());
}

#[test]
#[ignore = "needs Mesa: -- --include-ignored"]
fn the_hosts_memory_has_an_end_too() {
    const LIMITED: &str = "FOREBAY_TEST_HAS_A_LIMIT";
    if std::env::var_os(LIMITED).is_some() {
        return memory_that_is_not_there_is_refused(software());
    }
    // This test again, in a process that may have 12 GiB of addresses: the system grants more than there is.
    let mut again = std::process::Command::new("sh");
    again.args(["-c", r#"ulimit -v 12582912; exec "$0" "$@""#]);
    again.arg(std::env::current_exe().expect("this program"));
    again.args(["--exact", "the_hosts_memory_has_an_end_too", "--include-ignored"]);
    let output = again.env(LIMITED, "1").output().expect("sh");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "needs a GPU, and a process of its own: -- --include-ignored --exact a_cards_memory_has_an_end"]
fn a_cards_memory_has_an_end() {
    memory_that_is_not_there_is_refused(Options::default());
}

/// CUDA and this backend see the same card: what one leases, the other cannot; and who came first said how much there is.
#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA card, and a process of its own: -- --include-ignored --exact one_card_has_one_budget"]
fn one_card_has_one_budget() {
    use forebay::backend::cuda::{self, Cuda};
    let card = cuda::devices().expect("a card").remove(0);
    let capacity = 1 << 30;
    let vram = Some(capacity);
    let cuda = Cuda::open(0, cuda::Options { vram, ..Default::default() }).expect("a card");
    let adapter = Adapter::Named(card.pci_bus_id);
    let wgpu = Wgpu::open(Options { adapter, ..Options::default() }).expect("the same card");
    assert_eq!((wgpu.budget().capacity(), cuda.budget().capacity()), (capacity, capacity));
    for foreign in [wgpu.foreign_bytes(), cuda.foreign_bytes()] {
        assert_eq!(foreign.expect("bytes"), 0, "the card has more than the budget");
    }
    assert_eq!(wgpu.info().max_buffer_bytes, capacity);
    let half = capacity / 2 + 1;
    let lease = wgpu.budget().lease("a half and one", half).expect("a lease");
    assert_eq!(cuda.budget().leased(), half);
    let refused = cuda.budget().lease("another half and one", half).map(drop);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    drop(lease);
    cuda.budget().lease("a half and one", half).expect("a lease");
}
