//! Values and rows of one synthesis.

use std::sync::Arc;

use crate::compact::{Compact, Value};
use crate::field::{Field, Fr};
use crate::key::{Density, append_bits};
use crate::witness::{Assignment, Rows};
use crate::{Error, Result};

use super::{Sizes, Variable};

/// The values of a circuit's variables and rows, packed as they come: some 4 bytes a row of mostly bits, never 96. Wiped when dropped.
#[derive(Default)]
pub struct Recording {
    inputs: Compact,
    aux: Compact,
    a: Compact,
    b: Compact,
    a_aux: Set,
    b_inputs: Set,
    b_aux: Set,
    /// The first row that does not hold, and its name.
    broken: Option<(usize, String)>,
}

impl Recording {
    /// Nothing, not even the constant 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with room for as much as `sizes` knows of.
    pub fn with_room(sizes: &Sizes) -> Self {
        let Some(known) = sizes.known.get() else { return Self::new() };
        let aux = Compact::with_counts(known.values);
        let [a, b] = known.rows.unwrap_or_default().map(Compact::with_counts);
        let set = || Set { words: Vec::with_capacity(known.values.len.div_ceil(64)), len: 0 };
        Self { aux, a, b, a_aux: set(), b_aux: set(), ..Self::new() }
    }

    /// The next input; the first must be 1.
    pub fn input(&mut self, value: Fr) -> usize {
        self.inputs.push(&value);
        self.b_inputs.push();
        self.inputs.len() - 1
    }

    /// The next private variable.
    pub fn aux(&mut self, value: Fr) -> usize {
        self.aux.push(&value);
        self.a_aux.push();
        self.b_aux.push();
        self.aux.len() - 1
    }

    /// The next row: the terms of A, B and C, each variable at most once a side. `name` is asked for the first row that does not hold.
    ///
    /// # Panics
    /// If there is no such variable.
    pub fn row(
        &mut self,
        a: impl Iterator<Item = (Variable, Fr)>,
        b: impl Iterator<Item = (Variable, Fr)>,
        c: impl Iterator<Item = (Variable, Fr)>,
        name: impl FnOnce() -> String,
    ) {
        let Self { inputs, aux, a_aux, b_inputs, b_aux, .. } = self;
        let values = Values { inputs, aux };
        // Inputs have a row of their own in A, so all of them stand there.
        let a = values.sum(a, |variable| match variable {
            Variable::Input(_) => {}
            Variable::Aux(i) => a_aux.insert(i),
        });
        let b = values.sum(b, |variable| match variable {
            Variable::Input(i) => b_inputs.insert(i),
            Variable::Aux(i) => b_aux.insert(i),
        });
        let c = values.sum(c, |_| {});
        if self.broken.is_none() && times(a, b) != c {
            self.broken = Some((self.a.len(), name()));
        }
        self.a.push(&a);
        self.b.push(&b);
    }

    /// Appends what `other` recorded; its constant 1 is this one's.
    ///
    /// # Panics
    /// If this has no constant 1 and the other has.
    pub fn extend(&mut self, other: &Self) {
        let rows = self.a.len();
        let own_inputs = other.inputs.len().saturating_sub(1);
        for i in 1..=own_inputs {
            self.inputs.push(&other.inputs.get(i).into());
        }
        self.aux.append(&other.aux);
        self.a.append(&other.a);
        self.b.append(&other.b);
        self.a_aux.append(&other.a_aux);
        self.b_aux.append(&other.b_aux);
        for (i, stands) in other.b_inputs.iter().enumerate() {
            if i > 0 {
                self.b_inputs.push();
            }
            if stands {
                self.b_inputs.insert(if i == 0 { 0 } else { self.b_inputs.len - 1 });
            }
        }
        if let (None, Some((row, name))) = (&self.broken, &other.broken) {
            self.broken = Some((rows + row, name.clone()));
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.a.len()
    }

    /// Bytes of all that is held.
    pub fn bytes(&self) -> u64 {
        let vectors = [&self.inputs, &self.aux, &self.a, &self.b].map(Compact::bytes);
        let sets = [&self.a_aux, &self.b_inputs, &self.b_aux].map(|set| 8 * set.words.len() as u64);
        vectors.iter().chain(&sets).sum()
    }

    /// The values alone, for a key that has the circuit's matrices; rows must not have been recorded.
    pub fn into_values(mut self) -> Result<Assignment> {
        self.check_one()?;
        Ok(Assignment { values: Arc::new(self.all_values()), rows: None })
    }

    /// Adds the rows of the inputs, and gives values and rows.
    ///
    /// # Errors
    /// [`Error::Unsatisfied`] with the first row that does not hold; [`Error::Invalid`] if input 0 is not 1.
    pub fn finish(mut self) -> Result<Assignment> {
        self.check_one()?;
        if let Some((row, name)) = &self.broken {
            let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
            return Err(Error::Unsatisfied(format!("row {row}{name}: a * b is not c")));
        }
        self.a.append(&self.inputs);
        for _ in 0..self.inputs.len() {
            self.b.push(&Fr::ZERO);
        }
        let values = Arc::new(self.all_values());
        let Self { mut a, mut b, a_aux, b_inputs, b_aux, .. } = self;
        a.shrink();
        b.shrink();
        let rows = Rows {
            a: Arc::new(a),
            b: Arc::new(b),
            a_aux: a_aux.into(),
            b_inputs: b_inputs.into(),
            b_aux: b_aux.into(),
        };
        Ok(Assignment { values, rows: Some(rows) })
    }

    fn check_one(&self) -> Result<()> {
        if self.inputs.is_empty() || self.inputs.get(0) != Value::One {
            return Err(Error::invalid("the circuit's input 0", "another value", "the constant 1"));
        }
        Ok(())
    }

    /// Takes inputs and private variables as one vector.
    fn all_values(&mut self) -> Compact {
        let mut values = std::mem::take(&mut self.inputs);
        values.append(&std::mem::take(&mut self.aux));
        values.shrink();
        values
    }
}

struct Values<'a> {
    inputs: &'a Compact,
    aux: &'a Compact,
}

impl Values<'_> {
    /// The sum of terms; `stands` is told each variable whose coefficient is not zero.
    fn sum(
        &self,
        terms: impl Iterator<Item = (Variable, Fr)>,
        mut stands: impl FnMut(Variable),
    ) -> Fr {
        let mut sum = Fr::ZERO;
        for (variable, coefficient) in terms {
            if coefficient.is_zero() {
                continue;
            }
            stands(variable);
            let value = match variable {
                Variable::Input(i) => self.inputs.get(i),
                Variable::Aux(i) => self.aux.get(i),
            };
            match value {
                Value::Zero => {}
                Value::One => sum += coefficient,
                Value::MinusOne => sum -= coefficient,
                value if coefficient == Fr::ONE => sum += value.into(),
                value => sum += times(coefficient, value.into()),
            }
        }
        sum
    }
}

/// a b, which costs nothing where one of them is 0 or 1: most often.
fn times(a: Fr, b: Fr) -> Fr {
    match () {
        () if a.is_zero() || b.is_zero() => Fr::ZERO,
        () if a == Fr::ONE => b,
        () if b == Fr::ONE => a,
        () => a * b,
    }
}

/// A growing set of variables; bits beyond the length are clear.
#[derive(Default)]
struct Set {
    words: Vec<u64>,
    len: usize,
}

impl Set {
    /// One more variable, which is not in the set.
    fn push(&mut self) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.len += 1;
    }

    fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map(|i| self.words[i / 64] >> (i % 64) & 1 == 1)
    }

    fn append(&mut self, other: &Self) {
        self.len = append_bits(&mut self.words, self.len, &other.words, other.len);
    }
}

impl From<Set> for Density {
    fn from(Set { words, len }: Set) -> Self {
        Self { words: words.into(), len }
    }
}
