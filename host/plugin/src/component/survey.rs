//! The first pass over the bytes of a component: its names, and the work that it causes.

use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload, Validator, WasmFeatures, types::Types};

use super::{
    complexity::{ComplexityCounter, ComplexityError},
    diagnosis,
};
use crate::{
    contract::of_contract,
    error::ComponentError,
    functions::{self, WitDocs},
};
use shelly_core::limits;

/// The WebAssembly features that the engine accepts, as it is configured and built: no threads, no garbage collection
/// and no exceptions. The engine for components that use the async ABI accepts [`ASYNC_FEATURES`] too.
const ENGINE_FEATURES: WasmFeatures = WasmFeatures::WASM3
    .difference(WasmFeatures::GC_TYPES)
    .difference(WasmFeatures::EXCEPTIONS)
    .difference(WasmFeatures::THREADS)
    .union(WasmFeatures::COMPONENT_MODEL)
    .union(WasmFeatures::CM_MAP);

/// The async ABI as far as the engine supports it: functions that return to the host in between, futures and streams.
const ASYNC_FEATURES: WasmFeatures = ENGINE_FEATURES.union(WasmFeatures::CM_ASYNC);

/// A component that the engine accepts.
pub struct ValidComponent {
    /// Its types.
    pub types: Types,
    /// `true` if it uses the async ABI, so that it needs the engine for such components.
    pub uses_async: bool,
}

/// The names and doc comments in a component, read without a validator, in time and memory linear in its size.
pub struct ComponentSurvey {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<(String, ComponentExternalKind)>,
    pub(super) docs: WitDocs,
}

impl ComponentSurvey {
    /// Counts the work that a component causes, and reads its names.
    ///
    /// # Errors
    ///
    /// [`ComponentError`] if the bytes are not a component, cannot be read, or cause too much work.
    pub fn of(bytes: &[u8]) -> Result<Self, ComponentError> {
        diagnosis::check_header(bytes)?;
        let broken = |error| diagnosis::broken(bytes, &error);
        let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
        let (mut extent, mut docs) = (ComplexityCounter::default(), WitDocs::default());
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(broken)?;
            if depth == 0 && matches!(payload, Payload::Version { encoding: Encoding::Module, .. }) {
                return Err(diagnosis::core_module(bytes));
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
    pub fn validate(&self, bytes: &[u8]) -> Result<ValidComponent, ComponentError> {
        let error = match Validator::new_with_features(ENGINE_FEATURES).validate_all(bytes) {
            Ok(types) => return Ok(ValidComponent { types, uses_async: false }),
            Err(error) => error,
        };
        let lacks_async = error.missing_wasm_feature().is_some_and(|it| it.intersects(WasmFeatures::CM_ASYNC));
        if !lacks_async {
            return Err(diagnosis::refused(bytes, &error));
        }
        let types = Validator::new_with_features(ASYNC_FEATURES)
            .validate_all(bytes)
            .map_err(|error| diagnosis::refused(bytes, &error))?;
        match self.exports.iter().find(|(name, _)| of_contract(name).is_some()) {
            // The contract has no async functions, and a runtime that is built for them takes more of each call.
            Some((name, _)) => Err(ComponentError::Async { name: name.clone() }),
            None => Ok(ValidComponent { types, uses_async: true }),
        }
    }
}
