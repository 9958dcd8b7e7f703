//! Components that know nothing of us: their exported functions as tools.
//!
//! [`ExportedFunctions`] reads functions and their types off the binary, [`FunctionToolset`] makes tools of them under what the manifest [`FunctionsManifest`].
//! For a call [`arguments`] makes the component's values out of JSON, and [`written`] makes JSON out of what comes back;
//! [`schema`](mod@schema) is what a model is told of the types. Values of resources stay where they are: a model has [`ResourceHandles`].

mod docs;
mod exported_functions;
mod handles;
mod manifest_section;
mod names;
mod runtime_exports;
mod schema;
mod to_json;
mod to_val;
mod toolset;
mod wit;
mod wit_types;

#[cfg(test)]
mod tests;

pub use docs::{SECTION as DOCS_SECTION, WitDocs};
pub use exported_functions::{ExportedFunctions, FunctionAction, holds_types_alone};
pub use handles::ResourceHandles;
pub use manifest_section::{FunctionOverrides, FunctionsManifest, InstanceLifetime};
pub use names::FunctionPath;
pub use to_json::{FunctionOutput, written};
pub use to_val::arguments;
pub use toolset::{FunctionTool, FunctionToolset};
pub use wit_types::{WitType, WitTypeKind};
