use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    incoming_message::{answered_question, reply_to, task_input, words},
    served_task::ServedTask,
    task_view::question_message,
};
use crate::{
    a2a::{
        A2aError, A2aErrorKind, budget_of,
        wire::{A2aMessage, A2aMetadata},
    },
    agent::SendError,
    digest::Sha256Digest,
    error::{ErrorKind, cut},
    event::{PropagatedSpan, new_id},
    limits,
    serve::hosted_runs::{RunHost, RunHostError, RunRequest, RunTarget},
};

/// The tasks of all agents, as long as the host remembers their runs, and the messages that were taken.
#[derive(Default)]
pub(super) struct TaskTable(Mutex<TaskTableState>);

#[derive(Default)]
struct TaskTableState {
    /// The tasks, in the order in which they began.
    tasks: VecDeque<Arc<ServedTask>>,
    /// The newest messages, at most [`limits::A2A_MESSAGE_IDS`].
    messages: VecDeque<TakenMessage>,
}

/// A message that a client may send again.
struct TakenMessage {
    agent: String,
    id: String,
    /// The digest of its content.
    content: Sha256Digest,
    task: String,
}

impl TaskTable {
    /// Takes a message to an agent: begins a task, answers the question of one, or tells its agent. A message that was taken
    /// before has no further effect. Returns its task.
    ///
    /// # Errors
    ///
    /// An [`A2aError`] if nothing was begun, answered or told.
    pub fn take(
        &self,
        host: &RunHost,
        agent: &str,
        (message, metadata): (&A2aMessage, &A2aMetadata),
        outer_span: Option<PropagatedSpan>,
    ) -> Result<Arc<ServedTask>, A2aError> {
        let content = Sha256Digest::of(serde_json::to_vec(&(message, metadata)).unwrap_or_default());
        // The lock is held until the message is in the list: the same message that comes at the same time finds it.
        let mut table = self.state();
        table.forget(host);
        if let Some(taken) = table.taken(agent, &message.message_id) {
            let (is_same, task) = (taken.content == content, taken.task.clone());
            match table.find(agent, &task) {
                Some(task) if is_same => return Ok(task),
                Some(_) => {
                    let error = "the `messageId` was used with another message; send a new UUID with each message";
                    return Err(A2aError::invalid_params(error));
                }
                None => table.messages.retain(|taken| taken.agent != agent || taken.id != message.message_id),
            }
        }
        let task = match message.task_id.is_empty() {
            true => begin(host, agent, (message, metadata), outer_span)?,
            false => {
                let task = table.find(agent, &message.task_id).ok_or_else(|| no_task(&message.task_id))?;
                go_on(host, &task, message)?;
                task
            }
        };
        if message.task_id.is_empty() {
            table.tasks.push_back(Arc::clone(&task));
        }
        let (agent, id) = (agent.to_owned(), message.message_id.clone());
        table.note(TakenMessage { agent, id, content, task: task.id().to_owned() });
        Ok(task)
    }

    /// Returns a task of an agent.
    ///
    /// # Errors
    ///
    /// [`A2aErrorKind::TaskNotFound`].
    pub fn task(&self, host: &RunHost, agent: &str, id: &str) -> Result<Arc<ServedTask>, A2aError> {
        let mut table = self.state();
        table.forget(host);
        table.find(agent, id).ok_or_else(|| no_task(id))
    }

    /// Returns the tasks of an agent, the newest first.
    pub fn tasks(&self, host: &RunHost, agent: &str) -> Vec<Arc<ServedTask>> {
        let mut table = self.state();
        table.forget(host);
        table.tasks.iter().rev().filter(|task| task.agent == agent).cloned().collect()
    }

    /// Forgets a task that was not accepted, and its message.
    pub fn drop_task(&self, id: &str) {
        let mut table = self.state();
        table.tasks.retain(|task| task.id() != id);
        table.messages.retain(|taken| taken.task != id);
    }

    fn state(&self) -> MutexGuard<'_, TaskTableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskTableState {
    fn find(&self, agent: &str, id: &str) -> Option<Arc<ServedTask>> {
        self.tasks.iter().find(|task| task.agent == agent && task.id() == id).cloned()
    }

    fn taken(&self, agent: &str, id: &str) -> Option<&TakenMessage> {
        self.messages.iter().find(|taken| taken.agent == agent && taken.id == id)
    }

    /// Remembers a message that was taken.
    fn note(&mut self, message: TakenMessage) {
        self.messages.push_back(message);
        if self.messages.len() > limits::A2A_MESSAGE_IDS {
            self.messages.pop_front();
        }
    }

    /// Forgets the tasks whose runs the host has forgotten. It never remembers one that could not begin, so the newest of
    /// these stay here.
    fn forget(&mut self, host: &RunHost) {
        let mut rejected = 0;
        let mut is_known = |task: &Arc<ServedTask>| {
            if host.run(task.id()).is_ok() {
                return true;
            }
            let has_begun = task.run.snapshot().agent.is_some();
            rejected += usize::from(!has_begun);
            !has_begun && rejected <= limits::A2A_REJECTED_TASKS
        };
        // The newest ones are counted first.
        let mut known: VecDeque<_> = VecDeque::with_capacity(self.tasks.len());
        while let Some(task) = self.tasks.pop_back() {
            if is_known(&task) {
                known.push_front(task);
            }
        }
        self.tasks = known;
    }
}

/// Begins a task.
fn begin(
    host: &RunHost,
    agent: &str,
    (message, metadata): (&A2aMessage, &A2aMetadata),
    outer_span: Option<PropagatedSpan>,
) -> Result<Arc<ServedTask>, A2aError> {
    let budget = budget_of([metadata, &message.metadata])?;
    let input = task_input(message)?;
    let config = &host.app().config;
    let is_recorded = host.options().record && config.sessions.is_recording();
    let context = match message.context_id.as_str() {
        // The id is the name of its session, too.
        "" => new_id("a2a"),
        given if is_recorded => given.to_owned(),
        _ => {
            let error = "this server records no sessions, so no conversation goes on; leave `contextId` out";
            return Err(A2aError::invalid_params(error));
        }
    };
    let target = if is_recorded { RunTarget::Named(context.clone()) } else { RunTarget::Off };
    // A config without agents has a default one, which no name in it stands for.
    let named = config.runners().next().is_some().then(|| agent.to_owned());
    let request = RunRequest { agent: named, input: Some(input), target, budget, outer_span, ..RunRequest::default() };
    let run = host.begin(request).map_err(refusal)?;
    Ok(Arc::new(ServedTask::new(agent, context, run, message)))
}

/// Gives a message to a task that is not over: the answer to its question, or a word to its agent.
fn go_on(host: &RunHost, task: &ServedTask, message: &A2aMessage) -> Result<(), A2aError> {
    if !message.context_id.is_empty() && message.context_id != task.context {
        return Err(A2aError::invalid_params("the task belongs to another `contextId`"));
    }
    if task.run.state().has_ended() {
        let error = "the task is over; give the agent a new one with this `contextId`, without a `taskId`";
        return Err(A2aError::new(A2aErrorKind::UnsupportedOperation, error).with_fact("taskId", task.id()));
    }
    let questions = task.questions(host);
    match answered_question(message, &questions)? {
        Some(question) => {
            let asked = question_message(task, question);
            host.answer(question.id, &reply_to(question, message)?).map_err(refusal)?;
            task.remember(&asked);
        }
        None => task.run.send(None, &words(message)?).map_err(refusal)?,
    }
    task.remember(message);
    Ok(())
}

/// Returns the error for a task that is not there, or is another client's.
pub(super) fn no_task(id: &str) -> A2aError {
    let message = "there is no such task; it was never there, or ended long ago";
    A2aError::new(A2aErrorKind::TaskNotFound, message).with_fact("taskId", cut(id, limits::A2A_ID_BYTES))
}

/// Returns the error for a client to whom the host has refused something.
pub(super) fn refusal(error: RunHostError) -> A2aError {
    let said = error.to_string();
    let unsupported = |message: String| A2aError::new(A2aErrorKind::UnsupportedOperation, message);
    let internal = |message: String| A2aError::new(A2aErrorKind::Internal, message);
    match error {
        RunHostError::Busy { .. } => internal(format!("{said}; send the message again when a task is over")),
        RunHostError::TooManyWatchers => internal(format!("{said}; ask for the task with `GetTask`")),
        RunHostError::Stopping => internal(format!("{said}; send the message again when it is there again")),
        RunHostError::SessionInUse { .. } => {
            unsupported(format!("{said}: another task of this context is at work; wait until it is over"))
        }
        RunHostError::NotBegun(report) => match (report.obstacle, report.kind) {
            (None, ErrorKind::Usage) => A2aError::invalid_params(report.with_hint()),
            _ => internal(report.with_hint()),
        },
        RunHostError::Send(SendError::Full | SendError::Unrecorded) => internal(said),
        RunHostError::Answer(_) | RunHostError::Send(SendError::Unfit) => A2aError::invalid_params(said),
        RunHostError::Send(_) | RunHostError::Cancelled | RunHostError::NobodyAsked | RunHostError::NoRun { .. } => {
            unsupported(said)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_messages_are_remembered() {
        let mut table = TaskTableState::default();
        let message = |id: usize| TakenMessage {
            agent: "ada".into(),
            id: id.to_string(),
            content: Sha256Digest::of("so"),
            task: "t".into(),
        };
        (0..=limits::A2A_MESSAGE_IDS).for_each(|id| table.note(message(id)));
        assert_eq!(table.messages.len(), limits::A2A_MESSAGE_IDS);
        assert!(table.taken("ada", "0").is_none() && table.taken("bob", "1").is_none());
        assert!(table.taken("ada", "1").is_some());
    }
}
