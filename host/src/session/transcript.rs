use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{JournalLine, JournalLineContent};
use crate::{
    agent::journal::{DelegationId, JournalRecord, RecordedRunEnd},
    chat::{ChatChange, ChatEntryRecord, Message, ToolCall, ToolResult},
    limits,
    model::{Ledger, Usage, UsageTally},
};

/// What was said in a session, run by run: each conversation as it stood when the run ended, or stands by now.
///
/// It is made of the lines of a journal, as many as there are. Nothing is checked: what can be told of a session is told,
/// also where it cannot go on.
#[derive(Debug, Default)]
pub struct Transcript {
    runs: BTreeMap<u64, RunTranscript>,
    ledger: Ledger,
}

/// What was said in one run.
#[derive(Debug)]
pub struct RunTranscript {
    /// Its number.
    pub run: u64,
    /// The agent, by its name in the config.
    pub agent: Arc<str>,
    /// The agent, by its name in this session.
    pub instance: Arc<str>,
    /// Its model.
    pub model: String,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// Of whom it works for.
    pub errand: Option<DelegationId>,
    /// The run whose conversation it goes on with: what was said there is not said here again.
    pub continues: Option<u64>,
    /// Its system prompt.
    pub prompt: Arc<str>,
    /// What it has used, without those that work for it.
    pub spent: UsageTally,
    /// How it ended; none if it has not.
    pub ended: Option<RecordedRunEnd>,
    /// The runs that work for it, and for which call, in the order in which they began.
    pub children: Vec<(String, u64)>,
    /// How many runs it stands below, at most [`limits::DELEGATION_DEPTH_CEILING`]: 0 for one that is nobody's child.
    level: u32,
    said: Vec<TranscriptMessage>,
    /// What it was given and has not read.
    input: Vec<Message>,
    sent: Vec<Message>,
    /// Calls that were begun, and results that do not stand in the conversation yet.
    begun: HashSet<String>,
    results: HashMap<String, ToolResult>,
}

/// A message that was said.
#[derive(Debug, Clone)]
pub struct TranscriptMessage {
    /// The line of the journal that says so.
    pub n: u64,
    /// What was said.
    pub message: Arc<Message>,
    /// Whether it is of the host, an effect or a middleware, and neither a person's nor a model's.
    pub note: bool,
    /// Whether it was changed, or put in the place of others.
    pub edited: bool,
    id: u64,
    run: u64,
}

impl Transcript {
    /// What these lines tell.
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
        // What a middleware answered in place of a model was not paid for.
        if let Some((usage, cost)) = paid.filter(|(usage, _)| *usage != Usage::default()) {
            self.ledger.record(&there.instance, usage, cost);
            there.spent.completions = there.spent.completions.saturating_add(1);
            there.spent.usage += usage;
            there.spent.usd = there.spent.usd.saturating_add(cost);
        }
        there.add(n, record);
    }

    /// All runs, by their numbers.
    pub fn runs(&self) -> impl Iterator<Item = &RunTranscript> {
        self.runs.values()
    }

    /// The runs that are nobody's children: those that a person started, as a rule.
    pub fn top(&self) -> impl Iterator<Item = &RunTranscript> {
        self.runs.values().filter(|run| run.level == 0)
    }

    /// A run.
    pub fn run(&self, run: u64) -> Option<&RunTranscript> {
        self.runs.get(&run)
    }

    /// What each agent has used and cost.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn begin(&mut self, run: u64, (n, t): (u64, u64), record: JournalRecord) {
        let JournalRecord::Began { agent, instance, model, errand, continues, input, prompt, changes, .. } = record
        else {
            return;
        };
        // Whoever wrote the journal may be anyone: none is its own child, and none twice. Those that begin side by side
        // come in any order of their numbers.
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
        let said = before.map(RunTranscript::hand_on).unwrap_or_default();
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
            said,
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
    /// What was said in it, in order.
    pub fn said(&self) -> impl Iterator<Item = &TranscriptMessage> {
        self.said.iter().filter(|said| said.run == self.run)
    }

    /// What it was told and has not read.
    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.input.iter().chain(&self.sent)
    }

    /// The results of its calls, by the call: also those that do not stand in the conversation yet.
    pub fn results(&self) -> HashMap<&str, &ToolResult> {
        let told = self.said().flat_map(|said| said.message.tool_results());
        self.results.values().chain(told).map(|result| (&*result.call_id, result)).collect()
    }

    /// Its calls that have no result.
    pub fn open_calls(&self) -> Vec<&ToolCall> {
        let results = self.results();
        let calls = self.said().flat_map(|said| said.message.tool_calls());
        calls.filter(|call| !results.contains_key(&*call.id)).collect()
    }

    /// Whether it is known that this call was begun; of one that may be made again it need not be.
    pub fn has_begun(&self, call: &str) -> bool {
        self.begun.contains(call)
    }

    /// Its conversation, for the run that goes on with it.
    fn hand_on(&mut self) -> Vec<TranscriptMessage> {
        let own = self.said().cloned().collect();
        std::mem::replace(&mut self.said, own)
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
            // What these tell stands in the conversation too, in the calls and in their results.
            JournalRecord::Delegated { .. }
            | JournalRecord::Parked { .. }
            | JournalRecord::Answered { .. }
            | JournalRecord::Returned { .. }
            | JournalRecord::Began { .. }
            | JournalRecord::Asked { .. }
            | JournalRecord::Wasted { .. }
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
                    let said = self.said_at(n, written);
                    self.said.push(said);
                }
                ChatChange::Answered { id, call, .. } => {
                    let Some(result) = self.results.remove(&call) else { continue };
                    let message = Arc::new(Message::results(vec![result]));
                    self.said.push(TranscriptMessage { n, message, note: false, edited: false, id, run: self.run });
                }
                ChatChange::Waits(message) => {
                    self.read(&message);
                    self.sent.push(Message::clone(&message));
                }
                ChatChange::Replaced { first, last, by } => {
                    let position = |id| self.said.iter().position(|said| said.id == id);
                    let (Some(first), Some(last)) = (position(first), position(last)) else { continue };
                    if first <= last {
                        let by: Vec<_> = by.into_iter().map(|written| self.said_at(n, written)).collect();
                        self.said.splice(first..=last, by);
                    }
                }
                // The prompt is known, and what is kept beside the conversation nobody has said.
                ChatChange::Prompted { .. } | ChatChange::Kept { .. } => {}
            }
        }
    }

    fn said_at(&self, n: u64, written: ChatEntryRecord) -> TranscriptMessage {
        let ChatEntryRecord { id, note, edited, message, .. } = written;
        TranscriptMessage { n, note: note || message.is_note(), edited, message, id, run: self.run }
    }

    /// This message waits no more.
    fn read(&mut self, message: &Message) {
        if let Some(at) = self.sent.iter().position(|waiting| waiting == message) {
            self.sent.remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
