//! The effect `stall-detect`: repeated equal results.

use std::sync::Arc;

use serde_json::json;
use shelly_host::{
    agent::{
        AgentGroup, AgentRegistry,
        journal::{JournalState, Recorder},
    },
    chat::{Chat, Message, MessageReplacement, ToolResultContent},
    event::RunCx,
};

use super::{Stage, Turn, chat, runs};
use crate::{
    plugin::STALL_DETECT,
    script::{Mind, act, run, text},
    sessions::memory,
};

const A: Turn<'_> = Turn::Calls(&[("read", r#"{"n":1}"#, "empty", false)]);
/// Other arguments are no other result.
const A2: Turn<'_> = Turn::Calls(&[("read", r#"{"n":2}"#, "empty", false)]);
const B: Turn<'_> = Turn::Calls(&[("read", "{}", "something", false)]);
const WRITE: Turn<'_> = Turn::Calls(&[("write", "{}", "empty", false)]);
const FAILED: Turn<'_> = Turn::Calls(&[("read", "{}", "empty", true)]);
const THREE: Turn<'_> =
    Turn::Calls(&[("read", "{}", "empty", false), ("read", "{}", "empty", false), ("read", "{}", "empty", false)]);
const TASK: Turn<'_> = Turn::Asked("And now?");

#[tokio::test]
async fn it_tells_once_and_stops_a_window_later() {
    let usual = json!({});
    let three = json!({"window": 3, "similarity_threshold": 1.0});
    for (params, turns, expected) in [
        (&usual, &[A, A2, A, A, A][..], "......"),
        (&usual, &[A, A2, A, B, A, A], "......n"),
        (&usual, &[A, B, A, B, A, B], "......."),
        (&three, &[A, A, A2], "...n"),
        (&three, &[A, A, A, A, A2, A], "...n..s"),
        (&three, &[A, A, A, A, B, A, A, A], "...n....n"),
        // Another tool, or an error, is another result.
        (&three, &[A, WRITE, A, FAILED, A], "......"),
        (&three, &[THREE, THREE], ".ns"),
        (&three, &[B, THREE, Turn::Says("hm"), B], "..n.."),
        // A new task begins anew, with what was told too.
        (&three, &[A, A, TASK, A, A, A], "......n"),
        (&three, &[A, A, A, TASK, A, A, A], "...n...n"),
    ] {
        let (said, notes) = runs::course(STALL_DETECT, params.clone(), turns).await;
        assert_eq!(said, expected, "{params}");
        assert!(notes.iter().all(|note| note.contains("results") && note.contains("the same")), "{notes:?}");
    }
}

#[tokio::test]
async fn it_acts_only_before_a_later_turn() {
    let chat = chat("go", &[A, A, A, A, A, A]);
    runs::acts_only_before_a_later_turn(STALL_DETECT, json!({}), &chat).await;
}

#[tokio::test]
async fn stall_detect_recounts_after_seen_results_were_removed() {
    let mut stage = Stage::of(STALL_DETECT, json!({"window": 3})).await;
    let chat = chat("go", &[A, A]);
    assert_eq!(runs::letter(&stage.edits(&chat).await), '.');
    let ids: Vec<_> = chat.snapshot().iter().map(|entry| entry.id).collect();
    let (first, last) = (ids[ids.len() - 2], ids[ids.len() - 1]);
    chat.replace(MessageReplacement { first, last, messages: vec![Message::note("other", "Left out.")] }).unwrap();
    let mut said = String::new();
    for turn in 2..5 {
        said.push(runs::letter(&stage.edits(&chat).await));
        A.add(&chat, turn);
    }
    said.push(runs::letter(&stage.edits(&chat).await));
    assert_eq!(said, "...n", "the result that is left was counted before");
}

#[tokio::test]
async fn stall_detect_ignores_results_edited_by_effects() {
    let mut stage = Stage::of(STALL_DETECT, json!({"window": 3})).await;
    let chat = chat("go", &[B, A, B]);
    for call in ["c0-0", "c1-0", "c2-0"] {
        chat.replace_result(call, vec![ToolResultContent::Text("[taken out]".into())]).unwrap();
    }
    assert_eq!(runs::letter(&stage.edits(&chat).await), '.');
    for turn in 3..6 {
        A.add(&chat, turn);
    }
    assert_eq!(runs::letter(&stage.edits(&chat).await), 'n');
}

#[tokio::test]
async fn stall_detect_lets_a_run_continue_after_a_change() {
    let steps = [act("look", json!({})), act("look", json!({})), act("look", json!({})), text("done")];
    let ran = run(&runs::agent(STALL_DETECT, json!({"window": 3}), Mind::steps(steps)).await, "go").await;
    let notes = runs::notes(&ran.chat);
    assert_eq!((ran.told().as_str(), notes.len()), ("done", 1), "{notes:?}");
    assert!(notes[0].starts_with("3 of the last 3 results of your tools were the same"), "{notes:?}");
}

/// However often and wherever it is interrupted, it is told once and stopped after as many turns.
#[tokio::test]
async fn stall_detect_count_survives_a_resume() {
    let agent = async |agent_group: AgentGroup| {
        let forever = Mind::new(|_| act("look", json!({})));
        runs::agent(STALL_DETECT, json!({"window": 3}), forever).await.with_agent_group(Arc::new(agent_group), 0)
    };
    let agent_group = || AgentGroup::new(AgentRegistry::new());
    let (written, chat, cx) = (memory(), Chat::recorded(), RunCx::new("helper"));
    let whole = agent(agent_group().with_recorder(written.clone())).await;
    let end = whole.run(&cx, &chat, vec![Message::user("go")]).await.unwrap_err().in_full();
    assert!(end.contains("`stall-detect` stopped the run (stall)"), "{end}");
    let (records, length) = (written.records(), chat.snapshot().len());
    assert_eq!((runs::notes(&chat).len(), length), (1, 15), "a prompt, a task, six turns and a note");
    for cut in 1..records.len() {
        let past = JournalState::of(records[..cut].iter().cloned()).unwrap();
        let (chat, memory) = (past.chat().unwrap(), memory());
        for (run, record) in &records[..cut] {
            memory.write(*run, record);
        }
        let again = agent(agent_group().resuming(memory, past, &chat)).await;
        let again = again.resume(&cx, &chat, Vec::new()).await.expect("it had begun");
        assert_eq!(again.unwrap_err().in_full(), end, "after record {cut}");
        assert_eq!((runs::notes(&chat).len(), chat.snapshot().len()), (1, length), "after record {cut}");
    }
}
