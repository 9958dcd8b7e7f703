//! Components that know nothing of us: their exported functions as tools.
//!
//! [`ExportedFunctions`] reads functions and their types off the binary, [`FunctionToolset`] makes tools of them under what the manifest [`FunctionsManifest`].
//! For a call [`arguments`] makes the component's values out of JSON, and [`written`] makes JSON out of what comes back;
//! [`schema`](mod@schema) is what a model is told of the types. Values of resources stay where they are: a model has [`ResourceHandles`].

mod docs;
mod exported;
mod handles;
mod names;
mod offer;
mod runtime_exports;
mod said;
mod schema;
mod shape;
mod to_json;
mod to_val;
mod wit;

#[cfg(test)]
mod tests;

pub use docs::{SECTION as DOCS_SECTION, WitDocs};
pub use exported::{ExportedFunctions, FunctionAction, holds_types_alone};
pub use handles::ResourceHandles;
pub use names::FunctionPath;
pub use offer::{FunctionTool, FunctionToolset};
pub use said::{FunctionOverrides, FunctionsManifest, InstanceLifetime};
pub use shape::{WitType, WitTypeKind};
pub use to_json::{FunctionOutput, written};
pub use to_val::arguments;
