//! How much memory an adapter has, and how much of it is free: wgpu itself does not say.

use super::BACKEND;
use super::adapter::Found;
use crate::{Error, Result};

/// Bytes of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// All of it.
    pub total: u64,
    /// What this process could take now, beside what it has.
    pub free: u64,
}

/// The memory of `adapter`.
///
/// # Errors
/// [`Error::NoDevice`] where it is not known, and must be said.
pub(super) fn of(adapter: &wgpu::Adapter, found: &Found) -> Result<Capacity> {
    let capacity = if found.is_software { of_host() } else { of_vulkan(adapter) };
    capacity.ok_or_else(|| Error::NoDevice {
        backend: BACKEND.into(),
        reason: format!(
            "{}: its driver ({}) does not say how much memory it has; name a part of it (--vram 4GiB)",
            found.name, found.api
        ),
    })
}

/// `None` where the system does not say.
fn of_host() -> Option<Capacity> {
    let memory = sysinfo::MemoryRefreshKind::everything();
    let what = sysinfo::RefreshKind::nothing().with_memory(memory);
    let system = sysinfo::System::new_with_specifics(what).ok()?;
    Some(Capacity { total: system.total_memory(), free: system.available_memory() })
}

#[cfg(target_vendor = "apple")]
fn of_vulkan(_adapter: &wgpu::Adapter) -> Option<Capacity> {
    None
}

/// The largest heap that is the device's own.
#[cfg(not(target_vendor = "apple"))]
#[allow(unsafe_code, reason = "Vulkan is a C library")]
fn of_vulkan(adapter: &wgpu::Adapter) -> Option<Capacity> {
    // SAFETY: the adapter's own objects are only asked questions, and live as long as the guard.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = adapter.shared_instance().raw_instance();
    let device = adapter.raw_physical_device();
    // SAFETY: the handle is this instance's.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) };
    let has_budget = extensions.is_ok_and(|extensions| {
        let is_budget = |extension: &ash::vk::ExtensionProperties| {
            extension.extension_name_as_c_str() == Ok(ash::ext::memory_budget::NAME)
        };
        extensions.iter().any(is_budget)
    });
    let mut budget = ash::vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let heaps = if has_budget {
        let mut properties =
            ash::vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the handle is this instance's; an extension that adds to these properties needs the function that asks for
        // them; what it writes to outlives the call.
        unsafe { instance.get_physical_device_memory_properties2(device, &mut properties) };
        properties.memory_properties
    } else {
        // SAFETY: the handle is this instance's.
        unsafe { instance.get_physical_device_memory_properties(device) }
    };
    let local = (0..heaps.memory_heap_count as usize)
        .filter(|i| heaps.memory_heaps[*i].flags.contains(ash::vk::MemoryHeapFlags::DEVICE_LOCAL))
        .max_by_key(|i| heaps.memory_heaps[*i].size)?;
    let total = heaps.memory_heaps[local].size;
    let free = match has_budget {
        true => budget.heap_budget[local].saturating_sub(budget.heap_usage[local]),
        false => total,
    };
    Some(Capacity { total, free })
}
