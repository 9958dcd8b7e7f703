//! A server that plays the model. Its replies follow from the conversation alone, so that a run has the same answer however
//! often it was interrupted; and it counts what it is asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::chat::Usage;

use super::{
    plan::BoxError,
    tasks::{AGENTS, BOARD_TASKS, LOWEST, PlacedPart, TaskKind, kind_of, note_for},
};

/// The usage of each reply.
pub const REPLY_USAGE: Usage = Usage { input_tokens: 7, output_tokens: 3, cache_read_tokens: 0, cache_write_tokens: 0 };

/// The text of the result of a call that may have been made before a crash.
const INTERRUPTED: &str = "during this call";

/// The largest number of questions of a run whose answers are lost.
const QUESTIONS: usize = 6;

/// The largest number of looks of a run at the messages to it, and the time between two of them.
const LOOKS: usize = 40;
const LOOK: Duration = Duration::from_millis(1_500);

/// A conversation, as a request shows it.
struct ModelConversation {
    run: String,
    kind: TaskKind,
    part: u32,
    /// The results of all calls so far. Their number is the step.
    results: Vec<String>,
    /// The number of messages of the person so far.
    notes: usize,
}

/// The requests of one run.
#[derive(Debug, Clone, Default)]
pub struct ModelRecord {
    /// The number of requests by part and step.
    pub requests: BTreeMap<(u32, usize), u32>,
    /// The last result of each call that cannot be repeated, by the name of its file.
    pub results: BTreeMap<String, String>,
    /// Requests for steps that the journal has: a call that cannot be repeated was made after them, for which they had to be
    /// there.
    pub late: u32,
    /// The parts that hold each task of the board, as its claims said.
    pub claims: BTreeMap<String, BTreeSet<u32>>,
    /// The last list of the board.
    pub board: String,
    /// The most messages of the person that a conversation had.
    pub notes: usize,
    /// The time of the last request.
    pub newest: Option<Instant>,
    /// The steps that the journal has, by part.
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
#[derive(Clone)]
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

    /// Returns the runs of this kind that have asked.
    pub fn runs(&self, is_wanted: impl Fn(TaskKind) -> bool) -> Vec<String> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.keys().filter(|run| is_wanted(kind_of(run))).cloned().collect()
    }
}

fn serve(mut connection: TcpStream, records: &ModelRecords, thinking: Duration) -> Result<(), BoxError> {
    let body = read_body(&mut connection)?;
    let (status, reply, pause) = match ModelConversation::read(&body) {
        Some(conversation) => {
            note(&mut records.lock().unwrap_or_else(PoisonError::into_inner), &conversation);
            let pause = if conversation.kind == TaskKind::Note { LOOK } else { Duration::ZERO };
            ("200 OK", conversation.reply(), pause)
        }
        None => {
            let error = json!({"error": {"message": "the conversation has no task of the trial"}});
            ("400 Bad Request", error, Duration::ZERO)
        }
    };
    thread::sleep(thinking + pause);
    let reply = reply.to_string();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", reply.len());
    Ok(connection.write_all((head + &reply).as_bytes())?)
}

fn note(records: &mut BTreeMap<String, ModelRecord>, conversation: &ModelConversation) {
    let ModelConversation { run, kind, part, results, notes } = conversation;
    let record = records.entry(run.clone()).or_default();
    for (step, result) in results.iter().enumerate() {
        if let Some(name) = kind.effect(run, *part, step) {
            record.results.insert(name, result.clone());
            let recorded = record.recorded.entry(*part).or_default();
            *recorded = (*recorded).max(step + 1);
        }
        if let Some(task) = kind.claim(*part, step).filter(|_| is_claimed(result)) {
            record.claims.entry(task).or_default().insert(*part);
        }
    }
    if let (TaskKind::Board, 0, Some(list)) = (kind, part, results.get(BOARD_TASKS + 2)) {
        record.board.clone_from(list);
    }
    record.notes = record.notes.max(*notes);
    let step = results.len();
    if record.recorded.get(part).is_some_and(|recorded| step < *recorded) {
        record.late += 1;
    }
    *record.requests.entry((*part, step)).or_default() += 1;
    record.newest = Some(Instant::now());
}

/// Returns `true` if the result of a claim says that the task is that of the agent now.
fn is_claimed(result: &str) -> bool {
    result.contains("in_progress") && !result.contains("already assigned")
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
        let (run, kind, part) = (words.next()?, words.next()?, words.next()?);
        let kind = TaskKind::ALL.into_iter().find(|known| known.word() == kind)?;
        let results = of("tool").map(|message| text_of(&message["content"])).collect();
        let note = note_for(run);
        let notes = of("user").map(|message| text_of(&message["content"]).matches(&note).count()).sum();
        Some(Self { run: run.to_owned(), kind, part: part.parse().ok()?, results, notes })
    }

    /// Returns the reply to this conversation.
    fn reply(&self) -> Value {
        let (Self { run, kind, part, results, notes }, step) = (self, self.results.len());
        let answer = || self.says(&kind.answer(run));
        if let Some(name) = kind.effect(run, *part, step) {
            return self
                .calls("exec_run", &json!({"command": "effect", "args": [format!("{name}.{}", "X".repeat(6))]}));
        }
        match kind {
            TaskKind::Look if step < 3 => self.calls("list_agents", &json!({})),
            TaskKind::Effect if step < 4 => self.calls("list_agents", &json!({})),
            TaskKind::Look | TaskKind::Effect => answer(),
            TaskKind::Ask if results.iter().any(|result| result.contains("blue")) => answer(),
            TaskKind::Ask if step < QUESTIONS => self.question(),
            TaskKind::Ask => self.says(&format!("{run} has no colour.")),
            TaskKind::Delegate => self.delegation(step),
            TaskKind::Place | TaskKind::Cancel => self.placed(step),
            TaskKind::Board => self.board(step),
            TaskKind::Note if *notes > 0 && step > 0 => answer(),
            TaskKind::Note if step < LOOKS => self.calls("list_agents", &json!({})),
            TaskKind::Note => self.says(&format!("{run} was not told.")),
        }
    }

    fn question(&self) -> Value {
        let options = json!([{"label": "red"}, {"label": "blue"}]);
        self.calls("ask_user", &json!({"question": "Which colour?", "options": options}))
    }

    /// Returns the reply of an agent of a delegation.
    fn delegation(&self, step: usize) -> Value {
        let Self { run, kind, part, results, .. } = self;
        let below = part + 1;
        let agent = AGENTS.get(below as usize).copied().filter(|_| step == 0);
        if let Some(agent) = agent {
            let task = json!({"agent": agent, "task": kind.task(run, below), "context": "Know this."});
            return self.calls("delegate", &json!({"tasks": [task]}));
        }
        // What the lowest agent has done may be unknown to it; then it says so no less.
        let is_done = *part == LOWEST || results.iter().any(|result| result.contains(&self.done(below)));
        match (is_done, part) {
            (true, 0) => self.says(&kind.answer(run)),
            (false, 0) => self.says(&format!("{run} was not done by others.")),
            (true, _) => self.calls("task_complete", &json!({"status": "completed", "summary": self.done(*part)})),
            (false, _) => {
                self.calls("task_complete", &json!({"status": "failed", "summary": "the part below is not done"}))
            }
        }
    }

    /// Returns the reply of an agent that hands its task on to agents on other workers, or of such an agent.
    fn placed(&self, step: usize) -> Value {
        let Self { run, kind, part, results, .. } = self;
        let below = PlacedPart::below(*kind, *part);
        match (below.is_empty(), step) {
            (false, 0) => self.hand_on(&below),
            (false, _) => match below.iter().all(|below| self.has_result(&self.done(below.part))) {
                true if *part == 0 => self.says(&kind.answer(run)),
                true => self.says(&self.done(*part)),
                false => self.says(&format!("{run} part {part} has failed: {results:?}")),
            },
            (true, _) if kind.is_answered() && self.has_result("blue") => self.says(&self.done(*part)),
            (true, _) if step < QUESTIONS => self.question(),
            (true, _) => self.says(&format!("{run} part {part} has no colour.")),
        }
    }

    /// Returns the reply of an agent with a board.
    fn board(&self, step: usize) -> Value {
        let Self { run, kind, part, .. } = self;
        if let Some(task) = kind.claim(*part, step) {
            return self.calls("shared_tasks_claim", &json!({"id": task}));
        }
        let below = PlacedPart::below(*kind, *part);
        match step {
            _ if *part > 0 => self.says(&self.done(*part)),
            step if step < BOARD_TASKS => self.calls("shared_tasks_create", &json!({"title": format!("dig {step}")})),
            BOARD_TASKS => self.hand_on(&below),
            step if step == BOARD_TASKS + below.len() => self.calls("shared_tasks_list", &json!({})),
            _ => match below.iter().all(|below| self.has_result(&self.done(below.part))) {
                true => self.says(&kind.answer(run)),
                false => self.says(&format!("{run} was not shared out.")),
            },
        }
    }

    fn has_result(&self, text: &str) -> bool {
        self.results.iter().any(|result| result.contains(text))
    }

    /// Returns the answer of a part.
    fn done(&self, part: u32) -> String {
        format!("{} part {part} is done", self.run)
    }

    /// Returns the reply that calls these agents.
    fn hand_on(&self, to: &[PlacedPart]) -> Value {
        let call = |to: &PlacedPart| (to.agent, json!({"task": self.kind.task(&self.run, to.part)}));
        self.calls_all(&to.iter().map(call).collect::<Vec<_>>())
    }

    fn says(&self, text: &str) -> Value {
        completion(&json!({"message": {"content": text}, "finish_reason": "stop"}))
    }

    fn calls(&self, tool: &str, arguments: &Value) -> Value {
        self.calls_all(&[(tool, arguments.clone())])
    }

    fn calls_all(&self, tools: &[(&str, Value)]) -> Value {
        let call = |(at, (tool, arguments)): (usize, &(&str, Value))| {
            let function = json!({"name": tool, "arguments": arguments.to_string()});
            let id = format!("c{}-{}-{at}", self.part, self.results.len());
            json!({"id": id, "type": "function", "function": function})
        };
        let calls: Vec<_> = tools.iter().enumerate().map(call).collect();
        completion(&json!({"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}))
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
