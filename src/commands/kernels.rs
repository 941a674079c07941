//! `forebay kernels`.

use forebay::Result;
use forebay::backend::cuda::{devices, module};

use crate::cli::Kernels;
use crate::terminal::Terminal;

/// Compiles; the outcome stands in the cache.
pub fn run(command: &Kernels, terminal: &Terminal) -> Result<()> {
    let Kernels::Build { arch } = command;
    let mut architectures = arch.clone();
    if architectures.is_empty() {
        architectures = devices()?.iter().map(|device| device.architecture).collect();
    }
    architectures.sort();
    architectures.dedup();
    for architecture in architectures {
        let cubins = module::build(architecture)?;
        let bytes: usize = cubins.iter().map(|cubin| cubin.bytes.len()).sum();
        terminal.say(format!(
            "{architecture}: {} modules, {} KiB, in {}",
            cubins.len(),
            bytes >> 10,
            module::cache_folder().map_or("no cache".into(), |folder| folder.display().to_string())
        ));
    }
    Ok(())
}
