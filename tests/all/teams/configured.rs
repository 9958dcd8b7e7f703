//! Teams as a config names them.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use shelly_host::{
    agent::RunError,
    app::{App, PreparedRun, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    chat::{Chat, Message},
    config::Config,
    error::Report,
    event::{Event, EventSink, RunCx},
    session::LaunchOptions,
};

use crate::{
    bad_input::{Server, answer},
    support::Place,
};

/// A model for all: an agent whose instructions say `I am NAME.` is asked for what the closure makes of its name and of
/// what it was told last; whoever is not called anything decides for a team.
fn minds(reply: impl Fn(&str, &str) -> Value + Send + 'static) -> Server {
    Server::start(move |request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let system = messages[0]["content"].as_str().unwrap();
        let name = system.split_once("I am ").and_then(|(_, rest)| rest.split_once('.')).map_or("", |(name, _)| name);
        let last = messages.last().unwrap();
        let result = if last["role"] == "tool" { "result: " } else { "" };
        let heard = format!("{result}{}", last["content"].as_str().unwrap_or_default());
        let message = reply(name, &heard);
        let stop = if message["tool_calls"].is_null() { "stop" } else { "tool_calls" };
        let choice = json!({ "message": message, "finish_reason": stop });
        let usage = json!({ "prompt_tokens": 1_999, "completion_tokens": 1 });
        answer("200 OK", &json!({ "choices": [choice], "usage": usage }).to_string())
    })
}

fn text(text: impl Into<String>) -> Value {
    json!({ "content": text.into() })
}

fn call(name: &str, arguments: Value) -> Value {
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    json!({ "tool_calls": [{ "id": "1", "type": "function", "function": function }] })
}

/// Everybody says its name and what it heard last.
fn echo(name: &str, heard: &str) -> Value {
    text(format!("{name}({heard})"))
}

const AGENTS: &str = "
  - {name: ann, instructions: I am ann.}
  - {name: bob, instructions: I am bob.}
  - {name: cy, instructions: I am cy.}";

async fn prepared(
    place: &Place,
    server: &Server,
    config: &str,
    name: Option<&str>,
    recording: Recording,
) -> Result<PreparedRun, Report> {
    let model =
        format!("{{name: m, kind: openai, model: m, retries: 0, base_url: 'http://127.0.0.1:{}/v1'}}", server.port);
    let config = Config::parse(&format!("providers: [{model}]\n{config}"), place.path())?;
    let plugins = vec![crate::PLUGIN_ROOT.into(), crate::GUEST_ROOT.into()];
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &plugins, Some(cache), Arc::new(|_| None), broker)?.with_own_key(place.own_key());
    app.agent(name, None, recording).await
}

/// Returns the outcome of a run, and the steps of teams, a line each.
async fn seen(prepared: &PreparedRun, chat: &Chat) -> (Result<String, RunError>, Vec<String>) {
    let (events, mut stream) = EventSink::channel();
    let runner = prepared.entrant.runner();
    let cx = RunCx::new(Arc::clone(runner.name())).with_events(events);
    let running = async {
        let cx = cx;
        runner.run(&cx, chat, vec![Message::user("go")]).await.map(|answer| answer.message.text_content())
    };
    let hearing = async {
        let mut steps = Vec::new();
        while let Some(event) = stream.next_event().await {
            if let Event::TeamStep { agent, members, done, reasoning, .. } = event {
                let why = reasoning.map_or(String::new(), |why| format!(" ({why})"));
                let what = if done { "done".to_owned() } else { members.join("+") };
                steps.push(format!("{agent}: {what}{why}"));
            }
        }
        steps
    };
    tokio::join!(running, hearing)
}

/// Returns the answer of the team `t` of these teams, and its steps.
async fn run(server: &Server, teams: &str) -> (Result<String, String>, Vec<String>) {
    let place = Place::new();
    let config = format!("agents:{AGENTS}\nteams:\n{teams}\nentry_agent: t");
    let prepared = prepared(&place, server, &config, None, Recording::Off).await.unwrap();
    assert!(prepared.warnings.is_empty(), "{:?}", prepared.warnings);
    let (outcome, steps) = seen(&prepared, &Chat::new()).await;
    (outcome.map_err(|error| error.in_full()), steps)
}

fn team(coordinator: &str) -> String {
    format!(
        "  - {{name: t, members: [ann, {{agent: bob, role: r}}, {{agent: cy, role: r, name: sy}}], coordinator: {coordinator}}}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_host_coordinator_follows_its_params() {
    let server = minds(|name, heard| match name {
        "" if heard.contains("cy(") => text(r#"{"members": [], "done": true, "reasoning": "enough"}"#),
        "" => text(r#"{"members": ["sy"], "done": false, "reasoning": "it is good at it"}"#),
        name => echo(name, heard),
    });
    let cases: [(&str, Result<&str, &str>, &[&str]); 9] = [
        ("sequence", Ok("cy(bob(ann(go)))"), &["t: ann", "t: bob", "t: sy", "t: done"]),
        ("{kind: loop, params: {max_rounds: 1}}", Ok("cy(bob(ann(go)))"), &["t: ann", "t: bob", "t: sy", "t: done"]),
        (
            "{kind: loop, params: {max_rounds: 1, at_end: fail}}",
            Err("the team has reached its maximum number of rounds (`max_rounds`: 1) and is not done"),
            &["t: ann", "t: bob", "t: sy"],
        ),
        ("{kind: round-robin, params: {until: 'b.b'}}", Ok("bob(ann(go))"), &["t: ann", "t: bob", "t: done"]),
        (
            "{kind: round_robin, params: {until: never, max_rounds: 1}}",
            Err("the team has reached its maximum number of rounds (`max_rounds`: 1) and is not done"),
            &["t: ann", "t: bob", "t: sy"],
        ),
        ("{kind: roles, params: {roles: [r, ann]}}", Ok("ann(cy(go))"), &["t: bob+sy", "t: ann", "t: done"]),
        (
            "{kind: roles, params: {roles: [ann], max_cycles: 2, at_end: fail}}",
            Err("the team has reached its maximum number of cycles (`max_cycles`: 2) and is not done"),
            &["t: ann", "t: ann"],
        ),
        ("model", Ok("cy(go)"), &["t: sy (it is good at it)", "t: done (enough)"]),
        ("hand-off", Ok("ann(go)"), &["t: ann", "t: done"]),
    ];
    for (coordinator, said, told) in cases {
        let (outcome, steps) = run(&server, &team(coordinator)).await;
        match (&outcome, said) {
            (Ok(answer), Ok(said)) => assert_eq!(answer, said, "{coordinator}"),
            (Err(error), Err(said)) => assert!(error.contains(said), "{coordinator}: {error}"),
            other => panic!("{coordinator}: {other:?}"),
        }
        assert_eq!(steps, told, "{coordinator}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_hand_off_in_shared_or_private_chats() {
    let server = minds(|name, heard| match name {
        "ann" if !heard.contains("moved") => call("transfer_to_bob", json!({ "context": "moved" })),
        name => echo(name, "…"),
    });
    for chats in ["shared", "private"] {
        let coordinator = format!("{{kind: hand-off, params: {{max_hand_offs: 1, chats: {chats}}}}}");
        let (outcome, steps) = run(&server, &team(&coordinator)).await;
        assert_eq!(
            (outcome.as_deref(), &steps[..]),
            (Ok("bob(…)"), &["t: ann".into(), "t: bob".into(), "t: done".into()][..]),
            "{chats}"
        );
        let asked = server.asked.lock().unwrap();
        let last = asked.last().unwrap();
        assert_eq!(last.contains("transfer_to_bob"), chats == "shared", "the call stands where it was made: {last}");
    }
}

/// Returns the answer of a team that a plugin leads, whose first member hands over to the second one if it can.
pub async fn handed_over(keys: &str) -> String {
    let server = minds(|name, heard| match name {
        "ann" if !heard.starts_with("result: ") => call("transfer_to_bob", json!({ "reason": "bob knows" })),
        name => echo(name, "…"),
    });
    let coordinator = "{kind: probe-team, params: {does: hand-over, size: 3}, powers: [see-messages, see-arguments, see-results, ask-model]}";
    let teams = format!("  - {{name: t, members: [ann, bob], coordinator: {coordinator}{keys}}}");
    run(&server, &teams).await.0.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_instructions_reach_members_and_coordinator() {
    let server = minds(|name, heard| match name {
        "" if heard.contains("cy(") => text(r#"{"members": [], "done": true, "reasoning": "enough"}"#),
        "" => text(r#"{"members": ["inner"], "done": false, "reasoning": "it is next"}"#),
        name => echo(name, heard),
    });
    for chats in ["private", "shared"] {
        server.asked.lock().unwrap().clear();
        let teams = format!(
            "  - {{name: t, members: [inner, ann], coordinator: model, instructions: 'You are support.'}}\n  \
             - {{name: inner, members: [cy, bob], instructions: 'You do flights.', \
             coordinator: {{kind: hand-off, params: {{chats: {chats}}}}}}}"
        );
        let (outcome, _) = run(&server, &teams).await;
        assert_eq!(outcome.as_deref(), Ok("cy(go)"));
        let asked = server.asked.lock().unwrap();
        let of = |who: &str| asked.iter().find(|request| request.contains(who)).unwrap();
        let both = r"<team_instructions>\nYou are support.\n\nYou do flights.\n</team_instructions>\n\n<instructions>\nI am cy.";
        assert!(of("I am cy.").contains(both), "{chats}: {}", of("I am cy."));
        let leader = of("You coordinate a team");
        assert!(leader.contains(r"Instructions for the whole team:\nYou are support.\n"), "{leader}");
        assert!(!leader.contains("You do flights."), "{leader}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_members_honour_max_concurrency() {
    for (most, expected) in [("", 3), (", max_concurrency: 1", 1), (", max_concurrency: 2", 2)] {
        let server = minds(|name, heard| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            echo(name, heard)
        });
        let place = Place::new();
        let config = format!(
            "agents: [{{name: ann, instructions: I am ann.{most}}}]\n\
             teams: [{{name: t, members: [{{agent: ann, role: r}}, {{agent: ann, name: b, role: r}}, \
             {{agent: ann, name: c, role: r}}], coordinator: {{kind: roles, params: {{roles: [r]}}}}}}]\nentry_agent: t"
        );
        let prepared = prepared(&place, &server, &config, None, Recording::Off).await.unwrap();
        let (events, mut told) = EventSink::channel();
        let cx = RunCx::new("t").with_events(events);
        prepared.entrant.runner().run(&cx, &Chat::new(), vec![Message::user("go")]).await.unwrap();
        drop((cx, prepared));
        let (mut working, mut largest, mut worked) = (0, 0, 0);
        while let Some(event) = told.next_event().await {
            match event {
                Event::RunStarted { parent_agent: Some(_), .. } => (working, worked) = (working + 1, worked + 1),
                Event::RunFinished { agent, .. } if *agent != *"t" => working -= 1,
                _ => {}
            }
            largest = largest.max(working);
        }
        assert_eq!((worked, largest), (3, expected), "{most}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn teams_nest_and_an_optional_member_may_fail() {
    let server = minds(|name, heard| match name {
        "cy" => json!({ "content": "" }),
        name => echo(name, heard),
    });
    let teams = |cy: &str| {
        format!(
            "  - {{name: t, members: [{{agent: inner, name: desk}}, ann], description: outer}}\n  \
             - {{name: inner, members: [{{agent: cy{cy}}}, bob], coordinator: {{kind: loop, params: {{max_rounds: 2}}}}}}"
        )
    };
    let (outcome, steps) = run(&server, &teams(", on_failure: skip, retries: 1")).await;
    assert_eq!(outcome.as_deref(), Ok("ann(bob(Continue.))"));
    let inner = ["t: desk", "t/desk: cy", "t/desk: bob", "t/desk: cy", "t/desk: bob", "t/desk: done"];
    assert_eq!(steps, [&inner[..], &["t: ann", "t: done"]].concat());
    let of_cy = server.asked.lock().unwrap().iter().filter(|request| request.contains("I am cy.")).count();
    assert_eq!(of_cy, 4, "twice in each of two rounds");

    let (outcome, steps) = run(&server, &teams("")).await;
    let error = outcome.unwrap_err();
    assert!(error.starts_with("member `desk` failed: member `cy` failed: "), "{error}");
    assert_eq!(steps, ["t: desk", "t/desk: cy"]);
}

/// An agent that reads files, and the folders that it is granted.
const READER: &str = "
  - name: reader
    instructions: I am reader.
    plugins: {read-files: {files: [{path: docs, as: docs}, {path: private, as: private}]}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delegated_team_is_bounded_by_both_delegable_ceilings() {
    let place = Place::new();
    place.file("docs/open.txt", "anybody reads this");
    place.file("private/secret.txt", "the reader alone reads this");
    let server = minds(|name, heard| match (name, heard) {
        ("lead", "go") => call("delegate", json!({ "tasks": [{ "agent": "desk", "task": "read", "context": "all" }] })),
        ("reader", heard) if !heard.starts_with("result: ") => {
            call("read_file", json!({ "path": "private/secret.txt" }))
        }
        (_, heard) => text(heard),
    });
    for (delegable, of_team, may) in [
        ("{}", "{}", true),
        ("{grant: {files: [{path: docs}]}}", "{}", false),
        ("{}", "{grant: {files: [{path: docs}]}}", false),
        ("{agents: [desk]}", "{}", true),
    ] {
        let config = format!(
            "agents:\n  - {{name: lead, instructions: I am lead., options: {{max_delegation_depth: 1}}, delegable: {delegable}}}{READER}\n\
             teams: [{{name: desk, members: [reader], delegable: {of_team}}}]"
        );
        for entry in ["lead", "desk"] {
            // What its lead does not pass on, it has when nobody leads it.
            let may = may || (entry == "desk" && of_team == "{}");
            let prepared = prepared(&place, &server, &config, Some(entry), Recording::Off).await.unwrap();
            let (outcome, _) = seen(&prepared, &Chat::new()).await;
            let said = outcome.unwrap();
            assert_eq!(said.contains("the reader alone reads this"), may, "{entry} {delegable} {of_team}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_bound_a_team_and_each_member_per_step() {
    let server = minds(echo);
    let teams = |keys: &str| {
        format!("  - {{name: t, members: [ann, bob], coordinator: {{kind: loop, params: {{max_rounds: 9}}}}, {keys}}}")
    };
    // Each reply takes 2,000 tokens. Who works alone may spend all that is left.
    let (outcome, steps) = run(&server, &teams("budget: {tokens: 5000}")).await;
    let error = outcome.unwrap_err();
    assert!(error.contains("tokens"), "{error}");
    assert_eq!(steps.len(), 3, "{steps:?}");
    let (outcome, steps) = run(&server, &teams("delegable: {budget: {tokens: 10}}")).await;
    let error = outcome.unwrap_err();
    assert!(error.contains("member `ann` failed") && steps.len() == 1, "{error} {steps:?}");
    // What it costs in dollars must be known of all of them.
    let place = Place::new();
    for keys in ["budget: {usd: 1}", "delegable: {budget: {usd: 1}}", "middleware: [{kind: budget, params: {usd: 1}}]"]
    {
        let config = format!("agents:{AGENTS}\nteams: [{{name: t, members: [ann], {keys}}}]");
        let report = prepared(&place, &server, &config, Some("t"), Recording::Off).await.err().unwrap().to_string();
        assert!(
            report.contains("the price of the model m is unknown") && report.contains("teams.t."),
            "{keys}: {report}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_around_a_team_sees_its_task_and_its_answer() {
    let server = minds(echo);
    let with = |middleware: &str| format!("  - {{name: t, members: [ann], middleware: [{middleware}]}}");
    let (outcome, _) = run(&server, &with("{kind: output-guardrail, params: {deny: ['ann\\(']}}")).await;
    let error = outcome.unwrap_err();
    assert!(error.contains("output-guardrail"), "{error}");
    let (outcome, _) = run(&server, &with("{kind: timeout, params: {time: 1h}}, logger, recovery")).await;
    assert_eq!(outcome.as_deref(), Ok("ann(go)"));
    let config = format!("agents:{AGENTS}\nteams:\n{}", with("retry"));
    let report = prepared(&Place::new(), &server, &config, Some("t"), Recording::Off).await.err().unwrap().to_string();
    assert!(
        report.contains("plugin `retry` is not run middleware") && report.contains("teams.t.middleware"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_session_resumes_in_the_middle_of_a_step() {
    let place = Place::new();
    let (asked, hears) = std::sync::mpsc::channel();
    let stuck = std::sync::atomic::AtomicBool::new(true);
    let server = minds(move |name, heard| {
        let _ = asked.send(name.to_owned());
        if name == "bob" && stuck.swap(false, std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        echo(name, heard)
    });
    let config = format!("agents:{AGENTS}\nteams:\n{}\nentry_agent: t", team("sequence"));
    let new =
        Recording::New { id: Some("one".into()), title: "go".into(), follows: None, options: LaunchOptions::default() };
    let first = prepared(&place, &server, &config, None, new).await.unwrap();
    let session = first.session.as_ref().unwrap();
    {
        let running = seen(&first, &session.chat);
        let until_bob = tokio::task::spawn_blocking(move || {
            while hears.recv().unwrap() != "bob" {}
            hears
        });
        tokio::select! {
            _ = running => panic!("it was to be cut off"),
            _ = until_bob => {}
        }
    }
    session.journal.close().await.unwrap();
    drop(first);
    let again = Recording::Existing { id: "one".into(), up_to_damage: false, is_trusted: false };
    let prepared = prepared(&place, &server, &config, None, again).await.unwrap();
    let session = prepared.session.as_ref().unwrap();
    assert!(session.is_unfinished && session.changed.is_empty(), "{:?}", session.changed);
    let cx = RunCx::new("t");
    let answer = prepared.entrant.runner().resume(&cx, &session.chat, Vec::new()).await.unwrap().unwrap();
    assert_eq!(answer.message.text_content(), "cy(bob(ann(go)))");
    let of_ann = server.asked.lock().unwrap().iter().filter(|request| request.contains("I am ann.")).count();
    assert_eq!(of_ann, 1, "who has replied is not asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_change_is_reported_on_a_resume() {
    let (place, server) = (Place::new(), minds(echo));
    let config = |coordinator: &str| format!("agents:{AGENTS}\nteams:\n{}\nentry_agent: t", team(coordinator));
    let new =
        Recording::New { id: Some("one".into()), title: "go".into(), follows: None, options: LaunchOptions::default() };
    let first = prepared(&place, &server, &config("sequence"), None, new).await.unwrap();
    seen(&first, &first.session.as_ref().unwrap().chat).await.0.unwrap();
    first.session.as_ref().unwrap().journal.close().await.unwrap();
    drop(first);
    let again = Recording::Existing { id: "one".into(), up_to_damage: false, is_trusted: false };
    let second = prepared(&place, &server, &config("hand-off"), None, again).await.unwrap();
    assert_eq!(second.session.as_ref().unwrap().changed, ["team `t` has changed"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_use_bounds_its_coordinator_plugin() {
    let server = minds(echo);
    let states = "[{name: one, members: [ann], transitions: [{matches: ann, to: two}]}, {name: two, members: [bob]}]";
    for (bound, said) in [
        ("", Ok("bob(ann(go))")),
        ("use: {powers: [see-messages]}, ", Ok("bob(ann(go))")),
        ("use: {powers: []}, ", Err("the plugin cannot see messages")),
    ] {
        let coordinator = format!("{{kind: state-machine, powers: [see-messages], params: {{states: {states}}}}}");
        let teams = format!("  - {{name: t, members: [ann, bob], {bound}coordinator: {coordinator}}}");
        let place = Place::new();
        let config = format!("agents:{AGENTS}\nteams:\n{teams}\nentry_agent: t");
        let prepared = prepared(&place, &server, &config, None, Recording::Off).await.unwrap();
        let outcome = seen(&prepared, &Chat::new()).await.0.map_err(|error| error.in_full());
        match (&outcome, said) {
            (Ok(answer), Ok(said)) => assert_eq!(answer, said, "{bound}"),
            (Err(error), Err(said)) => assert!(error.contains(said), "{bound}: {error}"),
            other => panic!("{bound}: {other:?}"),
        }
    }
    // Two times round, until the plugin says that it is enough.
    let until = format!("{{kind: state-machine, powers: [see-messages], params: {{states: {states}}}}}");
    let coordinator = format!("{{kind: round-robin, params: {{until: {until}, max_rounds: 9}}}}");
    let (outcome, steps) = run(&server, &team(&coordinator)).await;
    assert_eq!((outcome.unwrap(), steps.len()), ("bob(ann(go))".into(), 3), "{steps:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_of_an_earlier_task_is_not_reused() {
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now = Arc::clone(&fails);
    let server = minds(move |name, heard| match now.load(std::sync::atomic::Ordering::Relaxed) {
        false => echo(name, heard),
        true => json!({ "content": "" }),
    });
    let place = Place::new();
    let config =
        format!("agents:{AGENTS}\nteams: [{{name: t, members: [{{agent: ann, on_failure: skip}}]}}]\nentry_agent: t");
    let prepared = prepared(&place, &server, &config, None, Recording::Off).await.unwrap();
    let chat = Chat::new();
    assert_eq!(seen(&prepared, &chat).await.0.unwrap(), "ann(go)");
    fails.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(seen(&prepared, &chat).await.0, Err(RunError::Empty)));
}
