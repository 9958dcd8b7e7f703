//! Components that know nothing of us: their exported functions as tools.
//!
//! [`Exported`] reads functions and their types off the binary, [`Offer`] makes tools of them under what the manifest [`Said`].
//! For a call [`arguments`] makes the component's values out of JSON, and [`written`] makes JSON out of what comes back;
//! [`schema`](mod@schema) is what a model is told of the types. Values of resources stay where they are: a model has [`Handles`].

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

pub use docs::{Docs, SECTION as DOCS_SECTION};
pub use exported::{Act, Exported, holds_types_alone};
pub use handles::Handles;
pub use names::Path;
pub use offer::{FunctionTool, Offer};
pub use said::{Lifetime, OnFunction, Said};
pub use shape::{Form, Shape};
pub use to_json::{Written, written};
pub use to_val::arguments;
