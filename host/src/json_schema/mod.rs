//! JSON Schema 2020-12 of tools that strangers describe.
//!
//! Vendors check the schemas of a request against the meta-schema and refuse the whole request for one that does not fit,
//! while servers and plugins write whatever their libraries print: older drafts, types of other languages, empty lists where
//! objects belong. [`bring`] says the same in 2020-12 where that can be said and leaves out what cannot: a tool looks at its
//! arguments itself, so a schema that says less does no harm. [`check`] holds the outcome to the meta-schema.
//!
//! The vocabulary is written down here, in one table that both use, and not taken from a validator library: what is checked
//! is a schema and never a value, which takes some sixty words, while a library brings its own regular expressions, numbers
//! and network access.

mod bring;
mod check;
mod keywords;
mod node;
mod pattern;
mod rename;
#[cfg(test)]
pub(crate) mod tests;

pub use bring::bring;
pub use check::check;
pub use node::{JsonMap, JsonNode};
pub use rename::rename;
