//! Hostile middleware around model requests and tool calls: each way to fail, and each action.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_host::{
    agent::{Agent, RunAnswer, RunError},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    builtin::ApprovalMiddleware,
    chat::{Chat, ToolResult},
    event::Event,
    limits,
    model::ScriptedCompleter,
    plugin::{Plugin, PluginModelMiddleware, PluginToolMiddleware},
    tool,
};

use super::{
    House, agent,
    guest::{Guest, Image, ZEROS},
    hasty_engine, pack, run,
};

const LOOP: &str = "(loop $for-ever (br $for-ever))";
const MEMORY: &str = "(loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0)))) unreachable";
const REQUESTS: &[&str] = &["model-middleware"];
const CALLS: &[&str] = &["tool-middleware"];
/// Powers that a model middleware can use to send something else.
const REWRITES: &str = r#"["rewrite", "see-messages", "see-arguments", "see-results"]"#;

async fn load(house: &House, kind: &[&str], manifest: &str, guest: &Guest) -> Arc<Plugin> {
    pack(kind, manifest, &guest.component()).load(house).await.unwrap()
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// An agent whose model calls `look` and says `done`, with this around its requests or calls; how often `look` has run.
fn with(plugin: &Arc<Plugin>) -> (Arc<ScriptedCompleter>, Agent, Arc<AtomicUsize>) {
    let replies = [ScriptedCompleter::calls(&[("c", "look", "{}")]), ScriptedCompleter::text("done")];
    let (model, mut agent) = agent(replies);
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    agent = agent.with_tool(tool::function("look", "Looks.", move |_, _: Nothing| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok("looked".to_owned()) }
    }));
    agent.model_middleware.extend(PluginModelMiddleware::new(plugin).map(|around| Arc::new(around) as _));
    if let Some(around) = PluginToolMiddleware::new(plugin) {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        agent = agent.with_tool_middleware(ApprovalMiddleware::new(Arc::new(around), broker, "helper", "digest"));
    }
    (model, agent, looks)
}

/// Returns the failures that were reported: the reason, and whether the middleware was skipped.
fn failures(events: &[Event]) -> Vec<(&str, bool)> {
    let failed = events.iter().filter_map(|event| match event {
        Event::MiddlewareFailed { middleware, reason, skipped, .. } => {
            assert_eq!(middleware, "hostile");
            Some((reason.as_str(), *skipped))
        }
        _ => None,
    });
    failed.collect()
}

fn acts(events: &[Event]) -> Vec<&str> {
    let acted = events.iter().filter_map(|event| match event {
        Event::MiddlewareActed { action, .. } => Some(action.name()),
        _ => None,
    });
    acted.collect()
}

fn result(chat: &Chat) -> ToolResult {
    let snapshot = chat.snapshot();
    let mut results = snapshot.iter().flat_map(|entry| entry.message.tool_results().cloned().collect::<Vec<_>>());
    let result = results.next().unwrap();
    assert!(results.next().is_none() && snapshot.check().is_ok());
    result
}

/// The next run, with a polite one of the kind.
async fn the_next_run_works(kind: &'static [&'static str]) {
    let polite = load(hasty_engine(), kind, "", &Guest::of(kind)).await;
    let (_, agent, looks) = with(&polite);
    let (answer, chat, events) = run(&agent).await;
    assert_eq!(answer.unwrap().message.text_content(), "done");
    assert_eq!((result(&chat).text().as_str(), looks.load(Ordering::Relaxed)), ("looked", 1));
    assert_eq!((failures(&events).len(), acts(&events).len()), (0, 0));
}

/// Ways to fail that all kinds have: what is tried, in which function, and what is told.
fn of_all(kind: &'static [&'static str]) -> Vec<(Guest, &'static str, &'static str)> {
    let mut all = Vec::new();
    for at in ["before", "after"] {
        let broken = |image: &mut Image| {
            let why = image.text("it is broken");
            image.failure(8, why)
        };
        all.extend([
            (Guest::of(kind).on(at, "unreachable"), at, "plugin `hostile` crashed"),
            (Guest::of(kind).on(at, LOOP), at, "plugin `hostile` timed out after 0.2 seconds"),
            (Guest::of(kind).on(at, MEMORY), at, "needs more than 128 MiB of memory"),
            (Guest::of(kind).answer(at, broken), at, "it is broken"),
            (Guest::of(kind).answer(at, |image| image.failure(8, [ZEROS, 1 << 20])), at, "\0…"),
            // No case of a result.
            (Guest::of(kind).answer(at, |image| image.words(&[2; 26])), at, "plugin `hostile` crashed"),
        ]);
    }
    all
}

fn around_requests() -> Vec<(Guest, &'static str, &'static str)> {
    let guest = || Guest::of(REQUESTS);
    let mut forged = guest();
    let part = [&[4][..], &forged.image().text("c"), &[0, 0, 0]].concat();
    let parts = forged.image().list(9, &[part]);
    let mut state = vec![0; 26];
    (state[24], state[25]) = (ZEROS, limits::STATE_BYTES as u32 + 1);
    let mut all = of_all(REQUESTS);
    all.extend([
        (guest().answer("before", |image| image.words(&state)), "before", "returned a state of 65537 bytes"),
        (
            guest().answer("after", |image| image.again(None, limits::STATE_BYTES as u32 + 1)),
            "after",
            "returned a state of 65537 bytes",
        ),
        (guest().answer("before", |image| image.pass(Some("other"), None)), "before", "`other` is not granted"),
        (guest().answer("after", |image| image.again(Some("other"), 0)), "after", "`other` is not granted"),
        (
            guest().answer("before", |image| image.pass(None, Some("Say something else."))),
            "before",
            "power `rewrite` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
        (
            guest().answer("before", |image| image.reply_instead("mine")),
            "before",
            "power `answer` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
        (
            guest().answer("after", |image| image.reply_instead("mine")),
            "after",
            "power `rewrite` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
        (
            forged.answer("before", |image| {
                let mut words = vec![0, 0, 1, 0, parts[0], parts[1]];
                words.resize(26, 0);
                image.words(&words)
            }),
            "before",
            "power `answer` is not granted; add it to `powers` of the plugin's entry in the config",
        ),
    ]);
    all
}

fn around_calls() -> Vec<(Guest, &'static str, &'static str)> {
    const LARGE: u32 = limits::RESULT_BYTES as u32 + 1;
    let guest = || Guest::of(CALLS);
    let large = |image: &mut Image| image.list(12, &[vec![0, ZEROS, LARGE]]);
    let mut all = of_all(CALLS);
    let mut state = vec![0; 12];
    (state[10], state[11]) = (ZEROS, limits::STATE_BYTES as u32 + 1);
    all.extend([
        (guest().answer("before", |image| image.words(&state)), "before", "returned a state of 65537 bytes"),
        (guest().answer("before", |image| image.decide(&[0], Some("[1]"))), "before", "are not a JSON object"),
        (guest().answer("before", |image| image.decide(&[0], Some("{"))), "before", "are not a JSON object"),
        (
            guest().pages(400).answer("before", |image| {
                let [at, count] = large(image);
                image.decide(&[2, at, count], None)
            }),
            "before",
            "the result has 16777217 bytes, the maximum is 16777216",
        ),
        (
            guest().pages(400).answer("after", |image| image.instead(&[vec![0, ZEROS, LARGE]])),
            "after",
            "the result has 16777217 bytes, the maximum is 16777216",
        ),
        (
            guest().answer("after", |image| image.instead(&[vec![3]])),
            "after",
            "only the result of a tool can propose a file change",
        ),
    ]);
    all
}

#[tokio::test]
async fn failed_model_middleware_stops_the_run_or_is_skipped() {
    for (guest, at, says) in around_requests() {
        for skipped in [false, true] {
            let manifest = format!(
                "on_failure = \"{}\"\nwants = {{ models = true, powers = [] }}",
                if skipped { "skip" } else { "stop" }
            );
            let plugin = load(hasty_engine(), REQUESTS, &manifest, &guest).await;
            let (model, agent, looks) = with(&plugin);
            let (answer, chat, events) = run(&agent).await;
            let told = failures(&events);
            let there = |(reason, was_skipped): &(&str, bool)| {
                reason.contains(says) && reason.len() <= limits::ERROR_BYTES && *was_skipped == skipped
            };
            assert!(!told.is_empty() && told.iter().all(there), "{at}: {says}: {told:?}");
            assert!(acts(&events).is_empty(), "{at}: {says}: {events:?}");
            let (requests, looks) = (model.requests().len(), looks.load(Ordering::Relaxed));
            match answer {
                Ok(RunAnswer { message, .. }) if skipped => {
                    assert_eq!(message.text_content(), "done", "{at}: {says}");
                    assert_eq!((result(&chat).text().as_str(), requests, looks), ("looked", 2, 1));
                    // Both requests.
                    assert_eq!(told.len(), 2, "{at}: {says}");
                }
                Err(RunError::Middleware { name, fault }) if !skipped => {
                    assert!(name == "hostile" && fault.to_string().contains(says), "{says}: {fault}");
                    assert_eq!((told.len(), requests, looks), (1, usize::from(at == "after"), 0), "{says}");
                }
                other => panic!("{at}: {says}: {other:?}"),
            }
        }
        the_next_run_works(REQUESTS).await;
    }
}

#[tokio::test]
async fn failed_tool_middleware_denies_withholds_or_is_skipped() {
    for (guest, at, says) in around_calls() {
        for skipped in [false, true] {
            let manifest = format!("on_failure = \"{}\"", if skipped { "skip" } else { "stop" });
            let plugin = load(hasty_engine(), CALLS, &manifest, &guest).await;
            let (_, agent, looks) = with(&plugin);
            let (answer, chat, events) = run(&agent).await;
            assert_eq!(answer.unwrap().message.text_content(), "done", "{at}: {says}");
            let told = failures(&events);
            assert!(told.len() == 1 && told[0].0.contains(says) && told[0].1 == skipped, "{at}: {says}: {told:?}");
            assert!(told[0].0.len() <= limits::ERROR_BYTES && acts(&events).is_empty(), "{at}: {says}: {events:?}");
            let (result, looks) = (result(&chat), looks.load(Ordering::Relaxed));
            let text = result.text();
            match (at, skipped) {
                (_, true) => assert_eq!((text.as_str(), result.is_error, looks), ("looked", false, 1), "{says}"),
                ("before", false) => {
                    let denied =
                        text.contains("the call was denied because middleware `hostile` failed") && text.contains(says);
                    assert!(denied && result.is_error && looks == 0, "{says}: {text}");
                }
                (_, false) => {
                    let withheld = text.contains("its result is withheld") && !text.contains("looked");
                    assert!(withheld && result.is_error && looks == 1, "{says}: {text}");
                }
            }
        }
        the_next_run_works(CALLS).await;
    }
}

#[tokio::test]
async fn model_middleware_actions_are_reported() {
    let guest = |at, answer: fn(&mut Image) -> u32| Guest::of(REQUESTS).answer(at, answer);
    fn rejected(image: &mut Image) -> u32 {
        let [at, length] = image.text("not today");
        let mut words = vec![0, 0, 2, 0, 1, 0, at, length];
        words.resize(26, 0);
        image.words(&words)
    }
    // What is done, what the run comes to (an answer, or why there is none), and how often the model was asked.
    for (guest, powers, action, ends, requests) in [
        (guest("before", |image| image.pass(None, Some("Say so."))), REWRITES, "replace-request", Ok("done"), 2),
        (guest("before", |image| image.pass(Some("other"), None)), "[]", "route", Ok("other"), 0),
        (guest("before", |image| image.reply_instead("mine")), r#"["answer"]"#, "answer", Ok("mine"), 0),
        (guest("before", rejected), "[]", "reject-request", Err("not today"), 0),
        (guest("after", |image| image.reply_instead("mine")), r#"["rewrite"]"#, "replace-reply", Ok("mine"), 1),
        (guest("after", rejected), "[]", "reject-reply", Err("not today"), 1),
        // The last outcome stands: two replies of the script, then none.
        (
            guest("after", |image| image.again(None, 8)),
            "[]",
            "retry",
            Err("no more replies"),
            limits::MIDDLEWARE_RETRIES as usize + 1,
        ),
    ] {
        let manifest = format!("wants = {{ models = true, powers = {powers} }}");
        let plugin = load(hasty_engine(), REQUESTS, &manifest, &guest).await;
        let (model, mut agent, _) = with(&plugin);
        let other = ScriptedCompleter::new([ScriptedCompleter::text("other")]);
        agent.models = Arc::new([("other".to_owned(), Arc::new(other) as _)].into());
        let (answer, chat, events) = run(&agent).await;
        match (answer, ends) {
            (Ok(answer), Ok(text)) => assert_eq!(answer.message.text_content(), text, "{action}"),
            (Err(error), Err(why)) => assert!(error.in_full().contains(why), "{action}: {}", error.in_full()),
            (outcome, _) => panic!("{action}: {outcome:?}"),
        }
        assert_eq!(model.requests().len(), requests, "{action}");
        let acts = acts(&events);
        assert!(!acts.is_empty() && acts.iter().all(|act| *act == action), "{action}: {acts:?}");
        assert!(chat.snapshot().check().is_ok() && failures(&events).is_empty(), "{action}: {events:?}");
        if action == "replace-request" {
            // The conversation is not what was sent.
            assert!(model.requests().iter().all(|request| request.messages.len() == 1));
            assert_eq!(chat.snapshot().len(), 5);
        }
    }
}

#[tokio::test]
async fn tool_middleware_actions_are_reported() {
    let guest = |at, answer: fn(&mut Image) -> u32| Guest::of(CALLS).answer(at, answer);
    for (guest, action, text, is_error, looks) in [
        (guest("before", |image| image.decide(&[0], Some("{ }"))), "change-arguments", "looked", false, 1),
        (
            guest("before", |image| {
                let [at, length] = image.text("mine");
                let [at, count] = image.list(12, &[vec![0, at, length]]);
                image.decide(&[2, at, count], None)
            }),
            "answer",
            "mine",
            false,
            0,
        ),
        (
            guest("before", |image| {
                let [at, length] = image.text("not on a Sunday");
                image.decide(&[3, at, length], None)
            }),
            "deny",
            "not on a Sunday",
            true,
            0,
        ),
        (
            guest("before", |image| {
                let words = [&[1][..], &image.text("Shall it?"), &image.text("look")].concat();
                image.decide(&words, None)
            }),
            "deny",
            "`hostile` requires a person's consent to this call of `look`, and no person",
            true,
            0,
        ),
        (guest("before", |image| image.decide(&[3, ZEROS, 1 << 20], None)), "deny", "\0…", true, 0),
        (guest("after", |image| image.instead(&[vec![0, ZEROS, 1]])), "replace-result", "\0", false, 1),
    ] {
        let plugin = load(hasty_engine(), CALLS, "", &guest).await;
        let (_, agent, looked) = with(&plugin);
        let (answer, chat, events) = run(&agent).await;
        assert_eq!(answer.unwrap().message.text_content(), "done", "{action}");
        assert_eq!((acts(&events), failures(&events).len()), (vec![action], 0));
        let about = events.iter().find_map(|event| match event {
            Event::MiddlewareActed { tool, reason, .. } => Some((tool.as_deref(), reason.as_deref())),
            _ => None,
        });
        let (tool, reason) = about.unwrap();
        assert_eq!((tool, reason.is_some()), (Some("look"), action == "deny"), "{action}");
        let text_begins = text.trim_end_matches('…');
        assert!(reason.is_none_or(|reason| reason.contains(text_begins) && reason.len() <= limits::ERROR_BYTES));
        let result = result(&chat);
        assert!(result.text().contains(text) && result.is_error == is_error, "{action}: {}", result.text());
        assert!(result.text().len() <= limits::ERROR_BYTES + 100, "{action}: {}", result.text().len());
        assert_eq!(looked.load(Ordering::Relaxed), looks, "{action}");
        // The conversation keeps what the model wrote.
        let snapshot = chat.snapshot();
        let calls = snapshot.iter().flat_map(|entry| entry.message.tool_calls());
        assert!(calls.map(|call| &*call.arguments).eq(["{}"]));
    }
}

#[tokio::test]
async fn undeliverable_call_skips_tool_middleware() {
    let plugin = load(hasty_engine(), CALLS, "", &Guest::of(CALLS).on("before", "unreachable")).await;
    for (name, arguments, says) in
        [("nothing", "{}", "tool not found"), ("look", "[1]", "not a JSON object"), ("look", "{", "not a JSON object")]
    {
        let (_, mut agent, looks) = with(&plugin);
        let replies = [ScriptedCompleter::calls(&[("c", name, arguments)]), ScriptedCompleter::text("done")];
        agent.completer = Arc::new(ScriptedCompleter::new(replies));
        let (answer, chat, events) = run(&agent).await;
        assert_eq!(answer.unwrap().message.text_content(), "done");
        let text = result(&chat).text();
        assert!(text.contains(says) && failures(&events).is_empty(), "{says}: {text}: {events:?}");
        assert_eq!(looks.load(Ordering::Relaxed), 0);
    }
}
