//! Constraint systems written by hand, and the bytes of their files.
#![allow(dead_code, reason = "each test file uses its part of what they share")]

use forebay::field::{Field, Fr};

/// A linear combination.
pub type Terms = Vec<(u32, Fr)>;

/// A constraint system with a witness.
pub struct Circuit {
    /// Wires 1 to this are public.
    pub public: u32,
    pub rows: Vec<[Terms; 3]>,
    /// The constant 1 first.
    pub witness: Vec<Fr>,
}

impl Circuit {
    /// Constraints `w[i + 1] = w[i]^2 + w[i] constant`, from `first`; wires beyond the last are unused and hold `first`.
    pub fn chain(rows: usize, public: u32, constant: Fr, first: Fr) -> Self {
        let one = Fr::ONE;
        let wires = (rows + 2).max(public as usize + 1);
        let mut witness = vec![one, first];
        let rows: Vec<[Terms; 3]> = (0..rows as u32)
            .map(|i| {
                let x = witness[i as usize + 1];
                witness.push(x * (x + constant));
                [vec![(i + 1, one)], vec![(i + 1, one), (0, constant)], vec![(i + 2, one)]]
            })
            .collect();
        witness.resize(wires, first);
        Self { public, rows, witness }
    }

    /// The `.r1cs` file.
    pub fn r1cs(&self) -> Vec<u8> {
        let mut header = prime();
        for count in [self.witness.len() as u32, 0, self.public, 0] {
            header.extend(count.to_le_bytes());
        }
        header.extend((self.witness.len() as u64).to_le_bytes());
        header.extend((self.rows.len() as u32).to_le_bytes());
        let mut constraints = Vec::new();
        for terms in self.rows.iter().flatten() {
            constraints.extend((terms.len() as u32).to_le_bytes());
            for (wire, coefficient) in terms {
                constraints.extend(wire.to_le_bytes());
                constraints.extend(coefficient.to_le_bytes());
            }
        }
        // circom writes the constraints before the header.
        let map = (0..self.witness.len() as u64).flat_map(u64::to_le_bytes).collect();
        container(b"r1cs", 1, &[(2, constraints), (1, header), (3, map)])
    }

    /// The `.wtns` file.
    pub fn wtns(&self) -> Vec<u8> {
        wtns(&self.witness)
    }
}

/// The `.wtns` file of some values.
pub fn wtns(values: &[Fr]) -> Vec<u8> {
    let mut header = prime();
    header.extend((values.len() as u32).to_le_bytes());
    let values = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    container(b"wtns", 2, &[(1, header), (2, values)])
}

fn prime() -> Vec<u8> {
    let r = Fr::MODULUS.iter().flat_map(|limb| limb.to_le_bytes());
    32u32.to_le_bytes().into_iter().chain(r).collect()
}

/// A file of iden3's container.
pub fn container(magic: &[u8; 4], version: u32, sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend(version.to_le_bytes());
    out.extend((sections.len() as u32).to_le_bytes());
    for (id, body) in sections {
        out.extend(id.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
    }
    out
}

/// The sections of a file of iden3's container.
pub fn sections(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let magic = file[..4].try_into().expect("a magic");
    let file = forebay::format::iden3::Container::read(file, &magic, 2).expect("a container");
    let body = |section: &forebay::format::iden3::Section| {
        (section.id, file.source[section.start as usize..section.end as usize].to_vec())
    };
    file.sections.iter().map(body).collect()
}
