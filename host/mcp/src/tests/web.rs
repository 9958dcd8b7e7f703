//! Remote servers, byte for byte.

use std::sync::Mutex;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use url::Url;

use super::*;
use crate::McpHttpTarget;
use shelly_core::{
    event::{Event, EventSink},
    limits,
};
use shelly_net::{AuthHeader, HttpClient, Secret};

/// A received request.
#[derive(Debug, Clone)]
pub(super) struct Came {
    /// The request line as it was sent, such as `POST /mcp`.
    pub target: String,
    /// The head in lower case.
    pub head: String,
    pub body: String,
    pub json: Value,
}

impl Came {
    pub(super) fn is(&self, method: &str) -> bool {
        self.json["method"] == method
    }
}

/// Answers each request with the result of a function, and then closes the connection.
pub(super) struct Web {
    pub url: Url,
    came: Arc<Mutex<Vec<Came>>>,
    task: JoinHandle<()>,
}

impl Web {
    pub(super) async fn start(answer: impl Fn(&Came, usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let (came, answer) = (Arc::<Mutex<Vec<Came>>>::default(), Arc::new(answer));
        let seen = Arc::clone(&came);
        let task = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let request = read(&mut connection).await;
                let before = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.clone());
                    seen.iter().filter(|came| came.json["method"] == request.json["method"]).count() - 1
                };
                let _ = connection.write_all(answer(&request, before).as_bytes()).await;
                let _ = connection.shutdown().await;
            }
        });
        Self { url, came, task }
    }

    pub(super) fn config(&self) -> ServerConfig {
        let (client, auth) = (HttpClient::new().unwrap(), Some(AuthHeader::bearer(Secret::new("sk-secret"))));
        let headers = vec![("x-team".into(), Secret::new("red"))];
        ServerConfig::new(
            "web",
            McpTarget::Http(McpHttpTarget { client, url: self.url.clone(), auth, headers, oauth: None }),
        )
    }

    async fn connect(&self) -> Result<Arc<McpClient>, McpError> {
        McpClient::connect(self.config(), McpClientFeatures::default()).await
    }

    pub(super) fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(connection: &mut TcpStream) -> Came {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let target = head.split(" HTTP/").next().unwrap_or_default().to_owned();
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                let json = serde_json::from_str(body).unwrap_or_default();
                return Came { target, head, body: body.into(), json };
            }
        }
        if connection.read_buf(&mut bytes).await.unwrap() == 0 {
            return Came { target: String::new(), head: String::new(), body: String::new(), json: Value::Null };
        }
    }
}

pub(super) fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

pub(super) fn result(came: &Came, headers: &str, result: Value) -> String {
    let answer = json!({"jsonrpc": "2.0", "id": came.json["id"], "result": result});
    reply("200 OK", &format!("content-type: application/json\r\n{headers}"), &answer.to_string())
}

fn events(events: &str) -> String {
    reply("200 OK", "Content-Type: text/event-stream; charset=utf-8\r\n", events)
}

/// Answers as servers of 2025-11-25 do, up to a call.
pub(super) fn legacy(came: &Came) -> String {
    let info = json!({"name": "web", "version": "1"});
    match came.json["method"].as_str() {
        Some("initialize") => {
            let capabilities = json!({"tools": {"listChanged": true}});
            let agreed = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info});
            result(came, "mcp-session-id: s-1\r\n", agreed)
        }
        Some("tools/list") => result(came, "", json!({"tools": [tool("t")]})),
        Some("server/discover") => reply("400 Bad Request", "content-type: text/plain\r\n", "no session"),
        Some(_) => reply("202 Accepted", "", ""),
        None => reply("405 Method Not Allowed", "", ""),
    }
}

#[tokio::test]
async fn a_session_is_begun_kept_and_ended() {
    let web = Web::start(|came, _| match came.is("tools/call") {
        true => {
            let mark = &came.json["params"]["_meta"]["progressToken"];
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": mark, "progress": 1}});
            let answer = json!({"jsonrpc": "2.0", "id": came.json["id"], "result": text("done")});
            events(&format!(": hi\n\ndata: {progress}\n\nevent: message\ndata: {answer}\n\n"))
        }
        false => legacy(came),
    })
    .await;
    let client = web.connect().await.unwrap();
    let (sink, mut stream) = EventSink::channel();
    let cx = RunCx::new("ada").with_events(sink);
    let answer = call(&toolbox(&client), &cx, "web__t", &json!({"a": 1})).await;
    assert_eq!((answer.is_error, answer.text()), (false, "done".into()));
    drop(cx);
    let mut told = 0;
    while let Some(event) = stream.next_event().await {
        told += usize::from(matches!(event, Event::ToolProgress { done: 1.0, .. }));
    }
    assert_eq!(told, 1);
    client.close().await;
    let came = web.came();
    for came in &came {
        for line in ["authorization: bearer sk-secret", "x-team: red", "application/json, text/event-stream"] {
            assert!(came.head.contains(line), "{}", came.head);
        }
    }
    let after = came.iter().position(|came| came.is("notifications/initialized")).unwrap();
    for came in &came[after..] {
        assert!(came.head.contains("mcp-session-id: s-1"), "{}", came.head);
        assert!(came.head.contains("mcp-protocol-version: 2025-11-25"), "{}", came.head);
    }
    assert!(came.iter().any(|came| came.head.starts_with("get /mcp ")));
    assert!(came.last().unwrap().head.starts_with("delete /mcp "));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_again() {
    let web = Web::start(|came, _| {
        if came.is("tools/call") {
            return events("id: e-7\nretry: 1\ndata:\n\n");
        }
        if came.head.contains("last-event-id: e-7") {
            // The fourth request with an id, whatever came in between.
            let answer = json!({"jsonrpc": "2.0", "id": 3, "result": text("done")});
            return events(&format!("id: e-8\ndata: {answer}\n\n"));
        }
        legacy(came)
    })
    .await;
    let client = web.connect().await.unwrap();
    assert_eq!(said(&toolbox(&client), "web__t", &json!({})).await, (false, "done".into()));
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_begun_anew() {
    let web = Web::start(|came, before| match came.is("tools/call") {
        true if before == 0 => reply("404 Not Found", "", ""),
        true => result(came, "", text("done")),
        false => legacy(came),
    })
    .await;
    let client = web.connect().await.unwrap();
    assert_eq!(said(&toolbox(&client), "web__t", &json!({})).await, (false, "done".into()));
    assert_eq!(web.came().iter().filter(|came| came.is("initialize")).count(), 2);
}

#[tokio::test]
async fn the_newest_revision_needs_no_session() {
    let web = Web::start(|came, _| {
        let version = "mcp-protocol-version: 2026-07-28";
        assert!(came.head.contains(version) && came.head.contains("mcp-method: "), "{}", came.head);
        match came.json["method"].as_str().unwrap() {
            "server/discover" => {
                let discovered = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"});
                result(came, "", discovered)
            }
            "tools/list" => {
                let list = json!({"resultType": "complete", "tools": [tool("t")], "ttlMs": 0, "cacheScope": "private"});
                result(came, "", list)
            }
            _ => result(came, "", text("done")),
        }
    })
    .await;
    let client = web.connect().await.unwrap();
    assert_eq!(said(&toolbox(&client), "web__t", &json!({})).await, (false, "done".into()));
    assert!(web.came().iter().all(|came| came.head.starts_with("post /mcp ")));
}

#[tokio::test]
async fn unreachable_server_error_hides_secrets() {
    let denied = "the MCP server `web` rejects the credential, or needs one: the server does not answer without one";
    let unreached = "cannot reach the MCP server `web`: ";
    for (answer, begins, says) in [
        (
            reply("401 Unauthorized", "www-authenticate: Bearer realm=\"x\"\r\n", ""),
            denied,
            " (its challenge: Bearer realm=\"x\"); set a bearer token",
        ),
        (reply("401 Unauthorized", "", ""), denied, "one; set a bearer token or a header in its config"),
        (
            reply("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", ""),
            unreached,
            "the server answered 307 Temporary Redirect: redirects are not followed",
        ),
        (reply("503 Service Unavailable", "", "sk-secret"), unreached, "HTTP 503"),
        (reply("200 OK", "content-type: text/html\r\n", "<html>"), unreached, "text/html"),
        (reply("200 OK", "content-type: application/json\r\n", "{}"), unreached, "the answer is not a message"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nfi".into(), unreached, ""),
        (String::new(), unreached, "the connection to 127.0.0.1"),
    ] {
        let web = Web::start(move |_, _| answer.clone()).await;
        let error = web.connect().await.unwrap_err().to_string();
        assert!(error.starts_with(begins) && error.contains(says) && !error.contains("sk-secret"), "{error}");
    }
}

#[tokio::test]
async fn http_responses_are_bounded() {
    let web = Web::start(|came, before| {
        if !came.is("tools/call") {
            return legacy(came);
        }
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":[{}0]}}"#,
            came.json["id"],
            "0,".repeat(limits::MCP_MESSAGE_VALUES)
        );
        match before {
            0 => reply("200 OK", "content-type: application/json\r\n", &"x".repeat(limits::MCP_MESSAGE_BYTES + 1)),
            1 => reply("200 OK", "content-type: application/json\r\n", &many),
            2 => events(&format!("data: {many}\n\n")),
            3 => reply(
                "500 Internal Server Error",
                "content-type: application/json\r\n",
                &json!({"jsonrpc": "2.0", "id": came.json["id"], "error": {"code": -32603, "message": "oops"}})
                    .to_string(),
            ),
            4 => reply("429 Too Many Requests", "retry-after: 7\r\n", ""),
            _ => result(came, "", text("done")),
        }
    })
    .await;
    let client = web.connect().await.unwrap();
    let tools = toolbox(&client);
    for why in [
        "exceeded the maximum size of 16777216 bytes",
        "the answer has more than 250000 values",
        "the answer has more than 250000 values",
        "oops",
        "HTTP 429",
    ] {
        let (is_error, text) = said(&tools, "web__t", &json!({})).await;
        assert!(is_error && text.contains(why), "{text}");
    }
    assert_eq!(said(&tools, "web__t", &json!({})).await, (false, "done".into()));
}

#[test]
fn addresses_and_headers_are_checked_first() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let http = |url: &str, header: &str| {
        let (client, url) = (HttpClient::new().unwrap(), url.parse().unwrap());
        let http =
            McpHttpTarget { client, url, auth: None, headers: vec![(header.into(), Secret::new("x"))], oauth: None };
        ServerConfig::new("web", McpTarget::Http(http))
    };
    for (config, why) in [
        (http("ftp://example.com", "x-a"), "invalid URL; begin it with http:// or https://"),
        (http("http://example.com", "content-type"), "the header `content-type` is set by the host; leave it out"),
        (http("http://example.com", "a b"), "invalid header name `a b`"),
    ] {
        let error = runtime.block_on(McpClient::connect(config, McpClientFeatures::default())).unwrap_err().to_string();
        assert_eq!(error, format!("cannot use the MCP server `web`: {why}"));
    }
}

#[tokio::test(start_paused = true)]
async fn deep_answer_of_an_event_stream_is_refused_at_once() {
    let web = Web::start(|came, _| match came.is("tools/call") {
        true => {
            let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
            let result = format!(r#"{{"content":[],"structuredContent":{deep}}}"#);
            events(&format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n\n", came.json["id"]))
        }
        false => legacy(came),
    })
    .await;
    let client = web.connect().await.unwrap();
    let (is_error, said) = said(&toolbox(&client), "web__t", &json!({})).await;
    assert!(is_error && said.contains("nested lists and objects"), "{said}");
}
