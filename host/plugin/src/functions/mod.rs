//! Exported functions as tools, for components that do not use the contract.
//!
//! [`ExportedFunctions`] reads the functions and their types from the binary. [`FunctionToolset`] makes tools of them, as
//! configured by a [`FunctionsManifest`]; [`schema`](mod@schema) describes their types to the model. A call goes through
//! these steps:
//!
//! 1. [`arguments`] converts the JSON of the model to the component's values.
//! 2. [`send_streams`] replaces lists and values by streams and futures where the function takes them.
//! 3. The function is called.
//! 4. [`receive_streams`] reads the streams and futures in the result, so that they are lists and values again.
//! 5. [`written`] converts the result to JSON.
//!
//! Resources stay in the instance: a model gets their names, which [`ResourceHandles`] keeps.

mod docs;
mod exported_functions;
mod handles;
mod json_numbers;
mod manifest_section;
mod map_keys;
mod names;
mod runtime_exports;
mod schema;
mod shallow_json;
mod streams;
mod to_json;
mod to_val;
mod toolset;
mod wit;
mod wit_types;

#[cfg(test)]
mod argument_tests;
#[cfg(test)]
mod tests;

pub use docs::{SECTION as DOCS_SECTION, WitDocs};
pub use exported_functions::{ExportedFunctions, FunctionAction, holds_types_alone};
pub use handles::ResourceHandles;
pub use manifest_section::{FunctionOverrides, FunctionsManifest, InstanceLifetime};
pub use names::FunctionPath;
pub use streams::{receive_streams, send_streams};
pub use to_json::{FunctionOutput, written};
pub use to_val::arguments;
pub use toolset::{FunctionTool, FunctionToolset};
pub use wit_types::{WitType, WitTypeKind};
