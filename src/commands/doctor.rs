//! `forebay doctor`.

use forebay::backend::cpu::Cpu;
use forebay::{Result, selftest};

use super::devices;

/// Prints the devices and the known-answer tests' outcomes; fails if one is wrong.
pub fn run() -> Result<()> {
    println!(
        "forebay {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    devices::run()?;
    let mut outcomes = selftest::host();
    outcomes.extend(selftest::backend(&Cpu::open())?);
    for (name, passed) in &outcomes {
        println!("{} {name}", if *passed { "pass" } else { "FAIL" });
    }
    selftest::require(&outcomes)
}
