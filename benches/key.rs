//! Loading a key: `cargo bench --bench key [-- LOG_N]`, by default 20 (some 370 MB).
//!
//! A synthetic key without matrices is written as `.params` and as `.fbkey`. Then fresh processes, whose peak memory is their own, load
//! each with its checks and without. The files were just written, so that they are read from the system's cache and not from the disk.
//! Touched: every point was looked at once more, as the first proof does.
#![allow(missing_docs, reason = "not a library")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use forebay::backend::bit_reverse;
use forebay::curve::{G1Affine, G2Affine};
use forebay::format::Silent;
use forebay::format::bellman::{BellmanVerifyingKey, write_vk};
use forebay::format::fbkey::{self, Facts};
use forebay::key::{Check, CheckedKeys, ProvingKey, load_key};
use forebay::profile::{Profile, synthetic};

const CASES: [(&str, &str); 4] = [
    ("key.params", "checked"),
    ("key.params", "unchecked"),
    ("key.fbkey", "digests compared"),
    ("key.fbkey", "unchecked"),
];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", folder, file, what] => child(Path::new(folder), file, what),
        [log_n] => parent(log_n.parse().expect("log_n")),
        _ => parent(20),
    }
}

fn parent(log_n: u32) {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let profile = Profile::named("porep-32gib").and_then(|profile| profile.scaled(log_n));
    let (mut key, _) = synthetic::synthesise(&profile.expect("a circuit"), 1).expect("a key");
    key.matrices = None;
    let create = |name: &str| BufWriter::new(File::create(folder.path().join(name)).expect(name));
    let mut file = create("key.params");
    write_params(&key, &mut file);
    file.flush().expect("key.params");
    let mut file = create("key.fbkey");
    let facts = Facts { points_checked: true, contributions: None };
    fbkey::write(&key, facts, &Silent, &mut file).expect("key.fbkey");
    file.flush().expect("key.fbkey");
    println!("a domain of 2^{log_n}, {:.1} MB of points", key.bytes() as f64 / 1e6);
    drop(key);
    println!("{:28} {:>9} {:>9} {:>9}", "", "seconds", "touched", "peak MB");
    for (file, what) in CASES {
        let me = std::env::current_exe().expect("this program");
        let folder = folder.path().display().to_string();
        let done = Command::new(me).args(["child", &folder, file, what]).status();
        assert!(done.expect("a child").success());
    }
}

fn child(folder: &Path, file: &str, what: &str) {
    let before = peak_bytes();
    let check = match what {
        "unchecked" => Check::Skip,
        _ => Check::Once(CheckedKeys::in_folder(folder.join("checked"))),
    };
    let started = Instant::now();
    let key = load_key(&folder.join(file), &check, &Silent).expect("the key").key;
    let loaded = started.elapsed();
    let in_g1 = [&key.a.points, &key.b_g1.points, &key.l.points, &key.h].into_iter();
    let at_infinity = in_g1.flat_map(|points| points.iter()).filter(|p| p.is_infinity()).count();
    let in_g2 = key.b_g2.points.iter().filter(|point| point.is_infinity()).count();
    assert_eq!(at_infinity + in_g2, 0);
    println!(
        "{:28} {:>9.3} {:>9.3} {:>9.1}",
        format!("{file}, {what}"),
        loaded.as_secs_f64(),
        started.elapsed().as_secs_f64(),
        peak_bytes().saturating_sub(before) as f64 / 1e6
    );
}

/// bellman's file: its verifying key, then H, L, A, B1, B2, each a count and points.
fn write_params(key: &ProvingKey, out: &mut impl Write) {
    let vk = |ic: &[G1Affine]| {
        let vk = forebay::key::VerifyingKey { ic: ic.to_vec(), ..key.vk.clone() };
        BellmanVerifyingKey { vk, beta_g1: key.beta_g1, delta_g1: key.delta_g1 }
    };
    let mut put = |bytes: &[u8]| out.write_all(bytes).expect("key.params");
    put(&write_vk(&vk(&key.vk.ic)));
    let h: Vec<_> = (0..key.h.len()).map(|j| key.h[bit_reverse(j, key.log_n)]).collect();
    // A verifying key ends with its IC, and has beta in G2 behind two points of G1.
    for points in [&h[..], &key.l.points, &key.a.points, &key.b_g1.points] {
        put(&write_vk(&vk(points))[3 * 96 + 3 * 192..]);
    }
    put(&(key.b_g2.points.len() as u32).to_be_bytes());
    let mut alone = vk(&[]);
    let mut put_g2 = |point: &G2Affine| {
        alone.vk.beta_g2 = *point;
        put(&write_vk(&alone)[2 * 96..][..192]);
    };
    key.b_g2.points.iter().for_each(&mut put_g2);
}

/// The process's peak resident memory, where the system tells (Linux).
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
