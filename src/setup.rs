//! Development keys without a ceremony: a `.zkey` from a constraint system and five secrets, or a `.params` from a circuit.
//!
//! Whoever knows the secrets can forge proofs, so such a key is for tests and benchmarks alone. Sections 1
//! to 9 are a pure function of constraints and secrets, and equal byte for byte what snarkjs makes from
//! a ceremony with the same secrets.

mod bellman;
mod points;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use rayon::prelude::*;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use self::points::Made;
use crate::backend::Backend;
use crate::curve::{G1Affine, G2Affine};
use crate::field::{Field, Fp, Fr, batch_inverse};
use crate::format::points::fr_to_double_montgomery;
use crate::format::r1cs::{Block, R1cs, Term};
use crate::format::{Progress, Source};
use crate::{Error, Result};

pub use self::bellman::write_params;

/// The secrets of a key ("toxic waste"), wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Secrets {
    /// The point of evaluation.
    pub tau: Fr,
    /// alpha.
    pub alpha: Fr,
    /// beta.
    pub beta: Fr,
    /// delta; gamma is 1, as in every snarkjs key.
    pub delta: Fr,
}

impl Secrets {
    /// Fresh secrets from the operating system.
    pub fn random() -> Result<Self> {
        Ok(Self {
            tau: Fr::random()?,
            alpha: Fr::random()?,
            beta: Fr::random()?,
            delta: Fr::random()?,
        })
    }

    /// Secrets from JSON: `tau`, `alpha`, `beta`, `delta` in hexadecimal, big-endian, and optionally `gamma`,
    /// which must be 1.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let mut texts: BTreeMap<String, String> =
            serde_json::from_slice(text).map_err(|error| {
                Error::invalid("the secrets", error, "JSON with tau, alpha, beta and delta")
            })?;
        let secrets = Self::from_texts(&texts);
        texts.values_mut().for_each(Zeroize::zeroize);
        secrets
    }

    fn from_texts(texts: &BTreeMap<String, String>) -> Result<Self> {
        let secret = |name: &str| {
            let expected = "a hexadecimal number below r, not 0";
            let text = texts
                .get(name)
                .ok_or_else(|| Error::invalid(format!("the secret {name}"), "nothing", expected))?;
            let value = from_hex(text).filter(|value| !value.is_zero());
            value.ok_or_else(|| {
                Error::invalid(format!("the secret {name}"), "something else", expected)
            })
        };
        if texts.contains_key("gamma") && secret("gamma")? != Fr::ONE {
            return Err(Error::invalid(
                "the secret gamma",
                "another number",
                "1, as in every snarkjs key",
            ));
        }
        Ok(Self {
            tau: secret("tau")?,
            alpha: secret("alpha")?,
            beta: secret("beta")?,
            delta: secret("delta")?,
        })
    }
}

/// A number below r from 1 to 64 hexadecimal digits.
fn from_hex(text: &str) -> Option<Fr> {
    if !(1..=64).contains(&text.len()) {
        return None;
    }
    let mut bytes = Zeroizing::new([0; 32]);
    for (i, digit) in text.bytes().rev().enumerate() {
        bytes[i / 2] |= (char::from(digit).to_digit(16)? as u8) << (4 * (i % 2));
    }
    Fr::from_le_bytes(&bytes)
}

/// What shapes a key beside constraints and secrets.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Write the H points as snarkjs does from a powers-of-tau file of this power (2^power points): where
    /// that is exactly the domain, its highest Lagrange level lacks one power of tau.
    pub ptau_power: Option<u32>,
}

const G1_BYTES: usize = size_of::<G1Affine>();
const G2_BYTES: usize = size_of::<G2Affine>();

/// Powers and inverses that one thread computes together.
const CHUNK: usize = 1 << 16;

/// Blocks of the constraint system that are read at once, by all threads: below 100 MiB of terms.
const BLOCKS_AT_ONCE: usize = 64;

/// Writes the `.zkey` of `r1cs` for `secrets` to `out`; `backend` makes the points, while others are written.
///
/// # Errors
/// If the system has more than 2^31 - 1 rows, tau hits the domain, a file or the device fails, or the device has no
/// memory for a few points.
pub fn write_zkey<B: Backend, S: Source + ?Sized>(
    backend: &B,
    r1cs: &R1cs<'_, S>,
    secrets: &Secrets,
    options: Options,
    progress: &dyn Progress,
    out: &mut impl Write,
) -> Result<()> {
    let header = r1cs.header;
    let (variables, inputs) = (header.wires as usize, header.public() as usize + 1);
    let rows = u64::from(header.constraints) + inputs as u64;
    let log_n =
        crate::key::log_domain("the constraint system, domain", rows.next_power_of_two().max(2))?;
    let n = 1usize << log_n;
    progress.begin("computing the key", (4 * variables + n) as u64);

    let started = Instant::now();
    let blocks = r1cs.blocks()?;
    tracing::info!("constraints counted in {:.1?}", started.elapsed());
    let in_rows: u64 = blocks.iter().map(|block| block.terms[0] + block.terms[1]).sum();
    let coefficients = u32::try_from(in_rows + inputs as u64).map_err(|_| {
        Error::invalid("the constraint system", "2^32 coefficients or more", "fewer")
    })?;
    let first_extra = header.constraints as usize;
    let lagrange = lagrange_at(secrets.tau, log_n)?;
    let mut columns = Columns::new(variables);
    for blocks in blocks.chunks(BLOCKS_AT_ONCE) {
        let weighted = blocks.par_iter().map(|block| weigh(r1cs, block, &lagrange));
        columns.add(&weighted.collect::<Result<Vec<_>>>()?);
    }
    let Columns { mut a, b, mut c } = columns;
    a.iter_mut().zip(&lagrange[first_extra..first_extra + inputs]).for_each(|(a, l)| *a += *l);
    drop(lagrange);
    combine(&mut c, &a, &b, inputs, secrets);
    let h = h_scalars(secrets, log_n, options)?;
    tracing::info!("scalars computed in {:.1?}", started.elapsed());

    std::thread::scope(|scope| {
        let (sender, made) = points::queue();
        scope.spawn(|| {
            // In the order of the file.
            points::make(backend, [3 * variables + n, variables], sender, |maker| {
                maker.g1(&[secrets.alpha, secrets.beta, secrets.delta])?;
                maker.g2(&[secrets.beta, Fr::ONE, secrets.delta])?;
                maker.g1(&c[..inputs])?;
                maker.g1(&a)?;
                maker.g1(&b)?;
                maker.g2(&b)?;
                maker.g1(&c[inputs..])?;
                maker.g1(&h)
            });
        });
        let mut out = Writer { out, made, progress };
        out.bytes(b"zkey")?;
        out.bytes(&1u32.to_le_bytes())?;
        out.bytes(&10u32.to_le_bytes())?;
        out.section(1, 4)?;
        out.bytes(&1u32.to_le_bytes())?;

        out.section(2, crate::format::zkey::HEADER_BYTES)?;
        out.bytes(&48u32.to_le_bytes())?;
        out.bytes(bytemuck::cast_slice(&Fp::MODULUS))?;
        out.bytes(&32u32.to_le_bytes())?;
        out.bytes(bytemuck::cast_slice(&Fr::MODULUS))?;
        for count in [header.wires, header.public(), n as u32] {
            out.bytes(&count.to_le_bytes())?;
        }
        let in_g1 = out.made.next()?;
        let in_g2 = out.made.next()?;
        out.bytes(&in_g1.bytes()[..2 * G1_BYTES])?;
        out.bytes(&in_g2.bytes()[..2 * G2_BYTES])?;
        out.bytes(&in_g1.bytes()[2 * G1_BYTES..])?;
        out.bytes(&in_g2.bytes()[2 * G2_BYTES..])?;

        out.points(3, G1_BYTES, inputs)?;
        out.section(4, 4 + 44 * u64::from(coefficients))?;
        out.bytes(&coefficients.to_le_bytes())?;
        for blocks in blocks.chunks(BLOCKS_AT_ONCE) {
            let encoded = blocks.par_iter().map(|block| encode(r1cs, block));
            for bytes in encoded.collect::<Result<Vec<_>>>()? {
                out.bytes(&bytes)?;
            }
        }
        for s in 0..inputs {
            let one = Term { wire: s as u32, coefficient: Fr::ONE };
            out.bytes(&coefficient(0, first_extra + s, &one))?;
        }
        tracing::info!("coefficients written in {:.1?}", started.elapsed());
        out.points(5, G1_BYTES, variables)?;
        out.points(6, G1_BYTES, variables)?;
        out.points(7, G2_BYTES, variables)?;
        out.points(8, G1_BYTES, variables - inputs)?;
        out.points(9, G1_BYTES, n)?;
        // No circuit hash and no contribution: that is how `inspect` and others see that no ceremony was held.
        out.section(10, 68)?;
        tracing::info!("points written in {:.1?}", started.elapsed());
        out.bytes(&[0; 68])
    })
}

/// Numbers from which the secrets could be computed, wiped as they are.
type Derived = Zeroizing<Vec<Fr>>;

/// From the variables' polynomials of C at tau those of beta A + alpha B + C, over gamma = 1 for the inputs and over delta for the rest.
fn combine(c: &mut [Fr], a: &[Fr], b: &[Fr], inputs: usize, secrets: &Secrets) {
    let inverse_delta = secrets.delta.inverse();
    c.par_iter_mut().zip(a).zip(b).enumerate().for_each(|(i, ((c, a), b))| {
        *c += secrets.beta * *a + secrets.alpha * *b;
        if i >= inputs {
            *c *= inverse_delta;
        }
    });
}

/// Terms of A, B and C, each times its row's Lagrange polynomial at tau; wiped.
type Weighted = [Zeroizing<Vec<Term>>; 3];

fn weigh<S: Source + ?Sized>(
    r1cs: &R1cs<'_, S>,
    block: &Block,
    lagrange: &[Fr],
) -> Result<Weighted> {
    let mut weighted = block.terms.map(|len| Zeroizing::new(Vec::with_capacity(len as usize)));
    r1cs.for_each_of(block, |row, sides| {
        for (weighted, terms) in weighted.iter_mut().zip(sides) {
            let times = |term: &Term| term.coefficient * lagrange[row];
            weighted.extend(terms.iter().map(|term| Term { coefficient: times(term), ..*term }));
        }
        Ok(())
    })?;
    Ok(weighted)
}

/// The polynomials of the variables at tau.
struct Columns {
    a: Derived,
    b: Derived,
    c: Derived,
}

impl Columns {
    fn new(variables: usize) -> Self {
        let zero = || Zeroizing::new(vec![Fr::ZERO; variables]);
        Self { a: zero(), b: zero(), c: zero() }
    }

    fn add(&mut self, blocks: &[Weighted]) {
        let columns = [&mut self.a, &mut self.b, &mut self.c];
        columns.into_par_iter().enumerate().for_each(|(side, column)| {
            for term in blocks.iter().flat_map(|block| block[side].iter()) {
                column[term.wire as usize] += term.coefficient;
            }
        });
    }
}

/// Section 4's part of a block.
fn encode<S: Source + ?Sized>(r1cs: &R1cs<'_, S>, block: &Block) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(44 * (block.terms[0] + block.terms[1]) as usize);
    r1cs.for_each_of(block, |row, [a, b, _]| {
        for (matrix, terms) in [(0, a), (1, b)] {
            terms.iter().for_each(|term| bytes.extend(coefficient(matrix, row, term)));
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// One entry of section 4; matrix 0 is A, 1 is B.
fn coefficient(matrix: u32, row: usize, term: &Term) -> [u8; 44] {
    let mut bytes = [0; 44];
    for (chunk, word) in bytes.chunks_mut(4).zip([matrix, row as u32, term.wire]) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes[12..].copy_from_slice(&fr_to_double_montgomery(&term.coefficient));
    bytes
}

/// snarkjs' primitive 2^log_n-th root of unity.
fn snarkjs_root(log_n: u32) -> Fr {
    Fr::root_of_unity(log_n).pow(Fr::SNARKJS_ROOT_EXPONENT.into())
}

/// All n Lagrange polynomials of snarkjs' domain at tau: `L_i` = (tau^n - 1)/n * w^i/(tau - w^i).
fn lagrange_at(tau: Fr, log_n: u32) -> Result<Derived> {
    let w = snarkjs_root(log_n);
    lagrange(tau, log_n, Fr::ONE, w, 1 << log_n)
}

/// `count` values (tau^N - 1)/N * x/(tau - x), N = 2^log_order, for x = `first` * `step`^i among the N-th roots.
fn lagrange(tau: Fr, log_order: u32, first: Fr, step: Fr, count: usize) -> Result<Derived> {
    let order = Fr::from(1u64 << log_order);
    let vanishing = tau.pow(1 << log_order) - Fr::ONE;
    if vanishing.is_zero() {
        return Err(Error::invalid(
            "the secret tau",
            "a root of unity of the domain",
            "another number",
        ));
    }
    let scale = vanishing * order.inverse();
    let mut out = Zeroizing::new(vec![Fr::ZERO; count]);
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(block, out)| {
        let start = first * step.pow((block * CHUNK) as u64);
        let roots: Vec<Fr> =
            std::iter::successors(Some(start), |x| Some(*x * step)).take(out.len()).collect();
        out.iter_mut().zip(&roots).for_each(|(out, x)| *out = tau - *x);
        batch_inverse(out);
        out.iter_mut().zip(&roots).for_each(|(out, x)| *out *= *x * scale);
    });
    Ok(out)
}

/// The scalars of H: the Lagrange polynomials of the 2n-th roots at the odd ones, over delta.
fn h_scalars(secrets: &Secrets, log_n: u32, options: Options) -> Result<Derived> {
    let v = snarkjs_root(log_n + 1);
    let step = v.square();
    let mut h = lagrange(secrets.tau, log_n + 1, v, step, 1 << log_n)?;
    let inverse_delta = secrets.delta.inverse();
    // From 2^power points snarkjs has the powers of tau up to 2n - 2, one short for a level of 2n points:
    // each polynomial lacks its last term tau^(2n-1) v^(2i+1)/(2n).
    let missing = match options.ptau_power {
        Some(power) if power == log_n => {
            let n2 = 2u64 << log_n;
            secrets.tau.pow(n2 - 1) * Fr::from(n2).inverse()
        }
        Some(power) if power < log_n => {
            return Err(Error::Usage(format!(
                "a powers-of-tau file of 2^{power} is too small for a domain of 2^{log_n}"
            )));
        }
        _ => Fr::ZERO,
    };
    h.par_chunks_mut(CHUNK).enumerate().for_each(|(block, h)| {
        let mut root = v * step.pow((block * CHUNK) as u64);
        for h in h {
            *h = (*h - missing * root) * inverse_delta;
            root *= step;
        }
    });
    Ok(h)
}

/// A key on its way out: what is written, and the points as they are made.
struct Writer<'a, W> {
    out: &'a mut W,
    made: Made,
    progress: &'a dyn Progress,
}

impl<W: Write> Writer<'_, W> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(Error::io("the new key".as_ref()))
    }

    fn section(&mut self, id: u32, bytes: u64) -> Result<()> {
        self.bytes(&id.to_le_bytes())?;
        self.bytes(&bytes.to_le_bytes())
    }

    /// A section of the next `count` points, of `bytes` bytes each.
    fn points(&mut self, id: u32, bytes: usize, count: usize) -> Result<()> {
        let mut left = bytes * count;
        self.section(id, left as u64)?;
        while left > 0 {
            let points = self.made.next()?;
            let points = points.bytes();
            self.bytes(points)?;
            self.progress.advance((points.len() / bytes) as u64);
            left -= points.len();
        }
        Ok(())
    }
}
