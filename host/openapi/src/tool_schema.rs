//! Conversion of the schemas in a document to schemas of tools, which use only keywords that the host enforces.
//!
//! A tool's schema may admit more values than that of the document, never fewer: the server checks the request too. A
//! keyword that the host does not enforce is dropped, and so are keywords whose meaning it changes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{document::ApiDocument, shown_text::shown_text};
use shelly_core::{
    json_schema::{JsonMap, JsonNode},
    limits,
};

const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];

/// The description of a value in a document: its schema, if it has one, and a text about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescribedValue<'a> {
    pub schema: Option<&'a JsonNode>,
    pub description: &'a str,
    pub is_deprecated: bool,
}

/// Returns the schema of an object with these properties, each with its name and `true` if it is required. References are
/// replaced by what they refer to. Nested schemas are left open below the greatest depth at which the result is small
/// enough.
///
/// # Errors
///
/// A message that names a reference to another document, because nothing is known about the values there.
pub(crate) fn schema_of<'a>(
    document: &'a ApiDocument,
    properties: &[(String, DescribedValue<'a>, bool)],
) -> Result<JsonNode, String> {
    let read_only = ReadOnlySearch::in_properties(document, properties);
    let made = |depth| {
        let mut reader =
            SchemaReader { document, left: limits::OPENAPI_SCHEMA_NODES, open: Vec::new(), leads_out: None };
        let schema = reader.of_properties(properties, depth, &read_only);
        let is_small = reader.left > 0
            && schema.to_json().len() <= limits::OPENAPI_SCHEMA_BYTES
            && nesting(&schema) <= limits::TOOL_SCHEMA_DEPTH;
        reader.leads_out.map_or(Ok((schema, is_small)), Err)
    };
    for depth in [limits::OPENAPI_SCHEMA_DEPTH, 6, 4, 3, 2, 1] {
        if let (schema, true) = made(depth)? {
            return Ok(schema);
        }
    }
    made(0).map(|(schema, _)| schema)
}

/// Returns the number of lists and objects within each other.
fn nesting(node: &JsonNode) -> usize {
    match node {
        JsonNode::Leaf(_) => 0,
        JsonNode::List(list) => 1 + list.iter().map(nesting).max().unwrap_or_default(),
        JsonNode::Object(map) => 1 + map.values().map(nesting).max().unwrap_or_default(),
    }
}

struct SchemaReader<'a> {
    document: &'a ApiDocument,
    /// The number of schemas that may still be read.
    left: usize,
    /// The references that are being replaced.
    open: Vec<&'a str>,
    /// The first reference that leads to another document, in words.
    leads_out: Option<String>,
}

impl<'a> SchemaReader<'a> {
    fn of_properties(
        &mut self,
        properties: &[(String, DescribedValue<'a>, bool)],
        depth: usize,
        read_only: &BTreeSet<&str>,
    ) -> JsonNode {
        let (mut named, mut required) = (JsonMap::new(), Vec::new());
        for (name, value, is_required) in properties {
            let mut schema = value.schema.map_or_else(JsonMap::new, |schema| self.schema(schema, depth));
            if !value.description.trim().is_empty() {
                schema.insert("description".into(), described(value.description));
            }
            if value.is_deprecated {
                schema.insert("deprecated".into(), JsonNode::Leaf(true.into()));
            }
            if *is_required {
                required.push(name.as_str().into());
            }
            let mut schema = JsonNode::Object(schema);
            // Only within each argument: an argument itself may have the name of a read-only property.
            without_read_only(&mut schema, read_only);
            named.insert(name.clone(), schema);
        }
        let mut schema = JsonMap::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), JsonNode::Object(named));
        if !required.is_empty() {
            schema.insert("required".into(), JsonNode::List(required));
        }
        schema.insert("additionalProperties".into(), JsonNode::Leaf(false.into()));
        JsonNode::Object(schema)
    }

    /// Returns a schema with at most `depth` schemas within each other. An empty one admits every value.
    fn schema(&mut self, node: &'a JsonNode, depth: usize) -> JsonMap {
        let Some(map) = node.map().filter(|_| self.left > 0) else { return JsonMap::new() };
        self.left -= 1;
        let Some(target) = map.get("$ref").and_then(JsonNode::text) else { return self.object(map, depth) };
        let is_bounded = !self.open.contains(&target) && self.open.len() < limits::OPENAPI_REFERENCES;
        let found = self.document.target(target);
        if let Err(why) = &found
            && !target.starts_with('#')
        {
            self.leads_out.get_or_insert_with(|| why.clone());
        }
        // A reference that leads nowhere says nothing about the value.
        let mut schema = match found {
            Ok(found) if is_bounded => {
                self.open.push(target);
                let schema = self.schema(found, depth);
                self.open.pop();
                schema
            }
            _ => JsonMap::new(),
        };
        if let Some(text) = map.get("description").and_then(JsonNode::text) {
            schema.insert("description".into(), described(text));
        }
        schema
    }

    fn object(&mut self, map: &'a JsonMap, depth: usize) -> JsonMap {
        let mut schema = JsonMap::new();
        let is_true = |key: &str| matches!(map.get(key), Some(JsonNode::Leaf(Value::Bool(true))));
        for (keyword, value) in map {
            match (keyword.as_str(), value) {
                ("type", value) => {
                    schema.extend(types(value, is_true("nullable")).map(|types| ("type".into(), types)));
                }
                ("enum", JsonNode::List(values)) if !values.is_empty() && values.iter().all(is_leaf) => {
                    let null = JsonNode::Leaf(Value::Null);
                    let more = (is_true("nullable") && !values.contains(&null)).then_some(null);
                    let mut distinct: Vec<JsonNode> = Vec::new();
                    for value in values.iter().cloned().chain(more) {
                        if !distinct.contains(&value) {
                            distinct.push(value);
                        }
                    }
                    schema.insert("enum".into(), JsonNode::List(distinct));
                }
                ("const" | "default", value) if is_leaf(value) => drop(schema.insert(keyword.clone(), value.clone())),
                ("title" | "format", JsonNode::Leaf(Value::String(text))) => {
                    schema.insert(keyword.clone(), described(text));
                }
                ("description", JsonNode::Leaf(Value::String(text))) if !text.trim().is_empty() => {
                    schema.insert(keyword.clone(), described(text));
                }
                ("required", JsonNode::List(names)) => {
                    let mut seen = BTreeSet::new();
                    let names = names.iter().filter_map(JsonNode::text).filter(|name| seen.insert(*name));
                    schema.insert(keyword.clone(), JsonNode::List(names.map(JsonNode::from).collect()));
                }
                (
                    "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties",
                    JsonNode::Leaf(Value::Number(count)),
                ) if count.is_u64() => drop(schema.insert(keyword.clone(), value.clone())),
                ("minimum" | "maximum", JsonNode::Leaf(Value::Number(_))) => {
                    // In 3.0, `exclusiveMinimum: true` excludes the value of `minimum`.
                    let exclusive = if keyword == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                    let keyword = if is_true(exclusive) { exclusive } else { keyword.as_str() };
                    schema.insert(keyword.into(), value.clone());
                }
                ("exclusiveMinimum" | "exclusiveMaximum", JsonNode::Leaf(Value::Number(_))) => {
                    schema.insert(keyword.clone(), value.clone());
                }
                ("deprecated", JsonNode::Leaf(Value::Bool(_))) => drop(schema.insert(keyword.clone(), value.clone())),
                _ => {}
            }
        }
        if let Some(depth) = depth.checked_sub(1) {
            self.add_inner(&mut schema, map, depth);
        }
        let has_ways = schema.contains_key("allOf") || schema.contains_key("anyOf");
        if has_ways && is_true("nullable") && !schema.contains_key("type") {
            let null = JsonNode::Object([("type".to_owned(), "null".into())].into_iter().collect());
            let ways = JsonNode::List(vec![JsonNode::Object(schema), null]);
            schema = [("anyOf".to_owned(), ways)].into_iter().collect();
        }
        schema
    }

    /// Adds the schemas within a schema.
    fn add_inner(&mut self, schema: &mut JsonMap, map: &'a JsonMap, depth: usize) {
        if let Some(JsonNode::Object(properties)) = map.get("properties") {
            let named = properties.iter().map(|(name, one)| (name.clone(), JsonNode::Object(self.schema(one, depth))));
            let named = JsonNode::Object(named.collect());
            schema.insert("properties".into(), named);
        }
        // These keywords admit further properties, which the host does not know.
        let has_patterns = map.contains_key("patternProperties") || map.contains_key("$ref");
        match map.get("additionalProperties") {
            Some(JsonNode::Leaf(Value::Bool(false))) if !has_patterns => {
                schema.insert("additionalProperties".into(), JsonNode::Leaf(false.into()));
            }
            Some(others @ JsonNode::Object(_)) if !has_patterns => {
                let others = JsonNode::Object(self.schema(others, depth));
                schema.insert("additionalProperties".into(), others);
            }
            _ => {}
        }
        let positions = map.get("prefixItems").map_or(&[][..], JsonNode::list);
        match map.get("items") {
            _ if !positions.is_empty() => self.add_positions(schema, positions, map.get("items"), depth),
            Some(items @ JsonNode::Object(_)) => {
                let items = JsonNode::Object(self.schema(items, depth));
                schema.insert("items".into(), items);
            }
            _ => {}
        }
        let mut all_of = self.several(map, "allOf", depth);
        let any_of = self.several(map, "anyOf", depth);
        // `oneOf` becomes `anyOf`: a converted schema may admit more, so a valid value may fit several of them.
        let one_of = self.several(map, "oneOf", depth);
        for ways in [any_of, one_of].into_iter().filter(|ways| !ways.is_empty()) {
            if schema.contains_key("anyOf") {
                all_of.push(JsonNode::Object([("anyOf".to_owned(), JsonNode::List(ways))].into_iter().collect()));
            } else {
                schema.insert("anyOf".into(), JsonNode::List(ways));
            }
        }
        if !all_of.is_empty() {
            schema.insert("allOf".into(), JsonNode::List(all_of));
        }
    }

    /// Adds the schemas of items with a position. The host does not enforce positions, so each item may fit any of them, or
    /// that of the items after them.
    fn add_positions(
        &mut self,
        schema: &mut JsonMap,
        positions: &'a [JsonNode],
        after: Option<&'a JsonNode>,
        depth: usize,
    ) {
        let count = positions.len() as u64;
        let most = |schema: &JsonMap| match schema.get("maxItems") {
            Some(JsonNode::Leaf(Value::Number(most))) => most.as_u64(),
            _ => None,
        };
        if after == Some(&JsonNode::Leaf(false.into())) && most(schema).is_none_or(|most| most > count) {
            schema.insert("maxItems".into(), JsonNode::Leaf(count.into()));
        }
        let mut ways: Vec<JsonNode> = Vec::new();
        let has_more = most(schema).is_none_or(|most| most > count);
        // Without a schema of their own, items after the last position are anything.
        let rest = match after {
            Some(rest @ JsonNode::Object(_)) if has_more => Some(rest),
            _ if has_more => return,
            _ => None,
        };
        for one in positions.iter().chain(rest) {
            let way = JsonNode::Object(self.schema(one, depth));
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        // A schema that admits everything makes the others meaningless.
        if !ways.contains(&JsonNode::default()) {
            let any_of = JsonNode::Object([("anyOf".to_owned(), JsonNode::List(ways))].into_iter().collect());
            schema.insert("items".into(), any_of);
        }
    }

    /// Returns the schemas of a list of them. `false` in the list becomes a schema that admits everything.
    fn several(&mut self, map: &'a JsonMap, keyword: &str, depth: usize) -> Vec<JsonNode> {
        let list = map.get(keyword).map_or(&[][..], JsonNode::list);
        list.iter().map(|one| JsonNode::Object(self.schema(one, depth))).collect()
    }
}

/// A search for properties that only responses have.
struct ReadOnlySearch<'a> {
    document: &'a ApiDocument,
    left: usize,
    seen: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
}

impl<'a> ReadOnlySearch<'a> {
    /// Returns the names of properties that only responses have, wherever they stand.
    fn in_properties(
        document: &'a ApiDocument,
        properties: &[(String, DescribedValue<'a>, bool)],
    ) -> BTreeSet<&'a str> {
        let (left, seen, names) = (limits::OPENAPI_SCHEMA_NODES, BTreeSet::new(), BTreeSet::new());
        let mut search = Self { document, left, seen, names };
        let schemas = properties.iter().filter_map(|(_, value, _)| value.schema);
        schemas.for_each(|schema| search.visit(schema, limits::OPENAPI_SCHEMA_DEPTH));
        search.names
    }

    fn visit(&mut self, node: &'a JsonNode, depth: usize) {
        let Some(depth) = depth.checked_sub(1).filter(|_| self.left > 0) else { return };
        self.left -= 1;
        match node {
            JsonNode::Leaf(_) => {}
            JsonNode::List(list) => list.iter().for_each(|one| self.visit(one, depth + 1)),
            JsonNode::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(JsonNode::text)
                    && self.seen.insert(target)
                    && let Ok(found) = self.document.target(target)
                {
                    self.visit(found, depth);
                }
                let properties = map.get("properties").and_then(JsonNode::map).into_iter().flatten();
                for (name, property) in properties {
                    let is_read_only = |map: &JsonMap| map.get("readOnly") == Some(&JsonNode::Leaf(true.into()));
                    if self.document.object(property, name).is_ok_and(is_read_only) {
                        self.names.insert(name);
                    }
                    self.visit(property, depth);
                }
                for keyword in ["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf"] {
                    map.get(keyword).into_iter().for_each(|inner| self.visit(inner, depth));
                }
            }
        }
    }
}

/// Removes these names from all lists of required properties: a request does not have them.
fn without_read_only(schema: &mut JsonNode, names: &BTreeSet<&str>) {
    let JsonNode::Object(map) = schema else { return };
    for (keyword, value) in map.iter_mut() {
        match (keyword.as_str(), value) {
            ("required", JsonNode::List(required)) => {
                required.retain(|name| name.text().is_none_or(|name| !names.contains(name)));
            }
            ("properties", JsonNode::Object(named)) => {
                named.values_mut().for_each(|one| without_read_only(one, names));
            }
            ("allOf" | "anyOf", JsonNode::List(list)) => list.iter_mut().for_each(|one| without_read_only(one, names)),
            ("items" | "additionalProperties", value) => without_read_only(value, names),
            _ => {}
        }
    }
}

/// Returns the value of `type`; `None` if it has a word that is no type, so that any value is admitted.
fn types(value: &JsonNode, is_nullable: bool) -> Option<JsonNode> {
    let words = match value {
        JsonNode::List(list) => list.iter().map(JsonNode::text).collect::<Option<Vec<_>>>()?,
        one => vec![one.text()?],
    };
    let mut distinct: Vec<&str> = Vec::new();
    for word in words.into_iter().chain(is_nullable.then_some("null")) {
        if !TYPES.contains(&word) {
            return None;
        }
        if !distinct.contains(&word) {
            distinct.push(word);
        }
    }
    match &distinct[..] {
        [] => None,
        [one] => Some((*one).into()),
        several => Some(JsonNode::List(several.iter().map(|word| (*word).into()).collect())),
    }
}

fn is_leaf(node: &JsonNode) -> bool {
    matches!(node, JsonNode::Leaf(_))
}

fn described(text: &str) -> JsonNode {
    shown_text(text, limits::OPENAPI_PROPERTY_CHARS).as_str().into()
}

#[cfg(test)]
mod tests;
