//! Helpers for the tests of vendors' batches.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, value::RawValue};
use tokio::time::Instant;

use super::{BatchProtocol, HttpBatches};
use crate::AdapterConfig;
use shelly_core::{
    chat::{ChatSnapshot, Message, PropertyNames, ToolHints, ToolSpec},
    error::Fault,
    model::{BatchId, BatchResults, Completion, CompletionRequest},
};
use shelly_net::{AuthHeader, HttpClient};
use shelly_test_support::{CannedResponse, TestServer};

/// Starts a server with these responses, whose API begins at `path`, and returns the batches of its model `m-1`.
pub async fn served<W: BatchProtocol>(
    answers: Vec<CannedResponse>,
    path: &str,
    auth: AuthHeader,
    wire: W,
) -> (TestServer, HttpBatches<W>) {
    let server = TestServer::start(answers).await;
    let base_url = format!("{}{path}", server.url);
    let config = AdapterConfig { auth: Some(auth), retries: 0, ..AdapterConfig::new(base_url, "m-1") };
    (server, HttpBatches::new(HttpClient::new().unwrap(), config, wire).unwrap())
}

/// Returns requests with these ids, which are also their prompts. Each has a tool whose schema is written on several lines.
pub fn requests(ids: &[&str]) -> Vec<(String, CompletionRequest)> {
    let schema = RawValue::from_string("{\n\"type\":\r\n\"object\",\"properties\":{}}".into()).unwrap();
    let (name, description, hints) = ("look".into(), String::new(), ToolHints::default());
    let tool = Arc::new(ToolSpec {
        name,
        description,
        input_schema: schema.into(),
        hints,
        property_names: PropertyNames::default(),
    });
    let request = |id: &&str| {
        let messages = ChatSnapshot::from_messages(vec![Message::user(*id)]).unwrap();
        ((*id).into(), CompletionRequest::new(messages, Arc::new([Arc::clone(&tool)])))
    };
    ids.iter().map(request).collect()
}

/// Parses the id of a batch.
pub fn id(id: &str) -> BatchId {
    id.parse().unwrap()
}

/// A response after which the connection closes.
pub fn cut(bytes: Vec<u8>) -> CannedResponse {
    CannedResponse { bytes, stays: false }
}

/// Returns the head and body of a request that the server received.
pub fn sent(server: &TestServer, at: usize) -> (String, String) {
    let request = &server.requests()[at];
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    (format!("{head}\r\n"), body.into())
}

/// Returns the lines of the file in a form, parsed.
pub fn entries(form: &str) -> Vec<Value> {
    let (_, file) = form.rsplit_once("\r\n\r\n").unwrap();
    let (file, _) = file.split_once("\r\n--").unwrap();
    file.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the texts of replies by id, in the order in which they came.
pub fn texts(results: &BatchResults) -> Vec<(&str, String)> {
    let text = |reply: &Completion| reply.clone().into_message("").text_content();
    results.iter().filter_map(|(id, result)| Some((id.as_str(), text(result.as_ref().ok()?)))).collect()
}

/// Returns the kinds of faults by id, in the order in which they came.
pub fn kinds(results: &BatchResults) -> Vec<(&str, String)> {
    let kind = |fault: &Fault| serde_json::to_value(fault).unwrap()["kind"].as_str().unwrap().to_owned();
    results.iter().filter_map(|(id, result)| Some((id.as_str(), kind(result.as_ref().err()?)))).collect()
}

/// Awaits `question` to a silent server and returns its output and duration. Once the server has received `asked` requests,
/// the clock is paused and advances only through timers.
pub async fn in_silence<T>(server: &TestServer, asked: usize, question: impl Future<Output = T>) -> (T, Duration) {
    let is_asked = async {
        while server.requests().len() < asked {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        Instant::now()
    };
    let (since, (outcome, until)) = futures_util::join!(is_asked, async { (question.await, Instant::now()) });
    (outcome, until - since)
}
