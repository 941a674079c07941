//! Which adapters there are, and which of them is meant.

use crate::cache::kept;
use crate::{Error, Result};

use super::BACKEND;

/// What can run the kernels. OpenGL cannot: it has no 64-bit integers, and its drivers lose devices with real limits.
const BACKENDS: wgpu::Backends =
    wgpu::Backends::VULKAN.union(wgpu::Backends::METAL).union(wgpu::Backends::DX12);

/// An adapter as its driver describes it, without opening it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its place in the list, as [`Adapter::Index`] takes it.
    pub index: usize,
    /// The driver's name of it.
    pub name: String,
    /// The driver's own name and version.
    pub driver: String,
    /// Vulkan, Metal or DX12.
    pub api: String,
    /// Such as `0000:3b:00.0`, where the driver says it.
    pub pci_bus_id: Option<String>,
    /// Whether it is the processor in disguise.
    pub is_software: bool,
    /// Whether kernels can have 64-bit integers.
    pub has_int64: bool,
}

/// Which adapter is meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Adapter {
    /// The first that is not software; the first of all if there is no other.
    #[default]
    First,
    /// The one at this place in the list.
    Index(usize),
    /// The first whose name has this part, in whatever case, or whose PCI id is this.
    Named(String),
}

impl std::str::FromStr for Adapter {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Named(text.into()), Self::Index))
    }
}

fn no_device(reason: impl Into<String>) -> Error {
    Error::NoDevice { backend: BACKEND.into(), reason: reason.into() }
}

fn all() -> Vec<wgpu::Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = BACKENDS;
    // Nothing is dispatched indirectly.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    pollster::block_on(instance.enumerate_adapters(BACKENDS))
}

fn describe(index: usize, adapter: &wgpu::Adapter) -> Found {
    let info = adapter.get_info();
    Found {
        index,
        name: info.name,
        driver: format!("{} {}", info.driver, info.driver_info).trim().into(),
        api: info.backend.to_string(),
        pci_bus_id: Some(info.device_pci_bus_id).filter(|id| !id.is_empty()),
        is_software: info.device_type == wgpu::DeviceType::Cpu,
        has_int64: adapter.features().contains(wgpu::Features::SHADER_INT64),
    }
}

/// The adapters in the order of their drivers.
///
/// # Errors
/// [`Error::NoDevice`] with the reason why there is none.
pub fn devices() -> Result<Vec<Found>> {
    let found: Vec<_> =
        all().iter().enumerate().map(|(index, adapter)| describe(index, adapter)).collect();
    if found.is_empty() {
        return Err(no_device(
            "no driver of Vulkan, Metal or DX12 has an adapter (OpenGL's are not used: they have no 64-bit integers)",
        ));
    }
    Ok(found)
}

/// The adapter that is meant.
pub(super) fn choose(adapter: &Adapter) -> Result<(wgpu::Adapter, Found)> {
    let mut all = all();
    let found: Vec<_> = all.iter().enumerate().map(|(i, adapter)| describe(i, adapter)).collect();
    let at = position(adapter, &found)?;
    Ok((all.swap_remove(at), found[at].clone()))
}

fn position(adapter: &Adapter, found: &[Found]) -> Result<usize> {
    let names = || {
        let names: Vec<_> =
            found.iter().map(|found| format!("{} {}", found.index, found.name)).collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    };
    match adapter {
        Adapter::First => match found.iter().position(|found| !found.is_software) {
            Some(at) => Ok(at),
            None if found.is_empty() => Err(no_device("no driver has an adapter")),
            None => {
                tracing::warn!(
                    "no GPU: {} computes on the processor, slower than the CPU backend",
                    found[0].name
                );
                Ok(0)
            }
        },
        Adapter::Index(index) => match index < &found.len() {
            true => Ok(*index),
            false => Err(no_device(format!("there is no adapter {index}; there are: {}", names()))),
        },
        Adapter::Named(name) => {
            let lower = name.to_lowercase();
            let is_meant = |found: &Found| {
                found.name.to_lowercase().contains(&lower)
                    || found.pci_bus_id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(name))
            };
            found.iter().position(is_meant).ok_or_else(|| {
                no_device(format!("no adapter is called {name}; there are: {}", names()))
            })
        }
    }
}

/// A name for what depends on an adapter, its driver and these texts.
pub(super) fn digest<'a>(
    info: &wgpu::AdapterInfo,
    texts: impl Iterator<Item = &'a str>,
) -> blake3::Hash {
    let numbers = format!("{} {} {}", info.vendor, info.device, info.backend);
    let mut all: Vec<&str> = vec![&info.name, &info.driver, &info.driver_info, &numbers];
    texts.for_each(|text| all.push(text));
    kept::digest(all.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: usize, name: &str, pci: Option<&str>, is_software: bool) -> Found {
        Found {
            index,
            name: name.into(),
            driver: String::new(),
            api: "vulkan".into(),
            pci_bus_id: pci.map(Into::into),
            is_software,
            has_int64: true,
        }
    }

    #[test]
    fn adapters_are_found_by_place_name_and_pci_id() {
        let all = [
            found(0, "llvmpipe (LLVM 15)", None, true),
            found(1, "Radeon 780M", Some("0000:c4:00.0"), false),
            found(2, "NVIDIA H200", Some("0000:3B:00.0"), false),
        ];
        let at = |text: &str| position(&text.parse().unwrap(), &all);
        assert_eq!(position(&Adapter::First, &all).unwrap(), 1);
        assert_eq!(position(&Adapter::First, &all[..1]).unwrap(), 0);
        assert_eq!(at("0").unwrap(), 0);
        assert_eq!(at("radeon").unwrap(), 1);
        assert_eq!(at("0000:3b:00.0").unwrap(), 2);
        for (text, reason) in [("3", "no adapter 3"), ("arc", "called arc")] {
            let error = at(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("1 Radeon 780M"), "{error}");
        }
        let none = position(&Adapter::First, &[]).unwrap_err();
        assert!(matches!(none, Error::NoDevice { .. }), "{none}");
    }
}
