//! What chance is thrown at: the readers of what others wrote that are no part of the public API, under one name each.
//!
//! For the tests alone: the claims about these functions (`tests/fuzz/claims.rs`) are shared by `cargo test` and by the
//! fuzz targets, which are packages of their own and reach only what is public. Nothing here may be relied upon.

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

/// Reads a `plugin.toml`.
///
/// # Errors
///
/// What is wrong with it.
pub fn manifest(text: &str) -> Result<PluginManifest, String> {
    PluginManifest::parse(text)
}

/// A message as a guest is handed it and hands it back, in a call that was handed the media of these parts.
///
/// # Errors
///
/// As a guest's message is refused.
pub fn message(message: &Message, handed: &[Part]) -> Result<Message, Fault> {
    plugin::convert::message(
        plugin::convert::message_to_wit(message),
        &plugin::convert::GuestMediaIndex::in_parts(handed),
    )
}

/// A message as a guest with these powers sees it.
///
/// # Errors
///
/// As a guest's message is refused.
pub fn message_seen(message: &Message, powers: &Powers) -> Result<Message, Fault> {
    let attached = plugin::convert::GuestMediaIndex::in_parts(&message.parts);
    plugin::convert::message(plugin::convert::message_seen(message, powers), &attached)
}

/// A completion as a guest is handed it and hands it back.
///
/// # Errors
///
/// As a guest's completion is refused.
pub fn completion(completion: &Completion) -> Result<Completion, Fault> {
    let attached = plugin::convert::GuestMediaIndex::in_parts(&completion.parts);
    plugin::convert::completion(plugin::convert::completion_to_wit(completion), &attached)
}

/// A failure as a guest is handed it and hands it back.
pub fn fault(fault: &Fault) -> Fault {
    plugin::convert::fault(plugin::convert::fault_to_wit(fault))
}

/// A tool as a guest describes it.
///
/// # Errors
///
/// Why it cannot be offered.
pub fn tool_spec(name: &str, description: &str, schema: &str) -> Result<ToolSpec, String> {
    plugin::convert::described(name, description, schema)
}

/// The events of a stream in these pieces, each of at most `limit` bytes, as name and data; and what it failed with.
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

/// What a server that speaks this API says in these pieces.
///
/// # Errors
///
/// As its reply is refused.
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

/// A line of a session's journal that has these members, with the checksum that belongs to it.
pub fn journal_line(members: &str) -> Vec<u8> {
    session::line_of(members)
}
