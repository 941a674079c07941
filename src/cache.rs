//! Where the user's caches are.

#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub(crate) mod kept;

use std::path::PathBuf;

/// The folder of this program's caches: `$FOREBAY_CACHE`, else the cache folder of the system's custom. `None` where
/// neither is known.
pub(crate) fn folder() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let system = || {
        if cfg!(windows) {
            variable("LOCALAPPDATA")
        } else {
            variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))
        }
    };
    variable("FOREBAY_CACHE").or_else(|| Some(system()?.join("forebay")))
}
