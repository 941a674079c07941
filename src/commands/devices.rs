//! `forebay devices`.

#[cfg(any(feature = "cuda", feature = "wgpu"))]
use forebay::Error;
use forebay::Result;
use forebay::backend::{Backend, cpu::Cpu};

/// Prints the backends and their devices.
pub fn run() -> Result<()> {
    let cpu = Cpu::open();
    let info = cpu.info();
    println!("{:6} found    {}, {}", info.backend, info.name, gigabytes(info.memory_bytes));
    cuda();
    wgpu();
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

#[cfg(feature = "wgpu")]
fn wgpu() {
    match forebay::backend::wgpu::devices() {
        Err(Error::NoDevice { reason, .. }) => println!("wgpu   missing  {reason}"),
        Err(error) => println!("wgpu   missing  {error}"),
        Ok(devices) => {
            for device in devices {
                let id = device.pci_bus_id.as_deref().unwrap_or("no PCI id");
                let int64 = if device.has_int64 { "with" } else { "without" };
                println!(
                    "wgpu   found    {}: {} ({}, {}, {id}), {int64} 64-bit integers{}",
                    device.index,
                    device.name,
                    device.api,
                    device.driver,
                    if device.is_software { "; software, used if there is no other" } else { "" }
                );
            }
        }
    }
}

#[cfg(not(feature = "wgpu"))]
fn wgpu() {
    println!("wgpu   missing  not part of this build");
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GiB of memory", bytes as f64 / (1u64 << 30) as f64)
}
