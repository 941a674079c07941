//! `forebay devices`.

#[cfg(feature = "cuda")]
use forebay::Error;
use forebay::Result;
use forebay::backend::{Backend, cpu::Cpu};

/// A backend that is not there, and why.
const ABSENT: [(&str, &str); 1] = [("wgpu", "not part of this version")];

/// Prints the backends and their devices.
pub fn run() -> Result<()> {
    let cpu = Cpu::open();
    let info = cpu.info();
    println!("{:6} found    {}, {}", info.backend, info.name, gigabytes(info.memory_bytes));
    cuda();
    for (backend, reason) in ABSENT {
        println!("{backend:6} missing  {reason}");
    }
    Ok(())
}

#[cfg(feature = "cuda")]
fn cuda() {
    match forebay::backend::cuda::devices() {
        Err(Error::NoDevice { reason, .. }) => println!("cuda   missing  {reason}"),
        Err(error) => println!("cuda   missing  {error}"),
        Ok(devices) => {
            for device in devices {
                println!(
                    "cuda   found    {}: {} ({}, {}), {}",
                    device.index,
                    device.name,
                    device.architecture,
                    device.pci_bus_id,
                    gigabytes(device.memory_bytes)
                );
            }
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda() {
    println!("cuda   missing  not part of this build");
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GiB of memory", bytes as f64 / (1u64 << 30) as f64)
}
