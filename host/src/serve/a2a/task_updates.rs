//! The updates of a task as a stream.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{
    served_task::ServedTask,
    task_view::{self, TaskParts},
};
use crate::{
    a2a::wire::{A2aMetadata, A2aTaskState, A2aTaskStatus, TaskArtifactUpdate, TaskStatusUpdate, TaskStreamItem},
    chat::{ReplyDelta, Role},
    event::Event,
    serve::hosted_runs::{RunEventReader, RunEventStep, RunHost, RunHostError},
};

/// A client that reads the updates of a task.
struct TaskWatcher {
    host: RunHost,
    task: Arc<ServedTask>,
    reader: RunEventReader,
    /// The instance name of the agent that was given the task.
    agent: Option<Arc<str>>,
    /// The updates that are sent next.
    pending: VecDeque<TaskStreamItem>,
    /// The state that was sent last.
    state: A2aTaskState,
    /// Cancelled when the server ends.
    stop: CancellationToken,
    /// `true` once the last update is pending.
    is_over: bool,
    /// `true` for a watcher that goes on after a question, and has no use for pieces of the answer.
    is_follower: bool,
    /// `true` if a piece of the answer was sent in this turn of the agent.
    has_piece: bool,
    /// `None` for a follower: a task has one at most.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Returns the updates of a task: the task as it is now, its new states and words of its agent, then its answer and its last
/// state. The stream ends when the task is over, or asks for input. If it asks already, the stream goes on unless the client
/// has just sent a message (`is_after_message`).
///
/// # Errors
///
/// [`RunHostError::TooManyWatchers`].
pub(super) fn updates(
    host: &RunHost,
    task: &Arc<ServedTask>,
    history: Option<u32>,
    is_after_message: bool,
    stop: &CancellationToken,
) -> Result<BoxStream<'static, Value>, RunHostError> {
    let snapshot = task.run.snapshot();
    // Events after the snapshot change the state that it shows; those before do not.
    let (reader, permit) = host.watch(&task.run, snapshot.last_event)?;
    let shown = task_view::of_snapshot(host, task, &snapshot, TaskParts { history, artifacts: true });
    let state = shown.status.state;
    let mut watcher = TaskWatcher {
        host: host.clone(),
        task: Arc::clone(task),
        reader,
        agent: snapshot.agent.clone(),
        state,
        is_over: state.is_terminal() || (is_after_message && state.is_interrupted()),
        pending: VecDeque::new(),
        stop: stop.clone(),
        is_follower: false,
        has_piece: false,
        _permit: Some(permit),
    };
    watcher.pending.push_back(TaskStreamItem::Task(Box::new(shown)));
    Ok(stream::unfold(watcher, TaskWatcher::next).boxed())
}

/// Returns the updates of a task up to its end, without the pieces of its answer: none if it is over already. The task is
/// the first of them only if it asks for input already.
pub(super) fn followed(host: &RunHost, task: &Arc<ServedTask>, stop: &CancellationToken) -> BoxStream<'static, Value> {
    let snapshot = task.run.snapshot();
    let reader = task.run.events_after(snapshot.last_event);
    let shown = task_view::of_snapshot(host, task, &snapshot, TaskParts { history: Some(0), artifacts: true });
    let state = shown.status.state;
    let watcher = TaskWatcher {
        host: host.clone(),
        task: Arc::clone(task),
        reader,
        agent: snapshot.agent.clone(),
        state,
        is_over: state.is_terminal(),
        pending: state.is_interrupted().then(|| TaskStreamItem::Task(Box::new(shown))).into_iter().collect(),
        stop: stop.clone(),
        is_follower: true,
        has_piece: false,
        _permit: None,
    };
    stream::unfold(watcher, TaskWatcher::next).boxed()
}

/// Returns a task as it is now, without its history, as an update.
pub(super) fn whole(host: &RunHost, task: &ServedTask) -> Value {
    let shown = task_view::task(host, task, TaskParts { history: Some(0), artifacts: true });
    serde_json::to_value(TaskStreamItem::Task(Box::new(shown))).unwrap_or_default()
}

/// Waits until a task is over or asks for input, or the server ends.
pub(super) async fn settled(host: &RunHost, task: &ServedTask, stop: &CancellationToken) {
    let mut reader = task.run.events_after(task.run.snapshot().last_event);
    // A question is open before its event is there, so none is missed.
    while !task.run.state().has_ended() && task.questions(host).is_empty() {
        let step = tokio::select! {
            biased;
            step = reader.next() => step,
            () = stop.cancelled() => return,
        };
        match step {
            RunEventStep::Event(_) | RunEventStep::Gap { .. } => {}
            RunEventStep::Behind { .. } => reader = task.run.events_after(task.run.snapshot().last_event),
            RunEventStep::End => return,
        }
    }
}

impl TaskWatcher {
    /// Returns the next update; `None` after the last one.
    async fn next(mut self) -> Option<(Value, Self)> {
        while self.pending.is_empty() {
            if self.is_over {
                return None;
            }
            let step = tokio::select! {
                biased;
                step = self.reader.next() => Some(step),
                () = self.stop.cancelled() => None,
            };
            match step {
                Some(RunEventStep::Event(record)) => self.take(&record.event.event, record.event.sequence),
                Some(RunEventStep::Gap { .. }) => {}
                Some(RunEventStep::Behind { .. }) => {
                    self.reader = self.task.run.events_after(self.task.run.snapshot().last_event);
                    // The event of an open question may be among those that were not read.
                    if self.state != A2aTaskState::InputRequired {
                        self.tell_question();
                    }
                }
                Some(RunEventStep::End) => self.end(),
                None => self.is_over = true,
            }
        }
        let item = self.pending.pop_front()?;
        Some((serde_json::to_value(item).unwrap_or_default(), self))
    }

    /// Adds the updates that an event brings.
    fn take(&mut self, event: &Event, sequence: u64) {
        match event {
            Event::RunStarted { parent_agent: None, .. } if self.state == A2aTaskState::Submitted => {
                self.tell(task_view::working(&self.task, None));
            }
            Event::QuestionAsked { .. } => self.tell_question(),
            Event::QuestionAnswered { .. }
                if self.state == A2aTaskState::InputRequired && self.task.questions(&self.host).is_empty() =>
            {
                self.tell(task_view::working(&self.task, None));
            }
            // The answer as the agent says it. If the turn calls tools, or the reply is asked for again, the pieces of a
            // later one take its place, and the whole answer takes it in the end.
            Event::ModelDelta { agent, delta: ReplyDelta::Text(text) }
                if !self.is_follower && self.agent.as_ref() == Some(agent) && !text.is_empty() =>
            {
                let append = std::mem::replace(&mut self.has_piece, true);
                self.show(TaskArtifactUpdate {
                    artifact: task_view::piece(text),
                    append,
                    ..TaskArtifactUpdate::default()
                });
            }
            Event::ModelStarted { agent, .. } | Event::ModelFailed { agent, .. }
                if self.agent.as_ref() == Some(agent) =>
            {
                self.has_piece = false;
            }
            // Words beside calls of tools: the answer comes as an artifact.
            Event::MessageAdded { agent, role: Role::Assistant, message: Some(message) }
                if self.agent.as_ref() == Some(agent) && message.tool_calls().next().is_some() =>
            {
                let words = message.text_content();
                if !words.trim().is_empty() {
                    self.tell(task_view::working(&self.task, Some((words, sequence))));
                }
            }
            _ => {}
        }
    }

    /// Adds the state of a task that asks for input, if it does. A question that a rule has answered, or somebody since,
    /// asks nothing of the client.
    fn tell_question(&mut self) {
        let snapshot = self.task.run.snapshot();
        let questions = self.task.questions(&self.host);
        let Some(question) = questions.first().filter(|_| !snapshot.state().has_ended()) else { return };
        self.tell(task_view::status(&self.task, &snapshot, Some(question)));
        self.is_over = !self.is_follower;
    }

    /// Adds the answer and the last state.
    fn end(&mut self) {
        let snapshot = self.task.run.snapshot();
        if let Some(artifact) = task_view::artifact(&snapshot) {
            self.show(TaskArtifactUpdate { artifact, last_chunk: true, ..TaskArtifactUpdate::default() });
        }
        self.tell(task_view::status(&self.task, &snapshot, None));
        self.is_over = true;
    }

    fn tell(&mut self, status: A2aTaskStatus) {
        self.state = status.state;
        let (task_id, context_id) = (self.task.id().to_owned(), self.task.context.clone());
        let update = TaskStatusUpdate { task_id, context_id, status, metadata: A2aMetadata::new() };
        self.pending.push_back(TaskStreamItem::StatusUpdate(Box::new(update)));
    }

    fn show(&mut self, update: TaskArtifactUpdate) {
        let (task_id, context_id) = (self.task.id().to_owned(), self.task.context.clone());
        let update = TaskArtifactUpdate { task_id, context_id, ..update };
        self.pending.push_back(TaskStreamItem::ArtifactUpdate(Box::new(update)));
    }
}
