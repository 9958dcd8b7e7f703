//! Entry points for fuzzing: parsers of untrusted input that are not part of the public API, one function each.
//!
//! For tests alone: the properties of these functions (`tests/fuzz/claims.rs`) are shared by `cargo test` and the fuzz
//! targets, which are separate packages and reach only public items. There are no stability guarantees.

use futures_util::{FutureExt, StreamExt, stream};

use crate::{
    capability::Powers,
    chat::{Message, Part, ToolSpec},
    error::Fault,
    model::{Completion, DeltaSink},
    net::ByteStream,
    plugin::{self, PluginManifest},
    provider::{
        Anthropic, ChatCompletions, Gemini, IncomingReply, ReplySource, ResponsesApi, ToolNames, WireApi, WireProtocol,
        sse,
    },
    session,
};

/// Parses a `plugin.toml`.
///
/// # Errors
///
/// A description of the mistake.
pub fn manifest(text: &str) -> Result<PluginManifest, String> {
    PluginManifest::parse(text)
}

/// Converts a message to its form for a guest and back, in a call that received the media of `handed`.
///
/// # Errors
///
/// The error with which a guest's message is refused.
pub fn message(message: &Message, handed: &[Part]) -> Result<Message, Fault> {
    plugin::convert::message(
        plugin::convert::message_to_wit(message),
        &plugin::convert::GuestMediaIndex::in_parts(handed),
    )
}

/// Converts a message to the form that a guest with these powers sees, and back.
///
/// # Errors
///
/// The error with which a guest's message is refused.
pub fn message_seen(message: &Message, powers: &Powers) -> Result<Message, Fault> {
    let attached = plugin::convert::GuestMediaIndex::in_parts(&message.parts);
    plugin::convert::message(plugin::convert::message_seen(message, powers), &attached)
}

/// Converts a completion to its form for a guest and back.
///
/// # Errors
///
/// The error with which a guest's completion is refused.
pub fn completion(completion: &Completion) -> Result<Completion, Fault> {
    let attached = plugin::convert::GuestMediaIndex::in_parts(&completion.parts);
    plugin::convert::completion(plugin::convert::completion_to_wit(completion), &attached)
}

/// Converts a failure to its form for a guest and back.
pub fn fault(fault: &Fault) -> Fault {
    plugin::convert::fault(plugin::convert::fault_to_wit(fault))
}

/// Validates a tool as a guest describes it.
///
/// # Errors
///
/// The reason for which the tool cannot be offered.
pub fn tool_spec(name: &str, description: &str, schema: &str) -> Result<ToolSpec, String> {
    plugin::convert::described(name, description, schema)
}

/// Returns the events of a stream that arrives in these pieces, as name and data, and the error that ended it. `limit`
/// bounds the size of an event in bytes.
pub fn events(pieces: Vec<Vec<u8>>, limit: usize) -> (Vec<(String, String)>, Option<Fault>) {
    let mut events = sse::SseEventStream::new(stream_of(pieces), limit);
    let mut seen = Vec::new();
    loop {
        match events.next().now_or_never() {
            Some(Ok(Some(event))) => seen.push((event.name.clone(), event.data.clone())),
            Some(Ok(None)) => return (seen, None),
            Some(Err(fault)) => return (seen, Some(fault)),
            None => return (seen, Some(Fault::other("it waits for more than there is"))),
        }
    }
}

/// Parses the reply of a server with this API that arrives in these pieces.
///
/// # Errors
///
/// The error with which the reply is refused.
pub fn reply(api: WireApi, pieces: Vec<Vec<u8>>) -> Result<Completion, Fault> {
    match api {
        WireApi::Chat => {
            read_by(ChatCompletions { printed_calls: true, think_tags: true, ..ChatCompletions::default() }, pieces)
        }
        WireApi::Responses => read_by(ResponsesApi::default(), pieces),
        WireApi::Messages => read_by(Anthropic::default(), pieces),
        WireApi::GenerateContent => read_by(Gemini, pieces),
    }
}

fn read_by(wire: impl WireProtocol, pieces: Vec<Vec<u8>>) -> Result<Completion, Fault> {
    let source = ReplySource { origin: "https://example.com", model: "m", secrets: &[] };
    let read = async {
        let reply = IncomingReply::of(stream_of(pieces), &source).await?;
        wire.read(reply, &source, &ToolNames::default(), &DeltaSink::none()).await
    };
    read.now_or_never().unwrap_or_else(|| Err(Fault::other("it waits for more than there is")))
}

fn stream_of(pieces: Vec<Vec<u8>>) -> ByteStream {
    stream::iter(pieces.into_iter().map(Ok)).boxed()
}

/// Formats a journal line with a correct checksum from the members of a JSON object.
pub fn journal_line(members: &str) -> Vec<u8> {
    session::line_of(members)
}
