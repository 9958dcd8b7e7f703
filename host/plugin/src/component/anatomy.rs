//! The kinds and interfaces of a component, read from its bytes without compiling or running any of it.

use std::path::Path;

use serde::Serialize;
use wasmparser::ComponentExternalKind;

use super::{
    diagnosis,
    file_reading::read_inside,
    survey::{ComponentSurvey, ValidComponent},
};
use crate::{
    contract::{ContractVersion, PluginKind, UnknownContractVersion, need_of_import, of_contract},
    error::{ComponentError, PluginError},
    functions::{self, ExportedFunctions, WitDocs},
};
use shelly_core::{files::folder_of, limits};

/// The exports and imports of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Anatomy {
    /// The kinds that it exports.
    pub kinds: Vec<PluginKind>,
    /// The interfaces that it imports, with their versions, without those that contain types alone.
    pub imports: Vec<String>,
    /// The version of the contract that it was built for; `None` if it does not use the contract.
    #[serde(skip)]
    pub contract: Option<ContractVersion>,
    /// The names of all exports, with their versions.
    #[serde(skip)]
    pub exports: Vec<String>,
    /// The exported functions, for kind `functions`.
    #[serde(skip)]
    pub(crate) exported: ExportedFunctions,
    /// `true` if the component uses the async ABI.
    #[serde(skip)]
    pub(crate) uses_async: bool,
}

impl Anatomy {
    /// Returns the version of the contract that the component is linked with: a component that does not use the contract
    /// has no name of any version.
    pub(crate) fn linked_contract(&self) -> ContractVersion {
        self.contract.unwrap_or(ContractVersion::NEWEST)
    }

    /// Validates the bytes and reads the names of their imports and exports.
    ///
    /// # Errors
    ///
    /// [`ComponentError`] if the bytes are not a component of this contract.
    pub fn read(bytes: &[u8]) -> Result<Self, ComponentError> {
        Self::read_documented(bytes, WitDocs::default())
    }

    /// Reads a component with the doc comments of the WIT file of the same name beside it: `calc.wit` for `calc.wasm`.
    pub(crate) fn of_file(path: &Path, bytes: &[u8]) -> Result<Self, PluginError> {
        let wit = path.with_extension("wit");
        let documents = match wit != path && wit.is_file() {
            true => {
                let text = String::from_utf8(read_inside(&wit, folder_of(&wit), limits::PACKAGE_DOCS_BYTES as u64)?);
                let docs = text
                    .map_err(|_| "the file is not UTF-8".to_owned())
                    .and_then(|text| WitDocs::from_wit(&wit, &text));
                docs.map_err(|message| PluginError::Wit { path: wit, message })?
            }
            false => WitDocs::default(),
        };
        Self::read_documented(bytes, documents).map_err(|source| PluginError::Component { path: path.into(), source })
    }

    /// Reads a component with doc comments from elsewhere, which take precedence over those in the bytes.
    fn read_documented(bytes: &[u8], documents: WitDocs) -> Result<Self, ComponentError> {
        let survey = ComponentSurvey::of(bytes)?;
        let ValidComponent { types, uses_async } = survey.validate(bytes)?;
        let ComponentSurvey { mut imports, exports, docs } = survey;
        let docs = documents.or(docs);

        let (mut kinds, mut of_kinds) = (Vec::<PluginKind>::new(), Vec::new());
        for (name, _) in exports.iter().filter(|(_, kind)| *kind == ComponentExternalKind::Instance) {
            let Some((interface, _)) = of_contract(name) else { continue };
            let Ok(kind) = interface.parse() else { continue };
            kinds.push(kind);
            of_kinds.push(("exports", name.as_str()));
        }
        let contract = contract_of(of_kinds.into_iter().chain(imports.iter().map(|name| ("imports", name.as_str()))))?;
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
            None => need_of_import(name).is_none() && functions::holds_types_alone(types.as_ref(), name),
        };
        imports.retain(|name| !is_types(name));
        kinds.sort();
        if kinds.is_empty() {
            return Err(diagnosis::no_kind(&exports));
        }
        let exports = exports.into_iter().map(|(name, _)| name).collect();
        Ok(Self { kinds, imports, contract, exports, exported, uses_async })
    }
}

/// Returns the version of the contract in these names, each with the verb that says on which side of the component it is;
/// `None` if none of them is of the contract.
fn contract_of<'a>(
    names: impl Iterator<Item = (&'static str, &'a str)>,
) -> Result<Option<ContractVersion>, ComponentError> {
    let mut found: Option<(ContractVersion, &str)> = None;
    for (verb, name) in names {
        let Some((_, number)) = of_contract(name) else { continue };
        let version = number.parse::<ContractVersion>().map_err(|UnknownContractVersion { is_newer }| {
            ComponentError::OtherContract { verb, name: name.to_owned(), is_newer }
        })?;
        match found {
            Some((first, other)) if first != version => {
                return Err(ComponentError::MixedContract { names: [other.to_owned(), name.to_owned()] });
            }
            _ => found = Some((version, name)),
        }
    }
    Ok(found.map(|(version, _)| version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_version_of_a_component_is_one_that_is_served() {
        let of = |names: &[&'static str]| contract_of(names.iter().map(|name| ("imports", *name)));
        let (old, new) = ("shelly:plugin/log@0.1.0", "shelly:plugin/kv@0.2.0");
        for (names, contract) in [
            (&[][..], None),
            (&["wasi:io/poll@0.2.0", "shelly:other/log@0.9.0"], None),
            (&[old, "shelly:plugin/kv@0.1.4"], Some(ContractVersion::V0_1)),
            (&["wasi:io/poll@0.2.0", new], Some(ContractVersion::V0_2)),
        ] {
            assert_eq!(of(names), Ok(contract), "{names:?}");
        }
        let error = of(&[old, "a:b/c", new]).unwrap_err();
        let said = format!("{error}; {}", error.mend());
        assert!(said.contains(&format!("`{old}` and `{new}`")) && said.contains("rebuild"), "{said}");
        for (name, mend) in [
            ("shelly:plugin/kv@0.3.0", "upgrade shelly-host, or rebuild the plugin"),
            ("shelly:plugin/kv@1.0.0", "upgrade shelly-host, or rebuild the plugin"),
            ("shelly:plugin/kv@0.0.3", "rebuild the plugin"),
            ("shelly:plugin/kv", "rebuild the plugin"),
        ] {
            let error = of(&[name, new]).unwrap_err();
            assert!(error.to_string().contains(&format!("imports `{name}`")), "{error}");
            assert!(error.to_string().contains("versions 0.1.0 and 0.2.0 of the contract"), "{error}");
            assert!(error.mend().starts_with(mend) && error.mend().contains("version 0.2.0"), "{}", error.mend());
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
        let engine = |config: &wasmtime::Config| wasmtime::Engine::new(config).unwrap();
        let plain = engine(&crate::compile::engine_config());
        let with_async = engine(&crate::compile::config_with_async(limits::PLUGIN_STACK_BYTES));
        let mut taken = Vec::new();
        for (feature, text) in USES {
            let text = format!(
                "(component (core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
                 (func (export \"f\") (canon lift (core func $i \"f\"))) {text})"
            );
            let bytes = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let read = Anatomy::read(&bytes);
            let is_plain = read.as_ref().is_ok_and(|anatomy| !anatomy.uses_async);
            let engine = if is_plain { &plain } else { &with_async };
            let compiled = wasmtime::component::Component::new(engine, &bytes);
            assert_eq!(read.is_ok(), compiled.is_ok(), "{feature}: {read:?}, {:?}", compiled.err());
            match read {
                Ok(anatomy) => {
                    let refused = wasmtime::component::Component::new(&plain, &bytes).is_err();
                    assert_eq!(anatomy.uses_async, refused, "{feature}");
                    taken.push(feature);
                }
                Err(error) => assert!(matches!(error, ComponentError::Feature { .. }), "{feature}: {error}"),
            }
        }
        let expected = ["nothing", "a map", "a future", "a stream", "an asynchronous function", "the async ABI"];
        assert!(taken.starts_with(&expected) && taken.contains(&"many values"), "{taken:?}");
    }
}
