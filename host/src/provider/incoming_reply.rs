//! A reply as it begins to come: a stream of events, or one piece of JSON where a server does not stream.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::sse::SseEventStream;
use crate::{
    error::Fault,
    limits,
    net::{ByteStream, Secret, fault_in_reply, shown},
};

/// Whom a reply comes from.
#[derive(Clone, Copy)]
pub struct ReplySource<'a> {
    /// The server, for messages.
    pub origin: &'a str,
    /// The model that was asked.
    pub model: &'a str,
    /// What nothing that the server says may show.
    pub secrets: &'a [Secret],
}

impl ReplySource<'_> {
    /// The server failed at it; it may pass.
    pub fn unavailable(&self, what: &str) -> Fault {
        Fault::Unavailable { message: format!("{} {what}", self.origin), after: None }
    }

    /// The server sent what cannot be read.
    pub fn garbled(&self, error: &serde_json::Error) -> Fault {
        // What the parser says may quote the reply, and so whatever is in it.
        let error = shown(&error.to_string(), self.secrets, limits::ERROR_BYTES);
        self.unavailable(&format!("sent something that is no part of a reply: {error}"))
    }

    /// What an error object means that came in place of a reply or in its middle: the value of its `error` key, JSON.
    pub fn fault(&self, error: &str) -> Fault {
        fault_in_reply(self.origin, error, self.secrets)
    }

    /// A word of the server as it may be shown.
    pub fn word(&self, word: &str) -> String {
        shown(word, self.secrets, limits::REPLY_WORD_BYTES)
    }
}

/// The beginning of a reply.
pub enum IncomingReply {
    /// A stream of events.
    Events(Box<SseEventStream>),
    /// All of it, JSON.
    Json(Vec<u8>),
}

impl IncomingReply {
    /// Looks at the first byte. The content type is not asked: some servers send either kind under the other's name.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if there is nothing, [`Fault::TooLarge`] for too much, [`Fault::Other`] for a web page, and what
    /// the stream fails with.
    pub async fn of(mut stream: ByteStream, source: &ReplySource<'_>) -> Result<Self, Fault> {
        let (mut start, mut blank): (Vec<u8>, usize) = (Vec::new(), 0);
        let first = loop {
            if let Some(at) = start.iter().position(|byte| !byte.is_ascii_whitespace()) {
                // What stands before it is left out, into however many pieces it was cut.
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
                let page = "answered with a web page: is this the base URL of an API?";
                Err(Fault::other(format!("{} {page}", source.origin)))
            }
            _ => Ok(Self::Events(Box::new(SseEventStream::new(stream, limits::STREAM_EVENT_BYTES)))),
        }
    }

    /// Bounds the time for which a stream may go on without moving the reply on.
    pub fn with_idle_time(self, time: Duration) -> Self {
        match self {
            Self::Events(events) => Self::Events(Box::new(events.with_idle_time(time))),
            json @ Self::Json(_) => json,
        }
    }
}

/// A reply has more than [`limits::REPLY_BYTES`].
pub fn too_large() -> Fault {
    Fault::TooLarge { message: format!("the reply has more than {} bytes", limits::REPLY_BYTES) }
}
