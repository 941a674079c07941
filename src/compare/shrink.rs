//! The smallest input that still makes a difference.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::Result;
use crate::field::Field;

use super::operation::{Difference, Operation, Values};

/// Tries after which an input is small enough. What goes wrong for one element, or a few, takes two tries for each halving
/// of each of them.
const TRIES: usize = 400;

/// An input that makes a difference.
pub(super) struct Shrunk {
    pub(super) operation: Operation,
    pub(super) difference: Difference,
    pub(super) expected: blake3::Hash,
    pub(super) found: blake3::Hash,
    /// Whether nothing more can be left out; if not, the tries were over.
    pub(super) smallest: bool,
}

/// Both backends' results of an operation.
type Run<'a> = &'a dyn Fn(&Operation) -> Result<[Values; 2]>;

/// The smallest part of `operation` for which the results of `run` differ; `None` if they do not differ for the whole of it.
pub(super) fn shrink(operation: &Operation, run: Run<'_>) -> Result<Option<Shrunk>> {
    let mut search = Search { run, tries: 0, smallest: None };
    if !search.differs(operation)? {
        return Ok(None);
    }
    search.fewer_elements(operation)?;
    for simpler in search.now().simpler() {
        if search.differs(&simpler)? {
            break;
        }
    }
    let over = search.is_over();
    Ok(search.smallest.map(|shrunk| Shrunk { smallest: !over, ..shrunk }))
}

struct Search<'a> {
    run: Run<'a>,
    tries: usize,
    /// What differed last, which is the smallest that did.
    smallest: Option<Shrunk>,
}

impl Search<'_> {
    fn now(&self) -> Operation {
        self.smallest.as_ref().expect("the whole differs").operation.clone()
    }

    fn is_over(&self) -> bool {
        self.tries >= TRIES
    }

    /// Whether `operation`, smaller than what differed before, differs too.
    fn differs(&mut self, operation: &Operation) -> Result<bool> {
        self.tries += 1;
        let [expected, found] = (self.run)(operation)?;
        let Some(difference) = expected.difference(&found) else { return Ok(false) };
        self.smallest = Some(Shrunk {
            operation: operation.clone(),
            difference,
            expected: expected.digest(),
            found: found.digest(),
            smallest: false,
        });
        Ok(true)
    }

    fn fewer_elements(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Transform { transform, data } => {
                // From the smallest, so that all tries together cost no more than the whole.
                for log_n in 1..data.len().ilog2() {
                    let data = Arc::new(Zeroizing::new(data[..1 << log_n].to_vec()));
                    if self.differs(&Operation::Transform { transform: *transform, data })? {
                        break;
                    }
                }
                let now = self.now();
                let Operation::Transform { data, .. } = &now else { return Ok(()) };
                let not_zero = (0..data.len()).filter(|index| !data[*index].is_zero()).collect();
                self.without_chunks(&now, not_zero)
            }
            Operation::SumG1(_) | Operation::SumG2(_) => {
                self.without_chunks(operation, (0..operation.len()).collect())
            }
            _ => {
                // Every element is made on its own, or should be.
                let first = self.smallest.as_ref().and_then(|shrunk| shrunk.difference.index);
                if let Some(first) = first
                    && self.differs(&operation.only(&[first]))?
                {
                    return Ok(());
                }
                self.without_chunks(operation, (0..operation.len()).collect())
            }
        }
    }

    /// Leaves out whatever can be, in chunks of half of what there is, then of a quarter, down to single elements (Zeller's delta
    /// debugging, complements alone).
    fn without_chunks(&mut self, operation: &Operation, mut kept: Vec<usize>) -> Result<()> {
        let can_be_empty = matches!(
            operation,
            Operation::Transform { .. } | Operation::SumG1(_) | Operation::SumG2(_)
        );
        let mut chunk = kept.len().div_ceil(2);
        while chunk > 0 {
            let (mut at, before) = (0, kept.len());
            while at < kept.len() {
                if self.is_over() {
                    return Ok(());
                }
                let end = (at + chunk).min(kept.len());
                let rest = [&kept[..at], &kept[end..]].concat();
                // Of nothing there is a sum and a transform of zeros, but no vector that could differ.
                let is_something = !rest.is_empty() || can_be_empty;
                match is_something && self.differs(&operation.only(&rest))? {
                    true => kept = rest,
                    false => at = end,
                }
            }
            // Single elements are tried again until all of them are needed.
            chunk = match chunk {
                1 if kept.len() == before => 0,
                1 => 1,
                _ => chunk.div_ceil(2).min(kept.len().div_ceil(2)),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Vector;
    use super::*;
    use crate::backend::Quotient;
    use crate::field::Fr;

    fn numbers(len: u64) -> Vector {
        Arc::new(Zeroizing::new((1..=len).map(Fr::from).collect()))
    }

    /// What is left of a product of 1..=1000, as numbers, if it differs where `differs` says so.
    fn left(differs: impl Fn(&[Fr]) -> bool) -> Option<(Vec<Fr>, bool)> {
        let operation = Operation::Quotient {
            step: Quotient::Product,
            accumulator: numbers(1000),
            operand: numbers(1000),
        };
        let run = |operation: &Operation| {
            let Operation::Quotient { accumulator, .. } = operation else { unreachable!() };
            let mut found = Zeroizing::new(accumulator.to_vec());
            if differs(accumulator) {
                found[0] += Fr::ONE;
            }
            Ok([accumulator.clone(), Arc::new(found)].map(Values::Scalars))
        };
        let shrunk = shrink(&operation, &run).expect("no run fails")?;
        let Operation::Quotient { accumulator, .. } = shrunk.operation else { unreachable!() };
        Some((accumulator.to_vec(), shrunk.smallest))
    }

    #[test]
    fn what_is_needed_is_left_and_nothing_else() {
        for needed in [&[1u64][..], &[500], &[1000], &[1, 1000], &[3, 400, 401, 998]] {
            let needed: Vec<Fr> = needed.iter().copied().map(Fr::from).collect();
            let has_all = |there: &[Fr]| needed.iter().all(|number| there.contains(number));
            assert_eq!(left(has_all), Some((needed.clone(), true)));
        }
        assert_eq!(left(|_| false), None);
    }

    #[test]
    fn a_search_that_is_too_long_stops() {
        let (left, smallest) = left(|there| there.len() >= 300).expect("it differs");
        assert!((300..1000).contains(&left.len()) && !smallest, "{}", left.len());
    }
}
