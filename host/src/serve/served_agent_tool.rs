//! Serves agents as tools: each call is a run.

use std::{pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{RunAnswer, Runner},
    app::{App, Recording, RunInterrupter, SessionCloser},
    chat::{Chat, Message, Part, ToolCall, ToolHints, ToolResultContent, ToolSpec},
    config::AgentConfig,
    error::{Fault, Report},
    event::{Event, RunCx},
    limits,
    session::LaunchOptions,
    tool::{self, Tool, ToolCx, ToolOutput},
};

/// The prefix of the tool name of an agent.
const PREFIX: &str = "agent_";

/// A tool that gives an agent a task.
pub(super) struct ServedAgentTool {
    app: Arc<App>,
    agent: String,
    model: Option<String>,
    record: bool,
    /// Cancelled when the server ends.
    ends: CancellationToken,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ServedAgentArgs {
    /// The task, complete enough to be understood without other context.
    task: String,
    /// Background that the agent should know.
    #[serde(default)]
    context: Option<String>,
}

impl ServedAgentTool {
    /// Builds the tool of an agent, or of a team from the settings that it shares with agents.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be a tool.
    pub fn new(
        app: &Arc<App>,
        agent: &AgentConfig,
        (model, record): (Option<&str>, bool),
        ends: &CancellationToken,
    ) -> Result<Self, String> {
        let name = format!("{PREFIX}{}", agent.name);
        if !ToolSpec::is_valid_name(&name) {
            return Err(
                "the name cannot be part of a tool name; use at most 58 characters of A-Z, a-z, 0-9, _ and -".into()
            );
        }
        let about = match agent.description.is_empty() {
            true => format!("Gives the {} {} a task and returns its answer.", agent.word(), agent.name),
            false => {
                format!(
                    "Gives the {} {} a task and returns its answer. {}",
                    agent.word(),
                    agent.name,
                    agent.description
                )
            }
        };
        let spec = tool::spec::<ServedAgentArgs>(&name, &about);
        // The description comes from the config, which another person may have written.
        let spec = tool::described(name, spec.description, spec.input_schema.get().to_owned(), ToolHints::default())?;
        let model = model.map(str::to_owned);
        let (app, agent, ends) = (Arc::clone(app), agent.name.clone(), ends.clone());
        Ok(Self { app, agent, model, record, ends, spec: Arc::new(spec) })
    }

    async fn run(&self, cx: &RunCx, task: String, input: Message) -> Result<RunAnswer, Fault> {
        let recording = match self.record {
            true => Recording::New { id: None, title: task, follows: None, options: LaunchOptions::default() },
            false => Recording::Off,
        };
        let prepared = self.app.agent(Some(&self.agent), self.model.as_deref(), recording).await;
        let mut prepared = prepared.map_err(|report| fault(&report))?;
        for message in std::mem::take(&mut prepared.warnings) {
            cx.events.emit(Event::Warning { message }).await;
        }
        let session = prepared.session.take();
        self.app.observe(&cx.events, &prepared, session.as_ref());
        let cx = RunCx::new(Arc::clone(prepared.entrant.runner().name()))
            .with_run(Arc::clone(&cx.run))
            .with_events(cx.events.clone());
        let chat = session.as_ref().map(|session| session.chat.clone()).unwrap_or_default();
        let mut working = pin!(run(prepared.entrant.runner(), &cx, &chat, input));
        // Declared after the run so that it is dropped first: a cancelled run records nothing more.
        let events = session.as_ref().map(|_| cx.events.clone());
        let closing = SessionCloser(session);
        let _interrupter = RunInterrupter { events, ends: self.ends.clone() };
        let answer = working.as_mut().await;
        if let Some(session) = &closing.0 {
            // A failed write has ended the run already.
            let _ = session.journal.close().await;
        }
        answer
    }
}

async fn run(runner: &dyn Runner, cx: &RunCx, chat: &Chat, input: Message) -> Result<RunAnswer, Fault> {
    runner.run(cx, chat, vec![input]).await.map_err(|error| Fault::other(error.in_full()))
}

fn fault(report: &Report) -> Fault {
    Fault::other(report.with_hint())
}

#[async_trait]
impl Tool for ServedAgentTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// Returns a high limit: the agent's budget is the actual bound.
    fn time_limit(&self) -> Duration {
        limits::MCP_SERVE_AGENT_TIME
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let wrong = |error: serde_json::Error| Fault::invalid(format!("invalid arguments: {error}"));
        let ServedAgentArgs { task, context } = serde_json::from_str(&call.arguments).map_err(wrong)?;
        if task.trim().is_empty() {
            return Err(Fault::invalid("the task is empty; describe what to do in `task`"));
        }
        let input = match context.filter(|context| !context.trim().is_empty()) {
            Some(context) => format!("{task}\n\nContext:\n{context}"),
            None => task.clone(),
        };
        let answer = self.run(&cx.run, task, Message::user(input)).await?;
        let pieces = answer.message.parts.into_iter().filter_map(|part| match part {
            Part::Text(text) => Some(ToolResultContent::Text(text)),
            Part::Media(media) => Some(ToolResultContent::Media(media)),
            _ => None,
        });
        Ok(ToolOutput::Reply(pieces.collect()))
    }
}
