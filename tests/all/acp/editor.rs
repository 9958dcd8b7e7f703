//! A scripted editor.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};

use super::schema::{check_message, is_valid_request};
use crate::support::Place;

/// The program, and an editor that speaks to it line by line. Whatever the program writes to standard output must be a
/// valid message of the protocol.
pub struct ScriptedEditor {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The messages that nobody has asked for yet.
    told: Vec<Value>,
    /// The methods of the requests that are not answered yet.
    open: HashMap<u64, String>,
    last: u64,
}

impl ScriptedEditor {
    /// Starts the program without the handshake.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(&[&["acp"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, told: Vec::new(), open: HashMap::new(), last: 0 }
    }

    /// Starts the program with an editor that has these abilities.
    pub fn greeted(place: &Place, arguments: &[&str], capabilities: Value) -> Self {
        let mut editor = Self::start(place, arguments);
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let greeting = editor.ask("initialize", params);
        assert_eq!(greeting["result"]["protocolVersion"], 1, "{greeting}");
        editor
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request. Returns its id.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        assert!(is_valid_request(method, &params), "{method}: {params:.200}");
        self.last += 1;
        self.open.insert(self.last, method.to_owned());
        self.say(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).to_string());
        self.last
    }

    /// Reads the next message; `None` if the program has ended.
    pub fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let answered = message["id"].as_u64().filter(|_| message.get("method").is_none());
        let method = answered.and_then(|id| self.open.remove(&id));
        check_message(&message, method.as_deref());
        Some(message)
    }

    fn expect(&mut self) -> Value {
        match self.next() {
            Some(message) => message,
            None => panic!("it has ended: {}", self.rest().1),
        }
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Waits for a message of the program that calls this method.
    pub fn called(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method)
    }

    /// Returns `true` if the program has called this method so far.
    pub fn has_called(&self, method: &str) -> bool {
        self.told.iter().any(|message| message["method"] == method)
    }

    /// Waits for an update of this kind. Returns it with the id of its conversation.
    pub fn update(&mut self, kind: &str) -> (String, Value) {
        let message = self.wait_for(|message| message["params"]["update"]["sessionUpdate"] == kind);
        let params = &message["params"];
        (params["sessionId"].as_str().unwrap().to_owned(), params["update"].clone())
    }

    fn wait_for(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.told.iter().position(&is_meant) {
            return self.told.remove(at);
        }
        loop {
            let message = self.expect();
            if is_meant(&message) {
                return message;
            }
            self.told.push(message);
        }
    }

    /// Answers a request of the program.
    pub fn respond(&mut self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
    }

    /// Answers a request of the program with an error.
    pub fn refuse(&mut self, request: &Value, code: i64) {
        let error = json!({"code": code, "message": "busy"});
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string());
    }

    /// Begins a conversation in the folder of a place. Returns its id.
    pub fn conversation(&mut self, place: &Place) -> String {
        let opened = self.ask("session/new", json!({"cwd": place.path(), "mcpServers": []}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    }

    /// Sends a prompt with this text. Returns the id of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> u64 {
        self.begin("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// Sends a prompt and waits for its answer. Returns the reason for which it has ended.
    pub fn prompted(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text);
        let answer = self.answer(id);
        answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Takes the text that a conversation was shown so far, of these pieces.
    pub fn text(&mut self, session: &str, kind: &str) -> String {
        let is_meant = |message: &Value| {
            let params = &message["params"];
            params["sessionId"] == session && params["update"]["sessionUpdate"] == kind
        };
        let (meant, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.told).into_iter().partition(is_meant);
        self.told = rest;
        let text = |message: &Value| message["params"]["update"]["content"]["text"].as_str().map(str::to_owned);
        meant.iter().filter_map(text).collect()
    }

    /// Kills the program's editor: its end of the pipes is gone at once. Returns the exit code.
    pub fn vanish(mut self) -> i32 {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Hangs up. Returns the exit code, and what the program wrote to standard error.
    pub fn end(mut self) -> (i32, String) {
        drop(self.stdin.take());
        while self.next().is_some() {}
        self.rest()
    }

    fn rest(&mut self) -> (i32, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), said)
    }
}

impl Drop for ScriptedEditor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
