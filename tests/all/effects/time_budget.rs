//! The effect `time-budget`: the time that a run may wait for its model.

use std::time::Duration;

use serde_json::json;
use shelly_host::agent::{EffectAction, EffectPhase};

use super::{Stage, Turn, chat, runs};
use crate::{
    plugin::TIME_BUDGET,
    script::{Mind, act, run, text},
};

#[tokio::test]
async fn it_sleeps_warns_once_and_stops() {
    let mut stage = Stage::of(TIME_BUDGET, json!({"max_duration": "1m 40s"})).await;
    let chat = chat("go", &[Turn::Calls(&[("a", "{}", "yes", false)])]);
    for (phase, seconds, expected, wake) in [
        (EffectPhase::BeforeModel, 0, '.', Some(80)),
        (EffectPhase::AfterModel, 50, '.', Some(80)),
        (EffectPhase::AfterModel, 85, '.', None),
        (EffectPhase::BeforeModel, 85, 'n', Some(100)),
        (EffectPhase::BeforeModel, 90, '.', Some(100)),
        (EffectPhase::BeforeModel, 100, 's', None),
    ] {
        stage.moment.phase = phase;
        stage.moment.model_time = Duration::from_secs(seconds);
        let step = stage.step(&chat).await.unwrap();
        let EffectAction::Edits(edits) = step.action else { panic!("it asks") };
        assert_eq!(runs::letter(&edits), expected, "{phase:?} {seconds}");
        assert_eq!(
            step.wake.map(|wake| wake.model_time.unwrap()),
            wake.map(Duration::from_secs),
            "{phase:?} {seconds}"
        );
    }
}

#[tokio::test]
async fn time_budget_without_a_limit_sleeps_and_an_invalid_is_refused() {
    let mut stage = Stage::of(TIME_BUDGET, json!({})).await;
    stage.moment.model_time = Duration::from_secs(1_000_000);
    let step = stage.step(&chat("go", &[])).await.unwrap();
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    assert_eq!(step.wake, Some(Default::default()));
    let mut stage = Stage::of(TIME_BUDGET, json!({"max_duration": "soon"})).await;
    let fault = stage.step(&chat("go", &[])).await.unwrap_err().to_string();
    assert!(fault.contains("`max_duration` is `soon`") && fault.contains("`10m`"), "{fault}");
}

/// A model that takes four seconds, so long as the task is not done.
fn slow(replies: usize) -> Mind {
    let mind = Mind::new(move |asked| if asked.turn < replies { act("look", json!({})) } else { text("done") });
    mind.slow(Duration::from_secs(4))
}

#[tokio::test(start_paused = true)]
async fn a_run_is_warned_then_stopped_before_it_makes_more_calls() {
    let ran =
        run(&runs::agent(TIME_BUDGET, json!({"max_duration": "12s", "warn_threshold": 0.5}), slow(9)).await, "go")
            .await;
    assert_eq!(
        ran.told(),
        "failed: `time-budget` stopped the run (time-budget): the run has waited 12s for the model, the maximum is 12s"
    );
    let notes = runs::notes(&ran.chat);
    assert!(matches!(&notes[..], [note] if note.starts_with("Your replies have taken 8s of at most 12s")), "{notes:?}");
    assert_eq!((runs::looks(&ran), ran.results().len()), (2, 3));
    ran.talk();
}

#[tokio::test(start_paused = true)]
async fn time_budget_keeps_an_answer_and_counts_only_model_time() {
    let agent = runs::agent(TIME_BUDGET, json!({"max_duration": "8s"}), slow(1)).await;
    let ran = run(&agent, "go").await;
    assert_eq!((ran.told().as_str(), runs::notes(&ran.chat)), ("done", vec![]));
}
