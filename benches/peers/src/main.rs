//! The command line of the benchmark.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use peers::ark;
use peers::key;
use peers::prover::{Blinding, Case, Proved, Prover, ProverName};
use peers::report::{CaseReport, ProverReport, Report, forebay_to_best_peer};
use peers::system::{Kind, System};

/// Measures Groth16 provers for BLS12-381 on one and the same system.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Sizes of the domain, as powers of two
    #[arg(long, value_delimiter = ',', default_value = "16,18", value_parser = log_n)]
    log_n: Vec<u32>,

    /// Systems to prove
    #[arg(long, value_enum, value_delimiter = ',', default_value = "dense,bits")]
    kind: Vec<Kind>,

    /// Timed proofs of each prover on each system
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Provers, in the order of their turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "ark,bellperson,forebay")]
    provers: Vec<ProverName>,

    /// Folder where proving keys are kept [default: peers-keys in the target folder]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// File to write the results to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measure ark even where it was built without its assembly
    #[arg(long)]
    no_asm: bool,
}

fn log_n(text: &str) -> Result<u32, String> {
    let range = System::LOG_N;
    text.parse()
        .ok()
        .filter(|n| range.contains(n))
        .ok_or_else(|| format!("give numbers from {} to {}", range.start(), range.end()))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let asm_missing = cfg!(target_arch = "x86_64") && !ark::ASM;
    ensure!(
        !asm_missing || arguments.no_asm || !arguments.provers.contains(&ProverName::Ark),
        "this build is without ark's assembly: build it in this package's own folder with \
         RUSTFLAGS unset, or give --no-asm"
    );
    let cache = match &arguments.cache {
        Some(cache) => cache.clone(),
        None => default_cache()?,
    };
    let smallest = arguments.log_n.iter().min().copied();

    let mut cases = Vec::new();
    for &kind in &arguments.kind {
        for &log_n in &arguments.log_n {
            let warm_up = Some(log_n) == smallest;
            let case = load(kind, log_n, &cache)?;
            let report = measure(&case, &arguments.provers, arguments.runs, warm_up)
                .with_context(|| format!("{kind} 2^{log_n}"))?;
            cases.push(report);
        }
    }
    let report = Report { threads: rayon::current_num_threads(), ark_asm: ark::ASM, cases };
    print!("{report}");
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)?;
        fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A folder beside the profile's folder that this program lies in.
fn default_cache() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let target = program.parent().and_then(|profile| profile.parent());
    Ok(target.context("give --cache")?.join("peers-keys"))
}

fn load(kind: Kind, log_n: u32, cache: &std::path::Path) -> Result<Case> {
    let system = System::new(kind, log_n)?;
    let key = key::load_or_make(&system, cache)?;
    Ok(Case { system: Arc::new(system), key: Arc::new(key) })
}

/// Lets all provers prove the case, in turns.
fn measure(case: &Case, names: &[ProverName], runs: u32, warm_up: bool) -> Result<CaseReport> {
    let (kind, log_n) = (case.system.kind, case.system.log_n);
    let mut provers: Vec<Box<dyn Prover>> = Vec::new();
    for &name in names {
        match name.set_up(case)? {
            Some(prover) => provers.push(prover),
            None => eprintln!("{name} is not built in: left out"),
        }
    }
    if warm_up {
        round(&mut provers, &Blinding::of_run(0))?;
    }
    let mut costs = vec![Vec::new(); provers.len()];
    for run in 1..=runs {
        let proved = round(&mut provers, &Blinding::of_run(run.into()))?;
        for ((prover, proved), costs) in provers.iter().zip(proved).zip(&mut costs) {
            let cost = proved.cost;
            eprintln!(
                "{kind} 2^{log_n} run {run} {}: {:.3} CPU s, {:.3} wall s",
                prover.name(),
                cost.cpu.as_secs_f64(),
                cost.wall.as_secs_f64()
            );
            costs.push(cost);
        }
    }
    let provers: Vec<_> = (provers.iter().zip(&costs))
        .map(|(prover, costs)| ProverReport::new(prover.name(), costs))
        .collect();
    Ok(CaseReport {
        kind,
        log_n,
        rows: case.system.rows.len(),
        columns: case.system.assignment.len(),
        forebay_to_best_peer: forebay_to_best_peer(&provers),
        provers,
    })
}

/// One proof of every prover. Those that took the blinding must agree.
fn round(provers: &mut [Box<dyn Prover>], blinding: &Blinding) -> Result<Vec<Proved>> {
    let mut round = Vec::new();
    for prover in provers {
        let name = prover.name();
        round.push(prover.prove(blinding).with_context(|| name.to_string())?);
    }
    let mut proofs = round.iter().filter_map(|proved| proved.proof);
    if let Some(first) = proofs.next() {
        ensure!(proofs.all(|proof| proof == first), "the provers made different proofs");
    }
    Ok(round)
}
