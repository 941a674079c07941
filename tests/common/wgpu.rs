//! The adapters of the tests that need one: any, or the software one of Mesa, lavapipe, in several disguises. These are ignored
//! unless asked for (`cargo test -- --include-ignored`), and fail where there is none.

use std::sync::OnceLock;

use forebay::backend::wgpu::{Adapter, Core, Options, Wgpu};

/// A device for each set of options, opened once.
macro_rules! once {
    ($options:expr) => {{
        static OPEN: OnceLock<Wgpu> = OnceLock::new();
        let open = || Wgpu::open($options).unwrap_or_else(|error| panic!("{error}"));
        OPEN.get_or_init(open).clone()
    }};
}

/// The first adapter.
pub fn any() -> Wgpu {
    once!(Options::default())
}

/// lavapipe, with memory for the tests: others run beside them.
pub fn software() -> Options {
    Options {
        adapter: Adapter::Named("llvmpipe".into()),
        vram: Some(1 << 30),
        ..Options::default()
    }
}

/// As it is.
pub fn lavapipe() -> Wgpu {
    once!(software())
}

/// Without 64-bit integers.
pub fn lavapipe_plain() -> Wgpu {
    once!(Options { int64: false, ..software() })
}

/// With 13-bit limbs, WebGPU's default limits and tiny segments.
pub fn lavapipe_small() -> Wgpu {
    once!(Options {
        core: Some(Core::Narrow),
        default_limits: true,
        segment_bytes: Some(SMALL_SEGMENT),
        ..software()
    })
}

/// Bytes of a tiny segment: transforms, sums and matrices of the suite take many. With less, sums would take minutes.
pub const SMALL_SEGMENT: u64 = 64 << 10;
