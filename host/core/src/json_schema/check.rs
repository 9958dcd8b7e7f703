//! Validation against the meta-schema of 2020-12.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    keywords::{KeywordShape, TYPES, is_anchor},
    node::{JsonMap, JsonNode},
    pattern,
};

/// Checks a schema against the meta-schema and against further requirements of vendors: portable patterns, references to
/// schemas of this document, and nonempty lists of choices.
///
/// # Errors
///
/// The first keyword that does not fit, with its position.
pub fn check(schema: &JsonNode) -> Result<(), String> {
    MetaSchemaCheck { root: schema, anchors: anchors(schema) }.schema(schema)
}

struct MetaSchemaCheck<'a> {
    root: &'a JsonNode,
    anchors: HashSet<String>,
}

impl MetaSchemaCheck<'_> {
    fn schema(&self, node: &JsonNode) -> Result<(), String> {
        match node {
            JsonNode::Leaf(Value::Bool(_)) => Ok(()),
            JsonNode::Object(map) => map.iter().try_for_each(|(keyword, value)| {
                let Some(shape) = KeywordShape::under(keyword) else { return Ok(()) };
                self.keyword(shape, value).map_err(|why| below(keyword, &why))
            }),
            _ => Err(": expected an object, `true` or `false`".into()),
        }
    }

    fn keyword(&self, shape: KeywordShape, node: &JsonNode) -> Result<(), String> {
        match (shape, node) {
            (KeywordShape::Schema, node) => self.schema(node),
            (KeywordShape::Schemas, JsonNode::List(list)) if !list.is_empty() => {
                let mut numbered = list.iter().enumerate();
                numbered.try_for_each(|(at, one)| self.schema(one).map_err(|why| below(&at.to_string(), &why)))
            }
            (KeywordShape::NamedSchemas, JsonNode::Object(map)) => self.named(map),
            (KeywordShape::SchemasByPattern, JsonNode::Object(map)) => {
                match map.keys().all(|name| pattern::is_portable(name)) {
                    true => self.named(map),
                    false => Err(": expected names that are portable regular expressions".into()),
                }
            }
            (KeywordShape::Reference, JsonNode::Leaf(Value::String(target))) if self.leads_to_schema(target) => Ok(()),
            (shape, node) if fits(shape, node) => Ok(()),
            (shape, _) => Err(format!(": {}", wanted(shape))),
        }
    }

    fn named(&self, map: &JsonMap) -> Result<(), String> {
        map.iter().try_for_each(|(name, schema)| self.schema(schema).map_err(|why| below(name, &why)))
    }

    fn leads_to_schema(&self, target: &str) -> bool {
        self.root.find(target).is_some_and(JsonNode::is_schema)
            || target.strip_prefix('#').is_some_and(|name| self.anchors.contains(name))
    }
}

/// Returns the names that `$anchor` defines in this schema.
pub fn anchors(schema: &JsonNode) -> HashSet<String> {
    let mut found = HashSet::new();
    super::keywords::visit(&mut schema.clone(), &mut |map| {
        found.extend(map.get("$anchor").and_then(JsonNode::text).map(str::to_owned));
    });
    found
}

/// Returns `true` if the node fits a shape that contains no schemas.
pub fn fits(shape: KeywordShape, node: &JsonNode) -> bool {
    match (shape, node) {
        (KeywordShape::Types, JsonNode::List(list)) => {
            !list.is_empty() && are_texts_once(list) && list.iter().all(|one| fits(shape, one))
        }
        (KeywordShape::Types, JsonNode::Leaf(Value::String(word))) => TYPES.contains(&word.as_str()),
        (KeywordShape::Number, JsonNode::Leaf(Value::Number(_)))
        | (KeywordShape::Flag, JsonNode::Leaf(Value::Bool(_))) => true,
        (KeywordShape::Positive, JsonNode::Leaf(Value::Number(number))) => {
            number.as_f64().is_some_and(|number| number > 0.0)
        }
        (KeywordShape::Count, JsonNode::Leaf(Value::Number(number))) => number.is_u64(),
        (KeywordShape::Text, JsonNode::Leaf(Value::String(_))) => true,
        (KeywordShape::Pattern, JsonNode::Leaf(Value::String(text))) => pattern::is_portable(text),
        (KeywordShape::Names, JsonNode::List(list)) => are_texts_once(list),
        (KeywordShape::NamesByName, JsonNode::Object(map)) => {
            map.values().all(|names| fits(KeywordShape::Names, names))
        }
        (KeywordShape::Choices, JsonNode::List(list)) => !list.is_empty() && is_each_once(list),
        (KeywordShape::Values, JsonNode::List(_)) => true,
        (KeywordShape::Anchor, JsonNode::Leaf(Value::String(name))) => is_anchor(name),
        (KeywordShape::Id, JsonNode::Leaf(Value::String(uri))) => {
            let uri = uri.strip_suffix('#').unwrap_or(uri);
            !uri.contains('#') && uri.chars().all(|c| c.is_ascii_graphic() && !r#"<>"{}|\^`"#.contains(c))
        }
        _ => false,
    }
}

fn are_texts_once(list: &[JsonNode]) -> bool {
    let mut seen = HashSet::new();
    list.iter().all(|one| one.text().is_some_and(|text| seen.insert(text)))
}

fn is_each_once(list: &[JsonNode]) -> bool {
    let mut seen = HashSet::new();
    list.iter().all(|one| seen.insert(one.to_json()))
}

fn wanted(shape: KeywordShape) -> &'static str {
    match shape {
        KeywordShape::Schema => "expected a schema",
        KeywordShape::Schemas => "expected a non-empty list of schemas",
        KeywordShape::NamedSchemas | KeywordShape::SchemasByPattern => "expected an object of schemas",
        KeywordShape::Types => "expected a type: object, array, string, integer, number, boolean or null",
        KeywordShape::Number => "expected a number",
        KeywordShape::Positive => "expected a number above 0",
        KeywordShape::Count => "expected a non-negative integer",
        KeywordShape::Flag => "expected true or false",
        KeywordShape::Text => "expected a string",
        KeywordShape::Pattern => "expected a portable regular expression",
        KeywordShape::Names => "expected a list of unique names",
        KeywordShape::NamesByName => "expected an object of lists of unique names",
        KeywordShape::Choices => "expected a non-empty list of unique values",
        KeywordShape::Values => "expected a list",
        KeywordShape::Reference => "expected a reference to a schema in this one",
        KeywordShape::Anchor => "expected the name of an anchor",
        KeywordShape::Id => "expected a URI without a fragment",
    }
}

/// Prepends one step to the position in an error message.
fn below(step: &str, why: &str) -> String {
    let step = crate::error::cut(step, crate::limits::NAME_SHOWN_CHARS);
    match why.starts_with(':') {
        true => format!("{}{why}", step.escape_debug()),
        false => format!("{}.{why}", step.escape_debug()),
    }
}
