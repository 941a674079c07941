//! bellman's and bellperson's files: `.params`, `.vk`, and proofs of 192 bytes.
//!
//! No header, no curve, no checksum. Points are Zcash uncompressed (big-endian, canonical), counts are u32
//! big-endian: alpha1 beta1 beta2 gamma2 delta1 delta2, IC; then, in `.params`, H, L, A, B1, B2. Infinity stands nowhere.

use super::Source;
use super::points::{Count, Encoding, Reading, Section, encode, point_bytes, read_point};
use super::zkey::Options;
use crate::curve::{Coordinate, G1Affine};
use crate::field::{Fp, Fp2};
use crate::key::{Basis, Density, ProvingKey, Query, VerifyingKey, log_domain};
use crate::{Error, Result};

/// A `.vk` file: what verifies, and the two points of G1 that only a prover uses.
#[derive(Clone, Debug, PartialEq)]
pub struct BellmanVerifyingKey {
    /// What verifies.
    pub vk: VerifyingKey,
    /// beta in G1.
    pub beta_g1: G1Affine,
    /// delta in G1.
    pub delta_g1: G1Affine,
}

/// Reads the six points and IC at the start of `source`; also returns the offset behind them.
fn read_vk_at_start<S: Source + ?Sized>(source: &S) -> Result<(BellmanVerifyingKey, u64)> {
    let [g1, g2] = [point_bytes::<Fp>(), point_bytes::<Fp2>()];
    let head = 3 * g1 + 3 * g2;
    if source.len() < head {
        return Err(Error::invalid(
            "the file",
            format!("{} bytes", source.len()),
            format!("at least the {head} bytes of six points"),
        ));
    }
    let reading = Reading {
        encoding: Encoding::Zcash,
        check: true,
        infinity: false,
        scratch: None,
        progress: &super::Silent,
    };
    let point_g1 = |name: &str, offset| read_point(source, name, offset, reading);
    let point_g2 = |name: &str, offset| read_point(source, name, offset, reading);
    let (alpha_g1, beta_g1) = (point_g1("alpha1", 0)?, point_g1("beta1", g1)?);
    let (beta_g2, gamma_g2) = (point_g2("beta2", 2 * g1)?, point_g2("gamma2", 2 * g1 + g2)?);
    let (delta_g1, delta_g2) =
        (point_g1("delta1", 2 * g1 + 2 * g2)?, point_g2("delta2", 3 * g1 + 2 * g2)?);
    let section = section::<Fp, S>(source, "IC", head)?;
    if section.count == 0 {
        return Err(Error::invalid("IC", "no points", "at least that of the constant 1"));
    }
    let ic = section.points(source).read(reading)?.to_vec();
    let vk = VerifyingKey { alpha_g1, beta_g2, gamma_g2, delta_g2, ic };
    Ok((BellmanVerifyingKey { vk, beta_g1, delta_g1 }, section.end()))
}

/// Reads a `.vk` file. All of its points are checked to be on the curve and of order r.
pub fn read_vk<S: Source + ?Sized>(source: &S) -> Result<BellmanVerifyingKey> {
    let (vk, end) = read_vk_at_start(source)?;
    if end != source.len() {
        return Err(Error::invalid(
            format!("offset {end}, behind IC"),
            format!("{} more bytes", source.len() - end),
            "the end of the file",
        ));
    }
    Ok(vk)
}

/// The bytes of a `.vk` file.
pub fn write_vk(key: &BellmanVerifyingKey) -> Vec<u8> {
    let mut out = Vec::new();
    let vk = &key.vk;
    encode(&vk.alpha_g1, Encoding::Zcash, &mut out);
    encode(&key.beta_g1, Encoding::Zcash, &mut out);
    encode(&vk.beta_g2, Encoding::Zcash, &mut out);
    encode(&vk.gamma_g2, Encoding::Zcash, &mut out);
    encode(&key.delta_g1, Encoding::Zcash, &mut out);
    encode(&vk.delta_g2, Encoding::Zcash, &mut out);
    out.extend((vk.ic.len() as u32).to_be_bytes());
    vk.ic.iter().for_each(|point| encode(point, Encoding::Zcash, &mut out));
    out
}

/// The lengths of a `.params` file's sections.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// IC: the constant 1 and the public inputs.
    pub inputs: usize,
    /// H: the domain's size minus 1.
    pub h: usize,
    /// L: the private variables.
    pub l: usize,
    /// A.
    pub a: usize,
    /// B in G1 and in G2.
    pub b: usize,
    /// The domain's size is 2^log_n.
    pub log_n: u32,
}

impl Shape {
    /// The lengths of IC, H, L, A, and of B in both groups, if they are those of one circuit.
    pub(crate) fn new(inputs: usize, h: usize, l: usize, a: usize, b: [usize; 2]) -> Result<Self> {
        let log_n = log_domain("H, number of points plus 1 (the domain)", h as u64 + 1)?;
        let variables = inputs + l;
        if !(inputs..=variables).contains(&a) {
            let expected = format!("{inputs} (the inputs) to {variables} (all variables)");
            return Err(Error::invalid("A, number of points", a, expected));
        }
        let [b, in_g2] = b;
        if b != in_g2 || b > variables {
            let found = format!("{b} in G1 and {in_g2} in G2");
            let expected = format!("the same, at most {variables}");
            return Err(Error::invalid("B, number of points", found, expected));
        }
        Ok(Self { inputs, h, l, a, b, log_n })
    }
}

/// A `.params` file whose sections were found to fit the file and one another.
pub struct Params<'a, S: ?Sized> {
    source: &'a S,
    /// The verifying key, all points checked.
    pub vk: BellmanVerifyingKey,
    /// The lengths.
    pub shape: Shape,
    h: Section<Fp>,
    l: Section<Fp>,
    a: Section<Fp>,
    b_g1: Section<Fp>,
    b_g2: Section<Fp2>,
}

impl<'a, S: Source + ?Sized> Params<'a, S> {
    /// Reads the verifying key and checks every section's length against the file.
    pub fn open(source: &'a S) -> Result<Self> {
        let (vk, end) = read_vk_at_start(source)?;
        let h = section(source, "H", end)?;
        let l = section(source, "L", h.end())?;
        let a = section(source, "A", l.end())?;
        let b_g1 = section(source, "B1", a.end())?;
        let b_g2 = section::<Fp2, S>(source, "B2", b_g1.end())?;
        if b_g2.end() != source.len() {
            let end = b_g2.end();
            return Err(Error::invalid(
                format!("offset {end}, behind B2"),
                format!("{} more bytes", source.len() - end),
                "the end of the file",
            ));
        }
        let b = [b_g1.count, b_g2.count];
        let shape = Shape::new(vk.vk.ic.len(), h.count, l.count, a.count, b)?;
        Ok(Self { source, vk, shape, h, l, a, b_g1, b_g2 })
    }

    /// Reads the whole key. H is put in bit-reversed order, as [`ProvingKey::h`] says.
    pub fn read(&self, options: Options<'_>) -> Result<ProvingKey> {
        let shape = self.shape;
        options
            .progress
            .begin("reading the key", (shape.h + shape.l + shape.a + 2 * shape.b) as u64);
        let reading = Reading {
            encoding: Encoding::Zcash,
            check: options.check_points,
            infinity: false,
            scratch: options.scratch,
            progress: options.progress,
        };
        // The last coefficient, whose index is all ones, would stand last: leaving it out moves no other.
        let h = self.h.points(self.source).read_bit_reversed(reading, shape.log_n)?;
        let query = |points| Query { points, density: None };
        Ok(ProvingKey {
            log_n: shape.log_n,
            inputs: shape.inputs,
            variables: shape.inputs + shape.l,
            basis: Basis::Coefficients,
            vk: self.vk.vk.clone(),
            beta_g1: self.vk.beta_g1,
            delta_g1: self.vk.delta_g1,
            a: query(self.a.points(self.source).read(reading)?),
            b_g1: query(self.b_g1.points(self.source).read(reading)?),
            b_g2: Query { points: self.b_g2.points(self.source).read(reading)?, density: None },
            l: Query {
                points: self.l.points(self.source).read(reading)?,
                density: Some(Density::full(shape.l)),
            },
            h,
            matrices: None,
        })
    }
}

/// The section whose count stands at `offset`.
fn section<F: Coordinate, S: Source + ?Sized>(
    source: &S,
    name: &'static str,
    offset: u64,
) -> Result<Section<F>> {
    Section::find(source, name, offset, Count::U32Big, Encoding::Zcash)
}
