//! `.fbkey`: the same proofs as from the files that keys were converted from, and no altered byte passes.

#[path = "common/circuit.rs"]
mod circuit;
#[path = "common/vectors.rs"]
mod vectors;

use std::ops::Range;
use std::path::{Path, PathBuf};

use circuit::{container, sections};
use forebay::backend::cpu::Cpu;
use forebay::curve::G1Affine;
use forebay::field::{Field, Fp, Fr};
use forebay::format::fbkey::{Facts, Fbkey, Header, write};
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{Kind, Silent, bellman, json, wtns};
use forebay::groth16::{Blinding, prove};
use forebay::key::{Check, Checked, CheckedKeys, ProvingKey, load_key, load_large_key};
use forebay::witness::Assignment;
use forebay::{Error, Result};
use tempfile::TempDir;
use vectors::{Bellman, Circom};

const READ: Options<'static> = Options { check_points: false, scratch: None, progress: &Silent };
const FACTS: Facts = Facts { points_checked: true, contributions: None };

fn circom_key(name: &str) -> ProvingKey {
    Zkey::open(&Circom::named(name).zkey()[..]).and_then(|file| file.read(READ)).expect(name)
}

fn bellman_key(vector: &Bellman) -> ProvingKey {
    let params = vector.file("params");
    bellman::Params::open(&params[..]).and_then(|file| file.read(READ)).expect("params")
}

fn written(key: &ProvingKey, facts: Facts) -> Vec<u8> {
    let mut out = Vec::new();
    write(key, facts, &Silent, &mut out).expect("a key that fits");
    out
}

/// One key of each kind, the smallest: with matrices and every density, and with neither.
fn smallest() -> [Vec<u8>; 2] {
    [circom_key("pub0"), bellman_key(&Bellman::named("edge8"))].map(|key| written(&key, FACTS))
}

/// What a program that loads the file meets, in order.
fn load(bytes: &[u8]) -> Result<ProvingKey> {
    let file = Fbkey::from_bytes(bytes)?;
    file.check_digests(&Silent)?;
    file.key()
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Kind and place of every section, by the table of the format's description.
fn table(file: &[u8]) -> Vec<(u32, Range<usize>)> {
    let count = u32::from_le_bytes(file[56..60].try_into().unwrap()) as usize;
    let entry = |i: usize| {
        let at = 1008 + 64 * i;
        let (start, len) = (u64_at(file, at + 8), u64_at(file, at + 16));
        (u32::from_le_bytes(file[at..at + 4].try_into().unwrap()), start..start.saturating_add(len))
    };
    (0..count).map(entry).collect()
}

/// Makes the digests fit what is there, as a forger would.
fn reseal(file: &mut [u8]) {
    for (i, (_, range)) in table(file).into_iter().enumerate() {
        if let Some(section) = file.get(range) {
            let digest = blake3::hash(section);
            file[1008 + 64 * i + 32..][..32].copy_from_slice(digest.as_bytes());
        }
    }
    reseal_header(file);
}

fn reseal_header(file: &mut [u8]) {
    file[16..48].fill(0);
    let digest = blake3::hash(&file[..4096]);
    file[16..48].copy_from_slice(digest.as_bytes());
}

fn refused(result: Result<ProvingKey>, words: &[&str]) {
    let error = result.expect_err(&words.join(" "));
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "no {words:?} in {text}");
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn known(&self) -> Check {
        Check::Once(CheckedKeys::in_folder(self.0.path().join("known")))
    }
}

fn loaded(path: &Path, check: &Check) -> (ProvingKey, Checked) {
    let loaded = load_key(path, check, &Silent).unwrap();
    (loaded.key, loaded.checked)
}

#[test]
fn proofs_of_converted_circom_keys_equal_those_of_snarkjs() {
    let place = Place::new();
    for vector in Circom::all() {
        let zkey = place.write("c.zkey", &vector.zkey());
        let original = load_key(&zkey, &Check::Skip, &Silent).expect(&vector.name);
        let facts = Facts { points_checked: true, contributions: original.contributions };
        let bytes = written(&original.key, facts);
        assert_eq!(Kind::of(&bytes[..]).ok(), Some(Kind::Fbkey));
        let path = place.write("c.fbkey", &bytes);
        let mapped = load_key(&path, &Check::Always, &Silent).expect(&vector.name);
        assert_eq!(mapped.checked, Checked::Now);
        assert_eq!(
            (mapped.contributions, mapped.insecurity),
            (original.contributions, original.insecurity)
        );
        assert!(written(&mapped.key, facts) == bytes, "{}: written again", vector.name);

        let values = wtns::read(&vector.file("wtns")[..]).unwrap();
        let [r, s] = Circom::r_and_s();
        let blinding = Blinding::fixed_for_testing(r, s);
        let assignment = Assignment::from_witness(&values);
        let proof = prove(&Cpu::open(), &mapped.key, &assignment, &blinding, &Silent).unwrap();
        assert!(
            json::write_proof(&proof) == vector.named_file("proof.json"),
            "{}: proof.json",
            vector.name
        );
        assert!(
            json::write_verifying_key(&mapped.key.vk) == vector.named_file("verification_key.json"),
            "{}: verification_key.json",
            vector.name
        );
    }
}

#[test]
fn proofs_of_converted_bellman_keys_equal_those_of_bellperson() {
    let place = Place::new();
    for vector in Bellman::all() {
        let bytes = written(&bellman_key(&vector), FACTS);
        let (key, _) = loaded(&place.write("c.fbkey", &bytes), &Check::Always);
        assert!(written(&key, FACTS) == bytes, "{}: written again", vector.folder.display());
        for part in vector.parts() {
            let [r, s] = Bellman::r_and_s(&part);
            let blinding = Blinding::fixed_for_testing(r, s);
            let assignment = vector.assignment(&part);
            let proof = prove(&Cpu::open(), &key, &assignment, &blinding, &Silent).unwrap();
            assert!(
                proof.to_bytes()[..] == vectors::read(&part.join("proof")),
                "{}",
                part.display()
            );
        }
    }
}

#[test]
fn a_key_that_is_read_by_way_of_files_is_the_same() {
    let place = Place::new();
    let circom = Circom::all().into_iter().map(|vector| ("c.zkey", vector.zkey()));
    let bellman = Bellman::all().into_iter().map(|vector| ("c.params", vector.file("params")));
    let arkworks = ["pk", "pk.compressed"]
        .map(|name| ("c.pk", vectors::read(&vectors::root().join("arkworks/edge8").join(name))));
    let scratch = TempDir::new().unwrap();
    for (name, bytes) in circom.chain(bellman).chain(arkworks) {
        let path = place.write(name, &bytes);
        let by_files = load_large_key(&path, &Check::Always, scratch.path(), &Silent).unwrap();
        let (in_memory, _) = loaded(&path, &Check::Always);
        let same = written(&by_files.key, FACTS) == written(&in_memory, FACTS);
        assert!(same, "{name} of {} bytes", bytes.len());
        // While the key is there, too: the files have no names.
        assert_eq!(scratch.path().read_dir().unwrap().count(), 0);
    }
    let nowhere = scratch.path().join("nowhere");
    let error = load_large_key(&place.0.path().join("c.pk"), &Check::Skip, &nowhere, &Silent);
    assert!(error.is_err_and(|error| error.to_string().contains("nowhere")));
}

#[test]
fn every_altered_byte_of_the_header_is_refused() {
    for file in smallest() {
        load(&file).unwrap();
        for at in 0..4096 {
            let mut file = file.clone();
            file[at] ^= 1 << (at % 8);
            refused(load(&file), &["the header, offset "]);
        }
    }
}

#[test]
fn every_altered_section_is_refused_by_name_and_offset() {
    let place = Place::new();
    for file in smallest() {
        let mut behind = 4096;
        for (kind, range) in table(&file) {
            // Zeros between the sections.
            for at in (behind..range.start).step_by(199) {
                let mut file = file.clone();
                file[at] = 1;
                let section = format!("before section {kind} (");
                refused(load(&file), &[&format!("offset {at}, "), &section]);
            }
            behind = range.end;
            // A stride of a prime number meets every byte of a record.
            let inside = range.clone().step_by(211).chain(range.end.checked_sub(1));
            for at in inside.filter(|at| range.contains(at)) {
                let mut file = file.clone();
                file[at] ^= 1 << (at % 8);
                let mut words = vec![format!("section {kind} ("), "offset ".into()];
                if kind != 1 {
                    words.extend([format!("offset {}, ", range.start), "BLAKE3".into()]);
                }
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                refused(load(&file), &words);
                if at == range.start {
                    let path = place.write("altered.fbkey", &file);
                    let again = load_key(&path, &place.known(), &Silent).map(|loaded| loaded.key);
                    refused(again, &[&words[..], &["altered.fbkey"]].concat());
                }
            }
        }
    }
}

#[test]
fn files_cut_short_or_with_more_behind_are_refused() {
    let place = Place::new();
    for file in smallest() {
        let mut cuts = vec![0, 1, 7, 8, 11, 12, 16, 48, 1008, 4095, 4096, file.len() - 1];
        for (_, range) in table(&file) {
            cuts.extend([range.start, range.start + 1, range.end - 1, range.end]);
            cuts.extend(range.end.checked_sub(1));
        }
        for cut in cuts.into_iter().filter(|cut| *cut < file.len()) {
            refused(load(&file[..cut]), &[]);
            let path = place.write("cut.fbkey", &file[..cut]);
            let again = load_key(&path, &Check::Skip, &Silent).map(|loaded| loaded.key);
            refused(again, &["cut.fbkey"]);
        }
        for (kind, range) in table(&file) {
            let words = [format!("section {kind} ("), format!("offset {}", range.start)];
            refused(load(&file[..range.end - 1]), &[&words[0], &words[1], "end"]);
        }
        refused(load(&[&file[..], &[0]].concat()), &["the file", "where the last section ends"]);
    }
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let [zkey, params] = smallest();
    let with = |file: &[u8], at: usize, bytes: &[u8], words: &[&str]| {
        let mut file = file.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        reseal_header(&mut file);
        refused(load(&file), words);
    };
    let number = |at: usize, value: u32, words: &[&str]| {
        with(&zkey, at, &value.to_le_bytes(), words);
    };
    let long = |at: usize, value: u64, words: &[&str]| {
        with(&zkey, at, &value.to_le_bytes(), words);
    };
    with(&zkey, 0, b"zkey", &["offset 0, magic"]);
    number(8, 0x0403_0201, &["byte order", "other byte order"]);
    number(8, 7, &["byte order"]);
    number(12, 2, &["version", "found 2, expected 1", "newer"]);
    number(12, 0, &["version", "found 0"]);
    long(48, 1 << 40, &["offset 48", "where the last section ends"]);
    number(56, 19, &["sections", "at most 18"]);
    number(56, u32::MAX, &["sections", "at most 18"]);
    number(56, 0, &["the rest"]);
    number(56, 3, &["the rest"]);
    number(60, 1, &["checks"]);
    number(64, 0, &["log2 of the domain"]);
    number(64, 32, &["log2 of the domain"]);
    number(64, 20, &["H query", "elements"]);
    number(68, 2, &["basis"]);
    number(68, 0, &["H query", "elements"]);
    long(72, 0, &["inputs"]);
    long(72, u64::MAX, &["inputs"]);
    long(80, (1 << 32) + 1, &["variables"]);
    long(80, 1 << 20, &["density of A", "elements"]);
    with(&params, 80, &3u64.to_le_bytes(), &["elements"]);
    long(88, 1 << 32, &["contributions"]);
    with(&zkey, 127, b"x", &["program"]);
    with(&zkey, 128, b"BN254\0\0\0\0", &["curve", "BN254"]);
    with(&zkey, 144, &[0; 96], &["alpha1", "offset 144", "infinity"]);
    with(&zkey, 144, &[0xff; 48], &["alpha1", "not below q"]);
    // The second entry of the table.
    number(1072, 1, &["kind of a section", "2 to 18"]);
    number(1072, 99, &["kind of a section"]);
    number(1076, 192, &["bytes an element of section 2"]);
    long(1080, 4097, &["offset of section 2"]);
    long(1080, u64::MAX, &["offset of section 2"]);
    long(1088, 97, &["bytes of section 2", "whole elements"]);
    long(1088, u64::MAX / 96 * 96, &["section"]);
    long(1096, 1, &["eight zeros of section 2"]);
    with(&zkey, 4095, b"x", &["the rest"]);
    // Without its last section, the table of matrix B.
    let last = table(&zkey).len() - 1;
    let mut fewer = zkey[..table(&zkey)[last - 1].1.end].to_vec();
    let len = fewer.len() as u64;
    fewer[48..56].copy_from_slice(&len.to_le_bytes());
    fewer[56..60].copy_from_slice(&(last as u32).to_le_bytes());
    fewer[1008 + 64 * last..][..64].fill(0);
    reseal_header(&mut fewer);
    refused(load(&fewer), &["section 18"]);
}

/// Even with digests that fit, and with digests that nobody looks at.
#[test]
fn densities_and_matrices_that_a_device_could_not_bear_are_refused() {
    let mut key = circom_key("edge");
    let [matrix, _] = key.matrices.as_mut().unwrap();
    matrix.table = [&matrix.table[..], &[Fr::from(5)]].concat().into();
    let zkey = written(&key, FACTS);
    let with = |kind: u32, from_end: bool, at: usize, bytes: &[u8], words: &[&str]| {
        let mut file = zkey.clone();
        let range = table(&file).into_iter().find(|(of, _)| *of == kind).unwrap().1;
        let start = if from_end { range.end - at } else { range.start + at };
        let place = format!("section {kind} (");
        assert_ne!(&file[start..start + bytes.len()], bytes);
        file[start..start + bytes.len()].copy_from_slice(bytes);
        let skipped = Fbkey::from_bytes(&file).and_then(|file| file.key());
        refused(skipped, &[&[&*place, "offset "], words].concat());
        reseal(&mut file);
        refused(load(&file), &[&[&*place, "offset "], words].concat());
    };
    for (kind, points) in [(3, 2), (5, 4), (7, 6), (9, 8)] {
        let of = format!("the points of section {points} (");
        with(kind, false, 0, &[0x55; 8], &["bits", &of]);
        with(kind, true, 1, &[0xff], &["bits behind the last variable"]);
    }
    for matrix in [11, 15] {
        with(matrix, false, 0, &[1], &["columns"]);
        with(matrix, true, 4, &[0xff; 4], &["columns"]);
        with(matrix, false, 8, &[0xff; 4], &["ends before it starts"]);
        with(matrix + 1, false, 0, &[0xff; 4], &["the variables"]);
        with(matrix + 2, false, 0, &[0xff; 4], &["the table"]);
        with(matrix + 3, false, 0, &[0; 32], &["1 and -1"]);
    }
    with(14, true, 32, &[0xff; 32], &["not below r"]);
}

#[test]
fn a_key_with_a_wrong_point_is_found_where_it_stands() {
    let place = Place::new();
    let order_three = [bytemuck::bytes_of(&Fp::ZERO), bytemuck::bytes_of(&Fp::from(2))].concat();
    let off_curve = [bytemuck::bytes_of(&Fp::ONE); 2].concat();
    let infinity = vec![0; 96];
    let above_q = vec![0xff; 96];
    for checked in [false, true] {
        let facts = Facts { points_checked: checked, contributions: None };
        let file = written(&circom_key("edge"), facts);
        for (kind, index) in [(2, 5), (4, 0), (8, 40), (10, 127)] {
            for (point, words) in [
                (&order_three, "subgroup"),
                (&off_curve, "not on the curve"),
                (&infinity, "infinity"),
                (&above_q, "not below q"),
            ] {
                let mut file = file.clone();
                let start = table(&file).into_iter().find(|(of, _)| *of == kind).unwrap().1.start;
                let offset = start + 96 * index;
                file[offset..offset + 96].copy_from_slice(point);
                reseal(&mut file);
                let path = place.write("wrong.fbkey", &file);
                let load = |check: &Check| load_key(&path, check, &Silent).map(|it| it.key);
                let section = format!("section {kind} (");
                let offset = format!("offset {offset}, point {index}");
                refused(load(&Check::Always), &[words, "wrong.fbkey", &section, &offset]);
                match checked {
                    // What a file says of itself is believed, as its description says.
                    true => drop(load(&place.known()).unwrap()),
                    false => refused(load(&place.known()), &[words, &section, &offset]),
                }
                assert!(load(&Check::Skip).is_ok());
            }
        }
    }
}

#[test]
fn a_file_that_was_not_checked_when_it_was_made_is_checked_once() {
    let place = Place::new();
    let key = circom_key("pub0");
    let unchecked = Facts { points_checked: false, contributions: Some(3) };
    let path = place.write("c.fbkey", &written(&key, unchecked));
    let check = place.known();
    assert_eq!(loaded(&path, &check).1, Checked::Now);
    assert_eq!(loaded(&path, &check).1, Checked::Before);
    assert_eq!(loaded(&path, &Check::Always).1, Checked::Now);
    assert_eq!(loaded(&path, &Check::Skip).1, Checked::Skipped);
    let other = Facts { contributions: Some(4), ..unchecked };
    let path = place.write("other.fbkey", &written(&key, other));
    assert_eq!(loaded(&path, &check).1, Checked::Now, "another header is another key");
    let path = place.write("checked.fbkey", &written(&key, FACTS));
    assert_eq!(loaded(&path, &check).1, Checked::Before);
    let path = place.write("none.fbkey", &written(&key, Facts { contributions: Some(0), ..FACTS }));
    let insecurity = load_key(&path, &check, &Silent).unwrap().insecurity;
    assert!(insecurity.unwrap().contains("no contribution"));
}

/// A new file takes the place of one that is mapped, which stays as it was.
#[test]
fn a_mapped_file_may_be_replaced() {
    let place = Place::new();
    let (pub0, edge) = (circom_key("pub0"), circom_key("edge"));
    let path = place.write("c.fbkey", &written(&pub0, FACTS));
    let (key, _) = loaded(&path, &Check::Always);
    std::fs::rename(place.write("new", &written(&edge, FACTS)), &path).unwrap();
    assert!(written(&key, FACTS) == written(&pub0, FACTS));
    assert!(written(&loaded(&path, &Check::Always).0, FACTS) == written(&edge, FACTS));
}

#[test]
fn keys_whose_parts_do_not_fit_are_not_written() {
    let spoiled = |spoil: &dyn Fn(&mut ProvingKey)| {
        let mut key = circom_key("edge");
        spoil(&mut key);
        let mut out = Vec::new();
        let error = write(&key, FACTS, &Silent, &mut out).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && out.is_empty(), "{error}");
    };
    spoiled(&|key| key.h = key.h[1..].to_vec().into());
    spoiled(&|key| key.a.points = key.a.points[1..].to_vec().into());
    spoiled(&|key| key.l.points = vec![G1Affine::INFINITY; key.variables].into());
    spoiled(&|key| key.inputs += 1);
    spoiled(&|key| key.variables += 64);
    spoiled(&|key| {
        let matrix = &mut key.matrices.as_mut().unwrap()[1];
        matrix.table = vec![-Fr::ONE, Fr::ONE].into();
    });
}

/// Whatever sections a container has, what is no key is no key.
#[test]
fn a_foreign_file_is_no_key() {
    let place = Place::new();
    let edge = Circom::named("edge");
    let foreign = [
        place.write("w", &edge.file("wtns")),
        place.write("empty", b""),
        place.write("magic", b"\x89fbkey\r\n"),
        place.write("text", b"\x89fbkey\n"),
        place.write("zkey", &container(b"zkey", 1, &sections(&edge.zkey())[..3])),
    ];
    for path in foreign {
        refused(load_key(&path, &Check::Skip, &Silent).map(|it| it.key), &[]);
    }
}

/// Whatever is altered under digests that fit: an error, or the one file of a key that can be written again.
#[test]
fn altered_files_with_digests_that_fit_never_panic() {
    const ROUNDS: usize = 4000;
    // Any fixed start will do; xorshift64.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % below
    };
    let files = smallest();
    let mut outcomes = [0; 2];
    for round in 0..ROUNDS {
        let mut file = files[round % 2].clone();
        let sections = table(&file);
        for _ in 0..1 + random(3) {
            let at = match random(3) {
                // Numbers and points of the header, its table, a section.
                0 => 48 + random(960),
                1 => 1008 + random(64 * sections.len()),
                _ => {
                    let range = &sections[random(sections.len())].1;
                    range.start + random(range.len().max(1))
                }
            };
            let bytes = [random(4) as u8, 0xff, random(256) as u8, file[at] ^ 1];
            file[at] = bytes[random(4)];
        }
        if random(8) == 0 {
            file.truncate(4096 + random(file.len() - 4096));
        }
        file[56..60].copy_from_slice(&(sections.len() as u32).to_le_bytes());
        reseal(&mut file);
        match load(&file) {
            Err(error) => {
                assert!(matches!(error, Error::Invalid(_)), "round {round}: {error:?}");
                outcomes[0] += 1;
            }
            Ok(key) => {
                let header = Fbkey::from_bytes(&file).unwrap().header;
                let Header { points_checked, contributions, .. } = header;
                let mut again = written(&key, Facts { points_checked, contributions });
                again[96..128].copy_from_slice(&file[96..128]);
                reseal_header(&mut again);
                assert!(again == file, "round {round}");
                outcomes[1] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > ROUNDS / 10), "{outcomes:?}");
}
