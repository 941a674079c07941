//! The result: as a table to read and as JSON to keep.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::cost::Cost;
use crate::prover::ProverName;
use crate::system::Kind;

/// All that one call of the benchmark found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Threads of the rayon pool.
    pub threads: usize,
    /// Whether ark's field arithmetic was its assembly.
    pub ark_asm: bool,
    pub cases: Vec<CaseReport>,
}

/// All provers on one system.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    pub kind: Kind,
    pub log_n: u32,
    pub rows: usize,
    pub columns: usize,
    pub provers: Vec<ProverReport>,
    /// forebay's CPU seconds over those of the better peer.
    pub forebay_to_best_peer: Option<Ratio>,
}

/// A ratio of CPU seconds, taken twice. On a machine that other work disturbs
/// the minima are the steadier ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub of_medians: f64,
    pub of_minima: f64,
}

/// One prover on one system.
#[derive(Debug, Serialize)]
pub struct ProverReport {
    pub prover: ProverName,
    pub cpu_seconds: Seconds,
    pub wall_seconds: Seconds,
}

/// Seconds of all runs, in the order of the runs, and their summary.
#[derive(Debug, Serialize)]
pub struct Seconds {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: Vec<f64>,
}

impl Seconds {
    /// The summary of `runs`, of which there must be one at least.
    fn new(runs: impl Iterator<Item = Duration>) -> Self {
        let runs: Vec<f64> = runs.map(|d| d.as_secs_f64()).collect();
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Seconds { median, min: sorted[0], max: sorted[sorted.len() - 1], runs }
    }
}

impl ProverReport {
    /// Sums `costs` up, of which there must be one at least.
    pub fn new(prover: ProverName, costs: &[Cost]) -> Self {
        ProverReport {
            prover,
            cpu_seconds: Seconds::new(costs.iter().map(|c| c.cpu)),
            wall_seconds: Seconds::new(costs.iter().map(|c| c.wall)),
        }
    }
}

/// forebay's CPU seconds over those of the better peer, if both are there.
pub fn forebay_to_best_peer(provers: &[ProverReport]) -> Option<Ratio> {
    let ratio = |of: fn(&Seconds) -> f64| {
        let (ours, peers): (Vec<_>, Vec<_>) =
            (provers.iter()).partition(|p| p.prover == ProverName::Forebay);
        let ours = of(&ours.first()?.cpu_seconds);
        let best = (peers.iter().map(|p| of(&p.cpu_seconds))).min_by(f64::total_cmp)?;
        Some(ours / best)
    };
    Some(Ratio {
        of_medians: ratio(|seconds| seconds.median)?,
        of_minima: ratio(|seconds| seconds.min)?,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} threads, ark's assembly {}",
            self.threads,
            if self.ark_asm { "on" } else { "OFF" }
        )?;
        writeln!(
            f,
            "{:<6} {:<5} {:<11} {:>27} {:>9} {:>22}",
            "kind", "size", "prover", "CPU s: median (min..max)", "wall s", "forebay / best peer"
        )?;
        for case in &self.cases {
            for prover in &case.provers {
                let cpu = &prover.cpu_seconds;
                let cpu = format!("{:.3} ({:.3}..{:.3})", cpu.median, cpu.min, cpu.max);
                let ratio = (case.forebay_to_best_peer)
                    .filter(|_| prover.prover == ProverName::Forebay)
                    .map(|r| format!("{:.3} (minima {:.3})", r.of_medians, r.of_minima))
                    .unwrap_or_default();
                let line = format!(
                    "{:<6} {:<5} {:<11} {:>27} {:>9.3} {:>22}",
                    case.kind,
                    format!("2^{}", case.log_n),
                    prover.prover,
                    cpu,
                    prover.wall_seconds.median,
                    ratio
                );
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let of = |seconds: &[u64]| Seconds::new(seconds.iter().map(|&s| Duration::from_secs(s)));
        assert_eq!(of(&[5]).median, 5.0);
        assert_eq!(of(&[9, 1, 4]).median, 4.0);
        assert_eq!(of(&[4, 1, 9, 6]).median, 5.0);
        assert_eq!((of(&[9, 1, 4]).min, of(&[9, 1, 4]).max), (1.0, 9.0));
    }

    #[test]
    fn ratio_is_to_the_better_peer() {
        let report = |prover, seconds| {
            let time = Duration::from_secs(seconds);
            let cost = Cost { cpu: time, wall: time };
            ProverReport::new(prover, &[cost])
        };
        let peers = [
            report(ProverName::Ark, 8),
            report(ProverName::Bellperson, 10),
            report(ProverName::Forebay, 4),
        ];
        let half = Ratio { of_medians: 0.5, of_minima: 0.5 };
        assert_eq!(forebay_to_best_peer(&peers), Some(half));
        assert_eq!(forebay_to_best_peer(&peers[..2]), None);
    }
}
