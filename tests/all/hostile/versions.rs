//! Plugins of each version of the contract on one host.

use std::{sync::Arc, time::Duration};

use shelly_host::{
    agent::{Effect, EffectInput, EffectPhase, EffectStep, Wake},
    chat::{Chat, Usage},
    error::Fault,
    event::EventSink,
    plugin::{ContractVersion, Plugin, PluginCoordinator, PluginEffect},
    team::{Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberOutcome, MemberReport},
    tool::TaskHandoff,
};

use super::{
    call, cx, engine,
    guest::{CHAT, CLOCK, Guest, KV, LOG, RANDOM},
    pack,
};

const KINDS: [&[&str]; 7] = [
    &["tool"],
    &["effect"],
    &["run-middleware"],
    &["model-middleware"],
    &["tool-middleware"],
    &["provider"],
    &["coordinator"],
];

async fn load(guest: Guest, kind: &'static str, wants: &str) -> Arc<Plugin> {
    let manifest =
        if kind == "effect" { format!("{wants}\neffect = {{ phases = [\"before-model\"] }}") } else { wants.into() };
    pack(&[kind], &manifest, &guest.component()).load(engine()).await.unwrap_or_else(|error| panic!("{kind}: {error}"))
}

#[tokio::test]
async fn plugin_of_each_kind_loads_in_each_version() {
    for version in ContractVersion::ALL {
        for kind in KINDS {
            let plugin = load(Guest::of(kind).of_version(version), kind[0], "").await;
            assert_eq!(plugin.package().anatomy.contract, Some(version), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn imports_of_each_version_are_linked_and_called() {
    const WANTS: &str = "wants = { clock = true, random = true, chat = true, kv = true }";
    let mut results = Vec::new();
    for version in ContractVersion::ALL {
        let mut guest = Guest::tool();
        let key = guest.text("k");
        let body = format!(
            "(drop (call $now)) (call $random (i32.const 4) (i32.const 16)) (call $set {key} (i32.const 1) {key} (i32.const 16))
             (call $entries (i32.const 0) (i32.const 9) (i32.const 16)) (call $log (i32.const 1) {key})"
        );
        let imports = [CLOCK, RANDOM, KV, CHAT, LOG].concat();
        let plugin = load(guest.import(&imports).on("call", &body).of_version(version), "tool", WANTS).await;
        let imported = &plugin.package().anatomy.imports;
        assert!(imported.iter().all(|name| name.ends_with(version.number())) && imported.len() == 5, "{imported:?}");
        let result = call(&plugin, "t", "{}").await;
        assert!(!result.is_error, "{version}: {}", result.text());
        results.push(result.text());
    }
    assert_eq!(results, ["ok", "ok"]);
}

/// The answer of an effect whose time of the next call has these words, from its first on.
async fn effect_step(version: ContractVersion, next_call: &[u32]) -> EffectStep {
    let answer = |image: &mut super::guest::Image| {
        // `action` has 20 words, and the time of the next call follows it.
        let mut words = vec![0; 42];
        words[24..24 + next_call.len()].copy_from_slice(next_call);
        image.words(&words)
    };
    let guest = Guest::of(&["effect"]).answer("eval", answer).of_version(version);
    let effect = PluginEffect::new(&load(guest, "effect", "").await).unwrap();
    let input = EffectInput {
        phase: EffectPhase::BeforeModel,
        iteration: 0,
        request_tokens: 0,
        context_window: None,
        last_usage: None,
        run_usage: Usage::default(),
        model_time: Duration::ZERO,
        elapsed: Duration::ZERO,
        reply: None,
    };
    effect.eval(&cx(EventSink::none()), &input, &Chat::new().snapshot(), &[].into(), vec![]).await.unwrap()
}

#[tokio::test]
async fn effect_is_called_again_as_its_version_says() {
    // From iteration 7 on: a condition at its place in `wake`.
    let at_seven = [1, 0, 1, 7];
    let seven = Wake { iteration: Some(7), ..Wake::default() };
    for (version, words, wake) in [
        (ContractVersion::V0_1, &[0][..], None),
        (ContractVersion::V0_1, &at_seven, Some(seven)),
        // Conditions without a value: never.
        (ContractVersion::V0_1, &[1], Some(Wake::default())),
        (ContractVersion::V0_2, &[0], None),
        (ContractVersion::V0_2, &at_seven, Some(seven)),
        (ContractVersion::V0_2, &[1], Some(Wake::default())),
        (ContractVersion::V0_2, &[2], Some(Wake::default())),
    ] {
        assert_eq!(effect_step(version, words).await.wake, wake, "{version}: {words:?}");
    }
}

/// The answer of a coordinator with these words of its action. Its state is the case of the outcome in its first report.
async fn coordinator_step(version: ContractVersion, action: &[u32], fared: MemberOutcome) -> CoordinatorStep {
    let mut guest = Guest::of(&["coordinator"]);
    let mut words = vec![0; 42];
    words[4..4 + action.len()].copy_from_slice(action);
    let answer = guest.image().words(&words);
    // The list of reports is at offset 32 of the input, and the case at offset 8 of a report.
    let body = format!(
        "(i32.store (i32.const {}) (i32.add (i32.load offset=32 (local.get 0)) (i32.const 8)))
         (i32.store (i32.const {}) (i32.const 1))",
        answer + 8,
        answer + 12
    );
    let guest = guest.answer("next", |_| answer).on("next", &body).of_version(version);
    let coordinator = PluginCoordinator::new(&load(guest, "coordinator", "").await).unwrap();
    let reports = [MemberReport { member: "ada".into(), fared }];
    let shared = Chat::new().snapshot();
    let input =
        CoordinatorInput { step: 0, shared: &shared, members: &[], reports: &reports, active: None, reply: None };
    coordinator.next(&cx(EventSink::none()), &input, vec![]).await.unwrap()
}

#[tokio::test]
async fn coordinator_reads_reports_as_its_version_says() {
    let handoff = || TaskHandoff { agent: "bob".into(), reason: "r".into(), context: String::new() };
    for (fared, of_0_1, of_0_2) in [
        (MemberOutcome::Replied, 0, 0),
        // In the first version a note in the chat says it.
        (MemberOutcome::HandedOver(handoff()), 0, 1),
        (MemberOutcome::Failed(Fault::other("no")), 1, 2),
    ] {
        for (version, case) in [(ContractVersion::V0_1, of_0_1), (ContractVersion::V0_2, of_0_2)] {
            // Done, with the last reply.
            let step = coordinator_step(version, &[1, 0], fared.clone()).await;
            assert_eq!(step.state, [case], "{version}: {fared:?}");
            assert!(matches!(step.action, CoordinatorAction::Done(None)), "{version}: {:?}", step.action);
        }
    }
}

#[tokio::test]
async fn coordinator_ends_its_team_in_each_version() {
    for version in ContractVersion::ALL {
        // Done, with an answer of no parts.
        let step = coordinator_step(version, &[1, 1, 0, 0], MemberOutcome::Replied).await;
        assert!(matches!(&step.action, CoordinatorAction::Done(Some(parts)) if parts.is_empty()), "{version}");
    }
}
