//! The meta-schema of 2020-12.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    keywords::{Shape, TYPES, is_anchor},
    node::{Map, Node},
    pattern,
};

/// Holds a schema to the meta-schema, and to what vendors want beyond it: patterns that every engine reads, references that
/// lead to a schema of this document, lists of choices that are not empty.
///
/// # Errors
///
/// The first keyword that does not fit, with its place.
pub fn check(schema: &Node) -> Result<(), String> {
    Check { root: schema, anchors: anchors(schema) }.schema(schema)
}

struct Check<'a> {
    root: &'a Node,
    anchors: HashSet<String>,
}

impl Check<'_> {
    fn schema(&self, node: &Node) -> Result<(), String> {
        match node {
            Node::Leaf(Value::Bool(_)) => Ok(()),
            Node::Object(map) => map.iter().try_for_each(|(keyword, value)| {
                let Some(shape) = Shape::under(keyword) else { return Ok(()) };
                self.keyword(shape, value).map_err(|why| below(keyword, &why))
            }),
            _ => Err(": a schema is an object, `true` or `false`".into()),
        }
    }

    fn keyword(&self, shape: Shape, node: &Node) -> Result<(), String> {
        match (shape, node) {
            (Shape::Schema, node) => self.schema(node),
            (Shape::Schemas, Node::List(list)) if !list.is_empty() => {
                let mut numbered = list.iter().enumerate();
                numbered.try_for_each(|(at, one)| self.schema(one).map_err(|why| below(&at.to_string(), &why)))
            }
            (Shape::NamedSchemas, Node::Object(map)) => self.named(map),
            (Shape::SchemasByPattern, Node::Object(map)) => match map.keys().all(|name| pattern::is_portable(name)) {
                true => self.named(map),
                false => Err(": a name is no regular expression that every engine reads".into()),
            },
            (Shape::Reference, Node::Leaf(Value::String(target))) if self.leads_to_schema(target) => Ok(()),
            (shape, node) if fits(shape, node) => Ok(()),
            (shape, _) => Err(format!(": {}", wanted(shape))),
        }
    }

    fn named(&self, map: &Map) -> Result<(), String> {
        map.iter().try_for_each(|(name, schema)| self.schema(schema).map_err(|why| below(name, &why)))
    }

    fn leads_to_schema(&self, target: &str) -> bool {
        self.root.find(target).is_some_and(Node::is_schema)
            || target.strip_prefix('#').is_some_and(|name| self.anchors.contains(name))
    }
}

/// The names that anchors in this schema give.
pub fn anchors(schema: &Node) -> HashSet<String> {
    let mut found = HashSet::new();
    super::keywords::visit(&mut schema.clone(), &mut |map| {
        found.extend(map.get("$anchor").and_then(Node::text).map(str::to_owned));
    });
    found
}

/// Returns `true` if this fits where no schema stands.
pub fn fits(shape: Shape, node: &Node) -> bool {
    match (shape, node) {
        (Shape::Types, Node::List(list)) => {
            !list.is_empty() && are_texts_once(list) && list.iter().all(|one| fits(shape, one))
        }
        (Shape::Types, Node::Leaf(Value::String(word))) => TYPES.contains(&word.as_str()),
        (Shape::Number, Node::Leaf(Value::Number(_))) | (Shape::Flag, Node::Leaf(Value::Bool(_))) => true,
        (Shape::Positive, Node::Leaf(Value::Number(number))) => number.as_f64().is_some_and(|number| number > 0.0),
        (Shape::Count, Node::Leaf(Value::Number(number))) => number.is_u64(),
        (Shape::Text, Node::Leaf(Value::String(_))) => true,
        (Shape::Pattern, Node::Leaf(Value::String(text))) => pattern::is_portable(text),
        (Shape::Names, Node::List(list)) => are_texts_once(list),
        (Shape::NamesByName, Node::Object(map)) => map.values().all(|names| fits(Shape::Names, names)),
        (Shape::Choices, Node::List(list)) => !list.is_empty() && is_each_once(list),
        (Shape::Values, Node::List(_)) => true,
        (Shape::Anchor, Node::Leaf(Value::String(name))) => is_anchor(name),
        (Shape::Id, Node::Leaf(Value::String(uri))) => {
            let uri = uri.strip_suffix('#').unwrap_or(uri);
            !uri.contains('#') && uri.chars().all(|c| c.is_ascii_graphic() && !r#"<>"{}|\^`"#.contains(c))
        }
        _ => false,
    }
}

fn are_texts_once(list: &[Node]) -> bool {
    let mut seen = HashSet::new();
    list.iter().all(|one| one.text().is_some_and(|text| seen.insert(text)))
}

fn is_each_once(list: &[Node]) -> bool {
    let mut seen = HashSet::new();
    list.iter().all(|one| seen.insert(one.to_json()))
}

fn wanted(shape: Shape) -> &'static str {
    match shape {
        Shape::Schema => "it is no schema",
        Shape::Schemas => "it is no list of at least one schema",
        Shape::NamedSchemas | Shape::SchemasByPattern => "it is no object of schemas",
        Shape::Types => "it is no type: there are object, array, string, integer, number, boolean and null",
        Shape::Number => "it is no number",
        Shape::Positive => "it is no number above 0",
        Shape::Count => "it is no integer from 0 on",
        Shape::Flag => "it is neither true nor false",
        Shape::Text => "it is no text",
        Shape::Pattern => "it is no regular expression that every engine reads",
        Shape::Names => "it is no list of names, each once",
        Shape::NamesByName => "it is no object of lists of names, each once",
        Shape::Choices => "it is no list of at least one value, each once",
        Shape::Values => "it is no list",
        Shape::Reference => "it leads to no schema in this one",
        Shape::Anchor => "it is no name of an anchor",
        Shape::Id => "it is no URI without a fragment",
    }
}

/// The place of a complaint with one more step before it.
fn below(step: &str, why: &str) -> String {
    let step = crate::error::cut(step, crate::limits::NAME_SHOWN_CHARS);
    match why.starts_with(':') {
        true => format!("{}{why}", step.escape_debug()),
        false => format!("{}.{why}", step.escape_debug()),
    }
}
