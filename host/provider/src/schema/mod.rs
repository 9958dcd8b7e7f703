//! Conversion of the schemas of tools and replies to the dialect that a vendor accepts.
//!
//! One refused schema ends the whole run, and tools have unknown authors. Parts that a vendor is known to refuse are
//! rewritten or dropped. A less specific schema does no harm, because each tool validates its arguments itself. Nearly all
//! schemas are acceptable, which one pass without a copy determines. The others are rebuilt: deterministically, with bounded
//! work and size.

mod dialect;
mod plain;
mod rebuild;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use dialect::{SchemaDialect, SchemaRoot};
use shelly_core::error::Fault;

/// Returns the schema of a tool's arguments in the form that OpenAI and Anthropic accept: its top level describes an object,
/// lists the properties, and combines no other schemas.
pub fn object(schema: &RawValue) -> Cow<'_, RawValue> {
    acceptable(schema, SchemaDialect::Common, SchemaRoot::Object)
}

/// Returns the schema of a tool's arguments in the form that Gemini accepts as `parametersJsonSchema`.
pub fn gemini_object(schema: &RawValue) -> Cow<'_, RawValue> {
    acceptable(schema, SchemaDialect::Gemini, SchemaRoot::Object)
}

/// Returns the schema of a reply in the form that Gemini accepts as `responseJsonSchema`.
pub fn gemini(schema: &RawValue) -> Cow<'_, RawValue> {
    acceptable(schema, SchemaDialect::Gemini, SchemaRoot::Value)
}

/// Parses the schema of a reply.
///
/// # Errors
///
/// [`Fault::Invalid`] if it is not JSON.
pub fn of_reply<'a, T: Deserialize<'a>>(schema: &'a str) -> Result<T, Fault> {
    serde_json::from_str(schema)
        .map_err(|error| Fault::invalid(format!("the schema of the reply is not JSON: {error}")))
}

fn acceptable(schema: &RawValue, dialect: SchemaDialect, of: SchemaRoot) -> Cow<'_, RawValue> {
    if plain::is_plain(schema, dialect, of) {
        return Cow::Borrowed(schema);
    }
    // A schema that is nested too deeply to parse becomes one without constraints.
    let node = serde_json::from_str(schema.get()).unwrap_or_default();
    let rebuilt = rebuild::rebuild(&node, dialect, of);
    Cow::Owned(serde_json::value::to_raw_value(&rebuilt).expect("what was JSON is JSON"))
}
