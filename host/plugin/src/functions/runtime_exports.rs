//! Exports that the toolchain of a language adds to a component beside those of its author: they prepare the runtime,
//! or start a program. A model has no use for them, and calling one resets the state of the component.

use wasmparser::component_types::ComponentFuncType;

use super::names::FunctionPath;

/// A toolchain's export, recognised by interface, name and parameters, since an author may call a function `init`, too.
struct RuntimeExport {
    /// The interface without its version; empty for the root.
    interface: &'static str,
    function: ExportNamePattern,
    /// The names of the first parameters.
    params: &'static [&'static str],
    /// The purpose of the export, as the reason for leaving it out.
    reason: &'static str,
}

/// A pattern for the name of a function.
enum ExportNamePattern {
    Is(&'static str),
    BeginsWith(&'static str),
}

const RUNTIME_EXPORTS: [RuntimeExport; 5] = [
    RuntimeExport {
        interface: "exports",
        function: ExportNamePattern::Is("init"),
        params: &["app-name", "symbols"],
        reason: "componentize-py calls it at build time to prepare the Python runtime",
    },
    RuntimeExport {
        interface: "",
        function: ExportNamePattern::Is("init"),
        params: &["shim", "script"],
        reason: "componentize-qjs calls it at build time to prepare the QuickJS runtime",
    },
    RuntimeExport {
        interface: "",
        function: ExportNamePattern::BeginsWith("wizer-"),
        params: &[],
        reason: "Wizer calls it at build time to prepare the component",
    },
    RuntimeExport {
        interface: "",
        function: ExportNamePattern::BeginsWith("cabi-"),
        params: &[],
        reason: "it belongs to the canonical ABI and manages memory",
    },
    RuntimeExport {
        interface: "wasi:cli/run",
        function: ExportNamePattern::Is("run"),
        params: &[],
        reason: "it starts a command-line program, which takes no arguments here",
    },
];

/// Returns the purpose of an exported function if it belongs to a runtime and not to the component's author.
pub fn purpose(path: &FunctionPath, function: &ComponentFuncType) -> Option<&'static str> {
    let interface = path.interface.as_deref().unwrap_or_default();
    let interface = interface.split_once('@').map_or(interface, |(interface, _)| interface);
    let is_it = |export: &&RuntimeExport| {
        let is_named = match export.function {
            ExportNamePattern::Is(name) => path.function == name,
            ExportNamePattern::BeginsWith(start) => path.function.starts_with(start),
        };
        let params = function.params.iter().map(|(name, _)| name.as_str());
        let has_params =
            function.params.len() >= export.params.len() && params.zip(export.params).all(|(a, b)| a == *b);
        export.interface == interface && is_named && has_params
    };
    RUNTIME_EXPORTS.iter().find(is_it).map(|export| export.reason)
}
