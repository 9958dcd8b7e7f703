//! The state of a conversation after edits.

use shelly_host::{
    agent::{EffectEdit, EffectInput},
    chat::{Chat, Role},
    model::{Completion, ScriptedCompleter},
};

use crate::{script::said, vendors::check_transcript};

/// Makes the edits as the host does. All of them are valid, and so is the conversation afterwards.
#[track_caller]
pub fn make(chat: &Chat, edits: Vec<EffectEdit>) {
    for edit in edits {
        match edit {
            EffectEdit::ReplaceResult { call_id, content } => chat.replace_result(&call_id, content).unwrap(),
            EffectEdit::Replace(replacement) => chat.replace(replacement).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    check_transcript(&chat.snapshot());
}

/// The texts of the results, in order.
pub fn results(chat: &Chat) -> Vec<String> {
    let chat = chat.snapshot();
    chat.iter().flat_map(|entry| entry.message.tool_results().map(|result| result.text()).collect::<Vec<_>>()).collect()
}

/// Returns one line a message: the first letter of the role, and the text.
pub fn lines(chat: &Chat) -> Vec<String> {
    let line = |role, text: String| {
        let role = match role {
            Role::System => 's',
            Role::User => 'u',
            Role::Assistant => 'a',
            Role::Tool => 't',
        };
        format!("{role} {text}")
    };
    chat.snapshot().iter().map(|entry| line(entry.message.role, said(&entry.message))).collect()
}

/// The conversation fills this share of a window of 1,000 tokens.
pub fn full(moment: EffectInput, share: f64) -> EffectInput {
    EffectInput { request_tokens: (1_000.0 * share) as u64, context_window: Some(1_000), ..moment }
}

/// Returns a reply with this text.
pub fn completion(text: &str) -> Completion {
    ScriptedCompleter::text(text).unwrap()
}
