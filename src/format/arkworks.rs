//! arkworks' files: the proving keys, verifying keys and proofs of `ark-groth16`, as its versions 0.4, 0.5 and 0.6 write
//! them (`serialize_uncompressed`, `serialize_compressed`).
//!
//! No header, no curve, no checksum: a structure is its fields one behind the other (`ark-serialize`), a `Vec` is its u64
//! little-endian count and its elements. Points are Zcash's, big-endian and canonical with flags in the top three bits
//! (`ark-bls12-381`, `curves/util.rs`); the first flag of the first point tells compressed files from uncompressed.
//!
//! | file | content (`data_structures.rs`) |
//! | --- | --- |
//! | verifying key | alpha1 beta2 gamma2 delta2, IC |
//! | proving key | a verifying key, beta1 delta1, A, B in G1, B in G2, H, L |
//! | proof | A B C: 192 bytes compressed, 384 uncompressed |
//!
//! The queries have a point for every variable (L: for every private one), which is infinity where the variable does not
//! occur; inputs come first, the constant 1 before them. H and the rows are those of `LibsnarkReduction` (`r1cs_to_qap.rs`), which are
//! bellman's: `H_i` = tau^i Z(tau)/delta for i below n - 1, the circuit's constraints in order and then a row
//! for each input, in a domain of the next power of two. There are no matrices in the file.

use std::io::Write;

use super::points::{Count, Encoding, Reading, Section, encode, read_point};
use super::zkey::Options;
use super::{Silent, Source};
use crate::backend::bit_reverse;
use crate::curve::{Affine, Coordinate, G1Affine};
use crate::field::{Fp, Fp2};
use crate::key::{Basis, ProvingKey, Query, VerifyingKey, log_domain};
use crate::proof::Proof;
use crate::{Error, Result};

/// How the points of a file are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Both coordinates: `serialize_uncompressed`.
    Uncompressed,
    /// x and the sign of y: `serialize_compressed`. Half as long, and a square root a point to read.
    Compressed,
}

impl Form {
    /// The form of a file that begins with a point; uncompressed if it is empty.
    fn of<S: Source + ?Sized>(source: &S) -> Result<Self> {
        let mut first = [0];
        if !source.is_empty() {
            source.read_at(0, &mut first)?;
        }
        Ok(if first[0] & 0x80 == 0 { Self::Uncompressed } else { Self::Compressed })
    }

    fn encoding(self) -> Encoding {
        match self {
            Self::Uncompressed => Encoding::Zcash,
            Self::Compressed => Encoding::ZcashCompressed,
        }
    }

    fn g1_bytes(self) -> u64 {
        self.encoding().point_bytes::<Fp>()
    }

    fn g2_bytes(self) -> u64 {
        self.encoding().point_bytes::<Fp2>()
    }
}

/// How the few points that verification rests on are read: always checked.
fn strictly(form: Form) -> Reading<'static> {
    Reading {
        encoding: form.encoding(),
        check: true,
        infinity: false,
        scratch: None,
        progress: &Silent,
    }
}

/// That the `bytes` bytes of `what` at `offset` lie inside the file.
fn expect_left<S: Source + ?Sized>(source: &S, what: &str, offset: u64, bytes: u64) -> Result<()> {
    let left = source.len() - offset;
    if left >= bytes {
        return Ok(());
    }
    let place = format!("{what}, offset {offset}");
    Err(Error::invalid(place, format!("{left} bytes"), format!("{bytes} bytes")))
}

/// That the file ends at `offset`, behind `what`.
fn expect_end<S: Source + ?Sized>(source: &S, what: &str, offset: u64) -> Result<()> {
    if offset == source.len() {
        return Ok(());
    }
    let place = format!("offset {offset}, behind {what}");
    Err(Error::invalid(
        place,
        format!("{} more bytes", source.len() - offset),
        "the end of the file",
    ))
}

/// Where the parts of a verifying key at the start of a file are.
struct VkLayout {
    form: Form,
    ic: Section<Fp>,
}

impl VkLayout {
    fn find<S: Source + ?Sized>(source: &S) -> Result<Self> {
        let form = Form::of(source)?;
        let head = form.g1_bytes() + 3 * form.g2_bytes();
        expect_left(source, "alpha1, beta2, gamma2 and delta2", 0, head)?;
        let ic = Section::find(source, "IC", head, Count::U64Little, form.encoding())?;
        Ok(Self { form, ic })
    }

    /// Reads it, every point checked.
    fn read<S: Source + ?Sized>(&self, source: &S) -> Result<VerifyingKey> {
        if self.ic.count == 0 {
            return Err(Error::invalid("IC", "no points", "at least that of the constant 1"));
        }
        let (g1, g2, reading) = (self.form.g1_bytes(), self.form.g2_bytes(), strictly(self.form));
        Ok(VerifyingKey {
            alpha_g1: read_point(source, "alpha1", 0, reading)?,
            beta_g2: read_point(source, "beta2", g1, reading)?,
            gamma_g2: read_point(source, "gamma2", g1 + g2, reading)?,
            delta_g2: read_point(source, "delta2", g1 + 2 * g2, reading)?,
            ic: self.ic.points(source).read(reading)?.to_vec(),
        })
    }
}

/// Where the parts of a proving key are, if the counts in the file add up to its length.
struct PkLayout {
    vk: VkLayout,
    a: Section<Fp>,
    b_g1: Section<Fp>,
    b_g2: Section<Fp2>,
    h: Section<Fp>,
    l: Section<Fp>,
}

impl PkLayout {
    fn find<S: Source + ?Sized>(source: &S) -> Result<Self> {
        let vk = VkLayout::find(source)?;
        let (count, encoding) = (Count::U64Little, vk.form.encoding());
        let points = 2 * vk.form.g1_bytes();
        expect_left(source, "beta1 and delta1", vk.ic.end(), points)?;
        let a = Section::<Fp>::find(source, "A", vk.ic.end() + points, count, encoding)?;
        let b_g1 = Section::<Fp>::find(source, "B1", a.end(), count, encoding)?;
        let b_g2 = Section::<Fp2>::find(source, "B2", b_g1.end(), count, encoding)?;
        let h = Section::<Fp>::find(source, "H", b_g2.end(), count, encoding)?;
        let l = Section::<Fp>::find(source, "L", h.end(), count, encoding)?;
        expect_end(source, "L", l.end())?;
        Ok(Self { vk, a, b_g1, b_g2, h, l })
    }
}

/// What a file could be that has no magic: whether the counts in it add up to exactly its length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// A proving key.
    Pk,
    /// A verifying key.
    Vk,
    /// One uncompressed proof.
    UncompressedProof,
}

impl Lengths {
    /// `None` if it is none of them. No file of bellman's is taken for one: uncompressed keys leave 48 and 8 bytes modulo 96
    /// where bellman's leave 24 and 4, and in no compressed file is the first flag clear. Of proofs of 192 bytes, the second
    /// C would have to be a point of order r whose x says where six counts have to stand.
    pub(crate) fn of<S: Source + ?Sized>(source: &S) -> Result<Option<Self>> {
        /// Whether it was found; an error that is not the file's goes on.
        fn found<T>(result: Result<T>) -> Result<bool> {
            match result {
                Ok(_) => Ok(true),
                Err(Error::Invalid(_)) => Ok(false),
                Err(other) => Err(other),
            }
        }
        let vk = || VkLayout::find(source).and_then(|vk| expect_end(source, "IC", vk.ic.end()));
        Ok(if found(PkLayout::find(source))? {
            Some(Self::Pk)
        } else if found(vk())? {
            Some(Self::Vk)
        } else if source.len() == UNCOMPRESSED_PROOF && Form::of(source)? == Form::Uncompressed {
            Some(Self::UncompressedProof)
        } else {
            None
        })
    }
}

/// A proving key's file whose parts were found to fit it and one another.
pub struct Pk<'a, S: ?Sized> {
    source: &'a S,
    layout: PkLayout,
    /// The verifying key, all points checked.
    pub vk: VerifyingKey,
    /// beta in G1.
    pub beta_g1: G1Affine,
    /// delta in G1.
    pub delta_g1: G1Affine,
    /// Inputs and private variables.
    pub variables: usize,
    /// The domain's size is 2^log_n.
    pub log_n: u32,
}

impl<'a, S: Source + ?Sized> Pk<'a, S> {
    /// Checks every count against the file and the others, and reads the verifying key.
    pub fn open(source: &'a S) -> Result<Self> {
        let layout = PkLayout::find(source)?;
        let inputs = layout.vk.ic.count;
        let variables = inputs + layout.l.count;
        let counts = [("A", layout.a.count), ("B1", layout.b_g1.count), ("B2", layout.b_g2.count)];
        for (name, count) in counts {
            if count != variables {
                let expected = format!("{variables}, as IC has {inputs} and L {}", layout.l.count);
                return Err(Error::invalid(format!("{name}, number of points"), count, expected));
            }
        }
        let n = layout.h.count as u64 + 1;
        let log_n = log_domain("H, number of points plus 1 (the domain)", n)?;
        if n < inputs as u64 {
            let found = format!("a domain of {n} for {inputs} inputs");
            return Err(Error::invalid("H, number of points", found, "a row for each of them"));
        }

        let vk = layout.vk.read(source)?;
        let (reading, g1) = (strictly(layout.vk.form), layout.vk.form.g1_bytes());
        let beta_g1 = read_point(source, "beta1", layout.vk.ic.end(), reading)?;
        let delta_g1 = read_point(source, "delta1", layout.vk.ic.end() + g1, reading)?;
        Ok(Self { source, layout, vk, beta_g1, delta_g1, variables, log_n })
    }

    /// How its points are written.
    pub fn form(&self) -> Form {
        self.layout.vk.form
    }

    /// Reads the whole key. H is put in bit-reversed order, as [`ProvingKey::h`] says.
    pub fn read(&self, options: Options<'_>) -> Result<ProvingKey> {
        let Self { source, layout, log_n, variables, .. } = self;
        let points = 3 * variables + layout.h.count + layout.l.count;
        options.progress.begin("reading the key", points as u64);
        let reading = Reading {
            encoding: self.form().encoding(),
            check: options.check_points,
            infinity: true,
            scratch: options.scratch,
            progress: options.progress,
        };
        let a = layout.a.points(*source).read_query(reading)?;
        let b_g1 = layout.b_g1.points(*source).read_query(reading)?;
        let b_g2 = layout.b_g2.points(*source).read_query(reading)?;
        // The last coefficient, whose index is all ones, would stand last: leaving it out moves no other.
        let h = layout
            .h
            .points(*source)
            .read_bit_reversed(Reading { infinity: false, ..reading }, *log_n)?;
        let l = layout.l.points(*source).read_query(reading)?;
        Ok(ProvingKey {
            log_n: *log_n,
            inputs: self.vk.ic.len(),
            variables: *variables,
            basis: Basis::Coefficients,
            vk: self.vk.clone(),
            beta_g1: self.beta_g1,
            delta_g1: self.delta_g1,
            a,
            b_g1,
            b_g2,
            l,
            h,
            matrices: None,
        })
    }
}

/// Reads a proving key in either form; [`Pk`] in one step.
pub fn read_pk<S: Source + ?Sized>(source: &S, options: Options<'_>) -> Result<ProvingKey> {
    Pk::open(source)?.read(options)
}

/// Writes a proving key, whose matrices, if it has any, the format has no room for.
///
/// # Errors
/// [`Error::Invalid`] for a key that arkworks has no form for: of another basis ([`Basis::OddCoset`]), without densities
/// (bellman's), or of parts that do not fit one another. What `out` fails with.
pub fn write_pk(key: &ProvingKey, form: Form, out: &mut impl Write) -> Result<()> {
    let ProvingKey { inputs, variables, log_n, .. } = *key;
    if key.basis != Basis::Coefficients {
        return Err(Error::invalid("the key, basis of H", "the odd coset", "the coefficients"));
    }
    if key.vk.ic.len() != inputs || inputs > variables {
        let found = format!("{} points for {inputs} of {variables} variables", key.vk.ic.len());
        return Err(Error::invalid("the key, IC", found, "one for each input"));
    }
    if log_n > 31 || key.h.len() != (1usize << log_n) - 1 {
        let found = format!("{} for a domain of 2^{log_n}", key.h.len());
        return Err(Error::invalid("the key, points of H", found, "one less than the domain"));
    }
    let mut out = Points { form, out, encoded: Vec::new() };
    out.encoded = write_vk(&key.vk, form);
    out.put([key.beta_g1, key.delta_g1].into_iter())?;
    out.query("A", &key.a, variables)?;
    out.query("B in G1", &key.b_g1, variables)?;
    out.query("B in G2", &key.b_g2, variables)?;
    out.count(key.h.len());
    out.put((0..key.h.len()).map(|j| key.h[bit_reverse(j, log_n)]))?;
    out.query("L", &key.l, variables - inputs)?;
    out.flush()
}

/// Points on their way out.
struct Points<'a, W> {
    form: Form,
    out: &'a mut W,
    encoded: Vec<u8>,
}

impl<W: Write> Points<'_, W> {
    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.encoded).map_err(Error::io("the new key".as_ref()))?;
        self.encoded.clear();
        Ok(())
    }

    fn count(&mut self, points: usize) {
        self.encoded.extend((points as u64).to_le_bytes());
    }

    fn put<F: Coordinate>(&mut self, points: impl Iterator<Item = Affine<F>>) -> Result<()> {
        for point in points {
            encode(&point, self.form.encoding(), &mut self.encoded);
            if self.encoded.len() >= 1 << 20 {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// A query of `len` variables, with infinity for those that have no point.
    fn query<F: Coordinate>(&mut self, name: &str, query: &Query<F>, len: usize) -> Result<()> {
        let place = || format!("the key, density of {name}");
        let Some(density) = &query.density else {
            let expected = "one (bellman's keys leave it to the circuit)";
            return Err(Error::invalid(place(), "none", expected));
        };
        if density.len != len || density.ones() != query.points.len() {
            let found = format!("{} of {} variables", density.ones(), density.len);
            let expected = format!("{} of {len}, as the key has points", query.points.len());
            return Err(Error::invalid(place(), found, expected));
        }
        self.count(len);
        let mut points = query.points.iter();
        self.put(density.bits().map(|there| {
            let point = if there { points.next() } else { None };
            point.copied().unwrap_or(Affine::INFINITY)
        }))
    }
}

/// Reads a verifying key in either form. All of its points are checked to be on the curve and of order r.
pub fn read_vk<S: Source + ?Sized>(source: &S) -> Result<VerifyingKey> {
    let layout = VkLayout::find(source)?;
    expect_end(source, "IC", layout.ic.end())?;
    layout.read(source)
}

/// The bytes of a verifying key.
pub fn write_vk(vk: &VerifyingKey, form: Form) -> Vec<u8> {
    let (mut out, encoding) = (Vec::new(), form.encoding());
    encode(&vk.alpha_g1, encoding, &mut out);
    for point in [&vk.beta_g2, &vk.gamma_g2, &vk.delta_g2] {
        encode(point, encoding, &mut out);
    }
    out.extend((vk.ic.len() as u64).to_le_bytes());
    vk.ic.iter().for_each(|point| encode(point, encoding, &mut out));
    out
}

/// Bytes of an uncompressed proof.
const UNCOMPRESSED_PROOF: u64 = 384;

/// Reads one proof in either form; its points must be of order r and not infinity.
pub fn read_proof(bytes: &[u8]) -> Result<Proof> {
    if let Ok(bytes) = bytes.try_into() {
        return Proof::from_bytes(bytes);
    }
    if bytes.len() as u64 != UNCOMPRESSED_PROOF {
        let expected = format!("{} (compressed) or {UNCOMPRESSED_PROOF}", Proof::BYTES);
        return Err(Error::invalid("the proof", format!("{} bytes", bytes.len()), expected));
    }
    let form = Form::Uncompressed;
    let (reading, g1, g2) = (strictly(form), form.g1_bytes(), form.g2_bytes());
    Ok(Proof {
        a: read_point(bytes, "A", 0, reading)?,
        b: read_point(bytes, "B", g1, reading)?,
        c: read_point(bytes, "C", g1 + g2, reading)?,
    })
}

/// The bytes of a proof: compressed, those of [`Proof::to_bytes`].
pub fn write_proof(proof: &Proof, form: Form) -> Vec<u8> {
    let (mut out, encoding) = (Vec::new(), form.encoding());
    encode(&proof.a, encoding, &mut out);
    encode(&proof.b, encoding, &mut out);
    encode(&proof.c, encoding, &mut out);
    out
}
