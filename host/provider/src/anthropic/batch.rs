//! Anthropic's Message Batches API.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Anthropic, request, url};
use crate::{
    adapter::ModelAdapter,
    batch::{self, BatchProtocol, BatchResultCollector, CreatedObject, HttpBatchEntry, HttpBatchOutcome},
    incoming_reply::ReplySource,
};
use shelly_core::{
    error::Fault,
    model::{BatchId, BatchState, CompletionRequest},
};

/// The path of the batches below the API version.
const BATCHES: [&str; 2] = ["messages", "batches"];

#[async_trait]
impl BatchProtocol for Anthropic {
    fn whole_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        adapter.completion_json(request, &request::body(adapter, request, self.cache)?, request::MERGED)
    }

    async fn submit(&self, adapter: &ModelAdapter, entries: &[HttpBatchEntry<'_>]) -> Result<BatchId, Fault> {
        let requests =
            entries.iter().map(|entry| AnthropicBatchEntry { custom_id: entry.id, params: &entry.body }).collect();
        let json = serde_json::to_vec(&AnthropicBatchRequest { requests }).map_err(batch::unwritable)?;
        let made: CreatedObject = batch::make(adapter, url(adapter, &BATCHES)?, "application/json", json).await?;
        made.id.parse()
    }

    async fn poll(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<BatchState, Fault> {
        let wire: AnthropicBatch =
            batch::state(adapter, url(adapter, &[BATCHES[0], BATCHES[1], batch.as_str()])?).await?;
        if wire.processing_status == "ended" {
            return Ok(BatchState::Ended);
        }
        let counts = wire.request_counts.unwrap_or_default();
        let done = [counts.succeeded, counts.errored, counts.cancelled, counts.expired];
        Ok(BatchState::Working { done: done.into_iter().flatten().fold(0, u64::saturating_add) })
    }

    async fn results(
        &self,
        adapter: &ModelAdapter,
        batch: &BatchId,
        results: &mut BatchResultCollector<'_, Self>,
    ) -> Result<(), Fault> {
        let url = url(adapter, &[BATCHES[0], BATCHES[1], batch.as_str(), "results"])?;
        let reply = adapter.client().get(&batch::downloading(adapter, url)).await?;
        results.take_lines(reply.into_stream(), outcome).await
    }

    async fn cancel(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<(), Fault> {
        let url = url(adapter, &[BATCHES[0], BATCHES[1], batch.as_str(), "cancel"])?;
        adapter.post(url, vec![]).await.map(drop)
    }
}

#[derive(Serialize)]
struct AnthropicBatchRequest<'a> {
    requests: Vec<AnthropicBatchEntry<'a>>,
}

#[derive(Serialize)]
struct AnthropicBatchEntry<'a> {
    custom_id: &'a str,
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct AnthropicBatch {
    processing_status: String,
    request_counts: Option<AnthropicBatchCounts>,
}

#[derive(Default, Deserialize)]
struct AnthropicBatchCounts {
    succeeded: Option<u64>,
    errored: Option<u64>,
    #[serde(rename = "canceled")]
    cancelled: Option<u64>,
    expired: Option<u64>,
}

#[derive(Deserialize)]
struct AnthropicBatchLine<'a> {
    custom_id: String,
    #[serde(borrow)]
    result: AnthropicBatchResult<'a>,
}

#[derive(Deserialize)]
struct AnthropicBatchResult<'a> {
    r#type: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// An error response, which contains the error proper.
#[derive(Deserialize)]
struct AnthropicErrorBody<'a> {
    #[serde(borrow)]
    error: &'a RawValue,
}

fn outcome<'a>(source: &ReplySource<'_>, line: &'a [u8]) -> Result<HttpBatchOutcome<'a>, serde_json::Error> {
    let AnthropicBatchLine { custom_id: id, result } = serde_json::from_slice(line)?;
    let reply = match (result.r#type.as_str(), result.message, result.error) {
        ("succeeded", Some(message), _) => Ok(message),
        ("errored", _, Some(error)) => {
            let inner = serde_json::from_str(error.get()).map_or(error, |AnthropicErrorBody { error }| error);
            Err(source.fault(inner.get()))
        }
        ("canceled", ..) => Err(Fault::other(format!("{} cancelled the request with its batch", source.origin))),
        ("expired", ..) => Err(source.unavailable("did not process the request before its batch expired")),
        (other, ..) => {
            let what = format!("reported the unknown state `{}` of a request in a batch", source.word(other));
            Err(source.unavailable(&what))
        }
    };
    Ok(HttpBatchOutcome { id, reply })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::batch::{
        HttpBatches,
        testing::{cut, id, in_silence, kinds, requests, sent, served, texts},
    };
    use shelly_core::{limits, model::BatchSubmitter};
    use shelly_net::{AuthHeader, Secret};
    use shelly_test_support::{CannedResponse, TestServer, answer};

    async fn served_by(answers: Vec<CannedResponse>) -> (TestServer, HttpBatches<Anthropic>) {
        let auth = AuthHeader::header("x-api-key", Secret::new("sk-secret"));
        served(answers, "", auth, Anthropic { cache: false, ..Anthropic::default() }).await
    }

    fn line(id: &str, result: &Value) -> String {
        json!({"custom_id": id, "result": result}).to_string() + "\n"
    }

    fn succeeded(text: &str) -> Value {
        let content = json!([{"type": "text", "text": text}]);
        let usage = json!({"input_tokens": 3, "output_tokens": 2});
        json!({"type": "succeeded", "message": {"type": "message", "role": "assistant", "model": "m-2",
            "content": content, "stop_reason": "end_turn", "usage": usage}})
    }

    #[tokio::test]
    async fn a_batch_is_made_of_bodies_without_streams() {
        let made = json!({"id": "msgbatch_1", "type": "message_batch", "processing_status": "in_progress"});
        let (server, batches) = served_by(vec![answer("200 OK", "", &made.to_string())]).await;
        assert_eq!(batches.submit(&requests(&["a", "b"])).await.unwrap().as_str(), "msgbatch_1");
        let (head, body) = sent(&server, 0);
        assert!(head.starts_with("POST /v1/messages/batches HTTP/1.1\r\n"), "{head}");
        for header in ["x-api-key: sk-secret", "anthropic-version: 2023-06-01", "content-type: application/json"] {
            assert!(head.contains(&format!("{header}\r\n")), "{head}");
        }
        let params = |text: &str| {
            let content = json!([{"type": "text", "text": text}]);
            let tool = json!({"name": "look", "input_schema": {"type": "object", "properties": {}}});
            json!({"model": "m-1", "max_tokens": limits::ANTHROPIC_REPLY_TOKENS, "tools": [tool],
                "messages": [{"role": "user", "content": content}]})
        };
        let entry = |id: &str| json!({"custom_id": id, "params": params(id)});
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body, json!({"requests": [entry("a"), entry("b")]}));
    }

    #[tokio::test]
    async fn a_batch_says_how_far_it_is() {
        let counts = json!({"processing": 1, "succeeded": 2, "errored": 3, "canceled": 4, "expired": 5});
        let odd = json!({"succeeded": u64::MAX, "errored": 1});
        let state = |status: &str, counts: &Value| {
            json!({"id": "x", "processing_status": status, "request_counts": counts}).to_string()
        };
        for (body, expected) in [
            (state("in_progress", &counts), Some(BatchState::Working { done: 14 })),
            (state("canceling", &odd), Some(BatchState::Working { done: u64::MAX })),
            (state("something_new", &Value::Null), Some(BatchState::Working { done: 0 })),
            (state("ended", &counts), Some(BatchState::Ended)),
            ("{}".into(), None),
            ("<html>".into(), None),
        ] {
            let (server, batches) = served_by(vec![answer("200 OK", "", &body)]).await;
            let found = batches.poll(&id("msgbatch_1")).await;
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{body}: {found:?}");
            assert!(found.is_ok() || matches!(found, Err(Fault::Unavailable { .. })), "{found:?}");
            assert!(sent(&server, 0).0.starts_with("GET /v1/messages/batches/msgbatch_1 HTTP/1.1\r\n"));
        }
    }

    #[tokio::test]
    async fn silent_batch_vendor_times_out() {
        let (server, batches) = served_by(vec![CannedResponse { bytes: vec![], stays: true }]).await;
        let (found, time) = in_silence(&server, 1, batches.poll(&id("msgbatch_1"))).await;
        assert!(matches!(found, Err(Fault::Timeout { .. })), "{found:?}");
        assert!(time.as_secs() <= limits::BATCH_POLL_TIME.as_secs(), "{time:?}");
    }

    #[tokio::test]
    async fn results_find_their_requests() {
        let error = |kind: &str| json!({"type": kind, "message": "no luck with sk-secret"});
        let errored = |error: Value| json!({"type": "errored", "error": error});
        let lines = [
            line("e", &errored(json!({"type": "error", "error": error("invalid_request_error")}))),
            line("f", &errored(error("overloaded_error"))),
            "this is no JSON\n".into(),
            line("a", &succeeded("first")),
            line("a", &succeeded("second")),
            line("nobody's", &succeeded("stray")),
            line("x", &json!({"type": "canceled"})),
            line("p", &json!({"type": "expired"})),
            line("o", &json!({"type": "sk-secret"})),
            line("s", &json!({"type": "succeeded"})),
            line("long", &succeeded(&"x".repeat(limits::REPLY_BYTES))),
            // The last line has no terminator.
            line("b", &succeeded("third")).trim_end().into(),
        ]
        .concat();
        let (server, batches) = served_by(vec![answer("200 OK", "", &lines)]).await;
        let wanted = requests(&["a", "b", "e", "f", "x", "p", "o", "s", "long", "missing"]);
        let results = batches.results(&id("msgbatch_1"), &wanted).await.unwrap();
        assert!(sent(&server, 0).0.starts_with("GET /v1/messages/batches/msgbatch_1/results HTTP/1.1\r\n"));
        assert_eq!(texts(&results), [("a", "first".into()), ("b", "third".into())]);
        let expected = [
            ("e", "invalid"),
            ("f", "unavailable"),
            ("x", "other"),
            ("p", "unavailable"),
            ("o", "unavailable"),
            ("s", "unavailable"),
        ];
        assert_eq!(kinds(&results), expected.map(|(id, kind)| (id, kind.to_owned())));
        assert!(!format!("{results:?}").contains("sk-secret"), "{results:?}");
        let usage = &results.iter().find(|(id, _)| id == "a").unwrap().1.as_ref().unwrap().usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (3, 2));
    }

    #[tokio::test]
    async fn results_that_are_cut_off_are_none() {
        let lines = line("a", &succeeded("first")) + &line("b", &succeeded("second"));
        let whole = answer("200 OK", "", &lines).bytes;
        let inside = whole.len() - 20;
        // The body is cut off once with an announced length and once without one.
        let unannounced = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", &lines[..lines.len() - 20]);
        for bytes in [whole[..inside].to_vec(), unannounced.into_bytes()] {
            let (_server, batches) = served_by(vec![cut(bytes)]).await;
            let fault = batches.results(&id("msgbatch_1"), &requests(&["a", "b"])).await.unwrap_err();
            assert!(matches!(&fault, Fault::Unavailable { .. }) && fault.to_string().contains("ended its reply early"));
        }
        // Once all results are there, the rest of the stream is not read.
        let (_server, batches) = served_by(vec![cut(whole[..inside].to_vec())]).await;
        assert_eq!(texts(&batches.results(&id("x"), &requests(&["a"])).await.unwrap()), [("a", "first".into())]);
    }

    #[tokio::test]
    async fn anthropic_batch_is_cancelled_by_id() {
        let (server, batches) = served_by(vec![answer("200 OK", "", "{}"), answer("200 OK", "", "{}")]).await;
        batches.cancel(&id("msgbatch_1")).await.unwrap();
        let (head, body) = sent(&server, 0);
        assert!(head.starts_with("POST /v1/messages/batches/msgbatch_1/cancel HTTP/1.1\r\n"), "{head}");
        assert_eq!(body, "");
        batches.cancel(&id("a/b")).await.unwrap();
        assert!(sent(&server, 1).0.starts_with("POST /v1/messages/batches/a%2Fb/cancel HTTP/1.1\r\n"));
    }

    #[tokio::test]
    async fn an_id_that_cannot_be_asked_for_is_refused() {
        let (_server, batches) = served_by(vec![answer("200 OK", "", r#"{"id": "../x"}"#)]).await;
        let fault = batches.submit(&requests(&["a"])).await.unwrap_err();
        assert!(matches!(fault, Fault::Other { .. }), "{fault:?}");
    }
}
