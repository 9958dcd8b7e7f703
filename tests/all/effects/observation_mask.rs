use serde_json::json;

use super::{made::*, *};

async fn stage(params: Value, share: f64) -> Stage {
    let mut stage = Stage::of(crate::plugin::OBSERVATION_MASK, params).await;
    stage.moment = full(stage.moment, share);
    stage
}

fn placeholder(tool: &str, count: &str, beginning: &str) -> String {
    format!(
        "[An older result of `{tool}`, hidden to save room. Its {count} characters began with: `{beginning}…`. Call the \
         tool again if you need it.]"
    )
}

#[tokio::test]
async fn observation_mask_hides_old_results_once_but_no_errors() {
    let (long, other) = ("ä".repeat(1_000), "`b\n".repeat(1_000));
    let turns = [
        Turn::Calls(&[("read", "{}", &long, false), ("list", "{}", &other, false), ("read", "{}", &long, true)]),
        Turn::Calls(&[("read", "{}", "short", false)]),
        Turn::Calls(&[("read", "{}", &long, false)]),
    ];
    let chat = chat("Read all.", &turns);
    let mut stage = stage(json!({"recent_window": 1}), 0.6).await;
    make(&chat, stage.edits(&chat).await);
    let first = placeholder("read", "1,000", &"ä".repeat(80));
    let second = placeholder("list", "3,000", &"'b ".repeat(27)[..80]);
    assert_eq!(results(&chat), [&first, &second, &long, "short", &long]);
    assert!(stage.edits(&chat).await.is_empty(), "nothing is hidden twice");
    stage.state.clear();
    assert!(stage.edits(&chat).await.is_empty(), "nor if it remembers nothing");
    Turn::Calls(&[("read", "{}", &long, false)]).add(&chat, 9);
    make(&chat, stage.edits(&chat).await);
    assert_eq!(results(&chat)[4..], [&*first, &*long]);
}

#[tokio::test]
async fn observation_mask_wakes_by_estimate_and_reported_usage() {
    let chat = chat("Read.", &[Turn::Calls(&[("read", "{}", &"x".repeat(2_000), false)]), Turn::Says("Done.")]);
    let used = |input_tokens| Some(Usage { input_tokens, ..Usage::default() });
    // The share by estimate, what was counted, whether it acts, and what it sleeps until.
    for (share, counted, acts, tokens, iteration) in [
        (0.1, None, false, Some(200), Some(2)),
        (0.59, None, false, Some(600), Some(2)),
        (0.59, used(500), false, Some(600), None),
        (0.6, None, true, None, None),
        (0.1, used(600), true, None, None),
    ] {
        let mut stage = stage(json!({"recent_window": 1}), share).await;
        stage.moment.last_usage = counted;
        let step = stage.step(&chat).await.unwrap();
        let wake = step.wake.unwrap_or_default();
        let EffectAction::Edits(edits) = step.action else { panic!("it asks") };
        assert_eq!((!edits.is_empty(), wake.request_tokens, wake.iteration), (acts, tokens, iteration), "{share}");
    }
    let mut unknown = stage(json!({}), 0.9).await;
    unknown.moment.context_window = None;
    assert_eq!(unknown.step(&chat).await.unwrap().wake, Some(Default::default()), "it never wakes");
}

#[tokio::test]
async fn observation_mask_keeps_the_newest_messages() {
    let long = "x".repeat(1_000);
    let call = [("read", "{}", long.as_str(), false)];
    for (window, hidden) in [(0, 2), (1, 2), (2, 1), (3, 1), (4, 0), (99, 0)] {
        let chat = chat("Read.", &[Turn::Calls(&call), Turn::Calls(&call), Turn::Says("Read.")]);
        let mut stage = stage(json!({"recent_window": window}), 1.0).await;
        assert_eq!(stage.edits(&chat).await.len(), hidden, "recent window {window}");
    }
}

#[tokio::test]
async fn what_the_model_has_not_read_is_not_hidden() {
    let long = "x".repeat(1_000);
    let calls = vec![("read", "{}", long.as_str(), false); 12];
    let chat = chat("Read.", &[Turn::Calls(&calls)]);
    let mut stage = stage(json!({"recent_window": 1}), 1.0).await;
    assert!(stage.edits(&chat).await.is_empty());
    Turn::Says("Read.").add(&chat, 9);
    assert_eq!(stage.edits(&chat).await.len(), 12);
}

#[tokio::test]
async fn observation_mask_spreads_many_results_over_several_turns() {
    let long = "x".repeat(600);
    let call = [("read", "{}", long.as_str(), false)];
    let turns: Vec<_> = (0..600).map(|_| Turn::Calls(&call)).collect();
    let chat = chat("Read.", &turns);
    let mut stage = stage(json!({"recent_window": 2}), 1.0).await;
    for expected in [512, 87, 0] {
        let edits = stage.edits(&chat).await;
        assert_eq!(edits.len(), expected);
        make(&chat, edits);
    }
}

#[tokio::test]
async fn senseless_params_are_named() {
    for (params, expected) in [
        (json!({"threshold": 0}), "`threshold` is 0"),
        (json!({"threshold": 1.01}), "at most 1"),
        (json!({"recent_window": -1}), "`recent_window`"),
        (json!({"window": 9}), "unknown field `window`"),
    ] {
        let error = stage(params, 1.0).await.step(&chat("x", &[])).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
