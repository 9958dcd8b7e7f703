use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ToolCall, ToolResult};

/// Open-ended facts beside the typed ones, in order.
pub type MessageMeta = Vec<(String, String)>;

/// Bytes of text that are estimated to make one token.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// The key that marks a note.
const NOTE: &str = "shelly.note";
/// The key of the fact that the text of a reply looks like a tool call and is none, with why.
pub(crate) const UNREAD_CALL: &str = "shelly.unread-call";

/// The key that names the member of a team that wrote a message of the team's conversation; empty for its coordinator.
const MEMBER: &str = "shelly.member";

/// The key that names the member to which a member of a team hands over.
const HAND_OVER: &str = "shelly.hand-over";

/// The key that says how a run ended, where its reply is no answer.
const ENDING: &str = "shelly.ending";

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Where the bytes of a [`Media`] are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaData {
    /// Here; in JSON as base64.
    #[serde(with = "super::base64_serde::as_base64")]
    Bytes(Arc<[u8]>),
    /// On the web; never fetched by the host.
    Url(String),
}

/// An image, a document, a sound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Such as `image/png`.
    pub media_type: String,
    /// A file name to show.
    pub name: Option<String>,
    /// Where the bytes are.
    pub source: MediaData,
}

/// What a model thought before it answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingPart {
    /// The thought, or a summary, or empty where the vendor hides it.
    pub text: String,
    /// What the vendor wants back unchanged.
    pub opaque: Option<String>,
}

/// Something that has no case of its own: kept and handed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaqueContent {
    /// Names the format, prefixed by its owner.
    pub kind: String,
    /// The value, JSON.
    pub json: String,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, a document, a sound.
    Media(Media),
    /// A thought of the model; only in assistant messages.
    Thinking(ThinkingPart),
    /// A tool call; only in assistant messages.
    ToolCall(ToolCall),
    /// A tool's answer; only in tool messages.
    ToolResult(ToolResult),
    /// Anything else.
    Other(OpaqueContent),
}

/// One entry of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The name of the agent, person or plugin that wrote it; empty if unknown.
    pub sender: String,
    /// As what it was written.
    pub role: Role,
    /// Its pieces in order.
    pub parts: Vec<Part>,
    /// Facts beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: MessageMeta,
}

impl Message {
    /// A message with one piece of text.
    pub fn text(role: Role, sender: impl Into<String>, text: impl Into<String>) -> Self {
        Self { sender: sender.into(), role, parts: vec![Part::Text(text.into())], meta: MessageMeta::new() }
    }

    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, "user", text)
    }

    /// A user message of the host, an effect or a middleware: no task of a person. Marked in its facts, so that a model's
    /// provider can tell.
    pub fn note(sender: impl Into<String>, text: impl Into<String>) -> Self {
        let meta = vec![(NOTE.to_owned(), "true".to_owned())];
        Self { meta, ..Self::text(Role::User, sender, text) }
    }

    /// Whether it is a [`Message::note`].
    pub fn is_note(&self) -> bool {
        self.fact(NOTE).is_some()
    }

    /// Returns the member that wrote it, in the conversation that a team shares: the team notes the member with each reply
    /// that it takes. A reply without that note is of the member that its sender names. None for all that is no reply, and
    /// for what the coordinator wrote: whoever else is called like a member is not that member.
    pub fn member(&self) -> Option<&str> {
        let member = self.fact(MEMBER).unwrap_or(&self.sender);
        (self.role == Role::Assistant && !member.is_empty()).then_some(member)
    }

    /// Notes which member of a team wrote it, in place of a member of a team within that team; none for the coordinator.
    pub(crate) fn by_member(self, member: Option<&str>) -> Self {
        self.with_fact(MEMBER, Some(member.unwrap_or_default()))
    }

    /// Returns `true` if it stands in the conversation of a team for the whole team, written by none of its members.
    pub(crate) fn is_of_team(&self) -> bool {
        self.fact(MEMBER) == Some("")
    }

    /// Notes that it says to which member another one hands over.
    pub(crate) fn handing_over_to(self, member: &str) -> Self {
        self.with_fact(HAND_OVER, Some(member))
    }

    /// Drops the note about the member that wrote it: it holds in the conversation of that team alone.
    pub(crate) fn without_member(self) -> Self {
        self.with_fact(MEMBER, None)
    }

    /// Returns how the run ended that came to this, for those around it: `completed`, `failed` or `handed-over`; none for
    /// an answer.
    pub(crate) fn ending(&self) -> Option<&str> {
        self.fact(ENDING)
    }

    /// Notes how the run ended that came to this; none: with an answer.
    pub(crate) fn with_ending(self, ending: Option<&str>) -> Self {
        self.with_fact(ENDING, ending)
    }

    fn fact(&self, key: &str) -> Option<&str> {
        self.meta.iter().find(|(there, _)| there == key).map(|(_, value)| value.as_str())
    }

    fn with_fact(mut self, key: &str, value: Option<&str>) -> Self {
        self.meta.retain(|(there, _)| there != key);
        self.meta.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        self
    }

    /// Why the text of this reply is no tool call though it looks like one, if that is so.
    pub fn unread_call(&self) -> Option<&str> {
        self.meta.iter().find(|(key, _)| key == UNREAD_CALL).map(|(_, why)| why.as_str())
    }

    /// The results of tool calls.
    pub fn results(results: Vec<ToolResult>) -> Self {
        let parts = results.into_iter().map(Part::ToolResult).collect();
        Self { sender: String::new(), role: Role::Tool, parts, meta: MessageMeta::new() }
    }

    /// The text parts, one after the other.
    pub fn text_content(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
    }

    /// The tool results in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| if let Part::ToolResult(result) = part { Some(result) } else { None })
    }

    /// Whether it has calls or results: such a message can only be a reply or its answer.
    pub fn is_paired(&self) -> bool {
        self.tool_calls().next().is_some() || self.tool_results().next().is_some()
    }

    /// Whether nothing in it is for others: blank text is nothing, and neither are thoughts alone, calls of anyone but the
    /// model, and results outside a tool message. Vendors refuse such a message.
    pub fn says_nothing(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Text(text) => self.role == Role::Tool || text.trim().is_empty(),
            Part::Thinking(_) => true,
            Part::ToolCall(_) => self.role != Role::Assistant,
            Part::ToolResult(_) => self.role != Role::Tool,
            Part::Media(_) | Part::Other(_) => self.role == Role::Tool,
        })
    }

    /// Bytes that it keeps in memory.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part_bytes(part, Media::bytes) + beside(part)).sum();
        parts + self.sender.len() + meta_bytes(&self.meta)
    }

    /// Estimate of its tokens: a quarter of its bytes, four for the frame, a fixed share for media.
    pub fn tokens(&self) -> u32 {
        const FRAME: usize = 4;
        const MEDIA: usize = BYTES_PER_TOKEN * 1_000;
        let total: usize = self.parts.iter().map(|part| part_bytes(part, |_| MEDIA)).sum();
        u32::try_from(total.div_ceil(BYTES_PER_TOKEN) + FRAME).unwrap_or(u32::MAX)
    }
}

impl ToolResult {
    /// Bytes of the message that it makes alone.
    pub(crate) fn message_bytes(&self) -> usize {
        self.call_id.len() + self.content.iter().map(|content| content.bytes(Media::bytes)).sum::<usize>()
    }
}

impl Media {
    /// Bytes of what it is, or of the address where it is.
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

/// Bytes of a part that no model reads.
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
