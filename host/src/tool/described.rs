use serde_json::Value;

use crate::{
    chat::{ToolHints, ToolSpec},
    error::{cut, is_unseen},
    limits,
};

/// A tool as somebody outside describes it, checked: what a model is shown must not mislead who reads it.
///
/// # Errors
///
/// What is wrong with it, in words that name the tool.
pub fn described(
    name: String,
    description: String,
    input_schema: String,
    hints: ToolHints,
) -> Result<ToolSpec, String> {
    if !ToolSpec::is_valid_name(&name) {
        return Err(format!(
            "`{}` is not a tool's name: 1 to 64 of A-Z, a-z, 0-9, _ and -",
            cut(&name, limits::NAME_SHOWN_CHARS).escape_debug()
        ));
    }
    let over = |what: &str, bytes: usize, most: usize| {
        format!("the {what} of `{name}` has {bytes} bytes, at most {most} are taken")
    };
    if description.len() > limits::TOOL_DESCRIPTION_BYTES {
        return Err(over("description", description.len(), limits::TOOL_DESCRIPTION_BYTES));
    }
    if input_schema.len() > limits::TOOL_SCHEMA_BYTES {
        return Err(over("schema", input_schema.len(), limits::TOOL_SCHEMA_BYTES));
    }
    let schema: Value =
        serde_json::from_str(&input_schema).map_err(|error| format!("the schema of `{name}` is not JSON: {error}"))?;
    if schema.get("type").and_then(|kind| kind.as_str()) != Some("object") {
        return Err(format!("the schema of `{name}` is not that of an object: its `type` must be \"object\""));
    }
    check_seen(&description).map_err(|what| format!("the description of `{name}` {what}"))?;
    check_schema(&schema, limits::TOOL_SCHEMA_DEPTH).map_err(|what| format!("the schema of `{name}` {what}"))?;
    let input_schema = serde_json::value::RawValue::from_string(input_schema).map_err(|error| error.to_string())?;
    Ok(ToolSpec { name, description, input_schema: input_schema.into(), hints })
}

/// Whether a person who reads the text sees what a model does: nothing in it is invisible or turns its order around.
fn check_seen(text: &str) -> Result<(), String> {
    let hidden = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r') || is_unseen(*c);
    match text.chars().find(hidden) {
        Some(hidden) => Err(format!("holds U+{:04X}, which nobody sees", u32::from(hidden))),
        None => Ok(()),
    }
}

/// Whether a schema is not too deep, and nothing in it is hidden.
fn check_schema(schema: &Value, depth: usize) -> Result<(), String> {
    let most = limits::TOOL_SCHEMA_DEPTH;
    let too_deep = || format!("has more than {most} lists and objects within each other");
    match schema {
        Value::String(text) => check_seen(text),
        Value::Array(list) => {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            list.iter().try_for_each(|one| check_schema(one, depth))
        }
        Value::Object(map) => {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            map.iter().try_for_each(|(key, value)| check_seen(key).and_then(|()| check_schema(value, depth)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}
