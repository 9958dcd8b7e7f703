use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Media, MessageMeta, OpaqueContent, PropertyNames, message::BYTES_PER_TOKEN};

/// A tool call requested by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The id of the call, unique within the chat whatever the vendor sent.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them: intended as a JSON object, but not checked.
    pub arguments: String,
    /// Data that the vendor expects back with the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: MessageMeta,
}

/// A part of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ToolResultContent {
    /// Text for the model.
    Text(String),
    /// Structured data; a model sees its JSON text.
    Json(String),
    /// An image, document or sound.
    Media(Media),
    /// Any other content.
    Other(OpaqueContent),
}

impl ToolResultContent {
    /// Returns the bytes of the content; `of_media` computes those of media.
    pub fn bytes(&self, of_media: impl Fn(&Media) -> usize) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Media(media) => of_media(media),
            Self::Other(opaque) => opaque.json.len(),
        }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The `id` of the call.
    pub call_id: String,
    /// The content that the tool returned.
    pub content: Vec<ToolResultContent>,
    /// `true` if the content describes a failure.
    pub is_error: bool,
}

impl ToolResult {
    /// Creates an error result for the model to read.
    pub fn error(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call_id: call_id.into(), content: vec![ToolResultContent::Text(text.into())], is_error: true }
    }

    /// Returns the result as plain text, for models without richer content.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for content in &self.content {
            if !text.is_empty() {
                text.push('\n');
            }
            match content {
                ToolResultContent::Text(piece) | ToolResultContent::Json(piece) => text.push_str(piece),
                ToolResultContent::Media(media) => text.push_str(&format!("[{}]", media.media_type)),
                ToolResultContent::Other(opaque) => text.push_str(&opaque.json),
            }
        }
        text
    }
}

/// The side effects that a tool declares. All `false` is the most cautious reading. Hints inform policies; they grant
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolHints {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool adds, but never overwrites or removes.
    pub non_destructive: bool,
    /// A repeated call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// The tool deals with a closed set of things.
    pub closed_world: bool,
}

/// A tool as it is described to a model.
#[derive(Debug, Clone, Serialize)]
pub struct ToolSpec {
    /// The name: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub name: String,
    /// The purpose of the tool, for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Arc<RawValue>,
    /// The declared side effects.
    pub hints: ToolHints,
    /// The tool's own names of properties that have other names in the schema.
    #[serde(skip)]
    pub property_names: PropertyNames,
}

impl ToolSpec {
    /// Returns `true` if every vendor accepts `name`: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub fn is_valid_name(name: &str) -> bool {
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }

    /// Returns the most similar name that every vendor accepts: other characters become `-`, and the rest is cut.
    pub fn name_like(text: &str) -> String {
        let plain = text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
        let name: String = plain.take(64).collect();
        if name.is_empty() { "agent".into() } else { name }
    }

    /// Estimates the tokens of the tool's description in a request.
    pub fn tokens(&self) -> u32 {
        const FRAME: usize = 10;
        let bytes = self.name.len() + self.description.len() + self.input_schema.get().len();
        u32::try_from(bytes.div_ceil(BYTES_PER_TOKEN) + FRAME).unwrap_or(u32::MAX)
    }
}
