use super::node::{JsonMap, JsonNode};

/// The kind of value that the meta-schema of 2020-12 requires under a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeywordShape {
    Schema,
    /// A list of at least one schema.
    Schemas,
    /// An object of schemas.
    NamedSchemas,
    /// An object of schemas whose names are patterns.
    SchemasByPattern,
    /// A type, or a list of at least one type without duplicates.
    Types,
    Number,
    /// A number above 0.
    Positive,
    /// A nonnegative integer.
    Count,
    Flag,
    Text,
    Pattern,
    /// A list of texts without duplicates.
    Names,
    /// An object of such lists.
    NamesByName,
    /// A list of at least one value without duplicates. The meta-schema allows an empty list; vendors do not.
    Choices,
    /// A list of anything.
    Values,
    /// A reference to a position in this document.
    Reference,
    Anchor,
    /// A URI without a fragment.
    Id,
}

impl KeywordShape {
    /// Returns the shape under a keyword; `None` if any value is allowed, as under unknown keywords.
    pub fn under(keyword: &str) -> Option<Self> {
        Some(match keyword {
            "items"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "if"
            | "then"
            | "else"
            | "not"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => Self::Schema,
            "prefixItems" | "allOf" | "anyOf" | "oneOf" => Self::Schemas,
            "properties" | "$defs" | "definitions" | "dependentSchemas" => Self::NamedSchemas,
            "patternProperties" => Self::SchemasByPattern,
            "type" => Self::Types,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Self::Number,
            "multipleOf" => Self::Positive,
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minContains" | "maxContains" | "minProperties"
            | "maxProperties" => Self::Count,
            "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => Self::Flag,
            "title" | "description" | "$comment" | "format" | "contentEncoding" | "contentMediaType" => Self::Text,
            "pattern" => Self::Pattern,
            "required" => Self::Names,
            "dependentRequired" => Self::NamesByName,
            "enum" => Self::Choices,
            "examples" => Self::Values,
            "$ref" => Self::Reference,
            "$anchor" => Self::Anchor,
            "$id" => Self::Id,
            _ => return None,
        })
    }
}

/// The types of JSON Schema.
pub const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];

/// Returns `true` for a name that `$anchor` may give.
pub fn is_anchor(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

/// Calls `each` with every object schema in this one, inner ones first. Values of `const`, `default` and unknown keywords
/// are not schemas.
pub fn visit(schema: &mut JsonNode, each: &mut dyn FnMut(&mut JsonMap)) {
    let JsonNode::Object(map) = schema else { return };
    for (keyword, value) in map.iter_mut() {
        match (KeywordShape::under(keyword), value) {
            (Some(KeywordShape::Schema), value) => visit(value, each),
            (Some(KeywordShape::Schemas), JsonNode::List(list)) => list.iter_mut().for_each(|one| visit(one, each)),
            (Some(KeywordShape::NamedSchemas | KeywordShape::SchemasByPattern), JsonNode::Object(named)) => {
                named.values_mut().for_each(|one| visit(one, each));
            }
            _ => {}
        }
    }
    each(map);
}
