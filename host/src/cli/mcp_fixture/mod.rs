//! The MCP client by itself, to be tested by other programs: the official conformance suite and servers of others. The
//! subcommand is hidden; the scripts in `tests/mcp` call it.

mod drive;
mod login;
mod play;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use clap::Subcommand;
use serde_json::{Value, json};
use url::Url;

use super::render::{self, RunOutputFormat};
use crate::{
    chat::{ChatSnapshot, StopReason, ToolCall, ToolResult},
    error::{ErrorKind, Fault, Report},
    event::{Event, EventSink, RunCx},
    mcp::{
        ElicitationRequest, ElicitationResult, Elicitor, McpClient, McpClientFeatures, McpError, Pins, Sampler,
        SamplingRequest, SamplingResult, ServerConfig, ServerRequestOrigin,
    },
    tool::{ToolBox, ToolCx},
};

#[derive(Subcommand)]
pub enum McpFixtureCommand {
    /// Play the scenario of the conformance suite that MCP_CONFORMANCE_SCENARIO names.
    Play {
        /// The suite's server.
        url: Url,
    },
    /// Do what lines of JSON on standard input say, and print what came of each in a line.
    Drive,
}

impl McpFixtureCommand {
    pub fn execute(self) -> u8 {
        let played = match self {
            Self::Play { url } => play::play(url),
            Self::Drive => drive::drive(),
        };
        played.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }
}

/// A connection to a server with all of its tools approved.
struct FixtureClient {
    client: Arc<McpClient>,
}

/// The result of a call.
struct FixtureCallResult {
    result: ToolResult,
    /// The progress notifications, in order.
    progress: Vec<Value>,
}

impl FixtureClient {
    async fn connect(config: ServerConfig, asking: McpClientFeatures) -> Result<Self, Report> {
        let client = McpClient::connect(config, asking).await;
        Ok(Self { client: client.map_err(|error: McpError| failed(error))? })
    }

    /// Calls a tool by the server's own name, through the same path as an agent.
    async fn call(&self, tool: &str, arguments: &Value) -> Result<FixtureCallResult, Report> {
        let (listing, mut tools) = (self.client.listing(), ToolBox::new());
        let unknown = || Report::new(ErrorKind::Run, format!("the server has no tool `{}`", tool.escape_debug()));
        let name = listing.find(tool).ok_or_else(unknown)?.spec.name.clone();
        for tool in self.client.offer(&Pins::of(&listing)).tools {
            tools.register(tool).map_err(failed)?;
        }
        let (events, progress) = (EventSink::new(), Arc::<Mutex<Vec<Value>>>::default());
        let told = Arc::clone(&progress);
        events.tap(Arc::new(move |event| {
            if let Event::ToolProgress { done, total, message, .. } = event {
                let report = json!({"done": done, "total": total, "message": message});
                told.lock().unwrap_or_else(PoisonError::into_inner).push(report);
            }
        }));
        // Progress is reported only while somebody observes.
        let _watching = events.observe();
        let run = RunCx::new("fixture").with_events(events.clone());
        let cx = ToolCx { run, chat: ChatSnapshot::default(), tools: tools.specs(), begin: Default::default() };
        let call = ToolCall { id: tool.into(), name, arguments: arguments.to_string(), meta: vec![] };
        let result = tools.dispatch(&cx, &call).await.result;
        let progress = progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(FixtureCallResult { result, progress })
    }
}

/// Answers every request in the same way, and records the requests.
#[derive(Default)]
struct FixtureResponder {
    /// The reply to sampling requests.
    reply: String,
    /// Values for forms, besides their defaults; `None` declines forms.
    form: Option<serde_json::Map<String, Value>>,
    asked: Mutex<Vec<Value>>,
}

impl FixtureResponder {
    fn note(&self, question: Value) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question);
    }

    /// Returns the requests since the last call.
    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Sampler for FixtureResponder {
    async fn sample(&self, _: &ServerRequestOrigin, request: SamplingRequest) -> Result<SamplingResult, Fault> {
        let said: Vec<_> = request.messages.iter().map(|message| message.text_content()).collect();
        self.note(json!({"sampling": said, "system": request.system, "max_tokens": request.max_tokens}));
        Ok(SamplingResult { text: self.reply.clone(), model: "fixture".into(), stop: StopReason::EndTurn })
    }
}

#[async_trait]
impl Elicitor for FixtureResponder {
    async fn elicit(&self, _: &ServerRequestOrigin, question: ElicitationRequest) -> Result<ElicitationResult, Fault> {
        self.note(json!({"elicitation": question.message, "schema": question.schema}));
        let Some(form) = &self.form else { return Ok(ElicitationResult::Decline) };
        let mut filled = question.defaults();
        filled.extend(form.clone());
        Ok(ElicitationResult::Accept(filled))
    }
}

fn failed(error: impl std::fmt::Display) -> Report {
    Report::new(ErrorKind::Run, error.to_string())
}

fn wrong(what: impl Into<String>) -> Report {
    Report::new(ErrorKind::Usage, what)
}
