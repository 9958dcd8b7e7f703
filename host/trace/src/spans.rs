//! The pieces of a trace: runs, requests to models, and tool calls, each from its beginning to its end.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use shelly_core::chat::{Message, StopReason, ToolResult, Usage};

/// A run of an agent or a team.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpan {
    /// The id, unique in the session: that of the events, with a number if several processes used it.
    pub id: Arc<str>,
    /// The id of the run that delegated it.
    pub parent: Option<Arc<str>>,
    /// The step of that run which delegated it: its call of a tool; `None` for a member of a team, or if it is not known.
    pub parent_step: Option<u32>,
    /// The id of the run that a person started, which is this one or an ancestor.
    pub root: Arc<str>,
    /// The name of its agent in the config.
    pub configured: Arc<str>,
    /// The instance name of its agent.
    pub agent: Arc<str>,
    /// Its depth: 0 for a run that a person started.
    pub depth: u32,
    /// Its model; empty for a team.
    pub model: String,
    /// Its task, cut.
    pub task: String,
    /// The time of its beginning.
    pub started: SystemTime,
    /// The time of its end, or of its last event.
    pub ended: SystemTime,
    /// The way in which it ended.
    pub end: RunEnd,
    /// The number of its turns.
    pub iterations: u32,
    /// The tokens that it used itself.
    pub usage: Usage,
    /// The tokens of the runs that worked for it.
    pub of_children: Usage,
    /// Its own cost in US dollars; `None` if it is zero or no price is known.
    pub usd: Option<f64>,
    /// The cost of the runs that worked for it.
    pub of_children_usd: Option<f64>,
}

/// The way in which a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// With an answer.
    Answered,
    /// With an error.
    Failed(String),
    /// Not at all: its process was gone, or it still works.
    Open,
}

/// A request to a model, with its repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSpan {
    /// The run that made it.
    pub run: Arc<RunSpan>,
    /// The number among the steps of the run, from 0 on.
    pub step: u32,
    /// The turn, from 0 on.
    pub iteration: u32,
    /// The model that replied, or was asked.
    pub model: String,
    /// The time at which it was sent.
    pub started: SystemTime,
    /// The time of the complete reply.
    pub ended: SystemTime,
    /// The number of attempts that failed.
    pub retries: u32,
    /// The reason for which the model stopped; `None` if there is no reply.
    pub stop: Option<StopReason>,
    /// The tokens.
    pub usage: Usage,
    /// The cost in US dollars; `None` if it is zero or no price is known.
    pub usd: Option<f64>,
    /// The failure if there is no reply.
    pub error: Option<String>,
    /// The messages that came into the conversation since the last request of the run.
    pub input: Vec<Arc<Message>>,
    /// The reply; `None` if it says nothing, or is withheld because a middleware may replace it.
    pub output: Option<Arc<Message>>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSpan {
    /// The run that made it.
    pub run: Arc<RunSpan>,
    /// The number among the steps of the run, from 0 on.
    pub step: u32,
    /// The id of the call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The origin of the tool, such as a plugin; empty if unknown.
    pub origin: String,
    /// The arguments as JSON; cut if the message with the call is withheld.
    pub arguments: String,
    /// The time of its beginning.
    pub started: SystemTime,
    /// The time of its end; `None` if it has no result.
    pub ended: Option<SystemTime>,
    /// `true` if its result describes a failure.
    pub is_error: bool,
    /// The reason for the failure, cut.
    pub reason: Option<String>,
    /// The bytes of its result.
    pub bytes: u64,
    /// Its result; `None` if there is none, or if it is withheld.
    pub result: Option<ToolResult>,
}

/// A part of a trace, when all of it is known.
#[derive(Debug, Clone, PartialEq)]
pub enum TracePart {
    /// A run has begun: its end is not known yet.
    Began(Arc<RunSpan>),
    /// A request and its reply.
    Request(Box<RequestSpan>),
    /// A call and its result.
    Call(Box<CallSpan>),
    /// A run has ended.
    Ended(Arc<RunSpan>),
    /// A warning, or a note on events that are missing.
    Note(String),
}

impl RunSpan {
    /// Returns the time from the beginning to the end.
    pub fn duration(&self) -> Duration {
        self.ended.duration_since(self.started).unwrap_or_default()
    }
}

impl RequestSpan {
    /// Returns the time from the request to the reply.
    pub fn duration(&self) -> Duration {
        self.ended.duration_since(self.started).unwrap_or_default()
    }
}

impl CallSpan {
    /// Returns the time from the beginning to the end; zero without an end.
    pub fn duration(&self) -> Duration {
        self.ended.and_then(|ended| ended.duration_since(self.started).ok()).unwrap_or_default()
    }
}
