//! Every first-party plugin that takes part in runs, killed in the middle of a call.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_host::{
    agent::{OnFailure, RunError},
    capability::{Grant, KvScope},
    event::{Event, PluginCallOutcome},
    model::ScriptedCompleter,
    plugin::{
        Limits, Plugin, PluginEffect, PluginEngine, PluginKind, PluginModelMiddleware, PluginPackage,
        PluginRunMiddleware, PluginSettings, PluginToolMiddleware,
    },
    tool,
};

use super::{agent, run, told};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The plugin, which may be handed one byte and dies where it is handed something. What it needs of memory fits into what it
/// begins with.
async fn starved(package: &Arc<PluginPackage>, then: OnFailure) -> Arc<Plugin> {
    let engine = Arc::new(PluginEngine::new(None).unwrap());
    let wants = &package.manifest.wants;
    let kv = wants.kv.then_some(KvScope::Run);
    let settings = PluginSettings {
        grant: Grant { kv: kv.into_iter().collect(), ..wants.grant() },
        limits: Limits { input_bytes: 1, ..Limits::default() },
        on_failure: Some(then),
        ..PluginSettings::new("helper", "agents.helper.effects.it")
    };
    let loaded = Plugin::load(&engine, package, &settings).await;
    Arc::new(loaded.unwrap_or_else(|error| panic!("{} cannot be loaded: {}", package.manifest.id, told(&error))))
}

#[tokio::test]
async fn every_shipped_plugin_can_be_killed_in_mid_call() {
    let mut killed = 0;
    for entry in std::fs::read_dir(crate::PLUGIN_ROOT).unwrap() {
        let package = Arc::new(PluginPackage::read(&entry.unwrap().path()).unwrap());
        if !package.manifest.kinds.iter().any(|kind| kind.is_step()) {
            continue;
        }
        for then in [OnFailure::Stop, OnFailure::Skip] {
            assert!(is_killed(&package, then).await, "{} was not killed", package.manifest.id);
            killed += 1;
        }
    }
    // Each of them twice.
    assert!(killed >= 16, "{killed}");
}

/// Returns `true` if the plugin is killed during the run; in that case asserts that all else is as it should be.
async fn is_killed(package: &Arc<PluginPackage>, then: OnFailure) -> bool {
    let (id, kinds) = (&package.manifest.id, &package.manifest.kinds);
    let plugin = starved(package, then).await;
    let replies = [ScriptedCompleter::calls(&[("c", "look", "{}")]), ScriptedCompleter::text("done")];
    let (model, mut helper) = agent(replies);
    helper = helper.with_tool(tool::function("look", "Looks.", |_, _: Nothing| async { Ok("looked".to_owned()) }));
    helper.effects.extend(PluginEffect::new(&plugin).map(|it| Arc::new(it) as _));
    helper.middleware.extend(PluginRunMiddleware::new(&plugin).map(|it| Arc::new(it) as _));
    helper.model_middleware.extend(PluginModelMiddleware::new(&plugin).map(|it| Arc::new(it) as _));
    helper.tool_middleware = PluginToolMiddleware::new(&plugin).map(|it| Arc::new(it) as _).into_iter().collect();
    let (answer, chat, events) = run(&helper).await;

    let died = |event: &&Event| match event {
        Event::PluginCall { outcome, .. } => [PluginCallOutcome::Limit, PluginCallOutcome::Trap].contains(outcome),
        _ => false,
    };
    if !events.iter().any(|event| died(&event)) {
        return false;
    }
    let skips = |event: &Event| match event {
        Event::EffectFailed { effect: name, skipped, .. }
        | Event::MiddlewareFailed { middleware: name, skipped, .. } => {
            assert_eq!(name, id);
            Some(*skipped)
        }
        _ => None,
    };
    let told: Vec<_> = events.iter().filter_map(skips).collect();
    let is_skipped = then == OnFailure::Skip;
    assert!(!told.is_empty() && told.iter().all(|skipped| *skipped == is_skipped), "{id}: {told:?}");
    let snapshot = chat.snapshot();
    assert!(snapshot.check().is_ok());
    let results: Vec<_> =
        snapshot.iter().flat_map(|entry| entry.message.tool_results()).map(|result| result.text()).collect();
    // Around calls a failure ends the call and not the run.
    let ends_run = !is_skipped && kinds.iter().any(|kind| kind.is_step() && *kind != PluginKind::ToolMiddleware);
    match answer {
        Ok(answer) if !ends_run => {
            assert_eq!((answer.message.text_content().as_str(), model.requests().len()), ("done", 2), "{id}");
            assert_eq!(results == ["looked"], is_skipped, "{id}: {results:?}");
        }
        Err(RunError::Effect { name, .. } | RunError::Middleware { name, .. }) if ends_run => {
            assert_eq!(name, *id);
        }
        outcome => panic!("{id}: {outcome:?}"),
    }
    true
}
