use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{RunEventReader, RunHostError, RunLineReader, RunTarget, run_events::RunEvents};
use crate::{
    agent::{AgentGroup, RunAnswer, RunError, SendError},
    chat::Message,
    error::{Report, RequestObstacle, cut},
    limits,
    model::{Ledger, Usage, UsageTally},
};

/// A run from its request to its end.
pub struct HostedRun {
    id: Arc<str>,
    task: String,
    started: SystemTime,
    /// The name of the session that the request names.
    wanted_session: Option<String>,
    pub(super) events: Arc<RunEvents>,
    progress: watch::Sender<HostedRunProgress>,
    /// The agents at work; `None` before the run begins and after its end.
    group: Mutex<Option<Arc<AgentGroup>>>,
    /// Cancelled when the run is to be dropped in the middle of a step.
    pub(super) dropped: CancellationToken,
    is_abandoned: AtomicBool,
    is_cancelled: AtomicBool,
}

/// The state of a hosted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostedRunState {
    /// The agents are built: plugins are compiled, and servers connected.
    Preparing,
    /// The agents work, or wait for a person.
    Running,
    /// The run has an answer.
    Completed,
    /// The run ended with an error.
    Failed,
    /// A client cancelled the run. Its conversation is valid, and the next run of its session goes on with it.
    Cancelled,
    /// The server ended first. A run of its session without a task goes on where it was.
    Interrupted,
}

/// The outcome of a run that is over.
#[derive(Debug, Clone)]
pub enum HostedRunOutcome {
    /// The run has an answer.
    Completed {
        /// The answer.
        answer: Box<RunAnswer>,
        /// The answer as JSON, if it follows a schema.
        value: Option<Value>,
    },
    /// The run ended with an error.
    Failed {
        /// The failure, for the client.
        error: Report,
        /// The failure as the run reported it; `None` if it could not begin, or crashed.
        failure: Option<RunError>,
    },
    /// A client cancelled the run.
    Cancelled,
    /// The server ended first.
    Interrupted,
}

/// The beginning and the end of a run, as far as they have come.
#[derive(Debug, Clone, Default)]
struct HostedRunProgress {
    begun: Option<Arc<HostedRunStart>>,
    end: Option<Arc<HostedRunEnd>>,
}

/// The facts of a run that has begun.
#[derive(Debug)]
pub(super) struct HostedRunStart {
    /// The instance name of the agent or team.
    pub agent: Arc<str>,
    pub model: String,
    /// The name of the session; `None` if nothing is recorded.
    pub session: Option<String>,
    pub warnings: Vec<String>,
    /// The usage of all agents in the session before this run.
    pub spent_before: UsageTally,
}

/// The end of a run.
#[derive(Debug)]
pub(super) struct HostedRunEnd {
    pub outcome: HostedRunOutcome,
    pub finished: SystemTime,
    /// The usage of each agent in the session.
    pub agents: Ledger,
}

/// A run as it is now.
#[derive(Debug, Clone)]
pub struct RunSnapshot {
    /// The id.
    pub id: Arc<str>,
    /// The text of the task, at most [`limits::SERVE_TASK_CHARS`].
    pub task: String,
    /// The time of the request.
    pub started: SystemTime,
    /// The time of the end.
    pub finished: Option<SystemTime>,
    /// The instance name of the agent or team; `None` until it is built.
    pub agent: Option<Arc<str>>,
    /// Its model.
    pub model: Option<String>,
    /// The name of the session; `None` if nothing is recorded, or until it is open.
    pub session: Option<String>,
    /// Problems that did not keep the run from beginning or going on.
    pub warnings: Vec<String>,
    /// The usage of each agent of the session so far.
    pub agents: Ledger,
    /// The sequence of the newest event; 0 if there is none.
    pub last_event: u64,
    /// The outcome; `None` until the run is over.
    pub outcome: Option<HostedRunOutcome>,
    /// The usage of all agents of the session before this run.
    pub spent_before: UsageTally,
}

impl RunSnapshot {
    /// Returns the state.
    pub fn state(&self) -> HostedRunState {
        HostedRunState::of(self.agent.is_some(), self.outcome.as_ref())
    }

    /// Returns the answer, if there is one.
    pub fn answer(&self) -> Option<&RunAnswer> {
        match &self.outcome {
            Some(HostedRunOutcome::Completed { answer, .. }) => Some(answer),
            _ => None,
        }
    }

    /// Returns the answer as JSON, if it follows a schema.
    pub fn value(&self) -> Option<&Value> {
        match &self.outcome {
            Some(HostedRunOutcome::Completed { value, .. }) => value.as_ref(),
            _ => None,
        }
    }

    /// Returns the failure, if the run has failed.
    pub fn error(&self) -> Option<&Report> {
        match &self.outcome {
            Some(HostedRunOutcome::Failed { error, .. }) => Some(error),
            _ => None,
        }
    }

    /// Returns the usage of this run so far, with that of all agents that worked for it.
    pub fn spent(&self) -> UsageTally {
        self.agents.total() - self.spent_before
    }

    /// Returns the tokens that this run has used so far, with those of all agents that worked for it.
    pub fn usage(&self) -> Usage {
        self.spent().usage
    }
}

impl HostedRunState {
    /// All states, in the order of a run.
    pub const ALL: [Self; 6] =
        [Self::Preparing, Self::Running, Self::Completed, Self::Failed, Self::Cancelled, Self::Interrupted];

    /// Returns the state of a run; `outcome` is `None` until it is over.
    fn of(has_begun: bool, outcome: Option<&HostedRunOutcome>) -> Self {
        match outcome {
            Some(outcome) => outcome.state(),
            None if has_begun => Self::Running,
            None => Self::Preparing,
        }
    }

    /// Returns `true` if the run is over.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Preparing | Self::Running)
    }

    /// Returns the word for the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl HostedRunOutcome {
    /// Returns the state of a run with this outcome.
    pub fn state(&self) -> HostedRunState {
        match self {
            Self::Completed { .. } => HostedRunState::Completed,
            Self::Failed { .. } => HostedRunState::Failed,
            Self::Cancelled => HostedRunState::Cancelled,
            Self::Interrupted => HostedRunState::Interrupted,
        }
    }

    /// Returns the outcome of a run that could not begin, or crashed.
    pub(super) fn not_begun(error: Report) -> Self {
        Self::Failed { error, failure: None }
    }
}

impl HostedRun {
    pub(super) fn new(id: Arc<str>, task: &str, target: &RunTarget, events: RunEvents) -> Self {
        let wanted_session = match target {
            RunTarget::Named(name) => Some(name.clone()),
            RunTarget::New | RunTarget::Off => None,
        };
        Self {
            id,
            task: cut(task, limits::SERVE_TASK_CHARS),
            started: SystemTime::now(),
            wanted_session,
            events: Arc::new(events),
            progress: watch::Sender::new(HostedRunProgress::default()),
            group: Mutex::default(),
            dropped: CancellationToken::new(),
            is_abandoned: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the name of the session; `None` if nothing is recorded, or until it is open.
    pub fn session(&self) -> Option<String> {
        self.progress.borrow().begun.as_ref().and_then(|begun| begun.session.clone())
    }

    /// Returns `true` if the run has not ended and its session has this name.
    pub(super) fn works_in(&self, session: &str) -> bool {
        let is_its_session =
            self.wanted_session.as_deref() == Some(session) || self.session().as_deref() == Some(session);
        is_its_session && !self.state().has_ended()
    }

    /// Returns the state.
    pub fn state(&self) -> HostedRunState {
        self.progress.borrow().state()
    }

    /// Returns the run as it is now.
    pub fn snapshot(&self) -> RunSnapshot {
        // Before the state: events after this one may be in the state already, but none up to it is missing there.
        let last_event = self.events.last();
        let progress = self.progress.borrow().clone();
        let (begun, end) = (progress.begun.as_deref(), progress.end.as_deref());
        let agents = match end {
            Some(end) => end.agents.clone(),
            None => self.group().map(|group| group.ledger()).unwrap_or_default(),
        };
        let unkept = self
            .events
            .file()
            .failure()
            .map(|why| format!("old events of this run are not kept for streams that begin later: {why}"));
        RunSnapshot {
            id: Arc::clone(&self.id),
            task: self.task.clone(),
            started: self.started,
            finished: end.map(|end| end.finished),
            agent: begun.map(|begun| Arc::clone(&begun.agent)),
            model: begun.map(|begun| begun.model.clone()),
            session: begun.and_then(|begun| begun.session.clone()),
            warnings: begun.map(|begun| begun.warnings.clone()).into_iter().flatten().chain(unkept).collect(),
            agents,
            last_event,
            outcome: end.map(|end| end.outcome.clone()),
            spent_before: begun.map(|begun| begun.spent_before).unwrap_or_default(),
        }
    }

    /// Returns the events in memory after this sequence; 0: all of them. See [`RunHost::watch`](super::RunHost::watch) for
    /// readers that are counted.
    pub fn events_after(&self, sequence: u64) -> RunEventReader {
        self.events.reader(sequence)
    }

    /// Returns the events after this sequence as JSON, those that have left memory too; 0: all of them.
    pub(super) fn lines_after(&self, sequence: u64) -> RunLineReader {
        RunLineReader::new(Arc::clone(&self.events), sequence)
    }

    /// Waits until the run has begun: its agents are built, and its session is open.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if it could not begin.
    pub async fn begun(&self) -> Result<(), RunHostError> {
        let mut progress = self.progress.subscribe();
        // The sender lives as long as this run.
        let known = progress.wait_for(|progress| progress.begun.is_some() || progress.end.is_some()).await;
        let Ok(known) = known else { return Err(RunHostError::Stopping) };
        match &known.end {
            Some(end) if known.begun.is_none() => Err(match &end.outcome {
                // Another process has taken the session since the request was checked.
                HostedRunOutcome::Failed { error: Report { obstacle: Some(RequestObstacle::InUse), .. }, .. }
                    if self.wanted_session.is_some() =>
                {
                    RunHostError::SessionInUse { id: self.wanted_session.clone().unwrap_or_default() }
                }
                HostedRunOutcome::Failed { error, .. } => RunHostError::NotBegun(error.clone()),
                HostedRunOutcome::Cancelled => RunHostError::Cancelled,
                HostedRunOutcome::Completed { .. } | HostedRunOutcome::Interrupted => RunHostError::Stopping,
            }),
            _ => Ok(()),
        }
    }

    /// Waits until the run has ended. Returns it as it is then.
    pub async fn finished(&self) -> RunSnapshot {
        // The sender lives as long as this run.
        let _ = self.progress.subscribe().wait_for(|progress| progress.end.is_some()).await;
        self.snapshot()
    }

    /// Gives an agent of the run a message that it reads before its next turn; `None`: the agent or team that was started.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if the agent does not work, or does not take the message.
    pub fn send(&self, agent: Option<&str>, text: &str) -> Result<(), RunHostError> {
        let (group, agent) = self.recipient(agent)?;
        Ok(group.send(&agent, Message::user(text))?)
    }

    /// Gives an agent a message like [`send`](Self::send), and returns once whoever resumes the run would read it.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send), and one if the session of the run cannot be written.
    pub async fn send_recorded(&self, agent: Option<&str>, text: &str) -> Result<(), RunHostError> {
        let (group, agent) = self.recipient(agent)?;
        Ok(group.send_recorded(&agent, Message::user(text)).await?)
    }

    /// Returns the group of the run, and the name of an agent there.
    fn recipient(&self, agent: Option<&str>) -> Result<(Arc<AgentGroup>, String), RunHostError> {
        let begun = self.progress.borrow().begun.clone();
        let (begun, group) = begun.zip(self.group()).ok_or(RunHostError::Send(SendError::NotWorking))?;
        Ok((group, agent.map_or_else(|| begun.agent.to_string(), str::to_owned)))
    }

    /// Cancels the run: its running step ends, and the conversation stays valid. The second call, and a call before the
    /// run has begun, drop it as a crash would; its session then continues where it was. Does nothing after the end.
    pub fn cancel(&self) {
        let begun = self.progress.borrow().begun.clone();
        let is_first = !self.is_cancelled.swap(true, Ordering::SeqCst);
        let is_told = begun.zip(self.group()).is_some_and(|(begun, group)| group.cancel(&begun.agent));
        if !is_first || !is_told {
            self.dropped.cancel();
        }
    }

    /// Drops the run in the middle of its step, as a crash would: nothing more is recorded, and its events have no end,
    /// since it goes on elsewhere. Does nothing after the end.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
        self.dropped.cancel();
    }

    /// Returns `true` once the run is [abandoned](Self::abandon).
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
    }

    /// Records that the run has begun.
    pub(super) fn begin(&self, start: HostedRunStart, group: &Arc<AgentGroup>) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(group));
        self.progress.send_modify(|progress| progress.begun = Some(Arc::new(start)));
    }

    /// Records the end. No event comes after it.
    pub(super) fn end(&self, end: HostedRunEnd) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.progress.send_modify(|progress| progress.end = Some(Arc::new(end)));
        self.events.end();
    }

    fn group(&self) -> Option<Arc<AgentGroup>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the usage of each agent in the session so far; empty before the run begins and after its end.
    pub(super) fn ledger(&self) -> Ledger {
        self.group().map(|group| group.ledger()).unwrap_or_default()
    }
}

impl HostedRunProgress {
    fn state(&self) -> HostedRunState {
        HostedRunState::of(self.begun.is_some(), self.end.as_ref().map(|end| &end.outcome))
    }
}
