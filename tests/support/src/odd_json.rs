//! JSON that looks like a schema and need not be one.

use proptest::prelude::*;
use serde_json::Value;

const WORDS: [&str; 34] = [
    "type",
    "items",
    "properties",
    "required",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "enum",
    "const",
    "$ref",
    "$defs",
    "definitions",
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "multipleOf",
    "pattern",
    "patternProperties",
    "additionalProperties",
    "additionalItems",
    "prefixItems",
    "dependencies",
    "dependentRequired",
    "$id",
    "$anchor",
    "$schema",
    "name",
    "description",
    "default",
    "examples",
    "uniqueItems",
    "a",
    "$filter",
];
const TEXTS: [&str; 16] = [
    "object",
    "array",
    "string",
    "float",
    "any",
    "true",
    "#",
    "#/properties/a",
    "#/$defs/a",
    "(",
    "^a$",
    "",
    "a",
    "null",
    "-1",
    "1e3",
];

/// JSON made of words with a meaning in schemas, at any position.
pub fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(&TEXTS[..]).prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(&WORDS[..]), inner), 0..6)
                .prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}
