//! What a server wants back unchanged, kept with the thoughts of a reply. It names the server and the model that it came
//! from: nobody else can make anything of it, and some refuse it.

use serde_json::value::RawValue;

use crate::{chat::ThinkingPart, provider::incoming_reply::ReplySource};

const REASONING: &str = "openai.reasoning";
const PHASE: &str = "openai.phase";

/// What is kept of a reply.
#[derive(Debug)]
pub enum ResponsesOpaqueState<'a> {
    /// An item with a thought, JSON.
    Reasoning(&'a RawValue),
    /// What the text before it is: a remark on the way, or the answer.
    Phase(&'a str),
}

/// Keeps an item with a thought.
pub fn reasoning(source: &ReplySource<'_>, item: &RawValue) -> String {
    keep(REASONING, source, item.get())
}

/// Keeps the phase of the text before it.
pub fn phase(source: &ReplySource<'_>, phase: &str) -> String {
    keep(PHASE, source, phase)
}

fn keep(what: &str, source: &ReplySource<'_>, value: &str) -> String {
    format!("{what}:{} {} {value}", source.origin, source.model)
}

/// What is kept with a thought, if it came from here.
pub fn kept<'a>(source: &ReplySource<'_>, thought: &'a ThinkingPart) -> Option<ResponsesOpaqueState<'a>> {
    let (what, rest) = thought.opaque.as_deref()?.split_once(':')?;
    let rest = rest.strip_prefix(source.origin)?.strip_prefix(' ')?;
    let value = rest.strip_prefix(source.model)?.strip_prefix(' ')?;
    match what {
        REASONING => serde_json::from_str(value).ok().map(ResponsesOpaqueState::Reasoning),
        PHASE => Some(ResponsesOpaqueState::Phase(value)),
        _ => None,
    }
}
