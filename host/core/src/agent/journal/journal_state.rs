use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    BoardTaskOutcome, ChosenMember, DelegatedTask, DelegationId, EffectMemory, JournalRecord, LiveConversation,
    RecordedRunEnd, SideChatRef, ToolCallId,
};
use crate::{
    agent::{RunAnswer, RunEnding, RunError, delegate::DelegationReport, effect::EffectModelReply, run::task_of},
    capability::{BudgetBreakdown, BudgetUsage, Usd},
    chat::{Chat, ChatChange, ChatEditError, ChatEntryRecord, Message, SideChat, StopReason, ToolResult, Usage},
    model::Ledger,
    state::{BlackboardChange, Task},
    tool::RunControl,
};

/// The state of a session, as its journal records describe it.
#[derive(Debug, Default)]
pub struct JournalState {
    pub(super) runs: BTreeMap<u64, RecordedRun>,
    pub(super) errands: HashMap<DelegationId, DelegationState>,
    /// The newest run that a person started.
    main: Option<u64>,
    /// Conversations, by the run that began each.
    lines: BTreeMap<u64, ConversationState>,
    tasks: Vec<Task>,
    blackboards: BTreeMap<String, Vec<BlackboardChange>>,
    ledger: Ledger,
}

/// An invalid sequence of journal records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {record} of run {run} cannot be: {reason}")]
pub struct JournalReplayError {
    /// The index of the record, counted from 0.
    pub record: usize,
    /// The run.
    pub run: u64,
    /// The reason.
    pub reason: String,
}

/// A conversation, in which runs followed each other or were nested.
#[derive(Debug, Default)]
struct ConversationState {
    /// The newest run in it.
    last: u64,
    changes: Vec<ChatChange>,
    /// Its side chats: the run that began each, and the newest message of this conversation that was put into it.
    beside: BTreeMap<Arc<str>, (u64, Option<u64>)>,
    /// The member that was chosen last.
    active: Option<Arc<str>>,
}

/// The state of a run when it was interrupted or ended.
#[derive(Debug)]
pub(crate) struct RecordedRun {
    pub agent: Arc<str>,
    pub instance: Arc<str>,
    /// The delegated task that it works on.
    errand: Option<DelegationId>,
    /// Its conversation: the run that began it.
    pub line: u64,
    /// Set if no other run has its conversation, and none continues it.
    is_alone: bool,
    /// The input; `None` if the delegating run supplies it again. Empty if it is in the conversation already.
    pub input: Option<Vec<Message>>,
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
    pub ended: Option<(ToolResult, Option<RunControl>)>,
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
    /// The arguments of the call.
    pub arguments: String,
    pub tasks: Vec<DelegatedTask>,
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedQuestion {
    pub call: String,
    pub task: usize,
    pub question: String,
    /// The call that gave the answer.
    pub answered_by: Option<String>,
}

/// The state of a delegated task: the runs that worked on it, in order, and its outcome.
#[derive(Debug, Default)]
pub(crate) struct DelegationState {
    pub runs: Vec<u64>,
    /// The amount spent by those of its runs that have ended.
    pub spent: BudgetBreakdown,
    pub returned: Option<(DelegationReport, Option<BoardTaskOutcome>)>,
}

impl JournalState {
    /// Builds the state from records in their order, each with its run.
    ///
    /// # Errors
    ///
    /// [`JournalReplayError`] if the records are inconsistent: the file may have been written by anyone.
    pub fn of(records: impl IntoIterator<Item = (u64, JournalRecord)>) -> Result<Self, JournalReplayError> {
        let mut past = Self::default();
        for (at, (run, record)) in records.into_iter().enumerate() {
            past.add(run, record).map_err(|reason| JournalReplayError { record: at, run, reason })?;
        }
        Ok(past)
    }

    /// Restores the conversation of the person, recorded from here on.
    ///
    /// # Errors
    ///
    /// [`ChatEditError`] if the recorded changes make no valid conversation.
    pub fn chat(&self) -> Result<Chat, ChatEditError> {
        self.main_line().map_or_else(|| Ok(Chat::recorded()), |line| self.chat_of(line))
    }

    /// Restores a conversation with its side chats.
    pub(super) fn chat_of(&self, line: u64) -> Result<Chat, ChatEditError> {
        let Some(there) = self.lines.get(&line) else { return Ok(Chat::recorded()) };
        let chat = Chat::restore(there.changes.iter().cloned())?;
        for (name, (line, heard)) in &there.beside {
            let beside = SideChat { chat: self.chat_of(*line)?, heard: *heard };
            chat.put_beside(Arc::clone(name), beside);
        }
        chat.set_active(there.active.clone());
        Ok(chat)
    }

    /// Adds this conversation, which [`chat_of`](Self::chat_of) returned, and its side chats to `lines`.
    pub(super) fn lines_of(&self, line: u64, chat: &Chat, lines: &mut Vec<LiveConversation>) {
        let Some(there) = self.lines.get(&line) else { return };
        lines.push(LiveConversation { line, last: there.last, chat: chat.downgrade() });
        for (name, beside) in chat.all_beside() {
            if let Some((line, _)) = there.beside.get(&name) {
                self.lines_of(*line, &beside.chat, lines);
            }
        }
    }

    /// Returns the conversation of the newest run that a person started.
    pub(super) fn main_line(&self) -> Option<u64> {
        self.main().map(|run| run.line)
    }

    /// Returns `true` if the newest run that a person started has not ended.
    pub fn is_unfinished(&self) -> bool {
        self.main().is_some_and(|run| run.ended.is_none())
    }

    /// Returns the agents that worked for others at the interruption, one entry per run.
    pub fn at_work(&self) -> impl Iterator<Item = &Arc<str>> {
        let main = self.main.filter(|_| self.is_unfinished());
        let runs = main.into_iter().flat_map(|main| self.runs.range(main + 1..)).map(|(_, run)| run);
        let is_due = |run: &&RecordedRun| {
            let errand = run.errand.as_ref().and_then(|errand| self.errands.get(errand));
            run.ended.is_none() && errand.is_some_and(|errand| errand.returned.is_none())
        };
        runs.filter(is_due).map(|run| &run.agent)
    }

    /// Returns `true` if the newest run that a person started has ended without an answer.
    pub fn has_failed(&self) -> bool {
        matches!(self.ended(), Some(RecordedRunEnd::Failed { .. }))
    }

    /// Returns the end of the newest run that a person started; `None` if it has not ended.
    pub fn ended(&self) -> Option<&RecordedRunEnd> {
        self.main()?.ended.as_ref().map(|(ended, _)| ended)
    }

    /// Returns the changes of the task board.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the changes of each blackboard, by its namespace.
    pub fn blackboards(&self) -> &BTreeMap<String, Vec<BlackboardChange>> {
        &self.blackboards
    }

    /// Returns the usage and cost of each agent.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the agents that have worked for others, without team members, with their instance names.
    pub(crate) fn delegates(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.works_for_others().filter(|(_, is_member)| !is_member).map(|(run, _)| (&run.agent, &run.instance))
    }

    /// Returns the instance names of the team members that have worked, one entry per run.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<str>> {
        self.works_for_others().filter(|(_, is_member)| *is_member).map(|(run, _)| &run.instance)
    }

    /// Returns the runs that worked for others; `true` marks those of team members.
    fn works_for_others(&self) -> impl Iterator<Item = (&RecordedRun, bool)> {
        let was_given =
            |id: &DelegationId| self.runs.get(&id.run).is_some_and(|run| run.delegated.contains_key(&id.call));
        let runs = self.errands.iter().flat_map(|(id, errand)| errand.runs.iter().map(move |run| (id, run)));
        let runs = runs.filter_map(|(id, run)| Some((id, self.runs.get(run)?)));
        runs.map(move |(id, run)| (run, !run.is_alone && !was_given(id)))
    }

    /// Returns the agents that were to work for others, with the instance names that they were given.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        let given = self.runs.values().flat_map(|run| run.delegated.values()).flat_map(|given| &given.tasks);
        given.map(|task| (&task.agent, &task.instance))
    }

    pub(super) fn main_run(&self) -> Option<u64> {
        self.main
    }

    fn main(&self) -> Option<&RecordedRun> {
        self.runs.get(&self.main?)
    }

    fn add(&mut self, run: u64, record: JournalRecord) -> Result<(), String> {
        match record {
            JournalRecord::Began { agent, instance, errand, continues, beside, input, changes, .. } => {
                // Run numbers need not be in order: runs that begin side by side get their numbers before they are
                // recorded.
                if self.runs.contains_key(&run) {
                    return Err("another run has its number".into());
                }
                let line = continues.map(|before| self.run(before).map(|run| run.line)).transpose()?.unwrap_or(run);
                let is_alone = continues.is_none() && beside.is_none();
                if let Some(SideChatRef { name, heard }) = beside {
                    let of = errand.as_ref().ok_or("a conversation goes with that of nobody")?.run;
                    let of = self.run(of)?.line;
                    let there = &mut self.lines.entry(of).or_default().beside;
                    // Prevents a conversation from being its own side chat.
                    if there.get(&name).map_or(run, |(line, _)| *line) != line {
                        return Err(format!("`{name}` has another conversation"));
                    }
                    there.insert(name, (line, heard));
                }
                let there = self.lines.entry(line).or_default();
                there.last = run;
                there.changes.extend(changes);
                // The delegating run supplies it again.
                let input = (errand.is_none() || !input.is_empty()).then_some(input);
                let there = RecordedRun::new(agent, instance, errand.clone(), (line, is_alone), input);
                match errand {
                    None => self.main = Some(run),
                    Some(errand) => self.errands.entry(errand).or_default().runs.push(run),
                }
                self.runs.insert(run, there);
                return Ok(());
            }
            JournalRecord::Task { task, by } => {
                self.changed_by(by);
                self.tasks.push(task);
                return Ok(());
            }
            JournalRecord::Blackboard { namespace, change, by } => {
                self.changed_by(by);
                self.blackboards.entry(namespace).or_default().push(change);
                return Ok(());
            }
            JournalRecord::Decided { .. } | JournalRecord::Given { .. } => return Ok(()),
            _ => {}
        }
        if let JournalRecord::Returned { call, task, entry, account, board } = record {
            let id = DelegationId { run, call, task };
            self.run(run)?.spent.of_children += account.total();
            self.errands.entry(id).or_default().returned = Some((entry, board));
            return Ok(());
        }
        let paid = match &record {
            JournalRecord::Replied { usage, cost, .. } | JournalRecord::Wasted { usage, cost } => Some((*usage, *cost)),
            JournalRecord::Asked { completion, cost, .. } => Some((completion.usage, *cost)),
            _ => None,
        };
        // An answer that a middleware gave in place of a model was not paid for.
        if let Some((usage, cost)) = paid.filter(|(usage, _)| *usage != Usage::default()) {
            let there = self.run(run)?;
            there.pay(usage, cost);
            let instance = Arc::clone(&there.instance);
            self.ledger.record(&instance, usage, cost);
        }
        if let JournalRecord::Ended { account, .. } = &record
            && let Some(errand) = self.run(run)?.errand.clone()
        {
            self.errands.entry(errand).or_default().spent.of_children += account.total();
        }
        let line = self.run(run)?.line;
        if let JournalRecord::Chose { members, .. } = &record
            && let [.., last] = &members[..]
        {
            self.lines.entry(line).or_default().active = Some(Arc::clone(&last.member));
        }
        let there = self.lines.entry(line).or_default();
        let run = self.runs.get_mut(&run).ok_or("no such run has begun")?;
        run.add(record, &mut there.changes)
    }

    fn run(&mut self, run: u64) -> Result<&mut RecordedRun, String> {
        self.runs.get_mut(&run).ok_or_else(|| "no such run has begun".into())
    }

    /// Marks a call that has changed shared state and may have no result.
    fn changed_by(&mut self, by: Option<ToolCallId>) {
        if let Some(ToolCallId { agent, call }) = by
            && let Some(run) = self.runs.values_mut().rev().find(|run| run.instance == agent)
        {
            run.calls.entry(call).or_default().changed = true;
        }
    }
}

impl RecordedRunEnd {
    /// Returns the end of a run with this result.
    pub(crate) fn of(reply: &Result<Message, RunError>, ending: &RunEnding) -> Self {
        let message = match reply {
            Ok(message) => message.clone(),
            Err(error) => {
                let (exhausted, cancelled) = (error.is_exhausted(), matches!(error, RunError::Cancelled));
                return Self::Failed { error: error.in_full(), exhausted, cancelled };
            }
        };
        match ending {
            RunEnding::Answered => Self::Answered { message },
            RunEnding::Completed(completed) => Self::Completed { message, completed: completed.clone() },
            RunEnding::HandedOver(to) => Self::HandedOver { message, to: to.clone() },
        }
    }

    /// Returns the answer or report; `None` if the run failed.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Self::Answered { message } | Self::Completed { message, .. } | Self::HandedOver { message, .. } => {
                Some(message)
            }
            Self::Failed { .. } => None,
        }
    }

    /// Returns the result as the delegating run needs it; otherwise the reason, whether a bound was exhausted, and whether
    /// the run was cancelled.
    pub(crate) fn into_answer(self, account: BudgetBreakdown) -> Result<RunAnswer, ((String, bool), bool)> {
        let (message, ending) = match self {
            Self::Answered { message } => (message, RunEnding::Answered),
            Self::Completed { message, completed } => (message, RunEnding::Completed(completed)),
            Self::HandedOver { message, to } => (message, RunEnding::HandedOver(to)),
            Self::Failed { error, exhausted, cancelled } => return Err(((error, exhausted), cancelled)),
        };
        Ok(RunAnswer { message, ending, iterations: 0, usage: Usage::default(), account })
    }
}

impl RecordedRun {
    fn new(
        agent: Arc<str>,
        instance: Arc<str>,
        errand: Option<DelegationId>,
        (line, is_alone): (u64, bool),
        input: Option<Vec<Message>>,
    ) -> Self {
        Self {
            agent,
            instance,
            errand,
            line,
            is_alone,
            task: input.as_ref().and_then(task_of),
            input,
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
            delegated: HashMap::new(),
            parked: BTreeMap::new(),
            chose: None,
            first: 0,
            ended: None,
        }
    }

    /// Applies a record. `there` are the changes of the run's conversation.
    fn add(&mut self, record: JournalRecord, there: &mut Vec<ChatChange>) -> Result<(), String> {
        match record {
            JournalRecord::Chose { step, members, state, changes, elapsed } => {
                self.input = Some(Vec::new());
                (self.iterations, self.elapsed) = (step.saturating_add(1), elapsed);
                self.chose = Some(RecordedTeamStep { step, members, state });
                self.change(changes, there)?;
            }
            JournalRecord::Turn { iteration, changes, effects, elapsed } => {
                self.input = Some(Vec::new());
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
            JournalRecord::CallEnded { result, control, counted } => {
                self.spent.own.tool_calls += u64::from(counted);
                let call = self.calls.entry(result.call_id.clone()).or_default();
                call.ended = Some((result, control));
            }
            JournalRecord::Sent { message } => self.inbox.push(message),
            JournalRecord::Passed { middleware, state, input, level } => {
                self.passed.truncate(level);
                self.passed.push_back(PassedMiddleware { middleware, state, attempt: 0, usage: self.usage });
                self.input = input.or(self.input.take());
            }
            JournalRecord::Retried { level, attempt, state, input, changes } => {
                self.change(changes, there)?;
                self.passed.truncate(level + 1);
                let passed = self.passed.get_mut(level).ok_or("a middleware repeats that was never passed")?;
                (passed.attempt, passed.state, passed.usage) = (attempt, state, self.usage);
                (self.input, self.at) = (Some(input), RecordedTurnState::Turn);
                (self.chose, self.first) = (None, self.iterations);
            }
            JournalRecord::WentOn { input, changes } => {
                self.change(changes, there)?;
                self.passed.clear();
                self.read(&input);
                (self.input, self.at) = (Some(input), RecordedTurnState::Turn);
                (self.chose, self.first) = (None, self.iterations);
            }
            JournalRecord::Delegated { call, tasks } => {
                // The conversation of a cancelled run may belong to another run by now, and nobody resumes the cancelled
                // one.
                if let Some(arguments) = arguments(&call, there) {
                    self.delegated.insert(call, RecordedDelegateCall { arguments, tasks });
                }
            }
            JournalRecord::Parked { call, task, delegation, question } => {
                let questions = self.parked.entry(delegation).or_default();
                let parking = RecordedQuestion { call, task, question, answered_by: None };
                match questions.iter_mut().find(|there| there.question == parking.question) {
                    // After an interruption the agent asks the same question again.
                    Some(there) => *there = parking,
                    None => questions.push(parking),
                }
            }
            JournalRecord::Answered { delegation, by, .. } => {
                let questions = self.parked.get_mut(&delegation).ok_or("an answer to a question that nobody asked")?;
                // One call answers one question of a delegation, even if the call is repeated.
                if !questions.iter().any(|parking| parking.answered_by.as_ref() == Some(&by))
                    && let Some(newest) = questions.last_mut()
                {
                    newest.answered_by = Some(by);
                }
            }
            JournalRecord::Ended { changes, outcome, account, .. } => {
                self.change(changes, there)?;
                self.ended = Some((outcome, account));
            }
            JournalRecord::Wasted { .. } => {}
            // [`JournalState::add`] handles these records itself.
            JournalRecord::Began { .. }
            | JournalRecord::Returned { .. }
            | JournalRecord::Task { .. }
            | JournalRecord::Blackboard { .. }
            | JournalRecord::Decided { .. }
            | JournalRecord::Given { .. } => {}
        }
        Ok(())
    }

    fn change(&mut self, mut changes: Vec<ChatChange>, there: &mut Vec<ChatChange>) -> Result<(), String> {
        for change in &mut changes {
            if let ChatChange::Answered { id, group, call } = change {
                let known = self.calls.get(call).and_then(|call| call.ended.as_ref());
                let (result, _) = known.ok_or_else(|| format!("the result of call `{call}` was not written down"))?;
                let (id, group) = (*id, Some(*group));
                let message = Arc::new(Message::results(vec![result.clone()]));
                *change = ChatChange::Added(ChatEntryRecord { id, group, note: false, edited: false, message });
            }
        }
        let added = changes.iter().filter_map(|change| match change {
            ChatChange::Added(written) => Some(Message::clone(&written.message)),
            ChatChange::Waits(message) => Some(Message::clone(message)),
            _ => None,
        });
        self.read(&added.collect::<Vec<_>>());
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

    fn remember(&mut self, effects: Vec<EffectMemory>) {
        for memory in effects {
            match self.effects.iter_mut().find(|there| there.at == memory.at) {
                Some(there) => *there = memory,
                None => self.effects.push(memory),
            }
        }
    }

    fn pay(&mut self, usage: Usage, usd: Usd) {
        self.usage += usage;
        self.spent.own += BudgetUsage { usage, usd, tool_calls: 0 };
    }
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

    fn began(errand: Option<DelegationId>) -> JournalRecord {
        let (agent, instance): (Arc<str>, Arc<str>) = ("ada".into(), "ada".into());
        let (model, prompt) = (String::new(), "".into());
        JournalRecord::Began {
            agent,
            instance,
            model,
            depth: 0,
            errand,
            continues: None,
            beside: None,
            input: vec![],
            prompt,
            changes: vec![],
        }
    }

    #[test]
    fn parallel_runs_are_accepted_in_any_journal_order() {
        let errand = |task| Some(DelegationId { run: 1, call: "c".into(), task });
        let records = [(1, began(None)), (3, began(errand(1))), (2, began(errand(0)))];
        let past = JournalState::of(records.clone()).unwrap();
        assert_eq!((past.runs.len(), past.errands[&errand(0).unwrap()].runs.as_slice()), (3, &[2][..]));
        let twice = JournalState::of(records.into_iter().chain([(3, began(errand(2)))])).unwrap_err();
        assert_eq!(twice.to_string(), "record 3 of run 3 cannot be: another run has its number");
    }

    #[test]
    fn records_of_a_cancelled_run_do_not_affect_its_successor() {
        let mut next = began(None);
        if let JournalRecord::Began { continues, .. } = &mut next {
            *continues = Some(1);
        }
        let late = JournalRecord::Delegated { call: "c".into(), tasks: vec![] };
        let past = JournalState::of([(1, began(None)), (2, next), (1, late)]).unwrap();
        assert_eq!((past.main_run(), past.is_unfinished()), (Some(2), true));
    }
}
