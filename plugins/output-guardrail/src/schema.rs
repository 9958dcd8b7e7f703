//! The part of JSON Schema (2020-12) that schemas of answers use. Complete implementations need a source of randomness,
//! which a component does not have.
//!
//! Supported: `type`, `enum`, `const`; `properties`, `required`, `additionalProperties`; `items`, `minItems`, `maxItems`,
//! `uniqueItems`; `minLength`, `maxLength`, `pattern`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`;
//! `allOf`, `anyOf`, `oneOf`, `not`; `$ref` to `#` and to entries of `$defs` or `definitions`. Annotations are ignored,
//! including `format`. Any other keyword is refused: a rule that is not checked is worse than none.

use std::collections::{BTreeMap, BTreeSet};

use guest_kit::Pattern;
use serde_json::{Map, Value};
use shelly_plugin::text;

/// The maximum depth of nested schemas, with references followed.
const MAX_DEPTH: usize = 32;

/// The maximum number of problems that are reported: more do not help to correct the answer.
const MAX_PROBLEMS: usize = 5;

/// The maximum number of characters of a value that are shown.
const MAX_SHOWN: usize = 80;

const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "integer", "string"];

const ANNOTATIONS: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

/// A schema that was checked.
pub(crate) struct Schema {
    root: Value,
    patterns: BTreeMap<String, Pattern>,
}

impl Schema {
    /// Checks a schema. The error begins with the position in the schema.
    pub(crate) fn new(root: Value) -> Result<Schema, String> {
        let mut schema = Schema { root: Value::Null, patterns: BTreeMap::new() };
        schema.check(&root, &root, "", MAX_DEPTH)?;
        schema.root = root;
        Ok(schema)
    }

    /// Returns the problems of a value, each with its position as a JSON pointer.
    pub(crate) fn problems(&self, value: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        self.look(&self.root, value, "", MAX_DEPTH, &mut problems);
        problems
    }

    fn check(&mut self, root: &Value, schema: &Value, at: &str, depth: usize) -> Result<(), String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("{at}: more than {MAX_DEPTH} nested schemas"));
        };
        let keys = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(keys) => keys,
            _ => return Err(format!("{at}: a schema must be an object, `true` or `false`")),
        };
        for (key, value) in keys {
            let at = format!("{at}/{key}");
            let must =
                |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{at}: the value must be {what}")) };
            match key.as_str() {
                "type" => {
                    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                    let holds = is_type(value) || value.as_array().is_some_and(|all| all.iter().all(is_type));
                    must(holds, &format!("one of {}, or a list of some", TYPES.join(", ")))?;
                }
                "enum" => must(value.as_array().is_some_and(|all| !all.is_empty()), "a list of values")?,
                "const" => {}
                "required" => {
                    must(value.as_array().is_some_and(|all| all.iter().all(Value::is_string)), "a list of names")?;
                }
                "minItems" | "maxItems" | "minLength" | "maxLength" => must(value.is_u64(), "a count")?,
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => must(value.is_number(), "a number")?,
                "uniqueItems" => must(value.is_boolean(), "`true` or `false`")?,
                "pattern" => {
                    let text = value.as_str().unwrap_or_default();
                    let pattern = Pattern::new(text).map_err(|why| format!("{at}: {why}"))?;
                    self.patterns.insert(text.to_owned(), pattern);
                }
                "properties" | "$defs" | "definitions" => {
                    let Value::Object(schemas) = value else { return must(false, "an object of schemas") };
                    for (name, schema) in schemas {
                        self.check(root, schema, &format!("{at}/{name}"), depth)?;
                    }
                }
                "items" | "additionalProperties" | "not" => self.check(root, value, &at, depth)?,
                "allOf" | "anyOf" | "oneOf" => {
                    let schemas = value.as_array().filter(|schemas| !schemas.is_empty());
                    let Some(schemas) = schemas else { return must(false, "a list of schemas") };
                    for (place, schema) in schemas.iter().enumerate() {
                        self.check(root, schema, &format!("{at}/{place}"), depth)?;
                    }
                }
                "$ref" => {
                    let found = value.as_str().and_then(|reference| target(root, reference)).is_some();
                    must(found, "`#`, or `#/$defs/` and a defined name")?;
                }
                key if ANNOTATIONS.contains(&key) => {}
                _ => return Err(format!("{at}: unsupported key; leave it out")),
            }
        }
        Ok(())
    }

    fn fits(&self, schema: &Value, value: &Value, depth: usize) -> bool {
        let mut problems = Vec::new();
        self.look(schema, value, "", depth, &mut problems);
        problems.is_empty()
    }

    fn look(&self, schema: &Value, value: &Value, at: &str, depth: usize, problems: &mut Vec<String>) {
        if problems.len() >= MAX_PROBLEMS {
            return;
        }
        let here = if at.is_empty() { "the value".to_owned() } else { format!("`{}`", text::short(at, MAX_SHOWN)) };
        let Some(depth) = depth.checked_sub(1) else {
            return problems.push(format!("{here} is nested too deep"));
        };
        let keys = match schema {
            Value::Object(keys) => keys,
            Value::Bool(false) => return problems.push(format!("{here} must not be there")),
            _ => return,
        };
        for (key, wanted) in keys {
            let all = || wanted.as_array().into_iter().flatten();
            let fitting = || all().filter(|schema| self.fits(schema, value, depth)).count();
            let problem = match key.as_str() {
                "type" => {
                    (!has_type(value, wanted)).then(|| format!("must be of type {wanted}, but is {}", shown(value)))
                }
                "enum" => (!all().any(|one| equal(one, value)))
                    .then(|| format!("must be one of {}, but is {}", shown(wanted), shown(value))),
                "const" => {
                    (!equal(wanted, value)).then(|| format!("must be {}, but is {}", shown(wanted), shown(value)))
                }
                "allOf" => {
                    all().for_each(|schema| self.look(schema, value, at, depth, problems));
                    None
                }
                "anyOf" => (fitting() == 0).then(|| "matches none of the allowed schemas".to_owned()),
                "oneOf" => match fitting() {
                    1 => None,
                    count => Some(format!("must match exactly one of the allowed schemas, but matches {count}")),
                },
                "not" => self.fits(wanted, value, depth).then(|| "matches a forbidden schema".to_owned()),
                "$ref" => {
                    if let Some(schema) = wanted.as_str().and_then(|reference| target(&self.root, reference)) {
                        self.look(schema, value, at, depth, problems);
                    }
                    None
                }
                key => match value {
                    Value::Object(fields) => self.look_into(key, wanted, keys, fields, at, depth, problems),
                    Value::Array(items) => {
                        if key == "items" {
                            for (place, item) in items.iter().enumerate() {
                                self.look(wanted, item, &format!("{at}/{place}"), depth, problems);
                            }
                        }
                        about_list(key, wanted, items)
                    }
                    Value::String(text) => self.about_text(key, wanted, text),
                    Value::Number(_) => about_number(key, wanted, value),
                    Value::Null | Value::Bool(_) => None,
                },
            };
            if problems.len() < MAX_PROBLEMS {
                problems.extend(problem.map(|problem| format!("{here} {problem}")));
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one step of the walk over a schema, apart for its length")]
    fn look_into(
        &self,
        key: &str,
        wanted: &Value,
        keys: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        depth: usize,
        problems: &mut Vec<String>,
    ) -> Option<String> {
        let known = keys.get("properties").and_then(Value::as_object);
        match key {
            "required" => {
                let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing: Vec<_> =
                    names.filter(|name| !fields.contains_key(*name)).map(|name| format!("`{name}`")).collect();
                (!missing.is_empty()).then(|| format!("lacks {}", missing.join(", ")))
            }
            "properties" => {
                for (name, schema) in known.into_iter().flatten() {
                    if let Some(value) = fields.get(name) {
                        self.look(schema, value, &format!("{at}/{name}"), depth, problems);
                    }
                }
                None
            }
            "additionalProperties" => {
                for (name, value) in
                    fields.iter().filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)))
                {
                    self.look(wanted, value, &format!("{at}/{name}"), depth, problems);
                }
                None
            }
            _ => None,
        }
    }

    fn about_text(&self, key: &str, wanted: &Value, text: &str) -> Option<String> {
        let length = || text.chars().count() as u64;
        let bound = wanted.as_u64().unwrap_or(0);
        match key {
            "minLength" if length() < bound => Some(format!("has {} characters, the minimum is {bound}", length())),
            "maxLength" if length() > bound => Some(format!("has {} characters, the maximum is {bound}", length())),
            "pattern" => {
                let pattern = self.patterns.get(wanted.as_str()?)?;
                (!pattern.matches(text)).then(|| format!("must match `{}`", pattern.as_str()))
            }
            _ => None,
        }
    }
}

fn about_list(key: &str, wanted: &Value, items: &[Value]) -> Option<String> {
    let (count, bound) = (items.len() as u64, wanted.as_u64().unwrap_or(0));
    match key {
        "minItems" if count < bound => Some(format!("has {count} items, the minimum is {bound}")),
        "maxItems" if count > bound => Some(format!("has {count} items, the maximum is {bound}")),
        "uniqueItems" if *wanted == Value::Bool(true) => {
            // The keys of a `Value` are sorted, so equal objects have equal texts.
            let different: BTreeSet<String> = items.iter().map(Value::to_string).collect();
            (different.len() < items.len()).then(|| "has a duplicate item".to_owned())
        }
        _ => None,
    }
}

fn about_number(key: &str, wanted: &Value, value: &Value) -> Option<String> {
    let (number, bound) = (value.as_f64()?, wanted.as_f64()?);
    let (holds, what) = match key {
        "minimum" => (number >= bound, "at least"),
        "maximum" => (number <= bound, "at most"),
        "exclusiveMinimum" => (number > bound, "more than"),
        "exclusiveMaximum" => (number < bound, "less than"),
        _ => return None,
    };
    (!holds).then(|| format!("must be {what} {wanted}, but is {value}"))
}

/// Returns the schema that a reference points to.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    let is_known = ["", "/$defs/", "/definitions/"].iter().any(|start| match *start {
        "" => pointer.is_empty(),
        start => pointer.strip_prefix(start).is_some_and(|name| !name.contains('/')),
    });
    root.pointer(pointer).filter(|_| is_known)
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |name: &Value| match (name.as_str().unwrap_or_default(), value) {
        ("null", Value::Null) | ("boolean", Value::Bool(_)) | ("object", Value::Object(_)) => true,
        ("array", Value::Array(_)) | ("string", Value::String(_)) | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    };
    wanted.as_array().map_or_else(|| is(wanted), |all| all.iter().any(is))
}

/// Compares two values; 1 and 1.0 are equal.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (one, other) => one == other,
    }
}

fn shown(value: &Value) -> String {
    text::short(&value.to_string(), MAX_SHOWN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_schema_reports_problems_by_path() {
        let person = json!({
            "type": "object",
            "properties": { "name": { "type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$" } },
            "required": ["name"],
            "additionalProperties": false,
        });
        let list = json!({ "type": "array", "items": { "type": "integer" }, "minItems": 1, "maxItems": 2, "uniqueItems": true });
        let number = json!({ "minimum": 1, "exclusiveMaximum": 3 });
        let shape = json!({ "oneOf": [{ "type": "integer" }, { "minimum": 5 }], "not": { "const": 7 } });
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": { "node": { "properties": { "next": { "$ref": "#/$defs/node" } }, "required": ["id"] } },
        });
        for (schema, value, expected) in [
            (&person, json!({ "name": "ann" }), ""),
            (&person, json!([]), "the value must be of type \"object\", but is []"),
            (&person, json!({}), "the value lacks `name`"),
            (&person, json!({ "name": "ann", "age": 1 }), "`/age` must not be there"),
            (&person, json!({ "name": "a" }), "`/name` has 1 characters, the minimum is 2"),
            (
                &person,
                json!({ "name": "ABCDEF" }),
                "`/name` has 6 characters, the maximum is 5|`/name` must match `^[a-z]+$`",
            ),
            (&list, json!([1, 2.0]), ""),
            (&list, json!([]), "the value has 0 items, the minimum is 1"),
            (&list, json!([1, 1, 1]), "the value has 3 items, the maximum is 2|the value has a duplicate item"),
            (&list, json!([1.5]), "`/0` must be of type \"integer\", but is 1.5"),
            (&number, json!(1), ""),
            (&number, json!(0), "the value must be at least 1, but is 0"),
            (&number, json!(3.0), "the value must be less than 3, but is 3.0"),
            (&number, json!("text"), ""),
            (&shape, json!(1), ""),
            (&shape, json!(5.5), ""),
            (&shape, json!(6), "the value must match exactly one of the allowed schemas, but matches 2"),
            (&shape, json!(1.5), "the value must match exactly one of the allowed schemas, but matches 0"),
            (&tree, json!({ "id": 1, "next": { "id": 2 } }), ""),
            (&tree, json!({ "id": 1, "next": {} }), "`/next` lacks `id`"),
            (&json!({ "enum": ["a", 1] }), json!(1.0), ""),
            (&json!({ "enum": ["a"] }), json!("b"), "the value must be one of [\"a\"], but is \"b\""),
            (&json!({ "const": [1, { "a": 2.0 }] }), json!([1.0, { "a": 2 }]), ""),
            (
                &json!({ "anyOf": [{ "type": "null" }, false] }),
                json!(1),
                "the value matches none of the allowed schemas",
            ),
            (
                &json!({ "allOf": [{ "type": ["null", "string"] }, { "maxLength": 1 }] }),
                json!("ab"),
                "the value has 2 characters, the maximum is 1",
            ),
            (
                &json!({ "additionalProperties": { "type": "string" } }),
                json!({ "a": 1 }),
                "`/a` must be of type \"string\", but is 1",
            ),
            (&json!(true), json!(1), ""),
            (&json!(false), json!(1), "the value must not be there"),
        ] {
            let problems = Schema::new(schema.clone()).unwrap_or_else(|error| panic!("{error}")).problems(&value);
            assert_eq!(problems.join("|"), expected, "{schema} {value}");
        }
    }

    #[test]
    fn json_schema_depth_and_problem_count_are_bounded() {
        let round = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } });
        assert_eq!(Schema::new(round).unwrap().problems(&json!(1)), ["the value is nested too deep"]);
        let many = Schema::new(json!({ "items": { "type": "string" } })).unwrap();
        assert_eq!(many.problems(&json!([1, 2, 3, 4, 5, 6, 7, 8])).len(), MAX_PROBLEMS);
        let deep = (0..MAX_DEPTH).fold(json!(true), |inner, _| json!({ "items": inner }));
        assert!(Schema::new(deep).err().unwrap().contains("more than 32 nested schemas"));
    }

    #[test]
    fn invalid_json_schema_is_refused_with_its_path() {
        for (schema, says) in [
            (json!(1), ": a schema must be an object"),
            (json!({ "type": "objekt" }), "/type: the value must be one of null"),
            (json!({ "enum": [] }), "/enum: the value must be a list"),
            (json!({ "required": "a" }), "/required: the value must be a list of names"),
            (json!({ "minItems": -1 }), "/minItems: the value must be a count"),
            (json!({ "minimum": "1" }), "/minimum: the value must be a number"),
            (json!({ "uniqueItems": 1 }), "/uniqueItems: the value must be `true`"),
            (json!({ "properties": { "a": { "pattern": "(" } } }), "/properties/a/pattern: invalid regular"),
            (json!({ "properties": [] }), "/properties: the value must be an object"),
            (json!({ "anyOf": {} }), "/anyOf: the value must be a list of schemas"),
            (json!({ "oneOf": [{ "type": 1 }] }), "/oneOf/0/type: the value must be"),
            (json!({ "$ref": "https://x.test" }), "/$ref: the value must be `#`"),
            (json!({ "$ref": "#/$defs/b", "$defs": { "a": true } }), "/$ref: the value must be `#`"),
            (json!({ "items": { "patternProperties": {} } }), "/items/patternProperties: unsupported key"),
        ] {
            let error = Schema::new(schema).err().unwrap();
            assert!(error.starts_with(says), "{error}");
        }
    }
}
