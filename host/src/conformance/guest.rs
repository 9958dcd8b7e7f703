//! Components from text: a few hostile lines, completed by well-behaved defaults and the plugin contract.

use std::sync::LazyLock;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::plugin::PluginKind;

/// The plugin contract, in one text.
const CONTRACT: &str = concat!(
    include_str!("../../../wit/types.wit"),
    include_str!("../../../wit/imports.wit"),
    include_str!("../../../wit/kinds.wit"),
    include_str!("../../../wit/worlds.wit"),
);
/// The part of WASI's file system that guests from text need.
const WASI: &str = include_str!("wasi.wit");

/// Both texts, parsed once for all guests.
static PARSED: LazyLock<Result<Resolve, String>> = LazyLock::new(|| {
    let mut resolve = Resolve::default();
    for (name, text) in [("contract.wit", CONTRACT), ("wasi.wit", WASI)] {
        resolve.push_str(name, text).map_err(|error| format!("{error:#}"))?;
    }
    Ok(resolve)
});

/// Makes a component of a core module. It imports what the module imports of the contract and of WASI's file system, and
/// exports these kinds.
///
/// # Errors
///
/// A sentence, if the module does not fit the contract.
pub fn component_of(module: &[u8], kinds: &[PluginKind]) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut resolve = PARSED.clone()?;
    let exports: String = kinds.iter().map(|kind| format!("export shelly:plugin/{kind}@0.1.0;\n")).collect();
    let guest = format!(
        "package hostile:guest; world guest {{ include shelly:plugin/capabilities@0.1.0;
           import wasi:filesystem/types@0.2.0; import wasi:filesystem/preopens@0.2.0; {exports} }}"
    );
    let package = resolve.push_str("guest.wit", &guest).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], None).map_err(|error| text(&error))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(|error| text(&error))?;
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format!("{error:#}"))
}

/// Makes a component of these fields of a core module, and of the defaults for those that are missing.
///
/// # Errors
///
/// A sentence, if the fields do not make a module that fits the contract.
pub(super) fn component(fields: &str, kind: PluginKind) -> Result<Vec<u8>, String> {
    let mut text = format!("(module {fields}\n");
    let rest = REST.iter().filter(|(of, ..)| of.is_none_or(|of| of == kind));
    for (_, _, polite) in rest.filter(|(_, mark, _)| mark.is_empty() || !fields.contains(mark)) {
        text.push_str(polite);
    }
    text.push(')');
    let module = wat::parse_str(text).map_err(|error| error.to_string())?;
    component_of(&module, &[kind])
}

/// The defaults of a guest: the kind that they are for, the mark that replaces them if the guest's text contains it, and
/// the text. Described for authors of attacks in `docs/conformance.md`.
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
        r#"(export "shelly:plugin/tool@0.1.0#specs""#,
        r#"(func (export "shelly:plugin/tool@0.1.0#specs") (result i32) (i32.const 0x230))"#,
    ),
    (
        Some(PluginKind::Tool),
        r#"(export "shelly:plugin/tool@0.1.0#call""#,
        r#"(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
             (call $ok))"#,
    ),
    (
        Some(PluginKind::Effect),
        r#"(export "shelly:plugin/effect@0.1.0#eval""#,
        r#"(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::RunMiddleware),
        r#"(export "shelly:plugin/run-middleware@0.1.0#before""#,
        r#"(func (export "shelly:plugin/run-middleware@0.1.0#before") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
             (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::RunMiddleware),
        r#"(export "shelly:plugin/run-middleware@0.1.0#after""#,
        r#"(func (export "shelly:plugin/run-middleware@0.1.0#after") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::Provider),
        r#"(export "shelly:plugin/provider@0.1.0#complete""#,
        r#"(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32) (i32.const 0x340))"#,
    ),
    (
        Some(PluginKind::ModelMiddleware),
        r#"(export "shelly:plugin/model-middleware@0.1.0#before""#,
        r#"(func (export "shelly:plugin/model-middleware@0.1.0#before")
             (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::ModelMiddleware),
        r#"(export "shelly:plugin/model-middleware@0.1.0#after""#,
        r#"(func (export "shelly:plugin/model-middleware@0.1.0#after") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::ToolMiddleware),
        r#"(export "shelly:plugin/tool-middleware@0.1.0#before""#,
        r#"(func (export "shelly:plugin/tool-middleware@0.1.0#before")
             (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::ToolMiddleware),
        r#"(export "shelly:plugin/tool-middleware@0.1.0#after""#,
        r#"(func (export "shelly:plugin/tool-middleware@0.1.0#after") (param i32) (result i32) (i32.const 0x280))"#,
    ),
    (
        Some(PluginKind::Coordinator),
        r#"(export "shelly:plugin/coordinator@0.1.0#next""#,
        r#"(func (export "shelly:plugin/coordinator@0.1.0#next") (param i32) (result i32) (i32.const 0x240))"#,
    ),
];
