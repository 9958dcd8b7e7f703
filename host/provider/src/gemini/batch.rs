//! Batches whose requests and replies are inlined in the messages.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use url::Url;

use super::{Gemini, url};
use crate::{
    adapter::ModelAdapter,
    batch::{self, BatchProtocol, BatchResultCollector, HttpBatchEntry, HttpBatchOutcome},
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    limits,
    model::{BatchId, BatchState, CompletionRequest},
};

/// The display name that the vendor requires for a batch.
const DISPLAY_NAME: &str = "shelly-host";

#[async_trait]
impl BatchProtocol for Gemini {
    const BYTES: usize = limits::GEMINI_BATCH_BYTES;

    fn whole_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        // The address selects streaming; the body is the same.
        self.body(adapter, request)
    }

    async fn submit(&self, adapter: &ModelAdapter, entries: &[HttpBatchEntry<'_>]) -> Result<BatchId, Fault> {
        let requests = entries
            .iter()
            .map(|entry| GeminiBatchEntry { request: &entry.body, metadata: GeminiEntryKey { key: entry.id } })
            .collect();
        let requests = GeminiInlinedRequests { requests };
        let new = GeminiNewBatch { display_name: DISPLAY_NAME, input_config: GeminiInputConfig { requests } };
        let json = serde_json::to_vec(&GeminiBatchRequest { batch: new }).map_err(batch::unwritable)?;
        let made: GeminiCreatedBatch =
            batch::make(adapter, url(adapter, "batchGenerateContent")?, "application/json", json).await?;
        made.name.parse()
    }

    async fn poll(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<BatchState, Fault> {
        // Once the batch has ended, the response contains all of its replies.
        let reply = adapter.client().get(&batch::asking_once(adapter, address(adapter, batch, "")?)).await?;
        let bytes = reply.read(limits::BATCH_RESULTS_BYTES).await?;
        let wire: GeminiBatchStatus =
            serde_json::from_slice(&bytes).map_err(|error| adapter.source().garbled(&error))?;
        let metadata = wire.metadata.unwrap_or_default();
        let state = metadata.state.unwrap_or_default();
        let has_ended = ["_SUCCEEDED", "_FAILED", "_CANCELLED", "_EXPIRED"].iter().any(|end| state.ends_with(end));
        if wire.done || has_ended {
            return Ok(BatchState::Ended);
        }
        let stats = metadata.batch_stats.unwrap_or_default();
        let done = [stats.successful_request_count, stats.failed_request_count];
        Ok(BatchState::Working { done: done.iter().map(count).fold(0, u64::saturating_add) })
    }

    async fn results(
        &self,
        adapter: &ModelAdapter,
        batch: &BatchId,
        results: &mut BatchResultCollector<'_, Self>,
    ) -> Result<(), Fault> {
        let request = batch::downloading(adapter, address(adapter, batch, "")?);
        let bytes = adapter.client().get(&request).await?.read(limits::BATCH_RESULTS_BYTES).await?;
        let source = adapter.source();
        let wire: GeminiFinishedBatch = serde_json::from_slice(&bytes).map_err(|error| source.garbled(&error))?;
        let output = wire.response.or_else(|| wire.metadata?.output);
        let Some(replies) = output.and_then(|output| output.inlined_responses) else {
            return wire.error.map_or(Ok(()), |error| Err(source.fault(error.get())));
        };
        let replies = replies.inlined_responses.unwrap_or_default();
        // Replies come in the order of the requests. Replies without keys are assigned by position if none is missing.
        let are_all = replies.len() == results.ids().len() && replies.iter().all(|reply| reply.key().is_none());
        let ids: Vec<_> = if are_all { results.ids().collect() } else { Vec::new() };
        for (at, reply) in replies.iter().enumerate() {
            let Some(id) = reply.key().or_else(|| ids.get(at).copied()) else { continue };
            let outcome = reply.response.ok_or_else(|| batch::failure(&source, reply.error));
            results.take(HttpBatchOutcome { id: id.into(), reply: outcome }).await;
        }
        Ok(())
    }

    async fn cancel(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<(), Fault> {
        adapter.post(address(adapter, batch, ":cancel")?, vec![]).await.map(drop)
    }
}

/// Returns the address of a batch, whose name includes its collection, or of a method of it.
fn address(adapter: &ModelAdapter, batch: &BatchId, method: &str) -> Result<Url, Fault> {
    let path = format!("{batch}{method}");
    adapter.url(&path.split('/').collect::<Vec<_>>())
}

#[derive(Serialize)]
struct GeminiBatchRequest<'a> {
    batch: GeminiNewBatch<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiNewBatch<'a> {
    display_name: &'static str,
    input_config: GeminiInputConfig<'a>,
}

#[derive(Serialize)]
struct GeminiInputConfig<'a> {
    requests: GeminiInlinedRequests<'a>,
}

#[derive(Serialize)]
struct GeminiInlinedRequests<'a> {
    requests: Vec<GeminiBatchEntry<'a>>,
}

#[derive(Serialize)]
struct GeminiBatchEntry<'a> {
    request: &'a RawValue,
    metadata: GeminiEntryKey<'a>,
}

#[derive(Serialize)]
struct GeminiEntryKey<'a> {
    key: &'a str,
}

#[derive(Deserialize)]
struct GeminiCreatedBatch {
    name: String,
}

/// The state of a batch, without its replies.
#[derive(Deserialize)]
struct GeminiBatchStatus {
    #[serde(default)]
    done: bool,
    metadata: Option<GeminiBatchProgress>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiBatchProgress {
    state: Option<String>,
    batch_stats: Option<GeminiBatchStats>,
}

/// Numbers that the vendor writes as strings.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GeminiBatchStats {
    successful_request_count: Value,
    failed_request_count: Value,
}

fn count(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// A finished batch. Its replies are in one of two places.
#[derive(Deserialize)]
struct GeminiFinishedBatch<'a> {
    #[serde(borrow)]
    metadata: Option<GeminiBatchMetadata<'a>>,
    #[serde(borrow)]
    response: Option<GeminiBatchOutput<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct GeminiBatchMetadata<'a> {
    #[serde(borrow)]
    output: Option<GeminiBatchOutput<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiBatchOutput<'a> {
    #[serde(borrow)]
    inlined_responses: Option<GeminiInlinedResponses<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiInlinedResponses<'a> {
    #[serde(borrow)]
    inlined_responses: Option<Vec<GeminiInlinedResponse<'a>>>,
}

#[derive(Deserialize)]
struct GeminiInlinedResponse<'a> {
    metadata: Option<Value>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl GeminiInlinedResponse<'_> {
    fn key(&self) -> Option<&str> {
        self.metadata.as_ref()?.get("key")?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::batch::{
        HttpBatches,
        testing::{cut, id, kinds, requests, sent, served, texts},
    };
    use shelly_core::model::BatchSubmitter;
    use shelly_net::{AuthHeader, Secret};
    use shelly_test_support::{CannedResponse, TestServer, answer};

    async fn served_by(body: &Value) -> (TestServer, HttpBatches<Gemini>) {
        served_as(answer("200 OK", "", &body.to_string())).await
    }

    async fn served_as(answer: CannedResponse) -> (TestServer, HttpBatches<Gemini>) {
        let auth = AuthHeader::header("x-goog-api-key", Secret::new("sk-secret"));
        served(vec![answer], "/v1beta", auth, Gemini).await
    }

    fn said(text: &str) -> Value {
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}, "modelVersion": "m-2"})
    }

    fn keyed(key: &str, text: &str) -> Value {
        json!({"metadata": {"key": key}, "response": said(text)})
    }

    #[tokio::test]
    async fn a_batch_is_made_of_one_message() {
        let (server, batches) = served_by(&json!({"name": "batches/b1", "metadata": {}})).await;
        assert_eq!(batches.submit(&requests(&["a", "b"])).await.unwrap(), id("batches/b1"));
        let (head, body) = sent(&server, 0);
        assert!(head.starts_with("POST /v1beta/models/m-1:batchGenerateContent HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("x-goog-api-key: sk-secret\r\n"), "{head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["batch"]["displayName"], DISPLAY_NAME);
        let entries = body["batch"]["inputConfig"]["requests"]["requests"].as_array().unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[1]["metadata"], json!({"key": "b"}));
        assert_eq!(entries[1]["request"]["contents"], json!([{"role": "user", "parts": [{"text": "b"}]}]));
    }

    #[tokio::test]
    async fn a_batch_that_is_too_large_is_not_sent() {
        let (server, batches) = served_by(&json!({"name": "batches/b1"})).await;
        let large = "x".repeat(limits::GEMINI_BATCH_BYTES / 2);
        let fault = batches.submit(&requests(&[&large, &large])).await.unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
        assert!(server.requests().is_empty());
    }

    #[tokio::test]
    async fn a_batch_says_how_far_it_is() {
        let working = |done| BatchState::Working { done };
        let metadata = |state: &str, stats: Value| json!({"metadata": {"state": state, "batchStats": stats}});
        for (body, expected) in [
            (json!({"name": "batches/b1"}), working(0)),
            (metadata("BATCH_STATE_PENDING", Value::Null), working(0)),
            (metadata("BATCH_STATE_RUNNING", json!({"requestCount": "9", "successfulRequestCount": "3"})), working(3)),
            (metadata("X", json!({"successfulRequestCount": u64::MAX, "failedRequestCount": 1})), working(u64::MAX)),
            (metadata("X", json!({"successfulRequestCount": "many", "failedRequestCount": [-1]})), working(0)),
            (metadata("BATCH_STATE_SUCCEEDED", Value::Null), BatchState::Ended),
            (metadata("BATCH_STATE_FAILED", Value::Null), BatchState::Ended),
            (metadata("BATCH_STATE_CANCELLED", Value::Null), BatchState::Ended),
            (metadata("JOB_STATE_EXPIRED", Value::Null), BatchState::Ended),
            (json!({"done": true}), BatchState::Ended),
        ] {
            let (server, batches) = served_by(&body).await;
            assert_eq!(batches.poll(&id("batches/b1")).await.unwrap(), expected, "{body}");
            assert!(sent(&server, 0).0.starts_with("GET /v1beta/batches/b1 HTTP/1.1\r\n"));
        }
    }

    #[tokio::test]
    async fn results_find_their_requests() {
        let error = json!({"code": 400, "message": "no luck with sk-secret", "status": "INVALID_ARGUMENT"});
        let replies = json!({"inlinedResponses": {"inlinedResponses": [
            keyed("b", "second"),
            {"metadata": {"key": "bad"}, "error": error},
            keyed("b", "again"),
            keyed("nobody's", "stray"),
            {"response": said("whose?")},
            {"metadata": {"key": "none"}},
            keyed("a", "first"),
        ]}});
        for body in [
            json!({"done": true, "response": replies}),
            json!({"done": true, "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": replies}}),
        ] {
            let (server, batches) = served_by(&body).await;
            let wanted = requests(&["a", "b", "bad", "none", "missing", "x", "y"]);
            let results = batches.results(&id("batches/b1"), &wanted).await.unwrap();
            assert!(sent(&server, 0).0.starts_with("GET /v1beta/batches/b1 HTTP/1.1\r\n"));
            assert_eq!(texts(&results), [("b", "second".into()), ("a", "first".into())]);
            assert_eq!(kinds(&results), [("bad", "invalid".into()), ("none", "unavailable".into())]);
            assert!(!format!("{results:?}").contains("sk-secret"), "{results:?}");
        }
    }

    #[tokio::test]
    async fn batch_replies_without_keys_are_matched_by_position() {
        let replies = json!([{"response": said("first")}, {"response": said("second")}]);
        let body = json!({"response": {"inlinedResponses": {"inlinedResponses": replies}}});
        for (wanted, expected) in
            [(&["a", "b"][..], &[("a", "first"), ("b", "second")][..]), (&["a", "b", "c"], &[]), (&["a"], &[])]
        {
            let (_server, batches) = served_by(&body).await;
            let results = batches.results(&id("batches/b1"), &requests(wanted)).await.unwrap();
            let expected: Vec<_> = expected.iter().map(|(id, text)| (*id, (*text).to_owned())).collect();
            assert_eq!(texts(&results), expected, "{wanted:?}");
        }
    }

    #[tokio::test]
    async fn gemini_batch_without_replies_reports_its_error() {
        let results = async |body: &Value| {
            let (_server, batches) = served_by(body).await;
            batches.results(&id("batches/b1"), &requests(&["a"])).await
        };
        let error = json!({"code": 429, "message": "no more", "status": "RESOURCE_EXHAUSTED"});
        let fault = results(&json!({"done": true, "error": error})).await.unwrap_err();
        assert!(matches!(fault, Fault::RateLimited { .. }), "{fault:?}");
        assert_eq!(results(&json!({"done": true})).await.unwrap(), []);
        assert_eq!(results(&json!({"response": {"inlinedResponses": {}}})).await.unwrap(), []);
        assert!(matches!(results(&json!([])).await, Err(Fault::Unavailable { .. })));

        let replies = json!({"inlinedResponses": {"inlinedResponses": [keyed("a", "first")]}});
        let whole = answer("200 OK", "", &json!({"response": replies}).to_string()).bytes;
        let (_server, batches) = served_as(cut(whole[..whole.len() - 9].to_vec())).await;
        let fault = batches.results(&id("batches/b1"), &requests(&["a"])).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    }

    #[tokio::test]
    async fn a_batch_is_cancelled_by_its_name() {
        let (server, batches) = served_by(&json!({})).await;
        batches.cancel(&id("batches/b1")).await.unwrap();
        let (head, body) = sent(&server, 0);
        assert!(head.starts_with("POST /v1beta/batches/b1:cancel HTTP/1.1\r\n") && body.is_empty(), "{head}");
    }
}
