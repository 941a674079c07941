//! NVRTC, NVIDIA's compiler as a library: CUDA C++ in, machine code of one architecture out.
#![allow(unsafe_code, reason = "NVRTC is a C library")]

use std::ffi::{CStr, CString, c_char, c_int};

use cudarc::nvrtc::sys;
use sys::nvrtcResult;

use crate::{Error, Result};

/// What is compiled to one module.
pub(super) struct Program<'a> {
    /// The name in messages.
    pub name: &'a str,
    pub text: &'a str,
    /// What `#include` finds: names and texts.
    pub headers: &'a [(&'a str, &'a str)],
    pub options: &'a [String],
}

/// The machine code, and what the compiler said beside it.
pub(super) struct Compiled {
    pub cubin: Vec<u8>,
    pub log: String,
}

/// Whether the library can be loaded. If not, only what was compiled before can be used.
pub(super) fn is_present() -> bool {
    // SAFETY: loading a library runs its initialisers; this is the vendor's, found by the system's own rules.
    unsafe { sys::is_culib_present() }
}

/// The library's version, such as (13, 0); `None` without the library.
pub(super) fn version() -> Option<(u32, u32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two ints; called only if the library can be loaded.
    let result = is_present().then(|| unsafe { sys::nvrtcVersion(&mut major, &mut minor) })?;
    (result == nvrtcResult::NVRTC_SUCCESS).then_some((major as u32, minor as u32))
}

/// A program of the library's, ended when dropped.
struct Handle(sys::nvrtcProgram);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; a failure leaves nothing to do.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

/// Compiles `program`. May be called by several threads at once.
///
/// # Errors
/// [`Error::Kernel`] with the compiler's words.
pub(super) fn compile(program: &Program<'_>) -> Result<Compiled> {
    let fail = |log: String| Error::Kernel { backend: "cuda", name: program.name.into(), log };
    if !is_present() {
        return Err(fail("it must be compiled, but NVRTC (libnvrtc) is not on this system".into()));
    }
    let check = |result: nvrtcResult| {
        if result == nvrtcResult::NVRTC_SUCCESS {
            return Ok(());
        }
        // SAFETY: a static string for every number.
        let text = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(result)) };
        Err(fail(text.to_string_lossy().into_owned()))
    };
    let c_string = |text: &str| {
        CString::new(text).map_err(|_| fail("there is a zero byte in its text".to_owned()))
    };
    let (name, text) = (c_string(program.name)?, c_string(program.text)?);
    let header = |(name, text): &(&str, &str)| Ok((c_string(name)?, c_string(text)?));
    let headers = program.headers.iter().map(header).collect::<Result<Vec<_>>>()?;
    let names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
    let texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
    let options = program.options.iter().map(|text| c_string(text)).collect::<Result<Vec<_>>>()?;
    let options: Vec<_> = options.iter().map(|text| text.as_ptr()).collect();

    let mut raw = std::ptr::null_mut();
    // SAFETY: all pointers are to strings that end with a zero and outlive the call, which copies them; both arrays
    // have as many as the count says.
    check(unsafe {
        sys::nvrtcCreateProgram(
            &mut raw,
            text.as_ptr(),
            name.as_ptr(),
            headers.len() as c_int,
            texts.as_ptr(),
            names.as_ptr(),
        )
    })?;
    let handle = Handle(raw);
    // SAFETY: as above.
    let compiled =
        unsafe { sys::nvrtcCompileProgram(handle.0, options.len() as c_int, options.as_ptr()) };
    // SAFETY: both calls write what they say: a size, then as many bytes.
    let log = output(&handle, sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog);
    let log = log.map(|log| String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned());
    if compiled == nvrtcResult::NVRTC_ERROR_COMPILATION {
        return Err(fail(log.unwrap_or_default()));
    }
    check(compiled)?;
    let cubin = output(&handle, sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN);
    Ok(Compiled {
        cubin: cubin.map_err(|result| check(result).unwrap_err())?,
        log: log.unwrap_or_default(),
    })
}

type SizeOf = unsafe fn(sys::nvrtcProgram, *mut usize) -> nvrtcResult;
type Get = unsafe fn(sys::nvrtcProgram, *mut c_char) -> nvrtcResult;

/// What a pair of functions of the library return about a program.
fn output(handle: &Handle, size_of: SizeOf, get: Get) -> std::result::Result<Vec<u8>, nvrtcResult> {
    let mut size = 0;
    // SAFETY: writes one size.
    let result = unsafe { size_of(handle.0, &mut size) };
    if result != nvrtcResult::NVRTC_SUCCESS {
        return Err(result);
    }
    let mut bytes = vec![0u8; size];
    // SAFETY: writes as many bytes as the size said.
    match unsafe { get(handle.0, bytes.as_mut_ptr().cast()) } {
        nvrtcResult::NVRTC_SUCCESS => Ok(bytes),
        result => Err(result),
    }
}
