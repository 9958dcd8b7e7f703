use proptest::prelude::*;
use serde_json::{Value, json};

use shelly_test_support::odd_json;

use super::*;
use crate::chat::PropertyNames;

fn node(json: &Value) -> JsonNode {
    serde_json::from_value(json.clone()).unwrap()
}

fn value(node: &JsonNode) -> Value {
    serde_json::to_value(node).unwrap()
}

#[test]
fn nonstandard_schemas_are_converted_to_2020_12() {
    for (written, brought) in [
        // Type names of other languages.
        (json!({"type": "float"}), json!({"type": "number"})),
        (json!({"type": "STRING"}), json!({"type": "string"})),
        (json!({"type": "int64"}), json!({"type": "integer"})),
        (json!({"type": "any", "title": "T"}), json!({"title": "T"})),
        (json!({"type": "wibble"}), json!({})),
        (json!({"type": ["str", "NoneType", "string"]}), json!({"type": ["string", "null"]})),
        (json!({"type": ["string", "any"]}), json!({})),
        (json!({"type": "string | null"}), json!({"type": ["string", "null"]})),
        (json!({"type": []}), json!({})),
        (json!({"type": 7}), json!({})),
        (json!({"type": "dict"}), json!({"type": "object"})),
        // Draft 3.
        (json!({"type": [{"type": "int"}, "null"]}), json!({"anyOf": [{"type": "integer"}, {"type": "null"}]})),
        (
            json!({"properties": {"a": {"type": "string", "required": true}, "b": {"required": false}}}),
            json!({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}),
        ),
        (
            json!({"properties": {"a": {"required": true}, "b": {}}, "required": ["b"]}),
            json!({"properties": {"a": {}, "b": {}}, "required": ["b", "a"]}),
        ),
        (json!({"divisibleBy": 2}), json!({"multipleOf": 2})),
        // Draft 4.
        (json!({"minimum": 3, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 3})),
        (json!({"maximum": 3, "exclusiveMaximum": false}), json!({"maximum": 3})),
        (json!({"exclusiveMaximum": true}), json!({})),
        (
            json!({"items": [{"type": "int"}, {}], "additionalItems": false}),
            json!({"prefixItems": [{"type": "integer"}, {}], "items": false}),
        ),
        (json!({"items": []}), json!({})),
        (json!({"items": {}, "additionalItems": {}}), json!({"items": {}})),
        (
            json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
        ),
        (json!({"$id": "#here", "$ref": "#here"}), json!({"$anchor": "here", "$ref": "#here"})),
        // Other dialects are no longer named; 2020-12 stays.
        (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), json!({})),
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}),
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}),
        ),
        // A value that is not a schema in the place of one.
        (
            json!({"properties": {"a": null, "b": "string", "c": "the city", "d": 7, "e": true}}),
            json!({"properties": {"a": {}, "b": {"type": "string"}, "c": {"description": "the city"}, "d": {}, "e": true}}),
        ),
        (json!({"properties": []}), json!({"properties": {}})),
        (json!({"properties": [{"name": "a", "type": "bool"}, 7]}), json!({"properties": {"a": {"type": "boolean"}}})),
        (json!({"items": "string"}), json!({"items": {"type": "string"}})),
        (json!({"items": null, "not": "gibberish"}), json!({})),
        (json!({"additionalProperties": "false"}), json!({"additionalProperties": false})),
        (json!({"anyOf": [{"type": "string"}, null, 7]}), json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
        (json!({"oneOf": [], "allOf": {"type": "string"}}), json!({"allOf": [{"type": "string"}]})),
        // A value of the wrong kind.
        (json!({"required": true}), json!({})),
        (json!({"required": "a"}), json!({"required": ["a"]})),
        (json!({"required": ["a", 7, "a"]}), json!({"required": ["a"]})),
        (json!({"minLength": -1, "maxLength": 2.0, "minItems": "3"}), json!({"maxLength": 2, "minItems": 3})),
        (json!({"minimum": "1.5", "maximum": "ten", "multipleOf": 0}), json!({"minimum": 1.5})),
        (json!({"enum": []}), json!({})),
        (json!({"enum": ["a", "a", 1]}), json!({"enum": ["a", 1]})),
        (json!({"enum": "a"}), json!({"enum": ["a"]})),
        (json!({"description": ["One.", "Two."], "title": null}), json!({"description": "One.\nTwo."})),
        (json!({"uniqueItems": "true", "deprecated": 1}), json!({"uniqueItems": true})),
        (json!({"examples": "a", "default": null}), json!({"examples": ["a"], "default": null})),
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        // Patterns that some engine does not accept.
        (json!({"pattern": r"^\p{L}+$"}), json!({})),
        (json!({"pattern": "(?i)a"}), json!({})),
        (json!({"pattern": "("}), json!({})),
        (json!({"pattern": r"^(?!a)[^\s/[]{1,3}(b)\1\u00e4$"}), json!({"pattern": r"^(?!a)[^\s/[]{1,3}(b)\1\u00e4$"})),
        (
            json!({"patternProperties": {"^a": {"type": "int"}, "(": {}}}),
            json!({"patternProperties": {"^a": {"type": "integer"}}}),
        ),
        // A pattern that would be expensive to compile.
        (json!({"pattern": "(a{900}){900}"}), json!({"pattern": "(a{900}){900}"})),
        // References.
        (json!({"$ref": "#/$defs/gone", "title": "T"}), json!({"title": "T"})),
        (json!({"$ref": "https://example.com/schema.json"}), json!({})),
        (
            json!({"$id": "https://a/b", "$ref": "https://a/b#/$defs/c", "$defs": {"c": {}}}),
            json!({"$id": "https://a/b", "$ref": "#/$defs/c", "$defs": {"c": {}}}),
        ),
        (
            json!({"properties": {"a": {"items": [{"type": "str"}]}, "b": {"$ref": "#/properties/a/items/0"}}}),
            json!({"properties": {"a": {"prefixItems": [{"type": "string"}]}, "b": {"$ref": "#/properties/a/prefixItems/0"}}}),
        ),
        (json!({"$recursiveRef": "#"}), json!({"$ref": "#"})),
        // Values that are not schemas stay unchanged.
        (
            json!({"const": {"type": "float"}, "x-own": {"items": []}}),
            json!({"const": {"type": "float"}, "x-own": {"items": []}}),
        ),
        (
            json!({"properties": {"items": {"items": []}, "type": {"type": "float"}}}),
            json!({"properties": {"items": {}, "type": {"type": "number"}}}),
        ),
    ] {
        let made = bring(node(&written));
        assert_eq!(value(&made), brought, "{written}");
        assert_eq!(check(&made), Ok(()), "{written}");
        assert_eq!(bring(made.clone()), made, "{written}");
    }
}

#[test]
fn order_of_properties_stays() {
    let written: JsonNode =
        serde_json::from_str(r#"{"type":"object","properties":{"z":{"type":"float"},"a":null}}"#).unwrap();
    assert_eq!(bring(written).to_json(), r#"{"type":"object","properties":{"z":{"type":"number"},"a":{}}}"#);
}

#[test]
fn schema_error_names_its_position() {
    for (schema, why) in [
        (json!({"properties": {"a": {"type": "float"}}}), "properties.a.type: expected a type"),
        (json!({"properties": {"a": null}}), "properties.a: expected an object, `true` or `false`"),
        (json!({"required": true}), "required: expected a list of unique names"),
        (json!({"items": [{}]}), "items: expected an object"),
        (json!({"anyOf": [{}, {"exclusiveMinimum": true}]}), "anyOf.1.exclusiveMinimum: expected a number"),
        (json!({"anyOf": []}), "anyOf: expected a non-empty list of schemas"),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/b"}}}),
            "properties.a.$ref: expected a reference to a schema in this one",
        ),
        (
            json!({"patternProperties": {"[": {}}}),
            "patternProperties: expected names that are portable regular expressions",
        ),
        (json!({"multipleOf": 0}), "multipleOf: expected a number above 0"),
        (json!({"minLength": -1}), "minLength: expected a non-negative integer"),
        (json!({"enum": [1, 1]}), "enum: expected a non-empty list of unique values"),
        (json!({"$anchor": "1"}), "$anchor: expected the name of an anchor"),
        (json!({"$id": "a#b"}), "$id: expected a URI without a fragment"),
        (json!({"dependentRequired": {"a": "b"}}), "dependentRequired: expected an object of lists"),
        (json!(7), ": expected an object, `true` or `false`"),
    ] {
        let found = check(&node(&schema)).unwrap_err();
        assert!(found.starts_with(why), "{schema}: {found}");
    }
}

#[test]
fn refused_property_names_are_renamed_everywhere() {
    let long = "x".repeat(80);
    let mut schema = node(&json!({
        "properties": {
            "$filter": {"type": "string"},
            "my key": {"properties": {"$filter": {}}, "required": ["$filter"]},
            (long.clone()): {"$ref": "#/properties/my%20key/properties/$filter"},
            "plain.name-1": {"default": {"$filter": 1}},
            "": {},
        },
        "required": ["$filter", "plain.name-1"],
        "dependentRequired": {"my key": ["$filter"]},
        "description": "Use $filter.",
    }));
    let names = rename(&mut schema);
    let made = value(&schema);
    let keys: Vec<_> = made["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let fits = |key: &str| {
        (1..=64).contains(&key.len()) && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    assert!(keys.iter().all(|key| fits(key)), "{keys:?}");
    let shown = |own: &str| {
        let back = |key: &&&str| names.restore(&format!("{{\"{key}\":1}}")) == format!("{{\"{own}\":1}}");
        (*keys.iter().find(back).unwrap_or_else(|| panic!("{own} in {keys:?}"))).to_owned()
    };
    let (filter, key) = (shown("$filter"), shown("my key"));
    assert!(filter.starts_with("_filter_") && key.starts_with("my_key_"), "{filter} {key}");
    assert_eq!(shown("plain.name-1"), "plain.name-1");
    assert_eq!(made["required"], json!([filter, "plain.name-1"]));
    assert_eq!(made["dependentRequired"], json!({(key.clone()): [filter]}));
    assert_eq!(made["properties"]["plain.name-1"]["default"], json!({(filter.clone()): 1}));
    assert_eq!(made["properties"][&key]["required"], json!([filter]));
    assert_eq!(made["properties"][shown(&long)]["$ref"], format!("#/properties/{key}/properties/{filter}"));
    assert_eq!(check(&schema), Ok(()));
    let arguments = format!(r#"{{"{key}":{{"{filter}":"a"}},"free":12345678901234567890123}}"#);
    assert_eq!(names.restore(&arguments), r#"{"my key":{"$filter":"a"},"free":12345678901234567890123}"#);
    let mut fine = node(&json!({"properties": {"a": {}}}));
    assert_eq!(rename(&mut fine), PropertyNames::default());
}

proptest! {
    #[test]
    fn converted_schema_is_valid_against_meta_schema(odd in odd_json()) {
        let made = bring(node(&odd));
        prop_assert_eq!(check(&made), Ok(()));
        let mut renamed = made.clone();
        rename(&mut renamed);
        prop_assert_eq!(check(&renamed), Ok(()));
        // A valid schema stays unchanged, apart from additions to lists and dialects.
        prop_assert_eq!(bring(made.clone()), made);
    }
}
