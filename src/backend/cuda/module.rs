//! Kernels from source to machine code of the architecture at hand, once: cubins are kept in the user's cache folder.
//!
//! A cubin is named by the BLAKE3 digest of everything that it is made from, and begins with the digest of itself, so
//! that a file that was cut short or spoiled is compiled again instead of loaded. Which NVRTC made it is not part of
//! the name: a machine that has only the driver runs what another has compiled (`forebay kernels build`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::nvrtc::{self, Program};
use crate::Result;
use crate::backend::source;
use crate::cache::kept;

/// The folder's name has the version of the files' layout.
const FOLDER: &str = "kernels-1";

/// A GPU architecture by its compute capability, such as `sm_90`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture(u32);

impl Architecture {
    /// The architecture of compute capability `major.minor`.
    pub fn new(major: u32, minor: u32) -> Self {
        Self(10 * major + minor)
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

impl std::str::FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = text.strip_prefix("sm_").and_then(|digits| digits.parse().ok());
        number.map(Self).ok_or_else(|| format!("{text} is no architecture such as sm_90"))
    }
}

/// Where machine code is kept; `None` where the system has no place for caches.
pub fn cache_folder() -> Option<PathBuf> {
    Some(crate::cache::folder()?.join(FOLDER))
}

/// Machine code of one source file.
pub struct Cubin {
    /// The source file's name.
    pub name: &'static str,
    /// An ELF file.
    pub bytes: Vec<u8>,
}

/// Machine code for `architecture`, one for each file of kernels: from the cache, and compiled where it has none, all
/// files at once.
///
/// # Errors
/// [`Error::Kernel`](crate::Error::Kernel) if one does not compile, or would have to be and there is no NVRTC.
pub fn build(architecture: Architecture) -> Result<Vec<Cubin>> {
    let started = Instant::now();
    let prelude = source::prelude();
    let mut headers = vec![(source::PRELUDE, prelude.as_str())];
    headers.extend(source::HEADERS);
    let announced = AtomicBool::new(false);
    let build = |(name, text)| {
        let started = Instant::now();
        let options = options(architecture);
        let program = Program { name, text, headers: &headers, options: &options };
        let file = file_of(&program);
        if let Some(bytes) = file.as_ref().and_then(|file| kept::read(file)) {
            tracing::debug!(
                "{name} for {architecture}: from the cache in {:.1?}",
                started.elapsed()
            );
            return Ok(Cubin { name, bytes });
        }
        if !announced.swap(true, Ordering::Relaxed) {
            tracing::warn!("compiling the kernels for {architecture}, once: it may take a minute");
        }
        let bytes = nvrtc::compile(&program)?.cubin;
        if let Some(file) = file
            && let Err(error) = kept::write(&file, &bytes)
        {
            tracing::warn!("cannot keep {name} for the next time: {error}");
        }
        tracing::info!("{name} for {architecture}: compiled in {:.1?}", started.elapsed());
        Ok(Cubin { name, bytes })
    };
    let cubins = std::thread::scope(|scope| {
        let threads: Vec<_> = source::KERNELS
            .iter()
            .map(|file| {
                let build = &build;
                scope.spawn(move || build(*file))
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(cubin) => cubin,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    });
    tracing::info!("kernels for {architecture}: ready in {:.1?}", started.elapsed());
    cubins
}

/// The version of NVRTC, such as (13, 0); `None` where there is none, and only what the cache has can be loaded.
pub fn compiler_version() -> Option<(u32, u32)> {
    nvrtc::version()
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// The source file.
    pub file: &'static str,
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: slow, for what has no register.
    pub local_bytes: u32,
}

/// Compiles every kernel for `architecture`, past the cache, and reads what the assembler says of it.
///
/// # Errors
/// [`Error::Kernel`](crate::Error::Kernel) if one does not compile, or there is no NVRTC.
pub fn resources(architecture: Architecture) -> Result<Vec<Resources>> {
    let prelude = source::prelude();
    let mut headers = vec![(source::PRELUDE, prelude.as_str())];
    headers.extend(source::HEADERS);
    let mut options = options(architecture);
    options.push("--ptxas-options=-v".into());
    let of = |(name, text): &(&'static str, &'static str)| {
        let program = Program { name, text, headers: &headers, options: &options };
        Ok(read_resources(name, &nvrtc::compile(&program)?.log))
    };
    let files = source::KERNELS.iter().map(of).collect::<Result<Vec<_>>>()?;
    Ok(files.into_iter().flatten().collect())
}

/// Reads the assembler's report: for each kernel a line with its name, one with its stack, one with its registers.
fn read_resources(file: &'static str, log: &str) -> Vec<Resources> {
    let number_before = |line: &str, what: &str| -> Option<u32> {
        line.split_once(what)?.0.trim_end().rsplit(' ').next()?.parse().ok()
    };
    let mut resources: Vec<Resources> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            resources.push(Resources { file, kernel, registers: 0, local_bytes: 0 });
        } else if let Some(last) = resources.last_mut() {
            if let Some(bytes) = number_before(line, " bytes stack frame") {
                last.local_bytes = last.local_bytes.max(bytes);
            }
            if let Some(registers) = number_before(line, " registers") {
                last.registers = registers;
            }
        }
    }
    resources
}

fn options(architecture: Architecture) -> Vec<String> {
    vec![format!("--gpu-architecture={architecture}"), "--std=c++17".into()]
}

/// The file that a program's machine code is kept in; `None` where there is no cache folder.
fn file_of(program: &Program<'_>) -> Option<PathBuf> {
    let texts = [program.name, program.text].into_iter();
    let headers = program.headers.iter().flat_map(|(name, text)| [*name, *text]);
    let options = program.options.iter().map(String::as_str);
    let digest = kept::digest(texts.chain(headers).chain(options));
    Some(cache_folder()?.join(format!("{}.cubin", digest.to_hex())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_as_the_compiler_calls_them() {
        assert_eq!(Architecture::new(9, 0).to_string(), "sm_90");
        assert_eq!("sm_120".parse(), Ok(Architecture::new(12, 0)));
        assert!("90".parse::<Architecture>().is_err() && "sm_9x".parse::<Architecture>().is_err());
    }

    #[test]
    fn the_assembler_s_report_is_read() {
        let log = "ptxas info    : 36 bytes gmem\n\
            ptxas info    : Compiling entry function 'evaluate' for 'sm_90'\n\
            ptxas info    : Function properties for evaluate\n\
            ptxas         .     504 bytes stack frame, 1288 bytes spill stores, 1444 bytes spill loads\n\
            ptxas info    : Used 128 registers, used 1 barriers, 504 bytes cumulative stack size\n\
            ptxas info    : Compiling entry function 'table' for 'sm_90'\n\
            ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 38 registers, used 0 barriers\n";
        let of = |kernel: &str, registers, local_bytes| Resources {
            file: "ntt.cu",
            kernel: kernel.into(),
            registers,
            local_bytes,
        };
        assert_eq!(read_resources("ntt.cu", log), [of("evaluate", 128, 504), of("table", 38, 0)]);
    }

    #[test]
    fn every_part_of_a_program_is_part_of_its_name() {
        let program = |name, text, header: &[(&str, &str)], options: &[String]| {
            file_of(&Program { name, text, headers: header, options })
        };
        let options = options(Architecture::new(9, 0));
        let base = program("a", "b", &[("c", "d")], &options);
        assert!(base.is_some_and(|base| {
            ![
                program("ab", "", &[("c", "d")], &options),
                program("a", "b", &[("cd", "")], &options),
                program("a", "b", &[("c", "d")], &self::options(Architecture::new(8, 9))),
            ]
            .contains(&Some(base))
        }));
    }
}
