//! What WGSL modules are made of: constants and arithmetic generated from [`crate::field`], then the text of kernel
//! files. Nothing here depends on a device.
//!
//! A module has one prime field. Its elements are `Element`, an array of `WORDS` words of 32 bits, in the host's form:
//! Montgomery, little-endian, fully reduced, whichever [`Core`] multiplies them. The functions are `f_zero`, `f_one`,
//! `f_is_zero`, `f_add`, `f_sub`, `f_half`, `f_mul`; and `f_unit()`, whose product with an element is its canonical form.

mod field;
#[cfg(test)]
mod harness;
mod multiplier;
pub(crate) mod programs;

use std::fmt::Write;

pub use self::field::Prime;

/// How a device multiplies. All give the same results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Core {
    /// Columns of 64 bits for limbs of 28 (Fp) and 29 (Fr) bits: needs SHADER_INT64.
    Wide,
    /// Limbs of 13 bits, whose columns stay below 2^32.
    Narrow,
    /// Limbs of 32 bits multiplied in halves, in a loop: slower than the others on GPUs, but little to compile.
    Halves,
}

impl Core {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Wide, Self::Narrow, Self::Halves];

    /// Whether its modules need SHADER_INT64.
    pub fn needs_int64(self) -> bool {
        self == Self::Wide
    }
}

/// The module of `prime` with these constants, all u32, and then these texts.
pub fn module(core: Core, prime: Prime, constants: &[(&str, u32)], texts: &[&str]) -> String {
    let mut module = field::text(prime);
    module += &multiplier::text(core, prime);
    append(&mut module, constants, texts);
    module
}

/// A module of these texts that needs no field.
pub fn plain_module(constants: &[(&str, u32)], texts: &[&str]) -> String {
    let mut module = String::new();
    append(&mut module, constants, texts);
    module
}

fn append(module: &mut String, constants: &[(&str, u32)], texts: &[&str]) {
    for (name, value) in constants {
        writeln!(module, "const {name}: u32 = {value}u;").expect("a string");
    }
    for text in texts {
        *module += text;
    }
}

/// Where a kernel keeps the registers of `programs`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Registers {
    /// In an array of each thread.
    Private,
    /// In the workgroup's memory, with few threads: for software adapters.
    Shared,
}

impl Registers {
    /// Threads of a workgroup.
    pub fn lanes(self) -> u32 {
        match self {
            Self::Private => 64,
            Self::Shared => 8,
        }
    }
}

/// A module over the curve whose coordinates have so many elements of Fp, with the constant `LANES`. A kernel binds the table
/// of [`programs`] as `program`.
pub fn curve_module(
    core: Core,
    degree: usize,
    registers: Registers,
    constants: &[(&str, u32)],
    texts: &[&str],
) -> String {
    let mut all = programs::Programs::new(degree).constants(degree);
    all.push(("LANES", registers.lanes()));
    all.extend(constants);
    let place = match registers {
        Registers::Private => include_str!("../../shaders/registers_private.wgsl"),
        Registers::Shared => include_str!("../../shaders/registers_shared.wgsl"),
    };
    let curve = include_str!("../../shaders/curve.wgsl");
    module(core, Prime::Fp, &all, &[&[place, curve], texts].concat())
}
