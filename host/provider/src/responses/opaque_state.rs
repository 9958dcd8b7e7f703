//! Opaque state that a server expects back unchanged, stored with the thoughts of a reply. It names the server and model
//! that it came from, because others cannot use it, and some refuse it.

use serde_json::value::RawValue;

use crate::incoming_reply::ReplySource;
use shelly_core::chat::ThinkingPart;

const REASONING: &str = "openai.reasoning";
const PHASE: &str = "openai.phase";

/// The opaque state of a part of a reply.
#[derive(Debug)]
pub enum ResponsesOpaqueState<'a> {
    /// A reasoning item, as JSON.
    Reasoning(&'a RawValue),
    /// The phase of the text before it: commentary, or the final answer.
    Phase(&'a str),
}

/// Encodes a reasoning item.
pub fn reasoning(source: &ReplySource<'_>, item: &RawValue) -> String {
    keep(REASONING, source, item.get())
}

/// Encodes the phase of the preceding text.
pub fn phase(source: &ReplySource<'_>, phase: &str) -> String {
    keep(PHASE, source, phase)
}

fn keep(what: &str, source: &ReplySource<'_>, value: &str) -> String {
    format!("{what}:{} {} {value}", source.origin, source.model)
}

/// Decodes the opaque state of a thought if it came from this server and model.
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
