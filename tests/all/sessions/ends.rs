//! The end of an interrupted run of the world, compared with that of an undisturbed one.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use shelly_host::{
    agent::journal::{JournalRecord, JournalState},
    chat::{ChatChange, Message},
};

/// The records of the calls of `send`, and of the results of all calls.
#[derive(Default)]
pub struct Calls {
    /// The lines that were sent, which name their agent, and whether the result says that the call was interrupted.
    pub sends: BTreeMap<String, bool>,
    /// The number of results that say that their call was interrupted.
    pub interrupted: usize,
}

/// The result of an interrupted call.
const INTERRUPTED: &str = "The host was interrupted during this call.";

impl Calls {
    /// Of records that are those of a run that has ended, in which each call has exactly one result.
    #[track_caller]
    pub fn of(records: &[(u64, JournalRecord)], what: &str) -> Self {
        let (mut instances, mut calls) = (HashMap::new(), HashMap::new());
        let mut found = Self::default();
        for (run, record) in records {
            match record {
                JournalRecord::Began { instance, .. } => {
                    instances.insert(*run, instance.clone());
                }
                JournalRecord::Replied { changes, .. } => {
                    for call in changes.iter().filter_map(added).flat_map(Message::tool_calls) {
                        let is_new = calls.insert((*run, call.id.clone()), (call.clone(), 0)).is_none();
                        assert!(is_new, "{what}: run {run} makes the call {} twice", call.id);
                    }
                }
                JournalRecord::CallEnded { result, .. } => {
                    let there = calls.get_mut(&(*run, result.call_id.clone()));
                    let (call, results) = there.unwrap_or_else(|| panic!("{what}: {result:?} is of no call"));
                    *results += 1;
                    let is_interrupted = result.is_error && result.text().contains(INTERRUPTED);
                    assert!(is_interrupted || !result.is_error, "{what}: {result:?}");
                    found.interrupted += usize::from(is_interrupted);
                    if call.name == "send" {
                        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                        let line = format!("{}: {}", instances[run], arguments["what"].as_str().unwrap());
                        assert_eq!(found.sends.insert(line, is_interrupted), None, "{what}");
                    }
                }
                _ => {}
            }
        }
        for ((run, id), (_, results)) in &calls {
            assert_eq!(*results, 1, "{what}: results of the call {id} of run {run}");
        }
        assert!(!JournalState::of(records.iter().cloned()).unwrap().is_unfinished(), "{what}");
        found
    }

    /// Asserts that the side effects are those that were recorded: one for each call with a result, at most one for each
    /// that was interrupted.
    #[track_caller]
    pub fn check_outside<'a>(&self, outside: impl IntoIterator<Item = &'a str>, what: &str) {
        let mut done: HashMap<_, usize> = HashMap::new();
        outside.into_iter().for_each(|line| *done.entry(line).or_default() += 1);
        for (line, is_interrupted) in &self.sends {
            let times = done.remove(line.as_str()).unwrap_or_default();
            assert!(times == 1 || (times == 0 && *is_interrupted), "{what}: `{line}` was done {times} times");
        }
        assert!(done.is_empty(), "{what}: this was done and is not recorded: {done:?}");
    }
}

fn added(change: &ChatChange) -> Option<&Message> {
    match change {
        ChatChange::Added(written) => Some(&written.message),
        _ => None,
    }
}

/// Asserts that an end is the same as that of an undisturbed run, but for the results of interrupted calls. Agents that work
/// in parallel are numbered in the order in which they begin, which is random.
#[track_caller]
pub fn check_same(undisturbed: &str, seen: &str, what: &str) {
    let (mut expected, mut others) = (lines(undisturbed), Vec::new());
    for line in lines(seen) {
        let same = expected.iter().position(|there| match line.split_once(" error: ") {
            Some((call, why)) if why.starts_with(INTERRUPTED) => there.starts_with(&format!("{call} ")),
            _ => *there == line,
        });
        match same {
            Some(at) => drop(expected.swap_remove(at)),
            None => others.push(line),
        }
    }
    let (missing, more) = (expected.join("\n- "), others.join("\n+ "));
    assert!(expected.is_empty() && others.is_empty(), "{what}\n- {missing}\n+ {more}");
}

/// The facts of an end, without the numbers in names.
fn lines(state: &str) -> Vec<String> {
    let (facts, ledger) = state.rsplit_once('\n').unwrap();
    let rows: Vec<Value> = serde_json::from_str(ledger).unwrap();
    let lines = facts.lines().map(str::to_owned).chain(rows.iter().map(Value::to_string));
    lines.map(|line| without_numbers(&line)).collect()
}

/// `leaf-part-one-3` is `leaf-part-one-N`.
fn without_numbers(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some(at) = rest.find('-') {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(if digits > 0 { "N" } else { "" });
        rest = &rest[digits..];
    }
    out + rest
}
