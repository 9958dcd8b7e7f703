//! A tool whose schema the model's vendor refuses.

use std::sync::Arc;

use crate::{chat::ToolSpec, error::Fault};

/// Words before the number of a tool in what vendors say of a request, the most exact first.
const NUMBERED: [&str; 3] = ["function_declarations[", "tools[", "tools."];
/// Words without which a complaint is of something else than a schema.
const SCHEMA: [&str; 3] = ["schema", "parameters", "properties"];

/// The tool whose schema a refusal is about, if it says so by name or by number.
///
/// | vendor | says |
/// |---|---|
/// | OpenAI and compatible servers | `Invalid schema for function 'name': …`, `tools[3].function.parameters` |
/// | Anthropic | `tools.3.custom.input_schema…: …` |
/// | Google | `…tools[0].function_declarations[3].parameters…` |
pub fn refused_tool(fault: &Fault, tools: &[Arc<ToolSpec>]) -> Option<Arc<ToolSpec>> {
    let Fault::Invalid { message } = fault else { return None };
    let lower = message.to_lowercase();
    if !SCHEMA.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let quoted = |name: &str| ['\'', '"', '`'].iter().any(|quote| message.contains(&format!("{quote}{name}{quote}")));
    let named = |tool: &&Arc<ToolSpec>| {
        let word = |before: &str| lower.contains(&format!("{before} {}", tool.name.to_lowercase()));
        quoted(&tool.name) && (lower.contains("function") || lower.contains("tool"))
            || word("invalid schema for function")
    };
    let by_name = tools.iter().filter(named).max_by_key(|tool| tool.name.len());
    by_name.or_else(|| tools.get(number(&lower)?)).cloned()
}

fn number(message: &str) -> Option<usize> {
    let (_, rest) = NUMBERED.iter().find_map(|before| message.split_once(before))?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chat::ToolHints, tool::described};

    #[test]
    fn refusals_of_each_vendor_name_the_tool() {
        let tool = |name: &str| {
            Arc::new(
                described(name.into(), String::new(), r#"{"type":"object"}"#.into(), ToolHints::default()).unwrap(),
            )
        };
        let tools = ["read", "read_all", "git__log"].map(tool);
        for (says, refused) in [
            (
                "Invalid schema for function 'git__log': In context=('properties', 'paths'), array schema missing items.",
                Some("git__log"),
            ),
            (
                "Invalid schema for function 'read_all': 'float' is not valid under any of the given schemas.",
                Some("read_all"),
            ),
            (
                "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
                Some("read_all"),
            ),
            (
                "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
                Some("read"),
            ),
            (
                "* GenerateContentRequest.tools[0].function_declarations[2].parameters.properties[a].items: missing field.",
                Some("git__log"),
            ),
            ("Invalid 'tools[2].function.parameters': expected an object", Some("git__log")),
            // Of a tool, but not of its schema; of no tool that was sent; of something else.
            ("tools.0.custom.name: String should match pattern", None),
            ("tools.9.custom.input_schema: JSON schema is invalid", None),
            ("Invalid schema for response_format 'reply': schema must be an object", None),
            ("messages.3: `tool_use` ids were found without `tool_result` blocks", None),
            ("Unsupported value: 'temperature'", None),
        ] {
            let fault = Fault::invalid(format!("host answered 400 Bad Request: {says}"));
            assert_eq!(refused_tool(&fault, &tools).map(|tool| tool.name.clone()).as_deref(), refused, "{says}");
            let passing = Fault::Unavailable { message: says.into(), after: None };
            assert!(refused_tool(&passing, &tools).is_none());
        }
    }
}
