//! Random satisfiable circuits, and numbers for them.

use bellpepper_core_02::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar;
use ff::Field as _;
use rand_core::RngCore;

/// Reproducible numbers that are random enough for tests (splitmix64).
pub struct Numbers(pub u64);

impl RngCore for Numbers {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next_u64() as u8);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

/// A circuit of `parts` independent parts of `rows` rows and one more each, with `inputs` public inputs in the first.
///
/// Its rows have coefficients that are zero, terms that cancel, variables that come again, inputs in B, sides without a term, and
/// variables that stand only in one of the matrices.
#[derive(Clone, Debug)]
pub struct Random {
    pub seed: u64,
    pub inputs: usize,
    pub rows: usize,
    pub parts: usize,
    /// Whether parts are synthesised on their own where that is possible.
    pub extends: bool,
}

impl Random {
    /// The same circuit, for whoever must not ask for values.
    pub fn without_values(self) -> Known {
        Known { circuit: self, values: false, broken: None }
    }

    /// The same circuit with a wrong value in one row.
    pub fn breaking(self, row: usize) -> Known {
        Known { circuit: self, values: true, broken: Some(row) }
    }
}

impl Circuit<Scalar> for Random {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        Known { circuit: self, values: true, broken: None }.synthesize(cs)
    }
}

/// [`Random`], and what is known of its values.
#[derive(Clone, Debug)]
pub struct Known {
    circuit: Random,
    values: bool,
    broken: Option<usize>,
}

impl Circuit<Scalar> for Known {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        for part in 0..self.circuit.parts {
            if !CS::is_extensible() || !self.circuit.extends {
                self.part(part, &mut cs.namespace(|| format!("part {part}")))?;
                continue;
            }
            let mut sub = CS::new();
            sub.alloc_input(|| "one", || Ok(Scalar::ONE))?;
            self.part(part, &mut sub)?;
            cs.extend(&sub);
        }
        Ok(())
    }
}

/// A sum as it is written: a variable may come again.
type Terms = Vec<(Scalar, usize)>;

impl Known {
    fn part<CS: ConstraintSystem<Scalar>>(
        &self,
        part: usize,
        cs: &mut CS,
    ) -> Result<(), SynthesisError> {
        let mut numbers = Numbers(self.circuit.seed.wrapping_add(part as u64));
        let mut known = vec![(CS::one(), Scalar::ONE)];
        let value = |value: Scalar| match self.values {
            true => Ok(value),
            false => Err(SynthesisError::AssignmentMissing),
        };
        if part == 0 {
            for i in 0..self.circuit.inputs {
                let number = number(&mut numbers);
                let input = cs.alloc_input(|| format!("input {i}"), || value(number))?;
                known.push((input, number));
            }
        }
        let seed = number(&mut numbers);
        let first = cs.alloc(|| "first", || value(seed))?;
        known.push((first, seed));
        for row in 0..self.circuit.rows {
            let name = || format!("row {row}");
            let (a, b) = (terms(&mut numbers, known.len()), terms(&mut numbers, known.len()));
            let of =
                |terms: &Terms| -> Scalar { terms.iter().map(|(x, i)| *x * known[*i].1).sum() };
            let product = of(&a) * of(&b);
            let wrong = if self.broken == Some(row) { Scalar::ONE } else { Scalar::ZERO };
            let out = cs.alloc(|| format!("out {row}"), || value(product + wrong))?;
            // Something that is added and taken away again.
            let nothing = terms(&mut numbers, known.len());
            let variables: Vec<Variable> = known.iter().map(|(variable, _)| *variable).collect();
            let sum = |lc: LinearCombination<Scalar>, terms: &Terms| {
                terms.iter().fold(lc, |lc, (x, i)| lc + (*x, variables[*i]))
            };
            let minus = |lc: LinearCombination<Scalar>, terms: &Terms| {
                terms.iter().fold(lc, |lc, (x, i)| lc - (*x, variables[*i]))
            };
            cs.enforce(
                name,
                |lc| minus(sum(sum(lc, &a), &nothing), &nothing),
                |lc| sum(lc, &b),
                |lc| minus(sum(lc, &nothing), &nothing) + out,
            );
            known.push((out, product));
        }
        // Every private variable stands somewhere; this one perhaps only here.
        cs.enforce(|| "the first", |lc| lc + first, |lc| lc, |lc| lc);
        Ok(())
    }
}

/// A bit, a small number, the negative of one, or any.
fn number(numbers: &mut Numbers) -> Scalar {
    match numbers.next_u32() % 5 {
        0 => Scalar::ZERO,
        1 => Scalar::ONE,
        2 => Scalar::from(numbers.next_u32() as u64),
        3 => -Scalar::from(numbers.next_u32() as u64 % 3),
        _ => Scalar::random(numbers),
    }
}

fn terms(numbers: &mut Numbers, variables: usize) -> Terms {
    let len = numbers.next_u32() as usize % 5;
    (0..len).map(|_| (number(numbers), numbers.next_u32() as usize % variables)).collect()
}
