use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ToolCall, ToolResult};

/// Open-ended key-value pairs beside the typed fields, in order.
pub type MessageMeta = Vec<(String, String)>;

/// Estimated bytes of text per token.
pub const BYTES_PER_TOKEN: usize = 4;

/// The key that marks a note.
const NOTE: &str = "shelly.note";
/// The key under which a reply notes that its text resembles a tool call but is none; the value says why.
pub const UNREAD_CALL: &str = "shelly.unread-call";

/// The key that names the member of a team that wrote a message of the team's conversation; empty for its coordinator.
const MEMBER: &str = "shelly.member";

/// The key that names the member to which a member of a team hands over.
const HANDOFF: &str = "shelly.hand-over";

/// The key that states how a run ended whose reply is not an answer.
const ENDING: &str = "shelly.ending";
/// The key of the mark of a task that a queue handed out.
const QUEUED_RUN: &str = "shelly.queued-run";

/// The author role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent's instructions.
    System,
    /// A person, another agent, or a note of the host or of an effect.
    User,
    /// The model.
    Assistant,
    /// The results of tool calls.
    Tool,
}

/// The location of the bytes of a [`Media`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MediaData {
    /// Inline bytes; base64 in JSON.
    #[serde(with = "super::base64_serde::as_base64")]
    #[schemars(with = "String")]
    Bytes(Arc<[u8]>),
    /// A web address; the host never fetches it.
    Url(String),
}

/// An image, document or sound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Media {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// A file name for display.
    pub name: Option<String>,
    /// The location of the bytes.
    pub source: MediaData,
}

/// The thinking of a model before its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkingPart {
    /// The thought, or a summary; empty where the vendor hides it.
    pub text: String,
    /// Opaque data that the vendor expects back unchanged.
    pub opaque: Option<String>,
}

/// Content without a case of its own: it is stored and passed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpaqueContent {
    /// The name of the format, prefixed by its owner.
    pub kind: String,
    /// The value as JSON.
    pub json: String,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, document or sound.
    Media(Media),
    /// A thought of the model; only in assistant messages.
    Thinking(ThinkingPart),
    /// A tool call; only in assistant messages.
    ToolCall(ToolCall),
    /// A tool result; only in tool messages.
    ToolResult(ToolResult),
    /// Any other content.
    Other(OpaqueContent),
}

/// One message of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The name of the agent, person or plugin that wrote it; empty if unknown.
    pub sender: String,
    /// The author role.
    pub role: Role,
    /// The parts in order.
    pub parts: Vec<Part>,
    /// Open-ended key-value pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: MessageMeta,
}

impl Message {
    /// Creates a message with one text part.
    pub fn text(role: Role, sender: impl Into<String>, text: impl Into<String>) -> Self {
        Self { sender: sender.into(), role, parts: vec![Part::Text(text.into())], meta: MessageMeta::new() }
    }

    /// Creates a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, "user", text)
    }

    /// Creates a user message of the host, an effect or a middleware, which is not a person's task. It is marked in `meta`,
    /// so that a provider can tell it apart.
    pub fn note(sender: impl Into<String>, text: impl Into<String>) -> Self {
        let meta = vec![(NOTE.to_owned(), "true".to_owned())];
        Self { meta, ..Self::text(Role::User, sender, text) }
    }

    /// Returns `true` for a [`Message::note`].
    pub fn is_note(&self) -> bool {
        self.fact(NOTE).is_some()
    }

    /// Returns the team member that wrote this reply in the team's shared conversation. The team marks each reply with the
    /// member; a reply without the mark belongs to the member that its sender names. Returns `None` for a message that is no
    /// reply, and for the coordinator's messages: another author with the name of a member is not that member.
    pub fn member(&self) -> Option<&str> {
        let member = self.fact(MEMBER).unwrap_or(&self.sender);
        (self.role == Role::Assistant && !member.is_empty()).then_some(member)
    }

    /// Marks the team member that wrote this message, replacing the mark of a nested team; `None` for the coordinator.
    pub(crate) fn by_member(self, member: Option<&str>) -> Self {
        self.with_fact(MEMBER, Some(member.unwrap_or_default()))
    }

    /// Returns `true` if the message is in a team's conversation for the whole team and no member wrote it.
    pub(crate) fn is_of_team(&self) -> bool {
        self.fact(MEMBER) == Some("")
    }

    /// Marks the member to which the author hands over.
    pub(crate) fn handing_over_to(self, member: &str) -> Self {
        self.with_fact(HANDOFF, Some(member))
    }

    /// Removes the mark of the member that wrote it: the mark is valid only in the conversation of that team.
    pub(crate) fn without_member(self) -> Self {
        self.with_fact(MEMBER, None)
    }

    /// Returns how the run ended that produced this reply, for enclosing runs: `completed`, `failed` or `handed-over`;
    /// `None` for an answer.
    pub(crate) fn ending(&self) -> Option<&str> {
        self.fact(ENDING)
    }

    /// Marks how the run ended that produced this reply; `None` for an answer.
    pub(crate) fn with_ending(self, ending: Option<&str>) -> Self {
        self.with_fact(ENDING, ending)
    }

    /// Marks the task of a run that a queue handed out with the id of the run.
    pub fn with_queued_run(self, id: &str) -> Self {
        self.with_fact(QUEUED_RUN, Some(id))
    }

    /// Returns the id of the run that a queue handed out with this task.
    pub fn queued_run(&self) -> Option<&str> {
        self.fact(QUEUED_RUN)
    }

    fn fact(&self, key: &str) -> Option<&str> {
        self.meta.iter().find(|(there, _)| there == key).map(|(_, value)| value.as_str())
    }

    fn with_fact(mut self, key: &str, value: Option<&str>) -> Self {
        self.meta.retain(|(there, _)| there != key);
        self.meta.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        self
    }

    /// Returns why the text of this reply is not a tool call although it resembles one, if that is the case.
    pub fn unread_call(&self) -> Option<&str> {
        self.meta.iter().find(|(key, _)| key == UNREAD_CALL).map(|(_, why)| why.as_str())
    }

    /// Creates a tool message with these results.
    pub fn results(results: Vec<ToolResult>) -> Self {
        let parts = results.into_iter().map(Part::ToolResult).collect();
        Self { sender: String::new(), role: Role::Tool, parts, meta: MessageMeta::new() }
    }

    /// Returns the concatenated text parts.
    pub fn text_content(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }

    /// Iterates over the tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
    }

    /// Iterates over the tool results in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| if let Part::ToolResult(result) = part { Some(result) } else { None })
    }

    /// Returns `true` if the message has calls or results; only a reply or its answer may have them.
    pub fn is_paired(&self) -> bool {
        self.tool_calls().next().is_some() || self.tool_results().next().is_some()
    }

    /// Returns `true` if the message has no content for others. Blank text does not count, nor do thoughts alone, calls
    /// outside an assistant message, or results outside a tool message. Vendors refuse such a message.
    pub fn says_nothing(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Text(text) => self.role == Role::Tool || text.trim().is_empty(),
            Part::Thinking(_) => true,
            Part::ToolCall(_) => self.role != Role::Assistant,
            Part::ToolResult(_) => self.role != Role::Tool,
            Part::Media(_) | Part::Other(_) => self.role == Role::Tool,
        })
    }

    /// Returns the bytes that the message holds in memory.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part_bytes(part, Media::bytes) + beside(part)).sum();
        parts + self.sender.len() + meta_bytes(&self.meta)
    }

    /// Estimates the tokens of the message: a quarter of its bytes, four for the frame, a fixed number per media part.
    pub fn tokens(&self) -> u32 {
        const FRAME: usize = 4;
        const MEDIA: usize = BYTES_PER_TOKEN * 1_000;
        let total: usize = self.parts.iter().map(|part| part_bytes(part, |_| MEDIA)).sum();
        u32::try_from(total.div_ceil(BYTES_PER_TOKEN) + FRAME).unwrap_or(u32::MAX)
    }
}

impl ToolResult {
    /// Returns the bytes of a message that consists of this result alone.
    pub(crate) fn message_bytes(&self) -> usize {
        self.call_id.len() + self.content.iter().map(|content| content.bytes(Media::bytes)).sum::<usize>()
    }
}

impl Media {
    /// Returns the bytes of the inline content, or of the address.
    pub fn bytes(&self) -> usize {
        match &self.source {
            MediaData::Bytes(bytes) => bytes.len(),
            MediaData::Url(url) => url.len(),
        }
    }
}

fn meta_bytes(meta: &MessageMeta) -> usize {
    meta.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// Returns the bytes of a part that no model reads.
fn beside(part: &Part) -> usize {
    match part {
        Part::ToolCall(call) => meta_bytes(&call.meta),
        Part::Media(media) => media.media_type.len() + media.name.as_ref().map_or(0, String::len),
        Part::Other(opaque) => opaque.kind.len(),
        Part::Text(_) | Part::Thinking(_) | Part::ToolResult(_) => 0,
    }
}

fn part_bytes(part: &Part, of_media: impl Fn(&Media) -> usize) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Media(media) => of_media(media),
        Part::Thinking(thinking) => thinking.text.len() + thinking.opaque.as_ref().map_or(0, String::len),
        Part::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.len(),
        Part::ToolResult(result) => {
            result.call_id.len() + result.content.iter().map(|content| content.bytes(&of_media)).sum::<usize>()
        }
        Part::Other(opaque) => opaque.json.len(),
    }
}
