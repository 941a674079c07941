//! Compiles the kernels of sppark that are measured, with nvcc.

use std::env;

fn main() {
    // What sppark's own crate emits has no code for Hopper, which then waits for the driver's compiler once.
    let architectures = env::var("PEERS_SM").unwrap_or_else(|_| "90".into());
    println!("cargo:rerun-if-env-changed=PEERS_SM");
    println!("cargo:rerun-if-changed=cuda");

    let mut nvcc = cc::Build::new();
    nvcc.cuda(true).std("c++17").opt_level(3).warnings(false).inherit_rustflags(false);
    for sm in architectures.split(',') {
        nvcc.flag("-gencode").flag(format!("arch=compute_{sm},code=sm_{sm}"));
    }
    // The headers of sppark and blst warn of what they know.
    for quiet in ["-Wno-unused-function", "-Wno-subobject-linkage"] {
        nvcc.flag("-Xcompiler").flag(quiet);
    }
    nvcc.define("FEATURE_BLS12_381", None);
    // Errors come with their text, as `sppark::Error` expects.
    nvcc.define("TAKE_RESPONSIBILITY_FOR_ERROR_MESSAGE", None);
    // As blst's own build script decides.
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("adx") {
        nvcc.define("__ADX__", None);
    }
    for include in ["DEP_SPPARK_ROOT", "DEP_BLST_C_SRC"] {
        nvcc.include(env::var_os(include).expect("set by the package's own build script"));
    }
    nvcc.files(["cuda/sums.cu", "cuda/transforms.cu"]).compile("peers");
}
