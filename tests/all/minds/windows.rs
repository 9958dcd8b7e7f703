//! Context windows: what a model is shown, what is never sent to it, and what the host learns from a refusal.

use std::sync::Arc;

use serde_json::json;
use shelly_host::{
    agent::{Agent, RunError, WindowExceeded},
    error::{ErrorKind, Fault},
    event::Event,
    model::{Completer, CompletionRequest},
    plugin::PluginEffect,
};

use super::agent;
use crate::{
    effects,
    script::{Mind, Reply, act, acts, run, text, tool},
};

/// An agent of this model, with a tool `read` that gives so many bytes.
fn reads(mind: &Arc<Mind>, bytes: usize) -> Agent {
    let text = move |_| async move { Ok("line of text\n".repeat(bytes / 13)) };
    agent("ada", Arc::clone(mind) as Arc<dyn Completer>).with_tool(tool("read", text))
}

fn read(times: usize) -> Reply {
    acts(&vec![("read", json!({})); times])
}

/// The results that a request ends with, by their bytes.
fn unread(request: &CompletionRequest) -> Vec<usize> {
    let newest =
        request.messages.iter().rev().flat_map(|entry| entry.message.tool_results().map(|result| result.text().len()));
    newest.collect()
}

#[tokio::test]
async fn results_of_one_reply_share_the_context_window() {
    for (window, calls, most) in [(8_192, 1, 8_192), (8_192, 4, 4_096), (40_000, 1, 32_000), (8_000, 16, 1_000)] {
        let mind = Arc::new(Mind::steps([read(calls), text("done")]).windowed(window));
        let ran = run(&reads(&mind, 40_000), "go").await;
        assert_eq!(ran.told(), "done", "{window}, {calls} calls");
        let results = unread(&mind.asked()[1].1);
        assert_eq!(results.len(), calls);
        // And what is said of the rest.
        assert!(results.iter().all(|bytes| (most..most + 150).contains(bytes)), "{window}, {calls}: {results:?}");
        assert!(mind.asked()[1].1.tokens() <= window, "{window}, {calls} calls");
    }
}

#[tokio::test]
async fn cut_result_is_read_page_by_page_to_its_end() {
    // As a model would: it goes on where it is told to, as long as it is told.
    let mind = Mind::new(|asked| {
        let Some(result) = asked.request.messages.last().filter(|_| asked.turn > 0) else { return read(1) };
        let result = result.message.tool_results().next().unwrap().text();
        let offset =
            result.rsplit_once("\"offset\":").or_else(|| result.split_once("with offset ")).map(|(_, offset)| offset);
        let Some(offset) = offset else { return text("done") };
        let digits: String = offset.chars().take_while(char::is_ascii_digit).collect();
        act("read_result", json!({"call": "call_1", "offset": digits.parse::<u64>().unwrap()}))
    });
    let mind = Arc::new(mind.windowed(16_000));
    let ran = run(&reads(&mind, 39_000), "go").await;
    assert_eq!(ran.told(), "done");
    let results = ran.results();
    assert!(results.len() > 2 && results.iter().all(|result| result.len() <= 16_150), "{} results", results.len());
    let page = |result: &String| match result.strip_prefix('[').and_then(|rest| rest.split_once("]\n")) {
        Some((_, page)) => page.to_owned(),
        None => result.rsplit_once('[').unwrap().0.trim_end_matches('\n').to_owned(),
    };
    let whole: String = results.iter().map(page).collect();
    assert_eq!(whole.matches("line of text").count(), 3_000);
}

#[tokio::test]
async fn request_over_the_context_window_is_not_sent() {
    let of = |task: usize, prompt: usize| async move {
        let mind = Arc::new(Mind::steps([text("done")]).windowed(1_000));
        let mut agent = reads(&mind, 0);
        agent.instructions = "x".repeat(prompt).into();
        let ran = run(&agent, &"x".repeat(task)).await;
        (ran, mind.asked().len())
    };
    for (task, prompt, fixed, unread) in [(8_000, 0, 0..500, 2_000..2_100), (1, 8_000, 2_000..2_500, 0..100)] {
        let (ran, asked) = of(task, prompt).await;
        let Err(error @ RunError::Window(exceeded)) = &ran.end else { panic!("{}", ran.told()) };
        let WindowExceeded { model, tokens, window, fixed: of_prompt, unread: of_task, refusal } = &**exceeded;
        assert_eq!((&**model, *window, asked, refusal.is_none()), ("mind", 1_000, 0, true));
        assert!(*tokens > 2_000 && fixed.contains(of_prompt) && unread.contains(of_task), "{error}");
        assert_eq!(error.kind(), ErrorKind::Run);
        assert!(error.to_string().contains("the window of model `mind` is 1000"), "{error}");
    }
    let (ran, asked) = of(2_000, 0).await;
    assert_eq!((&*ran.told(), asked), ("done", 1));
}

/// A model that refuses what has more than so many tokens, in these words, after which it reads and answers.
fn refuses(most: u64, words: &'static str, wrap: fn(String) -> Fault) -> Arc<Mind> {
    Arc::new(Mind::new(move |asked| match asked.turn {
        _ if asked.request.tokens() > most => Err(wrap(words.into())),
        0 => read(1),
        _ => text("done"),
    }))
}

#[tokio::test]
async fn window_is_learned_from_a_refusal_and_the_request_cut_once() {
    let too_large = |message| Fault::TooLarge { message };
    let named = "host answered 400: This model's maximum context length is 4096 tokens.";
    let unnamed = "Your input exceeds the context window of this model.";
    for (words, wrap, window) in [
        (named, too_large as fn(String) -> Fault, 4_096..4_097),
        (named, |message| Fault::Invalid { message }, 4_096..4_097),
        (unnamed, |message| Fault::Other { message }, 5_600..6_700),
    ] {
        let mind = refuses(4_096, words, wrap);
        let ran = run(&reads(&mind, 30_000), "go").await;
        assert_eq!(ran.told(), "done", "{words}");
        assert_eq!(mind.asked().len(), 3, "{words}");
        let learned = mind.info().context_window.tokens().unwrap();
        assert!(window.contains(&learned), "{words}: {learned}");
        assert!(ran.results()[0].contains("call read_result"), "{words}");
        let failed = ran.events.iter().filter_map(|event| match event {
            Event::ModelFailed { reason, again, .. } => Some((reason.clone(), *again)),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        let [(reason, true)] = &failed[..] else { panic!("{failed:?}") };
        assert!(
            reason.starts_with(&format!("the host assumes a window of {learned} tokens from now on: ")),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn unshrinkable_refused_request_ends_the_run() {
    let too_large = |message| Fault::TooLarge { message };
    let mind = refuses(10, "prompt is too long: 900 tokens > 10 maximum", too_large);
    let ran = run(&reads(&mind, 0), &"word ".repeat(500)).await;
    let Err(RunError::Window(exceeded)) = &ran.end else { panic!("{}", ran.told()) };
    assert_eq!((exceeded.window, mind.asked().len()), (10, 1), "it is not sent again as it was");
    assert!(ran.told().contains("prompt is too long"), "{}", ran.told());
    // What says nothing of the window teaches nothing.
    let mind = refuses(10, "the picture is too large", too_large);
    let ran = run(&reads(&mind, 0), &"word ".repeat(500)).await;
    assert!(matches!(&ran.end, Err(RunError::Model(Fault::TooLarge { .. }))), "{}", ran.told());
    assert_eq!(mind.info().context_window.tokens(), None);
}

#[tokio::test]
async fn sleeping_effects_wake_for_a_learned_window() {
    let words = "This model's maximum context length is 4000 tokens.";
    let mind = Arc::new(Mind::new(move |asked| {
        let prompt = asked.request.messages.system_prompt().unwrap_or_default();
        if prompt.starts_with("You write summaries") {
            return text("They were read.");
        }
        let is_folded = asked.request.messages.iter().any(|entry| entry.note);
        let results: usize = asked.request.messages.iter().map(|entry| entry.message.tool_results().count()).sum();
        match results {
            _ if asked.request.tokens() > 4_000 => Err(Fault::TooLarge { message: words.into() }),
            results if results < 4 && !is_folded => read(1),
            _ => text("done"),
        }
    }));
    let compact = effects::plugin(crate::plugin::COMPACT, json!({})).await;
    let agent = reads(&mind, 5_000).with_effect(PluginEffect::new(&compact).unwrap());
    let ran = run(&agent, "go").await;
    assert_eq!(ran.told(), "done");
    let edited = |event: &Event| matches!(event, Event::EffectEdited { effect, .. } if effect == "compact");
    assert!(ran.events.iter().any(edited), "it was woken");
    assert_eq!(mind.info().context_window.tokens(), Some(4_000));
}
