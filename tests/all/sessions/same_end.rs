//! Runs that are interrupted after any record of their journal: they resume to the same end, and nothing is done twice.

use std::sync::{Arc, Mutex};

use shelly_host::{
    agent::{
        AgentGroup, AgentRegistry, Runner,
        journal::{JournalRecord, JournalState, Recorder},
    },
    chat::{Chat, Message},
    event::RunCx,
};

use super::memory;
use crate::teams::lines;

/// The side effects of a run, none of which may happen twice.
pub type Outside = Arc<Mutex<Vec<String>>>;

/// Runs a pattern, and again from every prefix of its journal. One of its records `is_typical`. `differs_in_doubt`: a call that
/// may have been made already gets another result than before, so that what is said after it may differ.
pub async fn resumes_to_the_same_end(
    name: &str,
    pattern: impl Fn(&Outside, &Arc<AgentGroup>) -> Arc<dyn Runner>,
    is_typical: impl Fn(&JournalRecord) -> bool,
    differs_in_doubt: bool,
) {
    let outside = Outside::default();
    let written = memory();
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(written.clone()));
    let whole = pattern(&outside, &agent_group);
    let chat = Chat::recorded();
    let cx = RunCx::new(Arc::clone(whole.name()));
    let answer = whole.run(&cx, &chat, vec![Message::user("go")]).await;
    let answer = answer.unwrap_or_else(|error| panic!("{name}: {}", error.in_full()));
    let records = written.records();
    let sent = outside.lock().unwrap().len();
    let ledger = serde_json::to_string(&agent_group.ledger()).unwrap();
    let end = see(&*whole, &chat).await;
    assert!(records.iter().any(|(_, record)| is_typical(record)), "{name}");
    for cut in 0..=records.len() {
        let at = format!("{name}: after record {cut} of {} ({:?})", records.len(), records.get(cut.wrapping_sub(1)));
        let past = JournalState::of(records[..cut].iter().cloned()).unwrap_or_else(|error| panic!("{error}: {at}"));
        let is_over = cut == records.len();
        assert_eq!(past.is_unfinished(), cut > 0 && !is_over, "{at}");
        let (chat, written) = (past.chat().unwrap(), memory());
        for (run, record) in &records[..cut] {
            written.write(*run, record);
        }
        // What was sent before: the calls whose results are there.
        let done = records[..cut].iter().filter(|(_, record)| is_result(record, |text| text == "sent")).count();
        let outside = Outside::default();
        let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(written.clone(), past, &chat));
        let whole = pattern(&outside, &agent_group);
        let resumed = match whole.resume(&cx, &chat, Vec::new()).await {
            Some(resumed) => Some(resumed),
            None if is_over => None,
            None => Some(whole.run(&cx, &chat, vec![Message::user("go")]).await),
        };
        if let Some(resumed) = resumed {
            let resumed = resumed.unwrap_or_else(|error| panic!("{}: {at}", error.in_full()));
            assert_eq!(resumed.message, answer.message, "{at}");
            assert_eq!(resumed.iterations, answer.iterations, "{at}");
            assert_eq!((resumed.account, resumed.usage), (answer.account, answer.usage), "{at}");
        }
        assert_eq!(serde_json::to_string(&agent_group.ledger()).unwrap(), ledger, "{at}");
        let sent_now = outside.lock().unwrap().len();
        let in_doubt = |(_, record): &&(u64, JournalRecord)| is_result(record, |text| text.contains("interrupted"));
        let in_doubt = written.records().iter().filter(in_doubt).count();
        assert_eq!(done + sent_now + in_doubt, sent, "{at}");
        if in_doubt == 0 || !differs_in_doubt {
            assert_eq!(see(&*whole, &chat).await, end, "{at}");
        }
        let twice = JournalState::of(written.records()).unwrap();
        assert!(!twice.is_unfinished(), "{at}");
        assert_eq!(twice.chat().unwrap().snapshot().len(), chat.snapshot().len(), "{at}");
    }
}

/// Returns the final state: the conversation, and the next replies of runners that remember.
async fn see(runner: &dyn Runner, chat: &Chat) -> (Vec<String>, Vec<String>) {
    let before = lines(chat);
    let cx = RunCx::new(Arc::clone(runner.name()));
    let again = runner.run(&cx, chat, vec![Message::user("once again")]).await;
    again.unwrap_or_else(|error| panic!("{}", error.in_full()));
    (before, lines(chat))
}

fn is_result(record: &JournalRecord, says: impl Fn(&str) -> bool) -> bool {
    matches!(record, JournalRecord::CallEnded { result, .. } if says(&result.text()))
}
