//! The first pass over the bytes of a component: its names, and the work that it causes.

use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload, Validator, WasmFeatures, types::Types};

use super::{
    complexity::{ComplexityCounter, ComplexityError},
    diagnosis,
};
use crate::{
    error::ComponentError,
    functions::{self, WitDocs},
};
use shelly_core::limits;

/// The WebAssembly features that the engine accepts, as it is configured and built: no threads, no garbage collection,
/// no exceptions, and no async components.
const ENGINE_FEATURES: WasmFeatures = WasmFeatures::WASM3
    .difference(WasmFeatures::GC_TYPES)
    .difference(WasmFeatures::EXCEPTIONS)
    .difference(WasmFeatures::THREADS)
    .union(WasmFeatures::COMPONENT_MODEL)
    .union(WasmFeatures::CM_MAP);

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
    pub fn validate(&self, bytes: &[u8]) -> Result<Types, ComponentError> {
        Validator::new_with_features(ENGINE_FEATURES)
            .validate_all(bytes)
            .map_err(|error| diagnosis::refused(bytes, &self.imports, &self.exports, &error))
    }
}
