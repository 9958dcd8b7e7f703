//! A request whose body is written piece by piece.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use super::{
    egress::Egress,
    egress_request::EgressRequest,
    egress_response::EgressResponse,
    facts::{self, EgressFacts, EgressFailure},
    hop,
    request_body::{BodyCutError, EgressRequestBody},
};
use shelly_core::{capability::is_method, error::Fault, limits};

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
                _ => Fault::other(
                    "the server answered before the end of the upload; finish the upload to read the answer",
                ),
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
