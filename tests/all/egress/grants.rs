//! HTTP grants: which plugins may send requests, and that each uses only its own grant.

use std::sync::Arc;

use serde_json::json;
use shelly_host::{
    agent::Agent,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    builtin::ApprovalMiddleware,
    capability::{Ceiling, CeilingBound, Grant, Power},
    plugin::{
        PluginEffect, PluginModelMiddleware, PluginRunMiddleware, PluginSettings, PluginTool, PluginToolMiddleware,
    },
};

use super::{DOORS, Guest, OWN, Server, http, load};
use crate::{
    hostile::guest::{self, SCRATCH},
    script::{self, Mind, act, text},
    support::Place,
};

#[tokio::test]
async fn missing_http_grant_error_shows_the_config_line() {
    for (door, import) in [DOORS[0], DOORS[1]].into_iter().zip(["shelly:plugin/http@0.2.0", "wasi:http"]) {
        let error = load(&super::guest(door), &PluginSettings::new("ada", format!("agents.ada.plugins.{door}")))
            .await
            .err()
            .unwrap();
        for part in [import, "agent `ada`", &format!("agents.ada.plugins.{door}"), "http"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        // What nobody may have who is started so is not there either.
        let bound = CeilingBound { grant: Some(Grant::default()), ..CeilingBound::default() };
        let mut settings = PluginSettings::new("ada", format!("agents.ada.plugins.{door}"));
        settings.grant.http = http(&["http://localhost"]);
        settings.ceiling = Ceiling::of("agents.ada.use", bound);
        let error = load(&super::guest(door), &settings).await.err().unwrap();
        assert!(error.contains("agents.ada.use") && error.contains("http"), "{error}");
    }
}

#[tokio::test]
async fn ceiling_narrows_the_reachable_http_targets() {
    let (a, b) = (Server::echo().await, Server::echo().await);
    let bound = |entries: &[String]| {
        let grant = Grant { http: http(entries), ..Grant::default() };
        CeilingBound { grant: Some(grant), ..CeilingBound::default() }
    };
    let own = Ceiling::of("agents.ada.use", bound(&[a.url.clone(), format!("{}/both", b.url)]));
    let starter = Ceiling::of("agents.lead.delegable", bound(&[b.url.clone(), format!("{}/a/b", a.url)]));
    for door in DOORS {
        let guest = Guest::with(door, "ada", |settings| {
            settings.grant.http = http(&[format!("{}/a", a.url), b.url.clone()]);
            settings.ceiling = own.clone().meet(&starter);
        })
        .await;
        for (url, is_granted) in [
            (format!("{}/a/b/c", a.url), true),
            (format!("{}/a/c", a.url), false),
            (format!("{}/b", a.url), false),
            (a.url.clone(), false),
            (format!("{}/both", b.url), true),
            (format!("{}/other", b.url), false),
        ] {
            let fetched = guest.get(&url).await;
            assert_eq!((fetched.status.is_some(), fetched.is_denied()), (is_granted, !is_granted), "{door}, {url}");
        }
    }
}

/// Two agents with one plugin: what one has is not the other's, and neither uses a connection of the other.
#[tokio::test]
async fn http_connections_are_not_shared_between_agents() {
    for door in DOORS {
        let (a, b) = (Server::echo().await, Server::echo().await);
        let of_ada = Guest::with(door, "ada", |settings| settings.grant.http = http(&[&a.url, &b.url])).await;
        let of_bob = Guest::with(door, "bob", |settings| settings.grant.http = http(&[&a.url])).await;
        for _ in 0..3 {
            for guest in [&of_ada, &of_bob] {
                assert_eq!(guest.get(&a.url).await.status, Some(200), "{door}");
            }
        }
        assert_eq!(a.connections(), 2, "{door}: each has one of its own, and uses it again");
        assert_eq!(of_ada.get(&b.url).await.status, Some(200), "{door}");
        assert!(of_bob.get(&b.url).await.is_denied(), "{door}");
        assert_eq!(b.connections(), 1, "{door}");
    }
}

const HTTP: &str = r#"
    (import "shelly:plugin/http@0.1.0" "credentials" (func $credentials (param i32)))
    (import "shelly:plugin/http@0.1.0" "send"
      (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;

/// The other kinds of a component whose tool may send requests may send none: they see what a tool does not.
#[tokio::test]
async fn only_the_tool_of_a_multi_kind_component_sends_requests() {
    let server = Server::echo().await;
    for kinds in [
        &["tool", "effect"][..],
        &["tool", "run-middleware"],
        &["tool", "model-middleware"],
        &["tool", "tool-middleware"],
    ] {
        let mut guest = guest::Guest::of(kinds).import(HTTP);
        let (method, url) = (guest.text("GET"), guest.text(&format!("{}/{}", server.url, kinds[1])));
        let sends = format!(
            "(call $send {method} {url} (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
               (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const {SCRATCH}))"
        );
        // An error, and that is `denied`; and there is no credential.
        let denied = format!(
            "{sends}
             (if (i32.ne (i32.load8_u (i32.const {SCRATCH})) (i32.const 1)) (then unreachable))
             (if (i32.ne (i32.load8_u offset=8 (i32.const {SCRATCH})) (i32.const 1)) (then unreachable))
             (call $credentials (i32.const {SCRATCH}))
             (if (i32.load offset=4 (i32.const {SCRATCH})) (then unreachable))"
        );
        let answered = format!("{sends} (if (i32.load8_u (i32.const {SCRATCH})) (then unreachable))");
        guest = guest.on("call", &answered);
        for function in if kinds[1] == "effect" { &["eval"][..] } else { &["before", "after"] } {
            guest = guest.on(function, &denied);
        }
        let place = Place::new();
        let quoted: Vec<_> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
        let phases =
            if kinds[1] == "effect" { "effect = { phases = [\"before-model\", \"after-model\"] }" } else { "" };
        let powers = if kinds[1] == "effect" { "[\"provide-tools\"]" } else { "[]" };
        let wants = format!("wants = {{ http = true, powers = {powers} }}");
        let manifest = format!("kinds = [{}]\n{wants}\n{phases}", quoted.join(", "));
        place.plugin_bytes("hostile", &manifest, &guest.component());
        let mut settings = PluginSettings::new("ada", "agents.ada.plugins.hostile");
        settings.grant = Grant {
            http: http(&[&server.url]),
            powers: [Power::ProvideTools].into_iter().collect(),
            ..Grant::default()
        };
        let plugin = load(&place.path().join("plugins/hostile"), &settings).await.unwrap();
        let mut agent = Agent::new("ada", "", Arc::new(Mind::steps([act("t", json!({})), text("done")])));
        PluginTool::all(&plugin).for_each(|tool| agent.tools.register(tool).unwrap());
        if let Some(effect) = PluginEffect::new(&plugin) {
            agent = agent.with_effect(effect);
        }
        if let Some(around) = PluginRunMiddleware::new(&plugin) {
            agent = agent.with_middleware(around);
        }
        agent.model_middleware.extend(PluginModelMiddleware::new(&plugin).map(|around| Arc::new(around) as _));
        if let Some(around) = PluginToolMiddleware::new(&plugin) {
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            agent = agent.with_tool_middleware(ApprovalMiddleware::new(Arc::new(around), broker, "ada", "digest"));
        }
        let before = server.heard().len();
        let ran = script::run(&agent, "go").await;
        assert_eq!((&*ran.told(), ran.results()), ("done", vec!["ok".into()]), "{kinds:?}");
        assert_eq!(server.heard().len(), before + 1, "{kinds:?}");
    }
}

/// The HTTP grant lasts as long as its plugin, so that a call after another one has it too.
#[tokio::test]
async fn parallel_http_calls_get_their_own_responses() {
    let server = Server::echo().await;
    let guest = Arc::new(Guest::granted(OWN, &[&server.url]).await);
    let asking = (0..16).map(|n| {
        let (guest, url) = (guest.clone(), format!("{}/{n}", server.url));
        tokio::spawn(async move { guest.get(&url).await.body })
    });
    for (n, asked) in asking.collect::<Vec<_>>().into_iter().enumerate() {
        let body = asked.await.unwrap();
        assert!(body.starts_with(&format!("GET /{n} HTTP/1.1\r\n")), "{n}: {body}");
    }
}
