//! The body of a request, complete or streamed.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};

use super::box_error::BoxError;
use shelly_core::{error::Fault, limits};

/// The body of a request.
pub enum EgressRequestBody {
    /// The complete body; empty: no body.
    Bytes(Bytes),
    /// A streamed body. An error in it aborts the request. Trailers are dropped.
    Stream {
        /// The bytes of the body.
        body: UnsyncBoxBody<Bytes, BoxError>,
        /// The length, if it is known: a body of another length aborts the request.
        length: Option<u64>,
    },
}

impl Default for EgressRequestBody {
    /// Returns an empty body.
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl fmt::Debug for EgressRequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream { length, .. } => write!(f, "a stream of {length:?} bytes"),
        }
    }
}

impl EgressRequestBody {
    /// Creates a streamed body.
    pub fn stream<B>(body: B, length: Option<u64>) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self::Stream { body: body.map_err(Into::into).boxed_unsync(), length }
    }

    /// Returns a copy of the body, unless it is streamed.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Bytes(bytes) => Some(Self::Bytes(bytes.clone())),
            Self::Stream { .. } => None,
        }
    }
}

/// The reason why a body ended early, as reported to the HTTP client.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyCutError {
    #[error("the request was cut off by its sender")]
    Unfinished,
    #[error("the body does not have the announced length")]
    Length,
    #[error("the body has too many bytes")]
    TooLarge,
}

/// The reason why the body of a request was cut off, once it was.
pub(super) type BodyCutReason = Arc<OnceLock<Fault>>;

/// A body in transit, with its bytes counted.
pub(super) struct CountedBody {
    /// The lock only satisfies the compiler, which requires `Sync`; the body is never shared.
    body: Mutex<UnsyncBoxBody<Bytes, BoxError>>,
    /// The rest of a frame that is larger than a piece.
    rest: Bytes,
    /// The number of bytes that may still follow.
    left: u64,
    length: Option<u64>,
    why: BodyCutReason,
}

impl CountedBody {
    /// Wraps a body, limited to `most` bytes.
    pub fn new(body: UnsyncBoxBody<Bytes, BoxError>, length: Option<u64>, most: u64, why: BodyCutReason) -> Self {
        Self { body: Mutex::new(body), rest: Bytes::new(), left: most, length, why }
    }

    fn cut(&self, cut: BodyCutError, fault: Fault) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Only the first reason is kept.
        let _ = self.why.set(fault);
        Poll::Ready(Some(Err(cut.into())))
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let most = self.rest.len().min(limits::EGRESS_CHUNK_BYTES);
        Frame::data(self.rest.split_to(most))
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        loop {
            if !this.rest.is_empty() {
                return Poll::Ready(Some(Ok(this.piece())));
            }
            let body = this.body.get_mut().unwrap_or_else(PoisonError::into_inner);
            let data = match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return this.cut(
                        BodyCutError::Unfinished,
                        Fault::other(format!("the body of the request ended early: {error}")),
                    );
                }
                None if this.length.is_some_and(|length| length > 0) => {
                    return this.cut(
                        BodyCutError::Length,
                        Fault::invalid("the body of the request has fewer bytes than announced"),
                    );
                }
                None => return Poll::Ready(None),
            };
            let came = data.len() as u64;
            if let Some(length) = &mut this.length {
                match length.checked_sub(came) {
                    Some(left) => *length = left,
                    None => {
                        let fault = Fault::invalid("the body of the request has more bytes than announced");
                        return this.cut(BodyCutError::Length, fault);
                    }
                }
            }
            let Some(left) = this.left.checked_sub(came) else {
                return this.cut(BodyCutError::TooLarge, too_large());
            };
            (this.left, this.rest) = (left, data);
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.length {
            Some(length) => SizeHint::with_exact(length + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

pub(super) fn too_large() -> Fault {
    Fault::TooLarge { message: "the body of the request is too large (limit `http_request_bytes`)".into() }
}
