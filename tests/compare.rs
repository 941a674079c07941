//! Comparing backends: that they agree, and that what one of them does wrong is found, named, and shrunk to an input that
//! shows it again.

mod common;

use std::sync::Mutex;

use forebay::backend::cpu::Cpu;
use forebay::backend::virtual_card::{CardModel, Fault as CardFault, VirtualCard};
use forebay::compare::{Backends, Failing, Report, STAGES, Search, compare, replay};
use forebay::field::Fr;
use forebay::format::{Progress, Silent};
use forebay::groth16::{Blinding, prove};
use forebay::{Error, Result};
use serde_json::{Value, json};

use common::card_model;
use common::faulty::{Fault, Faulty};
use common::fixture::Fixture;

/// More launches than a whole comparison and its search have.
const LAUNCHES: u64 = 4000;

fn with_cpu(backend: impl forebay::backend::Backend) -> Backends {
    let mut backends = Backends::new();
    backends.add(Cpu::open());
    backends.add(backend);
    backends
}

fn report(backends: &Backends, fixture: &Fixture, progress: &dyn Progress) -> Report {
    compare(backends, &fixture.key, &fixture.assignment, progress).expect("a report")
}

/// The stages that differ.
fn differing(report: &Report) -> Vec<&'static str> {
    let differ = report.stages.iter().filter(|stage| stage.differs().is_some());
    differ.map(|stage| stage.name).collect()
}

/// Launches of a card before each stage.
struct Launches(VirtualCard, Mutex<Vec<(&'static str, u64)>>);

impl Progress for Launches {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn stage(&self, name: &'static str) {
        self.1.lock().unwrap().push((name, self.0.counters().launches));
    }
}

/// The stages of a fixture's proof, and which launch of a comparison is the last of each.
fn last_launches(fixture: &Fixture) -> Vec<(&'static str, u64)> {
    let card = VirtualCard::open(CardModel::midrange());
    let launches = Launches(card.clone(), Mutex::default());
    let clean = report(&with_cpu(card), fixture, &launches);
    assert!(clean.finding.is_none());
    let seen = launches.1.into_inner().unwrap();
    let before =
        |stage: &'static str| seen.iter().find(|(name, _)| *name == stage).expect("a stage").1;
    let stages: Vec<_> = clean.stages.iter().map(|stage| stage.name).collect();
    stages.windows(2).map(|pair| (pair[0], before(pair[1]) - 1)).collect()
}

#[test]
fn backends_agree() {
    let fixtures = [
        Fixture::circom("edge"),
        Fixture::circom("bsparse"),
        Fixture::bellman("poseidon2").remove(0),
        Fixture::synthetic("porep-32gib", 8),
        Fixture::synthetic("dense-10", 8),
    ];
    let mut seen = Vec::new();
    for fixture in fixtures {
        let report = report(&with_cpu(VirtualCard::open(CardModel::midrange())), &fixture, &Silent);
        report.outcome().expect(&fixture.name);
        assert_eq!(report.stages.len(), STAGES.len() - 2, "{}", fixture.name);
        assert!(report.finding.is_none() && report.proved == Some(true));
        let blinding = Blinding::fixed_for_testing(Fr::from(2), Fr::from(3));
        let proof = prove(&Cpu::open(), &fixture.key, &fixture.assignment, &blinding, &Silent);
        let proof = blake3::hash(&proof.expect("a proof").to_bytes());
        let last = report.stages.last().expect("the proof");
        assert!(last.results.iter().all(|outcome| outcome.digest == proof), "{}", fixture.name);
        seen.extend(report.stages.iter().map(|stage| stage.name));
    }
    assert!(STAGES.iter().all(|stage| seen.contains(stage)), "{seen:?}");
}

#[test]
fn a_wrong_bit_is_found_in_every_stage_and_shrunk() {
    for fixture in Fixture::smallest() {
        for (stage, launch) in last_launches(&fixture) {
            let place = format!("{}, {stage}", fixture.name);
            let card = VirtualCard::open(CardModel::midrange());
            (launch..LAUNCHES).for_each(|after| card.inject(CardFault::CorruptLaunch, after));
            let backends = with_cpu(card.clone());
            let report = report(&backends, &fixture, &Silent);
            assert_eq!(differing(&report)[0], stage, "{place}");
            let finding = report.finding.as_ref().expect("a finding");
            assert_eq!((finding.failing.stage(), finding.backend), (stage, 1), "{place}");
            assert_eq!(finding.search, Search::Smallest, "{place}");
            let smallest = match stage {
                _ if stage.contains("sum") => 0,
                _ if stage.contains(':') => 2,
                _ => 1,
            };
            assert_eq!(finding.failing.elements(), smallest, "{place}");
            let error = report.outcome().unwrap_err();
            assert_eq!(error.exit_code(), 1);
            assert!(error.to_string().starts_with(&format!("virtual differs from cpu in {stage}")));

            let file = finding.failing.to_json().expect("small");
            let failing = Failing::from_json(&file).expect("a failing input");
            assert_eq!(failing.to_json().expect("small"), file, "{place}");
            let again = replay(&backends, &failing).expect("a report");
            let digests = again.stages[0].results.iter().map(|outcome| outcome.digest);
            assert_eq!(digests.collect::<Vec<_>>(), [failing.expected(), failing.found()]);
            let (_, difference) = again.stages[0].differs().expect("a difference");
            assert_eq!(*difference, finding.difference, "{place}");
            card.forgive();
            replay(&backends, &failing).expect("a report").outcome().expect(&place);
        }
    }
}

/// What happens once is told, with the stage, and taints no other.
#[test]
fn a_bit_that_is_wrong_once_is_told() {
    let fixture = Fixture::circom("pub0");
    for (stage, launch) in last_launches(&fixture) {
        let card = VirtualCard::open(CardModel::midrange());
        card.inject(CardFault::CorruptLaunch, launch);
        let report = report(&with_cpu(card), &fixture, &Silent);
        assert_eq!(differing(&report), [stage]);
        let finding = report.finding.expect("a finding");
        assert_eq!(finding.search, Search::NotAgain, "{stage}");
        assert_eq!(
            finding.failing.elements(),
            report.stages.iter().find(|s| s.name == stage).unwrap().elements
        );
    }
}

/// The proof has launches of its own, which no operation before it has.
#[test]
fn a_proof_that_alone_is_wrong_differs() {
    let fixture = Fixture::circom("pub0");
    let (_, last) = *last_launches(&fixture).last().expect("sums");
    let card = VirtualCard::open(CardModel::midrange());
    card.inject(CardFault::CorruptLaunch, last + 1);
    let report = report(&with_cpu(card), &fixture, &Silent);
    assert_eq!(differing(&report), ["proof"]);
    assert!(report.finding.is_none());
    assert!(matches!(report.outcome(), Err(Error::Differ(_))));
}

/// Faults that some inputs do not show: what is left of the input must.
#[test]
fn what_shows_only_with_some_inputs_is_shrunk_to_one() {
    let (circom, bellman) = (Fixture::circom("edge"), Fixture::bellman("edge16").remove(0));
    let dense = Fixture::synthetic("dense-10", 8);
    let cases = [
        // A block's wide values start one early, which the first block's cannot.
        (&dense, Fault::ExpandMisplacesWide, "witness", 65),
        (&bellman, Fault::ExpandSets, "rows of C", 1),
        (&circom, Fault::MatvecDropsLastEntry, "rows of A", 1),
        (&circom, Fault::MatvecLosesSign, "rows of A", 1),
        (&circom, Fault::MatvecSets, "rows of C", 1),
        (&circom, Fault::InterpolateScale, "a: interpolate", 2),
        (&circom, Fault::InterpolateOrder, "a: interpolate", 32),
        (&circom, Fault::EvaluateOddDomain, "a: evaluate odd", 2),
        (&bellman, Fault::InterpolateOddScale, "product: interpolate odd", 2),
        (&circom, Fault::ProductDropsLast, "product", 1),
        (&circom, Fault::DifferenceNegated, "difference", 1),
        (&bellman, Fault::HalfDifferenceNotHalved, "half difference", 1),
        (&circom, Fault::MsmTopBitG1, "H sum", 1),
        (&circom, Fault::MsmLastBaseG1, "H sum", 1),
        (&circom, Fault::MsmOffsetG1, "L sum", 1),
        (&circom, Fault::MsmDensityG2, "B sum in G2", 2),
        (&circom, Fault::MsmTopBitG2, "B sum in G2", 1),
        (&circom, Fault::MsmLastBaseG2, "B sum in G2", 1),
    ];
    for (fixture, fault, stage, elements) in cases {
        let backends = with_cpu(Faulty::new(Cpu::open(), Some(fault)));
        let report = report(&backends, fixture, &Silent);
        assert_eq!(differing(&report).first(), Some(&stage), "{fault:?}");
        let finding = report.finding.as_ref().expect("a finding");
        assert_eq!(finding.search, Search::Smallest, "{fault:?}");
        assert_eq!(finding.failing.elements(), elements, "{fault:?}");
        let file = finding.failing.to_json().expect("small");
        let again = replay(&backends, &Failing::from_json(&file).expect("a failing input"));
        let stage = &again.expect("a report").stages[0];
        let (_, difference) = stage.differs().expect("a difference");
        assert_eq!(*difference, finding.difference, "{fault:?}");
    }
}

#[test]
fn reports_say_what_differs() {
    let fixture = Fixture::circom("edge");
    let backends = with_cpu(Faulty::new(
        VirtualCard::open(CardModel::midrange()),
        Some(Fault::MatvecLosesSign),
    ));
    let report = report(&backends, &fixture, &Silent);
    let text = report.to_string();
    for words in [
        "r and s are fixed",
        "DIFFERS",
        "rows of A, virtual: the smallest input that differs, elements: 1",
        "element 0, the first of 1 that differ",
        "expected ",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let json = report.to_json();
    assert_eq!(json["agree"], false);
    assert_eq!(json["failing"]["stage"], "rows of A");
    assert_eq!(json["failing"]["backend"], "virtual");
    assert_eq!(json["failing"]["search"], "smallest");
    let stages = json["stages"].as_array().expect("stages");
    let agree = |name: &str| {
        let stage = stages.iter().find(|stage| stage["stage"] == name).expect(name);
        let digest = |index: usize| stage["results"][index]["blake3"].as_str().expect("a digest");
        let agrees = stage["agrees"].as_bool().expect("a boolean");
        assert_eq!(agrees, digest(0) == digest(1), "{name}");
        agrees
    };
    assert!(agree("witness") && agree("H sum") && !agree("rows of A") && !agree("proof"));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let fixture = Fixture::circom("edge");
    let mut one = Backends::new();
    one.add(Cpu::open());
    let compare = |backends: &Backends| {
        compare(backends, &fixture.key, &fixture.assignment, &Silent).map(|_| ()).unwrap_err()
    };
    assert!(matches!(compare(&one), Error::Usage(_)));
    // Rows of 128 elements need 4096 bytes, and their matrix.
    let small = with_cpu(VirtualCard::open(card_model(4096)));
    let error = compare(&small);
    assert!(matches!(error, Error::NeverFits { capacity: 4096, .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
}

/// A file with another input, under the right digest.
fn forged(file: &[u8], change: impl FnOnce(&mut Value)) -> Result<Failing> {
    let mut file: Value = serde_json::from_slice(file).expect("JSON");
    change(&mut file["input"]);
    let input = serde_json::to_vec(&file["input"]).expect("JSON");
    file["blake3"] = json!(blake3::hash(&input).to_hex().as_str());
    Failing::from_json(&serde_json::to_vec(&file).expect("JSON"))
}

/// The file of what a fault does to a fixture.
fn file_of(fixture: &Fixture, fault: Fault) -> Vec<u8> {
    let report = report(&with_cpu(Faulty::new(Cpu::open(), Some(fault))), fixture, &Silent);
    report.finding.expect("a finding").failing.to_json().expect("small")
}

#[test]
fn files_that_are_cut_short_or_altered_are_refused() {
    let fixture = Fixture::circom("edge");
    for fault in [Fault::MatvecSets, Fault::MsmDensityG2] {
        let file = file_of(&fixture, fault);
        // The last byte is a line's end.
        for len in 0..file.len() - 1 {
            let error = Failing::from_json(&file[..len]).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{len}: {error}");
        }
        for place in 0..file.len() {
            let mut altered = file.clone();
            altered[place] ^= 1;
            match Failing::from_json(&altered) {
                Err(Error::Invalid(_)) => {}
                Err(other) => panic!("{place}: {other}"),
                Ok(failing) => {
                    // Space for space.
                    assert!(file[place].is_ascii_whitespace(), "{place}");
                    assert_eq!(failing.to_json(), Some(file.clone()), "{place}");
                }
            }
        }
    }
    let error = Failing::from_json(&vec![b' '; Failing::MOST_BYTES as usize + 1]);
    assert!(error.is_err_and(|error| error.to_string().contains("at most")));
}

#[test]
fn files_that_no_backend_could_do_are_refused() {
    let circom = Fixture::circom("edge");
    let refuse = |file: &[u8], words: &str, change: &dyn Fn(&mut Value)| {
        let error = forged(file, change).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(words), "{error}");
    };
    let matvec = file_of(&circom, Fault::MatvecLosesSign);
    forged(&matvec, |_| ()).expect("nothing is changed");
    fn operation<'a>(input: &'a mut Value, name: &str) -> &'a mut Value {
        &mut input["operation"][name]
    }
    let sum = file_of(&circom, Fault::MsmDensityG2);
    let transform = file_of(&circom, Fault::InterpolateScale);
    let product = file_of(&circom, Fault::ProductDropsLast);
    refuse(&matvec, "stage", &|input| input["stage"] = json!("another"));
    refuse(&matvec, "expected", &|input| input["expected"] = json!("00"));
    refuse(&matvec, "unknown field", &|input| input["more"] = json!(1));
    refuse(&matvec, "unknown field", &|input| operation(input, "matvec")["more"] = json!(1));
    refuse(&matvec, "zeros", &|input| {
        operation(input, "matvec")["onto"]["zeros"] = json!(u64::MAX);
    });
    refuse(&matvec, "onto", &|input| operation(input, "matvec")["onto"]["zeros"] = json!(0));
    refuse(&matvec, "column", &|input| operation(input, "matvec")["x"] = json!([]));
    refuse(&matvec, "number of rows", &|input| {
        operation(input, "matvec")["rows"] = json!([[], []]);
    });
    for number in ["", "00", "01", "A", "+1", "g", &"f".repeat(64), &"1".repeat(65)] {
        refuse(&matvec, "below the modulus", &|input| {
            operation(input, "matvec")["x"][0] = json!(number);
        });
    }
    for len in [0, 1, 3] {
        refuse(&transform, "power of two", &|input| {
            operation(input, "transform")["data"] = json!(vec!["1"; len]);
        });
    }
    refuse(&product, "number of elements", &|input| {
        operation(input, "quotient")["operand"] = json!(["1", "2"]);
    });
    refuse(&sum, "base 0", &|input| operation(input, "sum-in-g2")["bases"][0][0] = json!("1"));
    refuse(&sum, "base 0", &|input| operation(input, "sum-in-g2")["bases"][0] = json!(["0"]));
    refuse(&sum, "has_base", &|input| operation(input, "sum-in-g2")["has_base"] = json!([]));
    refuse(&sum, "has_base", &|input| {
        operation(input, "sum-in-g2")["has_base"] = json!([]);
        operation(input, "sum-in-g2")["bases"] = json!([]);
    });
    refuse(&sum, "first", &|input| operation(input, "sum-in-g2")["first"] = json!(u64::MAX));
    refuse(&sum, "first", &|input| operation(input, "sum-in-g2")["scalars"] = json!([]));
}
