//! The effect `progress`: a note every few turns.

use std::sync::Arc;

use serde_json::json;

use super::{Stage, Turn, chat, runs};
use crate::{
    plugin::PROGRESS,
    script::{Mind, act, run, spec_named, text, tool},
};

const STEP: Turn<'_> = Turn::Calls(&[("a", "{}", "yes", false)]);

#[tokio::test]
async fn progress_notes_every_interval_and_sleeps_between() {
    for (params, expected) in [
        (json!({}), ".----n----n-"),
        (json!({"interval": 3}), ".--n--n--n--"),
        (json!({"interval": 1}), ".nnnnnnnnnnn"),
    ] {
        let turns: Vec<_> = (0..11).map(|_| STEP).collect();
        let (said, notes) = runs::course(PROGRESS, params.clone(), &turns).await;
        assert_eq!(said, expected, "{params}");
        assert!(notes.iter().all(|note| note.contains("Say in one sentence")), "{notes:?}");
    }
}

#[tokio::test]
async fn it_acts_only_before_a_later_turn() {
    runs::acts_only_before_a_later_turn(PROGRESS, json!({}), &chat("go", &[STEP])).await;
}

#[tokio::test]
async fn progress_asks_for_write_note_if_the_tool_exists() {
    let mut stage = Stage::of(PROGRESS, json!({})).await;
    stage.moment.iteration = 5;
    for (tools, asks) in [(&["write_notes", "read_note"][..], false), (&["look", "write_note"], true)] {
        stage.tools = tools.iter().map(|name| Arc::new(spec_named(name))).collect();
        let edits = format!("{:?}", stage.edits(&chat("go", &[STEP])).await);
        assert_eq!(edits.contains("`write_note`"), asks, "{edits}");
    }
}

#[tokio::test]
async fn progress_notes_in_a_run_do_not_disturb_it() {
    let mind = || Mind::new(|asked| if asked.turn < 6 { act("look", json!({})) } else { text("done") });
    let plain = run(&runs::agent(PROGRESS, json!({"interval": 2}), mind()).await, "go").await;
    let notes = runs::notes(&plain.chat);
    assert_eq!((plain.told().as_str(), runs::looks(&plain), notes.len()), ("done", 6, 3), "{notes:?}");
    assert!(notes[2].starts_with("You have worked for 6 turns. Say in one sentence"), "{notes:?}");
    let writes = runs::agent(PROGRESS, json!({}), mind()).await;
    let writes = writes.with_tool(tool("write_note", async |_| Ok("written".into())));
    let notes = runs::notes(&run(&writes, "go").await.chat);
    assert!(matches!(&notes[..], [note] if note.contains("write down with `write_note`")), "{notes:?}");
}
