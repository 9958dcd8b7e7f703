use proptest::prelude::*;
use serde_json::{Value, json};

use shelly_test_support::odd_json;

use super::*;
use shelly_core::{
    json_schema::{JsonNode, bring, check as meets_meta_schema},
    limits,
};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

type Acceptable = fn(&RawValue) -> Cow<'_, RawValue>;

/// Checks what each schema becomes; an empty expectation means that it stays unchanged.
fn check(acceptable: Acceptable, cases: &[(&str, &str)]) {
    for (schema, expected) in cases {
        let schema = raw(schema);
        let made = acceptable(&schema);
        if expected.is_empty() {
            assert!(matches!(made, Cow::Borrowed(_)), "{schema}: {made}");
            continue;
        }
        assert_eq!(made.get(), *expected, "{schema}");
        let again = acceptable(&made);
        assert!(matches!(again, Cow::Borrowed(_)), "{made} is fine, and becomes {again}");
    }
}

#[test]
fn common_dialect_needs_object_at_top_level() {
    check(
        object,
        &[
            // Inner references are for the vendor to resolve, and stay unchanged.
            (r##"{"type": "object", "properties": {"z": {"$ref": "#/$defs/x"}, "a": true}, "$defs": {"x": {}}}"##, ""),
            (r#"{"properties":{},"required":[],"type":"object","additionalProperties":false}"#, ""),
            ("true", r#"{"type":"object","properties":{}}"#),
            ("{}", r#"{"type":"object","properties":{}}"#),
            (r#"{"type":"string"}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"type":"object","properties":null}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"type":["object","null"],"title":"T"}"#, r#"{"type":"object","properties":{},"title":"T"}"#),
            (
                r##"{"$ref":"#/$defs/a~1b","description":"mine","$defs":{"a/b":{"type":"object","description":"its","properties":{"x":{"$ref":"#/$defs/c"}}},"c":{"type":"string"}}}"##,
                r##"{"type":"object","description":"mine","$defs":{"a/b":{"type":"object","description":"its","properties":{"x":{"$ref":"#/$defs/c"}}},"c":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/c"}}}"##,
            ),
            (
                r#"{"properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"b":{},"a":{"minLength":1}},"required":["b","a"]},{"type":"string"}]}"#,
                r#"{"type":"object","properties":{"a":{"type":"string","minLength":1},"b":{}},"required":["a","b"]}"#,
            ),
            // Alternatives: all properties of both, and the requirements that both share.
            (
                r#"{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"},"x":{"type":"string"}},"required":["kind"]},{"type":"null"}]}"#,
                r#"{"type":"object","properties":{"kind":{"anyOf":[{"const":"a"},{"const":"b"}]},"x":{"type":"string"}},"required":["kind"]}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
                r#"{"type":"object","properties":{"a":{},"b":{}}}"#,
            ),
            // A reference into the top level is replaced by its target, because that position no longer exists.
            (
                r##"{"anyOf":[{"properties":{"a":{"type":"string"},"b":{"$ref":"#/anyOf/0/properties/a"}}}]}"##,
                r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}"#,
            ),
            (
                r#"{"type":"object","properties":{},"not":{"required":["a"]},"enum":[{}]}"#,
                r#"{"type":"object","properties":{}}"#,
            ),
            (r##"{"$ref":"#"}"##, r#"{"type":"object","properties":{}}"#),
            (r#"{"$ref":"https://example.com/schema"}"#, r#"{"type":"object","properties":{}}"#),
        ],
    );
}

#[test]
fn gemini_schema_keeps_only_documented_keywords() {
    let wrapped = |inside: &str| format!(r#"{{"type":"object","properties":{{"p":{inside}}}}}"#);
    for (inside, expected) in [
        (r#"{"type":["string","null"],"description":"D","enum":["a","b"],"format":"date-time"}"#, ""),
        (r#"{"type":"array","items":{"type":"integer","minimum":1},"minItems":0}"#, ""),
        (r#"{"type":"object","properties":{"x":{}},"required":["x"],"additionalProperties":false}"#, ""),
        (r#"{"anyOf":[{"type":"string"},{"type":"array","prefixItems":[{},{}]}]}"#, ""),
        ("true", "{}"),
        (r#"{"$schema":"x","type":"string","x-mine":1}"#, r#"{"type":"string"}"#),
        (r#"{"type":"integer","exclusiveMinimum":0,"format":"uint32"}"#, r#"{"type":"integer"}"#),
        (r#"{"const":"a"}"#, r#"{"enum":["a"]}"#),
        (r#"{"const":null,"description":7}"#, "{}"),
        (r#"{"enum":["","a",null,3]}"#, r#"{"enum":["a",3]}"#),
        (r#"{"type":"strange","enum":[""]}"#, "{}"),
        (r#"{"items":[{"const":1},true]}"#, r#"{"prefixItems":[{"enum":[1]},{}]}"#),
        (r#"{"additionalProperties":{"const":1}}"#, r#"{"additionalProperties":{"enum":[1]}}"#),
        (r#"{"properties":{"a":{}},"required":["a","b","a"]}"#, r#"{"properties":{"a":{}},"required":["a"]}"#),
        (r#"{"required":["b"]}"#, "{}"),
        (r#"{"anyOf":[]}"#, "{}"),
        (
            r#"{"allOf":[{"type":"string"},{"minLength":1,"type":"integer"}],"description":"D"}"#,
            r#"{"description":"D","type":"string","minLength":1}"#,
        ),
        (
            r##"{"$ref":"#/properties/p/properties/a","properties":{"a":{"type":"string"}}}"##,
            r#"{"properties":{"a":{"type":"string"}},"type":"string"}"#,
        ),
        // A recursive list: only the type of the innermost one remains.
        (
            r##"{"type":"array","items":{"$ref":"#/properties/p"}}"##,
            r#"{"type":"array","items":{"type":"array","items":{"type":"array"}}}"#,
        ),
        // A property may have the name of a keyword.
        (r#"{"properties":{"const":{"const":"a"},"$ref":{}}}"#, r#"{"properties":{"const":{"enum":["a"]},"$ref":{}}}"#),
        (r#"{"properties":{"\u0061":{}}}"#, r#"{"properties":{"a":{}}}"#),
    ] {
        let expected = if expected.is_empty() { String::new() } else { wrapped(expected) };
        check(gemini_object, &[(&wrapped(inside), &expected)]);
    }
    check(gemini_object, &[(r#"{"type":"array"}"#, r#"{"type":"object","properties":{}}"#)]);
    check(
        gemini,
        &[(r#"{"type":"array","items":{}}"#, ""), (r#"{"type":"array","items":true}"#, r#"{"type":"array"}"#)],
    );
}

/// Returns the nesting depth of a value.
fn depth(value: &Value) -> usize {
    let inside = match value {
        Value::Object(map) => map.values().map(depth).max(),
        Value::Array(list) => list.iter().map(depth).max(),
        _ => return 0,
    };
    1 + inside.unwrap_or(0)
}

#[test]
fn references_that_name_each_other_end() {
    for acceptable in [object as Acceptable, gemini_object] {
        // Each definition refers to the next one twice, and the last one to the first.
        let count = 60;
        let mut definitions = serde_json::Map::new();
        for at in 0..count {
            let next = json!({"$ref": format!("#/definitions/d{}", (at + 1) % count)});
            definitions.insert(
                format!("d{at}"),
                json!({"type": "object", "properties": {"a": next, "b": next}, "anyOf": [next, next]}),
            );
        }
        let bomb =
            json!({"anyOf": [{"$ref": "#/definitions/d0"}, {"$ref": "#/definitions/d1"}], "definitions": definitions});
        let bomb = raw(&bomb.to_string());
        let made = acceptable(&bomb);
        let most = limits::SCHEMA_INLINED_BYTES + (limits::SCHEMA_REFS + 2) * bomb.get().len();
        assert!(made.get().len() < 4 * most, "{} bytes", made.get().len());
        assert_eq!(made.get(), acceptable(&bomb).get());
        assert!(depth(&serde_json::from_str(made.get()).unwrap()) <= 4 * limits::SCHEMA_DEPTH);
    }
}

#[test]
fn reference_chain_is_followed_up_to_limit() {
    let chain = |length: usize| {
        let mut definitions = serde_json::Map::new();
        for at in 0..length {
            definitions.insert(format!("d{at}"), json!({"$ref": format!("#/definitions/d{}", at + 1)}));
        }
        definitions.insert(format!("d{length}"), json!({"type": "string", "description": "the end"}));
        let start = json!({"$ref": "#/definitions/d0"});
        let schema = json!({"type": "object", "properties": {"p": start}, "definitions": definitions});
        let made: Value = serde_json::from_str(gemini_object(&raw(&schema.to_string())).get()).unwrap();
        made["properties"]["p"]["description"] == "the end"
    };
    assert!(chain(limits::SCHEMA_REFS - 1) && !chain(limits::SCHEMA_REFS));
}

#[test]
fn schema_beyond_depth_limit_is_unconstrained() {
    let nested = |levels: usize| {
        let mut schema = json!({"const": "x"});
        for _ in 0..levels {
            schema = json!({"type": "array", "items": schema});
        }
        let schema = json!({"type": "object", "properties": {"p": schema}});
        let text = serde_json::to_string(&schema).unwrap();
        gemini_object(&raw(&text)).get().to_owned()
    };
    // The object at the top and the innermost schema count too.
    assert!(nested(limits::SCHEMA_DEPTH - 2).contains("enum"));
    let cut = nested(limits::SCHEMA_DEPTH);
    assert!(!cut.contains("enum") && cut.contains(r#""items":{"type":"array"}"#), "{cut}");
    // JSON beyond the parser's depth limit.
    assert_eq!(nested(200), r#"{"type":"object","properties":{}}"#);
}

#[test]
fn thousands_of_alternatives_are_merged() {
    let ways: Vec<_> = (0..5_000).map(|at| json!({"properties": {"a": {"const": at}}, "required": ["a"]})).collect();
    let schema = raw(&json!({ "oneOf": ways }).to_string());
    let made: Value = serde_json::from_str(object(&schema).get()).unwrap();
    assert_eq!(made["properties"]["a"]["anyOf"].as_array().unwrap().len(), 5_000);
    assert_eq!(made["required"], json!(["a"]));
}

proptest! {
    /// Rebuilt schemas are still valid JSON Schema.
    #[test]
    fn rebuilt_schema_is_valid_against_meta_schema(odd in odd_json()) {
        let schema = raw(&bring(serde_json::from_value(odd).unwrap()).to_json());
        for acceptable in [object as Acceptable, gemini_object, gemini] {
            let made: JsonNode = serde_json::from_str(acceptable(&schema).get()).unwrap();
            prop_assert_eq!(meets_meta_schema(&made), Ok(()), "{}", made.to_json());
        }
    }
}
