use async_trait::async_trait;
use url::Url;

use super::{
    adapter::{AdapterConfig, ModelAdapter},
    incoming::{Incoming, Source},
    names::{NameRule, Names},
};
use crate::{
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ToolChoice},
    net::HttpClient,
};

/// What a vendor's API is like, as far as it differs from the others.
#[async_trait]
pub trait Wire: Send + Sync {
    /// What the vendor takes as the name of a tool.
    const NAMES: NameRule;

    /// Headers that each request wants. One of the same name in the config takes the place of it.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Fields of a request that the host writes itself: in the body of a config they would be there twice.
    const FIELDS: &[&str];

    /// Where completions are asked for.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the base URL is none.
    fn url(&self, adapter: &ModelAdapter) -> Result<Url, Fault>;

    /// A request for a stream, made into JSON with [`ModelAdapter::json`].
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the request cannot be said in this API.
    fn body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault>;

    /// Reads a reply to its end, or to where it says that it ends; pieces go to `sink` as they come.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if the reply is cut off, garbled or silent for too long, [`Fault::TooLarge`] if it or one event
    /// of it is, and whatever an error inside it means.
    async fn read(
        &self,
        reply: Incoming,
        source: &Source<'_>,
        names: &Names,
        sink: &DeltaSink,
    ) -> Result<Completion, Fault>;
}

/// A model behind an HTTP API.
pub struct HttpModel<W> {
    adapter: ModelAdapter,
    wire: W,
}

impl<W: Wire> HttpModel<W> {
    /// A model; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Those of [`ModelAdapter::new`].
    pub fn new(client: HttpClient, mut config: AdapterConfig, wire: W) -> Result<Self, Fault> {
        config.add_headers(wire.headers());
        Ok(Self { adapter: ModelAdapter::new(client, config)?, wire })
    }
}

#[async_trait]
impl<W: Wire> Completer for HttpModel<W> {
    fn info(&self) -> &ModelInfo {
        self.adapter.info()
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let names = Names::of(&W::NAMES, request.tools.iter().map(AsRef::as_ref));
        let names = if request.tool_choice == ToolChoice::Never { names.not_offered() } else { names };
        let body = self.wire.body(&self.adapter, request)?;
        let reply = self.adapter.post(self.wire.url(&self.adapter)?, body).await?;
        let source = self.adapter.source();
        self.wire.read(Incoming::of(reply.into_stream(), &source).await?, &source, &names, sink).await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{
        chat::{Chat, Message},
        model::{RateLimit, RateLimitConfig, RateLimited},
        net::test_server::{TestServer, answer},
        provider::ChatCompletions,
    };

    #[tokio::test]
    async fn a_server_that_says_that_nothing_is_left_is_left_alone_for_as_long() {
        let headers = "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 300ms\r\n";
        let reply = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
        let server = TestServer::start(vec![answer("200 OK", headers, reply), answer("200 OK", "", reply)]).await;
        let limit = Arc::new(RateLimit::new(RateLimitConfig::default()));
        let config = AdapterConfig { limit: Some(limit.clone()), ..AdapterConfig::new(&server.url, "m") };
        let model = HttpModel::new(HttpClient::new().unwrap(), config, ChatCompletions::default()).unwrap();
        let model = RateLimited::new(Arc::new(model), limit);
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
