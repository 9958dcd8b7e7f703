use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::coordinator_lookup::CoordinatorLookup;
use crate::{chat::ChatSnapshot, error::cut, limits};

/// The state of a model coordinator between two calls.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCoordinatorState {
    /// The decisions of this run, oldest first.
    pub said: VecDeque<PastDecision>,
    /// The summary of the messages before those that are shown.
    pub summary: Option<ConversationSummary>,
    /// Set after the vendor refused a schema for the reply, or being forced to call a tool.
    pub plain: bool,
    /// The decision in progress.
    pub asking: Option<PendingDecision>,
}

/// A past decision.
#[derive(Debug, Serialize, Deserialize)]
pub struct PastDecision {
    /// The newest message of the shared conversation at that time.
    pub after: Option<u64>,
    /// The decision as JSON.
    pub said: String,
}

/// A model's summary of the older messages.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConversationSummary {
    /// The last message that the summary covers.
    pub through: u64,
    pub text: String,
}

/// A decision that takes more than one question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingDecision {
    /// The question that the model was asked last, if any.
    pub asked: Option<CoordinatorQuestion>,
    /// The number of questions asked.
    pub times: u32,
    /// Set after a question was repeated because of a transient failure.
    pub retried: bool,
    /// The first answer that could not be used.
    pub wrong: Option<RejectedReply>,
    /// The lookups that it has requested.
    pub looks: Vec<CoordinatorLookup>,
}

/// The question that a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorQuestion {
    Decision,
    Summary,
}

/// An answer that could not be used.
#[derive(Debug, Serialize, Deserialize)]
pub struct RejectedReply {
    pub said: String,
    pub why: String,
}

impl ModelCoordinatorState {
    /// Adds a decision, and drops the oldest ones beyond the limits.
    pub fn keep(&mut self, said: PastDecision) {
        self.said.push_back(said);
        while self.said.iter().map(|one| one.said.len()).sum::<usize>() > limits::COORDINATOR_SAID_BYTES
            || self.said.len() > limits::COORDINATOR_SAID_BYTES / 64
        {
            self.said.pop_front();
        }
    }

    /// Sets the summary, which covers everything up to this message. An empty text keeps the previous text.
    pub fn sum_up(&mut self, through: Option<u64>, text: &str) {
        let Some(through) = through else { return };
        // In JSON each control character takes six bytes, and none is visible.
        let text: String = text.trim().chars().filter(|&c| c == '\n' || !c.is_control()).collect();
        let text = match (text.is_empty(), self.summary.take()) {
            (true, before) => before.map(|before| before.text).unwrap_or_default(),
            (false, _) => cut(&text, limits::COORDINATOR_SUMMARY_CHARS - 1),
        };
        self.summary = Some(ConversationSummary { through, text });
    }
}

impl PendingDecision {
    /// Adds the requested lookups, each once and within the limit.
    pub fn look(&mut self, looks: Vec<CoordinatorLookup>) {
        for look in looks {
            if self.may_look() && !self.looks.contains(&look) {
                self.looks.push(look);
            }
        }
    }

    /// Returns `true` if another lookup is allowed.
    pub fn may_look(&self) -> bool {
        self.looks.len() < limits::ASKS_IN_A_ROW as usize
    }
}

/// Returns the position after the message with this id. The message may have been replaced, since a replacement has a
/// larger id.
pub fn behind(shared: &ChatSnapshot, id: u64) -> usize {
    let newer = shared.iter().rev().take_while(|entry| entry.id > id).count();
    shared.len() - newer
}
