//! Entry points for fuzzing: parsers of untrusted input that are not part of the public API, one function each.
//!
//! For tests alone: the properties of these functions (`tests/fuzz/claims.rs`) are shared by `cargo test` and the fuzz
//! targets, which are separate packages and reach only public items. There are no stability guarantees.

use futures_util::{FutureExt, StreamExt, stream};
use shelly_core::{
    error::Fault,
    model::{Completion, DeltaSink},
};
use shelly_net::{ByteStream, sse};

use crate::{
    Anthropic, ChatCompletions, Gemini, IncomingReply, ReplySource, ResponsesApi, ToolNames, WireApi, WireProtocol,
};

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
