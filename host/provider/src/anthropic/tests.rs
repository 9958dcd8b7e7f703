//! Tests of requests, replies and both over a connection.

mod incoming;
mod outgoing;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
    task::JoinHandle,
};

use super::*;
use crate::{AdapterConfig, HttpModel};
use shelly_core::{
    chat::{self, Chat, Media, Message, Part, ToolCall},
    event::RunCx,
    model::{Completer, Completion, DeltaTarget, ReplyDelta},
};
use shelly_net::{AuthHeader, HttpClient, Secret};
use shelly_test_support::{TestServer, answer};

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: vec![] })
}

fn bytes(media_type: &str, name: Option<&str>, bytes: &[u8]) -> Media {
    Media {
        media_type: media_type.into(),
        name: name.map(Into::into),
        source: chat::MediaData::Bytes(Arc::from(bytes)),
    }
}

fn config(base_url: &str) -> AdapterConfig {
    AdapterConfig {
        name: "main".into(),
        auth: Some(AuthHeader::header("x-api-key", Secret::new("sk-secret"))),
        ..AdapterConfig::new(base_url, "claude-x")
    }
}

async fn ask(model: &HttpModel<Anthropic>) -> Result<Completion, Fault> {
    let chat = Chat::new();
    chat.append(Message::user("Hi")).unwrap();
    let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
    model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await
}

#[tokio::test]
async fn a_status_has_its_case() {
    let error = |status, kind: &str| {
        answer(status, "", &json!({"type": "error", "error": {"type": kind, "message": "no"}}).to_string())
    };
    let answers = vec![
        error("400 Bad Request", "invalid_request_error"),
        error("401 Unauthorized", "authentication_error"),
        error("402 Payment Required", "billing_error"),
        error("404 Not Found", "not_found_error"),
        error("413 Content Too Large", "request_too_large"),
        error("429 Too Many Requests", "rate_limit_error"),
        error("500 Internal Server Error", "api_error"),
        error("529 Overloaded", "overloaded_error"),
    ];
    let server = TestServer::start(answers).await;
    let config = AdapterConfig { retries: 0, ..config(&server.url) };
    let model = HttpModel::new(HttpClient::new().unwrap(), config, Anthropic::default()).unwrap();
    let mut seen = Vec::new();
    for _ in 0..8 {
        let fault = serde_json::to_value(ask(&model).await.unwrap_err()).unwrap();
        seen.push(fault["kind"].as_str().unwrap().to_owned());
    }
    let expected =
        ["invalid", "denied", "exhausted", "not_found", "too_large", "rate_limited", "unavailable", "unavailable"];
    assert_eq!(seen, expected);
}

/// A server that sends the first half of a stream and then waits until the client has disconnected.
async fn half_a_reply() -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = [0; 4_096];
        assert!(connection.read(&mut request).await.unwrap() > 0);
        let half = incoming::STREAM.split_once("Grüße").unwrap().0;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n";
        connection.write_all(format!("{head}{half}").as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).await.unwrap_or(0)
    });
    (url, task)
}

#[tokio::test]
async fn a_cancelled_reply_closes_the_connection() {
    struct Told(Notify);
    #[async_trait]
    impl DeltaTarget for Told {
        async fn take(&self, _: ReplyDelta) {
            self.0.notify_one();
        }
    }
    let (url, server) = half_a_reply().await;
    let model = HttpModel::new(HttpClient::new().unwrap(), config(&url), Anthropic::default()).unwrap();
    let told = Arc::new(Told(Notify::new()));
    let chat = Chat::new();
    chat.append(Message::user("Hi")).unwrap();
    let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
    let (cx, sink) = (RunCx::new("a"), DeltaSink::new(told.clone()));
    tokio::select! {
        reply = model.complete(&cx, &request, &sink) => panic!("it is not there yet: {reply:?}"),
        () = told.0.notified() => {}
    }
    // The future was dropped: the server notices.
    server.await.unwrap();
}

#[tokio::test]
async fn a_silent_stream_is_given_up() {
    let (url, server) = half_a_reply().await;
    let config = AdapterConfig { idle: Duration::from_millis(50), retries: 0, ..config(&url) };
    let model = HttpModel::new(HttpClient::new().unwrap(), config, Anthropic::default()).unwrap();
    assert!(matches!(ask(&model).await, Err(Fault::Unavailable { .. })));
    server.await.unwrap();
}
