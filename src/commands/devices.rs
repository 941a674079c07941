//! `forebay devices`.

use forebay::Result;
use forebay::backend::{Backend, cpu::Cpu};

/// A backend and why it is not there, if it is not.
pub const ABSENT: [(&str, &str); 2] =
    [("cuda", "not part of this version"), ("wgpu", "not part of this version")];

/// Prints the backends and their devices.
pub fn run() -> Result<()> {
    let cpu = Cpu::open();
    let info = cpu.info();
    println!(
        "{:6} found    {}, {:.1} GiB of memory",
        info.backend,
        info.name,
        info.memory_bytes as f64 / (1u64 << 30) as f64
    );
    for (backend, reason) in ABSENT {
        println!("{backend:6} missing  {reason}");
    }
    Ok(())
}
