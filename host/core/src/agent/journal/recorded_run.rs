use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    BoardTaskOutcome, ChosenMember, DelegatedTask, DelegationKey, DelegationReport, EffectMemory, JournalRecord,
    RecordedRunEnd, RemoteTaskRecord, SideChatRef,
};
use crate::{
    agent::text::task_of,
    capability::{BudgetBreakdown, BudgetUsage, Usd},
    chat::{ChatChange, ChatEntryRecord, Message, Role, StopReason, ToolResult, Usage},
    model::Completion,
    tool::RunControl,
};

/// The state of a run when it was interrupted or ended.
#[derive(Debug)]
pub(crate) struct RecordedRun {
    pub agent: Arc<str>,
    pub instance: Arc<str>,
    /// The delegated task that it works on.
    pub(super) delegation_key: Option<DelegationKey>,
    /// Its conversation: the run that began it.
    pub conversation: u64,
    /// Set if no other run has its conversation, and none continues it.
    pub(super) is_alone: bool,
    /// The input; `None` if the delegating run supplies it again. Empty if it is in the conversation already.
    pub input: Option<Vec<Message>>,
    /// Set once the input is in the conversation.
    pub(super) has_input: bool,
    /// The parent's conversation, and the messages from there that it was given but has not heard yet.
    pub(super) given: Option<(u64, SideChatRef)>,
    /// The task, cut for display; `None` if the delegating run supplies it again.
    pub task: Option<String>,
    pub iterations: u32,
    pub usage: Usage,
    pub last_usage: Option<Usage>,
    pub model_time: Duration,
    pub elapsed: Duration,
    pub spent: BudgetBreakdown,
    pub effects: Vec<EffectMemory>,
    /// The tools that the model was not shown in this turn.
    pub hidden: Vec<String>,
    pub at: RecordedTurnState,
    /// The calls of the last reply, by their id.
    pub calls: HashMap<String, Box<RecordedToolCall>>,
    /// The answers that models gave to effects in this phase.
    pub asked: VecDeque<EffectModelReply>,
    /// The middleware that has let the run pass, outermost first.
    pub passed: VecDeque<PassedMiddleware>,
    pub inbox: Vec<Message>,
    /// The tasks that it has given to agents of other hosts.
    pub remote_tasks: Vec<RemoteTaskRecord>,
    /// The tasks that it has delegated, by the id of the call.
    pub delegated: HashMap<String, RecordedDelegateCall>,
    /// The questions of other agents to it, in order, by the id of the delegation.
    pub parked: BTreeMap<String, Vec<RecordedQuestion>>,
    /// The last decision of a team.
    pub chose: Option<RecordedTeamStep>,
    /// The step with which the current attempt began.
    pub first: u32,
    pub ended: Option<(RecordedRunEnd, BudgetBreakdown)>,
}

/// The members that work in a step of a team.
#[derive(Debug, Clone)]
pub(crate) struct RecordedTeamStep {
    pub step: u32,
    pub members: Vec<ChosenMember>,
    pub state: Vec<u8>,
    /// The newest message before the input of the attempt.
    pub since: Option<u64>,
}

/// The position of a run in its turn.
#[derive(Debug, Clone, Default)]
pub(crate) enum RecordedTurnState {
    /// A turn is about to begin.
    #[default]
    Turn,
    /// The model is about to be asked.
    Model,
    /// The model has replied.
    Reply { stop: StopReason, silent: Option<Message>, looked: bool },
}

#[derive(Debug, Default)]
pub(crate) struct RecordedToolCall {
    /// Set if the call may have been made.
    pub began: bool,
    /// Set if the call has changed the task board or a blackboard.
    pub changed: bool,
    pub ended: Option<RecordedCallEnd>,
}

/// The result of a call, as [`JournalRecord::CallEnded`] has it.
#[derive(Debug)]
pub(crate) struct RecordedCallEnd {
    pub result: ToolResult,
    pub control: Option<RunControl>,
    pub full_text: Option<String>,
}

#[derive(Debug)]
pub(crate) struct PassedMiddleware {
    pub middleware: String,
    pub state: Vec<u8>,
    pub attempt: u32,
    /// Usage of the run when this attempt began.
    pub usage: Usage,
}

#[derive(Debug)]
pub(crate) struct RecordedDelegateCall {
    /// The arguments with which the tool was called.
    pub arguments: String,
    pub tasks: Vec<DelegatedTask>,
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedQuestion {
    pub call: String,
    /// The position of the task in that call.
    pub position: usize,
    /// The id of the call that asked.
    pub asking_call: String,
    /// The call that gave the answer.
    pub answered_by: Option<String>,
    /// The result of the call that asked; `None` while it waits.
    pub result: Option<QuestionResult>,
}

/// The result of a call that asks the parent run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuestionResult {
    Answer,
    /// No answer came in time.
    Error,
}

/// The state of a delegated task: the runs that worked on it, in order, and its outcome.
#[derive(Debug, Default)]
pub(crate) struct DelegationState {
    pub runs: Vec<u64>,
    /// Set once one of them has had its input in the conversation.
    pub has_input: bool,
    /// The amount spent by those of its runs that have ended.
    pub spent: BudgetBreakdown,
    pub returned: Option<(DelegationReport, Option<BoardTaskOutcome>)>,
}

/// The answer that a model gave to an effect or coordinator.
#[derive(Debug)]
pub(crate) struct EffectModelReply {
    /// The position of the effect in the list.
    pub at: usize,
    /// The name of the effect; empty in older journals.
    pub name: String,
    pub completion: Completion,
}

impl EffectModelReply {
    pub(crate) fn is_for(&self, at: usize, name: &str) -> bool {
        self.at == at && (self.name.is_empty() || self.name == name)
    }
}

impl RecordedRun {
    pub(super) fn new(
        agent: Arc<str>,
        instance: Arc<str>,
        delegation_key: Option<DelegationKey>,
        (conversation, is_alone): (u64, bool),
        input: Option<Vec<Message>>,
    ) -> Self {
        Self {
            agent,
            instance,
            delegation_key,
            conversation,
            is_alone,
            task: input.as_ref().and_then(task_of),
            input,
            has_input: false,
            given: None,
            iterations: 0,
            usage: Usage::default(),
            last_usage: None,
            model_time: Duration::ZERO,
            elapsed: Duration::ZERO,
            spent: BudgetBreakdown::default(),
            effects: Vec::new(),
            hidden: Vec::new(),
            at: RecordedTurnState::Turn,
            calls: HashMap::new(),
            asked: VecDeque::new(),
            passed: VecDeque::new(),
            inbox: Vec::new(),
            remote_tasks: Vec::new(),
            delegated: HashMap::new(),
            parked: BTreeMap::new(),
            chose: None,
            first: 0,
            ended: None,
        }
    }

    /// Applies a record. `there` are the changes of the run's conversation.
    pub(super) fn add(&mut self, record: JournalRecord, there: &mut Vec<ChatChange>) -> Result<(), String> {
        match record {
            JournalRecord::Chose { step, members, state, changes, elapsed, since } => {
                (self.input, self.has_input) = (Some(Vec::new()), true);
                (self.iterations, self.elapsed) = (step.saturating_add(1), elapsed);
                self.chose = Some(RecordedTeamStep { step, members, state, since });
                self.change(changes, there)?;
            }
            JournalRecord::Turn { iteration, changes, effects, elapsed } => {
                (self.input, self.has_input) = (Some(Vec::new()), true);
                (self.iterations, self.elapsed, self.at) =
                    (iteration.saturating_add(1), elapsed, RecordedTurnState::Model);
                self.change(changes, there)?;
                self.remember(effects);
                self.hidden = self.effects.iter().flat_map(|effect| effect.hidden.iter().cloned()).collect();
                self.calls.clear();
            }
            JournalRecord::Asked { effect: at, name, completion, .. } => {
                self.asked.push_back(EffectModelReply { at, name, completion });
            }
            JournalRecord::Replied { stop, usage, took, changes, silent, .. } => {
                self.last_usage = Some(usage);
                self.model_time = self.model_time.saturating_add(took);
                self.at = RecordedTurnState::Reply { stop, silent, looked: false };
                self.change(changes, there)?;
            }
            JournalRecord::Looked { changes, effects } => {
                if let RecordedTurnState::Reply { looked, .. } = &mut self.at {
                    *looked = true;
                }
                self.change(changes, there)?;
                self.remember(effects);
            }
            JournalRecord::CallBegan { call, .. } => self.calls.entry(call).or_default().began = true,
            JournalRecord::CallEnded { result, control, counted, full_text } => {
                self.spent.own.tool_calls += u64::from(counted);
                let call = self.calls.entry(result.call_id.clone()).or_default();
                call.ended = Some(RecordedCallEnd { result, control, full_text });
            }
            JournalRecord::Sent { message } => self.inbox.push(message),
            JournalRecord::GaveRemoteTask { given } => {
                self.inbox.drain(..given.passed_on.min(self.inbox.len()));
                let others = |there: &RemoteTaskRecord| there.entry == given.entry && there.message != given.message;
                // The cost of a task that was given up can be known after another one was given in its place.
                if given.spent.is_none() || !self.remote_tasks.iter().any(others) {
                    self.remote_tasks.retain(|there| there.entry != given.entry);
                    self.remote_tasks.push(given);
                }
            }
            JournalRecord::Passed { middleware, state, input, level } => {
                self.passed.truncate(level);
                self.passed.push_back(PassedMiddleware { middleware, state, attempt: 0, usage: self.usage });
                self.input = input.or(self.input.take());
            }
            JournalRecord::Retried { level, attempt, state, input, changes } => {
                self.change(changes, there)?;
                self.passed.truncate(level + 1);
                let passed = self.passed.get_mut(level).ok_or("a retry of a middleware that was never entered")?;
                (passed.attempt, passed.state, passed.usage) = (attempt, state, self.usage);
                self.begin_attempt(input);
            }
            JournalRecord::WentOn { input, changes } => {
                self.change(changes, there)?;
                self.passed.clear();
                self.read(&input);
                self.begin_attempt(input);
            }
            JournalRecord::Delegated { call, tasks, arguments: changed } => {
                // The conversation of a cancelled run may belong to another run by now, and nobody resumes the cancelled
                // one.
                if let Some(asked) = arguments(&call, there) {
                    let arguments = changed.unwrap_or(asked);
                    self.calls.entry(call.clone()).or_default();
                    self.delegated.insert(call, RecordedDelegateCall { arguments, tasks });
                }
            }
            JournalRecord::Parked { call, position, delegation, asking_call } => {
                let questions = self.parked.entry(delegation).or_default();
                let parking = RecordedQuestion { call, position, asking_call, answered_by: None, result: None };
                match questions.iter_mut().find(|there| there.asking_call == parking.asking_call) {
                    // After an interruption the agent asks the same question again.
                    Some(there) => *there = parking,
                    None => questions.push(parking),
                }
            }
            JournalRecord::Answered { delegation, answered_by, .. } => {
                let questions = self.parked.get_mut(&delegation).ok_or("an answer without a question")?;
                // One call answers one question of a delegation, even if the call is repeated.
                if !questions.iter().any(|parking| parking.answered_by.as_ref() == Some(&answered_by))
                    && let Some(newest) = questions.last_mut()
                {
                    newest.answered_by = Some(answered_by.clone());
                }
                self.calls.entry(answered_by).or_default();
            }
            JournalRecord::Ended { changes, outcome, account, .. } => {
                self.change(changes, there)?;
                self.ended = Some((outcome, account));
            }
            JournalRecord::Wasted { .. } => {}
            // [`JournalState`](super::JournalState) handles these records itself.
            JournalRecord::Began { .. }
            | JournalRecord::Returned { .. }
            | JournalRecord::Task { .. }
            | JournalRecord::Blackboard { .. }
            | JournalRecord::Decided { .. }
            | JournalRecord::Given { .. } => {}
        }
        Ok(())
    }

    fn begin_attempt(&mut self, input: Vec<Message>) {
        self.spent.own.tool_calls += self.open_calls();
        (self.input, self.at) = (Some(input), RecordedTurnState::Turn);
        (self.chose, self.first) = (None, self.iterations);
        self.calls.clear();
        // The attempt does not wait for their ends any more: what is given after the same message is a new task.
        self.remote_tasks.clear();
    }

    /// Returns the number of calls that may have been made and have no result: each was taken from the budget.
    pub(super) fn open_calls(&self) -> u64 {
        self.calls.values().filter(|call| call.ended.is_none()).count() as u64
    }

    /// Returns `true` if the work on a delegation of this run continues when the run is resumed: its call is repeated, its
    /// step continues, or it waits for an answer.
    pub(super) fn continues(&self, key: &DelegationKey) -> bool {
        let is_open = |call: &str| is_open_call(&self.calls, call);
        let waits = |parking: &RecordedQuestion| {
            let is_this = parking.call == key.call && parking.position == key.position;
            is_this && parking.answered_by.as_deref().is_none_or(is_open)
        };
        let is_chosen = self.chose.as_ref().is_some_and(|chose| key.call == DelegationKey::call_of_step(chose.step));
        is_open(&key.call) || is_chosen || self.parked.values().flatten().any(waits)
    }

    fn change(&mut self, mut changes: Vec<ChatChange>, there: &mut Vec<ChatChange>) -> Result<(), String> {
        for change in &mut changes {
            if let ChatChange::Answered { id, group, call } = change {
                let known = self.calls.get(call).and_then(|call| call.ended.as_ref());
                let known = known.ok_or_else(|| format!("no recorded result of call `{call}`"))?;
                let (id, group) = (*id, Some(*group));
                let message = Arc::new(Message::results(vec![known.result.clone()]));
                *change = ChatChange::Added(ChatEntryRecord { id, group, note: false, edited: false, message });
            }
        }
        let added = changes.iter().filter_map(|change| match change {
            ChatChange::Added(written) => Some(Message::clone(&written.message)),
            ChatChange::Waits(message) => Some(Message::clone(message)),
            _ => None,
        });
        let added: Vec<_> = added.collect();
        self.has_input |= added.iter().any(|message| message.role != Role::System);
        self.read(&added);
        there.extend(changes);
        self.asked.clear();
        Ok(())
    }

    /// Removes these messages from the inbox.
    fn read(&mut self, messages: &[Message]) {
        for message in messages {
            if let Some(at) = self.inbox.iter().position(|waiting| waiting == message) {
                self.inbox.remove(at);
            }
        }
    }

    /// Notes the result of a call that may have asked this run, by an agent that works on one of its tasks.
    pub(super) fn end_question(&mut self, of: &DelegationKey, result: &ToolResult) {
        let is_this = |parking: &&mut RecordedQuestion| {
            parking.asking_call == result.call_id && parking.call == of.call && parking.position == of.position
        };
        if let Some(parking) = self.parked.values_mut().flatten().find(is_this) {
            parking.result = Some(if result.is_error { QuestionResult::Error } else { QuestionResult::Answer });
        }
    }

    fn remember(&mut self, effects: Vec<EffectMemory>) {
        for memory in effects {
            match self.effects.iter_mut().find(|there| there.at == memory.at) {
                Some(there) => *there = memory,
                None => self.effects.push(memory),
            }
        }
    }

    pub(super) fn pay(&mut self, usage: Usage, usd: Usd) {
        self.usage += usage;
        self.spent.own += BudgetUsage { usage, usd, tool_calls: 0 };
    }
}

/// Returns `true` if a call of the last reply may have been made and has no result: it is repeated when the run is resumed.
/// `calls` has each call that has begun, since one that delegates or answers is noted at its first record.
pub(crate) fn is_open_call(calls: &HashMap<String, Box<RecordedToolCall>>, call: &str) -> bool {
    calls.get(call).is_some_and(|call| call.ended.is_none())
}

/// Returns the arguments of a call in the conversation that these changes make.
fn arguments(call: &str, changes: &[ChatChange]) -> Option<String> {
    let added = changes.iter().rev().filter_map(|change| match change {
        ChatChange::Added(written) => Some(&written.message),
        _ => None,
    });
    let mut calls = added.flat_map(|message| message.tool_calls());
    calls.find(|there| there.id == call).map(|there| there.arguments.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_reply_to_one_effect_is_not_given_to_another() {
        let (stop, usage) = (StopReason::EndTurn, Usage::default());
        let completion = Completion { parts: vec![], stop, usage, model: String::new(), meta: vec![] };
        let reply = |name: &str| EffectModelReply { at: 1, name: name.into(), completion: completion.clone() };
        assert!(reply("a").is_for(1, "a") && reply("").is_for(1, "a"));
        assert!(!reply("a").is_for(1, "b") && !reply("a").is_for(0, "a"));
    }
}
