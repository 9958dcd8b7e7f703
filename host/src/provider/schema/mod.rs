//! Schemas of tools and of replies as vendors take them.
//!
//! One refused schema ends the whole run, and tools are written by strangers: what a vendor is known to refuse is said
//! another way, or left out. A tool looks at its arguments itself, so that a schema which says less does no harm.
//! Nearly all schemas are fine, which one look tells without a copy. The others are written anew: the same schema
//! always in the same way, in bounded work and size.

mod plain;
mod rebuild;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Whose taste a schema is to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaDialect {
    /// OpenAI's, Anthropic's and nearly everyone's: any schema, as long as it is plainly one of an object.
    Common,
    /// Gemini's: a part of JSON Schema at every level, without references.
    Gemini,
}

/// What a schema is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaRoot {
    /// Arguments: an object, and its properties stand at the top.
    Object,
    /// Anything.
    Value,
}

/// The schema of a tool's arguments as OpenAI and Anthropic take it: at its top it is of an object, says which
/// properties that has, and combines no other schemas.
pub fn object(schema: &RawValue) -> Cow<'_, RawValue> {
    acceptable(schema, SchemaDialect::Common, SchemaRoot::Object)
}

/// The schema of a tool's arguments as Gemini takes it in `parametersJsonSchema`.
pub fn gemini_object(schema: &RawValue) -> Cow<'_, RawValue> {
    acceptable(schema, SchemaDialect::Gemini, SchemaRoot::Object)
}

/// The schema of a reply as Gemini takes it in `responseJsonSchema`.
pub fn gemini(schema: &RawValue) -> Cow<'_, RawValue> {
    acceptable(schema, SchemaDialect::Gemini, SchemaRoot::Value)
}

fn acceptable(schema: &RawValue, taste: SchemaDialect, of: SchemaRoot) -> Cow<'_, RawValue> {
    if plain::is_plain(schema, taste, of) {
        return Cow::Borrowed(schema);
    }
    // What is nested too deeply to be read becomes a schema that says nothing.
    let node = serde_json::from_str(schema.get()).unwrap_or_default();
    let rebuilt = rebuild::rebuild(&node, taste, of);
    Cow::Owned(serde_json::value::to_raw_value(&rebuilt).expect("what was JSON is JSON"))
}
