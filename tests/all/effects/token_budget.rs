//! The effect `token-budget`: the tokens that a run may use.

use serde_json::json;
use shelly_host::{
    agent::{EffectAction, EffectPhase},
    model::Usage,
};

use super::{Stage, Turn, chat, runs};
use crate::{
    plugin::TOKEN_BUDGET,
    script::{Mind, act, run, text},
};

#[tokio::test]
async fn it_sleeps_warns_once_and_stops() {
    let mut stage = Stage::of(TOKEN_BUDGET, json!({"max_tokens": 1_000})).await;
    let chat = chat("go", &[Turn::Calls(&[("a", "{}", "yes", false)])]);
    for (phase, used, expected, wake) in [
        (EffectPhase::BeforeModel, 0, '.', Some(800)),
        (EffectPhase::AfterModel, 500, '.', Some(800)),
        (EffectPhase::AfterModel, 850, '.', None),
        (EffectPhase::BeforeModel, 850, 'n', Some(1_000)),
        (EffectPhase::BeforeModel, 900, '.', Some(1_000)),
        (EffectPhase::BeforeModel, 1_100, 's', None),
    ] {
        stage.moment.phase = phase;
        stage.moment.run_usage =
            Usage { input_tokens: used - used / 2, cache_read_tokens: used / 2, ..Usage::default() };
        let step = stage.step(&chat).await.unwrap();
        let EffectAction::Edits(edits) = step.action else { panic!("it asks") };
        assert_eq!(runs::letter(&edits), expected, "{phase:?} {used}");
        assert_eq!(step.wake.map(|wake| wake.run_tokens.unwrap()), wake, "{phase:?} {used}");
    }
}

#[tokio::test]
async fn token_budget_without_a_limit_sleeps() {
    let mut stage = Stage::of(TOKEN_BUDGET, json!({})).await;
    stage.moment.run_usage.input_tokens = u64::MAX;
    let step = stage.step(&chat("go", &[])).await.unwrap();
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    assert_eq!(step.wake, Some(Default::default()));
}

/// Each reply uses 15 tokens.
#[tokio::test]
async fn a_run_is_warned_then_stopped_before_it_makes_more_calls() {
    let forever = Mind::new(|_| act("look", json!({})));
    let ran = run(&runs::agent(TOKEN_BUDGET, json!({"max_tokens": 75}), forever).await, "go").await;
    assert_eq!(
        ran.told(),
        "failed: `token-budget` stopped the run (token-budget): the run has used 75 tokens, the maximum is 75"
    );
    let notes = runs::notes(&ran.chat);
    assert!(
        matches!(&notes[..], [note] if note.starts_with("You have used 60 of your 75 tokens (80 %).")),
        "{notes:?}"
    );
    assert_eq!((runs::looks(&ran), ran.results().len()), (4, 5));
    assert!(ran.results()[4].starts_with("The call was not run"), "{:?}", ran.results());
    // The notes stand where a vendor takes them.
    ran.talk();
}

#[tokio::test]
async fn token_budget_keeps_an_answer_that_has_arrived() {
    let steps = [act("look", json!({})), text("done")];
    let ran = run(&runs::agent(TOKEN_BUDGET, json!({"max_tokens": 30}), Mind::steps(steps)).await, "go").await;
    assert_eq!((ran.told().as_str(), runs::notes(&ran.chat)), ("done", vec![]));
}
