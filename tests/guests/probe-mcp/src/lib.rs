//! A guest for tests: the tools that the official conformance suite of the Model Context Protocol calls by name, as far as a
//! plugin can have them.
//!
//! The suite also calls tools that ask a person: any tool does where its plugin has `confirm`. Such a config names them in
//! the param `tools`; without it there are those that ask nobody.

use serde::Deserialize;
use serde_json::{Value, json};
use shelly_plugin::{
    Error, clock, config, debug, info, progress,
    tool::Tools,
    types::{Content, Media, Source, ToolCall, ToolHints, ToolSpec},
    warn,
};

shelly_plugin::export!(tool: Suite);

struct Suite;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The names of the tools in place of the usual ones; each says `done`.
    #[serde(default)]
    tools: Vec<String>,
}

/// The tools that ask nobody.
const USUAL: [&str; 12] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_reconnection",
    "test_logging_tool",
    "test_header",
    "json_schema_2020_12_tool",
];

impl Tools for Suite {
    fn specs() -> Result<Vec<ToolSpec>, Error> {
        let params: Params = config()?;
        match params.tools.is_empty() {
            true => Ok(USUAL.into_iter().map(spec).collect()),
            false => Ok(params.tools.iter().map(|name| spec(name)).collect()),
        }
    }

    fn call(call: ToolCall) -> Result<Vec<Content>, Error> {
        Ok(match call.name.as_str() {
            "test_image_content" => vec![media("image/png", PIXEL)],
            "test_audio_content" => vec![media("audio/wav", SILENCE)],
            "test_embedded_resource" => vec![media("text/plain", b"A resource that is embedded.")],
            "test_multiple_content_types" => {
                vec!["Several at once:".into(), media("image/png", PIXEL), media("application/json", br#"{"a":1}"#)]
            }
            "test_tool_with_logging" => {
                debug!("the tool has begun");
                info!("the tool is at work");
                warn!("the tool is about to end");
                vec!["logged".into()]
            }
            "test_logging_tool" => {
                info!("for those who want to know");
                vec!["logged".into()]
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    progress::report(done, Some(100.0), None);
                    wait();
                }
                vec!["through".into()]
            }
            "test_error_handling" => return Err(Error::Other("this tool fails whenever it is called".into())),
            _ => vec!["done".into()],
        })
    }
}

/// Long enough that the next report is not one too many.
fn wait() {
    const NANOSECONDS: u64 = 150_000_000;
    let begun = clock::monotonic();
    while clock::monotonic() - begun < NANOSECONDS {}
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("What the conformance suite takes {name} to be."),
        input_schema: schema(name).to_string(),
        output_schema: None,
        hints: ToolHints::PURE,
        meta: Vec::new(),
    }
}

fn schema(name: &str) -> Value {
    match name {
        "test_header" => {
            json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
        }
        // Its words must come out as they are: references, anchors, conditions.
        "json_schema_2020_12_tool" => json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        }),
        _ => json!({"type": "object", "properties": {}}),
    }
}

fn media(media_type: &str, bytes: &[u8]) -> Content {
    Content::Media(Media { media_type: media_type.into(), name: None, source: Source::Bytes(bytes.into()) })
}

/// One red pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 2,
    0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3,
    1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Four samples of nothing.
const SILENCE: &[u8] =
    b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x04\0\0\0\x80\x80\x80\x80";
