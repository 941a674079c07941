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
    #[cfg(feature = "cuda")]
    for device in forebay::backend::cuda::devices().unwrap_or_default() {
        use forebay::backend::cuda::{Cuda, Options};
        let card = Cuda::open(device.index, Options::default())?;
        let named = |(name, passed)| (format!("{name}, card {}", device.index), passed);
        outcomes.extend(selftest::backend(&card)?.into_iter().map(named));
    }
    for (name, passed) in &outcomes {
        println!("{} {name}", if *passed { "pass" } else { "FAIL" });
    }
    selftest::require(&outcomes)
}
