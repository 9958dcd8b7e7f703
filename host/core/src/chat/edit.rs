use super::{Message, Part, Role};
use crate::limits;

/// A range of messages and the messages that replace it.
#[derive(Debug, Clone)]
pub struct MessageReplacement {
    /// The id of the first replaced message.
    pub first: u64,
    /// The id of the last replaced message.
    pub last: u64,
    /// The messages that replace them.
    pub messages: Vec<Message>,
}

/// The reason for which an edit was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatEditError {
    /// No message has this id.
    #[error("there is no message {0} in the chat")]
    NoMessage(u64),
    /// The range runs backwards.
    #[error("message {0} comes after message {1}")]
    Backwards(u64, u64),
    /// A tool call would lose its result, or a result its call.
    #[error("the edit would separate a reply from its results at message {0}")]
    CutsGroup(u64),
    /// Calls and results of the new messages do not pair up.
    #[error("calls and results of the new messages do not pair up: {0}")]
    Unpaired(String),
    /// No result answers this call.
    #[error("there is no result of call `{0}`")]
    NoResult(String),
    /// A system message may only be the first.
    #[error("a system message must be the first message")]
    MisplacedSystem,
    /// The message has no content: see [`Message::says_nothing`].
    #[error("a message has only blank text or thoughts")]
    Empty,
    /// The first message after the system message must be a user's: vendors require it.
    #[error("the first message after the system message must be a user message")]
    NoUserFirst,
    /// The conversation would exceed [`limits::CHAT_BYTES`], and the edit would make it larger.
    #[error("the conversation would exceed {} MiB", limits::CHAT_BYTES >> 20)]
    Full,
    /// The conversations of the run would together exceed this number of bytes, and the edit would make them larger.
    #[error("the conversations of this run would exceed {0} bytes in total (limit `runs.chat_bytes`)")]
    RunFull(usize),
}

/// Checks that each call is followed by exactly one result before any other message, and that no result lacks a call.
pub(super) fn check_pairs<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    may_begin_with_system: bool,
) -> Result<(), ChatEditError> {
    let mut open: Vec<&str> = Vec::new();
    for (position, message) in messages.into_iter().enumerate() {
        if message.role == Role::System && !(may_begin_with_system && position == 0) {
            return Err(ChatEditError::MisplacedSystem);
        }
        if message.role != Role::Tool
            && let Some(call) = open.first()
        {
            return Err(ChatEditError::Unpaired(format!("call `{call}` has no result")));
        }
        if message.says_nothing() {
            return Err(ChatEditError::Empty);
        }
        for part in &message.parts {
            match part {
                Part::ToolCall(_) if message.role != Role::Assistant => {
                    return Err(ChatEditError::Unpaired("only an assistant message can have calls".into()));
                }
                Part::ToolResult(_) if message.role != Role::Tool => {
                    return Err(ChatEditError::Unpaired("only a tool message can have results".into()));
                }
                Part::ToolCall(call) if call.id.is_empty() => {
                    return Err(ChatEditError::Unpaired("a call has no id".into()));
                }
                Part::ToolCall(call) => open.push(&call.id),
                Part::ToolResult(result) => {
                    let call = open.iter().position(|id| *id == result.call_id);
                    let call = call.ok_or_else(|| {
                        ChatEditError::Unpaired(format!("result of `{}` without its call", result.call_id))
                    })?;
                    open.remove(call);
                }
                _ => {}
            }
        }
    }
    match open.first() {
        Some(call) => Err(ChatEditError::Unpaired(format!("call `{call}` has no result"))),
        None => Ok(()),
    }
}
