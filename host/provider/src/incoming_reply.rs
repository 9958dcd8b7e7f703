//! The beginning of a reply: a stream of events, or one JSON document from a server that does not stream.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use shelly_core::{error::Fault, limits, model::Completion};
use shelly_net::sse::{SseEvent, SseEventStream};
use shelly_net::{ByteStream, Secret, fault_in_reply, shown};

/// The server and model that a reply comes from.
#[derive(Clone, Copy)]
pub struct ReplySource<'a> {
    /// The origin of the server, for messages.
    pub origin: &'a str,
    /// The model that the request named.
    pub model: &'a str,
    /// The secrets that are redacted from everything the server sends.
    pub secrets: &'a [Secret],
}

impl ReplySource<'_> {
    /// Returns a transient fault: the server `what`.
    pub fn unavailable(&self, what: &str) -> Fault {
        Fault::Unavailable { message: format!("{} {what}", self.origin), after: None }
    }

    /// Returns the fault for data from the server that cannot be parsed.
    pub fn garbled(&self, error: &serde_json::Error) -> Fault {
        // The parser's message may quote the reply, and so a secret.
        let error = shown(&error.to_string(), self.secrets, limits::ERROR_BYTES);
        self.unavailable(&format!("sent an invalid part of a reply: {error}"))
    }

    /// Returns the fault for an error object that came in place of a reply or in its middle: the JSON value of its `error`
    /// key.
    pub fn fault(&self, error: &str) -> Fault {
        fault_in_reply(self.origin, error, self.secrets)
    }

    /// Returns a word from the server, redacted and shortened for display.
    pub fn word(&self, word: &str) -> String {
        shown(word, self.secrets, limits::REPLY_WORD_BYTES)
    }
}

/// The beginning of a reply.
pub enum IncomingReply {
    /// A stream of events.
    Events(Box<SseEventStream>),
    /// A whole reply, as JSON.
    Json(Vec<u8>),
}

impl IncomingReply {
    /// Detects the kind of reply by its first byte. The content type is ignored: some servers send either kind with the
    /// other's type.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if the reply is empty, [`Fault::TooLarge`] if it is too large, [`Fault::Other`] for a web
    /// page, and the faults of the stream.
    pub async fn of(mut stream: ByteStream, source: &ReplySource<'_>) -> Result<Self, Fault> {
        let (mut start, mut blank): (Vec<u8>, usize) = (Vec::new(), 0);
        let first = loop {
            if let Some(at) = start.iter().position(|byte| !byte.is_ascii_whitespace()) {
                // Drops the leading white space of this chunk.
                start.drain(..at);
                break start[0];
            }
            blank += start.len();
            if blank > limits::REPLY_BYTES {
                return Err(too_large());
            }
            match stream.next().await {
                Some(chunk) => start = chunk?,
                None => return Err(source.unavailable("sent an empty reply")),
            }
        };
        let mut stream = stream::iter([Ok(start)]).chain(stream).boxed();
        match first {
            b'{' | b'[' => {
                let mut json = Vec::new();
                while let Some(chunk) = stream.next().await {
                    json.extend(chunk?);
                    if json.len() > limits::REPLY_BYTES {
                        return Err(too_large());
                    }
                }
                Ok(Self::Json(json))
            }
            b'<' => {
                let page = "answered with a web page; check that the base URL is that of an API";
                Err(Fault::other(format!("{} {page}", source.origin)))
            }
            _ => Ok(Self::Events(Box::new(SseEventStream::new(stream, limits::STREAM_EVENT_BYTES)))),
        }
    }

    /// Limits the time for which events may arrive without any progress of the reply.
    pub fn with_idle_time(self, time: Duration) -> Self {
        match self {
            Self::Events(events) => Self::Events(Box::new(events.with_idle_time(time))),
            json @ Self::Json(_) => json,
        }
    }
}

/// A reader of one reply in the wire format of a vendor.
pub trait ReplyReader: Send + Sized {
    /// Reads a stream to its end, or to the event that ends the reply. Deltas go to the sink as they arrive.
    ///
    /// # Errors
    ///
    /// The errors of [`WireProtocol::read`](crate::WireProtocol::read).
    fn read_events(self, events: SseEventStream) -> impl Future<Output = Result<Completion, Fault>> + Send;

    /// Reads a reply of a server that does not stream.
    ///
    /// # Errors
    ///
    /// The errors of [`WireProtocol::read`](crate::WireProtocol::read).
    fn read_json(self, json: &[u8]) -> impl Future<Output = Result<Completion, Fault>> + Send;
}

/// Accepts the failure of a stream after the end of the reply was announced: failing then would repeat the request and pay
/// for the reply again.
///
/// # Errors
///
/// `fault`, if the end was not announced.
pub fn accept_late_failure(fault: Fault, is_end_announced: bool) -> Result<(), Fault> {
    if !is_end_announced {
        return Err(fault);
    }
    tracing::debug!(%fault, "the stream broke after its end was announced");
    Ok(())
}

/// Returns the next event; `None` at the end of the stream, or if it breaks after the end of the reply was announced.
///
/// # Errors
///
/// The faults of the stream before that.
pub async fn next_event(events: &mut SseEventStream, is_end_announced: bool) -> Result<Option<&SseEvent>, Fault> {
    match events.next().await {
        Ok(event) => Ok(event),
        Err(fault) => accept_late_failure(fault, is_end_announced).map(|()| None),
    }
}

/// Returns the fault for a reply of more than [`limits::REPLY_BYTES`].
pub fn too_large() -> Fault {
    Fault::TooLarge { message: format!("the reply has more than {} bytes", limits::REPLY_BYTES) }
}
