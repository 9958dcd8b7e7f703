//! Events that follow from the records of a journal.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use super::line_members::members;
use shelly_core::{
    agent::journal::{DelegationKey, JournalRecord, RecordedRunEnd},
    chat::{ChatChange, Message, Role, ToolResult},
    error::cut,
    event::{Event, RequestTokens, StreamEvent},
    files, limits,
};
use shelly_session::{JournalLine, JournalLineContent};

/// Turns the records of a journal, in order, into events.
#[derive(Debug)]
pub(crate) struct JournalEvents {
    /// The number of the next line.
    next: u64,
    runs: HashMap<u64, JournalRun>,
}

/// A run as far as its records say.
#[derive(Debug)]
struct JournalRun {
    instance: Arc<str>,
    began: u64,
    /// The id under which events are about it.
    id: Arc<str>,
    parent: Option<Arc<str>>,
    /// The tool of each call that has no result, and the time of the reply that made it.
    calls: HashMap<String, (String, u64)>,
    /// Results that are not in the conversation yet.
    results: HashMap<String, ToolResult>,
}

impl Default for JournalEvents {
    fn default() -> Self {
        // The header is line 1.
        Self { next: 2, runs: HashMap::new() }
    }
}

/// Returns `true` if an event may follow from such a record.
pub(crate) fn is_told(record: &JournalRecord) -> bool {
    match record {
        JournalRecord::Began { .. }
        | JournalRecord::Turn { .. }
        | JournalRecord::Replied { .. }
        | JournalRecord::CallEnded { .. }
        | JournalRecord::Chose { .. }
        | JournalRecord::Ended { .. } => true,
        JournalRecord::Looked { changes, .. }
        | JournalRecord::Retried { changes, .. }
        | JournalRecord::WentOn { changes, .. } => !changes.is_empty(),
        // The event of a decision is recorded with the others or is not missed.
        JournalRecord::Decided { .. }
        | JournalRecord::Asked { .. }
        | JournalRecord::Wasted { .. }
        | JournalRecord::GaveRemoteTask { .. }
        | JournalRecord::CallBegan { .. }
        | JournalRecord::Sent { .. }
        | JournalRecord::Passed { .. }
        | JournalRecord::Delegated { .. }
        | JournalRecord::Parked { .. }
        | JournalRecord::Answered { .. }
        | JournalRecord::Returned { .. }
        | JournalRecord::Task { .. }
        | JournalRecord::Blackboard { .. }
        | JournalRecord::Given { .. } => false,
    }
}

/// Returns `true` for a reply of a model that is in the conversation.
pub(crate) fn says_something(record: &JournalRecord) -> bool {
    matches!(record, JournalRecord::Replied { silent: None, .. })
}

impl JournalEvents {
    /// Returns the instances of the runs that have begun and not ended in the lines so far.
    pub fn unfinished(&self) -> impl Iterator<Item = &str> {
        self.runs.values().map(|run| &*run.instance)
    }

    /// Returns the number of the next line to [add](Self::add).
    pub fn next_line(&self) -> u64 {
        self.next
    }

    /// Goes on to the next line.
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// Returns the members of the lines of the events that follow from a line. `known` are the ids of runs that recorded
    /// events are about, by instance.
    pub fn add(&mut self, line: &JournalLine, known: &HashMap<String, String>) -> Vec<String> {
        let JournalLineContent::Record(record) = &line.what else { return Vec::new() };
        if let JournalRecord::Began { .. } = record {
            return self.begin(line, record, known);
        }
        let Some(run) = self.runs.get_mut(&line.run) else { return Vec::new() };
        let mut lines = RecordLines {
            time: line.t,
            id: known.get(&*run.instance).map(|id| Arc::from(&**id)),
            run,
            lines: Vec::new(),
        };
        lines.add(record);
        let lines = lines.lines;
        if let JournalRecord::Ended { .. } = record {
            self.runs.remove(&line.run);
        }
        lines
    }

    fn begin(&mut self, line: &JournalLine, record: &JournalRecord, known: &HashMap<String, String>) -> Vec<String> {
        let JournalRecord::Began { agent, instance, model, depth, delegation_key, input, .. } = record else {
            return Vec::new();
        };
        let parent = delegation_key.as_ref().and_then(|key| self.runs.get(&key.run));
        // The key of a team member names a step in the place of a call.
        let is_call = |key: &&DelegationKey| parent.is_some_and(|parent| parent.calls.contains_key(&key.call));
        let parent_call = delegation_key.as_ref().filter(is_call).map(|key| key.call.as_str().into());
        let id_of =
            |run: &JournalRun| known.get(&*run.instance).map_or_else(|| Arc::clone(&run.id), |id| Arc::from(&**id));
        let parent = parent.map(|parent| (id_of(parent), Arc::clone(&parent.instance)));
        let (parent, parent_agent) = parent.unzip();
        let task = input.iter().rev().find(|message| message.role == Role::User && !message.is_note());
        let task = task.map(|task| cut(&task.text_content(), limits::TASK_SHOWN_BYTES)).unwrap_or_default();
        let run = self.runs.entry(line.run).or_insert(JournalRun {
            instance: Arc::clone(instance),
            began: line.t,
            id: format!("journal-{}", line.run).into(),
            parent,
            calls: HashMap::new(),
            results: HashMap::new(),
        });
        let mut lines = RecordLines { time: line.t, id: None, run, lines: Vec::new() };
        lines.push(
            Event::RunStarted {
                agent: Arc::clone(instance),
                configured: Arc::clone(agent),
                parent_agent,
                parent_call,
                depth: *depth,
                prefix: "".into(),
                model: model.clone(),
                task,
            },
            "",
        );
        // The changes of the record are what the conversation held before, which is no event.
        lines.lines
    }
}

/// The lines of one record.
struct RecordLines<'a> {
    time: u64,
    /// The id that recorded events use for the run.
    id: Option<Arc<str>>,
    run: &'a mut JournalRun,
    lines: Vec<String>,
}

impl RecordLines<'_> {
    fn add(&mut self, record: &JournalRecord) {
        let agent = Arc::clone(&self.run.instance);
        match record {
            JournalRecord::Turn { iteration, changes, .. } => {
                self.change(changes);
                // The journal does not say how long the request was.
                let (tokens, parts, window) = (0, RequestTokens::default(), None);
                self.push(Event::ModelStarted { agent, iteration: *iteration, tokens, parts, window }, "");
            }
            JournalRecord::Replied { iteration, model, stop, usage, cost, took, changes, .. } => {
                let replies = changes.iter().filter_map(|change| match change {
                    ChatChange::Added(added) if added.message.role == Role::Assistant => {
                        Some(Arc::clone(&added.message))
                    }
                    _ => None,
                });
                let replies: Vec<_> = replies.collect();
                let calls = replies.iter().flat_map(|reply| reply.tool_calls()).count();
                let finished = Event::ModelFinished {
                    agent: Arc::clone(&agent),
                    iteration: *iteration,
                    model: model.clone(),
                    stop: stop.clone(),
                    calls,
                    usage: *usage,
                    duration: *took,
                };
                self.push(finished, &dollars("usd", cost.pico()));
                self.change(changes);
                for call in replies.iter().flat_map(|reply| reply.tool_calls()) {
                    self.run.calls.insert(call.id.clone(), (call.name.clone(), self.time));
                    let started = Event::ToolStarted {
                        agent: Arc::clone(&agent),
                        call: call.id.clone(),
                        tool: call.name.clone(),
                        origin: String::new(),
                        arguments: cut(&call.arguments, limits::TASK_SHOWN_BYTES),
                    };
                    self.push(started, "");
                }
            }
            JournalRecord::CallEnded { result, .. } => {
                let (tool, started) = self.run.calls.remove(&result.call_id).unwrap_or((String::new(), self.time));
                let text = result.text();
                let finished = Event::ToolFinished {
                    agent,
                    call: result.call_id.clone(),
                    tool,
                    is_error: result.is_error,
                    reason: result.is_error.then(|| cut(&text, limits::TASK_SHOWN_BYTES)),
                    bytes: text.len(),
                    duration: Duration::from_millis(self.time.saturating_sub(started)),
                };
                self.push(finished, "");
                self.run.results.insert(result.call_id.clone(), result.clone());
            }
            JournalRecord::Looked { changes, .. }
            | JournalRecord::Retried { changes, .. }
            | JournalRecord::WentOn { changes, .. } => self.change(changes),
            JournalRecord::Chose { step, members, changes, .. } => {
                self.change(changes);
                let members = members.iter().map(|chosen| Arc::clone(&chosen.member)).collect();
                self.push(Event::TeamStep { agent, step: *step, members, done: false, reasoning: None }, "");
            }
            JournalRecord::Ended { changes, outcome, iterations, usage, account } => {
                self.change(changes);
                let error = match outcome {
                    RecordedRunEnd::Failed { error, .. } => Some(error.clone()),
                    _ => None,
                };
                let finished = Event::RunFinished {
                    agent,
                    error,
                    iterations: *iterations,
                    usage: *usage,
                    of_children: account.of_children.usage,
                    duration: Duration::from_millis(self.time.saturating_sub(self.run.began)),
                };
                let (own, of_children) = (account.own.usd.pico(), account.of_children.usd.pico());
                self.push(finished, &(dollars("usd", own) + &dollars("of_children_usd", of_children)));
            }
            _ => {}
        }
    }

    fn change(&mut self, changes: &[ChatChange]) {
        for change in changes {
            let message = match change {
                ChatChange::Added(added) => Arc::clone(&added.message),
                ChatChange::Answered { call, .. } => {
                    let Some(result) = self.run.results.remove(call) else { continue };
                    Arc::new(Message::results(vec![result]))
                }
                ChatChange::Replaced { .. }
                | ChatChange::Waits(_)
                | ChatChange::Kept { .. }
                | ChatChange::Prompted { .. } => continue,
            };
            let (agent, role) = (Arc::clone(&self.run.instance), message.role);
            self.push(Event::MessageAdded { agent, role, message: Some(message) }, "");
        }
    }

    /// Adds the line of an event with further members.
    fn push(&mut self, event: Event, more: &str) {
        let time = UNIX_EPOCH.checked_add(Duration::from_millis(self.time)).unwrap_or(UNIX_EPOCH);
        let (run, parent) = (self.id.clone().unwrap_or_else(|| Arc::clone(&self.run.id)), self.run.parent.clone());
        let event = StreamEvent { sequence: 0, time: files::writable_date(time), run: Some(run), parent, event };
        let all = members(&event);
        let members = all.split_once(',').map_or("", |(_, members)| members);
        self.lines.push(format!("{members}{more}"));
    }
}

/// Returns a member for a cost; empty for none, as the price may be unknown.
fn dollars(name: &str, pico: u64) -> String {
    const PICO: f64 = 1e12;
    if pico == 0 { String::new() } else { format!(",\"{name}\":{}", pico as f64 / PICO) }
}
