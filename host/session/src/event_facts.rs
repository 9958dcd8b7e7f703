use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use super::message_place::{MessagePlace, changes_of};
use shelly_core::{
    agent::journal::JournalRecord,
    chat::{ChatChange, Message},
    limits,
};

/// Facts about the newest journal records, for the events that report the same: where a message is, and what a reply cost.
/// A run writes a record before it emits the event.
#[derive(Debug, Default)]
pub(super) struct EventFacts {
    /// The newest run of each instance that has not finished.
    instances: HashMap<Arc<str>, RunFacts>,
    /// The places of the newest messages. A weak pointer keeps the address from being used again.
    messages: VecDeque<(Weak<Message>, MessagePlace)>,
    /// The newest results of calls: run, call id and line.
    results: VecDeque<(u64, String, u64)>,
}

/// The facts of one run.
#[derive(Debug, Clone, Copy, Default)]
struct RunFacts {
    run: u64,
    cost: RunCost,
}

/// Costs in pico-dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RunCost {
    /// The cost of the newest reply.
    pub reply: u64,
    /// The cost of the whole run, once it has ended.
    pub own: u64,
    /// The cost of the runs that worked for it, once it has ended.
    pub of_children: u64,
}

impl EventFacts {
    /// Creates the facts of a session with these runs of instances.
    pub fn new(instances: &HashMap<Arc<str>, u64>) -> Self {
        let of_run = |run: &u64| RunFacts { run: *run, cost: RunCost::default() };
        let instances = instances.iter().map(|(instance, run)| (Arc::clone(instance), of_run(run))).collect();
        Self { instances, ..Self::default() }
    }

    /// Notes the record that `run` has written as this line.
    pub fn note(&mut self, run: u64, record: &JournalRecord, line: u64) {
        match record {
            JournalRecord::Began { instance, .. } => {
                self.instances.insert(Arc::clone(instance), RunFacts { run, cost: RunCost::default() });
            }
            JournalRecord::CallEnded { result, .. } => push(&mut self.results, (run, result.call_id.clone(), line)),
            JournalRecord::Replied { cost, .. } => self.cost_of(run, |known| known.reply = cost.pico()),
            JournalRecord::Ended { account, .. } => self.cost_of(run, |known| {
                (known.own, known.of_children) = (account.own.usd.pico(), account.of_children.usd.pico());
            }),
            _ => {}
        }
        for (change, content) in changes_of(record).iter().enumerate() {
            let mut add = |message: &Arc<Message>, entry| {
                let place = MessagePlace { line, change: Some(change), entry };
                push(&mut self.messages, (Arc::downgrade(message), place));
            };
            match content {
                ChatChange::Added(added) => add(&added.message, None),
                ChatChange::Replaced { by, .. } => {
                    by.iter().enumerate().for_each(|(entry, written)| add(&written.message, Some(entry)));
                }
                ChatChange::Answered { .. }
                | ChatChange::Waits(_)
                | ChatChange::Kept { .. }
                | ChatChange::Prompted { .. } => {}
            }
        }
    }

    fn cost_of(&mut self, run: u64, change: impl FnOnce(&mut RunCost)) {
        if let Some(facts) = self.instances.values_mut().find(|facts| facts.run == run) {
            change(&mut facts.cost);
        }
    }

    /// Returns the place of a message of this instance; `None` if the journal does not hold it, or not among its newest.
    pub fn place_of(&self, instance: &str, message: &Arc<Message>) -> Option<MessagePlace> {
        let is_same = |known: &Weak<Message>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(message));
        if let Some((_, place)) = self.messages.iter().rev().find(|(known, _)| is_same(known)) {
            return Some(*place);
        }
        // A result whose call has a record of its own is in that record alone.
        let mut results = message.tool_results();
        let (Some(result), None) = (results.next(), results.next()) else { return None };
        let run = self.instances.get(instance)?.run;
        let found = self.results.iter().rev().find(|(of, call, _)| *of == run && *call == result.call_id);
        found.map(|(_, _, line)| MessagePlace { line: *line, change: None, entry: None })
    }

    /// Returns the costs of the run of this instance.
    pub fn cost(&self, instance: &str) -> RunCost {
        self.instances.get(instance).map(|facts| facts.cost).unwrap_or_default()
    }

    /// Forgets the run of an instance after its last event.
    pub fn finish(&mut self, instance: &str) {
        self.instances.remove(instance);
    }
}

/// Appends an item, and drops the oldest one beyond the bound.
fn push<T>(items: &mut VecDeque<T>, item: T) {
    if items.len() >= limits::SESSION_MESSAGE_PLACES {
        items.pop_front();
    }
    items.push_back(item);
}

#[cfg(test)]
mod tests {
    use shelly_core::chat::{ChatEntryRecord, Role, ToolResult};

    use super::*;
    use crate::tests::began;

    fn added(message: &Arc<Message>) -> ChatChange {
        let message = Arc::clone(message);
        ChatChange::Added(ChatEntryRecord { id: 1, group: None, note: false, edited: false, message })
    }

    fn looked(changes: Vec<ChatChange>) -> JournalRecord {
        JournalRecord::Looked { changes, effects: vec![] }
    }

    #[test]
    fn message_is_found_where_the_journal_has_it() {
        let message = |text: &str| Arc::new(Message::text(Role::Assistant, "ada", text));
        let (first, second, other) = (message("a"), message("b"), message("a"));
        let replaced = ChatChange::Replaced {
            first: 1,
            last: 1,
            by: vec![ChatEntryRecord { id: 2, group: None, note: false, edited: true, message: Arc::clone(&second) }],
        };
        let record = looked(vec![ChatChange::Prompted { id: 1 }, added(&first), replaced]);
        let mut facts = EventFacts::default();
        facts.note(1, &record, 7);
        let place = facts.place_of("ada", &first).unwrap();
        assert_eq!(place, MessagePlace { line: 7, change: Some(1), entry: None });
        assert_eq!(place.message_in(&record).as_deref(), Some(&*first));
        let place = facts.place_of("ada", &second).unwrap();
        assert_eq!((place.change, place.entry), (Some(2), Some(0)));
        assert_eq!(place.message_in(&record).as_deref(), Some(&*second));
        assert_eq!(facts.place_of("ada", &other), None, "it is equal, but another message");
        for wrong in [
            MessagePlace { line: 7, change: Some(0), entry: None },
            MessagePlace { line: 7, change: Some(9), entry: None },
            MessagePlace { line: 7, change: Some(1), entry: Some(0) },
            MessagePlace { line: 7, change: Some(2), entry: Some(9) },
            MessagePlace { line: 7, change: None, entry: None },
        ] {
            assert_eq!(wrong.message_in(&record), None, "{wrong:?}");
        }
    }

    #[test]
    fn result_of_a_call_is_found_by_its_run() {
        let result = |text: &str| ToolResult { is_error: false, ..ToolResult::error("call-1", text) };
        let ended =
            |text| JournalRecord::CallEnded { result: result(text), control: None, counted: true, full_text: None };
        let mut facts = EventFacts::default();
        facts.note(1, &began(None), 2);
        facts.note(1, &ended("mine"), 3);
        facts.note(2, &ended("theirs"), 4);
        let message = Arc::new(Message::results(vec![result("mine")]));
        let place = facts.place_of("ada", &message).unwrap();
        assert_eq!(place, MessagePlace { line: 3, change: None, entry: None });
        assert_eq!(place.message_in(&ended("mine")).as_deref(), Some(&*message));
        assert_eq!(facts.place_of("bob", &message), None, "no such instance");
        facts.finish("ada");
        assert_eq!(facts.place_of("ada", &message), None);
    }

    #[test]
    fn places_of_the_oldest_messages_are_forgotten() {
        let mut facts = EventFacts::default();
        let messages: Vec<_> = (0..=limits::SESSION_MESSAGE_PLACES).map(|_| Arc::new(Message::user("x"))).collect();
        for (line, message) in (2..).zip(&messages) {
            facts.note(1, &looked(vec![added(message)]), line);
        }
        assert_eq!(facts.place_of("ada", &messages[0]), None);
        assert_eq!(facts.place_of("ada", &messages[1]).map(|place| place.line), Some(3));
    }
}
