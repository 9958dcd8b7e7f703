use serde_json::json;

use super::*;
use shelly_core::tool::InputSchema;

fn document(schemas: &Value) -> ApiDocument {
    let text = json!({"openapi": "3.0.3", "components": {"schemas": schemas}}).to_string();
    ApiDocument::parse(&text).unwrap()
}

/// Returns the tool's schema of one property `x`, which is required, as the document describes it.
fn made(schemas: &Value) -> Value {
    let document = document(schemas);
    let schema = document.target("#/components/schemas/x").unwrap();
    let value = DescribedValue { schema: Some(schema), description: "", is_deprecated: false };
    let made = schema_of(&document, &[("x".to_owned(), value, true)]).unwrap();
    serde_json::from_str(&made.to_json()).unwrap()
}

fn of_x(schemas: &Value) -> Value {
    made(schemas)["properties"]["x"].clone()
}

#[test]
fn schema_becomes_what_the_host_enforces() {
    for (written, shown) in [
        (json!({"type": "string", "minLength": 2, "pattern": "^a"}), json!({"type": "string", "minLength": 2})),
        (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        (json!({"type": ["string", "null"]}), json!({"type": ["string", "null"]})),
        (json!({"type": "file"}), json!({})),
        (
            json!({"type": "string", "enum": ["a", "a"], "nullable": true}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (json!({"enum": [{"a": 1}]}), json!({})),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!({"type": "integer", "exclusiveMinimum": 1}),
        ),
        (
            json!({"type": "integer", "exclusiveMaximum": 9, "multipleOf": 3}),
            json!({"type": "integer", "exclusiveMaximum": 9}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ),
        (
            json!({"anyOf": [{"type": "string"}], "oneOf": [{"minLength": 1}]}),
            json!({"anyOf": [{"type": "string"}], "allOf": [{"anyOf": [{"minLength": 1}]}]}),
        ),
        (
            json!({"allOf": [{"type": "object"}], "nullable": true}),
            json!({"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]}),
        ),
        (
            json!({"type": "object", "additionalProperties": false, "patternProperties": {"^x": {}}}),
            json!({"type": "object"}),
        ),
        (json!({"type": "array", "prefixItems": [{}], "items": {"type": "string"}}), json!({"type": "array"})),
        (json!({"type": "object", "properties": {"a": false}}), json!({"type": "object", "properties": {"a": {}}})),
        (json!({"not": {"type": "string"}, "if": {}, "example": 1, "xml": {}}), json!({})),
        (json!({"description": "a\u{1b}b", "default": 1}), json!({"description": "a\\u{1b}b", "default": 1})),
        (
            json!({"description": "x".repeat(limits::OPENAPI_PROPERTY_CHARS + 1)}),
            json!({"description": format!("{}…", "x".repeat(limits::OPENAPI_PROPERTY_CHARS))}),
        ),
        (json!("text"), json!({})),
    ] {
        let made = made(&json!({"x": written}));
        assert_eq!(made["properties"]["x"], shown, "{written}");
        assert!(InputSchema::new(&made).is_ok(), "{made}");
    }
}

#[test]
fn references_are_replaced_and_cycles_left_open() {
    let schemas = json!({
        "x": {"$ref": "#/components/schemas/Node"},
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/components/schemas/Node", "description": "The next one."}, "leaf": {"$ref": "#/components/schemas/Leaf"}},
        },
        "Leaf": {"type": "string"},
    });
    let next = json!({"description": "The next one."});
    let expected = json!({"type": "object", "properties": {"next": next, "leaf": {"type": "string"}}});
    assert_eq!(of_x(&schemas), expected);
    let to = |target: &str| json!({"x": {"type": "object", "properties": {"a": {"$ref": target}}}});
    assert_eq!(of_x(&to("#/none"))["properties"]["a"], json!({}));
    let text = json!({"type": "string"});
    let inner =
        json!({"x": {"$defs": {"Name": text}, "properties": {"a": {"$ref": "#/components/schemas/x/$defs/Name"}}}});
    assert_eq!(of_x(&inner)["properties"]["a"], text);
    for target in ["other.yaml", "http://h/x", "file:///etc/passwd#/a"] {
        let document = document(&to(target));
        let schema = document.target("#/components/schemas/x").ok();
        let value = DescribedValue { schema, description: "", is_deprecated: false };
        let why = schema_of(&document, &[("x".to_owned(), value, true)]).unwrap_err();
        assert_eq!(why, format!("the reference `{target}` leads out of the document; bundle it into one file"));
    }
}

#[test]
fn items_with_positions_fit_one_of_their_schemas() {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    for (written, shown) in [
        (
            json!({"type": "array", "prefixItems": [text, number, text], "items": false}),
            json!({"type": "array", "maxItems": 3, "items": {"anyOf": [text, number]}}),
        ),
        (
            json!({"type": "array", "prefixItems": [text, number], "items": false, "minItems": 2, "maxItems": 1}),
            json!({"type": "array", "minItems": 2, "maxItems": 1, "items": {"anyOf": [text, number]}}),
        ),
        (
            json!({"type": "array", "prefixItems": [text], "items": number}),
            json!({"type": "array", "items": {"anyOf": [text, number]}}),
        ),
        (json!({"type": "array", "prefixItems": [text]}), json!({"type": "array"})),
        (json!({"type": "array", "prefixItems": [text], "items": true}), json!({"type": "array"})),
        (
            json!({"type": "array", "prefixItems": [text], "maxItems": 1}),
            json!({"type": "array", "maxItems": 1, "items": {"anyOf": [text]}}),
        ),
        (json!({"type": "array", "prefixItems": [{}, text], "items": false}), json!({"type": "array", "maxItems": 2})),
    ] {
        assert_eq!(of_x(&json!({"x": written})), shown, "{written}");
        assert!(InputSchema::new(&made(&json!({"x": written}))).is_ok());
    }
}

#[test]
fn properties_of_responses_are_not_required() {
    let schemas = json!({
        "x": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "name"]}]},
        "Base": {"properties": {"id": {"$ref": "#/components/schemas/Id"}, "name": {"type": "string"}}, "required": ["id"]},
        "Id": {"type": "integer", "readOnly": true},
    });
    let document = document(&schemas);
    let schema = document.target("#/components/schemas/x").ok();
    let value = DescribedValue { schema, description: "", is_deprecated: false };
    let both = schema_of(&document, &[("id".to_owned(), value, true), ("x".to_owned(), value, true)]).unwrap();
    let both: Value = serde_json::from_str(&both.to_json()).unwrap();
    assert_eq!(both["required"], json!(["id", "x"]), "arguments are not properties");
    let x = of_x(&schemas);
    assert_eq!((&x["allOf"][0]["required"], &x["allOf"][1]["required"]), (&json!([]), &json!(["name"])));
}

#[test]
fn large_schema_is_simplified_until_it_fits() {
    // Each of three levels has twelve properties of the next one.
    let of = |next: &str| {
        let properties: serde_json::Map<_, _> =
            (0..12).map(|n| (format!("p{n}"), json!({"$ref": format!("#/components/schemas/{next}")}))).collect();
        json!({"type": "object", "properties": properties, "required": ["p0"], "additionalProperties": false})
    };
    let schemas = json!({"x": of("B"), "B": of("C"), "C": of("D"), "D": {"type": "string"}});
    let made = made(&schemas);
    assert!(made.to_string().len() <= limits::OPENAPI_SCHEMA_BYTES, "{}", made.to_string().len());
    let schema = InputSchema::new(&made).unwrap();
    let whole = |inner: &Value| (0..12).map(|n| (format!("p{n}"), inner.clone())).collect::<serde_json::Map<_, _>>();
    let fits = json!({"x": whole(&json!(whole(&json!(whole(&json!("text"))))))});
    assert_eq!(schema.check(&fits), Ok(()));
    assert!(schema.check(&json!({"x": {}})).is_err(), "what is left is enforced");
}

#[test]
fn schema_of_every_shape_is_read_in_bounded_work() {
    let chain = |count: usize| {
        let of = |n: usize| {
            (
                if n == 0 { "x".to_owned() } else { format!("s{n}") },
                json!({"$ref": format!("#/components/schemas/s{}", n + 1)}),
            )
        };
        json!((0..count).map(of).collect::<serde_json::Map<_, _>>())
    };
    let mut deep = json!({"type": "string"});
    for _ in 0..20 {
        deep = json!({"allOf": [deep], "nullable": true});
    }
    let twice = |n: usize| {
        let next = json!({"$ref": format!("#/components/schemas/d{}", n + 1)});
        (if n == 0 { "x".to_owned() } else { format!("d{n}") }, json!({"anyOf": [next, next]}))
    };
    let doubling = json!((0..40).map(twice).collect::<serde_json::Map<_, _>>());
    let wide: Vec<_> = (0..3_000).map(|n| json!({"const": n})).collect();
    for schemas in [chain(limits::OPENAPI_REFERENCES * 2), json!({"x": deep}), doubling, json!({"x": {"anyOf": wide}})]
    {
        let made = made(&schemas);
        assert!(made.to_string().len() <= limits::OPENAPI_SCHEMA_BYTES);
        assert!(InputSchema::new(&made).is_ok());
    }
}
