//! Development keys without a ceremony: a `.zkey` from a constraint system and five secrets.
//!
//! Whoever knows the secrets can forge proofs, so such a key is for tests and benchmarks alone. Sections 1
//! to 9 are a pure function of constraints and secrets, and equal byte for byte what snarkjs makes from
//! a ceremony with the same secrets.

use std::io::Write;

use rayon::prelude::*;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::curve::batch::FixedBase;
use crate::curve::{Affine, Coordinate};
use crate::field::{Field, Fp, Fp2, Fr, batch_inverse};
use crate::format::points::fr_to_double_montgomery;
use crate::format::r1cs::{R1cs, Term};
use crate::format::{Progress, Source};
use crate::{Error, Result};

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
        let text: std::collections::BTreeMap<String, String> = serde_json::from_slice(text)
            .map_err(|error| {
                Error::invalid("the secrets", error, "JSON with tau, alpha, beta and delta")
            })?;
        let secret = |name: &str| {
            let expected = "a hexadecimal number below r, not 0";
            let text = text
                .get(name)
                .ok_or_else(|| Error::invalid(format!("the secret {name}"), "nothing", expected))?;
            let plausible = text.len() <= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
            let number =
                plausible.then(|| num_bigint::BigUint::parse_bytes(text.as_bytes(), 16)).flatten();
            let value = number
                .and_then(|number| Fr::from_biguint(&number))
                .filter(|value| !value.is_zero());
            value.ok_or_else(|| {
                Error::invalid(format!("the secret {name}"), "something else", expected)
            })
        };
        if text.contains_key("gamma") && secret("gamma")? != Fr::ONE {
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

/// What shapes a key beside constraints and secrets.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Write the H points as snarkjs does from a powers-of-tau file of this power (2^power points): where
    /// that is exactly the domain, its highest Lagrange level lacks one power of tau.
    pub ptau_power: Option<u32>,
}

/// Points made and written at a time.
const BLOCK: usize = 1 << 16;

/// Writes the `.zkey` of `r1cs` for `secrets` to `out`.
///
/// # Errors
/// If the system has more than 2^31 - 1 rows, tau hits the domain, or a file fails.
pub fn write_zkey<S: Source + ?Sized>(
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

    let lagrange = lagrange_at(secrets.tau, log_n)?;
    let mut columns = Columns::new(variables);
    let mut coefficients: u32 = 0;
    let mut count = |terms: &[Term]| -> Result<()> {
        let sum = u32::try_from(terms.len()).ok().and_then(|len| coefficients.checked_add(len));
        coefficients = sum.ok_or_else(|| {
            Error::invalid("the constraint system", "2^32 coefficients or more", "fewer")
        })?;
        Ok(())
    };
    r1cs.for_each(|row, [a, b, c]| {
        count(a)?;
        count(b)?;
        columns.add(lagrange[row], a, b, c);
        Ok(())
    })?;
    let first_extra = header.constraints as usize;
    for s in 0..inputs {
        let one = Term { wire: s as u32, coefficient: Fr::ONE };
        count(&[one])?;
        columns.add(lagrange[first_extra + s], &[one], &[], &[]);
    }
    drop(lagrange);
    let Columns { a, b, mut c } = columns;
    // beta A + alpha B + C, over gamma = 1 for the inputs and over delta for the rest
    let inverse_delta = secrets.delta.inverse();
    c.par_iter_mut().zip(&a[..]).zip(&b[..]).enumerate().for_each(|(i, ((c, a), b))| {
        *c += secrets.beta * *a + secrets.alpha * *b;
        if i >= inputs {
            *c *= inverse_delta;
        }
    });
    let h = h_scalars(secrets, log_n, options)?;

    let g1 = FixedBase::new(&Fp::generator(), 3 * variables + n);
    let g2 = FixedBase::new(&Fp2::generator(), variables);
    let mut out = Writer { out, progress };
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
    let in_g1 = g1.multiply(&[secrets.alpha, secrets.beta, secrets.delta]);
    let in_g2 = g2.multiply(&[secrets.beta, Fr::ONE, secrets.delta]);
    out.bytes(bytemuck::cast_slice(&in_g1[..2]))?;
    out.bytes(bytemuck::cast_slice(&in_g2[..2]))?;
    out.bytes(bytemuck::cast_slice(&in_g1[2..]))?;
    out.bytes(bytemuck::cast_slice(&in_g2[2..]))?;

    out.points(3, &g1, &c[..inputs])?;
    out.section(4, 4 + 44 * u64::from(coefficients))?;
    out.bytes(&coefficients.to_le_bytes())?;
    r1cs.for_each(|row, [a, b, _]| {
        out.coefficients(0, row as u32, a)?;
        out.coefficients(1, row as u32, b)
    })?;
    for s in 0..inputs {
        let one = Term { wire: s as u32, coefficient: Fr::ONE };
        out.coefficients(0, (first_extra + s) as u32, &[one])?;
    }
    out.points(5, &g1, &a)?;
    out.points(6, &g1, &b)?;
    out.points(7, &g2, &b)?;
    out.points(8, &g1, &c[inputs..])?;
    out.points(9, &g1, &h)?;
    // No circuit hash and no contribution: that is how `inspect` and others see that no ceremony was held.
    out.section(10, 68)?;
    out.bytes(&[0; 68])
}

/// Numbers from which the secrets could be computed, wiped as they are.
type Derived = Zeroizing<Vec<Fr>>;

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

    fn add(&mut self, lagrange: Fr, a: &[Term], b: &[Term], c: &[Term]) {
        for (column, terms) in [(&mut self.a, a), (&mut self.b, b), (&mut self.c, c)] {
            for term in terms {
                column[term.wire as usize] += term.coefficient * lagrange;
            }
        }
    }
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
    out.par_chunks_mut(BLOCK).enumerate().for_each(|(block, out)| {
        let start = first * step.pow((block * BLOCK) as u64);
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
    let mut root = v;
    for h in h.iter_mut() {
        *h = (*h - missing * root) * inverse_delta;
        root *= step;
    }
    Ok(h)
}

struct Writer<'a, W> {
    out: &'a mut W,
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

    fn coefficients(&mut self, matrix: u32, row: u32, terms: &[Term]) -> Result<()> {
        for term in terms {
            for word in [matrix, row, term.wire] {
                self.bytes(&word.to_le_bytes())?;
            }
            self.bytes(&fr_to_double_montgomery(&term.coefficient))?;
        }
        Ok(())
    }

    /// A section of the multiples of a generator by `scalars`.
    fn points<F: Coordinate>(
        &mut self,
        id: u32,
        base: &FixedBase<F>,
        scalars: &[Fr],
    ) -> Result<()> {
        self.section(id, size_of::<Affine<F>>() as u64 * scalars.len() as u64)?;
        for scalars in scalars.chunks(BLOCK) {
            self.bytes(bytemuck::cast_slice(&base.multiply(scalars)))?;
            self.progress.advance(scalars.len() as u64);
        }
        Ok(())
    }
}
