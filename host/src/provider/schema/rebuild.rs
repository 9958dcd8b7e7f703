//! Schemas said in another way, so that a vendor takes them.

use std::{collections::HashSet, mem};

use indexmap::IndexMap;
use serde_json::Value;

use super::{
    SchemaDialect, SchemaRoot,
    plain::{ExpectedSchemaNode, NOT_AT_TOP},
};
use crate::{
    json_schema::{JsonMap, JsonNode},
    limits,
};

/// The schema anew.
pub fn rebuild(root: &JsonNode, taste: SchemaDialect, of: SchemaRoot) -> JsonNode {
    let mut rebuild = SchemaRebuilder { root, taste, following: Vec::new(), inlined: 0, depth: 0 };
    match of {
        SchemaRoot::Value => rebuild.schema(root),
        SchemaRoot::Object => JsonNode::Object(rebuild.top()),
    }
}

struct SchemaRebuilder<'a> {
    root: &'a JsonNode,
    taste: SchemaDialect,
    /// The references that have led here.
    following: Vec<&'a str>,
    /// Bytes written so far, if references were followed.
    inlined: usize,
    /// Schemas around this one.
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

    /// What objects it takes, with all that it combines in one; none if it takes no object.
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

    /// A schema inside the one at the top.
    fn schema(&mut self, node: &'a JsonNode) -> JsonNode {
        let map = match node {
            JsonNode::Object(map) => map,
            // `true` or `false`.
            JsonNode::Leaf(Value::Bool(_)) if self.taste == SchemaDialect::Common => return node.clone(),
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
        if self.taste == SchemaDialect::Gemini {
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

    /// What becomes of a keyword; none if it is left out.
    fn keyword(&mut self, keyword: &str, value: &'a JsonNode) -> Option<(String, JsonNode)> {
        self.inlined += keyword.len();
        if self.taste == SchemaDialect::Gemini {
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
            // The older way to say what each place of a list holds.
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
                        // Nothing to choose from is refused.
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

    /// Whether a reference must not stay one. Those to definitions still lead there when the top is merged.
    fn is_inlined(&self, target: &str) -> bool {
        self.taste == SchemaDialect::Gemini || !(target.starts_with("#/$defs/") || target.starts_with("#/definitions/"))
    }

    /// Makes something of what a reference leads to; of nothing if it leads nowhere. None if it leads back to where it
    /// came from, or too much has been made of references already.
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

    /// Each name once; Gemini refuses those of properties that are not there.
    fn tidy_required(&self, schema: &mut JsonMap) {
        let Some(JsonNode::List(names)) = schema.get_mut("required") else { return };
        let mut names = mem::take(names);
        let properties = schema.get("properties").and_then(JsonNode::map);
        let mut seen = HashSet::new();
        names.retain(|name| {
            let Some(name) = name.text() else { return false };
            let is_there = self.taste == SchemaDialect::Common || properties.is_some_and(|map| map.contains_key(name));
            is_there && seen.insert(name.to_owned())
        });
        if names.is_empty() {
            schema.shift_remove("required");
        } else {
            schema.insert("required".into(), JsonNode::List(names));
        }
    }
}

/// What is left of a schema that cannot be told in full: of which type it is.
fn cut(node: &JsonNode) -> JsonNode {
    let kind = node.map().and_then(|map| map.get("type")).filter(|kind| ExpectedSchemaNode::Type.takes(kind));
    JsonNode::Object(kind.map(|kind| ("type".to_owned(), kind.clone())).into_iter().collect())
}

/// Makes of two schemas one that wants what both want; where that is no schema, what the first wants.
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

/// The properties that an object may have if it fits one of these, and those that it has in any case.
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
