//! JSON Schema 2020-12 for tools with schemas from unknown authors.
//!
//! Vendors check the schemas of a request against the meta-schema and refuse the whole request for one that does not fit.
//! Servers and plugins, however, write whatever their libraries print: older drafts, types of other languages, empty lists
//! in place of objects. [`bring`] converts such schemas to 2020-12 and drops what cannot be converted. A less specific
//! schema does no harm, because each tool validates its arguments itself. [`check`] validates the result against the
//! meta-schema.
//!
//! The vocabulary is one table here that both functions use, and does not come from a validator library. Only schemas are
//! checked, never values, which takes some sixty keywords; a library would add its own regular expressions, numbers and
//! network access.

mod bring;
mod check;
mod keywords;
mod node;
mod pattern;
mod rename;
#[cfg(test)]
mod tests;

pub use bring::bring;
pub use check::check;
pub use node::{JsonMap, JsonNode};
pub use rename::rename;

/// The keywords that vendors refuse at the top level of a tool's schema.
pub const NOT_AT_TOP: [&str; 7] = ["$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const"];
