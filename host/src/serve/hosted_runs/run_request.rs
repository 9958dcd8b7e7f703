use std::time::Duration;

use crate::{
    app::BoardSharing,
    capability::Budget,
    chat::Message,
    cluster::QueuedRunContext,
    event::PropagatedSpan,
    limits,
    session::LaunchOptions,
    task::{AnswerSchema, TaskInput},
};

/// The options of all runs of a host.
#[derive(Debug, Clone)]
pub struct RunHostOptions {
    /// The agent or team of requests that name none; `None`: the one of the session, or the entry agent of the config.
    pub agent: Option<String>,
    /// The model of requests that name none; `None`: that of each agent.
    pub model: Option<String>,
    /// Records the runs in sessions, unless the config says otherwise.
    pub record: bool,
    /// The options with which the host was started, for its sessions.
    pub launch: LaunchOptions,
    /// The most that one run may spend, whatever its request says.
    pub budget: Budget,
    /// `true` if the person goes on with sessions that somebody else may have made.
    pub is_trusted: bool,
    /// The maximum number of runs at work at once.
    pub max_runs: usize,
    /// The time that a question waits for its answer before it is declined.
    pub question_time: Duration,
}

impl Default for RunHostOptions {
    fn default() -> Self {
        Self {
            agent: None,
            model: None,
            record: true,
            launch: LaunchOptions::default(),
            budget: Budget::default(),
            is_trusted: false,
            max_runs: limits::SERVE_RUNS,
            question_time: limits::SERVE_QUESTION_TIME,
        }
    }
}

/// A run that a client asks for.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// The agent or team.
    pub agent: Option<String>,
    /// The model of all agents of the run.
    pub model: Option<String>,
    /// The task; `None`: the interrupted or failed run of the session goes on.
    pub input: Option<TaskInput>,
    /// The session in which the run is recorded.
    pub target: RunTarget,
    /// The most that the run may spend.
    pub budget: Budget,
    /// Messages that the conversation has before the task: of a person and of the agent, without tool calls.
    pub history: Vec<Message>,
    /// The most tokens that the replies of the agent may have together, in all turns; the last one is cut. It does not
    /// bound the members of a team and the agents that the agent delegates to.
    pub output_tokens: Option<u64>,
    /// The span of the client, in whose trace telemetry puts the run.
    pub outer_span: Option<PropagatedSpan>,
    /// The name of the run in a queue, which the message with its task carries in the journal: another host that takes the run
    /// over finds it there.
    pub queue_id: Option<String>,
    /// The run of a queue for the agents in it.
    pub queued: QueuedRunContext,
    /// The schema of the answer of a run that goes on without a task; a task brings its own.
    pub schema: Option<AnswerSchema>,
    /// The run tree on several hosts whose boards the run uses; `None`: the boards belong to its session alone.
    pub boards: Option<BoardSharing>,
}

impl RunRequest {
    /// Returns `true` if the request gives nothing but a task, so that it cannot be the reason why its run does not begin.
    pub(super) fn is_plain(&self) -> bool {
        let is_task = |input: &TaskInput| input.attachments.is_empty() && input.schema.is_none();
        let names_nothing = self.agent.is_none() && self.model.is_none() && !matches!(self.target, RunTarget::Named(_));
        let bounds_nothing = self.budget == Budget::default() && self.output_tokens.is_none();
        names_nothing
            && bounds_nothing
            && self.history.is_empty()
            && self.boards.is_none()
            && self.input.as_ref().is_some_and(is_task)
    }
}

/// The session in which a hosted run is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunTarget {
    /// A new session, unless the host or the config records none.
    #[default]
    New,
    /// The session of this name, which is created if it does not exist.
    Named(String),
    /// No session; the run cannot be resumed.
    Off,
}
