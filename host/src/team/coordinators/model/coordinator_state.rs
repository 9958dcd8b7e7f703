use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::coordinator_tools::CoordinatorLookup;
use crate::{chat::ChatSnapshot, error::cut, limits};

/// What is remembered between two calls.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCoordinatorState {
    /// What was decided in this run, oldest first.
    pub said: VecDeque<PastDecision>,
    /// What came before the messages that are shown.
    pub summary: Option<ConversationSummary>,
    /// The vendor has refused a schema for the reply, or being forced to call a tool.
    pub plain: bool,
    /// The decision that is being made.
    pub asking: Option<PendingDecision>,
}

/// A decision.
#[derive(Debug, Serialize, Deserialize)]
pub struct PastDecision {
    /// The newest message of the shared conversation at that time.
    pub after: Option<u64>,
    /// As JSON.
    pub said: String,
}

/// What a model wrote of the older messages.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConversationSummary {
    /// The last message that is in it.
    pub through: u64,
    pub text: String,
}

/// A decision that takes more than one question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingDecision {
    /// What the model was asked, if it was.
    pub asked: Option<CoordinatorQuestion>,
    /// How often it was asked.
    pub times: u32,
    /// It was asked once more because it could not be reached.
    pub retried: bool,
    /// What was wrong with the first answer that could not be used.
    pub wrong: Option<RejectedReply>,
    /// What it looks at.
    pub looks: Vec<CoordinatorLookup>,
}

/// What a model is asked for.
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
    /// Remembers a decision, and forgets the oldest ones that are too much.
    pub fn keep(&mut self, said: PastDecision) {
        self.said.push_back(said);
        while self.said.iter().map(|one| one.said.len()).sum::<usize>() > limits::COORDINATOR_SAID_BYTES
            || self.said.len() > limits::COORDINATOR_SAID_BYTES / 64
        {
            self.said.pop_front();
        }
    }

    /// Everything up to this message is in the summary now. Where nothing was written, the one before stands.
    pub fn sum_up(&mut self, through: Option<u64>, text: &str) {
        let Some(through) = through else { return };
        // In JSON each of them takes six bytes, and nobody sees one.
        let text: String = text.trim().chars().filter(|&c| c == '\n' || !c.is_control()).collect();
        let text = match (text.is_empty(), self.summary.take()) {
            (true, before) => before.map(|before| before.text).unwrap_or_default(),
            (false, _) => cut(&text, limits::COORDINATOR_SUMMARY_CHARS - 1),
        };
        self.summary = Some(ConversationSummary { through, text });
    }
}

impl PendingDecision {
    /// Notes what it wants to see, each once and no more than it may.
    pub fn look(&mut self, looks: Vec<CoordinatorLookup>) {
        for look in looks {
            if self.may_look() && !self.looks.contains(&look) {
                self.looks.push(look);
            }
        }
    }

    /// Whether there is room for more.
    pub fn may_look(&self) -> bool {
        self.looks.len() < limits::ASKS_IN_A_ROW as usize
    }
}

/// The position behind the message with this id, also if it was replaced meanwhile: what replaces it has a larger one.
pub fn behind(shared: &ChatSnapshot, id: u64) -> usize {
    let newer = shared.iter().rev().take_while(|entry| entry.id > id).count();
    shared.len() - newer
}
