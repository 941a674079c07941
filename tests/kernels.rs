//! Every kernel, compiled by NVRTC for every architecture that is supported, without a card: registers and local memory of each are
//! those of `tests/kernels.txt`. Ignored unless asked for, since it needs NVRTC: `.ci/run` fetches it.
#![cfg(feature = "cuda")]

use std::fmt::Write;
use std::path::Path;

use forebay::backend::cuda::module::{Architecture, compiler_version, resources};

const ARCHITECTURES: [&str; 5] = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"];

/// The table is of this version of NVRTC: others assign registers otherwise.
const VERSION: (u32, u32) = (13, 0);

#[test]
#[ignore = "needs NVRTC 13.0: -- --include-ignored"]
fn registers_and_local_memory_are_those_of_the_table() {
    assert_eq!(compiler_version(), Some(VERSION), "the version of NVRTC");
    let of = |name: &str| {
        let architecture: Architecture = name.parse().expect("an architecture");
        resources(architecture).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let all = std::thread::scope(|scope| {
        let threads = ARCHITECTURES.map(|name| (name, scope.spawn(move || of(name))));
        threads.map(|(name, thread)| (name, thread.join().expect("kernels that compile")))
    });
    let mut table = String::from("architecture file kernel registers local-bytes\n");
    for (name, kernels) in all {
        for kernel in kernels {
            let (registers, local_bytes) = (kernel.registers, kernel.local_bytes);
            writeln!(table, "{name} {} {} {registers} {local_bytes}", kernel.file, kernel.kernel)
                .expect("a string");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels.txt");
    if std::env::var_os("WRITE_KERNEL_TABLE").is_some() {
        std::fs::write(&path, &table).expect("tests/kernels.txt");
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    let new: Vec<_> =
        table.lines().filter(|line| !want.lines().any(|want| want == *line)).collect();
    assert!(
        want == table,
        "not in tests/kernels.txt, which WRITE_KERNEL_TABLE=1 writes anew:\n{}",
        new.join("\n")
    );
}
