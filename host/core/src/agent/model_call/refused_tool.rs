//! Finds the tool whose schema the model's vendor refuses.

use std::sync::Arc;

use crate::{chat::ToolSpec, error::Fault};

/// Text before the index of a tool in vendors' error messages, the most specific first.
const NUMBERED: [&str; 3] = ["function_declarations[", "tools[", "tools."];
/// Words of which one must be in the message of a refused schema.
const SCHEMA: [&str; 3] = ["schema", "parameters", "properties"];
const QUOTES: [char; 3] = ['\'', '"', '`'];

/// Returns the tool whose schema a refusal is about, if the refusal gives its name or its index. The first form that
/// matches counts, since the text after it may quote words of the schema that are names of other tools:
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
    let by_number = || tools.get(number(&lower)?);
    named_first(&lower, tools).or_else(by_number).or_else(|| quoted(message, &lower, tools)).cloned()
}

/// Returns the tool whose name follows the first words of OpenAI's message.
fn named_first<'a>(lower: &str, tools: &'a [Arc<ToolSpec>]) -> Option<&'a Arc<ToolSpec>> {
    let (_, rest) = lower.split_once("invalid schema for function ")?;
    let rest = rest.trim_start_matches(QUOTES);
    let name = rest.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-')).next()?;
    tools.iter().find(|tool| tool.name.to_lowercase() == name)
}

/// Returns the tool with the longest quoted name, if the refusal is about tools.
fn quoted<'a>(message: &str, lower: &str, tools: &'a [Arc<ToolSpec>]) -> Option<&'a Arc<ToolSpec>> {
    let is_quoted =
        |tool: &&Arc<ToolSpec>| QUOTES.iter().any(|quote| message.contains(&format!("{quote}{}{quote}", tool.name)));
    let speaks_of_tools = lower.contains("function") || lower.contains("tool");
    tools.iter().filter(|_| speaks_of_tools).filter(is_quoted).max_by_key(|tool| tool.name.len())
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
                "Invalid schema for function 'read': In context=('properties', 'read_all'), array schema missing items.",
                Some("read"),
            ),
            ("Invalid schema for function read: schema must have type 'object'", Some("read")),
            ("tools.0.custom.input_schema: 'git__log' is not of type 'string'", Some("read")),
            ("the schema of the tool `read_all` is not supported", Some("read_all")),
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
            // A tool but not its schema; no tool that was sent; something else.
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
