//! Every WGSL module, without a device: it validates with no more than it says it needs, stays within what every implementation of
//! WebGPU has, becomes SPIR-V, MSL and HLSL, and does not grow: the words of SPIR-V of each are at most those of
//! `tests/shaders.txt`.
#![cfg(feature = "wgpu")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use forebay::backend::wgpu::{Access, Core, Kernel, Registers};
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess};

/// A module of a kernel: with a core if it computes, with registers in one place or the other if it is over a curve.
struct Named {
    name: String,
    kernel: Kernel,
    core: Option<Core>,
    text: String,
}

/// Modules of every kernel with every core.
fn modules() -> Vec<Named> {
    let mut modules: Vec<Named> = Vec::new();
    for registers in [Registers::Private, Registers::Shared] {
        for kernel in Kernel::all(registers) {
            let cores = match kernel.has_core() {
                true => Core::ALL.map(Some).to_vec(),
                false => vec![None],
            };
            for core in cores {
                let text = kernel.module(core.unwrap_or(Core::Narrow));
                if modules.iter().any(|known| known.text == text) {
                    continue;
                }
                let mut name = kernel.name().replace(' ', "-");
                name += &core.map_or("-".into(), |core| format!("-{core:?}"));
                if kernel.is_over_a_curve() {
                    name += &format!("-{registers:?}");
                }
                modules.push(Named { name, kernel, core, text });
            }
        }
    }
    modules
}

fn parsed(name: &str, text: &str) -> Module {
    naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(text)))
}

fn validated(module: &Module, capabilities: Capabilities) -> Result<ModuleInfo, String> {
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.validate(module).map_err(|error| format!("{error:?}"))
}

/// A module's information, with no capability or with 64-bit integers alone.
fn information(name: &str, core: Option<Core>, module: &Module) -> ModuleInfo {
    let int64 = core.is_some_and(Core::needs_int64);
    let needs = if int64 { Capabilities::SHADER_INT64 } else { Capabilities::empty() };
    if int64 {
        assert!(validated(module, Capabilities::empty()).is_err(), "{name}: does without u64");
    }
    validated(module, needs).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn modules_need_what_they_say_and_no_more_than_webgpu_has() {
    for Named { name, kernel, core, text } in modules() {
        let module = parsed(&name, &text);
        information(&name, core, &module);
        let [entry] = &module.entry_points[..] else { panic!("{name}: one entry point") };
        assert_eq!(entry.name, "main", "{name}");
        let threads: u32 = entry.workgroup_size.iter().product();
        assert!(threads <= 256, "{name}: {threads} threads");

        let mut layouter = naga::proc::Layouter::default();
        layouter.update(module.to_ctx()).expect("sizes");
        let (mut buffers, mut shared) = (BTreeMap::new(), 0);
        for (_, variable) in module.global_variables.iter() {
            let size = layouter[variable.ty].size;
            match variable.space {
                AddressSpace::Uniform => {
                    let binding = variable.binding.as_ref().expect("a binding");
                    assert_eq!((binding.group, binding.binding), (0, 0), "{name}: parameters");
                    assert!(size <= 256, "{name}: {size} bytes of parameters");
                    assert!(size.is_multiple_of(16), "{name}: {size} bytes of parameters");
                }
                AddressSpace::Storage { access } => {
                    let binding = variable.binding.as_ref().expect("a binding");
                    assert_eq!(binding.group, 0, "{name}");
                    let writes = access.contains(StorageAccess::STORE);
                    buffers
                        .insert(binding.binding, if writes { Access::Write } else { Access::Read });
                }
                AddressSpace::WorkGroup => shared += size,
                AddressSpace::Private => {}
                _ => panic!("{name}: {variable:?}"),
            }
        }
        assert!(shared <= 16 << 10, "{name}: {shared} bytes of workgroup memory");
        let places: Vec<_> = buffers.keys().copied().collect();
        assert_eq!(places, (1..=buffers.len() as u32).collect::<Vec<_>>(), "{name}");
        let buffers: Vec<_> = buffers.into_values().collect();
        assert_eq!(buffers, kernel.bindings(), "{name}: buffers");
        assert!(buffers.len() <= 8, "{name}: {} buffers", buffers.len());
    }
}

#[test]
fn modules_become_what_drivers_take() {
    for Named { name, core, text, .. } in modules() {
        let module = parsed(&name, &text);
        let information = information(&name, core, &module);
        let options = msl::Options {
            lang_version: (2, 4),
            fake_missing_bindings: true,
            ..msl::Options::default()
        };
        msl::write_string(&module, &information, &options, &msl::PipelineOptions::default())
            .unwrap_or_else(|error| panic!("{name}: MSL: {error}"));
        let model = match core.is_some_and(Core::needs_int64) {
            true => hlsl::ShaderModel::V6_0,
            false => hlsl::ShaderModel::V5_1,
        };
        let options = hlsl::Options {
            shader_model: model,
            fake_missing_bindings: true,
            ..hlsl::Options::default()
        };
        let pipeline = hlsl::PipelineOptions::default();
        let mut out = String::new();
        hlsl::Writer::new(&mut out, &options, &pipeline)
            .write(&module, &information, None)
            .unwrap_or_else(|error| panic!("{name}: HLSL: {error}"));
        // naga writes them for old models too, whose compilers do not know them.
        assert!(
            model == hlsl::ShaderModel::V6_0 || !out.contains("int64_t"),
            "{name}: 64-bit integers in HLSL 5.1"
        );
    }
}

#[test]
fn modules_do_not_grow() {
    let mut table = String::from("module words\n");
    for Named { name, core, text, .. } in modules() {
        let module = parsed(&name, &text);
        let information = information(&name, core, &module);
        let options = spv::Options {
            lang_version: (1, 3),
            flags: spv::WriterFlags::empty(),
            force_loop_bounding: false,
            zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
            ..spv::Options::default()
        };
        let pipeline =
            spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: "main".into() };
        let words = spv::write_vec(&module, &information, &options, Some(&pipeline))
            .unwrap_or_else(|error| panic!("{name}: SPIR-V: {error}"));
        writeln!(table, "{name} {}", words.len()).expect("a string");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shaders.txt");
    if std::env::var_os("WRITE_SHADER_TABLE").is_some() {
        std::fs::write(&path, &table).expect("tests/shaders.txt");
    }
    let ceilings = std::fs::read_to_string(&path).unwrap_or_default();
    let words_of = |line: &str| {
        let (name, words) = line.rsplit_once(' ')?;
        Some((name.to_owned(), words.parse::<usize>().ok()?))
    };
    let ceilings: BTreeMap<_, _> = ceilings.lines().filter_map(words_of).collect();
    let new: Vec<_> = table.lines().filter_map(words_of).collect();
    let too_long: Vec<_> = new
        .iter()
        .filter(|(name, words)| ceilings.get(name).is_none_or(|ceiling| words > ceiling))
        .collect();
    assert!(
        too_long.is_empty() && new.len() == ceilings.len(),
        "more words than in tests/shaders.txt, which WRITE_SHADER_TABLE=1 writes anew: {too_long:?}"
    );
}
