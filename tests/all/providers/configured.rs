//! Config keys of a model that only a server of their own can show: timeouts, rate limits, and calls that are printed as
//! text.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::server::{Answer, Server as Silent};
use crate::{
    bad_input::{Server, answer},
    support::Place,
};

/// A place whose one agent has the notes and asks the model with these keys, and has these keys itself.
fn place(url: &str, model: &str, agent: &str) -> Place {
    let place = Place::new();
    let config = format!(
        "providers: [{{name: m, base_url: '{url}/v1', model: m, {model}}}]\nagents: [{{name: a, toolboxes: [notes]{agent}}}]\n"
    );
    place.file("shelly.yaml", config);
    place
}

fn url(server: &Server) -> String {
    format!("http://127.0.0.1:{}", server.port)
}

fn asked(server: &Server) -> usize {
    server.asked.lock().unwrap().len()
}

/// A server that says one message after another, the last one again and again.
fn saying(messages: Vec<Value>) -> Server {
    let messages = Arc::new(Mutex::new(messages));
    Server::start(move |_| {
        let mut messages = messages.lock().unwrap();
        let message = if messages.len() > 1 { messages.remove(0) } else { messages[0].clone() };
        let stop = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
        let usage = json!({ "prompt_tokens": 30_000, "completion_tokens": 100 });
        let reply = json!({ "choices": [{ "message": message, "finish_reason": stop }], "usage": usage });
        answer("200 OK", &reply.to_string())
    })
}

fn call() -> Value {
    json!({ "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "list_notes", "arguments": "{}" } }] })
}

fn done() -> Value {
    json!({ "content": "done" })
}

#[test]
fn what_may_pass_is_tried_as_often_as_is_said() {
    for (keys, tries) in [("retries: 0", 1), ("retries: 1", 2)] {
        let server = Server::start(|_| answer("503 Service Unavailable\r\nretry-after: 0", "no luck"));
        let ran = place(&url(&server), &format!("kind: openai, {keys}"), "").run(&["run", "hi"]);
        assert_eq!((ran.code, asked(&server)), (4, tries), "{keys}\n{}", ran.shown());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_timeouts_are_honoured() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"A long story.\"}}]}\n\n";
    for (keys, sent, says) in [
        ("timeout: 200ms", "", "timed out"),
        ("timeout: 200ms", begun, "timed out"),
        ("idle_timeout: 200ms", begun, "sent nothing for 200ms"),
    ] {
        let server = Silent::start(move |_, _| Answer::stream(sent).and_silence()).await;
        let ran = place(&server.url, &format!("kind: openai, {keys}"), "").run(&["run", "hi"]);
        assert_eq!(ran.code, 4, "{keys}\n{}", ran.shown());
        assert!(ran.stderr.contains(says), "{keys}\n{}", ran.shown());
    }
}

#[test]
fn printed_tool_calls_are_parsed_if_enabled() {
    let printed = "<tool_call>{\"name\":\"list_notes\",\"arguments\":{}}</tool_call>";
    for (keys, is_found) in [
        // At an address on this machine.
        ("kind: openai", true),
        ("kind: openai, printed_calls: false", false),
        ("kind: llamacpp, context_window: 8000", true),
        ("kind: llamacpp, context_window: 8000, printed_calls: false", false),
    ] {
        let server = saying(vec![json!({ "content": printed }), done()]);
        let ran = place(&url(&server), keys, "").run(&["run", "hi"]);
        let expected = if is_found { "done\n".to_owned() } else { format!("{printed}\n") };
        assert_eq!((ran.code, ran.stdout.as_str()), (0, expected.as_str()), "{keys}\n{}", ran.shown());
        assert_eq!(asked(&server), if is_found { 2 } else { 1 }, "{keys}");
    }
}

/// A request that exceeds the rate limit is not sent: the time of the run is used up before.
#[test]
fn what_may_be_asked_in_a_minute_is_not_exceeded() {
    let limits = ["rpm: 1", "input_tpm: 30000", "output_tpm: 100", "rpm: 2, input_tpm: 1000000, output_tpm: 1000000"];
    thread::scope(|scope| {
        for limit in limits {
            scope.spawn(move || {
                let server = saying(vec![call(), done()]);
                let keys = format!("kind: openai, rate_limit: {{{limit}}}");
                let ran = place(&url(&server), &keys, ", budget: {time: 3s}").run(&["run", "hi"]);
                let has_room = limit.starts_with("rpm: 2");
                assert_eq!(ran.code, if has_room { 0 } else { 1 }, "{limit}\n{}", ran.shown());
                assert_eq!(asked(&server), if has_room { 2 } else { 1 }, "{limit}");
                assert_eq!(
                    ran.stderr.contains("the time budget of 3s is used up"),
                    !has_room,
                    "{limit}\n{}",
                    ran.shown()
                );
            });
        }
    });
}

/// One limit for all who ask the same model.
#[test]
fn agents_share_the_rate_limit_of_a_model() {
    let task = json!({ "tasks": [{ "agent": "b", "task": "t", "context": "c" }] }).to_string();
    let function = json!({ "name": "delegate", "arguments": task });
    let delegates = json!({ "tool_calls": [{ "id": "1", "type": "function", "function": function }] });
    let server = saying(vec![delegates, done()]);
    let place = Place::new();
    let model = format!("{{name: m, kind: openai, model: m, base_url: '{}/v1', rate_limit: {{rpm: 1}}}}", url(&server));
    let lead = "{name: a, options: {max_delegation_depth: 1}, budget: {time: 2s}}";
    place.file("shelly.yaml", format!("providers: [{model}]\nagents: [{lead}, {{name: b}}]\n"));
    let since = std::time::Instant::now();
    let ran = place.run(&["run", "hi"]);
    assert_eq!((ran.code, asked(&server)), (1, 1), "{}", ran.shown());
    assert!(since.elapsed() < Duration::from_secs(30), "it ends with the time of the run");
}

/// The vendor's batches are asked, and the model itself where the config names none.
#[test]
fn requests_are_batched_if_configured() {
    let reply = json!({
        "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "from a batch" }], "usage": { "input_tokens": 9, "output_tokens": 3 },
    });
    for (keys, expected) in [
        ("batch: {window: 10ms, poll_interval: 50ms, timeout: 1m, max_size: 10}", "from a batch\n"),
        ("retries: 0", "by itself\n"),
    ] {
        let (reply, id) = (reply.clone(), Mutex::new(String::new()));
        let server = Server::start(move |request| {
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            let text = if head.starts_with("POST /v1/messages/batches") {
                *id.lock().unwrap() = body["requests"][0]["custom_id"].as_str().unwrap_or_default().to_owned();
                json!({ "id": "msgbatch_1", "processing_status": "in_progress" })
            } else if head.starts_with("GET /v1/messages/batches/msgbatch_1/results") {
                json!({ "custom_id": *id.lock().unwrap(), "result": { "type": "succeeded", "message": reply } })
            } else if head.starts_with("GET /v1/messages/batches/msgbatch_1") {
                json!({ "id": "msgbatch_1", "processing_status": "ended", "request_counts": { "succeeded": 1 } })
            } else {
                let mut alone = reply.clone();
                alone["content"][0]["text"] = "by itself".into();
                alone
            };
            answer("200 OK", &text.to_string())
        });
        let ran = place(&url(&server), &format!("kind: anthropic, {keys}"), "").run(&["run", "hi"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, expected), "{keys}\n{}", ran.shown());
    }
}
