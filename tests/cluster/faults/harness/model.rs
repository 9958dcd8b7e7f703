//! A server that plays the model. Its replies follow from the conversation alone, so that a run has the same answer however
//! often it was interrupted; and it counts what it is asked.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::chat::Usage;

use super::plan::BoxError;

/// The usage of each reply.
pub const REPLY_USAGE: Usage = Usage { input_tokens: 7, output_tokens: 3, cache_read_tokens: 0, cache_write_tokens: 0 };

/// The text of the result of a call that may have been made before a crash.
const INTERRUPTED: &str = "during this call";

/// The largest number of questions of a run whose answers are lost.
const QUESTIONS: usize = 6;

/// The depth of the lowest agent of a delegation.
const LOWEST: u32 = 3;

/// The agents, by their depth.
pub const AGENTS: [&str; 4] = ["lead", "middle", "inner", "leaf"];

/// The kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Calls that can be repeated.
    Look,
    /// Calls that cannot, among others.
    Effect,
    /// A question to a person.
    Ask,
    /// A task that is delegated, three deep; the lowest agent makes a call that cannot be repeated.
    Delegate,
}

impl TaskKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Look, Self::Effect, Self::Ask, Self::Delegate];

    fn word(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Effect => "effect",
            Self::Ask => "ask",
            Self::Delegate => "delegate",
        }
    }

    /// Returns the task of an agent at this depth.
    pub fn task(self, run: &str, depth: u32) -> String {
        format!("Do your part. [[{run} {} {depth}]]", self.word())
    }

    /// Returns the answer without faults.
    pub fn answer(self, run: &str) -> String {
        match self {
            Self::Look => format!("{run} has looked."),
            Self::Effect => format!("{run} has done both."),
            Self::Ask => format!("{run} is blue."),
            Self::Delegate => format!("{run} is done by others."),
        }
    }

    /// Returns the number of replies without faults.
    pub fn replies(self) -> usize {
        match self {
            Self::Look => 4,
            Self::Effect => 5,
            Self::Ask => 2,
            Self::Delegate => 8,
        }
    }

    /// Returns the beginning of the name of the file that the call at this step makes; `None` if it makes none.
    fn effect(self, run: &str, depth: u32, step: usize) -> Option<String> {
        let makes_one = match self {
            Self::Effect => step == 1 || step == 3,
            Self::Delegate => depth == LOWEST && step == 0,
            Self::Look | Self::Ask => false,
        };
        makes_one.then(|| format!("{run}.{depth}.{step}"))
    }
}

/// A conversation, as a request shows it.
struct ModelConversation {
    run: String,
    kind: TaskKind,
    depth: u32,
    /// The results of all calls so far. Each reply has one call, so their number is the step.
    results: Vec<String>,
}

/// The requests of one run.
#[derive(Debug, Clone, Default)]
pub struct ModelRecord {
    /// The number of requests by depth and step.
    pub requests: BTreeMap<(u32, usize), u32>,
    /// The last result of each call that cannot be repeated, by the name of its file.
    pub results: BTreeMap<String, String>,
    /// Requests for steps that the journal has: a call that cannot be repeated was made after them, for which they had to be
    /// there.
    pub late: u32,
    /// The time of the last request.
    pub newest: Option<Instant>,
    /// The steps that the journal has, by depth.
    recorded: BTreeMap<u32, usize>,
}

impl ModelRecord {
    /// Returns the number of requests that were beyond one for each step.
    pub fn repeated(&self) -> u32 {
        self.requests.values().map(|count| count - 1).sum()
    }

    /// Returns `true` if this result says that nobody knows whether the call was made.
    pub fn is_unknown(result: &str) -> bool {
        result.contains(INTERRUPTED)
    }
}

type ModelRecords = Arc<Mutex<BTreeMap<String, ModelRecord>>>;

/// A server that plays the model. Its listener ends with the process.
pub struct ScriptedModel {
    port: u16,
    records: ModelRecords,
}

impl ScriptedModel {
    /// Starts a server that thinks so long about each reply.
    pub fn start(thinking: Duration) -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let records = ModelRecords::default();
        let of_listener = Arc::clone(&records);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let records = Arc::clone(&of_listener);
                // A worker that was killed does not hear its reply.
                thread::spawn(move || drop(serve(connection, &records, thinking)));
            }
        });
        Ok(Self { port, records })
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the requests of a run so far.
    pub fn record(&self, run: &str) -> ModelRecord {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.get(run).cloned().unwrap_or_default()
    }
}

fn serve(mut connection: TcpStream, records: &ModelRecords, thinking: Duration) -> Result<(), BoxError> {
    let body = read_body(&mut connection)?;
    let (status, reply) = match ModelConversation::read(&body) {
        Some(conversation) => {
            note(&mut records.lock().unwrap_or_else(PoisonError::into_inner), &conversation);
            ("200 OK", conversation.reply())
        }
        None => ("400 Bad Request", json!({"error": {"message": "the conversation has no task of the trial"}})),
    };
    thread::sleep(thinking);
    let reply = reply.to_string();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", reply.len());
    Ok(connection.write_all((head + &reply).as_bytes())?)
}

fn note(records: &mut BTreeMap<String, ModelRecord>, conversation: &ModelConversation) {
    let ModelConversation { run, kind, depth, results } = conversation;
    let record = records.entry(run.clone()).or_default();
    for (step, result) in results.iter().enumerate() {
        if let Some(name) = kind.effect(run, *depth, step) {
            record.results.insert(name, result.clone());
            let recorded = record.recorded.entry(*depth).or_default();
            *recorded = (*recorded).max(step + 1);
        }
    }
    let step = results.len();
    if record.recorded.get(depth).is_some_and(|recorded| step < *recorded) {
        record.late += 1;
    }
    *record.requests.entry((*depth, step)).or_default() += 1;
    record.newest = Some(Instant::now());
}

impl ModelConversation {
    /// Reads the body of a request; `None` if it is none of the trial.
    fn read(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let messages = body["messages"].as_array()?;
        let of = |role: &'static str| messages.iter().filter(move |message| message["role"] == role);
        // What the parent knows, and notes about other tasks, stand before the task.
        let task = of("user").map(|message| text_of(&message["content"])).rfind(|text| text.contains("[["))?;
        let mut words = task.rsplit_once("[[")?.1.split_once("]]")?.0.split(' ');
        let (run, kind, depth) = (words.next()?, words.next()?, words.next()?);
        let kind = TaskKind::ALL.into_iter().find(|known| known.word() == kind)?;
        let results = of("tool").map(|message| text_of(&message["content"])).collect();
        Some(Self { run: run.to_owned(), kind, depth: depth.parse().ok()?, results })
    }

    /// Returns the reply to this conversation.
    fn reply(&self) -> Value {
        let (Self { run, kind, depth, results }, step) = (self, self.results.len());
        let answer = || self.says(&kind.answer(run));
        if let Some(name) = kind.effect(run, *depth, step) {
            return self
                .calls("exec_run", &json!({"command": "effect", "args": [format!("{name}.{}", "X".repeat(6))]}));
        }
        match kind {
            TaskKind::Look if step < 3 => self.calls("list_agents", &json!({})),
            TaskKind::Effect if step < 4 => self.calls("list_agents", &json!({})),
            TaskKind::Look | TaskKind::Effect => answer(),
            TaskKind::Ask if results.iter().any(|result| result.contains("blue")) => answer(),
            TaskKind::Ask if step < QUESTIONS => {
                let options = json!([{"label": "red"}, {"label": "blue"}]);
                self.calls("ask_user", &json!({"question": "Which colour?", "options": options}))
            }
            TaskKind::Ask => self.says(&format!("{run} has no colour.")),
            TaskKind::Delegate => self.delegation(step),
        }
    }

    /// Returns the reply of an agent of a delegation.
    fn delegation(&self, step: usize) -> Value {
        let Self { run, kind, depth, results } = self;
        let below = depth + 1;
        let agent = AGENTS.get(below as usize).copied().filter(|_| step == 0);
        if let Some(agent) = agent {
            let task = json!({"agent": agent, "task": kind.task(run, below), "context": "Know this."});
            return self.calls("delegate", &json!({"tasks": [task]}));
        }
        let part_of = |depth: u32| format!("{run} part {depth} is done");
        // What the lowest agent has done may be unknown to it; then it says so no less.
        let is_done = *depth == LOWEST || results.iter().any(|result| result.contains(&part_of(below)));
        match (is_done, depth) {
            (true, 0) => self.says(&kind.answer(run)),
            (false, 0) => self.says(&format!("{run} was not done by others.")),
            (true, _) => self.calls("task_complete", &json!({"status": "completed", "summary": part_of(*depth)})),
            (false, _) => {
                self.calls("task_complete", &json!({"status": "failed", "summary": "the part below is not done"}))
            }
        }
    }

    fn says(&self, text: &str) -> Value {
        completion(&json!({"message": {"content": text}, "finish_reason": "stop"}))
    }

    fn calls(&self, tool: &str, arguments: &Value) -> Value {
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        let call =
            json!({"id": format!("c{}-{}", self.depth, self.results.len()), "type": "function", "function": function});
        completion(&json!({"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}))
    }
}

fn completion(choice: &Value) -> Value {
    let (input, output) = (REPLY_USAGE.input_tokens, REPLY_USAGE.output_tokens);
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    json!({"choices": [choice], "usage": usage})
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Reads a request, and returns its body.
fn read_body(connection: &mut TcpStream) -> Result<Vec<u8>, BoxError> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
            if bytes.len() >= end + 4 + length {
                return Ok(bytes[end + 4..end + 4 + length].to_vec());
            }
        }
        match connection.read(&mut chunk)? {
            0 => return Err("the request is cut off".into()),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}
