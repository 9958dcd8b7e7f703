//! References in the schema of an answer, which schemas of other libraries are full of.

use serde_json::{Map, Value};

use crate::{
    error::{cut, legible},
    limits,
};

/// Keywords that define schemas for references, or describe the document. They constrain no value by themselves.
const DEFINITIONS: [&str; 6] = ["$defs", "definitions", "$schema", "$id", "$anchor", "$vocabulary"];

/// Replaces each `$ref` to a schema of the same document by that schema.
///
/// # Errors
///
/// The reason for which a reference cannot be replaced: it leads elsewhere, or into itself.
pub(super) fn without_references(schema: &Value) -> Result<Value, String> {
    let mut resolver = ReferenceResolver { root: schema, following: Vec::new(), bytes: 0 };
    resolver.schema(schema, limits::SCHEMA_DEPTH)
}

struct ReferenceResolver<'a> {
    root: &'a Value,
    /// The references that lead to the present schema.
    following: Vec<&'a str>,
    /// The bytes of all names so far: a few references can name each other very often.
    bytes: usize,
}

impl<'a> ReferenceResolver<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, String> {
        let Value::Object(words) = schema else { return Ok(schema.clone()) };
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| format!("it has more than {} schemas within each other", limits::SCHEMA_DEPTH))?;
        let mut resolved = Map::new();
        let target = words.get("$ref").and_then(Value::as_str);
        for (word, value) in words.iter().filter(|(word, _)| !DEFINITIONS.contains(&word.as_str())) {
            self.bytes += word.len();
            let value = match (word.as_str(), value) {
                ("$ref", Value::String(_)) => continue,
                ("properties", Value::Object(named)) => {
                    let named = named.iter().map(|(name, schema)| {
                        self.bytes += name.len();
                        Ok((name.clone(), self.schema(schema, depth)?))
                    });
                    Value::Object(named.collect::<Result<_, String>>()?)
                }
                ("items" | "additionalProperties", value) => self.schema(value, depth)?,
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    Value::Array(list.iter().map(|one| self.schema(one, depth)).collect::<Result<_, _>>()?)
                }
                (_, value) => value.clone(),
            };
            resolved.insert(word.clone(), value);
        }
        if let Some(target) = target {
            // `allOf` keeps the keywords beside the reference.
            let target = self.follow(target, depth)?;
            match resolved.get_mut("allOf") {
                Some(Value::Array(all)) => all.insert(0, target),
                _ => drop(resolved.insert("allOf".into(), Value::Array(vec![target]))),
            }
        }
        Ok(Value::Object(resolved))
    }

    fn follow(&mut self, target: &'a str, depth: usize) -> Result<Value, String> {
        let shown = || cut(&legible(target), limits::NAME_SHOWN_CHARS);
        if self.following.contains(&target) {
            return Err(format!("`$ref` {} refers to itself; write the schema without recursion", shown()));
        }
        if self.following.len() == limits::SCHEMA_REFS || self.bytes > limits::SCHEMA_INLINED_BYTES {
            return Err(format!("too many references at `$ref` {}", shown()));
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let found = found.ok_or_else(|| format!("`$ref` {} refers to nothing in this schema", shown()))?;
        self.following.push(target);
        let resolved = self.schema(found, depth);
        self.following.pop();
        resolved
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_replaced_by_their_schemas() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {"City": {"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}}}, "Place": {"type": "number"}},
            "type": "object",
            "properties": {
                "from": {"$ref": "#/$defs/City", "description": "where it begins"},
                "via": {"type": "array", "items": {"$ref": "#/$defs/City"}},
                "kind": {"enum": [{"$ref": "#/$defs/City"}]},
            },
        });
        let city = json!({"type": "object", "properties": {"at": {"allOf": [{"type": "number"}]}}});
        let expected = json!({
            "type": "object",
            "properties": {
                "from": {"allOf": [city], "description": "where it begins"},
                "via": {"type": "array", "items": {"allOf": [city]}},
                "kind": {"enum": [{"$ref": "#/$defs/City"}]},
            },
        });
        assert_eq!(without_references(&schema), Ok(expected));
        for schema in [
            json!({"$ref": "#/$defs/a", "allOf": [{"minimum": 1}], "$defs": {"a": {"type": "number"}}}),
            json!({"allOf": [{"minimum": 1}], "$ref": "#/$defs/a", "$defs": {"a": {"type": "number"}}}),
        ] {
            let resolved = without_references(&schema);
            assert_eq!(resolved, Ok(json!({"allOf": [{"type": "number"}, {"minimum": 1}]})), "{schema}");
        }
    }

    #[test]
    fn endless_and_missing_references_are_refused() {
        let wide = (0..12).map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"properties": {"a": next, "b": next, "c": next, "d": next}}))
        });
        let wide: Map<_, _> = wide.chain([("d12".to_owned(), json!({"type": "null"}))]).collect();
        let chain =
            (0..=limits::SCHEMA_REFS).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)})));
        let chain: Map<_, _> = chain.collect();
        let deep = (0..=limits::SCHEMA_DEPTH).fold(json!({}), |inner, _| json!({"items": inner}));
        for (schema, why) in [
            (json!({"items": {"$ref": "#"}}), "refers to itself"),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}), "refers to itself"),
            (json!({"$ref": "#/$defs/a"}), "`$ref` #/$defs/a refers to nothing"),
            (json!({"$ref": "https://example.org/a.json"}), "refers to nothing in this schema"),
            (json!({"$ref": "#/$defs/d0", "$defs": wide}), "too many references"),
            (json!({"$ref": "#/$defs/d0", "$defs": chain}), "too many references"),
            (deep, "schemas within each other"),
        ] {
            let refused = without_references(&schema).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
