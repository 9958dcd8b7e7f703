//! What a component is, read off its bytes without compiling or running any of it.

use std::{fmt, str::FromStr};

use serde::Serialize;
use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload, Validator, WasmFeatures};

use super::{
    functions::{self, Docs, Exported},
    imports,
};
use crate::limits;

/// The version of the contract that this host speaks.
pub const CONTRACT: &str = "0.1.0";
const PACKAGE: &str = "shelly:plugin/";

/// What a plugin can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Tools that a model can call.
    Tool,
    /// Looks at the chat once a turn.
    Effect,
    /// Stands around a run.
    RunMiddleware,
    /// Stands around a request to a model.
    ModelMiddleware,
    /// Stands around a tool call.
    ToolMiddleware,
    /// Speaks to a model.
    Provider,
    /// Leads a team.
    Coordinator,
    /// Exports functions of its own and nothing of the contract: each is a tool.
    Functions,
}

impl Kind {
    /// All of them.
    pub(super) const ALL: [Kind; 8] = [
        Kind::Tool,
        Kind::Effect,
        Kind::RunMiddleware,
        Kind::ModelMiddleware,
        Kind::ToolMiddleware,
        Kind::Provider,
        Kind::Coordinator,
        Kind::Functions,
    ];

    /// Its name in manifests: that of the interface, if it has one.
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

    /// Whether it is called around the agent's own work, so that a run can go on without it.
    pub fn is_step(self) -> bool {
        matches!(self, Self::Effect | Self::RunMiddleware | Self::ModelMiddleware | Self::ToolMiddleware)
    }

    /// Whether it is tools for a model, and nothing else.
    pub fn is_tools(self) -> bool {
        matches!(self, Self::Tool | Self::Functions)
    }

    /// Whether it stands around something.
    pub fn is_middleware(self) -> bool {
        self.is_step() && self != Self::Effect
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("there is no kind `{name}`; the kinds are {}", names.join(", "))
        })
    }
}

/// What a component exports and imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Anatomy {
    /// The kinds that it exports.
    pub kinds: Vec<Kind>,
    /// The interfaces that it imports, with their versions; those that hold types alone are left out.
    pub imports: Vec<String>,
    /// Of kind `functions`: what it exports.
    #[serde(skip)]
    pub(super) exported: Exported,
}

/// Why bytes are not a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Misshapen {
    #[error("it is not WebAssembly")]
    NotWasm,
    #[error("it is a core module, not a component")]
    CoreModule,
    #[error("it is cut off or damaged: {message} (at byte {offset})")]
    Damaged { message: String, offset: usize },
    #[error("it {verb} `{name}`, but this host speaks version {CONTRACT} of the contract")]
    OtherContract { verb: &'static str, name: String },
    #[error("it exports none of the kinds of the contract, and no functions")]
    NoKind,
    #[error("it exports {count} functions, at most {most} are taken")]
    TooManyFunctions { count: usize, most: usize },
    #[error("it has {what} of {count}, at most {most} are compiled")]
    TooMuchCode { what: &'static str, count: usize, most: usize },
}

impl Anatomy {
    /// Validates the bytes and reads the names of what they import and export.
    ///
    /// # Errors
    ///
    /// [`Misshapen`], if they are not a component of this contract.
    pub fn read(bytes: &[u8]) -> Result<Self, Misshapen> {
        if !bytes.starts_with(b"\0asm") {
            return Err(Misshapen::NotWasm);
        }
        let damaged = |error: wasmparser::BinaryReaderError| Misshapen::Damaged {
            message: error.message().into(),
            offset: error.offset(),
        };
        let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
        let (mut code, mut docs) = (Code::default(), Docs::default());
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(damaged)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(Misshapen::CoreModule),
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        imports.push(import.map_err(damaged)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        let export = export.map_err(damaged)?;
                        exports.push((export.name.name.to_owned(), export.kind));
                    }
                }
                Payload::CustomSection(section)
                    if depth == 1
                        && section.name() == functions::DOCS_SECTION
                        && section.data().len() <= limits::PACKAGE_DOCS_BYTES =>
                {
                    docs = Docs::read(section.data());
                }
                Payload::CodeSectionEntry(body) => code.add(body.range().len())?,
                _ => {}
            }
        }
        // What the engine would refuse is refused here; what else it takes does not matter for the shape.
        let types = Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).map_err(damaged)?;

        let mut kinds = Vec::new();
        for (name, _) in exports.iter().filter(|(_, kind)| *kind == ComponentExternalKind::Instance) {
            let Some((interface, version)) = of_contract(name) else { continue };
            let Ok(kind) = interface.parse() else { continue };
            if !speaks(version) {
                return Err(Misshapen::OtherContract { verb: "exports", name: name.clone() });
            }
            kinds.push(kind);
        }
        for name in &imports {
            if of_contract(name).is_some_and(|(_, version)| !speaks(version)) {
                return Err(Misshapen::OtherContract { verb: "imports", name: name.clone() });
            }
        }
        let mut exported = Exported::default();
        if kinds.is_empty() {
            let exports: Vec<_> = exports.into_iter().map(|(name, _)| name).collect();
            exported = Exported::read(types.as_ref(), &imports, &exports, &docs)
                .map_err(|count| Misshapen::TooManyFunctions { count, most: limits::EXPORTED_FUNCTIONS })?;
            if !exported.functions.is_empty() || !exported.left_out.is_empty() {
                kinds.push(Kind::Functions);
            }
        }
        let is_types = |name: &str| match of_contract(name) {
            Some((interface, _)) => interface == "types",
            None => imports::need_of_import(name).is_none() && functions::holds_types_alone(types.as_ref(), name),
        };
        imports.retain(|name| !is_types(name));
        kinds.sort();
        if kinds.is_empty() { Err(Misshapen::NoKind) } else { Ok(Self { kinds, imports, exported }) }
    }
}

/// What of a component the compiler would have to do.
#[derive(Default)]
struct Code {
    functions: usize,
    bytes: usize,
}

impl Code {
    fn add(&mut self, function: usize) -> Result<(), Misshapen> {
        self.functions += 1;
        self.bytes += function;
        for (what, count, most) in [
            ("a number of functions", self.functions, limits::COMPONENT_FUNCTIONS),
            ("code in bytes", self.bytes, limits::COMPONENT_CODE_BYTES),
            ("a function in bytes", function, limits::FUNCTION_BYTES),
        ] {
            if count > most {
                return Err(Misshapen::TooMuchCode { what, count, most });
            }
        }
        Ok(())
    }
}

/// `shelly:plugin/log@0.1.0` as (`log`, `0.1.0`).
pub(super) fn of_contract(name: &str) -> Option<(&str, &str)> {
    let interface = name.strip_prefix(PACKAGE)?;
    Some(interface.split_once('@').unwrap_or((interface, "")))
}

/// Versions that differ in the last number alone speak with each other.
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
    fn versions_of_one_series_speak_with_each_other() {
        for (version, speaks_it) in
            [("0.1.0", true), ("0.1.7", true), ("0.2.0", false), ("1.1.0", false), ("", false), ("0.1", false)]
        {
            assert_eq!(speaks(version), speaks_it, "{version}");
        }
    }
}
