//! What a comparison found, for people and for programs.

use std::fmt::{self, Display};

use serde_json::{Value, json};

use crate::{Error, Result};

use super::{Difference, Finding, Report, STAGES, Search, Stage};

/// Digits of a digest in the table.
const DIGITS: usize = 12;

impl Report {
    /// That all agreed, and a proof verified if one was made.
    ///
    /// # Errors
    /// [`Error::Differ`] with the first stage that differs; [`Error::SelfVerify`] if no proof verifies anywhere.
    pub fn outcome(&self) -> Result<()> {
        for stage in &self.stages {
            let Some((index, difference)) = stage.differs() else { continue };
            let [first, other] = [0, index].map(|index| self.devices[index].backend);
            let place = difference.index.map(|index| {
                let (count, of) = (difference.count, stage.elements);
                format!(", at element {index} first, in {count} of {of} elements")
            });
            let (stage, place) = (stage.name, place.unwrap_or_default());
            return Err(Error::Differ(format!("{other} differs from {first} in {stage}{place}")));
        }
        if self.proved == Some(false) {
            return Err(Error::SelfVerify(
                "all backends agree, but the witness does not satisfy the circuit, or the key is damaged"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        let devices = self.devices.iter();
        let devices = devices.map(|info| json!({ "backend": info.backend, "device": info.name }));
        json!({
            "r and s": "fixed",
            "backends": devices.collect::<Vec<_>>(),
            "agree": self.stages.iter().all(|stage| stage.differs().is_none()),
            "proved": self.proved,
            "stages": self.stages.iter().map(|stage| self.stage_to_json(stage)).collect::<Vec<_>>(),
            "failing": self.finding.as_ref().map(|finding| self.finding_to_json(finding)),
        })
    }

    fn stage_to_json(&self, stage: &Stage) -> Value {
        let results = stage.results.iter().zip(&self.devices).map(|(outcome, info)| {
            json!({
                "backend": info.backend,
                "blake3": outcome.digest.to_hex().as_str(),
                "seconds": outcome.elapsed.as_secs_f64(),
                "difference": outcome.difference.as_ref().map(difference_to_json),
            })
        });
        json!({
            "stage": stage.name,
            "elements": stage.elements,
            "agrees": stage.differs().is_none(),
            "results": results.collect::<Vec<_>>(),
        })
    }

    fn finding_to_json(&self, finding: &Finding) -> Value {
        let Finding { backend, difference, failing, search } = finding;
        json!({
            "stage": failing.stage(),
            "backend": self.devices[*backend].backend,
            "elements": failing.elements(),
            "search": match search {
                Search::Smallest => "smallest",
                Search::Stopped => "stopped",
                Search::NotAgain => "not again",
            },
            "difference": difference_to_json(difference),
        })
    }

    fn write_finding(&self, f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
        let Finding { backend, difference, failing, search } = finding;
        let (stage, elements) = (failing.stage(), failing.elements());
        write!(f, "\n\n{stage}, {}: ", self.devices[*backend].backend)?;
        match search {
            Search::Smallest => {
                write!(f, "the smallest input that differs, elements: {elements}")
            }
            Search::Stopped => {
                write!(f, "not every smaller input was tried, elements: {elements}")
            }
            Search::NotAgain => write!(f, "done again with the same input, it did not differ"),
        }?;
        if let Some(index) = difference.index {
            write!(f, "\n  element {index}, the first of {} that differ", difference.count)?;
        }
        write!(f, "\n  expected {}\n  found    {}", difference.expected, difference.found)
    }
}

fn difference_to_json(difference: &Difference) -> Value {
    let Difference { index, count, expected, found } = difference;
    json!({ "index": index, "count": count, "expected": expected, "found": found })
}

/// A table, and what became of the first difference.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "r and s are fixed, to compare by: such proofs are not zero-knowledge")?;
        for info in &self.devices {
            writeln!(f, "{}: {}", info.backend, info.name)?;
        }
        let width = STAGES.iter().map(|name| name.len()).max().unwrap_or_default();
        write!(f, "\n{:width$}  {:>10}  {:DIGITS$}", "stage", "elements", "BLAKE3")?;
        for info in &self.devices {
            write!(f, "  {:>19}", info.backend)?;
        }
        for Stage { name, elements, results } in &self.stages {
            let digest = &results[0].digest.to_hex()[..DIGITS];
            write!(f, "\n{name:width$}  {elements:>10}  {digest}")?;
            for outcome in results {
                let mark = if outcome.difference.is_some() { "DIFFERS " } else { "" };
                let text = format!("{mark}{:.2} ms", outcome.elapsed.as_secs_f64() * 1e3);
                write!(f, "  {text:>19}")?;
            }
        }
        self.finding.as_ref().map_or(Ok(()), |finding| self.write_finding(f, finding))
    }
}
