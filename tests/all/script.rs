//! Helpers for tests of whole runs: scripted models, tools, and conversations as text.

use std::{future::Future, sync::Mutex, time::Duration};

use crate::vendors::check_transcript;
use async_trait::async_trait;
use serde_json::Value;
use shelly_host::{
    agent::{Agent, RunAnswer, RunError},
    capability::Price,
    chat::{Chat, ChatSnapshot, Message, Part, PropertyNames, Role, ToolHints, ToolSpec},
    error::Fault,
    event::{Event, EventSink, RunCx},
    model::{
        Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ReplyDelta, ScriptedCompleter, StopReason,
    },
    tool::{FnTool, Tool, ToolCx},
};

pub type Reply = Result<Completion, Fault>;

pub fn text(text: &str) -> Reply {
    ScriptedCompleter::text(text)
}

/// A reply that calls tools: `(id, name, arguments)`.
pub fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    ScriptedCompleter::calls(calls)
}

/// A reply that calls one tool; the chat gives the call its id.
pub fn act(tool: &str, arguments: Value) -> Reply {
    acts(&[(tool, arguments)])
}

pub fn acts(list: &[(&str, Value)]) -> Reply {
    let list: Vec<_> = list.iter().map(|(tool, arguments)| (*tool, arguments.to_string())).collect();
    calls(&list.iter().map(|(tool, arguments)| ("", *tool, arguments.as_str())).collect::<Vec<_>>())
}

pub fn stopped(reply: Reply, stop: StopReason) -> Reply {
    reply.map(|completion| Completion { stop, ..completion })
}

/// A model whose replies follow from the request, so that any number of agents can share it.
pub struct Mind {
    info: ModelInfo,
    think: Box<dyn Fn(&Asked<'_>) -> Reply + Send + Sync>,
    asked: Mutex<Vec<(String, CompletionRequest)>>,
    /// The time that a reply takes.
    delay: Duration,
}

pub struct Asked<'a> {
    /// The instance name of the agent.
    pub agent: &'a str,
    /// The number of replies before this one.
    pub turn: usize,
    /// The text of the newest message.
    pub heard: String,
    pub request: &'a CompletionRequest,
}

impl Mind {
    pub fn new(think: impl Fn(&Asked<'_>) -> Reply + Send + Sync + 'static) -> Self {
        let info = ModelInfo::named("mind");
        Self { info, think: Box::new(think), asked: Mutex::default(), delay: Duration::ZERO }
    }

    /// Gives every agent the same replies: the first one in its first turn, and so on.
    pub fn steps(steps: impl IntoIterator<Item = Reply>) -> Self {
        let steps: Vec<_> = steps.into_iter().collect();
        Self::new(move |asked| {
            let out = || Err(Fault::Exhausted { message: "the script has no more replies".into() });
            steps.get(asked.turn).cloned().unwrap_or_else(out)
        })
    }

    pub fn priced(mut self, price: Price) -> Self {
        self.info.price = Some(price);
        self
    }

    /// Sets the context window, in tokens.
    pub fn windowed(self, tokens: u64) -> Self {
        self.info.context_window.set(Some(tokens));
        self
    }

    pub fn slow(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Returns the requests so far, each with its agent.
    pub fn asked(&self) -> Vec<(String, CompletionRequest)> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the distinct system prompts that the model was sent.
    pub fn prompts(&self) -> Vec<String> {
        let mut prompts: Vec<_> =
            self.asked().iter().filter_map(|(_, request)| request.messages.system_prompt()).collect();
        prompts.dedup();
        prompts
    }
}

#[async_trait]
impl Completer for Mind {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Reply {
        self.asked.lock().unwrap().push((cx.agent.to_string(), request.clone()));
        let turn = request.messages.iter().filter(|entry| entry.message.role == Role::Assistant).count();
        let heard = request.messages.last().map_or(String::new(), |entry| said(&entry.message));
        let reply = (self.think)(&Asked { agent: &cx.agent, turn, heard, request });
        if let Ok(reply) = &reply {
            sink.emit(ReplyDelta::Usage(reply.usage)).await;
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        reply
    }
}

/// A tool that ignores its arguments.
pub fn tool<Fut>(name: &str, does: impl Fn(ToolCx) -> Fut + Send + Sync + 'static) -> impl Tool + 'static
where
    Fut: Future<Output = Result<String, Fault>> + Send + 'static,
{
    spec_of(name, move |cx, _| does(cx))
}

/// The description of a tool that takes any object.
pub fn spec_named(name: &str) -> ToolSpec {
    let input_schema = serde_json::value::to_raw_value(&serde_json::json!({"type": "object"})).unwrap().into();
    let (hints, property_names) = (ToolHints::default(), PropertyNames::default());
    ToolSpec { name: name.into(), description: "test".into(), input_schema, hints, property_names }
}

/// A tool that receives its arguments as JSON, and takes any object.
pub fn spec_of<Fut>(
    name: &str,
    does: impl Fn(ToolCx, Value) -> Fut + Send + Sync + 'static,
) -> FnTool<Value, impl Fn(ToolCx, Value) -> Fut + Send + Sync + 'static>
where
    Fut: Future<Output = Result<String, Fault>> + Send + 'static,
{
    FnTool::with_spec(spec_named(name), does)
}

/// A tool that never ends by itself and has this time limit.
pub fn hangs(name: &str, limit: Duration) -> impl Tool + 'static {
    spec_of(name, |_, _| std::future::pending()).with_time_limit(limit)
}

/// A run and its events.
pub struct Ran {
    pub end: Result<RunAnswer, RunError>,
    pub events: Vec<Event>,
    pub chat: Chat,
}

/// Runs an agent on a task until the run and its sub-runs have ended.
pub async fn run(agent: &Agent, task: &str) -> Ran {
    let chat = Chat::new();
    let ((end, chat), events) = watched(&agent.name, async |cx| {
        let end = agent.run(cx, &chat, vec![Message::user(task)]).await;
        (end, chat)
    })
    .await;
    Ran { end, events, chat }
}

/// Runs `work` in a context, and returns its result and all events until the context has been dropped everywhere.
pub async fn watched<T>(name: &str, work: impl AsyncFnOnce(&RunCx) -> T) -> (T, Vec<Event>) {
    let (events, mut stream) = EventSink::channel();
    let cx = RunCx::new(name).with_events(events);
    let work = async move { work(&cx).await };
    let tell = async {
        let mut events = Vec::new();
        while let Some(event) = stream.next_event().await {
            events.push(event);
        }
        events
    };
    let both = async { tokio::join!(work, tell) };
    // A task that outlives the run holds the context. On a paused clock the timeout comes when nothing else can happen.
    tokio::time::timeout(Duration::from_secs(100_000), both).await.expect("it ends, and so does all that it began")
}

impl Ran {
    /// Returns the answer, or `failed: ` and the error.
    pub fn told(&self) -> String {
        match &self.end {
            Ok(answer) => answer.message.text_content(),
            Err(error) => format!("failed: {}", error.in_full()),
        }
    }

    /// Returns the results of the agent's tools, in order.
    pub fn results(&self) -> Vec<String> {
        let chat = self.chat.snapshot();
        let results =
            chat.iter().flat_map(|entry| entry.message.tool_results().map(|result| result.text()).collect::<Vec<_>>());
        results.collect()
    }

    /// Returns the first result, which is that of a `delegate`, as JSON.
    pub fn entries(&self) -> Value {
        let first = &self.results()[0];
        serde_json::from_str(first).unwrap_or_else(|_| panic!("no entries: {first}"))
    }

    /// Returns the conversations of all agents, in the order in which they began.
    pub fn talk(&self) -> String {
        let mut agents: Vec<(String, Vec<String>)> = Vec::new();
        let mut say = |agent: &str, line: String| {
            match agents.iter_mut().find(|(name, _)| name == agent) {
                Some((_, lines)) => lines.push(line),
                None => agents.push((agent.into(), vec![line])),
            };
        };
        for event in &self.events {
            match event {
                Event::MessageAdded { agent, message: Some(message), .. } => say(agent, line(message)),
                Event::RunFinished { agent, error: Some(error), .. } => say(agent, format!("failed: {error}")),
                _ => {}
            }
        }
        check_transcript(&self.chat.snapshot());
        agents.iter().map(|(name, lines)| format!("-- {name}\n{}\n", lines.join("\n"))).collect()
    }
}

/// Returns one line a message, and asserts that the transcript is valid.
pub fn transcript(chat: &ChatSnapshot) -> String {
    check_transcript(chat);
    chat.iter().skip(1).map(|entry| line(&entry.message)).collect::<Vec<_>>().join("\n")
}

fn line(message: &Message) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    format!("{role}: {}", said(message))
}

pub fn said(message: &Message) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Part::ToolCall(call) => format!("{}#{}({})", call.name, call.id, call.arguments),
        Part::ToolResult(result) => {
            format!("#{} {}{}", result.call_id, if result.is_error { "error: " } else { "" }, result.text())
        }
        other => format!("{other:?}"),
    };
    message.parts.iter().map(part).collect::<Vec<_>>().join(" | ")
}
