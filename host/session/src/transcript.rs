use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{JournalLine, JournalLineContent};
use shelly_core::{
    agent::journal::{DelegationKey, JournalRecord, RecordedRunEnd},
    chat::{ChatChange, ChatEntryRecord, Message, ToolCall, ToolResult},
    limits,
    model::{Ledger, Usage, UsageTally},
};

/// The messages of a session, run by run: each conversation as it was when the run ended, or as it is now.
///
/// It is built from the lines of a journal without checks: a session that cannot be resumed can still be shown.
#[derive(Debug, Default)]
pub struct Transcript {
    runs: BTreeMap<u64, RunTranscript>,
    ledger: Ledger,
}

/// The messages of one run.
#[derive(Debug)]
pub struct RunTranscript {
    /// The number of the run.
    pub run: u64,
    /// The name of the agent in the config.
    pub agent: Arc<str>,
    /// The instance name of the agent in this session.
    pub instance: Arc<str>,
    /// The model of the agent.
    pub model: String,
    /// The time of its beginning, in milliseconds since 1970.
    pub began: u64,
    /// The delegation that started it; `None` if a person did.
    pub errand: Option<DelegationKey>,
    /// The run whose conversation it continues: the messages of that run are not repeated here.
    pub continues: Option<u64>,
    /// The system prompt.
    pub prompt: Arc<str>,
    /// Its own usage, without the runs that it started.
    pub spent: UsageTally,
    /// The end of the run; `None` if it has not ended.
    pub ended: Option<RecordedRunEnd>,
    /// The runs that it started, each with the call that did, in order of their beginning.
    pub children: Vec<(String, u64)>,
    /// The number of its ancestors, at most [`limits::DELEGATION_DEPTH_CEILING`]: 0 for a run without a parent.
    level: u32,
    messages: Vec<TranscriptMessage>,
    /// The input that it has not read yet.
    input: Vec<Message>,
    sent: Vec<Message>,
    /// The ids of started calls, and results that are not in the conversation yet.
    begun: HashSet<String>,
    results: HashMap<String, ToolResult>,
}

/// A message in a transcript.
#[derive(Debug, Clone)]
pub struct TranscriptMessage {
    /// The number of the journal line.
    pub n: u64,
    /// The message.
    pub message: Arc<Message>,
    /// `true` if the host, an effect or a middleware wrote it, not a person or a model.
    pub note: bool,
    /// `true` if it was changed, or replaces other messages.
    pub edited: bool,
    id: u64,
    run: u64,
}

impl Transcript {
    /// Builds the transcript of these lines.
    pub fn of(lines: impl IntoIterator<Item = JournalLine>) -> Self {
        let mut transcript = Self::default();
        lines.into_iter().for_each(|line| transcript.add(line));
        transcript
    }

    /// Adds the next line.
    pub fn add(&mut self, line: JournalLine) {
        let JournalLine { n, t, run, what: JournalLineContent::Record(record) } = line else { return };
        if let JournalRecord::Began { .. } = record {
            self.begin(run, (n, t), record);
            return;
        }
        let Some(there) = self.runs.get_mut(&run) else { return };
        let paid = match &record {
            JournalRecord::Replied { usage, cost, .. } | JournalRecord::Wasted { usage, cost } => Some((*usage, *cost)),
            JournalRecord::Asked { completion, cost, .. } => Some((completion.usage, *cost)),
            _ => None,
        };
        if let JournalRecord::GaveRemoteTask { given } = &record
            && let Some(spent) = given.spent
        {
            self.ledger.record(&there.instance, spent.usage, spent.usd);
        }
        // A reply that a middleware gave in the model's place has no usage and no cost.
        if let Some((usage, cost)) = paid.filter(|(usage, _)| *usage != Usage::default()) {
            self.ledger.record(&there.instance, usage, cost);
            there.spent.completions = there.spent.completions.saturating_add(1);
            there.spent.usage += usage;
            there.spent.usd = there.spent.usd.saturating_add(cost);
        }
        there.add(n, record);
    }

    /// Iterates over all runs, by number.
    pub fn runs(&self) -> impl Iterator<Item = &RunTranscript> {
        self.runs.values()
    }

    /// Iterates over the runs without a parent, which are normally those that a person started.
    pub fn top(&self) -> impl Iterator<Item = &RunTranscript> {
        self.runs.values().filter(|run| run.level == 0)
    }

    /// Returns the run of this number.
    pub fn run(&self, run: u64) -> Option<&RunTranscript> {
        self.runs.get(&run)
    }

    /// Returns the usage and cost per agent.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn begin(&mut self, run: u64, (n, t): (u64, u64), record: JournalRecord) {
        let JournalRecord::Began {
            agent,
            instance,
            model,
            delegation_key: errand,
            continues,
            input,
            prompt,
            changes,
            ..
        } = record
        else {
            return;
        };
        // The journal is untrusted input: a run must not be its own ancestor or occur twice. Runs that begin concurrently
        // may appear in any order of their numbers.
        if self.runs.contains_key(&run) {
            return;
        }
        let mut level = 0;
        if let Some(errand) = &errand
            && let Some(parent) = self.runs.get_mut(&errand.run)
            && parent.level < limits::DELEGATION_DEPTH_CEILING
        {
            level = parent.level + 1;
            parent.children.push((errand.call.clone(), run));
        }
        let before = continues.and_then(|before| self.runs.get_mut(&before));
        let messages = before.map(RunTranscript::hand_on).unwrap_or_default();
        let mut there = RunTranscript {
            run,
            agent,
            instance,
            model,
            began: t,
            errand,
            continues,
            prompt,
            spent: UsageTally::default(),
            ended: None,
            children: Vec::new(),
            level,
            messages,
            input,
            sent: Vec::new(),
            begun: HashSet::new(),
            results: HashMap::new(),
        };
        there.change(n, changes);
        self.runs.insert(run, there);
    }
}

impl RunTranscript {
    /// Iterates over the messages of this run, in order.
    pub fn said(&self) -> impl Iterator<Item = &TranscriptMessage> {
        self.messages.iter().filter(|message| message.run == self.run)
    }

    /// Iterates over the messages that were sent to this run and that it has not read.
    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.input.iter().chain(&self.sent)
    }

    /// Returns the results of its calls by call id, including results that are not in the conversation yet.
    pub fn results(&self) -> HashMap<&str, &ToolResult> {
        let in_messages = self.said().flat_map(|message| message.message.tool_results());
        self.results.values().chain(in_messages).map(|result| (&*result.call_id, result)).collect()
    }

    /// Returns its calls that have no result.
    pub fn open_calls(&self) -> Vec<&ToolCall> {
        let results = self.results();
        let calls = self.said().flat_map(|message| message.message.tool_calls());
        calls.filter(|call| !results.contains_key(&*call.id)).collect()
    }

    /// Returns `true` if the journal records that this call was started; for a repeatable call the record may be missing.
    pub fn has_begun(&self, call: &str) -> bool {
        self.begun.contains(call)
    }

    /// Takes the conversation out of this run, for the run that continues it.
    fn hand_on(&mut self) -> Vec<TranscriptMessage> {
        let own = self.said().cloned().collect();
        std::mem::replace(&mut self.messages, own)
    }

    fn add(&mut self, n: u64, record: JournalRecord) {
        match record {
            JournalRecord::Turn { changes, .. } | JournalRecord::Chose { changes, .. } => {
                self.input.clear();
                self.change(n, changes);
            }
            JournalRecord::Replied { changes, .. } | JournalRecord::Looked { changes, .. } => self.change(n, changes),
            JournalRecord::Passed { input, .. } => {
                self.input = input.unwrap_or_else(|| std::mem::take(&mut self.input))
            }
            JournalRecord::Retried { input, changes, .. } => {
                self.change(n, changes);
                self.input = input;
            }
            JournalRecord::WentOn { input, changes } => {
                self.change(n, changes);
                input.iter().for_each(|message| self.read(message));
                self.input = input;
            }
            JournalRecord::Ended { changes, outcome, .. } => {
                self.change(n, changes);
                self.ended = Some(outcome);
            }
            JournalRecord::CallBegan { call, .. } => {
                self.begun.insert(call);
            }
            JournalRecord::CallEnded { result, .. } => {
                self.results.insert(result.call_id.clone(), result);
            }
            JournalRecord::Sent { message } => self.sent.push(message),
            // These events also appear in the conversation, as calls and results.
            JournalRecord::Delegated { .. }
            | JournalRecord::Parked { .. }
            | JournalRecord::Answered { .. }
            | JournalRecord::Returned { .. }
            | JournalRecord::Began { .. }
            | JournalRecord::Asked { .. }
            | JournalRecord::Wasted { .. }
            | JournalRecord::GaveRemoteTask { .. }
            | JournalRecord::Task { .. }
            | JournalRecord::Blackboard { .. }
            | JournalRecord::Decided { .. }
            | JournalRecord::Given { .. } => {}
        }
    }

    fn change(&mut self, n: u64, changes: Vec<ChatChange>) {
        for change in changes {
            match change {
                ChatChange::Added(written) => {
                    self.read(&written.message);
                    for result in written.message.tool_results() {
                        self.results.remove(&result.call_id);
                    }
                    let message = self.message_at(n, written);
                    self.messages.push(message);
                }
                ChatChange::Answered { id, call, .. } => {
                    let Some(result) = self.results.remove(&call) else { continue };
                    let message = Arc::new(Message::results(vec![result]));
                    self.messages.push(TranscriptMessage { n, message, note: false, edited: false, id, run: self.run });
                }
                ChatChange::Waits(message) => {
                    self.read(&message);
                    self.sent.push(Message::clone(&message));
                }
                ChatChange::Replaced { first, last, by } => {
                    let position = |id| self.messages.iter().position(|message| message.id == id);
                    let (Some(first), Some(last)) = (position(first), position(last)) else { continue };
                    if first <= last {
                        let by: Vec<_> = by.into_iter().map(|written| self.message_at(n, written)).collect();
                        self.messages.splice(first..=last, by);
                    }
                }
                // The prompt is known, and full results are not messages.
                ChatChange::Prompted { .. } | ChatChange::Kept { .. } => {}
            }
        }
    }

    fn message_at(&self, n: u64, written: ChatEntryRecord) -> TranscriptMessage {
        let ChatEntryRecord { id, note, edited, message, .. } = written;
        TranscriptMessage { n, note: note || message.is_note(), edited, message, id, run: self.run }
    }

    /// Removes this message from those that wait.
    fn read(&mut self, message: &Message) {
        if let Some(at) = self.sent.iter().position(|waiting| waiting == message) {
            self.sent.remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
