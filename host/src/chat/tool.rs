use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Media, MessageMeta, OpaqueContent, PropertyNames, message::BYTES_PER_TOKEN};

/// A model asks for a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names this call: unique within the chat, whatever the vendor sent.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: meant to be a JSON object, not checked.
    pub arguments: String,
    /// What the vendor wants back with the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: MessageMeta,
}

/// A piece of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ToolResultContent {
    /// Text for the model.
    Text(String),
    /// Structured data; a model sees its text.
    Json(String),
    /// An image, a document, a sound.
    Media(Media),
    /// Anything else.
    Other(OpaqueContent),
}

impl ToolResultContent {
    /// Bytes of it, with media as `of_media` reckons it.
    pub fn bytes(&self, of_media: impl Fn(&Media) -> usize) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Media(media) => of_media(media),
            Self::Other(opaque) => opaque.json.len(),
        }
    }
}

/// The answer to a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The `id` of the call.
    pub call_id: String,
    /// What the tool said.
    pub content: Vec<ToolResultContent>,
    /// Whether it says what went wrong.
    pub is_error: bool,
}

impl ToolResult {
    /// A result that says what went wrong, for the model to read.
    pub fn error(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call_id: call_id.into(), content: vec![ToolResultContent::Text(text.into())], is_error: true }
    }

    /// The result as the text that a model without richer content is given.
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

/// What a tool does to the world, as its maker says. All false is the most careful reading. Hints inform policies;
/// they grant nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolHints {
    /// Changes nothing.
    pub read_only: bool,
    /// Adds, but never overwrites or removes.
    pub non_destructive: bool,
    /// Again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Deals with a closed set of things.
    pub closed_world: bool,
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, Serialize)]
pub struct ToolSpec {
    /// 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Arc<RawValue>,
    /// What it does to the world.
    pub hints: ToolHints,
    /// The tool's own names of properties that have others in the schema.
    #[serde(skip)]
    pub property_names: PropertyNames,
}

impl ToolSpec {
    /// Whether `name` is one that every vendor accepts: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub fn is_valid_name(name: &str) -> bool {
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }

    /// The name most like this one that every vendor accepts: other letters are `-`, and what is too long is cut.
    pub fn name_like(text: &str) -> String {
        let plain = text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
        let name: String = plain.take(64).collect();
        if name.is_empty() { "agent".into() } else { name }
    }

    /// Estimate of the tokens that telling a model of it costs.
    pub fn tokens(&self) -> u32 {
        const FRAME: usize = 10;
        let bytes = self.name.len() + self.description.len() + self.input_schema.get().len();
        u32::try_from(bytes.div_ceil(BYTES_PER_TOKEN) + FRAME).unwrap_or(u32::MAX)
    }
}
