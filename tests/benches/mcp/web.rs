//! The protocol's library over HTTP, with nothing but reqwest below it.

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt, stream::BoxStream};
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        StreamableHttpClientTransport,
        common::http_header::{HEADER_LAST_EVENT_ID, HEADER_SESSION_ID},
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Sse, SseStream};

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A connection with so many requests under way at most.
pub fn transport(client: &Client, url: &str, at_once: usize) -> StreamableHttpClientTransport<Web> {
    let config = StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(at_once);
    StreamableHttpClientTransport::with_client(Web(client.clone()), config)
}

#[derive(Clone)]
pub struct Web(Client);

impl Web {
    async fn send(&self, request: reqwest::RequestBuilder, headers: Headers) -> Result<Response, HttpError> {
        let request =
            request.header("accept", "text/event-stream, application/json").headers(headers.into_iter().collect());
        request.send().await.map_err(HttpError::Client)
    }
}

fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    SseStream::from_bytes_stream(response.bytes_stream()).boxed()
}

impl StreamableHttpClient for Web {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request = self.0.post(&*url).json(&message);
        if let Some(session) = &session {
            request = request.header(HEADER_SESSION_ID, &**session);
        }
        let response = self.send(request, headers).await?.error_for_status().map_err(HttpError::Client)?;
        let text = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (kind, session) = (text(CONTENT_TYPE.as_str()).unwrap_or_default(), text(HEADER_SESSION_ID));
        match kind.split(';').next() {
            Some("text/event-stream") => Ok(StreamableHttpPostResponse::Sse(events(response), session)),
            Some("application/json") => {
                let bytes = response.bytes().await.map_err(HttpError::Client)?;
                Ok(StreamableHttpPostResponse::Json(serde_json::from_slice(&bytes)?, session))
            }
            _ => Ok(StreamableHttpPostResponse::Accepted),
        }
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.send(self.0.delete(&*url).header(HEADER_SESSION_ID, &*session), headers).await.map(drop)
    }

    async fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let mut request = self.0.get(&*url);
        for (name, value) in [(HEADER_SESSION_ID, session.as_deref()), (HEADER_LAST_EVENT_ID, last_event.as_deref())] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let response = self.send(request, headers).await?;
        match response.status().is_success() {
            true => Ok(events(response)),
            false => Err(HttpError::ServerDoesNotSupportSse),
        }
    }
}
