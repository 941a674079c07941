//! The folders of test vectors: `tests/vectors`, or the one that FOREBAY_VECTORS names, in the same two layouts.
//! A folder dropped in is tested with no change of code.
#![allow(dead_code, reason = "each test file uses its part of what they share")]

use std::io::Read;
use std::path::{Path, PathBuf};

use forebay::field::Fr;

/// The root of the vectors.
pub fn root() -> PathBuf {
    std::env::var_os("FOREBAY_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors"), PathBuf::from)
}

/// A folder made with circom and snarkjs.
pub struct Circom {
    pub name: String,
    pub folder: PathBuf,
}

impl Circom {
    /// All of them; there must be some.
    pub fn all() -> Vec<Self> {
        let with_key = |folder: &PathBuf| folder.join("verification_key.json").exists();
        let folders: Vec<_> =
            folders(&root().join("circom")).into_iter().filter(with_key).collect();
        assert!(!folders.is_empty(), "no circom vectors in {}", root().display());
        folders.into_iter().map(|folder| Self { name: file_name(&folder), folder }).collect()
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), folder: root().join("circom").join(name) }
    }

    /// `NAME.extension`, unpacked if only `NAME.extension.gz` is there; `None` if neither is.
    pub fn find(&self, extension: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(format!("{}.{extension}", self.name));
        let packed = self.folder.join(format!("{}.{extension}.gz", self.name));
        if path.exists() {
            return Some(read(&path));
        }
        let mut out = Vec::new();
        packed.exists().then(|| {
            flate2::read::GzDecoder::new(&read(&packed)[..]).read_to_end(&mut out).expect("gzip");
            out
        })
    }

    /// [`Self::find`] of a file that must be there.
    pub fn file(&self, extension: &str) -> Vec<u8> {
        self.find(extension)
            .unwrap_or_else(|| panic!("{} has no .{extension}", self.folder.display()))
    }

    /// A file of the folder by its whole name.
    pub fn named_file(&self, name: &str) -> Vec<u8> {
        read(&self.folder.join(name))
    }

    /// The secrets behind all of these keys.
    pub fn secrets() -> forebay::setup::Secrets {
        let text = read(&root().join("circom/toxic.json"));
        forebay::setup::Secrets::from_json(&text).expect("toxic.json")
    }

    /// The key: the file's, or, where only its sections' hashes are kept, made from the secrets.
    pub fn zkey(&self) -> Vec<u8> {
        self.find("zkey").unwrap_or_else(|| self.made_zkey(None))
    }

    /// The key as `setup` makes it, from a powers-of-tau file of 2^power points if one is given.
    pub fn made_zkey(&self, ptau_power: Option<u32>) -> Vec<u8> {
        let bytes = self.file("r1cs");
        let r1cs = forebay::format::r1cs::R1cs::read(&bytes[..]).expect("r1cs");
        let options = forebay::setup::Options { ptau_power };
        let mut out = Vec::new();
        forebay::setup::write_zkey(
            &forebay::backend::cpu::Cpu::open(),
            &r1cs,
            &Self::secrets(),
            options,
            &forebay::format::Silent,
            &mut out,
        )
        .expect("setup");
        out
    }

    /// r and s of all of these proofs: gen.mjs' override of snarkjs' random function, called twice.
    pub fn r_and_s() -> [Fr; 2] {
        let step = num_bigint::BigUint::parse_bytes(
            b"1234567890abcdef1234567890abcdef1234567890abcdef1234567890",
            16,
        );
        let step = Fr::from_biguint(&step.expect("hexadecimal")).expect("below r");
        [step + Fr::from(77), step + step + Fr::from(77)]
    }
}

/// A folder made with bellperson; several partitions share a key.
pub struct Bellman {
    pub folder: PathBuf,
}

impl Bellman {
    /// All of them; there must be some.
    pub fn all() -> Vec<Self> {
        let with_key = |folder: &PathBuf| folder.join("params").exists();
        let folders: Vec<_> =
            folders(&root().join("bellman")).into_iter().filter(with_key).collect();
        assert!(!folders.is_empty(), "no bellman vectors in {}", root().display());
        folders.into_iter().map(|folder| Self { folder }).collect()
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Self {
        Self { folder: root().join("bellman").join(name) }
    }

    /// The folders with a proof: this one, or `part0`, `part1`, ...
    pub fn parts(&self) -> Vec<PathBuf> {
        if self.folder.join("proof").exists() {
            vec![self.folder.clone()]
        } else {
            folders(&self.folder)
        }
    }

    /// The bytes of a file of the folder.
    pub fn file(&self, name: &str) -> Vec<u8> {
        read(&self.folder.join(name))
    }

    /// The assignment of one part.
    pub fn assignment(&self, part: &Path) -> forebay::witness::Assignment {
        let column = |name: &str| scalars(&part.join(name));
        let (inputs, aux) = (column("input"), column("aux"));
        let density = |name: &str, len: usize| {
            let bytes = self.file(name);
            forebay::key::Density::from_bits((0..len).map(|i| bytes[i / 8] >> (i % 8) & 1 == 1))
        };
        let rows = forebay::witness::Rows::new(
            &column("a"),
            &column("b"),
            &column("c"),
            density("a_aux_density", aux.len()),
            density("b_in_density", inputs.len()),
            density("b_aux_density", aux.len()),
        );
        let mut assignment = forebay::witness::Assignment::from_witness(&[inputs, aux].concat());
        assignment.rows = Some(rows.expect("rows that hold"));
        assignment
    }

    /// r and s of one part.
    pub fn r_and_s(part: &Path) -> [Fr; 2] {
        scalars(&part.join("rs")).try_into().expect("two scalars")
    }
}

/// Canonical little-endian scalars.
pub fn scalars(path: &Path) -> Vec<Fr> {
    let bytes = read(path);
    bytes
        .as_chunks::<32>()
        .0
        .iter()
        .map(|bytes| Fr::from_le_bytes(bytes).expect("below r"))
        .collect()
}

/// The contents of a file.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut folders: Vec<_> =
        entries.map(|entry| entry.expect("entry").path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}
