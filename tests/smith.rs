//! Modules and components that wasm-smith generates from numbers while the tests are built.
//!
//! They are not generated while the tests run: linked into them, wasm-smith would turn on a feature of a crate that
//! Cranelift is built with too, and `cargo test` would compile the engine a second time. The dependencies of a build script
//! are kept apart.

use std::{env, error::Error, fmt::Write, fs, path::Path};

use arbitrary::Unstructured;
use wasm_encoder::{
    CodeSection, EntityType, ExportKind, ExportSection, FunctionSection, ImportSection, MemorySection, MemoryType,
    TypeSection, ValType,
};
use wasm_smith::{Component, Config, Module};

/// The number of seeds of each kind of module, and of components, without a factor.
const MODULES: u64 = 150;
const COMPONENTS: u64 = 1_500;
/// The number of seeds of large ones: half of them components, half of them modules.
const LARGE: u64 = 40;
/// Bytes that decide about a large one: it becomes about as large.
const LARGE_BYTES: usize = 200_000;
/// The variable with the factor by which there are more.
const MORE: &str = "SHELLY_CHANCE_TIMES";

/// The kinds of plugins, each with what a module of it may import. What is exported is the same: functions that have
/// nothing to do with a plugin; the tests put a plugin around them.
const KINDS: [(&str, &[&[Function]]); 7] = [
    ("tool", &[BASE, CHAT, PROGRESS, FILES]),
    ("effect", &[BASE, CHAT]),
    ("run-middleware", &[BASE]),
    ("model-middleware", &[BASE, OUTGOING]),
    ("tool-middleware", &[BASE]),
    ("provider", &[BASE, SINK]),
    ("coordinator", &[BASE, CHAT]),
];

/// Interface, name and core type: `i` and `I` are `i32` and `i64`, `f` is `f64`; what follows `>` is returned.
type Function = (&'static str, &'static str, &'static str);

const BASE: &[Function] = &[
    ("shelly:plugin/log@0.1.0", "write", "iii"),
    ("shelly:plugin/config@0.1.0", "get", "i"),
    ("shelly:plugin/clock@0.1.0", "now", ">I"),
    ("shelly:plugin/random@0.1.0", "bytes", "ii"),
    ("shelly:plugin/kv@0.1.0", "get", "iii"),
    ("shelly:plugin/kv@0.1.0", "set", "iiiiii"),
    ("shelly:plugin/kv@0.1.0", "keys", "iiiiii"),
];
const CHAT: &[Function] =
    &[("shelly:plugin/chat@0.1.0", "entries", "iii"), ("shelly:plugin/chat@0.1.0", "read", "iii")];
const PROGRESS: &[Function] = &[("shelly:plugin/progress@0.1.0", "report", "fifiii")];
const SINK: &[Function] = &[("shelly:plugin/sink@0.1.0", "emit", "iIIII")];
const OUTGOING: &[Function] = &[("shelly:plugin/outgoing@0.1.0", "get", "i")];
const FILES: &[Function] = &[
    ("wasi:filesystem/preopens@0.2.0", "get-directories", "i"),
    ("wasi:filesystem/types@0.2.0", "[method]descriptor.open-at", "iiiiiii"),
    ("wasi:filesystem/types@0.2.0", "[method]descriptor.create-directory-at", "iiii"),
];
const EXPORTS: [(&str, &str); 2] = [("body", "ii>i"), ("realloc", "iiii>i")];

/// Pages of the memory that is exported.
const PAGES: u64 = 64;

fn add_type(types: &mut TypeSection, of: &str) {
    let (parameters, results) = of.split_once('>').unwrap_or((of, ""));
    let values = |letters: &str| {
        let value = |letter| match letter {
            'I' => ValType::I64,
            'f' => ValType::F64,
            _ => ValType::I32,
        };
        letters.chars().map(value).collect::<Vec<_>>()
    };
    types.ty().function(values(parameters), values(results));
}

/// A module that shows wasm-smith what may be imported.
fn imports_of(functions: &[&[Function]]) -> Vec<u8> {
    let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
    for (at, (interface, name, of)) in functions.concat().into_iter().enumerate() {
        add_type(&mut types, of);
        imports.import(interface, name, EntityType::Function(at as u32));
    }
    let mut module = wasm_encoder::Module::new();
    module.section(&types).section(&imports);
    module.finish()
}

/// A module that shows it what must be exported.
fn exports() -> Vec<u8> {
    let (mut types, mut functions, mut memories) = (TypeSection::new(), FunctionSection::new(), MemorySection::new());
    let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
    let memory = MemoryType { minimum: PAGES, maximum: None, memory64: false, shared: false, page_size_log2: None };
    memories.memory(memory);
    exports.export("memory", ExportKind::Memory, 0);
    for (at, (name, of)) in EXPORTS.into_iter().enumerate() {
        add_type(&mut types, of);
        functions.function(at as u32);
        exports.export(name, ExportKind::Func, at as u32);
        let mut body = wasm_encoder::Function::new([]);
        body.instructions().unreachable().end();
        code.function(&body);
    }
    let mut module = wasm_encoder::Module::new();
    module.section(&types).section(&functions).section(&memories).section(&exports).section(&code);
    module.finish()
}

/// Returns Rust code that names all of them: the modules of each kind, and the components, as slices of bytes; the large
/// ones are files of this folder.
pub fn generate(folder: &Path) -> Result<String, Box<dyn Error>> {
    println!("cargo::rerun-if-changed=smith.rs");
    println!("cargo::rerun-if-env-changed={MORE}");
    let times = env::var(MORE).map_or(Ok(1), |times| times.parse::<u64>())?;
    let mut text = String::from("pub const MODULES: &[(&str, &[&[u8]])] = &[\n");
    for (of_kind, (kind, functions)) in KINDS.iter().enumerate() {
        let (imports, exports) = (imports_of(functions), exports());
        let modules = (0..MODULES * times).map(|seed| module(seed, seed * 8 + of_kind as u64, &imports, &exports));
        list(&mut text, &format!("(\"{kind}\", &["), modules, "]),\n")?;
    }
    text.push_str("];\n");
    list(&mut text, "pub const COMPONENTS: &[&[u8]] = &[", (0..COMPONENTS * times).map(component), "];\n")?;
    text.push_str("pub const LARGE: &[&[u8]] = &[\n");
    for seed in 0..LARGE * times {
        let Some(bytes) = large(seed) else { continue };
        let path = folder.join(format!("large-{seed}.wasm"));
        fs::write(&path, bytes)?;
        writeln!(text, "include_bytes!({path:?}),")?;
    }
    text.push_str("];\n");
    Ok(text)
}

fn list(
    text: &mut String,
    before: &str,
    all: impl Iterator<Item = Option<Vec<u8>>>,
    after: &str,
) -> Result<(), std::fmt::Error> {
    text.push_str(before);
    for bytes in all.flatten() {
        writeln!(text, "b\"{}\",", bytes.escape_ascii())?;
    }
    text.push_str(after);
    Ok(())
}

/// The module of a seed, of bytes of its own; none if they are not enough for one.
fn module(seed: u64, of: u64, imports: &[u8], exports: &[u8]) -> Option<Vec<u8>> {
    let mut config = config(seed);
    config.available_imports = Some(imports.into());
    config.exports = Some(exports.into());
    // But for the one that is exported.
    config.max_memories = 0;
    config.disallow_traps = !seed.is_multiple_of(3);
    let bytes = bytes(of, 4_000);
    let mut module = Module::new(config, &mut Unstructured::new(&bytes)).ok()?;
    // Most of them come to an end, so that there is an answer to look at; the others run into the limits.
    if !seed.is_multiple_of(7) {
        module.ensure_termination(10_000).ok()?;
    }
    Some(module.to_bytes())
}

fn component(seed: u64) -> Option<Vec<u8>> {
    let bytes = bytes(seed ^ 0xc0de, 2_000);
    Component::new(config(seed), &mut Unstructured::new(&bytes)).ok().map(|component| component.to_bytes())
}

/// A component or a module that is as large as the bytes allow, in all ways in which wasm-smith knows to be.
fn large(seed: u64) -> Option<Vec<u8>> {
    let config = Config {
        max_aliases: 10_000,
        max_components: 1_000,
        max_data_segments: 10_000,
        max_element_segments: 10_000,
        max_elements: 10_000,
        max_exports: 10_000,
        max_funcs: 10_000,
        max_globals: 10_000,
        max_imports: 10_000,
        max_instances: 10_000,
        max_instructions: 20_000,
        max_modules: 1_000,
        max_nesting_depth: 100,
        max_tables: 100,
        max_type_size: 1_000_000,
        max_types: 10_000,
        ..config(seed)
    };
    let bytes = bytes(seed ^ 0x1a46e, 2 * LARGE_BYTES);
    let mut bytes = Unstructured::new(&bytes);
    match seed % 2 {
        0 => Component::new(config, &mut bytes).ok().map(|component| component.to_bytes()),
        _ => Module::new(config, &mut bytes).ok().map(|module| module.to_bytes()),
    }
}

/// Returns a configuration whose results the engine accepts as a rule; every sixteenth may have all features of wasm-smith,
/// and is refused.
fn config(seed: u64) -> Config {
    let usual = !seed.is_multiple_of(16);
    let mut config = Config {
        allow_start_export: seed.is_multiple_of(5),
        max_funcs: 8,
        max_imports: 12,
        max_memories: 1 + seed as usize % 2,
        max_memory32_bytes: 8 << 20,
        max_memory64_bytes: 8 << 20,
        max_tables: 1,
        max_table_elements: 1_000,
        max_data_segments: 4,
        max_instructions: 20 + seed as usize % 200,
        ..Config::default()
    };
    if usual {
        config.gc_enabled = false;
        config.exceptions_enabled = false;
        config.threads_enabled = false;
        config.reference_types_enabled = false;
        config.memory64_enabled = false;
    }
    config
}

/// Bytes that look like chance, the same for the same seed (splitmix64). Fewer than `most`: with few of them wasm-smith
/// makes short functions and small numbers.
fn bytes(seed: u64, most: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let length = next() as usize % most;
    (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect()
}
