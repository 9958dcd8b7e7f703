//! Rewriting of schemas into an equivalent or looser form that a vendor accepts.

use std::{collections::HashSet, mem};

use indexmap::IndexMap;
use serde_json::Value;

use super::{
    dialect::{SchemaDialect, SchemaRoot},
    plain::ExpectedSchemaNode,
};
use shelly_core::{
    json_schema::{JsonMap, JsonNode, NOT_AT_TOP},
    limits,
};

/// Rebuilds a schema.
pub fn rebuild(root: &JsonNode, dialect: SchemaDialect, of: SchemaRoot) -> JsonNode {
    let mut rebuild = SchemaRebuilder { root, dialect, following: Vec::new(), inlined: 0, depth: 0 };
    match of {
        SchemaRoot::Value => rebuild.schema(root),
        SchemaRoot::Object => JsonNode::Object(rebuild.top()),
    }
}

struct SchemaRebuilder<'a> {
    root: &'a JsonNode,
    dialect: SchemaDialect,
    /// The references that led to the current schema.
    following: Vec<&'a str>,
    /// The number of bytes written so far, checked before a reference is followed.
    inlined: usize,
    /// The number of schemas around the current one.
    depth: usize,
}

impl<'a> SchemaRebuilder<'a> {
    fn top(&mut self) -> JsonMap {
        let mut merged = self.object(self.root).unwrap_or_default();
        merged.shift_remove("type");
        let mut top = JsonMap::from_iter([("type".into(), "object".into())]);
        if merged.get("properties").and_then(JsonNode::map).is_none() {
            merged.shift_remove("properties");
            top.insert("properties".into(), JsonNode::default());
        }
        top.extend(merged);
        self.tidy_required(&mut top);
        top
    }

    /// Returns the object schema of a node with all of its combined schemas merged; `None` if it does not admit objects.
    fn object(&mut self, node: &'a JsonNode) -> Option<JsonMap> {
        let map = node.map()?;
        let is_object = |kind: &JsonNode| kind.text() == Some("object");
        if map.get("type").is_some_and(|kind| !is_object(kind) && !kind.list().iter().any(is_object)) {
            return None;
        }
        if self.depth == limits::SCHEMA_DEPTH {
            return Some(JsonMap::new());
        }
        self.depth += 1;
        let mut merged = JsonMap::new();
        for (keyword, value) in map.iter().filter(|(keyword, _)| !NOT_AT_TOP.contains(&keyword.as_str())) {
            merged.extend(self.keyword(keyword, value));
        }
        if let Some(target) = map.get("$ref").and_then(JsonNode::text)
            && let Some(found) = self.follow(target, Self::object)
        {
            add(&mut merged, found.unwrap_or_default());
        }
        for part in map.get("allOf").map(JsonNode::list).unwrap_or_default() {
            if let Some(part) = self.object(part) {
                add(&mut merged, part);
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            let ways = map.get(keyword).map(JsonNode::list).unwrap_or_default();
            let ways = ways.iter().filter_map(|way| self.object(way)).collect();
            add(&mut merged, any_of(ways));
        }
        self.tidy_required(&mut merged);
        self.depth -= 1;
        Some(merged)
    }

    /// Rebuilds a schema below the top level.
    fn schema(&mut self, node: &'a JsonNode) -> JsonNode {
        let map = match node {
            JsonNode::Object(map) => map,
            // A Boolean schema.
            JsonNode::Leaf(Value::Bool(_)) if self.dialect == SchemaDialect::Common => return node.clone(),
            _ => return JsonNode::default(),
        };
        if self.depth == limits::SCHEMA_DEPTH {
            return cut(node);
        }
        self.depth += 1;
        let mut schema = JsonMap::new();
        let mut target = None;
        for (keyword, value) in map {
            match (keyword.as_str(), value.text()) {
                ("$ref", Some(text)) if self.is_inlined(text) => target = Some(text),
                _ => schema.extend(self.keyword(keyword, value)),
            }
        }
        if let Some(target) = target {
            let found = self
                .follow(target, Self::schema)
                .unwrap_or_else(|| self.root.find(target).map(cut).unwrap_or_default());
            if let JsonNode::Object(found) = found {
                add(&mut schema, found);
            }
        }
        if self.dialect == SchemaDialect::Gemini {
            for part in map.get("allOf").map(JsonNode::list).unwrap_or_default() {
                if let JsonNode::Object(part) = self.schema(part) {
                    add(&mut schema, part);
                }
            }
            self.tidy_required(&mut schema);
        }
        self.depth -= 1;
        JsonNode::Object(schema)
    }

    /// Rebuilds the value of a keyword; `None` if the keyword is dropped.
    fn keyword(&mut self, keyword: &str, value: &'a JsonNode) -> Option<(String, JsonNode)> {
        self.inlined += keyword.len();
        if self.dialect == SchemaDialect::Gemini {
            return self.gemini_keyword(keyword, value);
        }
        let value = match (keyword, value) {
            (
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
                JsonNode::Object(map),
            ) => self.named(map),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", JsonNode::List(list)) => self.each(list),
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else",
                JsonNode::Object(_),
            ) => self.schema(value),
            _ => self.copy(value),
        };
        Some((keyword.into(), value))
    }

    fn gemini_keyword(&mut self, keyword: &str, value: &'a JsonNode) -> Option<(String, JsonNode)> {
        let (keyword, value) = match (keyword, value) {
            ("const", _) if ExpectedSchemaNode::Choice.takes(value) => ("enum", JsonNode::List(vec![self.copy(value)])),
            // The older keyword for the item schemas by position.
            ("items", JsonNode::List(list)) if !list.is_empty() => ("prefixItems", self.each(list)),
            _ => {
                let value = match (ExpectedSchemaNode::of_gemini(keyword)?, value) {
                    (ExpectedSchemaNode::Schema | ExpectedSchemaNode::SchemaOrBool, JsonNode::Object(_)) => {
                        self.schema(value)
                    }
                    (ExpectedSchemaNode::Named, JsonNode::Object(map)) => self.named(map),
                    (ExpectedSchemaNode::Each, JsonNode::List(list)) if !list.is_empty() => self.each(list),
                    (ExpectedSchemaNode::Choices, JsonNode::List(list)) => {
                        let choices = list.iter().filter(|choice| ExpectedSchemaNode::Choice.takes(choice));
                        let choices: Vec<_> = choices.map(|choice| self.copy(choice)).collect();
                        // An empty list of choices is refused.
                        (!choices.is_empty()).then_some(JsonNode::List(choices))?
                    }
                    (place, value) if place.takes(value) => self.copy(value),
                    _ => return None,
                };
                (keyword, value)
            }
        };
        Some((keyword.into(), value))
    }

    fn named(&mut self, map: &'a JsonMap) -> JsonNode {
        let named = map.iter().map(|(name, schema)| {
            self.inlined += name.len();
            (name.clone(), self.schema(schema))
        });
        JsonNode::Object(named.collect())
    }

    fn each(&mut self, list: &'a [JsonNode]) -> JsonNode {
        JsonNode::List(list.iter().map(|schema| self.schema(schema)).collect())
    }

    fn copy(&mut self, node: &JsonNode) -> JsonNode {
        self.inlined += node.bytes();
        node.clone()
    }

    /// Returns `true` if a reference must be replaced by its target. References to definitions stay valid when the top level
    /// is merged.
    fn is_inlined(&self, target: &str) -> bool {
        self.dialect == SchemaDialect::Gemini
            || !(target.starts_with("#/$defs/") || target.starts_with("#/definitions/"))
    }

    /// Applies `make` to the target of a reference; returns the default if there is no target. Returns `None` for a circular
    /// reference, and once the limits for references or written bytes are reached.
    fn follow<T: Default>(&mut self, target: &'a str, make: impl FnOnce(&mut Self, &'a JsonNode) -> T) -> Option<T> {
        self.inlined += target.len();
        let is_too_much = self.inlined > limits::SCHEMA_INLINED_BYTES || self.following.len() == limits::SCHEMA_REFS;
        if is_too_much || self.following.contains(&target) {
            return None;
        }
        let Some(found) = self.root.find(target) else { return Some(T::default()) };
        self.following.push(target);
        let made = make(self, found);
        self.following.pop();
        Some(made)
    }

    /// Removes duplicate names, and for Gemini names of properties that do not exist, which it refuses.
    fn tidy_required(&self, schema: &mut JsonMap) {
        let Some(JsonNode::List(names)) = schema.get_mut("required") else { return };
        let mut names = mem::take(names);
        let properties = schema.get("properties").and_then(JsonNode::map);
        let mut seen = HashSet::new();
        names.retain(|name| {
            let Some(name) = name.text() else { return false };
            let is_there =
                self.dialect == SchemaDialect::Common || properties.is_some_and(|map| map.contains_key(name));
            is_there && seen.insert(name.to_owned())
        });
        if names.is_empty() {
            schema.shift_remove("required");
        } else {
            schema.insert("required".into(), JsonNode::List(names));
        }
    }
}

/// Reduces a schema that cannot be written in full to its type.
fn cut(node: &JsonNode) -> JsonNode {
    let kind = node.map().and_then(|map| map.get("type")).filter(|kind| ExpectedSchemaNode::Type.takes(kind));
    JsonNode::Object(kind.map(|kind| ("type".to_owned(), kind.clone())).into_iter().collect())
}

/// Merges `from` into `to`, so that both apply. If a keyword cannot be merged, that of `to` wins.
fn add(to: &mut JsonMap, from: JsonMap) {
    for (keyword, value) in from {
        match (keyword.as_str(), to.get_mut(&keyword), value) {
            (_, None, value) => {
                to.insert(keyword, value);
            }
            ("properties", Some(JsonNode::Object(to)), JsonNode::Object(from)) => {
                for (name, schema) in from {
                    match (to.get_mut(&name), schema) {
                        (Some(JsonNode::Object(to)), JsonNode::Object(from)) => add(to, from),
                        (Some(_), _) => {}
                        (None, schema) => {
                            to.insert(name, schema);
                        }
                    }
                }
            }
            ("required", Some(JsonNode::List(to)), JsonNode::List(from)) => to.extend(from),
            _ => {}
        }
    }
}

/// Returns the properties that an object may have if it fits one of these schemas, and requires those that all of them
/// require.
fn any_of(ways: Vec<JsonMap>) -> JsonMap {
    let count = ways.len();
    let mut properties: IndexMap<String, Vec<JsonNode>> = IndexMap::new();
    let mut required: IndexMap<String, usize> = IndexMap::new();
    for mut way in ways {
        for name in way.get("required").map(JsonNode::list).unwrap_or_default() {
            *required.entry(name.text().unwrap_or_default().into()).or_default() += 1;
        }
        if let Some(JsonNode::Object(map)) = way.get_mut("properties").map(mem::take) {
            map.into_iter().for_each(|(name, schema)| properties.entry(name).or_default().push(schema));
        }
    }
    let property = |(name, schemas)| (name, one_of(schemas));
    let properties: JsonMap = properties.into_iter().map(property).collect();
    let required = required.into_iter().filter(|(_, ways)| *ways == count);
    let required: Vec<_> = required.map(|(name, _)| JsonNode::from(name.as_str())).collect();
    let mut object = JsonMap::new();
    if !properties.is_empty() {
        object.insert("properties".into(), JsonNode::Object(properties));
    }
    if !required.is_empty() {
        object.insert("required".into(), JsonNode::List(required));
    }
    object
}

fn one_of(schemas: Vec<JsonNode>) -> JsonNode {
    let mut seen = HashSet::new();
    let mut different: Vec<_> =
        schemas.into_iter().filter(|schema| seen.insert(serde_json::to_string(schema).unwrap_or_default())).collect();
    match different.len() {
        1 => different.remove(0),
        _ => JsonNode::Object(JsonMap::from_iter([("anyOf".into(), JsonNode::List(different))])),
    }
}
