//! The command `shelly-host serve`: the program as an HTTP server, for clients that speak HTTP by hand.

mod a2a;
mod a2a_push;
mod a2a_remote;
mod access;
mod ag_ui;
mod examples;
mod http_attacks;
mod openai_chat;
mod openai_clients;
mod openai_responses;
mod options;
mod questions;
mod runs;
mod session_events;
mod streams;
mod tls;
mod trace_context;
mod triggers;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    bad_input::{answer, request},
    support::Place,
};

/// The time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A model server, each of whose connections has a thread.
pub struct ModelServer {
    pub port: u16,
}

impl ModelServer {
    pub fn start(reply: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, reply) = (listener.local_addr().unwrap().port(), Arc::new(reply));
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let reply = Arc::clone(&reply);
                thread::spawn(move || {
                    let request = request(&mut connection);
                    let _ = connection.write_all(reply(&request).as_bytes());
                });
            }
        });
        Self { port }
    }

    /// The config of an agent on this model.
    pub fn config(&self, agent: &str) -> String {
        let url = format!("http://127.0.0.1:{}/v1", self.port);
        format!(
            "providers: [{{name: local, kind: openai, base_url: \"{url}\", model: m, context_window: 32768, retries: 0}}]\n\
             agents: [{{name: helper, description: Helps., {agent}}}]\n"
        )
    }
}

/// A reply of a model that says this.
pub fn says(text: &str) -> String {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    let choice = json!({"message": {"content": text}, "finish_reason": "stop"});
    answer("200 OK", &json!({"choices": [choice], "usage": usage}).to_string())
}

/// A reply of a model that arrives in these pieces: the fields of each delta.
pub fn streams(deltas: &[Value], finish: &str) -> String {
    let delta = |delta: &Value| json!({"choices": [{"delta": delta, "finish_reason": null}]});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    let last = json!({"choices": [{"delta": {}, "finish_reason": finish}], "usage": usage});
    let events: String = deltas.iter().map(delta).chain([last]).map(|event| format!("data: {event}\n\n")).collect();
    answer("200 OK\r\ncontent-type: text/event-stream", &format!("{events}data: [DONE]\n\n"))
}

/// A reply of a model that calls a tool.
pub fn calls(tool: &str, arguments: &Value) -> String {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"id": "c1", "type": "function", "function": function});
    let choice = json!({"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"});
    answer("200 OK", &json!({"choices": [choice]}).to_string())
}

/// A gate that is closed until it is opened.
#[derive(Clone, Default)]
pub struct ReplyGate(Arc<(Mutex<bool>, Condvar)>);

impl ReplyGate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let opened = self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), PATIENCE, |is_open| !*is_open);
        drop(opened.unwrap());
    }
}

/// The program as a server.
pub struct HttpServed {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub address: String,
    /// The token that it has printed; empty if it has not.
    pub token: String,
}

/// An answer of the server.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl HttpServed {
    /// Starts the program with a config that is named, and so needs no consent.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::of(place.command(&[&["serve", "--listen", ":0", "--config", "shelly.yaml"], arguments].concat()))
    }

    pub fn of(mut command: Command) -> Self {
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let rest = loop {
            let before = said.len();
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
            if let Some((_, rest)) = said[before..].strip_prefix("serving at ").and_then(|at| at.split_once("://")) {
                break rest.trim().to_owned();
            }
        };
        let (address, rest) = rest.split_once('/').unwrap_or_else(|| panic!("{rest}"));
        let token = rest.strip_prefix("#token=").unwrap_or_default().to_owned();
        Self { child, stderr, address: address.to_owned(), token }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes, and returns all that comes until the connection ends.
    pub fn say(&self, text: &str) -> HttpAnswer {
        let mut stream = self.connect();
        // The server may have answered and hung up before it has read all of it.
        let _ = stream.write_all(text.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        HttpAnswer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Sends a request with these headers alone.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> HttpAnswer {
        let length = body.len();
        self.say(&format!(
            "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        ))
    }

    /// The headers of a client that may do everything.
    pub fn known(&self) -> String {
        let token = match self.token.is_empty() {
            true => String::new(),
            false => format!("authorization: Bearer {}\r\n", self.token),
        };
        format!("host: localhost\r\n{token}")
    }

    pub fn get(&self, path: &str) -> HttpAnswer {
        self.send("GET", path, &self.known(), "")
    }

    pub fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.post_with(path, "", body)
    }

    pub fn post_with(&self, path: &str, headers: &str, body: &Value) -> HttpAnswer {
        let headers = format!("{}content-type: application/json\r\n{headers}", self.known());
        self.send("POST", path, &headers, &body.to_string())
    }

    /// Sends a request whose answer is a stream. Returns the data of its events.
    pub fn data_of(&self, path: &str, body: &Value) -> Vec<String> {
        let answered = self.post(path, body);
        assert_eq!(answered.status, 200, "{answered:?}");
        assert_eq!(answered.header("content-type"), Some("text/event-stream"), "{answered:?}");
        assert!(!answered.body.contains("retry:") && !answered.body.contains("id:"), "clients take them for events");
        answered.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// Sends a request and leaves the connection open.
    pub fn begin(&self, path: &str, body: &Value) -> TcpStream {
        let (mut stream, body) = (self.connect(), body.to_string());
        let head = format!("{}content-type: application/json\r\ncontent-length: {}", self.known(), body.len());
        stream.write_all(format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// Waits until the only run has this state. Returns it.
    pub fn only_run(&self, state: &str) -> Value {
        let listed = self.wait_for("/api/v1/runs", |listed| listed["runs"][0]["state"] == state);
        assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed}");
        listed["runs"][0].clone()
    }

    /// Starts a run. Returns its id.
    pub fn run(&self, body: &Value) -> String {
        let started = self.post("/api/v1/runs", body);
        assert_eq!(started.status, 201, "{started:?}");
        started.json()["run"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has ended.
    pub fn ended(&self, run: &str) -> Value {
        self.wait_for(&format!("/api/v1/runs/{run}"), |run| {
            !["preparing", "running"].contains(&run["state"].as_str().unwrap())
        })
    }

    /// Waits until what is at this path fulfils a condition.
    pub fn wait_for(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let value = self.get(path).json();
            if is_so(&value) {
                return value;
            }
            assert!(begun.elapsed() < PATIENCE, "{value}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reads the events of a run, with these headers beside the usual ones.
    pub fn watch(&self, path: &str, headers: &str) -> EventReader {
        let mut stream = self.connect();
        let head = format!("GET {path} HTTP/1.1\r\n{}{headers}\r\n", self.known());
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (mut line, mut head) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            assert_ne!(reader.read_line(&mut line).unwrap(), 0, "{head}");
            head.push_str(&line);
        }
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
        EventReader { reader }
    }

    /// Sends SIGTERM, and returns the exit code and what was said on standard error.
    pub fn terminate(mut self) -> (i32, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), said)
    }
}

impl Drop for HttpServed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of server-sent events.
pub struct EventReader {
    reader: BufReader<TcpStream>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SentEvent {
    pub name: String,
    pub id: Option<u64>,
    pub data: Value,
}

impl EventReader {
    /// Returns the next event; `None` at the end of the stream. The lines of the chunks end with `\r\n`, those of events do
    /// not.
    pub fn next(&mut self) -> Option<SentEvent> {
        let mut event = SentEvent { name: String::new(), id: None, data: Value::Null };
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 || line == "0\r\n" {
                return None;
            }
            match line.trim_end_matches('\n').split_once(": ") {
                _ if line.ends_with("\r\n") => {}
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("id", id)) => event.id = Some(id.parse().unwrap()),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                None if line == "\n" && !event.name.is_empty() => return Some(event),
                // The time of a retry, a keep-alive, and the empty lines after them.
                _ => {}
            }
        }
    }

    /// Returns the events up to the first of this kind, with it.
    pub fn until(&mut self, is_last: impl Fn(&SentEvent) -> bool) -> Vec<SentEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next() {
            let ends = is_last(&event);
            events.push(event);
            if ends {
                return events;
            }
        }
        panic!("the stream has ended: {events:?}")
    }

    /// Returns all events to the end of the stream.
    pub fn rest(mut self) -> Vec<SentEvent> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Reads from a connection until this text has come. Returns all of it.
pub fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut read, mut chunk) = (String::new(), [0; 4_096]);
    while !read.contains(text) {
        let count = stream.read(&mut chunk).unwrap();
        assert_ne!(count, 0, "{read}");
        read.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
    read
}

/// Returns `true` for an event of a run of this name.
pub fn is_run_event(event: &SentEvent, name: &str) -> bool {
    event.name == "run" && event.data["event"] == name
}
