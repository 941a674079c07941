//! The real binary: exit codes, messages, and files that are whole or not there.

#[path = "common/circuit.rs"]
mod circuit;
#[path = "common/vectors.rs"]
mod vectors;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use circuit::{Circuit, wtns};
use forebay::backend::cpu::Cpu;
use forebay::backend::virtual_card::{CardModel, Fault, VirtualCard};
use forebay::compare::{Backends, compare};
use forebay::field::{Field, Fp, Fr};
use forebay::format::{Silent, arkworks, json};
use forebay::profile::{Profile, synthetic::synthesise};
use tempfile::TempDir;
use vectors::{Circom, read};

/// A folder with its own memory of checked keys, in which the binary runs.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// The fixture's files under their own names.
    fn with_fixture(name: &str) -> Self {
        let (place, vector) = (Self::new(), Circom::named(name));
        for extension in ["zkey", "wtns", "r1cs"] {
            place.write(&format!("c.{extension}"), &vector.file(extension));
        }
        for file in ["proof.json", "public.json", "verification_key.json"] {
            place.write(file, &vector.named_file(file));
        }
        place
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .current_dir(&self.0)
            .env("FOREBAY_CACHE", self.path("cache"))
            .output()
            .unwrap()
    }

    /// Runs, expects an exit code, and returns standard output and error.
    fn expect(&self, code: i32, arguments: &str) -> (String, String) {
        let output = self.run(&arguments.split_whitespace().collect::<Vec<_>>());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments}\n{out}{err}");
        (out, err)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn prove_then_verify() {
    let place = Place::with_fixture("edge");
    let (out, err) = place.expect(0, "prove c.zkey c.wtns p.json x.json --r1cs c.r1cs");
    assert!(out.is_empty());
    contains(&err, &["points checked now", "proved and verified on cpu"]);
    let (out, _) = place.expect(0, "verify verification_key.json x.json p.json");
    contains(&out, &["OK"]);
    assert_eq!(read(&place.path("x.json")), read(&place.path("public.json")));
    assert_ne!(
        read(&place.path("p.json")),
        read(&place.path("proof.json")),
        "the blinding must be random"
    );
}

#[test]
fn a_key_is_checked_once_and_remembered_by_digest() {
    let place = Place::with_fixture("allpub");
    let line = "prove c.zkey c.wtns p.json x.json";
    contains(&place.expect(0, line).1, &["points checked now"]);
    contains(&place.expect(0, line).1, &["points checked before"]);
    contains(&place.expect(0, &format!("{line} --skip-key-checks")).1, &["points NOT checked"]);
    // Another file is another key: a changed byte in the ceremony's record is enough.
    let mut zkey = read(&place.path("c.zkey"));
    *zkey.last_mut().unwrap() ^= 1;
    place.write("c.zkey", &zkey);
    contains(&place.expect(0, line).1, &["points checked now"]);
    // A mark that is cut short or damaged is no mark.
    for entry in std::fs::read_dir(place.path("cache/checked-keys")).unwrap() {
        std::fs::write(entry.unwrap().path(), "forebay").unwrap();
    }
    contains(&place.expect(0, line).1, &["points checked now"]);
}

#[test]
fn an_unsatisfied_witness_writes_nothing_and_the_row_is_named() {
    let place = Place::new();
    let circuit = Circuit::chain(9, 1, Fr::from(5), Fr::from(7));
    let mut witness = circuit.witness.clone();
    witness[6] += Fr::ONE;
    place.write("c.r1cs", &circuit.r1cs());
    place.write("bad.wtns", &wtns(&witness));
    place.expect(0, "setup c.r1cs c.zkey --insecure");
    place.write("p.json", b"precious");
    let before = place.names();
    let (_, err) = place.expect(1, "prove c.zkey bad.wtns p.json x.json");
    contains(&err, &["does not satisfy", "--r1cs"]);
    let (_, err) = place.expect(1, "prove c.zkey bad.wtns p.json x.json --r1cs c.r1cs");
    contains(&err, &["c.r1cs", "constraint 4"]);
    let after: Vec<_> = place.names().into_iter().filter(|name| name != "cache").collect();
    assert_eq!(after, before);
    assert_eq!(read(&place.path("p.json")), b"precious");
}

#[test]
fn exit_codes_tell_input_usage_and_machine_apart() {
    let place = Place::with_fixture("edge");
    let (_, err) = place.expect(2, "prove missing.zkey c.wtns p.json x.json");
    contains(&err, &["missing.zkey"]);
    place.expect(2, "prove c.zkey c.wtns p.json");
    place.expect(2, "prove c.zkey c.wtns p.json x.json --backend abacus");
    place.expect(2, "prove c.zkey c.wtns p.json x.json --log loud");
    let (_, err) = place.expect(2, "prove c.zkey c.wtns c.wtns x.json");
    contains(&err, &["named twice"]);
    place.expect(2, "prove c.zkey c.wtns same.json same.json");
    place.expect(2, "setup c.r1cs new.zkey");
    place.expect(2, "verify verification_key.json public.json .");
    place.expect(1, "verify verification_key.json public.json public.json");
    place.expect(1, "prove c.wtns c.wtns p.json x.json");
    place.expect(1, "prove c.zkey c.zkey p.json x.json");
    place.write("cut.r1cs", &read(&place.path("c.r1cs"))[..500]);
    contains(&place.expect(1, "inspect cut.r1cs").1, &["cut.r1cs", "section 2"]);
}

#[test]
fn an_output_folder_that_is_not_there_is_usage_and_nothing_is_written() {
    let place = Place::with_fixture("edge");
    let (_, err) = place.expect(2, "prove c.zkey c.wtns no/such/folder/p.json x.json");
    contains(&err, &["no/such/folder/p.json"]);
    assert!(!place.path("x.json").exists());
}

#[test]
fn keys_without_a_second_phase_are_refused() {
    let place = Place::with_fixture("edge");
    place.write("toxic.json", br#"{"tau":"5","alpha":"7","beta":"b","delta":"1"}"#);
    let (_, err) = place.expect(0, "setup c.r1cs weak.zkey --insecure --secrets toxic.json");
    contains(&err, &["INSECURE"]);
    let (_, err) = place.expect(0, "prove weak.zkey c.wtns p.json x.json");
    contains(&err, &["INSECURE", "gamma equals delta"]);
    place.expect(0, "export-vk weak.zkey vk.json");
    let (_, err) = place.expect(1, "verify vk.json x.json p.json");
    contains(&err, &["vk.json", "vk_delta_2", "--allow-insecure-key"]);
    place.expect(0, "verify vk.json x.json p.json --allow-insecure-key");
    // A fresh delta is no second phase that others took part in, and the file says so.
    place.expect(0, "setup c.r1cs dev.zkey --insecure");
    contains(&place.expect(0, "inspect dev.zkey").0, &["insecure", "no contribution"]);
}

#[test]
fn setup_takes_a_device() {
    let place = Place::with_fixture("edge");
    place.write("toxic.json", br#"{"tau":"5","alpha":"7","beta":"b","delta":"d"}"#);
    let line = "setup c.r1cs new.zkey --insecure --secrets toxic.json";
    place.expect(0, line);
    let want = read(&place.path("new.zkey"));
    place.expect(0, &format!("{line} --backend virtual --vram 64MiB"));
    assert!(read(&place.path("new.zkey")) == want);
    let (_, err) = place.expect(3, &format!("{line} --vram 1KiB"));
    contains(&err, &["a block of a key's points"]);
    contains(&place.expect(2, &format!("{line} --device 0")).1, &["--device is for NVIDIA cards"]);
    contains(&place.expect(0, "setup --help").0, &["[default: cpu]"]);
}

#[test]
fn setup_refuses_secrets_that_are_none() {
    let place = Place::with_fixture("edge");
    let r = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";
    for (toxic, words) in [
        ("{}", "tau"),
        (r#"{"tau":"0","alpha":"7","beta":"b","delta":"1"}"#, "tau"),
        (r#"{"tau":"5","alpha":"7","beta":"b","delta":"xyz"}"#, "delta"),
        (&format!(r#"{{"tau":"5","alpha":"{r}","beta":"b","delta":"1"}}"#), "alpha"),
        (r#"{"tau":"5","alpha":"7","beta":"b","delta":"1","gamma":"2"}"#, "gamma"),
        (r#"{"tau":"1","alpha":"7","beta":"b","delta":"1"}"#, "root of unity"),
    ] {
        place.write("toxic.json", toxic.as_bytes());
        let (_, err) = place.expect(1, "setup c.r1cs new.zkey --insecure --secrets toxic.json");
        contains(&err, &[words]);
        assert!(!place.path("new.zkey").exists());
    }
}

#[test]
fn the_verification_key_is_exported_as_snarkjs_does() {
    let place = Place::with_fixture("edge");
    place.expect(0, "export-vk c.zkey vk.json");
    assert_eq!(read(&place.path("vk.json")), read(&place.path("verification_key.json")));
}

#[test]
fn a_converted_key_serves_every_command() {
    let place = Place::with_fixture("edge");
    let (_, err) = place.expect(0, "convert c.zkey c.fbkey");
    contains(&err, &["c.fbkey", "points checked now"]);
    let first = read(&place.path("c.fbkey"));
    contains(&place.expect(0, "convert c.zkey c.fbkey").1, &["points checked before"]);
    assert!(read(&place.path("c.fbkey")) == first, "the same key gives the same file");
    place.expect(0, "convert c.fbkey again.fbkey");
    assert!(read(&place.path("again.fbkey")) == first);

    let line = "prove c.fbkey c.wtns p.json x.json";
    contains(&place.expect(0, line).1, &["points checked before", "proved and verified on cpu"]);
    contains(&place.expect(0, &format!("{line} --skip-key-checks")).1, &["points NOT checked"]);
    place.expect(0, "verify verification_key.json x.json p.json");
    place.expect(0, "export-vk c.fbkey vk.json");
    assert_eq!(read(&place.path("vk.json")), read(&place.path("verification_key.json")));
    place.expect(0, "plan c.fbkey");
    place.expect(0, "compare --backends cpu,virtual c.fbkey c.wtns");
    place.write(
        "jobs.json",
        br#"{"jobs":[{"key":"c.fbkey","partitions":[{"witness":"c.wtns","proof":"b.json","public":"y.json"}]}]}"#,
    );
    place.expect(0, "batch jobs.json");
    place.expect(0, "verify verification_key.json y.json b.json");
    let (out, _) = place.expect(0, "inspect c.fbkey --json --check");
    let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&facts["domain"], &facts["variables"]), (&128.into(), &99.into()));
    assert_eq!(facts["points checked when made"], true);
    contains(&place.expect(0, "inspect c.fbkey").0, &[".fbkey", "made by", "forebay"]);

    // What is altered, cut short or of another circuit writes nothing.
    let names = place.names();
    let mut altered = first.clone();
    altered[5000] ^= 1;
    place.write("altered.fbkey", &altered);
    place.write("cut.fbkey", &first[..first.len() - 1]);
    for (key, words) in [("altered", ["section", "offset"]), ("cut", ["section", "offset"])] {
        let line = format!("prove {key}.fbkey c.wtns q.json z.json");
        contains(&place.expect(1, &line).1, &[&[key][..], &words].concat());
        std::fs::remove_file(place.path(&format!("{key}.fbkey"))).unwrap();
    }
    place.expect(2, "convert c.zkey c.zkey");
    place.expect(2, "convert none.zkey none.fbkey");
    contains(&place.expect(1, "convert c.wtns w.fbkey").1, &["c.wtns", ".zkey, .params or .fbkey"]);
    assert_eq!(place.names(), names);
}

#[test]
fn keys_of_arkworks_are_converted_exported_and_inspected() {
    let place = Place::new();
    for name in ["pk", "vk", "proof"] {
        for name in [name.into(), format!("{name}.compressed")] {
            place.write(&name, &read(&vectors::root().join("arkworks/edge8").join(&name)));
        }
    }
    let proof = arkworks::read_proof(&read(&place.path("proof"))).unwrap();
    place.write("p.json", &json::write_proof(&proof));
    place.write("x.json", &json::write_public(&[Fr::from(11), -Fr::ONE]));
    let mut made: Vec<[Vec<u8>; 2]> = Vec::new();
    for suffix in ["", ".compressed"] {
        let line = format!("convert pk{suffix} key.fbkey");
        contains(&place.expect(0, &line).1, &["points checked now"]);
        contains(&place.expect(0, &line).1, &["points checked before"]);
        for file in [format!("pk{suffix}"), format!("vk{suffix}"), "key.fbkey".into()] {
            place.expect(0, &format!("export-vk {file} vk.json"));
            contains(&place.expect(0, "verify vk.json x.json p.json").0, &["OK"]);
            made.push(["key.fbkey", "vk.json"].map(|name| read(&place.path(name))));
        }
        for (file, words) in [
            (format!("pk{suffix}"), "a proving key (arkworks)"),
            (format!("vk{suffix}"), "a verifying key (arkworks)"),
        ] {
            contains(&place.expect(0, &format!("inspect {file}")).0, &[words, "blake3"]);
        }
        let (out, _) = place.expect(0, &format!("inspect pk{suffix} --json --check"));
        let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
        let counts = ["variables", "public signals", "domain"].map(|name| facts[name].as_u64());
        assert_eq!(counts, [Some(10), Some(2), Some(8)]);
        assert_eq!(facts["compressed"], !suffix.is_empty());
        // In B are 1, an input and three private variables.
        assert_eq!(facts["infinity in B1"], 0.5);
        place.expect(0, &format!("plan pk{suffix}"));
    }
    assert!(made.windows(2).all(|pair| pair[0] == pair[1]));
    contains(&place.expect(0, "inspect proof").0, &["an uncompressed proof (arkworks)"]);
    contains(&place.expect(0, "inspect proof.compressed").0, &["192-byte proofs"]);

    // There are no rows in a witness file, and no matrices in these keys, nor in what is made of them.
    place.write("w.wtns", &wtns(&[Fr::ONE; 10]));
    place.write("params", &vectors::Bellman::named("edge8").file("params"));
    place.write("w9.wtns", &wtns(&[Fr::ONE; 9]));
    for (key, witness) in [
        ("pk", "w.wtns"),
        ("pk.compressed", "w.wtns"),
        ("key.fbkey", "w.wtns"),
        ("params", "w9.wtns"),
    ] {
        let line = format!("prove {key} {witness} q.json z.json");
        let (_, err) = place.expect(1, &line);
        contains(&err, &[&format!("{key}: "), "matrices", "no values of rows"]);
    }
    let mut wrong = read(&place.path("pk"));
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    place.write("wrong", &wrong);
    let (_, err) = place.expect(1, "convert wrong wrong.fbkey");
    contains(&err, &["wrong: L, offset", "point 6", "not on the curve"]);
    assert!(!place.path("wrong.fbkey").exists() && !place.path("q.json").exists());
}

#[test]
fn convert_refuses_a_key_with_a_wrong_point() {
    let place = Place::with_fixture("edge");
    let parts = circuit::sections(&read(&place.path("c.zkey")));
    // (0, 2) has order 3 on y^2 = x^3 + 4; (1, 1) is on no curve of ours.
    let order_three = [Fp::ZERO, Fp::from(2)];
    for (point, words) in [(order_three, "subgroup"), ([Fp::ONE; 2], "not on the curve")] {
        let mut parts = parts.clone();
        let section = parts.iter_mut().find(|(id, _)| *id == 5).unwrap();
        section.1[..96].copy_from_slice(bytemuck::bytes_of(&point));
        place.write("wrong.zkey", &circuit::container(b"zkey", 1, &parts));
        let (_, err) = place.expect(1, "convert wrong.zkey wrong.fbkey");
        contains(&err, &["wrong.zkey", "section 5", "point 0", words]);
        assert!(!place.path("wrong.fbkey").exists());
    }
}

#[test]
fn inspect_knows_every_format() {
    let place = Place::with_fixture("edge");
    let bellman = vectors::Bellman::named("edge8");
    for name in ["params", "vk", "proof"] {
        place.write(name, &bellman.file(name));
    }
    for (file, kind) in [
        ("c.zkey", ".zkey"),
        ("c.wtns", ".wtns"),
        ("c.r1cs", ".r1cs"),
        ("proof.json", "proof.json"),
        ("public.json", "public.json"),
        ("verification_key.json", "verification_key.json"),
        ("params", ".params"),
        ("vk", ".vk"),
        ("proof", "192-byte"),
    ] {
        contains(&place.expect(0, &format!("inspect {file}")).0, &[kind, "blake3"]);
        let (out, _) = place.expect(0, &format!("inspect --json --check {file}"));
        let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(facts["kind"].as_str().unwrap().contains(kind), "{out}");
    }
    let (out, _) = place.expect(0, "inspect c.zkey --json");
    let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&facts["domain"], &facts["variables"]), (&128.into(), &99.into()));
    assert_eq!(facts["insecure"], serde_json::Value::Null);
    place.write("noise", b"\xff\xfe\xfd");
    contains(&place.expect(1, "inspect noise").1, &["noise", "3 bytes"]);
    place.write("empty", b"");
    place.expect(1, "inspect empty");
}

#[test]
fn devices_and_doctor_report_what_is_there() {
    let place = Place::new();
    contains(&place.expect(0, "devices").0, &["cpu", "found", "cuda", "wgpu"]);
    let (out, _) = place.expect(0, "doctor");
    contains(&out, &["pass host: Fr", "pass cpu: sum in G2"]);
    assert!(!out.contains("FAIL"));
}

#[cfg(feature = "cuda")]
#[test]
fn a_card_that_is_not_there_is_named_with_the_reason() {
    let place = Place::with_fixture("allpub");
    let prove = "prove c.zkey c.wtns p.json x.json";
    let (_, err) = place.expect(3, &format!("{prove} --backend cuda --device 1000"));
    contains(&err, &["no device for the backend cuda"]);
    let (_, err) = place.expect(0, &format!("{prove} --device 1000"));
    contains(&err, &["no device for the backend cuda", "on the CPU", "proved and verified on cpu"]);
    let (_, err) = place.expect(2, &format!("{prove} --backend cpu --device 0"));
    contains(&err, &["--device"]);
    let (_, err) = place.expect(3, &format!("{prove} --backend cpu --vram 1000"));
    contains(&err, &["never fits", "1000"]);
    contains(&place.expect(2, "kernels build --arch 90").1, &["sm_90"]);
}

#[test]
fn quiet_says_nothing_and_help_says_what_is_insecure() {
    let place = Place::with_fixture("allpub");
    let (out, err) = place.expect(0, "prove c.zkey c.wtns p.json x.json --quiet");
    assert!(out.is_empty() && err.is_empty(), "{out}{err}");
    contains(&place.expect(0, "--help").0, &["INSECURE", "Exit codes"]);
    contains(&place.expect(0, "setup --help").0, &["forge"]);
    contains(&place.expect(0, "--version").0, &[env!("CARGO_PKG_VERSION")]);
}

#[cfg(unix)]
#[test]
fn outputs_are_readable_as_the_umask_says() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_fixture("allpub");
    place.write("reference", b"");
    place.expect(0, "prove c.zkey c.wtns p.json x.json");
    let mode = |name: &str| Path::new(&place.path(name)).metadata().unwrap().permissions().mode();
    assert_eq!(mode("p.json"), mode("reference"));
}

#[test]
fn batch_proves_what_it_can_and_says_what_failed() {
    let place = Place::with_fixture("edge");
    place.write("bad.wtns", &wtns(&[Fr::ONE; 3]));
    let partition = |witness: &str, name: &str| {
        format!(
            r#"{{"witness": "{witness}", "proof": "{name}.json", "public": "{name}.public.json"}}"#
        )
    };
    let jobs = format!(
        r#"{{"jobs": [
            {{"key": "c.zkey", "partitions": [{}, {}], "priority": "high", "deadline_seconds": 600}},
            {{"key": "c.zkey", "partitions": [{}]}},
            {{"key": "missing.zkey", "partitions": [{}]}},
            {{"key": "c.zkey", "partitions": [{}]}}
        ]}}"#,
        partition("c.wtns", "first"),
        partition("c.wtns", "second"),
        partition("bad.wtns", "bad"),
        partition("c.wtns", "missing"),
        partition("c.wtns", "last"),
    );
    place.write("jobs.json", jobs.as_bytes());
    let (out, err) = place.expect(
        1,
        "batch jobs.json --backend virtual --vram 64MiB --json --svg run.svg --trace run.json",
    );
    contains(&err, &["job 1 failed", "job 2 failed", "missing.zkey"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["jobs"][0]["partitions"][1]["backend"], "virtual");
    assert!(report["jobs"][1]["error"].is_string());
    for name in ["first", "second", "last"] {
        place.expect(0, &format!("verify verification_key.json {name}.public.json {name}.json"));
    }
    let names = place.names();
    assert!(!names.contains(&"bad.json".into()) && !names.contains(&"missing.json".into()));
    let trace: serde_json::Value =
        serde_json::from_slice(&read(&place.path("run.json"))).expect("a trace");
    assert!(trace.to_string().contains("H sum"));
    assert!(String::from_utf8_lossy(&read(&place.path("run.svg"))).starts_with("<svg"));
}

#[test]
fn batch_refuses_files_that_are_not_jobs() {
    let place = Place::with_fixture("edge");
    for (text, words) in [
        ("{", ["jobs.json", "line 1"]),
        (r#"{"jobs": [{"key": "c.zkey"}]}"#, ["jobs.json", "partitions"]),
        (r#"{"jobs": [], "more": 1}"#, ["jobs.json", "more"]),
    ] {
        place.write("jobs.json", text.as_bytes());
        let (_, err) = place.expect(1, "batch jobs.json");
        contains(&err, &words);
    }
    // An output that is an input, or two jobs' output.
    let twice = |proof: &str| {
        let partition =
            format!(r#"{{"witness": "c.wtns", "proof": "{proof}", "public": "public2.json"}}"#);
        format!(r#"{{"jobs": [{{"key": "c.zkey", "partitions": [{partition}]}}]}}"#)
    };
    for proof in ["c.wtns", "public2.json"] {
        place.write("jobs.json", twice(proof).as_bytes());
        let (_, err) = place.expect(2, "batch jobs.json");
        contains(&err, &["named twice"]);
    }
    place.write("jobs.json", br#"{"jobs": [{"key": "c.zkey", "partitions": []}]}"#);
    let (_, err) = place.expect(2, "batch jobs.json");
    contains(&err, &["no partition"]);
}

#[test]
fn plan_prints_the_ladder_the_choice_and_why() {
    let place = Place::with_fixture("edge");
    let (out, _) = place.expect(0, "plan porep-32gib --vram 16GiB --svg plan.svg");
    contains(&out, &["fastest first", "> ", "chosen: ", "why: ", "quotient", "H sum"]);
    assert!(String::from_utf8_lossy(&read(&place.path("plan.svg"))).starts_with("<svg"));
    let (out, _) = place.expect(0, "plan c.zkey --vram 1GiB --json");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["chosen"], 0);
    let needs: Vec<u64> = report["ladder"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["needs_bytes"].as_u64().unwrap())
        .collect();
    assert!(needs.windows(2).all(|pair| pair[0] > pair[1]), "{needs:?}");
    let smallest = needs[needs.len() - 1];
    let (_, err) = place.expect(3, &format!("plan c.zkey --vram {}", smallest - 1));
    contains(&err, &[&format!("need {smallest} bytes")]);
    let (_, err) = place.expect(2, "plan nothing-of-this-name");
    contains(&err, &["porep-32gib", "dense-K"]);
}

#[test]
fn compare_prints_what_backends_agree_on() {
    let place = Place::with_fixture("edge");
    let line = "compare --backends cpu,virtual";
    let (out, _) = place.expect(0, &format!("{line} c.zkey c.wtns"));
    contains(&out, &["r and s are fixed", "BLAKE3", "rows of A", "c: evaluate odd", "B sum in G2"]);
    assert!(!out.contains("DIFFERS"));
    let (out, _) = place.expect(0, &format!("{line} --shape porep-32gib --log-n 8 --json"));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["agree"], &report["proved"]), (&true.into(), &true.into()));
    assert_eq!(report["stages"][0]["results"][1]["backend"], "virtual");
    assert!(report["failing"].is_null());
    // Another seed, other values.
    let digest = |seed: u32| {
        let (out, _) = place.expect(0, &format!("{line} --log-n 4 --seed {seed} --json"));
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        report["stages"][0]["results"][0]["blake3"].to_string()
    };
    assert!(digest(1) == digest(1) && digest(1) != digest(2));
    assert!(!place.names().contains(&"failing.json".into()));

    let values = wtns(&[Fr::ONE; 99]);
    place.write("bad.wtns", &values);
    let (out, err) = place.expect(1, &format!("{line} c.zkey bad.wtns"));
    contains(&out, &["H sum"]);
    contains(&err, &["all backends agree", "does not satisfy"]);
    for (arguments, words) in [
        ("--backends cpu --log-n 4", "two backends"),
        ("--backends cpu,cpu --log-n 4", "named twice"),
        ("--backends cpu,auto --log-n 4", "auto"),
        ("--backends cpu,virtual", "required"),
        ("--backends cpu,virtual c.zkey", "WITNESS"),
        ("--backends cpu,virtual c.zkey c.wtns --log-n 4", "cannot be used with"),
        ("--backends cpu,virtual c.zkey c.wtns --seed 1", "cannot be used with"),
        ("--backends cpu,virtual c.zkey c.wtns --out c.wtns", "named twice"),
        ("--backends cpu,virtual --log-n 1", "domains"),
        ("--backends cpu,virtual --replay none.json", "none.json"),
    ] {
        contains(&place.expect(2, &format!("compare {arguments}")).1, &[words]);
    }
    place.expect(3, "compare --backends cpu,virtual --log-n 10 --vram 4KiB");
}

#[test]
fn compare_does_a_failing_input_again() {
    let place = Place::new();
    let card = VirtualCard::open(CardModel::midrange());
    (0..1000).for_each(|after| card.inject(Fault::CorruptLaunch, after));
    let mut backends = Backends::new();
    backends.add(Cpu::open());
    backends.add(card);
    let profile = Profile::named("dense-4").unwrap();
    let (key, assignment) = synthesise(&profile, 1).unwrap();
    let report = compare(&backends, &key, &assignment, &Silent).unwrap();
    let file = report.finding.unwrap().failing.to_json().unwrap();
    place.write("failing.json", &file);
    // The card of the command has no fault.
    let line = "compare --backends cpu,virtual --replay";
    let (out, _) = place.expect(0, &format!("{line} failing.json"));
    contains(&out, &["witness", "1  "]);
    let (out, _) = place.expect(0, &format!("{line} failing.json --json"));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["stages"][0]["elements"], 1);
    assert!(report["proved"].is_null());

    place.write("cut.json", &file[..file.len() / 2]);
    contains(&place.expect(1, &format!("{line} cut.json")).1, &["cut.json", "line "]);
    let altered = String::from_utf8(file).unwrap().replace("\"witness\"", "\"product\"");
    place.write("altered.json", altered.as_bytes());
    contains(&place.expect(1, &format!("{line} altered.json")).1, &["altered.json", "blake3"]);
    let large = std::fs::File::create(place.path("large.json")).unwrap();
    large.set_len(1 << 40).unwrap();
    contains(&place.expect(1, &format!("{line} large.json")).1, &["large.json", "at most"]);
}

#[test]
fn bench_proves_partitions_of_a_named_shape() {
    let place = Place::new();
    let shape = "bench --shape porep --log-n 10 --partitions 3";
    let (out, _) = place.expect(0, &format!("{shape} --backend cpu --svg run.svg"));
    contains(&out, &["3 partitions in", "all verified", "  plan: ", "in use", "device-wide calls"]);
    assert!(String::from_utf8_lossy(&read(&place.path("run.svg"))).starts_with("<svg"));
    let (out, _) = place.expect(0, &format!("{shape} --backend virtual --vram 1MiB --json"));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let device = &report["devices"][0];
    assert_eq!(device["partitions"], 3);
    assert_eq!(device["used_bytes"], device["planned_bytes"]);
    assert!(device["high_water_bytes"].as_u64() <= device["capacity_bytes"].as_u64());
    let (_, err) = place.expect(2, "bench --shape dense-10 --log-n 3 --backend cpu");
    contains(&err, &["from 2^4"]);
    place.expect(2, "bench --shape dense-10 --partitions 0 --backend cpu");
}

#[test]
fn bench_measures_operations_side_by_side() {
    let place = Place::new();
    let (out, _) = place.expect(0, "bench --operations cpu,virtual --log-n 5,6");
    contains(&out, &["1: cpu, ", "2: virtual", "| sum in G1 | 2^5 |", "| Interpolate | 2^6 |"]);
    let (_, err) = place.expect(2, "bench --operations cpu --log-n 3");
    contains(&err, &["2^3", "from 2^4"]);
    place.expect(2, "bench --shape dense-10 --operations cpu");
    place.expect(2, "bench --shape dense-10 --log-n 10,11 --backend cpu");
    place.expect(2, "bench");
}
