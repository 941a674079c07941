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
    #[cfg(feature = "wgpu")]
    for device in forebay::backend::wgpu::devices().unwrap_or_default() {
        use forebay::backend::wgpu::{Adapter, Options, Wgpu};
        let adapter = Adapter::Index(device.index);
        let gpu = Wgpu::open(Options { adapter, ..Default::default() })?;
        let opening = gpu.opening();
        println!(
            "wgpu   opened   {}: in {:.1?}, kernels in {:.1?} ({}); {:?}: {:.2} G products of Fr a second, {:.2} of Fp",
            device.index,
            opening.all,
            opening.kernels,
            if opening.warm { "kept" } else { "new" },
            opening.speed.core,
            opening.speed.fr / 1e9,
            opening.speed.fp / 1e9,
        );
        let named = |(name, passed)| (format!("{name}, adapter {}", device.index), passed);
        outcomes.extend(selftest::backend(&gpu)?.into_iter().map(named));
    }
    for (name, passed) in &outcomes {
        println!("{} {name}", if *passed { "pass" } else { "FAIL" });
    }
    selftest::require(&outcomes)
}
