//! Attacks of effects, middleware and providers.

use std::sync::Arc;

use shelly_host::{
    agent::{Effect, RunError, RunMiddleware},
    chat::{Chat, Message, Role},
    error::Fault,
    event::{Event, EventSink},
    limits,
    model::{Completer, ModelInfo, ScriptedCompleter},
    plugin::{Plugin, PluginEffect, PluginModel, PluginRunMiddleware},
};

use super::{
    House, agent, cx, engine,
    guest::{self, Guest, Image, SCRATCH, ZEROS},
    hasty_engine, pack, run,
};

const LOOP: &str = "(loop $for-ever (br $for-ever))";
const ALL_POWERS: &str = r#"["see-messages", "see-arguments", "see-results", "note", "edit-results", "rewrite", "hide-tools", "ask-model", "stop"]"#;

async fn effect(house: &House, powers: &str, guest: &Guest) -> Arc<dyn Effect> {
    let manifest = format!("wants = {{ powers = {powers} }}\neffect = {{ phases = [\"before-model\"] }}");
    let plugin = pack(&["effect"], &manifest, &guest.component()).load(house).await.unwrap();
    Arc::new(PluginEffect::new(&plugin).unwrap())
}

fn eval(answer: impl FnOnce(&mut Image) -> u32) -> Guest {
    Guest::of(&["effect"]).answer("eval", answer)
}

fn edits(edits: &[Vec<u32>]) -> Guest {
    eval(|image| image.step(&[], edits))
}

fn fault(error: RunError) -> String {
    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the reasons for which edits were refused.
fn refusals(events: &[Event]) -> Vec<&str> {
    let refused = events.iter().filter_map(|event| match event {
        Event::EffectRefused { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    refused.collect()
}

#[tokio::test]
async fn failed_effect_ends_the_run_and_the_next_run_works() {
    let memory = "(loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0)))) unreachable";
    let too_many = vec![vec![3]; limits::EDITS_PER_STEP + 1];
    let effects = |body| Guest::of(&["effect"]).on("eval", body);
    for (guest, says) in [
        (effects("unreachable"), "plugin `hostile` crashed"),
        (effects(LOOP), "plugin `hostile` timed out after 0.2 seconds"),
        (effects(memory), "needs more than 128 MiB of memory"),
        (eval(|image| image.failure(1, [ZEROS, 1 << 20])), "\0…"),
        (
            eval(|image| image.step_of([ZEROS, limits::STATE_BYTES as u32 + 1], [0; 4])),
            "returned a state of 65537 bytes, the maximum is 65536",
        ),
        (edits(&too_many), "the effect returned 1025 edits, the maximum for one step is 1024"),
        (edits(&[vec![6]]), "plugin `hostile` crashed"),
    ] {
        let (model, mut helper) = agent([ScriptedCompleter::text("done"), ScriptedCompleter::text("done")]);
        helper.effects.push(effect(hasty_engine(), ALL_POWERS, &guest).await);
        let reason = fault(run(&helper).await.0.unwrap_err());
        assert!(reason.contains(says) && reason.len() <= limits::ERROR_BYTES, "{reason}");
        assert!(model.requests().is_empty(), "{says}");
        helper.effects = vec![effect(hasty_engine(), ALL_POWERS, &edits(&[])).await];
        assert_eq!(run(&helper).await.0.unwrap().message.text_content(), "done");
    }
}

#[tokio::test]
async fn effect_accepts_maximum_state_and_edits() {
    let mut guest = Guest::of(&["effect"]);
    let [at, length] = guest.image().list(8, &vec![vec![3]; limits::EDITS_PER_STEP]);
    let guest = guest.answer("eval", |image| image.step_of([ZEROS, limits::STATE_BYTES as u32], [0, at, length, 0]));
    let (_, mut helper) = agent([ScriptedCompleter::text("done")]);
    helper.effects.push(effect(engine(), ALL_POWERS, &guest).await);
    assert!(run(&helper).await.0.is_ok());
}

#[tokio::test]
async fn effect_edit_without_power_or_over_its_bound_is_refused() {
    const NOTE: u32 = limits::NOTE_BYTES as u32;
    let long = [ZEROS, 500_000];
    for (powers, edit, says) in [
        (
            "[]",
            vec![0, 0, ZEROS, 1],
            "power `note` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
        ("[]", vec![1], "power `edit-results` is not granted; add it to `powers` of the plugin's entry in the config"),
        ("[]", vec![2], "power `rewrite` is not granted; add it to `powers` of the plugin's entry in the config"),
        (
            r#"["rewrite"]"#,
            vec![2],
            "power `see-messages` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
        ("[]", vec![3], "power `hide-tools` is not granted; add it to `powers` of the plugin's entry in the config"),
        ("[]", vec![4], "power `stop` is not granted; add it to `powers` of the plugin's entry in the config"),
        (
            ALL_POWERS,
            vec![2],
            "power `system-prompt` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
        (ALL_POWERS, vec![0, 0, ZEROS, NOTE + 1], "the note has 16385 bytes, the maximum is 16384"),
        (ALL_POWERS, vec![1, 0, long[0], long[1]], "there is no result of call"),
        (ALL_POWERS, vec![2, 0, 77, 0, 78, 0], "there is no message 77"),
        (ALL_POWERS, vec![5, 0, long[0], long[1]], "this host does not support the edit"),
    ] {
        let (_, mut helper) = agent([ScriptedCompleter::text("done")]);
        helper.effects.push(effect(engine(), powers, &edits(&[edit])).await);
        let (answer, chat, events) = run(&helper).await;
        assert_eq!(answer.unwrap().message.text_content(), "done");
        let refused = refusals(&events);
        assert!(refused.len() == 1 && refused[0].contains(says), "{says}: {refused:?}");
        assert!(refused[0].len() <= limits::ERROR_BYTES, "{says}: {} bytes", refused[0].len());
        assert_eq!(chat.snapshot().len(), 3, "{says}");
    }
}

#[tokio::test]
async fn notes_of_one_effect_step_are_bounded_together() {
    const NOTE: u32 = limits::NOTE_BYTES as u32;
    const MOST: usize = limits::NOTES_PER_STEP_BYTES / limits::NOTE_BYTES;
    let (_, mut helper) = agent([ScriptedCompleter::text("done")]);
    helper
        .effects
        .push(effect(engine(), ALL_POWERS, &edits(&vec![vec![0, 0, ZEROS, NOTE]; limits::EDITS_PER_STEP])).await);
    let (answer, chat, events) = run(&helper).await;
    assert_eq!(answer.unwrap().message.text_content(), "done");
    let refused = refusals(&events);
    assert_eq!(refused.len(), limits::EDITS_PER_STEP - MOST, "{:?}", refused.first());
    assert!(refused.iter().all(|reason| reason.contains("the notes of this step exceed 131072 bytes in total")));
    assert_eq!(chat.snapshot().len(), 3 + MOST);
}

#[tokio::test]
async fn effect_edit_cannot_split_a_message_group() {
    let message = |role, parts: [u32; 2]| [&[0, 0, role][..], &parts, &[0, 0]].concat();
    let replace = |first, last, messages: [u32; 2]| [&[2, 0, first, 0, last, 0][..], &messages].concat();
    let mut image = Guest::of(&["effect"]);
    // A call, and a result, each without the other.
    let call = image.image().list(9, &[[&[3][..], &[ZEROS, 1], &[ZEROS, 1], &[ZEROS, 0], &[0, 0]].concat()]);
    let result = image.image().list(9, &[vec![4, ZEROS, 1]]);
    let call = image.image().list(7, &[message(2, call)]);
    let result = image.image().list(7, &[message(3, result)]);
    let [at, count] = image.image().list(
        8,
        &[
            replace(3, 3, [0, 0]),
            replace(2, 2, [0, 0]),
            replace(3, 1, [0, 0]),
            replace(1, 1, call),
            replace(1, 1, result),
        ],
    );
    let guest = image.answer("eval", |image| image.step_of([0, 0], [0, at, count, 0]));
    let (_, mut helper) = agent([ScriptedCompleter::calls(&[("c", "none", "{}")]), ScriptedCompleter::text("done")]);
    helper.effects.push(effect(engine(), ALL_POWERS, &guest).await);
    let (answer, chat, events) = run(&helper).await;
    answer.unwrap();
    let refused = refusals(&events);
    assert_eq!(refused.len(), 10);
    for (reason, says) in refused[5..].iter().zip([
        "separate a reply from its results at message 3",
        "separate a reply from its results at message 3",
        "message 3 comes after message 1",
        "do not pair up",
        "do not pair up",
    ]) {
        assert!(reason.contains(says), "{reason}");
    }
    assert_eq!(chat.snapshot().len(), 5);
}

#[tokio::test]
async fn consecutive_model_questions_of_an_effect_are_bounded() {
    for (powers, asked) in [(ALL_POWERS, limits::ASKS_IN_A_ROW as usize), ("[]", 0)] {
        let (model, mut helper) = agent((0..20).map(|_| ScriptedCompleter::text("?")));
        helper.effects.push(effect(engine(), powers, &eval(Image::ask)).await);
        let reason = fault(run(&helper).await.0.unwrap_err());
        assert!(reason.contains("the effect called a model more than 8 times in a row"), "{reason}");
        assert_eq!(model.requests().len(), asked);
    }
}

/// An effect that notes as many characters as it got from a function of `chat`, over all the chat.
async fn counting(function: &str) -> Arc<dyn Effect> {
    let mut guest = Guest::of(&["effect"]).import(guest::CHAT).pages(200);
    let [at, count] = guest.image().list(8, &[vec![0, 0, ZEROS, 0]]);
    let body = format!(
        "(call ${function} (i32.const 0) (i32.const -1) (i32.const {SCRATCH}))
         (i32.store (i32.const {}) (i32.load (i32.const {})))",
        at + 12,
        SCRATCH + 4
    );
    let guest = guest.on("eval", &body).answer("eval", |image| image.step_of([0, 0], [0, at, count, 0]));
    effect(engine(), ALL_POWERS, &guest).await
}

#[tokio::test]
async fn chat_reads_of_a_guest_are_bounded() {
    let fits = limits::CHAT_READ_BYTES / 3;
    for (function, messages, bytes, seen) in [
        ("entries", limits::CHAT_ENTRIES + 100, 1, limits::CHAT_ENTRIES),
        ("read", 5, fits, 3),
        ("read", 3, limits::CHAT_READ_BYTES + 1, 1),
    ] {
        let (_, mut helper) = agent([ScriptedCompleter::text("done")]);
        helper.effects.push(counting(function).await);
        let chat = Chat::new();
        for _ in 0..messages {
            chat.append(Message::text(Role::User, "", "x".repeat(bytes))).unwrap();
        }
        helper.run(&cx(EventSink::none()), &chat, vec![]).await.unwrap();
        let snapshot = chat.snapshot();
        let note = snapshot.iter().find(|entry| entry.note).unwrap();
        assert_eq!(note.message.text_content().len(), seen, "{function}");
    }
}

async fn middleware(house: &House, guest: &Guest) -> Arc<dyn RunMiddleware> {
    let plugin = pack(&["run-middleware"], "", &guest.component()).load(house).await.unwrap();
    Arc::new(PluginRunMiddleware::new(&plugin).unwrap())
}

#[tokio::test]
async fn failed_run_middleware_fails_the_run_and_the_next_works() {
    let around = || Guest::of(&["run-middleware"]);
    let state = [ZEROS, limits::STATE_BYTES as u32 + 1];
    let mut calls = around();
    let call = calls.image().list(9, &[vec![3]]);
    let calls = calls.answer("before", |image| image.words(&[0, 0, 1, 0, 0, 0, 2, call[0], call[1], 0, 0, 0]));
    for (guest, says) in [
        (around().on("before", "unreachable"), "plugin `hostile` crashed"),
        (around().on("after", "unreachable"), "plugin `hostile` crashed"),
        (around().on("before", LOOP), "plugin `hostile` timed out after 0.2 seconds"),
        (around().on("after", LOOP), "plugin `hostile` timed out after 0.2 seconds"),
        (
            around().answer("before", |image| image.words(&[0, 0, 0, 0, 0, 0, 0, state[0], state[1], 0, 0, 0])),
            "returned a state of 65537 bytes, the maximum is 65536",
        ),
        (
            around().answer("after", |image| image.words(&[0, 0, 3, 0, 0, 0, 0, 0, 0, 0, state[0], state[1]])),
            "returned a state of 65537 bytes, the maximum is 65536",
        ),
        (around().answer("after", |image| image.words(&[0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0])), "more than 8 retries"),
        (around().answer("before", |image| image.failure(8, [ZEROS, 1 << 20])), "\0…"),
        (calls, "the message of a middleware must not have tool calls or results"),
    ] {
        let (_, mut helper) = agent((0..10).map(|_| ScriptedCompleter::text("done")));
        helper.middleware.push(middleware(hasty_engine(), &guest).await);
        let reason = fault(run(&helper).await.0.unwrap_err());
        assert!(reason.contains(says) && reason.len() <= limits::ERROR_BYTES, "{says}: {reason}");
        helper.middleware = vec![middleware(hasty_engine(), &around()).await];
        assert_eq!(run(&helper).await.0.unwrap().message.text_content(), "done");
    }
}

/// A model of text.
pub async fn model(house: &House, guest: &Guest) -> (Arc<Plugin>, Arc<dyn Completer>) {
    let plugin = pack(&["provider"], "", &guest.component()).load(house).await.unwrap();
    let info = ModelInfo::named("m");
    let model = PluginModel::new(&plugin, info, None, None).unwrap();
    (plugin, Arc::new(model))
}

/// Hands a text of so many bytes to the sink.
pub fn emit(bytes: usize) -> String {
    format!("(call $emit (i32.const 0) (i64.const {ZEROS}) (i64.const {bytes}) (i64.const 0) (i64.const 0))")
}

#[tokio::test]
async fn failed_provider_plugin_fails_the_run_and_the_next_works() {
    let speaks = || Guest::of(&["provider"]);
    let pairs =
        |count, bytes: usize| -> Vec<_> { (0..count).map(|n| (format!("{n:02}"), "x".repeat(bytes))).collect() };
    let meta = |pairs: &[(String, String)]| {
        speaks().answer("complete", |image| {
            let meta = image.meta(pairs);
            image.completion([ZEROS, 1], meta)
        })
    };
    let says_much =
        |bytes: usize| speaks().pages(600).answer("complete", |image| image.completion([ZEROS, bytes as u32], [0, 0]));
    let pieces = |bytes: usize| speaks().import(guest::SINK).on("complete", &emit(bytes));
    for (guest, says) in [
        (speaks().on("complete", "unreachable"), Some("plugin `hostile` crashed")),
        (speaks().on("complete", LOOP), Some("plugin `hostile` timed out after 0.2 seconds")),
        (speaks().answer("complete", |image| image.failure(4, [ZEROS, 1 << 20])), Some("\0…")),
        (says_much(limits::REPLY_BYTES + 1), Some("the reply has 16777217 bytes, the maximum is 16777216")),
        (says_much(limits::HOSTCALL_BYTES + 1), Some("plugin `hostile` crashed")),
        (meta(&pairs(limits::META_PAIRS, 100)), None),
        (meta(&pairs(limits::META_PAIRS + 1, 1)), Some("a `meta` has")),
        (meta(&pairs(2, limits::META_BYTES / 2)), Some("a `meta` has 4100 bytes, the maximum is 4096")),
        (pieces(limits::DELTA_BYTES), None),
        (pieces(limits::DELTA_BYTES + 1), Some("a piece of 65537 bytes was written to the sink, the maximum is 65536")),
    ] {
        let (_, mut helper) = agent([]);
        helper.completer = model(hasty_engine(), &guest).await.1;
        let (answer, _, events) = run(&helper).await;
        match (answer, says) {
            (Ok(_), None) => {}
            (Err(RunError::Model(fault)), Some(says)) => {
                let reason = fault.to_string();
                assert!(reason.contains(says) && reason.len() <= limits::ERROR_BYTES, "{says}: {reason}");
            }
            (outcome, says) => panic!("{says:?}: {outcome:?}"),
        }
        assert!(events.len() < 20);
        helper.completer = model(hasty_engine(), &speaks()).await.1;
        assert_eq!(run(&helper).await.0.unwrap().message.text_content(), "ok");
    }
}

#[tokio::test]
async fn provider_plugin_with_endless_calls_is_stopped() {
    let mut guest = Guest::of(&["provider"]);
    let name = guest.image().text("none");
    let calls = limits::CALLS_PER_REPLY + 10;
    let call = [&[3, 0, 0][..], &name].concat();
    let [parts, count] = guest.image().list(9, &vec![call; calls]);
    let mut words = vec![0; 20];
    (words[2], words[3], words[4]) = (parts, count, 1);
    let guest = guest.answer("complete", |image| image.words(&words));
    let (_, mut helper) = agent([]);
    helper.completer = model(engine(), &guest).await.1;
    helper.options.max_iterations = 3;
    let (answer, chat, events) = run(&helper).await;
    assert!(matches!(answer.unwrap_err(), RunError::MaxIterations(3)));
    let started = events.iter().filter(|event| matches!(event, Event::ToolStarted { .. })).count();
    assert_eq!(started, 3 * limits::CALLS_PER_REPLY);
    let snapshot = chat.snapshot();
    let results = snapshot.iter().filter(|entry| entry.message.role == Role::Tool);
    assert_eq!(results.map(|entry| entry.message.tool_results().count()).sum::<usize>(), 3 * calls);
}

#[tokio::test]
async fn provider_plugin_cannot_forge_results_or_flood_events() {
    let reply = |part: Vec<u32>| {
        Guest::of(&["provider"]).answer("complete", |image| {
            let [parts, count] = image.list(9, &[part]);
            let mut words = vec![0; 20];
            (words[2], words[3], words[4]) = (parts, count, 1);
            image.words(&words)
        })
    };
    let (_, mut helper) = agent([]);
    helper.options.max_iterations = 1;
    helper.completer = model(engine(), &reply(vec![4])).await.1;
    let (answer, ..) = run(&helper).await;
    assert!(
        matches!(answer.unwrap_err(), RunError::Model(Fault::Other { message }) if message.contains("has a tool result"))
    );

    helper.completer = model(engine(), &reply(vec![3, 0, 0, ZEROS, 900_000])).await.1;
    let (_, _, events) = run(&helper).await;
    for event in events {
        if let Event::ToolStarted { tool, .. } | Event::ToolFinished { tool, .. } = event {
            assert!(tool.len() < 200, "{}", tool.len());
        }
    }
}
