//! Prefixes of a journal: a process can be killed between any two records, and from each prefix the run goes on.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

use shelly_host::{
    agent::journal::{JournalPosition, JournalRecord, JournalState, JournalWriteError, Recorder},
    chat::Chat,
    state::TaskStatus,
};

use super::{
    Memory, memory,
    world::{Outside, World},
};

/// Notes what was done outside when each record was written.
#[derive(Debug)]
struct Noting {
    memory: Arc<Memory>,
    outside: Outside,
    done: Mutex<Vec<usize>>,
}

impl Recorder for Noting {
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition {
        self.done.lock().unwrap().push(self.outside.lock().unwrap().len());
        self.memory.write(run, record)
    }

    fn kept(&self, mark: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>> {
        self.memory.kept(mark)
    }

    fn lost(&self) -> Option<JournalWriteError> {
        None
    }
}

/// The calls whose result says that they were interrupted.
fn interrupted(records: &[(u64, JournalRecord)]) -> Vec<String> {
    let is = |(_, record): &(u64, JournalRecord)| match record {
        JournalRecord::CallEnded { result, .. } if result.text().contains("The host was interrupted") => {
            Some(result.call_id.clone())
        }
        _ => None,
    };
    records.iter().filter_map(is).collect()
}

/// Returns the final state without the tool messages, because those of interrupted calls differ.
fn without(state: &str) -> String {
    state.lines().filter(|line| !line.starts_with("Tool ")).collect::<Vec<_>>().join("\n")
}

/// The lines of which only one has them.
fn difference(one: &str, other: &str) -> String {
    let only = |sign: char, in_this: &str, of_that: &str| {
        in_this
            .lines()
            .filter(|line| !of_that.lines().any(|there| there == *line))
            .map(|line| format!("{sign} {line}\n"))
            .collect::<String>()
    };
    only('-', one, other) + &only('+', other, one)
}

fn counted(outside: &Outside) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for sent in outside.lock().unwrap().iter() {
        *counts.entry(sent.clone()).or_default() += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn every_journal_prefix_resumes_to_the_same_end() {
    let outside = Outside::default();
    let noting = Arc::new(Noting { memory: memory(), outside: outside.clone(), done: Mutex::default() });
    let (whole, chat) = (World::new(noting.clone(), None, outside.clone()), Chat::recorded());
    let answer = whole.run(&chat).await.unwrap();
    let (records, end) = (noting.memory.records(), whole.state(&chat));
    let all_sent = counted(&outside);
    assert!(all_sent.values().all(|times| *times == 1), "{all_sent:?}");
    assert!(records.len() > 150, "{}", records.len());
    assert!(end.contains("pending_question") && end.contains("\"answer\":\"42\""), "somebody asks: {end}");

    let mut ever_interrupted = 0;
    for cut in 0..=records.len() {
        let done = noting.done.lock().unwrap().clone();
        // What was done until the next record: the process may have been killed right before it.
        let least = cut.checked_sub(1).map_or(0, |last| done[last]);
        let most = done.get(cut).copied().unwrap_or(outside.lock().unwrap().len());
        for so_far in least..=most {
            let outside: Outside = Arc::new(Mutex::new(outside.lock().unwrap()[..so_far].to_vec()));
            let past = JournalState::of(records[..cut].iter().cloned()).unwrap();
            let (chat, memory) = (past.chat().unwrap(), memory());
            let at = format!("after record {cut} ({:?}), {so_far} done", records.get(cut.wrapping_sub(1)));
            for (run, record) in &records[..cut] {
                memory.write(*run, record);
            }
            let again = World::new(memory.clone(), Some((past, &chat)), outside.clone());
            let is_over = matches!(records[..cut].last(), Some((1, JournalRecord::Ended { .. })));
            if !is_over {
                let outcome = again.go_on(&chat).await.unwrap_or_else(|error| panic!("{}: {at}", error.in_full()));
                assert_eq!(outcome.message, answer.message, "{at}");
                assert_eq!((outcome.account, outcome.usage), (answer.account, answer.usage), "{at}");
                assert_eq!(outcome.iterations, answer.iterations, "{at}");
            }
            assert_eq!(chat.snapshot().check(), Ok(()), "{at}");
            let interrupted = interrupted(&memory.records());
            ever_interrupted += interrupted.len();
            let seen = again.state(&chat);
            let (seen, end) = match interrupted.is_empty() {
                true => (seen, end.clone()),
                false => (without(&seen), without(&end)),
            };
            assert!(seen == end, "{}\n{at}", difference(&end, &seen));
            let sent = counted(&outside);
            assert!(sent.values().all(|times| *times == 1), "nothing is done twice: {sent:?} {at}");
            let missing = all_sent.keys().filter(|what| !sent.contains_key(*what)).count();
            assert!(missing <= interrupted.len(), "only what was interrupted may not have been done: {sent:?} {at}");
            // What was written down by both together is a whole of its own.
            let twice = JournalState::of(memory.records()).unwrap();
            assert!(!twice.is_unfinished(), "{at}");
            assert_eq!(twice.chat().unwrap().snapshot().len(), chat.snapshot().len(), "{at}");
        }
    }
    assert!(ever_interrupted > 10);
}

#[tokio::test(start_paused = true)]
async fn settled_board_task_does_not_end_its_resumed_delegation() {
    let (outside, written) = (Outside::default(), memory());
    let (whole, chat) = (World::new(written.clone(), None, outside.clone()), Chat::recorded());
    whole.run(&chat).await.unwrap();
    let (mut records, end) = (written.records(), whole.state(&chat));
    let settles = |(_, record): &(u64, JournalRecord)| matches!(record, JournalRecord::Returned { board: Some(_), .. });
    records.truncate(records.iter().position(settles).unwrap() + 1);
    // Interrupted before the board was told, and again after that.
    for life in 0..2 {
        let past = JournalState::of(records.clone()).unwrap();
        let (chat, memory) = (past.chat().unwrap(), memory());
        for (run, record) in &records {
            memory.write(*run, record);
        }
        let again = World::new(memory.clone(), Some((past, &chat)), Outside::default());
        again.go_on(&chat).await.unwrap();
        assert!(again.state(&chat) == end, "{life}: {}", difference(&end, &again.state(&chat)));
        let is_settled = |(_, record): &(u64, JournalRecord)| match record {
            JournalRecord::Task { task, by } => task.status == TaskStatus::Completed && by.is_none(),
            _ => false,
        };
        records = memory.records();
        records.truncate(records.iter().position(is_settled).expect("no call has done it") + 1);
    }
}
