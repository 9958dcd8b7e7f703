//! Agents of other hosts, without a network or with a server in the same runtime.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_util::task::TaskTracker;
use url::Url;

use crate::{CardApproval, RemoteAgentModel, RemoteAgentOptions, RemoteCard};
use shelly_core::{
    approval::{ApprovalBroker, HeadlessPolicy, OpenQuestionAnswer, TrustedSubjects},
    capability::HttpGrant,
    chat::{Chat, Message, Part},
    error::Fault,
    event::RunCx,
    limits,
    model::{Completer, CompletionRequest, DeltaSink},
};
use shelly_net::egress::{Egress, EgressLimits, HttpResponder, ResponderReply, ResponderRequest};

const CARD: &str = "https://agents.example.com/card.json";

type Reply = fn(&Value) -> Result<Value, Fault>;

/// A host that answers each call with this result, and a stream with these results one after the other.
#[derive(Debug)]
struct ScriptedHost {
    streams: bool,
    reply: Reply,
    seen: Mutex<Vec<Value>>,
}

impl ScriptedHost {
    /// Returns the calls of this method so far.
    fn calls(&self, method: &str) -> Vec<Value> {
        self.seen.lock().unwrap().iter().filter(|call| call["method"] == method).cloned().collect()
    }
}

impl HttpResponder for ScriptedHost {
    fn respond(&self, request: ResponderRequest) -> Result<ResponderReply, Fault> {
        let reply = |kind: &str, body: String| {
            let headers = vec![("content-type".to_owned(), kind.to_owned())];
            Ok(ResponderReply { status: 200, headers, body: body.into() })
        };
        if request.method == "GET" {
            let url = "https://agents.example.com/a2a";
            return reply("application/json", card(url, self.streams).to_string());
        }
        let call: Value = serde_json::from_slice(&request.body).unwrap();
        self.seen.lock().unwrap().push(call.clone());
        let result = (self.reply)(&call)?;
        let answer = |result: &Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
        match result.as_array() {
            None => reply("application/json", answer(&result).to_string()),
            Some(items) => {
                let events = items.iter().map(|item| format!("data: {}\n\n", answer(item)));
                reply("text/event-stream", events.collect())
            }
        }
    }
}

struct AnyCard;

#[async_trait]
impl CardApproval for AnyCard {
    async fn approve(&self, _: &RunCx, _: &RemoteCard) -> Result<(), Fault> {
        Ok(())
    }
}

fn card(url: &str, streams: bool) -> Value {
    let interface = json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
    json!({"name": "r", "supportedInterfaces": [interface], "capabilities": {"streaming": streams}})
}

fn task(state: &str) -> Value {
    json!({"id": "t", "contextId": "c", "status": {"state": state}})
}

/// The parts of a test: the model, its host, its broker, and the cancellations that it sends.
struct RemoteParts {
    model: RemoteAgentModel,
    host: Arc<ScriptedHost>,
    broker: ApprovalBroker,
    cancellations: TaskTracker,
}

fn broker() -> ApprovalBroker {
    ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default())
}

fn bounds() -> EgressLimits {
    EgressLimits {
        request_bytes: limits::A2A_REQUEST_BYTES,
        response_bytes: limits::A2A_STREAM_BYTES,
        ..EgressLimits::default()
    }
}

fn model(card: &str, egress: Egress, broker: &ApprovalBroker, cancellations: &TaskTracker) -> RemoteAgentModel {
    RemoteAgentModel::new(RemoteAgentOptions {
        name: "researcher".into(),
        card: Url::parse(card).unwrap(),
        egress,
        broker: broker.clone(),
        approval: Arc::new(AnyCard),
        cancellations: cancellations.clone(),
    })
}

fn remote(streams: bool, reply: Reply) -> RemoteParts {
    let host = Arc::new(ScriptedHost { streams, reply, seen: Mutex::default() });
    let (broker, cancellations) = (broker(), TaskTracker::new());
    let http = HttpGrant::all_below("https://agents.example.com").unwrap();
    let egress = Egress::answered_by(http, Vec::new(), bounds(), Arc::clone(&host) as _);
    RemoteParts { model: model(CARD, egress, &broker, &cancellations), host, broker, cancellations }
}

/// Gives the agent a task.
async fn ask(model: &RemoteAgentModel) -> Result<String, Fault> {
    give(model, "What is two and two?".into()).await
}

/// Gives the agent this task.
async fn give(model: &RemoteAgentModel, task: String) -> Result<String, Fault> {
    let chat = Chat::new();
    chat.append(Message::user(task)).unwrap();
    let request = CompletionRequest::new(chat.snapshot(), [].into());
    let completion = model.complete(&RunCx::new("researcher"), &request, &DeltaSink::none()).await?;
    let [Part::Text(text)] = &completion.parts[..] else { panic!("{completion:?}") };
    Ok(text.clone())
}

#[tokio::test(start_paused = true)]
async fn task_is_asked_for_until_it_is_over() {
    let parts = remote(false, |call| match call["method"].as_str().unwrap() {
        "SendMessage" => Ok(json!({"task": task("TASK_STATE_WORKING")})),
        // The third answer is the last one.
        _ if call["id"].as_u64().unwrap() < 4 => Ok(task("TASK_STATE_WORKING")),
        _ => {
            let mut task = task("TASK_STATE_COMPLETED");
            task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "Four."}]}]);
            Ok(task)
        }
    });
    let before = Instant::now();
    assert_eq!(ask(&parts.model).await.unwrap(), "Four.");
    assert_eq!(before.elapsed().as_millis(), limits::A2A_FIRST_POLL_PAUSE.as_millis() * (1 + 2 + 4));
    let sent = &parts.host.calls("SendMessage")[0]["params"];
    assert_eq!(sent["message"]["parts"], json!([{"text": "What is two and two?"}]));
    assert_eq!(
        (&sent["message"]["role"], &sent["configuration"]["returnImmediately"]),
        (&json!("ROLE_USER"), &json!(true))
    );
    assert!(parts.host.calls("CancelTask").is_empty());
}

#[tokio::test(start_paused = true)]
async fn host_that_is_gone_is_asked_only_so_often() {
    let parts = remote(false, |call| match call["method"].as_str().unwrap() {
        "SendMessage" => Ok(json!({"task": task("TASK_STATE_WORKING")})),
        _ => Err(Fault::Unavailable { message: "nobody is there".into(), after: None }),
    });
    assert!(matches!(ask(&parts.model).await, Err(Fault::Unavailable { .. })));
    assert_eq!(parts.host.calls("GetTask").len(), limits::A2A_POLL_FAILURES as usize + 1);
    parts.cancellations.close();
    parts.cancellations.wait().await;
    assert_eq!(parts.host.calls("CancelTask")[0]["params"]["id"], "t", "nobody waits for it any more");
}

#[tokio::test(start_paused = true)]
async fn task_without_end_is_cancelled() {
    let parts = remote(false, |call| match call["method"].as_str().unwrap() {
        "SendMessage" => Ok(json!({"task": task("TASK_STATE_WORKING")})),
        _ => Ok(task("TASK_STATE_WORKING")),
    });
    let before = Instant::now();
    assert!(matches!(ask(&parts.model).await, Err(Fault::Timeout { .. })));
    assert_eq!(before.elapsed().as_secs(), limits::A2A_TASK_TIME.as_secs());
    let most = limits::A2A_TASK_TIME.as_secs() / limits::A2A_POLL_PAUSE.as_secs() + 10;
    let asked = parts.host.calls("GetTask").len() as u64;
    assert!((most - 20..=most).contains(&asked), "{asked}");
    parts.cancellations.close();
    parts.cancellations.wait().await;
    assert_eq!(parts.host.calls("CancelTask").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn task_that_is_too_large_is_not_sent() {
    let parts = remote(false, |_| Ok(Value::Null));
    let task = "x".repeat(usize::try_from(limits::A2A_REQUEST_BYTES).unwrap());
    let fault = give(&parts.model, task).await.unwrap_err();
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault}");
    assert!(parts.host.calls("SendMessage").is_empty());
}

/// A host whose stream has nothing but comments, with more bytes than a stream may have.
#[derive(Debug)]
struct NoisyHost;

impl HttpResponder for NoisyHost {
    fn respond(&self, request: ResponderRequest) -> Result<ResponderReply, Fault> {
        let reply = |kind: &str, body: String| {
            let headers = vec![("content-type".to_owned(), kind.to_owned())];
            Ok(ResponderReply { status: 200, headers, body: body.into() })
        };
        if request.method == "GET" {
            return reply("application/json", card("https://agents.example.com/a2a", true).to_string());
        }
        let comment = format!(":{}\n\n", "x".repeat(1 << 20));
        let most = usize::try_from(limits::A2A_STREAM_BYTES).unwrap();
        reply("text/event-stream", comment.repeat(most / comment.len() + 1))
    }
}

#[tokio::test(start_paused = true)]
async fn stream_of_too_many_bytes_is_left() {
    let http = HttpGrant::all_below("https://agents.example.com").unwrap();
    let egress = Egress::answered_by(http, Vec::new(), bounds(), Arc::new(NoisyHost));
    let fault = ask(&model(CARD, egress, &broker(), &TaskTracker::new())).await.unwrap_err();
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn stream_of_too_many_updates_is_left() {
    let parts = remote(true, |_| {
        let mut items = vec![json!({"task": task("TASK_STATE_WORKING")})];
        let update = json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}});
        items.extend(vec![update; limits::A2A_STREAM_ITEMS]);
        Ok(Value::Array(items))
    });
    let fault = ask(&parts.model).await.unwrap_err();
    assert!(matches!(&fault, Fault::TooLarge { message } if message.contains("updates of one task")), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn question_is_asked_once_although_it_is_shown_again() {
    let parts = remote(true, |call| {
        let asks = |state: &str| {
            let mut task = task(state);
            task["status"]["message"] = json!({"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Which two?"}],
                "metadata": {"questionId": 7}});
            task
        };
        Ok(match (call["method"].as_str().unwrap(), call["params"]["message"]["taskId"].as_str()) {
            ("SendStreamingMessage", None) => json!([{"task": asks("TASK_STATE_INPUT_REQUIRED")}]),
            // It has not noticed the answer yet.
            ("SendStreamingMessage", Some(_)) => json!([{"task": asks("TASK_STATE_INPUT_REQUIRED")}]),
            _ => {
                let mut task = task("TASK_STATE_COMPLETED");
                task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "Five."}]}]);
                task
            }
        })
    });
    let mut inbox = parts.broker.attend().unwrap();
    let answering = async {
        let asked = inbox.next().await.unwrap();
        inbox.answer(asked.id, OpenQuestionAnswer::Text("the primes".into())).unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&parts.model), answering);
    assert_eq!(answer.unwrap(), "Five.");
    let sent = parts.host.calls("SendStreamingMessage");
    let answer = &sent[1]["params"]["message"];
    assert_eq!((sent.len(), &answer["taskId"], &answer["contextId"]), (2, &json!("t"), &json!("c")));
    assert_eq!((&answer["parts"], &answer["metadata"]), (&json!([{"text": "the primes"}]), &json!({"questionId": 7})));
    assert_ne!(answer["messageId"], sent[0]["params"]["message"]["messageId"]);
}

/// Reads the head and the body of a request.
async fn read_request(stream: &mut TcpStream) -> String {
    let (mut text, mut chunk) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0_usize) {
                return text;
            }
        }
        let read = stream.read(&mut chunk).await.unwrap();
        assert_ne!(read, 0, "{text}");
        text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            let plain = |body: &Value| {
                let body = body.to_string();
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            };
            let id = || serde_json::from_str::<Value>(request.split_once("\r\n\r\n").unwrap().1).unwrap()["id"].clone();
            let answer = match &request {
                get if get.starts_with("GET /silent") => String::new(),
                get if get.starts_with("GET") => plain(&card(&format!("http://{address}/a2a"), true)),
                stream if stream.contains("SendStreamingMessage") => {
                    let item = json!({"jsonrpc": "2.0", "id": id(), "result": {"task": task("TASK_STATE_WORKING")}});
                    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {item}\n\n")
                }
                _ => {
                    let mut task = task("TASK_STATE_COMPLETED");
                    task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "Four."}]}]);
                    plain(&json!({"jsonrpc": "2.0", "id": id(), "result": task}))
                }
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
            // A stream stays open, and says nothing more.
            if !answer.contains("connection: close") {
                open.push(stream);
            }
        }
    });
    let http = HttpGrant::all_below(&format!("http://{address}")).unwrap();
    let egress = || Egress::new(http.clone(), Vec::new(), bounds());
    let (broker, cancellations) = (broker(), TaskTracker::new());
    let before = Instant::now();
    let silent = model(&format!("http://{address}/silent"), egress(), &broker, &cancellations);
    let fault = ask(&silent).await.unwrap_err();
    assert!(matches!(fault, Fault::Timeout { .. }), "{fault}");
    assert!(before.elapsed() >= limits::A2A_REQUEST_TIME);
    let before = Instant::now();
    let streaming = model(&format!("http://{address}/card"), egress(), &broker, &cancellations);
    assert_eq!(ask(&streaming).await.unwrap(), "Four.", "the task is asked for");
    assert!(before.elapsed() >= limits::A2A_STREAM_IDLE && before.elapsed() < limits::A2A_TASK_TIME);
    server.abort();
}
