//! The effect `loop-detect`: repeated equal calls.

use serde_json::json;

use super::{Turn, chat, runs};
use crate::{
    plugin::LOOP_DETECT,
    script::{Mind, act, run, text},
};

const READ: Turn<'_> = Turn::Calls(&[("read", r#"{"path":"a","line":1}"#, "x", false)]);
const SAME: Turn<'_> = Turn::Calls(&[("read", r#"{ "line": 1, "path": "a" }"#, "y", true)]);
const OTHER: Turn<'_> = Turn::Calls(&[("read", r#"{"path":"b","line":1}"#, "x", false)]);
const TWICE: Turn<'_> =
    Turn::Calls(&[("read", r#"{"path":"a","line":1}"#, "x", false), ("read", r#"{"path":"a","line":1}"#, "x", false)]);

#[tokio::test]
async fn loop_detect_notes_each_repeat_and_stops_if_configured() {
    let usual = json!({});
    for (params, turns, expected) in [
        (&usual, &[READ, READ, READ, READ][..], ".--nn"),
        // The same JSON is the same call, whatever came of it.
        (&usual, &[READ, SAME, READ], ".--n"),
        (&usual, &[READ, READ, OTHER, OTHER, OTHER], ".--.-n"),
        (&usual, &[READ, TWICE, READ], ".--n"),
        (&usual, &[READ, Turn::Says("hm"), READ, READ], ".--.n"),
        (&usual, &[READ, READ, Turn::Asked("And now?"), READ, READ], ".--.--"),
        (&json!({"threshold": 2, "stop_after": 4}), &[READ, READ, READ, READ], ".-nns"),
        (&json!({"threshold": 2, "window_size": 3}), &[READ, READ, READ, READ, READ], ".-nn.."),
    ] {
        let (said, notes) = runs::course(LOOP_DETECT, params.clone(), turns).await;
        assert_eq!(said, expected, "{params}");
        assert!(notes.iter().all(|note| note.contains("`read`") && note.contains("in a row")), "{notes:?}");
    }
}

#[tokio::test]
async fn a_row_longer_than_is_read_at_once_is_counted() {
    let turns: Vec<_> = (0..40).map(|_| READ).collect();
    let (said, notes) = runs::course(LOOP_DETECT, json!({"threshold": 40, "window_size": 40}), &turns).await;
    assert!(said.ends_with("-n") && notes[0].contains("40 times"), "{said} {notes:?}");
}

#[tokio::test]
async fn it_acts_only_before_a_later_turn() {
    runs::acts_only_before_a_later_turn(LOOP_DETECT, json!({}), &chat("go", &[READ, READ, READ])).await;
}

#[tokio::test]
async fn loop_detect_note_reaches_the_model_and_the_run_continues() {
    let steps = [act("look", json!({})), act("look", json!({})), act("look", json!({})), text("done")];
    let ran = run(&runs::agent(LOOP_DETECT, json!({}), Mind::steps(steps)).await, "go").await;
    let notes = runs::notes(&ran.chat);
    assert_eq!((ran.told().as_str(), notes.len()), ("done", 1), "{notes:?}");
    assert!(notes[0].starts_with("You have called `look` with `{}` 3 times in a row."), "{notes:?}");
}

#[tokio::test]
async fn loop_detect_stops_an_endless_run() {
    let forever = Mind::new(|_| act("look", json!({})));
    let ran = run(&runs::agent(LOOP_DETECT, json!({"stop_after": 5}), forever).await, "go").await;
    assert_eq!(
        ran.told(),
        "failed: `loop-detect` stopped the run (loop): `look` with `{}` was called 5 times in a row"
    );
    assert_eq!((runs::notes(&ran.chat).len(), runs::looks(&ran)), (2, 5));
}
