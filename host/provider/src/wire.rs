use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::time::Instant;
use url::Url;

use super::{
    adapter::{AdapterConfig, ModelAdapter},
    incoming_reply::{IncomingReply, ReplyReader, ReplySource},
    tool_names::{ToolNameRule, ToolNames},
};
use shelly_core::{
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ToolChoice, Usage},
};
use shelly_net::{FailedAttempt, HttpClient, Retries, RetryObserver, SuccessResponse};

/// The wire format of one vendor's API: the parts in which it differs from the other APIs.
#[async_trait]
pub trait WireProtocol: Send + Sync {
    /// The reader of one reply.
    type Reader<'a>: ReplyReader;

    /// The rule for tool names that the vendor accepts.
    const NAMES: ToolNameRule;

    /// Returns the headers that each request needs. A header of the same name in the config takes precedence.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Fields of the request body that the host writes itself. A config must not set them, since they would appear twice.
    const FIELDS: &[&str];

    /// Returns the address to which completion requests are posted.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the base URL is not a URL.
    fn url(&self, adapter: &ModelAdapter) -> Result<Url, Fault>;

    /// Builds the body of a streaming request, serialized with [`ModelAdapter::json`].
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the request cannot be expressed in this API.
    fn body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault>;

    /// Creates the reader of one reply. `names` are the names of the tools that the request offered.
    fn reader<'a>(&self, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self::Reader<'a>;

    /// Reads a reply to the end of the stream, or to the event that ends the reply. Deltas go to `sink` as they arrive.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if the reply is cut off, garbled, silent for too long, or contains a call that the vendor
    /// itself could not parse; [`Fault::TooLarge`] if the reply, one of its events or the number of its parts is too large;
    /// and the fault that an error object inside the reply stands for.
    async fn read(
        &self,
        reply: IncomingReply,
        source: &ReplySource<'_>,
        names: &ToolNames,
        sink: &DeltaSink,
    ) -> Result<Completion, Fault> {
        let reader = self.reader(source, names, sink);
        match reply {
            IncomingReply::Events(events) => reader.read_events(*events).await,
            IncomingReply::Json(json) => reader.read_json(&json).await,
        }
    }
}

/// A model behind an HTTP API. A reply that fails before any of it was handed on is requested again, like a request that got
/// no reply.
pub struct HttpModel<W> {
    adapter: ModelAdapter,
    wire: W,
}

impl<W: WireProtocol> HttpModel<W> {
    /// Creates a model; sends nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`ModelAdapter::new`].
    pub fn new(client: HttpClient, mut config: AdapterConfig, wire: W) -> Result<Self, Fault> {
        config.add_headers(wire.headers());
        Ok(Self { adapter: ModelAdapter::new(client, config)?, wire })
    }

    async fn read(&self, reply: SuccessResponse, names: &ToolNames, sink: &DeltaSink) -> Result<Completion, Fault> {
        let source = self.adapter.source();
        let incoming =
            IncomingReply::of(reply.into_stream(), &source).await?.with_idle_time(self.adapter.idle_events_time());
        self.wire.read(incoming, &source, names, sink).await
    }
}

#[async_trait]
impl<W: WireProtocol> Completer for HttpModel<W> {
    fn info(&self) -> &ModelInfo {
        self.adapter.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let observer = RetryObserver::of_model(cx, &self.info().name);
        let names = names::<W>(request);
        let deadline = Instant::now() + self.adapter.total();
        let (retries, lost) = (self.adapter.retries(), AtomicUsize::new(0));
        let attempt = || async {
            // The client has already retried failures from before the reply began.
            let at_once = |fault| FailedAttempt { fault, again: false };
            let left = retries.saturating_sub(lost.fetch_add(1, Ordering::Relaxed));
            let body = self.wire.body(&self.adapter, request).map_err(at_once)?;
            let url = self.wire.url(&self.adapter).map_err(at_once)?;
            let reply = self.adapter.post_until(deadline, left, observer.clone(), url, body).await.map_err(at_once)?;
            let (sink, seen) = sink.observed();
            // Overloaded servers also report that inside a stream. Once a part of the reply was handed on or its usage
            // counted, the caller decides whether to pay for another attempt.
            self.read(reply, &names, &sink).await.map_err(|fault| FailedAttempt { fault, again: !seen.is_set() })
        };
        let mut completion = Retries::times(retries).repeat("a reply", deadline, &observer, attempt).await?;
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = completion.usage;
        if output_tokens > 0 && [input_tokens, cache_read_tokens, cache_write_tokens] == [0; 3] {
            // The server reported no input tokens, for example because the reply was cut off before it did: estimate them.
            completion.usage.input_tokens = request.tokens();
        }
        Ok(completion)
    }
}

/// Returns the tools of a request under the names that the vendor accepts.
pub(super) fn names<W: WireProtocol>(request: &CompletionRequest) -> ToolNames {
    let names = ToolNames::of(&W::NAMES, request.tools.iter().map(AsRef::as_ref));
    if request.tool_choice == ToolChoice::Never { names.not_offered() } else { names }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::ChatCompletions;
    use shelly_core::{
        chat::{Chat, Message},
        model::{ProviderRateLimiter, RateLimitConfig, RateLimitedCompleter},
    };
    use shelly_test_support::{TestServer, answer};

    #[tokio::test]
    async fn stream_failure_before_first_delta_is_retried() {
        let whole = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
        let overloaded = "data: {\"error\":{\"message\":\"busy\",\"code\":529}}\n\n";
        let cut = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
        let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"H\"}}]}\n\n";
        let wrong = "data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\n";
        for (first, retries, requests) in [(overloaded, 1, 2), (cut, 1, 2), (cut, 0, 1), (begun, 1, 1), (wrong, 1, 1)] {
            let server = TestServer::start(vec![answer("200 OK", "", first), answer("200 OK", "", whole)]).await;
            let config = AdapterConfig { retries, ..AdapterConfig::new(&server.url, "m") };
            let model = HttpModel::new(HttpClient::new().unwrap(), config, ChatCompletions::default()).unwrap();
            let chat = Chat::new();
            chat.append(Message::user("Hi")).unwrap();
            let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
            let reply = model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await;
            assert_eq!((reply.is_ok(), server.requests().len()), (requests == 2, requests), "{first}{reply:?}");
        }
    }

    #[tokio::test]
    async fn exhausted_rate_limit_header_pauses_provider() {
        let headers = "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 300ms\r\n";
        let reply = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
        let server = TestServer::start(vec![answer("200 OK", headers, reply), answer("200 OK", "", reply)]).await;
        let limit = Arc::new(ProviderRateLimiter::new(RateLimitConfig::default()));
        let config = AdapterConfig { limit: Some(limit.clone()), ..AdapterConfig::new(&server.url, "m") };
        let model = HttpModel::new(HttpClient::new().unwrap(), config, ChatCompletions::default()).unwrap();
        let model = RateLimitedCompleter::new(Arc::new(model), limit);
        let chat = Chat::new();
        chat.append(Message::user("Hi")).unwrap();
        let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
        let cx = RunCx::new("a");
        let started = Instant::now();
        for _ in 0..2 {
            model.complete(&cx, &request, &DeltaSink::none()).await.unwrap();
        }
        assert!(started.elapsed() >= Duration::from_millis(250), "it was asked again after {:?}", started.elapsed());
    }
}
