//! The body of a response, while it is read.

use std::{any::Any, fmt, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::{
    facts::scrubbed,
    request_body::BodyCutReason,
    scrub::{ScrubStream, Scrubber},
    throttle::EgressPermit,
};
use crate::failure::{is_of_decoder, root, timed_out, unavailable};
use shelly_core::{error::Fault, limits};

/// The body of a response, decoded, without credentials. It is read from the network on demand. Dropping it closes the
/// connection; over HTTP/2, only the stream of this request.
pub struct EgressResponseBody {
    open: Option<OpenEgressBody>,
    /// Bytes that were received and not requested yet.
    ready: Bytes,
    failed: Option<Fault>,
}

/// A body that has not ended.
pub(super) struct OpenEgressBody {
    pub response: reqwest::Response,
    pub origin: String,
    pub scrubber: Scrubber,
    pub scrub: ScrubStream,
    /// The number of decoded bytes that may still follow.
    pub left: u64,
    pub deadline: Instant,
    /// The longest silence.
    pub idle: Option<Duration>,
    pub why_cut: BodyCutReason,
    pub _permit: EgressPermit,
    /// An object that must live as long as the body.
    pub held: Option<Box<dyn Any + Send>>,
}

impl fmt::Debug for EgressResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EgressReply({})", self.open.as_ref().map_or("at its end", |open| &open.origin))
    }
}

impl EgressResponseBody {
    pub(super) fn new(open: Option<OpenEgressBody>) -> Self {
        Self { open, ready: Bytes::new(), failed: None }
    }

    /// Returns the next bytes, at least one and at most [`limits::EGRESS_CHUNK_BYTES`]; `None` at the end. Dropping the
    /// future loses nothing.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] beyond the limit of a response, [`Fault::Timeout`] after the request's time,
    /// [`Fault::Unavailable`] if the body was cut off or fell silent, [`Fault::Other`] if it cannot be decoded. Further
    /// calls return the same error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            if !self.ready.is_empty() {
                let most = self.ready.len().min(limits::EGRESS_CHUNK_BYTES);
                return Ok(Some(self.ready.split_to(most)));
            }
            if let Some(fault) = &self.failed {
                return Err(fault.clone());
            }
            let Some(open) = &mut self.open else { return Ok(None) };
            match open.next().await {
                Ok(Some(bytes)) if open.scrubber.is_empty() => self.ready = bytes,
                Ok(Some(bytes)) => self.ready = open.scrub.push(&bytes).into(),
                Ok(None) => self.ready = self.open.take().map(|open| open.scrub.finish().into()).unwrap_or_default(),
                Err(fault) => {
                    self.failed = Some(scrubbed(fault, &open.scrubber));
                    // The bytes received before the failure are delivered first.
                    self.ready = self.open.take().map(|open| open.scrub.finish().into()).unwrap_or_default();
                }
            }
        }
    }

    /// Keeps an object alive until the body is at its end or dropped.
    pub(super) fn hold(&mut self, held: Box<dyn Any + Send>) {
        if let Some(open) = &mut self.open {
            open.held = Some(held);
        }
    }
}

impl OpenEgressBody {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let (origin, deadline) = (&self.origin, self.deadline);
        let silent = self.idle.and_then(|idle| Some((Instant::now().checked_add(idle)?, idle)));
        let silent = silent.filter(|(until, _)| *until < deadline);
        let until = silent.map_or(deadline, |(until, _)| until);
        let came = timeout_at(until, self.response.chunk()).await.map_err(|_| match silent {
            Some((_, idle)) => unavailable(format!("{origin} sent nothing for {idle:?} in the middle of its response")),
            None => timed_out(origin),
        })?;
        let bytes = match came {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.broke(&error)),
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| Fault::TooLarge {
            message: format!("{origin} answered with too many bytes (limit `http_response_bytes`)"),
        })?;
        Ok(Some(bytes))
    }

    fn broke(&self, error: &reqwest::Error) -> Fault {
        let (origin, why) = (&self.origin, root(error));
        if let Some(fault) = self.why_cut.get() {
            return fault.clone();
        }
        if is_of_decoder(error) {
            return Fault::other(format!("{origin} sent a body that cannot be decoded: {why}"));
        }
        unavailable(format!("{origin} ended its response early: {why}"))
    }
}
