//! Two agents that use one plugin at the same time: neither sees what belongs to the other. Their files are tested in
//! `files.rs`, their keys in `tests/all/kv.rs`.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use shelly_host::{
    agent::Agent,
    capability::Grant,
    event::{Event, EventSink, RunCx},
    plugin::{Plugin, PluginEffect, PluginPackage, PluginSettings, resolved},
};

use super::{all, call, call_as, engine, settings};
use crate::script::{self, Mind, act, text, tool};

/// A plugin of the tests or of ours for one agent, with these settings of its own.
async fn of(component: &str, agent: &str, params: Value) -> Arc<Plugin> {
    let package = Arc::new(PluginPackage::read(Path::new(component).parent().unwrap()).unwrap());
    let grant = Grant::all_of(&package.manifest.wants, resolved(Path::new(env!("CARGO_MANIFEST_DIR"))));
    let settings = PluginSettings {
        agent: agent.into(),
        place: format!("agents.{agent}.plugins.{}", package.manifest.id),
        params: serde_json::value::to_raw_value(&params).unwrap(),
        ..settings(grant)
    };
    Arc::new(Plugin::load(engine(), &package, &settings).await.unwrap())
}

/// Whose the log entries of a call are.
fn writers(events: &[Event]) -> Vec<String> {
    let of = |event: &Event| match event {
        Event::PluginLog { agent, .. } => Some(agent.to_string()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_logs_and_clocks_are_per_agent() {
    let mut plugins = Vec::new();
    for agent in ["ada", "bob"] {
        plugins.push((agent, of(crate::guest::PROBE, agent, json!({ "whose": agent })).await));
    }
    let calls = (0..60).map(|n| {
        let (agent, plugin) = (plugins[n % 2].0, Arc::clone(&plugins[n % 2].1));
        tokio::spawn(async move {
            let config: Value = serde_json::from_str(&call(&plugin, "config", "{}").await.text()).unwrap();
            assert_eq!(config, json!({ "whose": agent }));
            let (sink, stream) = EventSink::channel();
            let logging = async {
                let cx = RunCx::new(agent).with_events(sink);
                call_as(cx, &plugin, "log", r#"{"lines":3,"bytes":1}"#).await
            };
            let (_, events) = tokio::join!(logging, all(stream));
            assert_eq!(writers(&events), [agent; 3]);
            // The clock that only runs forward begins with the call: it tells nothing of how long others have run.
            let clocks: Value = serde_json::from_str(&call(&plugin, "clock", "{}").await.text()).unwrap();
            assert!(clocks["before"].as_u64().unwrap() < 60_000_000_000, "{clocks}");
        })
    });
    for running in calls.collect::<Vec<_>>() {
        running.await.unwrap();
    }
}

/// An effect that counts: what it remembers of one agent's run is not there in the other one's, though both have the very
/// same plugin and run at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_memory_is_per_run() {
    let guard = of(crate::plugin::LOOP_DETECT, "ada", json!({ "threshold": 2, "stop_after": 4 })).await;
    let looping = |times: usize| {
        let replies = std::iter::repeat_with(|| act("again", json!({}))).take(times).chain([text("done")]);
        Agent::new("helper", "", Arc::new(Mind::steps(replies)))
            .with_tool(tool("again", |_| async { Ok("same".into()) }))
            .with_effect(PluginEffect::new(&guard).unwrap())
    };
    // It does count: three times the same is too much.
    let stopped = script::run(&looping(6), "go").await;
    let too_much = stopped.told();
    assert_ne!(too_much, "done", "it never stops anybody");
    let runs = (0..20).map(|_| {
        let agent = looping(2);
        tokio::spawn(async move { script::run(&agent, "go").await.told() })
    });
    for running in runs.collect::<Vec<_>>() {
        assert_eq!(running.await.unwrap(), "done");
    }
}
