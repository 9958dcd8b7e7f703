/// The dialect of JSON Schema that a vendor accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaDialect {
    /// The dialect of OpenAI, Anthropic and nearly all others: any schema, provided that its top level plainly describes an
    /// object.
    Common,
    /// The dialect of Gemini: a subset of JSON Schema at every level, without references.
    Gemini,
}

/// The kind of value that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaRoot {
    /// The arguments of a tool: an object whose properties are listed at the top level.
    Object,
    /// Any value.
    Value,
}
