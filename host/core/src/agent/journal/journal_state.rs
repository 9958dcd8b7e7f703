use std::{collections::BTreeMap, sync::Arc};

use super::{DelegationKey, DelegationState, JournalRecord, RecordedRun, RecordedRunEnd, SideChatRef};
use crate::{
    capability::BudgetUsage,
    chat::{Chat, ChatChange, ChatEditError, Usage, WeakChat},
    model::Ledger,
    state::{BlackboardChange, Task},
    tool::ToolCallId,
};

/// The state of a session, as its journal records describe it.
#[derive(Debug, Default)]
pub struct JournalState {
    pub(super) runs: BTreeMap<u64, RecordedRun>,
    pub(super) delegations: BTreeMap<DelegationKey, DelegationState>,
    /// The newest run that a person started.
    main: Option<u64>,
    /// Conversations, by the run that began each.
    conversations: BTreeMap<u64, ConversationState>,
    tasks: Vec<Task>,
    blackboards: BTreeMap<String, Vec<BlackboardChange>>,
    ledger: Ledger,
}

/// An invalid sequence of journal records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid record {record} of run {run}: {reason}")]
pub struct JournalReplayError {
    /// The index of the record, counted from 0.
    pub record: usize,
    /// The run.
    pub run: u64,
    /// The reason.
    pub reason: String,
}

/// A conversation that may continue.
pub(super) struct LiveConversation {
    /// The run that began it.
    pub id: u64,
    /// The newest run in it.
    pub last: u64,
    pub chat: WeakChat,
}

/// A conversation, in which runs followed each other or were nested.
#[derive(Debug, Default)]
struct ConversationState {
    /// The newest run in it.
    last: u64,
    changes: Vec<ChatChange>,
    /// Its side chats: the run that began each, and the newest message of this conversation that was put into it.
    side_chats: BTreeMap<Arc<str>, (u64, Option<u64>)>,
    /// The member that was chosen last.
    active: Option<Arc<str>>,
}

impl JournalState {
    /// Builds the state from records in their order, each with its run.
    ///
    /// # Errors
    ///
    /// [`JournalReplayError`] if the records are inconsistent: the file may have been written by anyone.
    pub fn of(records: impl IntoIterator<Item = (u64, JournalRecord)>) -> Result<Self, JournalReplayError> {
        let mut state = Self::default();
        for (at, (run, record)) in records.into_iter().enumerate() {
            state.add(run, record).map_err(|reason| JournalReplayError { record: at, run, reason })?;
        }
        Ok(state)
    }

    /// Restores the conversation of the person, recorded from here on.
    ///
    /// # Errors
    ///
    /// [`ChatEditError`] if the recorded changes make no valid conversation.
    pub fn chat(&self) -> Result<Chat, ChatEditError> {
        self.main_conversation().map_or_else(|| Ok(Chat::recorded()), |conversation| self.chat_of(conversation))
    }

    /// Restores a conversation with its side chats.
    pub(super) fn chat_of(&self, conversation: u64) -> Result<Chat, ChatEditError> {
        let Some(there) = self.conversations.get(&conversation) else { return Ok(Chat::recorded()) };
        let chat = Chat::restore(there.changes.iter().cloned())?;
        for (name, (conversation, heard)) in &there.side_chats {
            let side_chat = self.chat_of(*conversation)?;
            side_chat.give(*heard);
            side_chat.hear_given();
            chat.put_side_chat(Arc::clone(name), side_chat);
        }
        chat.set_active(there.active.clone());
        Ok(chat)
    }

    /// Adds this conversation, which [`chat_of`](Self::chat_of) returned, and its side chats to `conversations`.
    pub(super) fn add_live(&self, conversation: u64, chat: &Chat, conversations: &mut Vec<LiveConversation>) {
        let Some(there) = self.conversations.get(&conversation) else { return };
        conversations.push(LiveConversation { id: conversation, last: there.last, chat: chat.downgrade() });
        for (name, side_chat) in chat.all_side_chats() {
            if let Some((conversation, _)) = there.side_chats.get(&name) {
                self.add_live(*conversation, &side_chat, conversations);
            }
        }
    }

    /// Returns the conversation of the newest run that a person started.
    pub(super) fn main_conversation(&self) -> Option<u64> {
        self.main().map(|run| run.conversation)
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
            let delegation = run.delegation_key.as_ref().and_then(|key| self.delegations.get(key));
            run.ended.is_none() && delegation.is_some_and(|delegation| delegation.returned.is_none())
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
            |key: &DelegationKey| self.runs.get(&key.run).is_some_and(|run| run.delegated.contains_key(&key.call));
        let runs =
            self.delegations.iter().flat_map(|(key, delegation)| delegation.runs.iter().map(move |run| (key, run)));
        let runs = runs.filter_map(|(key, run)| Some((key, self.runs.get(run)?)));
        runs.map(move |(key, run)| (run, !run.is_alone && !was_given(key)))
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

    /// Takes the state of a run that continues. It has spent what was spent on delegations that do not continue.
    pub(super) fn take_run(&mut self, run: u64) -> Option<Box<RecordedRun>> {
        let mut recorded = Box::new(self.runs.remove(&run)?);
        let gone = self.unreturned(run).filter(|key| !recorded.continues(key)).collect();
        recorded.spent.of_children += self.take_spent(gone);
        Some(recorded)
    }

    /// Takes these delegations as far as they have not returned, with those of their runs. Returns what was spent on them.
    pub(super) fn take_spent(&mut self, mut keys: Vec<DelegationKey>) -> BudgetUsage {
        let mut spent = BudgetUsage::default();
        while let Some(key) = keys.pop() {
            let delegation = self.delegations.remove(&key).filter(|delegation| delegation.returned.is_none());
            let Some(DelegationState { runs, spent: by_ended, .. }) = delegation else { continue };
            spent += by_ended.total();
            for (number, run) in runs.iter().filter_map(|run| Some((*run, self.runs.get(run)?))) {
                if run.ended.is_none() {
                    spent += run.spent.total();
                    spent.tool_calls += run.open_calls();
                    keys.extend(self.unreturned(number));
                }
            }
        }
        spent
    }

    /// Returns what was spent by a run whose state was taken and that has not ended, and by those that worked for it. Takes
    /// their states too.
    pub(super) fn spent_by_abandoned(&mut self, run: u64, taken: &RecordedRun) -> BudgetUsage {
        let mut spent = taken.spent.total();
        spent.tool_calls += taken.open_calls();
        let keys = self.unreturned(run).collect();
        spent += self.take_spent(keys);
        spent
    }

    /// Returns the delegations of a run that have not returned.
    fn unreturned(&self, run: u64) -> impl Iterator<Item = DelegationKey> {
        let of_run = self.delegations.range(DelegationKey { run, call: String::new(), position: 0 }..);
        let of_run = of_run.take_while(move |(key, _)| key.run == run);
        of_run.filter(|(_, delegation)| delegation.returned.is_none()).map(|(key, _)| key.clone())
    }

    fn add(&mut self, run: u64, record: JournalRecord) -> Result<(), String> {
        match record {
            JournalRecord::Began { agent, instance, delegation_key, continues, side_chat, input, changes, .. } => {
                // Run numbers need not be in order: runs that begin side by side get their numbers before they are
                // recorded.
                if self.runs.contains_key(&run) {
                    return Err("duplicate run number".into());
                }
                let conversation =
                    continues.map(|before| self.run(before).map(|run| run.conversation)).transpose()?.unwrap_or(run);
                let is_alone = continues.is_none() && side_chat.is_none();
                let mut given = None;
                if let Some(side_chat) = side_chat {
                    let of = delegation_key.as_ref().ok_or("a side conversation belongs to no parent run")?.run;
                    let of = self.run(of)?.conversation;
                    let there = &mut self.conversations.entry(of).or_default().side_chats;
                    // Prevents a conversation from being its own side chat.
                    if there.get(&side_chat.name).map_or(run, |(conversation, _)| *conversation) != conversation {
                        return Err(format!("`{}` already has another conversation", side_chat.name));
                    }
                    there.entry(Arc::clone(&side_chat.name)).or_insert((conversation, None));
                    given = Some((of, side_chat));
                }
                let there = self.conversations.entry(conversation).or_default();
                there.last = run;
                there.changes.extend(changes);
                // The delegating run supplies it again.
                let input = (delegation_key.is_none() || !input.is_empty()).then_some(input);
                let mut there =
                    RecordedRun::new(agent, instance, delegation_key.clone(), (conversation, is_alone), input);
                there.given = given;
                match delegation_key {
                    None => self.main = Some(run),
                    Some(key) => self.delegations.entry(key).or_default().runs.push(run),
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
        if let JournalRecord::Returned { call, position, entry, account, board } = record {
            let key = DelegationKey { run, call, position };
            self.run(run)?.spent.of_children += account.total();
            let delegation = self.delegations.entry(key).or_default();
            delegation.returned = Some((entry, board));
            if let Some(last) = delegation.runs.last().copied() {
                self.hear_given(last);
            }
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
        if let JournalRecord::GaveRemoteTask { given } = &record
            && let Some(spent) = given.spent
        {
            let there = self.run(run)?;
            there.spent.of_children += spent;
            let instance = Arc::clone(&there.instance);
            self.ledger.record(&instance, spent.usage, spent.usd);
        }
        if let JournalRecord::Ended { account, .. } = &record
            && let Some(key) = self.run(run)?.delegation_key.clone()
        {
            self.delegations.entry(key).or_default().spent.of_children += account.total();
        }
        if let JournalRecord::CallEnded { result, .. } = &record
            && let Some(key) = self.run(run)?.delegation_key.clone()
            && let Some(parent) = self.runs.get_mut(&key.run)
        {
            parent.end_question(&key, result);
        }
        let conversation = self.run(run)?.conversation;
        if let JournalRecord::Chose { members, .. } = &record
            && let [.., last] = &members[..]
        {
            self.conversations.entry(conversation).or_default().active = Some(Arc::clone(&last.member));
        }
        let there = self.conversations.entry(conversation).or_default();
        let recorded = self.runs.get_mut(&run).ok_or("the run has no start record")?;
        let had_input = recorded.has_input;
        recorded.add(record, &mut there.changes)?;
        // A late record of a cancelled run does not affect its successor.
        if recorded.has_input && !had_input && there.last == run {
            if let Some(key) = recorded.delegation_key.clone() {
                self.delegations.entry(key).or_default().has_input = true;
            }
            self.hear_given(run);
        }
        Ok(())
    }

    /// Counts the messages of the parent's conversation that this run was given as heard.
    fn hear_given(&mut self, run: u64) {
        let given = self.runs.get_mut(&run).and_then(|run| run.given.take());
        let Some((of, SideChatRef { name, heard })) = given else { return };
        if let Some((_, there)) = self.conversations.get_mut(&of).and_then(|of| of.side_chats.get_mut(&name)) {
            *there = heard;
        }
    }

    fn run(&mut self, run: u64) -> Result<&mut RecordedRun, String> {
        self.runs.get_mut(&run).ok_or_else(|| "the run has no start record".into())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::journal::RemoteTaskRecord, chat::Message};

    fn began(delegation_key: Option<DelegationKey>) -> JournalRecord {
        let (agent, instance): (Arc<str>, Arc<str>) = ("ada".into(), "ada".into());
        let (model, prompt) = (String::new(), "".into());
        JournalRecord::Began {
            agent,
            instance,
            model,
            depth: 0,
            delegation_key,
            continues: None,
            side_chat: None,
            input: vec![],
            prompt,
            changes: vec![],
        }
    }

    #[test]
    fn parallel_runs_are_accepted_in_any_journal_order() {
        let key = |position| Some(DelegationKey { run: 1, call: "c".into(), position });
        let records = [(1, began(None)), (3, began(key(1))), (2, began(key(0)))];
        let past = JournalState::of(records.clone()).unwrap();
        assert_eq!((past.runs.len(), past.delegations[&key(0).unwrap()].runs.as_slice()), (3, &[2][..]));
        let twice = JournalState::of(records.into_iter().chain([(3, began(key(2)))])).unwrap_err();
        assert_eq!(twice.to_string(), "invalid record 3 of run 3: duplicate run number");
    }

    #[test]
    fn records_of_a_cancelled_run_do_not_affect_its_successor() {
        let mut next = began(None);
        if let JournalRecord::Began { continues, .. } = &mut next {
            *continues = Some(1);
        }
        let late = JournalRecord::Delegated { call: "c".into(), tasks: vec![], arguments: None };
        let past = JournalState::of([(1, began(None)), (2, next), (1, late)]).unwrap();
        assert_eq!((past.main_run(), past.is_unfinished()), (Some(2), true));
    }

    #[test]
    fn cost_of_a_remote_task_counts_from_its_record_on() {
        let usage = Usage { input_tokens: 40, ..Usage::default() };
        let cost = BudgetUsage { usage, tool_calls: 2, ..BudgetUsage::default() };
        let given = |message: &str, spent| {
            let (message, task) = (message.to_owned(), Some("t".to_owned()));
            let given = RemoteTaskRecord { entry: 1, message, task, spent, passed_on: 0 };
            (1, JournalRecord::GaveRemoteTask { given })
        };
        // The first task was cancelled when the run was interrupted; the second one is at work.
        let records = [(1, began(None)), given("a", None), given("a", Some(cost)), given("b", None)];
        for (until, spent) in [(2, BudgetUsage::default()), (3, cost), (4, cost)] {
            let past = JournalState::of(records[..until].iter().cloned()).unwrap();
            assert_eq!(past.runs[&1].spent.of_children, spent, "{until}");
            assert_eq!(past.runs[&1].remote_tasks.len(), 1, "the newest task of a message replaces the others");
        }
        let late = [(1, began(None)), given("a", None), given("b", None), given("a", Some(cost))];
        let past = JournalState::of(late).unwrap();
        let tasks = &past.runs[&1].remote_tasks;
        assert_eq!(
            (tasks.len(), &*tasks[0].message),
            (1, "b"),
            "the cost of an earlier task does not replace a later one"
        );
        assert_eq!(past.runs[&1].spent.of_children, cost);
        let retried = JournalRecord::Retried { level: 0, attempt: 1, state: vec![], input: vec![], changes: vec![] };
        let passed = JournalRecord::Passed { middleware: "m".into(), state: vec![], input: None, level: 0 };
        let went_on = JournalRecord::WentOn { input: vec![Message::user("more")], changes: vec![] };
        for after in [vec![passed, retried], vec![went_on]] {
            let records = records.iter().cloned().chain(after.into_iter().map(|record| (1, record)));
            let past = JournalState::of(records).unwrap();
            assert!(past.runs[&1].remote_tasks.is_empty(), "what follows is a new task");
        }
    }

    #[test]
    fn message_that_was_passed_on_is_not_read_again() {
        let sent = |text: &str| (1, JournalRecord::Sent { message: Message::user(text) });
        let (message, task) = ("m".to_owned(), Some("t".to_owned()));
        let given = RemoteTaskRecord { entry: 1, message, task, spent: None, passed_on: 1 };
        let records = [(1, began(None)), sent("one"), sent("two"), (1, JournalRecord::GaveRemoteTask { given })];
        let past = JournalState::of(records).unwrap();
        assert_eq!(past.runs[&1].inbox, [Message::user("two")]);
    }
}
