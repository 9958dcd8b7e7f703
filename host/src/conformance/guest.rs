//! Components from text: a few hostile lines, completed by well-behaved defaults and the plugin contract.

use std::sync::LazyLock;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::plugin::{ContractVersion, PluginKind};

/// Returns the text of a version of the contract whose files are in this folder.
macro_rules! contract {
    ($folder:literal) => {
        concat!(
            include_str!(concat!($folder, "/types.wit")),
            include_str!(concat!($folder, "/imports.wit")),
            include_str!(concat!($folder, "/kinds.wit")),
            include_str!(concat!($folder, "/worlds.wit")),
        )
    };
}

/// The versions of the contract, each in one text.
const CONTRACTS: [&str; 2] = [contract!("../../../wit/0.1"), contract!("../../../wit")];
/// The part of WASI's file system that guests from text need.
const WASI: &str = include_str!("wasi.wit");

/// All texts, parsed once for all guests.
static PARSED: LazyLock<Result<Resolve, String>> = LazyLock::new(|| {
    let mut resolve = Resolve::default();
    for text in CONTRACTS {
        resolve.push_str("contract.wit", text).map_err(|error| format!("{error:#}"))?;
    }
    resolve.push_str("wasi.wit", WASI).map_err(|error| format!("{error:#}"))?;
    Ok(resolve)
});

/// Makes a component of a core module, for a version of the contract. It imports what the module imports of the contract and
/// of WASI's file system, and exports these kinds.
///
/// # Errors
///
/// A sentence, if the module does not fit the contract.
pub fn component_of(module: &[u8], kinds: &[PluginKind], contract: ContractVersion) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut resolve = PARSED.clone()?;
    let exports: String = kinds.iter().map(|kind| format!("export {};\n", contract.qualified(kind.name()))).collect();
    let guest = format!(
        "package hostile:guest; world guest {{ include {};
           import wasi:filesystem/types@0.2.0; import wasi:filesystem/preopens@0.2.0; {exports} }}",
        contract.qualified("capabilities")
    );
    let package = resolve.push_str("guest.wit", &guest).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], None).map_err(|error| text(&error))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(|error| text(&error))?;
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format!("{error:#}"))
}

/// Makes a component of these fields of a core module, and of the defaults for those that are missing. It is for the version
/// of the contract that the fields name, or for the newest if they name none.
///
/// # Errors
///
/// A sentence, if the fields do not make a module that fits the contract.
pub(super) fn component(fields: &str, kind: PluginKind) -> Result<Vec<u8>, String> {
    let contract = version_in(fields).unwrap_or(ContractVersion::NEWEST);
    let mut text = format!("(module {fields}\n");
    for (_, mark, polite) in REST.iter().filter(|(of, ..)| of.is_none_or(|of| of == kind)) {
        if mark.is_empty() || !fields.contains(&mark.replace("@VERSION", &format!("@{contract}"))) {
            text.push_str(&polite.replace("@VERSION", &format!("@{contract}")));
        }
    }
    text.push(')');
    let module = wat::parse_str(text).map_err(|error| error.to_string())?;
    component_of(&module, &[kind], contract)
}

/// Returns the version of the contract that the fields of a module name first; `None` if they name none.
fn version_in(fields: &str) -> Option<ContractVersion> {
    let mut names = fields.split("shelly:plugin/").skip(1);
    names.find_map(|name| name.split_once('@')?.1.split(['"', '#']).next()?.parse().ok())
}

/// The defaults of a guest: the kind that they are for, the mark that replaces them if the guest's text contains it, and
/// the text, with `VERSION` for the version of the contract. Described for authors of attacks in `docs/conformance.md`.
const REST: &[(Option<PluginKind>, &str, &str)] = &[
    (None, "(export \"memory\")", "(memory $memory (export \"memory\") 64)"),
    (
        None,
        "(export \"cabi_realloc\")",
        r#"(global $free (mut i32) (i32.const 0x100000))
           (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
             (global.set $free (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
             (global.get $free)
             (global.set $free (i32.add (global.get $free) (local.get 3))))"#,
    ),
    (
        None,
        "",
        r#"(data (memory $memory) (i32.const 0x100) "ok")
           (data (memory $memory) (i32.const 0x110) "conformance:escaped")
           (data (memory $memory) (i32.const 0x130) "{\"type\":\"object\"}")
           (data (memory $memory) (i32.const 0x150) "t")
           (data (memory $memory) (i32.const 0x160) "Does it.")
           (data (memory $memory) (i32.const 0x170) (i32 0 0x100 2))
           (data (memory $memory) (i32.const 0x1a0) (i32 0 0x110 19))
           (data (memory $memory) (i32.const 0x1d0) (i32 0 0 0x170 1))
           (data (memory $memory) (i32.const 0x1e0) (i32 0 0 0x1a0 1))
           (data (memory $memory) (i32.const 0x200) (i32 0x150 1 0x160 8 0x130 17 0 0 0 0 0 0))
           (data (memory $memory) (i32.const 0x230) (i32 0 0 0x200 1))
           (data (memory $memory) (i32.const 0x240) (i32 0 0 0 0 1 1 0x170 1))
           (data (memory $memory) (i32.const 0x340) (i32 0 0 0x3a0 1))
           (data (memory $memory) (i32.const 0x3a0) (i32 0 0x100 2))
           (data (memory $memory) (i32.const 0x3d0) (i32 0 0 0x3e0 1))"#,
    ),
    (
        Some(PluginKind::Tool),
        "",
        r#"(func $ok (result i32) (i32.const 0x1d0))
           (func $escaped (result i32) (i32.const 0x1e0))
           (func $say (param i32 i32) (result i32)
             (i32.store $memory (i32.const 0x3e4) (local.get 0))
             (i32.store $memory (i32.const 0x3e8) (local.get 1))
             (i32.const 0x3d0))"#,
    ),
    (
        Some(PluginKind::Tool),
        r#"(export "shelly:plugin/tool@VERSION#specs""#,
        r#"(func (export "shelly:plugin/tool@VERSION#specs") (result i32) (i32.const 0x230))"#,
    ),
    (
        Some(PluginKind::Tool),
        r#"(export "shelly:plugin/tool@VERSION#call""#,
        r#"(func (export "shelly:plugin/tool@VERSION#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
             (call $ok))"#,
    ),
    (
        Some(PluginKind::Effect),
        r#"(export "shelly:plugin/effect@VERSION#eval""#,
        r#"(func (export "shelly:plugin/effect@VERSION#eval") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::RunMiddleware),
        r#"(export "shelly:plugin/run-middleware@VERSION#before""#,
        r#"(func (export "shelly:plugin/run-middleware@VERSION#before") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
             (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::RunMiddleware),
        r#"(export "shelly:plugin/run-middleware@VERSION#after""#,
        r#"(func (export "shelly:plugin/run-middleware@VERSION#after") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::Provider),
        r#"(export "shelly:plugin/provider@VERSION#complete""#,
        r#"(func (export "shelly:plugin/provider@VERSION#complete") (param i32) (result i32) (i32.const 0x340))"#,
    ),
    (
        Some(PluginKind::ModelMiddleware),
        r#"(export "shelly:plugin/model-middleware@VERSION#before""#,
        r#"(func (export "shelly:plugin/model-middleware@VERSION#before")
             (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::ModelMiddleware),
        r#"(export "shelly:plugin/model-middleware@VERSION#after""#,
        r#"(func (export "shelly:plugin/model-middleware@VERSION#after") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::ToolMiddleware),
        r#"(export "shelly:plugin/tool-middleware@VERSION#before""#,
        r#"(func (export "shelly:plugin/tool-middleware@VERSION#before")
             (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::ToolMiddleware),
        r#"(export "shelly:plugin/tool-middleware@VERSION#after""#,
        r#"(func (export "shelly:plugin/tool-middleware@VERSION#after") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::Coordinator),
        r#"(export "shelly:plugin/coordinator@VERSION#next""#,
        r#"(func (export "shelly:plugin/coordinator@VERSION#next") (param i32) (result i32) (i32.const 0x240))"#,
    ),
];
