use serde_json::Value;

use super::*;
use crate::batch::{
    HttpBatches,
    testing::{cut, entries, id, in_silence, kinds, requests, sent, served, texts},
};
use shelly_core::model::BatchSubmitter;
use shelly_net::{AuthHeader, Secret};
use shelly_test_support::{CannedResponse, TestServer, answer};

async fn served_by(answers: Vec<CannedResponse>) -> (TestServer, HttpBatches<ChatCompletions>) {
    served(answers, "/v1", AuthHeader::bearer(Secret::new("sk-secret")), ChatCompletions::default()).await
}

fn fine(body: &Value) -> CannedResponse {
    answer("200 OK", "", &body.to_string())
}

fn lines(lines: &[Value]) -> CannedResponse {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    answer("200 OK", "content-type: application/octet-stream\r\n", &lines)
}

fn batch(status: &str, output: Value, error: Value) -> CannedResponse {
    fine(&json!({"id": "batch_1", "status": status, "input_file_id": "file-1", "output_file_id": output,
        "error_file_id": error, "errors": null}))
}

fn replied(id: &str, text: &str) -> Value {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
    let body = json!({"model": "m-2", "choices": [choice], "usage": usage});
    json!({"id": "x", "custom_id": id, "response": {"status_code": 200, "request_id": "r", "body": body}, "error": null})
}

fn refused(id: &str, status: u16, code: &str) -> Value {
    let body = json!({"error": {"message": "no luck with sk-secret", "type": "some_error", "code": code}});
    json!({"id": "x", "custom_id": id, "response": {"status_code": status, "body": body}, "error": null})
}

/// Returns the request lines that the server received.
fn asked(server: &TestServer) -> Vec<String> {
    let line = |request: &String| request.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    server.requests().iter().map(line).collect()
}

#[tokio::test]
async fn a_batch_is_made_of_a_file() {
    let answers = vec![fine(&json!({"id": "file-1"})), batch("validating", Value::Null, Value::Null)];
    let (server, batches) = served_by(answers).await;
    assert_eq!(batches.submit(&requests(&["a", "b"])).await.unwrap(), id("batch_1"));
    assert_eq!(asked(&server), ["POST /v1/files", "POST /v1/batches"]);

    let (head, form) = sent(&server, 0);
    assert!(head.contains("authorization: Bearer sk-secret\r\n"), "{head}");
    let entry = |id: &str| {
        let tool = json!({"name": "look", "description": "", "parameters": {"type": "object", "properties": {}}});
        let body = json!({"model": "m-1", "messages": [{"role": "user", "content": id}],
            "tools": [{"type": "function", "function": tool}]});
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body})
    };
    assert_eq!(entries(&form), [entry("a"), entry("b")]);
    let (_, boundary) = head.split_once("content-type: multipart/form-data; boundary=").unwrap();
    let boundary = boundary.lines().next().unwrap();
    assert_eq!(boundary.len(), 64, "{boundary}");
    let parts: Vec<_> = form.split(&format!("--{boundary}")).collect();
    assert_eq!((parts.len(), parts[0], parts[3]), (4, "", "--\r\n"), "{form}");
    assert_eq!(parts[1], "\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n");
    let named = "\r\ncontent-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\n";
    assert!(parts[2].starts_with(named) && parts[2].ends_with("}\n\r\n"), "{form}");

    let made: Value = serde_json::from_str(&sent(&server, 1).1).unwrap();
    let expected = json!({"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"});
    assert_eq!(made, expected);
}

#[tokio::test]
async fn a_file_without_a_batch_is_deleted() {
    let file = || fine(&json!({"id": "file-1"}));
    for (made, is_denied) in [
        (answer("403 Forbidden", "", r#"{"error": {"message": "sk-secret may not"}}"#), true),
        (fine(&json!({"id": "../x"})), false),
        (cut(vec![]), false),
    ] {
        let (server, batches) = served_by(vec![file(), made, fine(&json!({}))]).await;
        let fault = batches.submit(&requests(&["a"])).await.unwrap_err();
        assert_eq!(matches!(fault, Fault::Denied { .. }), is_denied, "{fault:?}");
        assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
        assert_eq!(asked(&server), ["POST /v1/files", "POST /v1/batches", "DELETE /v1/files/file-1"]);
    }
    for odd in ["", ".", "..", "a/b", "a?b", "ä", &"a".repeat(limits::REPLY_WORD_BYTES + 1)] {
        let (server, batches) = served_by(vec![fine(&json!({"id": odd}))]).await;
        let fault = batches.submit(&requests(&["a"])).await.unwrap_err();
        assert!(
            matches!(fault, Fault::Other { .. }) && fault.to_string().contains("returned an invalid file id"),
            "{fault:?}"
        );
        assert_eq!(asked(&server), ["POST /v1/files"]);
    }
}

#[tokio::test]
async fn a_batch_says_how_far_it_is() {
    let working = |done| Some(BatchState::Working { done });
    for (status, counts, expected) in [
        ("validating", Value::Null, working(0)),
        ("in_progress", json!({"total": 9, "completed": 3, "failed": 1}), working(4)),
        ("finalizing", json!({"completed": u64::MAX, "failed": 1}), working(u64::MAX)),
        ("cancelling", json!({}), working(0)),
        ("something_new", Value::Null, working(0)),
        ("completed", Value::Null, Some(BatchState::Ended)),
        ("failed", Value::Null, Some(BatchState::Ended)),
        ("expired", Value::Null, Some(BatchState::Ended)),
        ("cancelled", Value::Null, Some(BatchState::Ended)),
    ] {
        let (server, batches) = served_by(vec![fine(&json!({"status": status, "request_counts": counts}))]).await;
        assert_eq!(batches.poll(&id("batch_1")).await.ok(), expected, "{status}");
        assert_eq!(asked(&server), ["GET /v1/batches/batch_1"]);
    }
    let (_server, batches) = served_by(vec![fine(&json!([]))]).await;
    assert!(matches!(batches.poll(&id("batch_1")).await, Err(Fault::Unavailable { .. })));
}

#[tokio::test]
async fn results_stand_in_two_files() {
    let output = lines(&[
        replied("b", "second"),
        replied("b", "again"),
        replied("nobody's", "stray"),
        json!({"custom_id": "cut"}),
        json!("no result"),
        replied("a", "first"),
    ]);
    let expired = json!({"custom_id": "late", "response": null,
        "error": {"code": "batch_expired", "message": "not within sk-secret"}});
    let errors = lines(&[refused("bad", 400, "x"), refused("slow", 429, "rate_limit_exceeded"), expired]);
    let answers = vec![batch("expired", json!("file-2"), json!("file-3")), output, errors, fine(&json!({}))];
    let (server, batches) = served_by(answers).await;
    let wanted = requests(&["a", "b", "bad", "slow", "late", "cut", "missing"]);
    let results = batches.results(&id("batch_1"), &wanted).await.unwrap();
    assert_eq!(texts(&results), [("b", "second".into()), ("a", "first".into())]);
    let expected = [("cut", "unavailable"), ("bad", "invalid"), ("slow", "rate_limited"), ("late", "unavailable")];
    assert_eq!(kinds(&results), expected.map(|(id, kind)| (id, kind.to_owned())));
    assert!(!format!("{results:?}").contains("sk-secret"), "{results:?}");
    let expected = [
        "GET /v1/batches/batch_1",
        "GET /v1/files/file-2/content",
        "GET /v1/files/file-3/content",
        "DELETE /v1/files/file-1",
    ];
    assert_eq!(asked(&server), expected);
}

#[tokio::test]
async fn no_result_file_is_fetched_unnecessarily() {
    let output = lines(&[replied("a", "first")]);
    // A failure to delete the file does not matter.
    let answers = vec![batch("completed", json!("file-2"), json!("file-3")), output, answer("500 Odd", "", "")];
    let (server, batches) = served_by(answers).await;
    let results = batches.results(&id("batch_1"), &requests(&["a"])).await.unwrap();
    assert_eq!(texts(&results), [("a", "first".into())]);
    assert_eq!(asked(&server).len(), 3);

    // Nor does a deletion that is never answered.
    let answers = vec![
        batch("completed", json!("file-2"), Value::Null),
        lines(&[replied("a", "first")]),
        CannedResponse { bytes: vec![], stays: true },
    ];
    let (server, batches) = served_by(answers).await;
    let (results, time) = in_silence(&server, 3, batches.results(&id("batch_1"), &requests(&["a"]))).await;
    assert_eq!(texts(&results.unwrap()), [("a", "first".into())]);
    assert!(time.as_secs() <= limits::BATCH_DELETE_TIME.as_secs(), "{time:?}");
    tokio::time::resume();

    let (server, batches) = served_by(vec![batch("cancelled", Value::Null, json!("")), fine(&json!({}))]).await;
    assert_eq!(batches.results(&id("batch_1"), &requests(&["a"])).await.unwrap(), []);
    assert_eq!(asked(&server), ["GET /v1/batches/batch_1", "DELETE /v1/files/file-1"]);

    let (server, batches) = served_by(vec![batch("completed", json!("../x"), Value::Null)]).await;
    assert!(matches!(batches.results(&id("batch_1"), &requests(&["a"])).await, Err(Fault::Other { .. })));
    assert_eq!(asked(&server).len(), 1);
}

#[tokio::test]
async fn openai_batch_that_failed_validation_reports_error() {
    let error = json!({"code": "invalid_request_error", "message": "line 1 is wrong, sk-secret", "line": 1});
    let failed = json!({"status": "failed", "input_file_id": "file-1", "errors": {"object": "list", "data": [error]}});
    let (server, batches) = served_by(vec![fine(&failed), fine(&json!({}))]).await;
    let fault = batches.results(&id("batch_1"), &requests(&["a"])).await.unwrap_err();
    assert!(matches!(fault, Fault::Invalid { .. }) && fault.to_string().ends_with("line 1 is wrong, ***"), "{fault:?}");
    assert_eq!(asked(&server)[1], "DELETE /v1/files/file-1");
}

#[tokio::test]
async fn results_that_are_cut_off_can_be_asked_for_again() {
    let whole = lines(&[replied("a", "first"), replied("b", "second")]).bytes;
    let ended = || batch("completed", json!("file-2"), Value::Null);
    let answers = vec![ended(), cut(whole[..whole.len() - 20].to_vec()), ended(), cut(whole), fine(&json!({}))];
    let (server, batches) = served_by(answers).await;
    let wanted = requests(&["a", "b"]);
    let fault = batches.results(&id("batch_1"), &wanted).await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Unavailable { .. }) && fault.to_string().contains("ended its reply early"),
        "{fault}"
    );
    let results = batches.results(&id("batch_1"), &wanted).await.unwrap();
    assert_eq!(texts(&results), [("a", "first".into()), ("b", "second".into())]);
    assert_eq!(asked(&server)[4], "DELETE /v1/files/file-1");
}

#[tokio::test]
async fn a_cancelled_batch_leaves_no_file() {
    let (server, batches) = served_by(vec![batch("cancelling", Value::Null, Value::Null), fine(&json!({}))]).await;
    batches.cancel(&id("batch_1")).await.unwrap();
    assert_eq!(asked(&server), ["POST /v1/batches/batch_1/cancel", "DELETE /v1/files/file-1"]);
    assert_eq!(sent(&server, 0).1, "");

    let (_server, batches) = served_by(vec![answer("409 Conflict", "", "{}")]).await;
    assert!(batches.cancel(&id("batch_1")).await.is_err());
    let (_server, batches) = served_by(vec![answer("200 OK", "", "gone")]).await;
    batches.cancel(&id("batch_1")).await.unwrap();
}
