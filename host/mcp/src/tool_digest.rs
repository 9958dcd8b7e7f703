use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 digest, in hex, of a tool's whole description. It depends neither on the order of keys nor on what
/// is for programs alone (`_meta`, icons).
pub(super) fn tool_digest(tool: &rmcp::model::Tool) -> String {
    let approved = json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": *tool.input_schema,
        "outputSchema": tool.output_schema.as_deref(),
        "annotations": tool.annotations,
    });
    Sha256::digest(in_order(approved).to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the value with the keys of all objects sorted.
fn in_order(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(in_order).collect(),
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.into_iter().map(|(key, value)| (key, in_order(value))).collect();
            sorted.into_iter().collect()
        }
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(json: Value) -> rmcp::model::Tool {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn tool_digest_changes_with_its_description() {
        let plain = json!({"name": "t", "description": "d", "inputSchema": {"type": "object", "x": {"a": 1, "b": 2}}});
        let first = tool_digest(&tool(plain.clone()));
        assert_eq!(first.len(), 64);
        let same: rmcp::model::Tool = serde_json::from_str(
            r#"{"inputSchema":{"x":{"b":2,"a":1},"type":"object"},"description":"d","name":"t","_meta":{"k":1}}"#,
        )
        .unwrap();
        assert_eq!(tool_digest(&same), first);
        for (key, value) in [
            ("name", json!("u")),
            ("title", json!("T")),
            ("description", json!("e")),
            ("inputSchema", json!({"type": "object"})),
            ("outputSchema", json!({"type": "object"})),
            ("annotations", json!({"readOnlyHint": true})),
        ] {
            let mut other = plain.clone();
            other[key] = value;
            assert_ne!(tool_digest(&tool(other)), first, "{key}");
        }
    }
}
