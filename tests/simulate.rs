//! The simulator: the two-lock failure beside our rules, what must hold in every run, and the command.
//!
//! The figures of the first tests are the reason why the project exists, so they are bars, not snapshots: a
//! change of the policy or of the scenario that breaks one must say why.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use forebay::simulate::{
    BufferSpec, Phase, Report, Resource, Scenario, Scheme, Stage, WhenFull, simulate,
};
use forebay::timeline::{Class, Span, Timeline};

const GIB: u64 = 1 << 30;

fn porep() -> Scenario {
    Scenario::built_in("porep-32gib").unwrap()
}

fn run(scenario: &Scenario, scheme: Scheme) -> Report {
    simulate(scenario, scheme).unwrap().0
}

fn split_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/scenarios/porep-32gib-split.json")
}

fn split() -> Scenario {
    Scenario::from_json(&std::fs::read(split_file()).unwrap()).unwrap()
}

// The bars: 30 partitions, 16 GiB, three workers, the same stage times.

#[test]
fn two_locks_run_out_of_memory() {
    let report = run(&porep(), Scheme::TwoLock);
    assert!(report.oom && !report.completed, "{report:?}");
    assert!(report.failure.unwrap().contains("worker 1 has 12.00 GiB"));
}

#[test]
fn asking_the_device_costs_more_than_one_lock() {
    let one = run(&porep(), Scheme::SingleLock);
    let sync = run(&porep(), Scheme::TwoLockSync);
    assert!(one.completed && sync.completed, "{one:?} {sync:?}");
    assert!(sync.makespan_s >= 1.5 * one.makespan_s, "{} {}", sync.makespan_s, one.makespan_s);
    assert_eq!(sync.device_global_syncs, 3 * sync.partitions);
}

#[test]
fn admission_keeps_the_card_busy() {
    let one = run(&porep(), Scheme::SingleLock);
    let ours = run(&porep(), Scheme::Admission);
    assert!(ours.completed && !ours.oom && !ours.deadlock, "{ours:?}");
    assert_eq!((ours.device_global_syncs, ours.partitions_done), (0, 30));
    assert!(ours.gpu_busy_fraction >= 0.95, "{ours:?}");
    assert!(ours.high_water_bytes <= 16 * GIB, "{ours:?}");
    assert!(ours.makespan_s <= 0.92 * one.makespan_s, "{} {}", ours.makespan_s, one.makespan_s);
}

// What the bars hang on.

/// Where one lock can overlap its own uploads and transforms, there is less to win: 6 %, not 13 %.
#[test]
fn a_finer_upload_leaves_less_to_win() {
    let (one, ours) = (run(&split(), Scheme::SingleLock), run(&split(), Scheme::Admission));
    let ratio = ours.makespan_s / one.makespan_s;
    assert!((0.92..0.95).contains(&ratio), "{ratio}");
    assert!(ours.gpu_busy_fraction > 0.99, "{ours:?}");
}

/// The upload of the next partition hides behind the MSMs down to a bus of 20 GB/s, so that what the bus also
/// carries then, and the model does not know, would have to take more than half of it to matter.
#[test]
fn a_slower_bus_is_still_hidden() {
    let slow = Scenario { pinned_bytes_per_s: 20_000_000_000, ..porep() };
    assert!(run(&slow, Scheme::Admission).gpu_busy_fraction >= 0.95);
}

/// Without room for whoever computes first, the patched form fails as its post-mortem tells: a worker that found no
/// room gets the compute lock while a later one has staged.
#[test]
fn the_naive_patch_runs_out_of_memory_too() {
    let naive = Scenario { staging_reserve_bytes: Some(0), ..porep() };
    let report = run(&naive, Scheme::TwoLockSync);
    assert!(report.oom, "{report:?}");
    let failure = report.failure.unwrap();
    assert!(failure.contains("has 12.00 GiB and waits for the compute lock"), "{failure}");
    assert!(run(&Scenario { workers: 2, ..naive }, Scheme::TwoLockSync).completed);
}

/// An allocator that waits turns running out of memory into a deadlock, at the sizes where two staged
/// partitions fit and what one computes with does not.
#[test]
fn a_waiting_allocator_deadlocks() {
    let waiting = Scenario { when_full: WhenFull::Wait, ..porep() };
    let report = run(&Scenario { card_bytes: 25 * GIB, ..waiting.clone() }, Scheme::TwoLock);
    assert!(report.deadlock && !report.oom, "{report:?}");
    assert_eq!(
        report.failure.as_deref(),
        Some(
            "worker 1 waits for 1.60 GiB held by worker 2, worker 2 waits for the compute lock held by worker 1"
        )
    );
    // At 16 GiB it serialises instead, and on a card large enough for all nothing is wrong with two locks.
    assert!(run(&waiting, Scheme::TwoLock).completed);
    assert!(run(&Scenario { card_bytes: 40 * GIB, ..porep() }, Scheme::TwoLock).completed);
}

#[test]
fn one_worker_alone_is_the_same_under_every_scheme() {
    let alone = Scenario { workers: 1, ..porep() };
    let times = Scheme::ALL.map(|scheme| run(&alone, scheme).makespan_s);
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}

/// Compact rows leave nothing to hide: every scheme keeps the card busy, and two locks fit.
#[test]
fn compact_rows_need_no_cleverness() {
    let compact = Scenario::built_in("porep-32gib-compact").unwrap();
    for scheme in Scheme::ALL {
        let report = run(&compact, scheme);
        assert!(report.completed && report.gpu_busy_fraction > 0.99, "{report:?}");
        assert!(report.high_water_bytes <= 16 * GIB, "{report:?}");
    }
    let small = Scenario { card_bytes: 10 * GIB, ..compact };
    assert!(run(&small, Scheme::Admission).completed);
}

#[test]
fn what_never_fits_is_refused_before_the_first_byte() {
    let small = Scenario { card_bytes: 12 * GIB, ..porep() };
    let report = run(&small, Scheme::Admission);
    assert!(!report.completed && !report.oom && !report.deadlock, "{report:?}");
    assert_eq!(report.high_water_bytes, small.baseline_bytes);
    assert!(run(&small, Scheme::SingleLock).oom);
}

// What must hold in every run.

fn lane<'a>(timeline: &'a Timeline, name: &str) -> Vec<&'a Span> {
    let index = timeline.lanes().iter().position(|lane| lane == name).unwrap();
    let mut spans: Vec<&Span> = timeline.spans().iter().filter(|span| span.lane == index).collect();
    spans.sort_by_key(|span| (span.start_ns, span.end_ns));
    spans
}

fn expect_sound(scenario: &Scenario, scheme: Scheme) -> Report {
    let (report, timeline) = simulate(scenario, scheme).unwrap();
    let about = format!("{scheme:?} {}", scenario.to_json());
    assert_eq!(simulate(scenario, scheme).unwrap(), (report.clone(), timeline.clone()), "{about}");
    assert!(report.high_water_bytes <= scenario.card_bytes, "{about}");
    assert_eq!(report.completed, report.failure.is_none(), "{about}");
    assert!(!report.completed || report.partitions_done == report.partitions, "{about}");
    let failure = report.failure.as_deref().unwrap_or("");
    assert_eq!(
        report.deadlock,
        failure.contains("waits for") && failure.contains("held by"),
        "{about}"
    );
    if scheme == Scheme::Admission {
        assert!(!report.oom && !report.deadlock && report.device_global_syncs == 0, "{about}");
    }

    for name in ["copy engine", "compute engine"] {
        let spans = lane(&timeline, name);
        assert!(spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{name} {about}");
    }
    let busy: u64 = lane(&timeline, "compute engine").iter().map(|s| s.end_ns - s.start_ns).sum();
    assert_eq!(busy as f64 / (report.makespan_s * 1e9).round().max(1.0), report.gpu_busy_fraction);

    let in_use = timeline.series().iter().find(|series| series.name == "in use").unwrap();
    // A buffer that comes and goes in one instant is in the high-water mark only.
    let most = in_use.points.iter().map(|point| point.1).max().unwrap();
    assert!(most <= report.high_water_bytes, "{about}");
    assert!(most == report.high_water_bytes || scenario.name == "random", "{about}");
    if report.completed {
        assert_eq!(in_use.points.last().unwrap().1, scenario.baseline_bytes, "{about}");
        assert_eq!(report.final_bytes, scenario.baseline_bytes, "{about}");
        // Every compute stage of every partition ran once.
        let mut runs: HashMap<(&str, &str), u32> = HashMap::new();
        for span in lane(&timeline, "compute engine") {
            let stage = span.detail.split(';').next().unwrap();
            *runs.entry((&span.label, stage)).or_default() += 1;
        }
        let kernels = scenario.stages.iter().filter(|s| s.resource == Resource::Compute).count();
        assert_eq!(runs.len() as u64, report.partitions * kernels as u64, "{about}");
        assert!(runs.values().all(|count| *count == 1), "{about}");
    }
    if let Some(leased) = timeline.series().iter().find(|series| series.name == "leased") {
        assert!(leased.points.iter().all(|point| point.1 <= scenario.card_bytes), "{about}");
    }
    report
}

#[test]
fn nothing_is_lost_and_nothing_happens_twice() {
    for scenario in [porep(), split(), Scenario::built_in("porep-32gib-compact").unwrap()] {
        for scheme in Scheme::ALL {
            for workers in 1..=4 {
                expect_sound(&Scenario { workers, ..scenario.clone() }, scheme);
            }
        }
    }
}

/// A generator with a fixed seed (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// A small scenario; sizes near the card's, so that all kinds of ends occur.
    fn scenario(&mut self) -> Scenario {
        let mut stages: Vec<Stage> = Vec::new();
        let mut live: Vec<String> = Vec::new();
        let phases = [
            (Phase::Background, self.below(3)),
            (Phase::Staging, self.below(3)),
            (Phase::Compute, 1 + self.below(4)),
            (Phase::Finish, self.below(2)),
        ];
        let last_compute = phases[..3].iter().map(|(_, count)| count).sum::<u64>() - 1;
        for (phase, count) in phases {
            for _ in 0..count {
                let i = stages.len();
                let resource = match (phase, self.below(4)) {
                    (Phase::Background | Phase::Finish, _) | (_, 0) => Resource::Host,
                    (Phase::Staging, _) => Resource::Copy,
                    (Phase::Compute, _) => Resource::Compute,
                };
                let on_card = matches!(phase, Phase::Staging | Phase::Compute);
                let allocs = if on_card { self.below(3) } else { 0 };
                let alloc: Vec<BufferSpec> = (0..allocs)
                    .map(|k| BufferSpec { name: format!("b{i}.{k}"), bytes: self.below(40) })
                    .collect();
                live.extend(alloc.iter().map(|buffer| buffer.name.clone()));
                let mut free = Vec::new();
                if phase == Phase::Compute {
                    let all = i as u64 == last_compute;
                    live.retain(|name| {
                        let goes = all || self.below(3) == 0;
                        if goes {
                            free.push(name.clone());
                        }
                        !goes
                    });
                }
                let names = stages.iter().map(|stage| stage.name.clone());
                let after: Vec<String> = names.filter(|_| self.below(3) == 0).collect();
                stages.push(Stage {
                    name: format!("s{i}"),
                    phase,
                    resource,
                    ns: self.below(20),
                    bytes: if resource == Resource::Copy { self.below(100) } else { 0 },
                    after,
                    alloc,
                    free,
                    class: None,
                    source: String::new(),
                });
            }
        }
        let mut kept = stages.iter().filter(|s| s.phase == Phase::Compute).map(|s| &s.name);
        let kept = kept.next_back().filter(|_| self.below(2) == 0).cloned();
        Scenario {
            name: "random".into(),
            sources: Vec::new(),
            card_bytes: 60 + self.below(100),
            baseline_bytes: self.below(10),
            pinned_bytes_per_s: 10_000_000_000,
            pageable_bytes_per_s: 3_000_000_000,
            jobs: 1 + self.below(3) as u32,
            partitions_per_job: 1 + self.below(4) as u32,
            workers: 1 + self.below(4) as u32,
            job_interval_ns: self.below(100),
            when_full: if self.below(2) == 0 { WhenFull::Fail } else { WhenFull::Wait },
            prestaged_until: kept,
            staging_reserve_bytes: (self.below(2) == 0).then(|| self.below(60)),
            stages,
        }
    }
}

#[test]
fn random_scenarios_are_sound() {
    let mut dice = Dice(20);
    let mut ends: HashMap<(Scheme, bool, bool, bool), u32> = HashMap::new();
    for _ in 0..2000 {
        let scenario = dice.scenario();
        for scheme in Scheme::ALL {
            let report = expect_sound(&scenario, scheme);
            *ends.entry((scheme, report.completed, report.oom, report.deadlock)).or_default() += 1;
        }
    }
    // The generator reaches the ends that it is there for.
    for scheme in Scheme::ALL {
        assert!(ends[&(scheme, true, false, false)] > 100, "{ends:?}");
    }
    assert!(ends[&(Scheme::TwoLock, false, true, false)] > 100, "{ends:?}");
    assert!(ends[&(Scheme::TwoLock, false, false, true)] > 20, "{ends:?}");
    assert!(ends[&(Scheme::Admission, false, false, false)] > 20, "{ends:?}");
}

// Files.

#[test]
fn scenarios_survive_a_file() {
    let mut dice = Dice(7);
    let random = (0..50).map(|_| dice.scenario());
    let known = Scenario::built_in_names().map(|name| Scenario::built_in(name).unwrap());
    for scenario in random.chain(known).chain([split()]) {
        let again = Scenario::from_json(scenario.to_json().as_bytes()).unwrap();
        assert_eq!(again, scenario);
    }
}

#[test]
fn a_bad_scenario_says_where() {
    let good = porep().to_json();
    let swaps = [
        ("\"workers\": 3", "\"workers\": 0", "workers: found 0"),
        ("\"workers\": 3", "\"workers\": -1", "line 17 column"),
        ("\"workers\": 3", "\"labourers\": 3", "labourers"),
        ("\"card_bytes\": 17179869184", "\"card_bytes\": \"16 GiB\"", "16 GiB"),
        ("\"card_bytes\": 17179869184", "\"card_bytes\": 1024", "baseline_bytes"),
        ("\"pinned_bytes_per_s\": 50000000000", "\"pinned_bytes_per_s\": 0", "pinned_bytes_per_s"),
        (
            "\"upload c\"\n      ],",
            "\"upload d\"\n      ],",
            "stages[7] (transforms).after[2]: found upload d",
        ),
        ("\"d_bc\"\n      ],", "\"d_a\"\n      ],", "stages[8] (H MSM).free[2]: found d_a"),
        ("\"name\": \"H MSM\"", "\"name\": \"prep\"", "stages[8] (prep).name"),
        ("\"phase\": \"finish\"", "\"phase\": \"staging\"", "stages[12] (epilogue).phase"),
        ("\"ns\": 690000000", "\"ns\": 69000000000000000", "stages[7] (transforms).ns"),
        ("\"prestaged_until\": \"H MSM\"", "\"prestaged_until\": \"prep\"", "prestaged_until"),
    ];
    for (from, to, place) in swaps {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        let error = Scenario::from_json(bad.as_bytes()).unwrap_err();
        assert_eq!(error.exit_code(), 1, "{to}");
        assert!(error.to_string().contains(place), "{to}: {error}");
    }
    for cut in (0..good.len() - 1).step_by(97) {
        assert!(Scenario::from_json(&good.as_bytes()[..cut]).is_err(), "{cut}");
    }
}

// Pictures.

/// That a text is well-formed XML, as far as our pictures go: elements nest, attributes are quoted and unique, only
/// the five entities occur. Returns the text of all elements.
fn expect_xml(xml: &str) -> String {
    let (mut open, mut text, mut rest) = (Vec::new(), String::new(), xml);
    let entities = |part: &str| {
        for (at, _) in part.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
            assert!(known.iter().any(|entity| part[at..].starts_with(entity)), "{part}");
        }
        assert!(part.chars().all(|c| c >= ' ' || c == '\n'), "{part:?}");
    };
    while let Some(start) = rest.find('<') {
        entities(&rest[..start]);
        assert!(!rest[..start].contains('>'), "{}", &rest[..start]);
        assert!(!open.is_empty() || rest[..start].trim().is_empty(), "text outside of the root");
        text.push_str(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{xml}");
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut seen = Vec::new();
        while let Some((attribute, more)) = attributes.split_once("=\"") {
            let attribute = attribute.trim();
            assert!(!seen.contains(&attribute) && !attribute.contains(['"', ' ']), "{tag}");
            seen.push(attribute);
            let (value, more) = more.split_once('"').expect("an attribute ends");
            entities(value);
            attributes = more;
        }
        assert!(attributes.trim().is_empty(), "{tag}");
        if !closed {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    text
}

#[test]
fn pictures_are_well_formed() {
    for scheme in Scheme::ALL {
        let (_, timeline) = simulate(&porep(), scheme).unwrap();
        let text = expect_xml(&timeline.to_svg());
        assert!(text.contains("compute engine") && text.contains("16.00 GiB"));
        assert_eq!(text.contains("OUT OF MEMORY"), scheme == Scheme::TwoLock);
        expect_xml(&timeline.window(1_000_000_000, 2_000_000_000).to_svg());
    }
    expect_xml(&Timeline::new("nothing").to_svg());
    let odd = "</svg>&\"'<\u{0}\u{b}\u{ffff}\n\té";
    let mut timeline = Timeline::new(odd);
    timeline.subtitle = odd.repeat(40);
    let lane = timeline.lane(odd);
    let (label, detail) = (odd.to_owned(), odd.to_owned());
    timeline.span(Span { lane, label, detail, class: Class::Wait, start_ns: 5, end_ns: 5 });
    timeline.bytes(odd, 0, u64::MAX);
    timeline.bytes(odd, 9, 0);
    timeline.mark(u64::MAX / 2, odd);
    expect_xml(&timeline.to_svg());
}

#[test]
fn traces_have_every_span_and_point() {
    let (_, timeline) = simulate(&porep(), Scheme::Admission).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&timeline.to_chrome_json()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["ph"] == kind).collect::<Vec<_>>();
    assert_eq!(of("X").len(), timeline.spans().len());
    assert_eq!(of("C").len(), timeline.series().iter().map(|s| s.points.len()).sum::<usize>());
    let kernels = of("X").into_iter().filter(|event| event["cat"] == "transforms, quotient");
    assert_eq!(kernels.map(|event| event["dur"].as_f64().unwrap()).sum::<f64>(), 30.0 * 690_000.0);
}

// The command.

fn forebay(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("simulate")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn the_command_reports_and_draws() {
    let folder = tempfile::tempdir().unwrap();
    let output = forebay(
        folder.path(),
        &[
            "porep-32gib",
            "--vram",
            "16GiB",
            "--workers",
            "3",
            "--scheme",
            "two-lock",
            "--json",
            "--svg",
            "a.svg",
            "--trace",
            "a.json",
        ],
    );
    // A run that fails is a result.
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report, run(&porep(), Scheme::TwoLock));
    let fields: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(fields["scheme"], "two-lock");
    assert_eq!(fields["oom"], true);
    expect_xml(&std::fs::read_to_string(folder.path().join("a.svg")).unwrap());
    assert!(
        std::fs::read_to_string(folder.path().join("a.json"))
            .unwrap()
            .starts_with("{\"displayTimeUnit\"")
    );

    let file = split_file();
    let output = forebay(folder.path(), &[file.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("porep-32gib-split") && text.contains("30 of 30"), "{text}");
}

#[test]
fn the_command_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let bad = porep().to_json().replacen("\"workers\": 3", "\"workers\": \"three\"", 1);
    std::fs::write(folder.path().join("bad.json"), bad).unwrap();
    let cases: [(i32, &[&str], &[&str]); 6] = [
        (1, &["bad.json"], &["bad.json: line ", "three"]),
        (2, &["absent.json"], &["absent.json", "porep-32gib-compact"]),
        (2, &["porep-32gib", "--vram", "16 GB"], &["16 GB", "GiB"]),
        (2, &["porep-32gib", "--vram", "100MiB"], &["baseline_bytes"]),
        (2, &["porep-32gib", "--workers", "0"], &["workers"]),
        (2, &["porep-32gib", "--svg", "x", "--trace", "x"], &["named twice"]),
    ];
    for (code, arguments, words) in cases {
        let output = forebay(folder.path(), arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{arguments:?} {text}");
    }
}
