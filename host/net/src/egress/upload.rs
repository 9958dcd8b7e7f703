//! The body of a request, complete or streamed.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tokio::sync::mpsc;

use super::{BoxError, Egress, EgressFacts, EgressFailure, EgressRequest, EgressResponse, facts, hop};
use shelly_core::{capability::is_method, error::Fault, limits};

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
enum BodyCutError {
    #[error("the request was cut off by its sender")]
    Unfinished,
    #[error("the body has another length than was told")]
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
                        Fault::other(format!("the body of the request broke off: {error}")),
                    );
                }
                None if this.length.is_some_and(|length| length > 0) => {
                    return this.cut(
                        BodyCutError::Length,
                        Fault::invalid("the body of the request has fewer bytes than it said"),
                    );
                }
                None => return Poll::Ready(None),
            };
            let came = data.len() as u64;
            if let Some(length) = &mut this.length {
                match length.checked_sub(came) {
                    Some(left) => *length = left,
                    None => {
                        let fault = Fault::invalid("the body of the request has more bytes than it said");
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
    Fault::TooLarge { message: "the body of the request is too large (http_request_bytes)".into() }
}

/// Returns both ends of a body that is written piece by piece.
fn pieces() -> (UploadSender, UploadBody) {
    let (sender, chunks) = mpsc::channel(1);
    let whole = Arc::new(AtomicBool::new(false));
    (UploadSender { chunks: sender, whole: whole.clone() }, UploadBody { chunks, whole })
}

struct UploadSender {
    chunks: mpsc::Sender<Bytes>,
    whole: Arc<AtomicBool>,
}

impl UploadSender {
    /// Marks the body as complete and ends it.
    fn finish(self) {
        self.whole.store(true, Ordering::Release);
    }
}

struct UploadBody {
    chunks: mpsc::Receiver<Bytes>,
    whole: Arc<AtomicBool>,
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = BodyCutError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Poll::Ready(match ready!(self.chunks.poll_recv(cx)) {
            Some(chunk) => Some(Ok(Frame::data(chunk))),
            None if self.whole.load(Ordering::Acquire) => None,
            None => Some(Err(BodyCutError::Unfinished)),
        })
    }
}

type UploadOutcome = Result<EgressResponse, EgressFailure>;

/// A request whose body is written piece by piece. It makes progress only while a call of `write` or `finish` is polled.
/// Dropping it aborts the request.
pub struct EgressUpload {
    exchange: Pin<Box<dyn Future<Output = UploadOutcome> + Send>>,
    /// The outcome, once it is known.
    outcome: Option<UploadOutcome>,
    sender: UploadSender,
    /// `true` if a write came after the response had begun.
    was_refused: bool,
    facts: EgressFacts,
}

impl fmt::Debug for EgressUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EgressUpload")
    }
}

impl Egress {
    /// Returns the facts about a request before it is sent.
    pub fn facts_of(&self, request: &EgressRequest) -> EgressFacts {
        let url = hop::url(&request.url).map_or(String::new(), |url| facts::shown(&url, self.0.searches.all()));
        let method = if is_method(&request.method) { request.method.clone() } else { String::new() };
        EgressFacts { method, url, ..EgressFacts::default() }
    }

    /// Begins a request whose body is written piece by piece; the body of `request` is ignored. The request's time starts
    /// now.
    ///
    /// # Errors
    ///
    /// The errors of [`Egress::send`] that are known at once: an invalid request, or one that is not granted.
    pub fn begin(&self, request: EgressRequest) -> Result<EgressUpload, EgressFailure> {
        let facts = self.facts_of(&request);
        let (sender, pieces) = pieces();
        let request = EgressRequest { body: EgressRequestBody::stream(pieces, None), ..request };
        let egress = self.clone();
        let mut exchange: Pin<Box<dyn Future<Output = UploadOutcome> + Send>> =
            Box::pin(async move { egress.send(request).await });
        let outcome = match exchange.as_mut().now_or_never() {
            Some(Err(failure)) => return Err(failure),
            outcome => outcome,
        };
        Ok(EgressUpload { exchange, outcome, sender, was_refused: false, facts })
    }
}

impl EgressUpload {
    /// Returns the facts known so far.
    pub fn facts(&self) -> &EgressFacts {
        match &self.outcome {
            Some(Ok(response)) => &response.facts,
            Some(Err(failure)) => &failure.facts,
            None => &self.facts,
        }
    }

    /// Sends more of the body. Waits while the network is behind.
    ///
    /// # Errors
    ///
    /// The errors of [`Egress::send`]; [`Fault::Other`] if the server has responded before it received the whole body:
    /// nothing more is sent then, and [`EgressUpload::finish`] returns the response.
    pub async fn write(&mut self, mut chunk: Bytes) -> Result<(), Fault> {
        while !chunk.is_empty() {
            let piece = chunk.split_to(chunk.len().min(limits::EGRESS_CHUNK_BYTES));
            if self.outcome.is_none() {
                tokio::select! {
                    biased;
                    outcome = &mut self.exchange => self.outcome = Some(outcome),
                    sent = self.sender.chunks.send(piece) => {
                        if sent.is_ok() {
                            continue;
                        }
                        // The receiver is gone: the exchange is about to end.
                        self.outcome = Some((&mut self.exchange).await);
                    }
                }
            }
            self.was_refused = true;
            return Err(match &self.outcome {
                Some(Err(failure)) => failure.fault.clone(),
                _ => Fault::other("the server has answered before it heard all: finish the upload to read its answer"),
            });
        }
        Ok(())
    }

    /// Ends the body and waits for the head of the response. If a write was refused, the body remains incomplete: the
    /// request is aborted when its response is dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`Egress::send`].
    pub async fn finish(self) -> Result<EgressResponse, EgressFailure> {
        let Self { exchange, outcome, sender, was_refused, .. } = self;
        match outcome {
            Some(outcome) if was_refused => {
                let mut response = outcome?;
                response.body.hold(Box::new(sender));
                Ok(response)
            }
            Some(outcome) => {
                sender.finish();
                outcome
            }
            None => {
                sender.finish();
                exchange.await
            }
        }
    }
}
