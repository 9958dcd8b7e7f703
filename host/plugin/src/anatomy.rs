//! The kinds and interfaces of a component, read from its bytes without compiling or running any of it.

use std::{fmt, path::Path, str::FromStr};

use serde::Serialize;
use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload, Validator, WasmFeatures, types::Types};

use super::{
    complexity::{ComplexityCounter, ComplexityError},
    component_error::{self, ComponentError},
    error::PluginError,
    functions::{self, ExportedFunctions, WitDocs},
    imports,
    plugin_candidate::read_inside,
};
use shelly_core::limits;

/// The version of the contract that this host implements.
pub const CONTRACT: &str = "0.1.0";
const PACKAGE: &str = "shelly:plugin/";

/// The WebAssembly features that the engine accepts, as it is configured and built: no threads, no garbage collection,
/// no exceptions, and no async components. Functions with maps are left out one by one.
pub(super) const ENGINE_FEATURES: WasmFeatures = WasmFeatures::WASM3
    .difference(WasmFeatures::GC_TYPES)
    .difference(WasmFeatures::EXCEPTIONS)
    .difference(WasmFeatures::THREADS)
    .union(WasmFeatures::COMPONENT_MODEL)
    .union(WasmFeatures::CM_MAP);

/// A kind of plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginKind {
    /// Tools that a model can call.
    Tool,
    /// Reads the chat at certain phases of a turn, and edits it as far as its powers allow.
    Effect,
    /// Runs before and after a run.
    RunMiddleware,
    /// Runs before and after a request to a model.
    ModelMiddleware,
    /// Runs before and after a tool call.
    ToolMiddleware,
    /// Implements a model provider.
    Provider,
    /// Coordinates a team.
    Coordinator,
    /// Exports functions of its own and nothing of the contract: each function is a tool.
    Functions,
}

impl PluginKind {
    /// All kinds.
    pub(super) const ALL: [PluginKind; 8] = [
        PluginKind::Tool,
        PluginKind::Effect,
        PluginKind::RunMiddleware,
        PluginKind::ModelMiddleware,
        PluginKind::ToolMiddleware,
        PluginKind::Provider,
        PluginKind::Coordinator,
        PluginKind::Functions,
    ];

    /// Returns the name of the kind in manifests, which is the name of its interface if it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Effect => "effect",
            Self::RunMiddleware => "run-middleware",
            Self::ModelMiddleware => "model-middleware",
            Self::ToolMiddleware => "tool-middleware",
            Self::Provider => "provider",
            Self::Coordinator => "coordinator",
            Self::Functions => "functions",
        }
    }

    /// Returns `true` if the kind is called around the agent's own work, so that a run can continue without it.
    pub fn is_step(self) -> bool {
        matches!(self, Self::Effect | Self::RunMiddleware | Self::ModelMiddleware | Self::ToolMiddleware)
    }

    /// Returns `true` if the kind provides tools for a model.
    pub fn is_tools(self) -> bool {
        matches!(self, Self::Tool | Self::Functions)
    }

    /// Returns `true` if the kind is a middleware.
    pub fn is_middleware(self) -> bool {
        self.is_step() && self != Self::Effect
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PluginKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("there is no kind `{name}`; the kinds are {}", names.join(", "))
        })
    }
}

/// The exports and imports of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Anatomy {
    /// The kinds that it exports.
    pub kinds: Vec<PluginKind>,
    /// The interfaces that it imports, with their versions, without those that contain types alone.
    pub imports: Vec<String>,
    /// The exported functions, for kind `functions`.
    #[serde(skip)]
    pub(super) exported: ExportedFunctions,
}

impl Anatomy {
    /// Validates the bytes and reads the names of their imports and exports.
    ///
    /// # Errors
    ///
    /// [`ComponentError`] if the bytes are not a component of this contract.
    pub fn read(bytes: &[u8]) -> Result<Self, ComponentError> {
        Self::read_documented(bytes, WitDocs::default())
    }

    /// Reads a component with the doc comments of the WIT file of the same name beside it: `calc.wit` for `calc.wasm`.
    pub(super) fn of_file(path: &Path, bytes: &[u8]) -> Result<Self, PluginError> {
        let wit = path.with_extension("wit");
        let documents = match wit != path && wit.is_file() {
            true => {
                let folder = wit.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let text = String::from_utf8(read_inside(&wit, folder, limits::PACKAGE_DOCS_BYTES as u64)?);
                let docs =
                    text.map_err(|_| "it is not UTF-8".to_owned()).and_then(|text| WitDocs::from_wit(&wit, &text));
                docs.map_err(|message| PluginError::Wit { path: wit, message })?
            }
            false => WitDocs::default(),
        };
        Self::read_documented(bytes, documents).map_err(|source| PluginError::Component { path: path.into(), source })
    }

    /// Reads a component with doc comments from elsewhere, which take precedence over those in the bytes.
    fn read_documented(bytes: &[u8], documents: WitDocs) -> Result<Self, ComponentError> {
        let survey = ComponentSurvey::of(bytes)?;
        let types = survey.validate(bytes)?;
        let ComponentSurvey { mut imports, exports, docs } = survey;
        let docs = documents.or(docs);

        let mut kinds = Vec::new();
        for (name, _) in exports.iter().filter(|(_, kind)| *kind == ComponentExternalKind::Instance) {
            let Some((interface, version)) = of_contract(name) else { continue };
            let Ok(kind) = interface.parse() else { continue };
            if !speaks(version) {
                return Err(ComponentError::OtherContract { verb: "exports", name: name.clone() });
            }
            kinds.push(kind);
        }
        for name in &imports {
            if of_contract(name).is_some_and(|(_, version)| !speaks(version)) {
                return Err(ComponentError::OtherContract { verb: "imports", name: name.clone() });
            }
        }
        let mut exported = ExportedFunctions::default();
        if kinds.is_empty() {
            let names: Vec<_> = exports.iter().map(|(name, _)| name.clone()).collect();
            exported = ExportedFunctions::read(types.as_ref(), &imports, &names, &docs)
                .map_err(|count| ComponentError::TooManyFunctions { count, most: limits::EXPORTED_FUNCTIONS })?;
            if !exported.functions.is_empty() || !exported.left_out.is_empty() {
                kinds.push(PluginKind::Functions);
            }
        }
        let is_types = |name: &str| match of_contract(name) {
            Some((interface, _)) => interface == "types",
            None => imports::need_of_import(name).is_none() && functions::holds_types_alone(types.as_ref(), name),
        };
        imports.retain(|name| !is_types(name));
        kinds.sort();
        if kinds.is_empty() {
            return Err(component_error::no_kind(&exports));
        }
        Ok(Self { kinds, imports, exported })
    }
}

/// The names and doc comments in a component, read without a validator, in time and memory linear in its size.
pub(super) struct ComponentSurvey {
    imports: Vec<String>,
    exports: Vec<(String, ComponentExternalKind)>,
    docs: WitDocs,
}

impl ComponentSurvey {
    /// Counts the work that a component causes, and reads its names.
    ///
    /// # Errors
    ///
    /// [`ComponentError`] if the bytes are not a component, cannot be read, or cause too much work.
    pub fn of(bytes: &[u8]) -> Result<Self, ComponentError> {
        component_error::check_header(bytes)?;
        let broken = |error| component_error::broken(bytes, &error);
        let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
        let (mut extent, mut docs) = (ComplexityCounter::default(), WitDocs::default());
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(broken)?;
            if depth == 0 && matches!(payload, Payload::Version { encoding: Encoding::Module, .. }) {
                return Err(component_error::core_module(bytes));
            }
            extent.count(&payload).map_err(|stopped| match stopped {
                ComplexityError::Broken(error) => broken(error),
                ComplexityError::Refused(refused) => refused,
            })?;
            match payload {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        imports.push(import.map_err(broken)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        let export = export.map_err(broken)?;
                        exports.push((export.name.name.to_owned(), export.kind));
                    }
                }
                Payload::CustomSection(section)
                    if depth == 1
                        && section.name() == functions::DOCS_SECTION
                        && section.data().len() <= limits::PACKAGE_DOCS_BYTES =>
                {
                    docs = docs.or(WitDocs::from_section(section.data()));
                }
                _ => {}
            }
        }
        Ok(Self { imports, exports, docs })
    }

    /// Validates the component. This may take gigabytes and minutes: an untrusted component is validated in the
    /// sandboxed compiler process first.
    ///
    /// # Errors
    ///
    /// [`ComponentError`] for what the engine would refuse, with a more precise reason than the engine's.
    pub fn validate(&self, bytes: &[u8]) -> Result<Types, ComponentError> {
        Validator::new_with_features(ENGINE_FEATURES)
            .validate_all(bytes)
            .map_err(|error| component_error::refused(bytes, &self.imports, &self.exports, &error))
    }
}

/// Splits the name of an interface of the contract: `shelly:plugin/log@0.1.0` is (`log`, `0.1.0`).
pub(super) fn of_contract(name: &str) -> Option<(&str, &str)> {
    let interface = name.strip_prefix(PACKAGE)?;
    Some(interface.split_once('@').unwrap_or((interface, "")))
}

/// Returns `true` if a version of the contract is compatible with this host's: only the last number may differ.
fn speaks(version: &str) -> bool {
    fn series(version: &str) -> Option<&str> {
        version.rsplit_once('.').map(|(series, _)| series)
    }
    series(version) == series(CONTRACT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_versions_of_one_series_are_compatible() {
        for (version, speaks_it) in
            [("0.1.0", true), ("0.1.7", true), ("0.2.0", false), ("1.1.0", false), ("", false), ("0.1", false)]
        {
            assert_eq!(speaks(version), speaks_it, "{version}");
        }
    }

    /// Components each of which uses one feature of WebAssembly.
    const USES: [(&str, &str); 22] = [
        ("nothing", ""),
        ("a map", "(type (map string u8))"),
        ("a list of fixed length", "(type (list u8 4))"),
        ("a future", "(type (future u8))"),
        ("a stream", "(type (stream u8))"),
        ("an error context", "(type (list error-context))"),
        ("an asynchronous function", "(type (func async))"),
        ("the async ABI", "(core func (canon backpressure.inc))"),
        ("threads", "(core module (memory 1 1 shared))"),
        ("exceptions", "(core module (tag) (func (throw 0)))"),
        ("garbage collection", "(core module (type (struct (field i32))))"),
        ("external references", "(core module (func (param externref)))"),
        ("function references", "(core module (type $t (func)) (func (param (ref $t)) (call_ref $t (local.get 0))))"),
        ("memories of 64 bits", "(core module (memory i64 1))"),
        ("many memories", "(core module (memory 1) (memory 1))"),
        ("tail calls", "(core module (func (return_call 0)))"),
        ("many values", "(core module (func (result i32 i32) (i32.const 0) (i32.const 0)))"),
        ("vectors", "(core module (func (result v128) (v128.const i64x2 0 0)))"),
        ("relaxed vectors", "(core module (func (result v128) (i32x4.relaxed_trunc_f32x4_s (v128.const i64x2 0 0))))"),
        ("pages of other sizes", "(core module (memory 1 (pagesize 1)))"),
        ("wide arithmetic", "(core module (func (result i64 i64) (i64.mul_wide_u (i64.const 0) (i64.const 0))))"),
        ("stacks", "(core module (type $f (func)) (type (cont $f)))"),
    ];

    #[test]
    fn wasm_feature_is_refused_iff_engine_refuses_it() {
        let engine = wasmtime::Engine::new(&super::super::runtime::engine_config()).unwrap();
        let mut taken = Vec::new();
        for (feature, text) in USES {
            let text = format!(
                "(component (core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
                 (func (export \"f\") (canon lift (core func $i \"f\"))) {text})"
            );
            let bytes = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let (read, compiled) = (Anatomy::read(&bytes), wasmtime::component::Component::new(&engine, &bytes));
            assert_eq!(read.is_ok(), compiled.is_ok(), "{feature}: {read:?}, {:?}", compiled.err());
            match read {
                Ok(_) => taken.push(feature),
                Err(error) => {
                    assert!(
                        matches!(error, ComponentError::Feature { .. } | ComponentError::Async { .. }),
                        "{feature}: {error}"
                    )
                }
            }
        }
        assert!(taken.starts_with(&["nothing", "a map"]) && taken.contains(&"many values"), "{taken:?}");
    }
}
