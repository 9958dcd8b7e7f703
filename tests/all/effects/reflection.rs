//! The effect `reflection`: consecutive failed steps.

use serde_json::json;

use super::{Turn, chat, runs};
use crate::{
    plugin::REFLECTION,
    script::{Mind, act, run, text},
};

const BAD: Turn<'_> = Turn::Calls(&[("a", "{}", "no", true), ("b", "{}", "no", true)]);
const HALF: Turn<'_> = Turn::Calls(&[("a", "{}", "no", true), ("b", "{}", "yes", false), ("a", "{}", "no", true)]);
const GOOD: Turn<'_> = Turn::Calls(&[("a", "{}", "yes", false)]);

#[tokio::test]
async fn reflection_notes_each_failed_step_from_the_threshold_on() {
    let usual = json!({});
    for (params, turns, expected) in [
        (&usual, &[BAD, BAD, BAD][..], ".-nn"),
        (&usual, &[BAD, HALF, BAD, BAD], ".-.-n"),
        (&usual, &[BAD, GOOD, GOOD, BAD, BAD], ".-.-.n"),
        (&usual, &[BAD, BAD, GOOD, BAD, BAD], ".-n.-n"),
        // Words alone are no step; a new task is a new beginning.
        (&usual, &[BAD, Turn::Says("hm"), BAD, BAD], ".-.nn"),
        (&usual, &[BAD, BAD, Turn::Says("hm")], ".-n."),
        (&usual, &[BAD, Turn::Asked("And now?"), BAD, BAD], ".-.-n"),
        (&json!({"failure_threshold": 1}), &[BAD, BAD], ".nn"),
        (&json!({"failure_threshold": 4}), &[BAD, BAD, BAD, BAD], ".---n"),
    ] {
        let (said, _) = runs::course(REFLECTION, params.clone(), turns).await;
        assert_eq!(said, expected, "{params}");
    }
    let (_, notes) = runs::course(REFLECTION, usual, &[BAD, BAD, BAD]).await;
    assert!(notes[0].starts_with("Your last 2 steps failed") && notes[1].starts_with("Your last 3 steps"), "{notes:?}");
}

#[tokio::test]
async fn it_acts_only_before_a_later_turn() {
    runs::acts_only_before_a_later_turn(REFLECTION, json!({}), &chat("go", &[BAD, BAD])).await;
}

#[tokio::test]
async fn a_row_longer_than_is_read_at_once_is_counted() {
    let turns: Vec<_> = (0..70).map(|_| BAD).collect();
    let (said, notes) = runs::course(REFLECTION, json!({"failure_threshold": 70}), &turns).await;
    assert!(said.ends_with("-n"), "{said}");
    assert!(notes[0].starts_with("Your last 70 steps failed"), "{notes:?}");
}

#[tokio::test]
async fn reflection_asks_the_model_why_and_the_run_continues() {
    let steps = [act("fail", json!({})), act("fail", json!({})), act("look", json!({})), text("done")];
    let ran = run(&runs::agent(REFLECTION, json!({}), Mind::steps(steps)).await, "go").await;
    let notes = runs::notes(&ran.chat);
    assert_eq!((ran.told().as_str(), notes.len()), ("done", 1), "{notes:?}");
    assert!(notes[0].contains("why it failed and what you will do differently"), "{notes:?}");
}
