use serde_json::{Value, value::RawValue};

use crate::{
    chat::{ToolHints, ToolSpec},
    error::{cut, is_unseen},
    json_schema::{self, JsonMap, JsonNode},
    limits,
};

/// Checks a tool described by an external source: the description must not mislead a person who reads it, and no vendor may
/// have a reason to refuse it, since a vendor then refuses the whole request. The schema is converted to JSON Schema
/// 2020-12, and properties whose names a vendor refuses are renamed: [`ToolBox`](super::ToolBox) restores the original
/// names for the tool.
///
/// # Errors
///
/// Returns the defect, in words that name the tool.
pub fn described(
    name: String,
    description: String,
    input_schema: String,
    hints: ToolHints,
) -> Result<ToolSpec, String> {
    if !ToolSpec::is_valid_name(&name) {
        return Err(format!(
            "invalid tool name `{}`; use 1 to 64 of A-Z, a-z, 0-9, _ and -",
            cut(&name, limits::NAME_SHOWN_CHARS).escape_debug()
        ));
    }
    let over = |what: &str, bytes: usize, most: usize| {
        format!("the {what} of `{name}` has {bytes} bytes, the maximum is {most}")
    };
    if description.len() > limits::TOOL_DESCRIPTION_BYTES {
        return Err(over("description", description.len(), limits::TOOL_DESCRIPTION_BYTES));
    }
    if input_schema.len() > limits::TOOL_SCHEMA_BYTES {
        return Err(over("schema", input_schema.len(), limits::TOOL_SCHEMA_BYTES));
    }
    let written: JsonNode =
        serde_json::from_str(&input_schema).map_err(|error| format!("the schema of `{name}` is not JSON: {error}"))?;
    check_seen(&description).map_err(|what| format!("the description of `{name}` {what}"))?;
    check_schema(&written, limits::TOOL_SCHEMA_DEPTH).map_err(|what| format!("the schema of `{name}` {what}"))?;
    let brought = written.is_schema().then(|| json_schema::bring(written.clone()));
    let mut schema = brought
        .and_then(of_object)
        .ok_or_else(|| format!("the schema of `{name}` does not describe an object; set its `type` to \"object\""))?;
    let property_names = json_schema::rename(&mut schema);
    json_schema::check(&schema).map_err(|why| {
        format!("the schema of `{name}` is not a valid JSON Schema: {}", cut(&why, limits::ERROR_BYTES / 4))
    })?;
    // Nearly all schemas need no change.
    let input_schema = if schema == written { input_schema } else { schema.to_json() };
    let input_schema = RawValue::from_string(input_schema).map_err(|error| error.to_string())?.into();
    Ok(ToolSpec { name, description, input_schema, hints, property_names })
}

/// Returns the schema as one of an object; `None` if it is of something else. Some schemas give no type.
fn of_object(schema: JsonNode) -> Option<JsonNode> {
    let mut map = match schema {
        JsonNode::Object(map) => map,
        JsonNode::Leaf(Value::Bool(true)) => JsonMap::new(),
        _ => return None,
    };
    let is_object = |kind: &JsonNode| kind.text() == Some("object");
    match map.get("type") {
        Some(kind) if is_object(kind) => {}
        Some(kind) if !kind.list().iter().any(is_object) => return None,
        _ => drop(map.insert("type".into(), "object".into())),
    }
    Some(JsonNode::Object(map))
}

/// Checks that a person who reads the text sees what a model sees: no character in it is invisible or changes the text
/// direction.
///
/// # Errors
///
/// Returns the defect, in words that follow the name of the text.
pub fn check_seen(text: &str) -> Result<(), String> {
    let hidden = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r') || is_unseen(*c);
    match text.chars().find(hidden) {
        Some(hidden) => Err(format!("has the invisible character U+{:04X}", u32::from(hidden))),
        None => Ok(()),
    }
}

/// Checks that a schema is not too deep and holds no invisible characters.
fn check_schema(schema: &JsonNode, depth: usize) -> Result<(), String> {
    let most = limits::TOOL_SCHEMA_DEPTH;
    let too_deep = || format!("has more than {most} nested lists and objects");
    match schema {
        JsonNode::Leaf(Value::String(text)) => check_seen(text),
        JsonNode::Leaf(_) => Ok(()),
        JsonNode::List(list) => {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            list.iter().try_for_each(|one| check_schema(one, depth))
        }
        JsonNode::Object(map) => {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            map.iter().try_for_each(|(key, value)| check_seen(key).and_then(|()| check_schema(value, depth)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        chat::ToolCall,
        error::Fault,
        event::RunCx,
        tool::{FnTool, ToolBox, ToolCx, spec},
    };

    fn of(schema: &Value) -> Result<ToolSpec, String> {
        described("t".into(), String::new(), schema.to_string(), ToolHints::default())
    }

    #[test]
    fn schema_of_every_shape_is_read_in_bounded_work() {
        let most = limits::TOOL_SCHEMA_BYTES - 200;
        let many = |piece: &dyn Fn(usize) -> String| {
            let mut pieces = String::new();
            for n in 0.. {
                let next = piece(n);
                if pieces.len() + next.len() > most {
                    return pieces.trim_end_matches(',').to_owned();
                }
                pieces += &next;
            }
            pieces
        };
        let of = |properties: &str| format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        let nested = |open: &str, close: &str, depth: usize| {
            of(&format!(r#""a":{}{{}}{}"#, open.repeat(depth), close.repeat(depth)))
        };
        let (levels, objects) = (limits::TOOL_SCHEMA_DEPTH - 4, r#"{"properties":{"a":"#);
        for (shape, schema, is_taken) in [
            ("wide", of(&many(&|n| format!(r#""a{n}":{{"type":"float"}},"#))), true),
            ("patterns", of(&many(&|n| format!(r#""a{n}":{{"pattern":"\\w{{9}}"}},"#))), true),
            ("references", of(&many(&|n| format!(r##""a{n}":{{"$ref":"#/properties/a0"}},"##))), true),
            ("lists of types", nested(r#"{"type":["string","#, r#"]}"#, levels / 2), true),
            ("lists of ways", nested(r#"{"anyOf":["#, r#"]}"#, levels / 2), true),
            ("objects", nested(objects, "}}", levels / 2), true),
            ("too deep objects", nested(objects, "}}", 60), false),
            (
                "references to what refers",
                {
                    let twice = |n: usize| {
                        format!(
                            r##""d{n}":{{"anyOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}},"##,
                            m = n + 1
                        )
                    };
                    format!(r#"{{"type":"object","$defs":{{{}}}}}"#, many(&twice))
                },
                true,
            ),
        ] {
            let described = described("t".into(), String::new(), schema, ToolHints::default());
            assert_eq!(described.is_ok(), is_taken, "{shape}: {described:?}");
        }
    }

    #[test]
    fn odd_schemas_are_normalized_or_refused() {
        for (written, shown) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "float"}}}),
                Some(json!({"type": "object", "properties": {"a": {"type": "number"}}})),
            ),
            (json!({"properties": {"a": null}}), Some(json!({"type": "object", "properties": {"a": {}}}))),
            (json!({}), Some(json!({"type": "object"}))),
            (json!(true), Some(json!({"type": "object"}))),
            (json!({"type": ["null", "object"]}), Some(json!({"type": "object"}))),
            (json!({"type": "dict"}), Some(json!({"type": "object"}))),
            (json!({"type": "string"}), None),
            (json!({"type": ["string", "null"]}), None),
            (json!(false), None),
            (json!([]), None),
            (json!("object"), None),
        ] {
            match shown {
                Some(shown) => {
                    let spec = of(&written).unwrap();
                    assert_eq!(serde_json::from_str::<Value>(spec.input_schema.get()).unwrap(), shown, "{written}");
                }
                None => assert!(of(&written).unwrap_err().contains("does not describe an object"), "{written}"),
            }
        }
        let as_written = r#"{ "type":"object", "properties":{"z":{},"a":{"maximum":1.0}} }"#;
        let spec = described("t".into(), String::new(), as_written.into(), ToolHints::default()).unwrap();
        assert_eq!(spec.input_schema.get(), as_written.trim());
    }

    #[tokio::test]
    async fn tool_receives_its_original_property_names() {
        let spec = of(&json!({"type": "object", "properties": {"$filter": {"type": "string"}, "my key": {}}})).unwrap();
        let shown: Value = serde_json::from_str(spec.input_schema.get()).unwrap();
        let shown: Vec<_> = shown["properties"].as_object().unwrap().keys().cloned().collect();
        let echo = async |_: ToolCx, given: Value| Ok::<_, Fault>(given.to_string());
        let tools = ToolBox::new().with(FnTool::with_spec(spec, echo));
        let arguments = json!({(shown[0].clone()): "a", (shown[1].clone()): 7}).to_string();
        let call = ToolCall { id: "1".into(), name: "t".into(), arguments, meta: vec![] };
        let cx = ToolCx { tools: tools.specs(), ..ToolCx::new(RunCx::new("ada")) };
        let (_, seen) = tools.target(&call).unwrap();
        let own = json!({"$filter": "a", "my key": 7});
        assert_eq!(serde_json::from_str::<Value>(&seen.arguments).unwrap(), own);
        let result = tools.dispatch(&cx, &call).await.result;
        assert_eq!((serde_json::from_str::<Value>(&result.text()).unwrap(), result.is_error), (own, false));
    }

    #[test]
    fn derived_schemas_match_the_meta_schema() {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        struct Arguments {
            text: String,
            count: Option<u32>,
            list: Vec<(f64, bool)>,
            map: std::collections::BTreeMap<String, Kind>,
        }
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        enum Kind {
            Plain,
            With { value: i64 },
        }
        let spec: Arc<ToolSpec> = Arc::new(spec::<Arguments>("t", "d"));
        let schema: JsonNode = serde_json::from_str(spec.input_schema.get()).unwrap();
        assert_eq!(json_schema::check(&schema), Ok(()));
    }
}
