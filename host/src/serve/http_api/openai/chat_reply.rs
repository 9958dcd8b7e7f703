use serde::Serialize;

use super::run_ending::{AnswerEnding, ChatUsage};
use crate::{chat::Part, serve::hosted_runs::RunSnapshot};

/// The facts that stand in each part of a chat completion.
#[derive(Debug, Clone, Serialize)]
pub struct ChatCompletionHead {
    /// The id, which contains that of the run.
    pub id: String,
    /// The time of the request, in seconds since 1970.
    pub created: u64,
    /// The name of the agent.
    pub model: String,
}

/// A whole chat completion.
#[derive(Debug, Serialize)]
pub struct ChatCompletionReply {
    #[serde(flatten)]
    head: ChatCompletionHead,
    object: &'static str,
    choices: [ChatReplyChoice; 1],
    usage: ChatUsage,
}

#[derive(Debug, Serialize)]
struct ChatReplyChoice {
    index: u8,
    message: ChatReplyMessage,
    finish_reason: &'static str,
    logprobs: Option<()>,
}

#[derive(Debug, Serialize)]
struct ChatReplyMessage {
    role: &'static str,
    content: String,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
}

/// A piece of a chat completion.
#[derive(Debug, Serialize)]
pub struct ChatCompletionChunk<'a> {
    #[serde(flatten)]
    head: &'a ChatCompletionHead,
    object: &'static str,
    choices: Vec<ChatChunkChoice>,
    /// Null in each chunk but the last, if the client asks for the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<ChatUsage>>,
}

#[derive(Debug, Serialize)]
struct ChatChunkChoice {
    index: u8,
    delta: ChatChunkDelta,
    finish_reason: Option<&'static str>,
}

/// The text or the thought that a chunk adds.
#[derive(Debug, Default, Serialize)]
pub struct ChatChunkDelta {
    /// The author, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// More of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// More of the thoughts, under the name that chat pages know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The words with which the model declined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl ChatCompletionReply {
    /// Returns the completion of a run with this text.
    pub fn new(head: ChatCompletionHead, run: &RunSnapshot, ending: AnswerEnding, text: String) -> Self {
        let finish_reason = ending.finish_reason();
        let (content, refusal) = match ending {
            AnswerEnding::Refused(words) => (String::new(), Some(words)),
            AnswerEnding::Complete | AnswerEnding::CutShort => (text, None),
        };
        let message = ChatReplyMessage { role: "assistant", content, refusal, reasoning_content: thoughts(run) };
        let choice = ChatReplyChoice { index: 0, message, finish_reason, logprobs: None };
        Self { head, object: "chat.completion", choices: [choice], usage: run.usage().into() }
    }
}

impl<'a> ChatCompletionChunk<'a> {
    /// Returns a chunk with this delta; `has_usage` is `true` if the client asks for the usage.
    pub fn delta(
        head: &'a ChatCompletionHead,
        delta: ChatChunkDelta,
        finish_reason: Option<&'static str>,
        has_usage: bool,
    ) -> Self {
        let choices = vec![ChatChunkChoice { index: 0, delta, finish_reason }];
        Self { head, object: "chat.completion.chunk", choices, usage: has_usage.then_some(None) }
    }

    /// Returns the last chunk, which has the usage alone.
    pub fn usage(head: &'a ChatCompletionHead, usage: ChatUsage) -> Self {
        Self { head, object: "chat.completion.chunk", choices: Vec::new(), usage: Some(Some(usage)) }
    }
}

/// Returns the thoughts before an answer, if there are any.
pub fn thoughts(run: &RunSnapshot) -> Option<String> {
    let answer = run.answer()?;
    let thoughts = answer.message.parts.iter().filter_map(|part| match part {
        Part::Thinking(thinking) if !thinking.text.trim().is_empty() => Some(thinking.text.as_str()),
        _ => None,
    });
    let thoughts = thoughts.collect::<Vec<_>>().join("\n\n");
    (!thoughts.is_empty()).then_some(thoughts)
}
