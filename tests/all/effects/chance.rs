//! Random conversations under the effects that shorten them. Every request is one that a vendor accepts and that fits into
//! the window, the system prompt is unchanged, the newest message of the user is kept, and no message that the model has not
//! read is shortened. `SHELLY_CHANCE_TIMES` multiplies the number of cases.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use proptest::{
    collection::vec,
    prelude::*,
    sample::subsequence,
    test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use serde_json::json;
use shelly_host::{
    agent::{Agent, RunError},
    event::Event,
    model::{Completer, CompletionRequest},
    plugin::PluginTool,
};

use super::*;
use crate::{
    script::{self, Mind, Reply, act, acts, text},
    sessions::chance,
    vendors::check_transcript,
};

const CASES: u32 = 48;

const ANSWER: &str = "That is done.";

/// A turn of the model: it calls tools (characters of each result, whether it is an error), recalls the first result from
/// there on, or answers.
#[derive(Debug, Clone)]
enum Does {
    Calls(Vec<(usize, bool)>),
    Recalls(usize),
    Answers,
}

/// A task of the user, and the model's actions before its answer.
#[derive(Debug, Clone)]
struct Task {
    length: usize,
    turns: Vec<Does>,
}

/// The model's reply to a request for a summary.
#[derive(Debug, Clone, Copy)]
enum Summary {
    Text(usize),
    Nothing,
    Fails,
}

#[derive(Debug, Clone)]
struct Case {
    tasks: Vec<Task>,
    /// Places in the list of effects, in order.
    chain: Vec<usize>,
    window: u64,
    summaries: Vec<Summary>,
}

fn cases(effects: usize) -> impl Strategy<Value = Case> {
    let call =
        (prop_oneof![3 => 0..200_usize, 3 => 500..3_000_usize, 1 => 8_000..20_000_usize], prop::bool::weighted(0.2));
    let does = prop_oneof![
        6 => vec(call, 1..4).prop_map(Does::Calls),
        1 => (0..3_000_usize).prop_map(Does::Recalls),
    ];
    let task = (prop_oneof![4 => 1..300_usize, 1 => 1_000..5_000_usize], vec(does, 0..8));
    let task = task.prop_map(|(length, turns)| Task { length, turns });
    let summary = prop_oneof![
        6 => (1..3_000_usize).prop_map(Summary::Text),
        1 => Just(Summary::Nothing),
        1 => Just(Summary::Fails),
    ];
    let chain = subsequence((0..effects).collect::<Vec<_>>(), 1..=effects).prop_shuffle();
    (vec(task, 1..5), chain, 1_500..8_000_u64, vec(summary, 1..4)).prop_map(|(tasks, chain, window, summaries)| Case {
        tasks,
        chain,
        window,
        summaries,
    })
}

/// Letters of two bytes: cutting them apart would be seen.
fn long(length: usize) -> String {
    "äöü ".chars().cycle().take(length).collect::<String>() + "x"
}

/// Returns the beginning of the task: no other text has it.
fn marker(task: usize) -> String {
    format!("task number {task}:")
}

/// The model of a case. It looks through each request that it is sent.
fn mind(case: &Case) -> Mind {
    let turns = case
        .tasks
        .iter()
        .enumerate()
        .flat_map(|(at, task)| task.turns.iter().cloned().chain([Does::Answers]).map(move |does| (at, does)));
    let turns: Mutex<VecDeque<_>> = Mutex::new(turns.collect());
    let summaries: Mutex<_> =
        Mutex::new(case.summaries.clone().into_iter().cycle().take(10_000).collect::<VecDeque<_>>());
    let (tasks, window) = (case.tasks.clone(), case.window);
    let first_prompt = OnceLock::new();
    let think = move |asked: &script::Asked<'_>| -> Reply {
        check_transcript(&asked.request.messages);
        let prompt = asked.request.messages.system_prompt().unwrap_or_default();
        if prompt.starts_with("You write summaries") {
            return match summaries.lock().unwrap().pop_front() {
                Some(Summary::Text(length)) => text(&long(length)),
                Some(Summary::Nothing) => text(" "),
                Some(Summary::Fails) | None => Err(Fault::other("no summary today")),
            };
        }
        assert_eq!(&prompt, first_prompt.get_or_init(|| prompt.clone()), "the system prompt was changed");
        let (task, does) = turns.lock().unwrap().pop_front().expect("it is asked too often");
        assert_is_there(asked.request, task, tasks[task].length);
        assert!(asked.request.tokens() <= window, "{} tokens for a window of {window}", asked.request.tokens());
        assert_unread_is_whole(asked.request);
        match does {
            Does::Calls(calls) => {
                let calls: Vec<_> =
                    calls.iter().map(|(length, fails)| ("read", json!({"length": length, "fails": fails}))).collect();
                acts(&calls)
            }
            Does::Recalls(offset) => act("recall", json!({"id": "call_1", "offset": offset})),
            Does::Answers => text(ANSWER),
        }
    };
    Mind::new(think).windowed(case.window)
}

/// Asserts that the newest text of the user is in the request: whole, if it is as short as the minimum that is kept
/// verbatim.
#[track_caller]
fn assert_is_there(request: &CompletionRequest, task: usize, length: usize) {
    let said = format!("{} {}", marker(task), long(length));
    let wanted = if length <= 350 { said } else { marker(task) };
    let users = request.messages.iter().filter(|entry| entry.message.role == Role::User);
    let texts: Vec<_> = users.map(|entry| entry.message.text_content()).collect();
    assert!(texts.iter().any(|text| text.contains(&wanted)), "`{wanted}` is lost: {texts:#?}");
}

/// No effect has shortened what has come since the newest reply.
#[track_caller]
fn assert_unread_is_whole(request: &CompletionRequest) {
    let reply = request.messages.iter().rev().find(|entry| entry.message.role == Role::Assistant);
    // What was recalled may have been shortened when it was kept.
    let reads: Vec<_> = reply.iter().flat_map(|entry| entry.message.tool_calls()).collect();
    let is_read = |id: &str| reads.iter().any(|call| call.id == id && call.name == "read");
    let unread = request.messages.iter().rev().take_while(|entry| entry.message.role != Role::Assistant);
    for result in unread.flat_map(|entry| entry.message.tool_results()).filter(|result| is_read(&result.call_id)) {
        let marks = ["[An older result", "more characters were here", "returns this result of"];
        assert!(!marks.iter().any(|mark| result.text().contains(mark)), "it was not read: {}", result.text());
    }
}

/// The effects, small enough to have something to do, and the tools that they bring.
async fn effects() -> Vec<Arc<Plugin>> {
    let all = [
        (crate::plugin::TRIM_TOOL_RESULTS, json!({"max_result_length": 200, "preserve_recent": 1})),
        (crate::plugin::OBSERVATION_MASK, json!({"threshold": 0.4, "recent_window": 3})),
        (crate::plugin::OFFLOAD, json!({"threshold": 0.2, "min_result_len": 500, "recent_window": 2})),
        (
            crate::plugin::SLIDING_WINDOW,
            json!({"threshold": 0.5, "recent_zone": 2, "medium_zone": 2, "trim_length": 80}),
        ),
        (crate::plugin::COMPACT, json!({"threshold": 0.6})),
        (crate::plugin::COMPACT, json!({"threshold": 0.5, "keep_recent": 3})),
    ];
    let mut plugins = Vec::new();
    for (component, params) in all {
        plugins.push(plugin(component, params).await);
    }
    plugins
}

fn agent(case: &Case, plugins: &[Arc<Plugin>]) -> Agent {
    let mind: Arc<dyn Completer> = Arc::new(mind(case));
    let read = script::spec_of("read", |_, arguments: Value| async move {
        let text = long(arguments["length"].as_u64().unwrap() as usize);
        if arguments["fails"] == true { Err(Fault::other(text)) } else { Ok(text) }
    });
    let mut agent = Agent::new("a", "You are tested by chance.", mind).with_tool(read);
    for &at in &case.chain {
        agent = agent.with_effect(PluginEffect::new(&plugins[at]).unwrap());
        PluginTool::all(&plugins[at]).for_each(|tool| agent.tools.register(tool).unwrap());
    }
    agent
}

/// Runs all tasks in one conversation, or as many as it has room for; which effects edited it, and how, and whether all were
/// done.
async fn play(case: &Case, plugins: &[Arc<Plugin>]) -> (Vec<(String, &'static str)>, bool) {
    let (agent, chat) = (agent(case, plugins), Chat::new());
    let mut edits = Vec::new();
    for (at, task) in case.tasks.iter().enumerate() {
        let said = Message::user(format!("{} {}", marker(at), long(task.length)));
        let (end, events) = script::watched("a", async |cx| agent.run(cx, &chat, vec![said]).await).await;
        let is_full = match end {
            Ok(answer) => {
                assert_eq!(answer.message.text_content(), ANSWER);
                false
            }
            Err(RunError::Window(_)) => true,
            Err(error) => panic!("{error:?}"),
        };
        check_transcript(&chat.snapshot());
        for event in events {
            match event {
                Event::EffectEdited { effect, edit, .. } => edits.push((effect.to_string(), edit.name())),
                Event::EffectRefused { .. } | Event::EffectFailed { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
        if is_full {
            return (edits, false);
        }
    }
    (edits, true)
}

#[test]
fn random_effect_edits_keep_the_conversation_valid() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plugins = runtime.block_on(effects());
    let cases_ = CASES * chance::number("SHELLY_CHANCE_TIMES").unwrap_or(1) as u32;
    let config = ProptestConfig { cases: cases_, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (seen, done) = (Mutex::new(Vec::new()), AtomicU32::new(0));
    let ran = runner.run(&cases(plugins.len()), |case| {
        let (edits, is_done) = runtime.block_on(play(&case, &plugins));
        seen.lock().unwrap().extend(edits);
        done.fetch_add(u32::from(is_done), Ordering::Relaxed);
        Ok::<(), TestCaseError>(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
    // Most have room enough.
    let done = done.into_inner();
    assert!(done > cases_ / 3, "{done} of {cases_} were done");
    // Each of them did something, or it was not tested.
    let seen = seen.into_inner().unwrap();
    for (effect, edit) in [
        ("trim-tool-results", "replace-result"),
        ("observation-mask", "replace-result"),
        ("offload", "replace-result"),
        ("sliding-window", "replace-result"),
        ("sliding-window", "replace"),
        ("compact", "replace"),
    ] {
        let times = seen.iter().filter(|(by, what)| by == effect && *what == edit).count();
        assert!(times >= 10, "{effect} made {times} edits `{edit}`");
    }
}
