//! Diagnosis of a file that is not a plugin's component: what it is instead, and how its author gets a component.

use wasmparser::{BinaryReaderError, ComponentExternalKind, Parser, Payload, Validator, WasmFeatures};

use crate::error::ComponentError;
use shelly_core::limits;

const MAGIC: &[u8] = b"\0asm";
/// The version and layer of a core module.
const CORE: (u16, u16) = (1, 0);
/// The version and layer of a component.
const COMPONENT: (u16, u16) = (13, 1);

const FOR_WASM: &str = "replace it with the component that was built for a wasm32 target";

/// The first bytes of files that are mistaken for components: the bytes, the kind of file, and a hint.
const OTHER_FILES: [(&[u8], &str, &str); 9] = [
    (b"\x7fELF", "machine code (ELF), not WebAssembly", FOR_WASM),
    (b"MZ", "a program for Windows, not WebAssembly", FOR_WASM),
    (b"PK\x03\x04", "a zip archive, not WebAssembly", "unpack it and use the component in it"),
    (b"\x1f\x8b", "data compressed with gzip, not WebAssembly", "unpack it and use the component in it"),
    (b"\x28\xb5\x2f\xfd", "data compressed with zstd, not WebAssembly", "unpack it and use the component in it"),
    (b"version https://git-lfs", "a Git LFS pointer in place of the file", "run `git lfs pull`"),
    (b"<", "a web page or XML, not WebAssembly", "download the file itself, not the page about it"),
    (b"(", "WebAssembly in text format", "convert it to binary: `wasm-tools parse FILE.wat -o FILE.wasm`"),
    (b"package ", "WIT, not WebAssembly", "replace it with the component that was built from it"),
];

/// Refuses bytes that are not a WebAssembly binary, or are one of another version. A core module passes.
pub fn check_header(bytes: &[u8]) -> Result<(), ComponentError> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(not_wasm(bytes)) };
    let Some([version, more, layer, above]) = rest.first_chunk().copied() else {
        return Err(ComponentError::CutOff { offset: MAGIC.len(), said: 4, there: rest.len() });
    };
    match (u16::from_le_bytes([version, more]), u16::from_le_bytes([layer, above])) {
        CORE | COMPONENT => Ok(()),
        (version, layer) => Err(ComponentError::OtherFormat { version, layer }),
    }
}

fn not_wasm(bytes: &[u8]) -> ComponentError {
    if bytes.is_empty() {
        return ComponentError::NotWasm { what: "an empty file".into(), mend: "build or copy it again" };
    }
    // Text files may begin with comments.
    let mut text = bytes.trim_ascii_start();
    while text.starts_with(b";;") || text.starts_with(b"//") {
        let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        text = text[end..].trim_ascii_start();
    }
    let is_it = |(start, ..): &&(&[u8], &str, &str)| bytes.starts_with(start) || text.starts_with(start);
    match OTHER_FILES.iter().find(is_it) {
        Some(&(_, what, mend)) => ComponentError::NotWasm { what: what.into(), mend },
        None => {
            let start = bytes[..bytes.len().min(8)].escape_ascii();
            let what = format!("data that begins with \"{start}\", not WebAssembly");
            ComponentError::NotWasm { what, mend: FOR_WASM }
        }
    }
}

/// Returns the error for bytes that cannot be read or validated, whatever features are enabled.
pub fn broken(bytes: &[u8], error: &BinaryReaderError) -> ComponentError {
    cut_off(bytes)
        .unwrap_or_else(|| ComponentError::Invalid { message: in_one_line(error.message()), offset: error.offset() })
}

/// Returns the error for a component that the validator refuses with the engine's features.
pub fn refused(bytes: &[u8], error: &BinaryReaderError) -> ComponentError {
    match Validator::new_with_features(WasmFeatures::all()).validate_all(bytes) {
        Ok(_) => ComponentError::Feature { message: in_one_line(error.message()) },
        Err(error) => broken(bytes, &error),
    }
}

/// Joins the lines of a message, the context first, and shortens it.
fn in_one_line(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).collect();
    shelly_core::error::cut(&lines.join(": "), limits::NAME_SHOWN_CHARS * 4)
}

/// Returns the error for a file that ends before the end of its last section, if it does.
fn cut_off(bytes: &[u8]) -> Option<ComponentError> {
    let mut at = 8;
    while at < bytes.len() {
        // A section is its number, its length and its content.
        let Some((said, digits)) = leb128(&bytes[at + 1..]) else {
            let there = bytes.len() - at;
            return (there <= 5).then_some(ComponentError::CutOff { offset: at, said: there + 1, there });
        };
        let start = at + 1 + digits;
        let there = bytes.len().saturating_sub(start);
        if said > there {
            return Some(ComponentError::CutOff { offset: start, said, there });
        }
        at = start + said;
    }
    None
}

/// Parses a LEB128 number of at most five bytes; returns it and its length.
fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(number).ok()?, at + 1));
        }
    }
    None
}

/// Returns the error for a core module, with a hint how to make a component of it.
pub fn core_module(bytes: &[u8]) -> ComponentError {
    let (mut has_wit, mut is_wasi, mut is_of_javascript) = (false, false, false);
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::CustomSection(section) => has_wit |= section.name().starts_with("component-type"),
            Payload::ImportSection(section) => {
                for import in section.into_imports().map_while(Result::ok) {
                    is_wasi |= import.module == "wasi_snapshot_preview1";
                    is_of_javascript |= import.module.starts_with("__wbindgen") || import.module == "wbg";
                }
            }
            _ => {}
        }
    }
    let mend = match (is_of_javascript, is_wasi, has_wit) {
        (true, ..) => "build it without wasm-bindgen, for example for wasm32-wasip2",
        (_, true, true) => {
            "convert it to a component: `wasm-tools component new FILE --adapt wasi_snapshot_preview1.reactor.wasm -o \
             OUT`; in Rust, build for wasm32-wasip2"
        }
        (_, true, false) => {
            "add its WIT and convert it to a component: `wasm-tools component embed WIT FILE -o IN`, then `wasm-tools \
             component new IN --adapt wasi_snapshot_preview1.reactor.wasm -o OUT`"
        }
        (_, false, true) => {
            "link it with wasm-component-ld, or convert it to a component with `wasm-tools component new`"
        }
        (_, false, false) => {
            "add its WIT and convert it to a component: `wasm-tools component embed WIT FILE -o IN`, then `wasm-tools \
             component new IN -o OUT`"
        }
    };
    ComponentError::CoreModule { mend }
}

/// Returns the error for a valid component that exports nothing that can be called.
pub fn no_kind(exports: &[(String, ComponentExternalKind)]) -> ComponentError {
    let is_wit =
        |kind: ComponentExternalKind| matches!(kind, ComponentExternalKind::Type | ComponentExternalKind::Component);
    match !exports.is_empty() && exports.iter().all(|(_, kind)| is_wit(*kind)) {
        true => ComponentError::WitPackage,
        false => ComponentError::NoKind,
    }
}
