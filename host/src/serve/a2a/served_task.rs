use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use super::push_targets::PushTargets;
use crate::{
    a2a::wire::{A2aMessage, A2aMetadata, A2aPart, A2aPartContent},
    error::cut,
    limits,
    serve::hosted_runs::{HostedQuestion, HostedRun, RunHost},
};

/// A task that a client has given to an agent: a run, with the messages of the client and the questions that it answered.
pub(super) struct ServedTask {
    /// The agent or team at whose address it is.
    pub agent: String,
    /// The id of the conversation: the name of its session, if runs are recorded.
    pub context: String,
    pub run: Arc<HostedRun>,
    /// The addresses that are told of its updates.
    pub push: PushTargets,
    log: Mutex<TaskLog>,
}

struct TaskLog {
    /// The newest messages, at most [`limits::A2A_HISTORY_MESSAGES`].
    history: VecDeque<A2aMessage>,
    /// The time of the newest message of the client.
    touched: SystemTime,
}

impl ServedTask {
    /// Returns the task that this message began.
    pub fn new(agent: &str, context: String, run: Arc<HostedRun>, message: &A2aMessage) -> Self {
        let log = TaskLog { history: VecDeque::new(), touched: SystemTime::now() };
        let (agent, push) = (agent.to_owned(), PushTargets::default());
        let task = Self { agent, context, run, push, log: Mutex::new(log) };
        task.remember(message);
        task
    }

    /// Returns the id, which is that of its run.
    pub fn id(&self) -> &str {
        self.run.id()
    }

    /// Adds a message to the history. Its texts are cut; the content of its files is left out, and so are long further
    /// values.
    pub fn remember(&self, message: &A2aMessage) {
        let parts = message.parts.iter().map(|part| A2aPart {
            content: remembered(&part.content),
            media_type: cut(&part.media_type, limits::A2A_ID_BYTES),
            filename: cut(&part.filename, limits::A2A_ID_BYTES),
            metadata: remembered_values(&part.metadata),
        });
        let message = A2aMessage {
            message_id: message.message_id.clone(),
            context_id: self.context.clone(),
            task_id: self.id().to_owned(),
            role: message.role,
            parts: parts.collect(),
            metadata: remembered_values(&message.metadata),
            extensions: remembered_names(&message.extensions),
            reference_task_ids: remembered_names(&message.reference_task_ids),
        };
        let mut log = self.log();
        log.touched = SystemTime::now();
        log.history.push_back(message);
        if log.history.len() > limits::A2A_HISTORY_MESSAGES {
            log.history.pop_front();
        }
    }

    /// Returns the newest messages, at most so many of them, the oldest first.
    pub fn history(&self, most: Option<u32>) -> Vec<A2aMessage> {
        let log = self.log();
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        log.history.iter().skip(log.history.len().saturating_sub(most)).cloned().collect()
    }

    /// Returns the time of the newest message of the client.
    pub fn touched(&self) -> SystemTime {
        self.log().touched
    }

    /// Returns its open questions, in the order in which they were asked.
    pub fn questions(&self, host: &RunHost) -> Vec<HostedQuestion> {
        host.questions().into_iter().filter(|open| *open.question.run == *self.id()).collect()
    }

    fn log(&self) -> MutexGuard<'_, TaskLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns further values as the history has them: none if they are long.
fn remembered_values(values: &A2aMetadata) -> A2aMetadata {
    let is_short = serde_json::to_vec(values).is_ok_and(|json| json.len() <= limits::A2A_HISTORY_CHARS);
    if is_short { values.clone() } else { A2aMetadata::new() }
}

/// Returns names of other things as the history has them.
fn remembered_names(names: &[String]) -> Vec<String> {
    names.iter().take(limits::NAMES_SHOWN).map(|name| cut(name, limits::A2A_ID_BYTES)).collect()
}

/// Returns the content of a part as the history has it.
fn remembered(content: &A2aPartContent) -> A2aPartContent {
    let cut = |text: &str| cut(text, limits::A2A_HISTORY_CHARS);
    match content {
        A2aPartContent::Text(text) => A2aPartContent::Text(cut(text)),
        A2aPartContent::Raw(_) => A2aPartContent::Raw(String::new()),
        A2aPartContent::Url(url) => A2aPartContent::Url(cut(url)),
        A2aPartContent::Data(value) => {
            let text = value.to_string();
            match text.chars().count() > limits::A2A_HISTORY_CHARS {
                true => A2aPartContent::Text(cut(&text)),
                false => A2aPartContent::Data(value.clone()),
            }
        }
    }
}
