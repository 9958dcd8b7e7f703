//! The effect `tool-scope`: tools that are hidden from an agent.

use std::sync::Arc;

use serde_json::{Value, json};
use shelly_host::{
    agent::{Agent, EffectAction, EffectEdit, EffectFn, EffectPhase},
    capability::Power,
    event::{Event, LogLevel},
    model::CompletionRequest,
};

use super::{Stage, chat, runs};
use crate::{
    plugin::TOOL_SCOPE,
    script::{Mind, act, run, text, tool},
};

#[tokio::test]
async fn tool_scope_without_patterns_hides_nothing_and_sleeps() {
    let mut stage = Stage::of(TOOL_SCOPE, json!({})).await;
    stage.moment.iteration = 0;
    let step = stage.step(&chat("go", &[])).await.unwrap();
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    assert_eq!(step.wake, Some(Default::default()));
    stage.moment.phase = EffectPhase::AfterModel;
    assert_eq!(runs::letter(&stage.edits(&chat("go", &[])).await), '.');
}

/// The tools that the model was shown in each turn.
fn shown(mind: &Mind) -> Vec<Vec<String>> {
    let names = |request: &CompletionRequest| request.tools.iter().map(|tool| tool.name.clone()).collect();
    mind.asked().iter().map(|(_, request)| names(request)).collect()
}

async fn with(params: Value, mind: &Arc<Mind>) -> Agent {
    let mut agent = runs::agent(TOOL_SCOPE, params, Mind::steps([])).await;
    agent.completer = mind.clone();
    agent
        .with_tool(tool("fs_read", async |_| Ok("read".into())))
        .with_tool(tool("fs_write", async |_| Ok("wrote".into())))
}

#[tokio::test]
async fn tool_scope_hidden_tools_are_neither_shown_nor_run() {
    for (params, rest) in [
        (json!({"exclude": ["fail", "fs_*"]}), &["look"][..]),
        (json!({"exclude": ["*_write"]}), &["look", "fail", "fs_read"]),
        (json!({"only": ["fs_*"]}), &["fs_read", "fs_write"]),
        (json!({"only": ["fs_*", "look"], "exclude": ["*write"]}), &["look", "fs_read"]),
    ] {
        let steps = [act("fs_write", json!({})), act("look", json!({})), act("fs_write", json!({})), text("done")];
        let mind = Arc::new(Mind::steps(steps));
        let ran = run(&with(params.clone(), &mind).await, "go").await;
        assert_eq!(ran.told(), "done");
        // In all turns: it is called before the first one alone, because no tool comes later.
        assert_eq!(shown(&mind), vec![rest; 4], "{params}");
        let wrote = ran.results().iter().filter(|result| *result == "wrote").count();
        assert_eq!(wrote, if rest.contains(&"fs_write") { 2 } else { 0 }, "{params}: {:?}", ran.results());
    }
}

#[tokio::test]
async fn tool_scope_stays_hidden_despite_other_effects() {
    let mind = Arc::new(Mind::steps([act("look", json!({})), act("look", json!({})), text("done")]));
    let also = EffectFn::new("also", EffectPhase::BeforeModel, [Power::HideTools], |moment, _| {
        Ok(if moment.iteration == 1 { vec![EffectEdit::HideTools(vec!["look".into()])] } else { vec![] })
    });
    let agent = with(json!({"exclude": ["fs_*"]}), &mind).await.with_effect(also);
    assert_eq!(run(&agent, "go").await.told(), "done");
    assert_eq!(shown(&mind), [vec!["look", "fail"], vec!["fail"], vec!["look", "fail"]]);
}

#[tokio::test]
async fn tool_scope_warns_once_of_an_unmatched_pattern() {
    let mind = Arc::new(Mind::steps([act("look", json!({})), text("done")]));
    let ran = run(&with(json!({"exclude": ["exec_*", "fs_read"], "only": ["looks", "*"]}), &mind).await, "go").await;
    let logged: Vec<_> = ran.events.iter().filter(|event| matches!(event, Event::PluginLog { .. })).collect();
    let told = format!("{logged:?}");
    assert_eq!(logged.len(), 1, "{told}");
    assert!(told.contains("no tool of helper matches `exec_*`, `looks`"), "{told}");
    assert!(matches!(logged[0], Event::PluginLog { level: LogLevel::Warn, .. }), "{told}");
}

#[tokio::test]
async fn tool_scope_hides_read_result_when_it_appears() {
    let read = || act("read_result", json!({"call": "call_1", "offset": 32_000}));
    for (params, is_shown) in [
        (json!({"only": ["fs_*"]}), false),
        (json!({"exclude": ["read_result", "look", "fail"]}), false),
        (json!({"exclude": ["look", "fail"]}), true),
    ] {
        let mind = Arc::new(Mind::steps([act("fs_log", json!({})), read(), act("fs_read", json!({})), text("done")]));
        let agent = with(params.clone(), &mind).await;
        let ran = run(&agent.with_tool(tool("fs_log", async |_| Ok("x".repeat(40_000)))), "go").await;
        let had = ["fs_read", "fs_write", "fs_log"].map(str::to_owned).to_vec();
        let has = if is_shown { [&had[..], &["read_result".into()]].concat() } else { had.clone() };
        assert_eq!(shown(&mind), [had, has.clone(), has.clone(), has], "{params}");
        let paged = &ran.results()[1];
        assert_eq!(paged.starts_with("[characters 32000 to 40000"), is_shown, "{params}: {paged}");
    }
}

#[tokio::test]
async fn unmatched_pattern_is_not_reported_again_for_a_new_tool() {
    let mind = Arc::new(Mind::steps([act("fs_log", json!({})), act("look", json!({})), text("done")]));
    let agent = with(json!({"exclude": ["exec_*"]}), &mind).await;
    let ran = run(&agent.with_tool(tool("fs_log", async |_| Ok("x".repeat(40_000)))), "go").await;
    assert!(shown(&mind)[1].contains(&"read_result".to_owned()));
    assert_eq!(ran.events.iter().filter(|event| matches!(event, Event::PluginLog { .. })).count(), 1);
}
