//! Traces of whole sessions on a disk in memory.

use std::{
    io::{Cursor, Read},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{page::write_up_to, *};
use shelly_core::{
    agent::{Agent, AgentEntry, AgentGroup, AgentRegistry},
    chat::{Chat, Message, Usage},
    event::{EventSink, RunCx},
    limits,
    model::ScriptedCompleter,
};
use shelly_session::{
    MemoryDisk, NewSession, Session, SessionHeader, SessionOpenOptions, SessionStorage, SessionStore,
    SessionStoreOptions,
};

const EVENTS: &str = "/sessions/s/events.jsonl";
const HOSTILE: &str = "</script><!-- \u{1b}[2J \u{202e}";

pub(crate) fn header() -> SessionHeader {
    SessionHeader {
        id: "s".into(),
        created: UNIX_EPOCH,
        host: "0.1.0".into(),
        agent: "lead".into(),
        model: "m".into(),
        title: "Do it.".into(),
        forked_from: None,
        follows: None,
        parts: Vec::new(),
        options: Default::default(),
    }
}

pub(crate) fn run_span(agent: &str, end: RunEnd) -> Arc<RunSpan> {
    Arc::new(RunSpan {
        id: agent.into(),
        parent: None,
        parent_step: None,
        root: agent.into(),
        configured: agent.into(),
        agent: agent.into(),
        depth: 0,
        model: "m".into(),
        task: String::new(),
        started: UNIX_EPOCH,
        ended: UNIX_EPOCH,
        end,
        iterations: 1,
        usage: Usage::default(),
        of_children: Usage::default(),
        usd: None,
        of_children_usd: None,
    })
}

fn store(disk: &MemoryDisk) -> SessionStore {
    SessionStore::new(Arc::new(disk.clone()), "/sessions", SessionStoreOptions::default())
}

/// Lets `lead` work in a session: it calls a tool that is not there, delegates to `bob`, and answers.
async fn work(session: Session, chat: Chat) {
    let session = Arc::new(session);
    let model = |replies| Arc::new(ScriptedCompleter::new(replies));
    let tasks = json!({"tasks": [{"agent": "bob", "task": "Look.", "context": "Quickly."}]}).to_string();
    let lead = Agent::new(
        "lead",
        "",
        model(vec![
            ScriptedCompleter::calls(&[("c1", "read", r#"{"path": "a.txt"}"#)]),
            ScriptedCompleter::calls(&[("c2", "delegate", tasks.as_str())]),
            ScriptedCompleter::text("All is done."),
        ]),
    );
    let bob = Agent::new("bob", "", model(vec![ScriptedCompleter::text("Found it.")]));
    let registry = AgentRegistry::new();
    registry.register(AgentEntry::new("bob", "helps"), move || bob.clone());
    let group = Arc::new(AgentGroup::new(registry).with_recorder(session.clone()));
    let lead = lead.with_agent_group(group, 1);
    let sink = EventSink::new();
    session.begin_events();
    let recorder = Arc::clone(&session);
    sink.record(Arc::new(move |event| recorder.record_event(event)));
    let cx = RunCx::new("lead").with_run("r").with_events(sink);
    let task = Message::user(format!("Do it. {HOSTILE}"));
    lead.run(&cx, &chat, vec![task]).await.unwrap();
    session.close().await.unwrap();
}

/// Returns a disk with the session `s`, in which `lead` has worked once.
async fn worked() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (agent, model, title) = ("lead".into(), "scripted".into(), format!("Do it. {HOSTILE}"));
    let new = NewSession { id: Some("s".into()), agent, model, title, ..NewSession::default() };
    work(store(&disk).create(new).unwrap(), Chat::recorded()).await;
    disk
}

fn lines(disk: &MemoryDisk) -> Vec<String> {
    TraceLines::open(&store(disk), "s").unwrap().map(|line| line.unwrap()).collect()
}

fn trace(disk: &MemoryDisk) -> Trace {
    Trace::read(TraceLines::open(&store(disk), "s").unwrap()).unwrap()
}

/// Returns the runs with their steps: `lead: m, read!, m, delegate, m; bob: m`, a failed step with `!`.
fn shown(trace: &Trace) -> String {
    let step = |step: &TraceStep| {
        let name = if step.kind == TraceStepKind::Request { "m" } else { &step.name };
        format!("{name}{}", if step.error.is_some() { "!" } else { "" })
    };
    let run = |(at, level): (usize, usize)| {
        let run = &trace.runs[at];
        let steps: Vec<_> = run.steps.iter().map(step).collect();
        format!("{}{}: {}", "  ".repeat(level), run.span.agent, steps.join(" "))
    };
    trace.tree().into_iter().map(run).collect::<Vec<_>>().join("; ")
}

/// Changes the file of events.
fn change_events(disk: &MemoryDisk, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let file = disk.open(Path::new(EVENTS)).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    let mut read = 0;
    while read < bytes.len() {
        read += file.read_at(&mut bytes[read..], read as u64).unwrap();
    }
    let changed = change(bytes);
    file.truncate(0).unwrap();
    let mut written = 0;
    while written < changed.len() {
        written += file.write_at(&changed[written..], written as u64).unwrap();
    }
}

/// Returns the first lines of a text.
fn first_lines(count: usize) -> impl FnOnce(Vec<u8>) -> Vec<u8> {
    move |bytes| bytes.split_inclusive(|byte| *byte == b'\n').take(count).flatten().copied().collect()
}

const WHOLE: &str = "lead: m read! m delegate m;   bob-look-1: m";

#[tokio::test]
async fn session_is_traced_with_its_contents() {
    let disk = worked().await;
    let lines = lines(&disk);
    for (number, line) in (1..).zip(&lines) {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&value["session"], &value["sequence"]), (&json!("s"), &json!(number)), "{line}");
        assert!(value.get("recorded").is_none() && value.get("n").is_none(), "{line}");
    }
    assert!(lines[0].contains("\"event\":\"stream_started\",\"version\":1"), "{}", lines[0]);
    for text in ["Do it.", "Found it.", "All is done.", "a.txt"] {
        let is_there = |line: &String| line.contains("message_added") && line.contains(text);
        assert!(lines.iter().any(is_there), "{text}");
    }
    assert!(!lines.iter().any(|line| line.contains("model_delta")));
    let trace = trace(&disk);
    assert_eq!(shown(&trace), WHOLE);
    assert!(trace.is_recorded && trace.notes.is_empty() && trace.left_out == 0, "{:?}", trace.notes);
    let totals = trace.totals();
    assert_eq!((totals.runs, totals.turns, totals.calls, totals.failed_calls), (2, 4, 2, 1));
    assert_eq!(totals.usage, Usage { input_tokens: 40, output_tokens: 20, ..Usage::default() });
    assert!(trace.runs.iter().all(|run| run.span.end == RunEnd::Answered));
}

#[tokio::test]
async fn session_without_events_is_traced_from_its_journal() {
    let disk = worked().await;
    let recorded = trace(&disk).totals();
    disk.remove_file(Path::new(EVENTS)).unwrap();
    let trace = trace(&disk);
    assert_eq!(shown(&trace), WHOLE);
    assert!(!trace.is_recorded && trace.notes[0].contains("no events were recorded"), "{:?}", trace.notes);
    let totals = trace.totals();
    assert_eq!(
        TraceTotals { duration: Duration::ZERO, ..totals },
        TraceTotals { duration: Duration::ZERO, ..recorded }
    );
    assert!(lines(&disk)[0].contains("stream_started"));
}

#[tokio::test]
async fn events_lost_in_a_crash_follow_from_the_journal() {
    let count = lines(&worked().await).len();
    for kept in 0..count {
        let disk = worked().await;
        change_events(&disk, first_lines(kept));
        let trace = trace(&disk);
        // A call may be told of twice or begin without its request, but nothing is lost.
        let agents: Vec<_> = trace.tree().iter().map(|(at, _)| trace.runs[*at].span.agent.to_string()).collect();
        assert!(agents.contains(&"lead".into()) && agents.contains(&"bob-look-1".into()), "{kept}: {}", shown(&trace));
        for step in ["read!", "delegate"] {
            assert!(shown(&trace).contains(step), "{kept}: {}", shown(&trace));
        }
        assert!(trace.runs.iter().all(|run| run.span.end == RunEnd::Answered), "{kept}: {:?}", trace.runs);
        assert!(lines(&disk).iter().any(|line| line.contains("All is done.")), "{kept}");
    }
}

/// Returns a disk with the session `s`, in which `lead` and `bob` were interrupted.
async fn interrupted() -> MemoryDisk {
    let disk = worked().await;
    let journal = disk.open(Path::new("/sessions/s/journal.jsonl")).unwrap();
    let mut bytes = vec![0; usize::try_from(journal.len().unwrap()).unwrap()];
    let read = journal.read_at(&mut bytes, 0).unwrap();
    let is_before_the_end = |line: &&[u8]| !String::from_utf8_lossy(line).contains("\"kind\":\"ended\"");
    let kept: usize =
        bytes[..read].split_inclusive(|byte| *byte == b'\n').take_while(is_before_the_end).map(<[u8]>::len).sum();
    journal.truncate(kept as u64).unwrap();
    change_events(&disk, |bytes| {
        let is_before_the_end = |line: &&[u8]| !String::from_utf8_lossy(line).contains("run_finished");
        bytes.split_inclusive(|byte| *byte == b'\n').take_while(is_before_the_end).flatten().copied().collect()
    });
    disk
}

#[tokio::test]
async fn interrupted_run_is_open() {
    let trace = trace(&interrupted().await);
    assert!(trace.runs.iter().all(|run| run.span.end == RunEnd::Open), "{:?}", trace.runs);
    assert_eq!(trace.runs.len(), 2);
    assert!(shown(&trace).contains("delegate!"), "{}", shown(&trace));
}

#[tokio::test]
async fn attempt_that_continues_a_run_is_no_new_run() {
    // Without events the journal alone knows that there was an attempt.
    for keeps_events in [true, false] {
        let disk = interrupted().await;
        let last = store(&disk).events("s").unwrap().last_journal_line();
        let line = |sequence: u64, rest: &str| format!("{{\"sequence\":{sequence},\"n\":{last},{rest}}}\n");
        let usage = json!(Usage { input_tokens: 7, ..Usage::default() });
        let finished = r#""event":"run_finished","iterations":3"#;
        let resumed = [
            line(901, r#""event":"stream_started""#),
            line(902, r#""event":"run_started","run":"q","agent":"lead""#),
            line(903, r#""event":"run_started","run":"q.1","parent":"q","agent":"bob-look-1","depth":1"#),
            line(904, &format!(r#"{finished},"run":"q.1","agent":"bob-look-1","usage":{usage}"#)),
            line(905, &format!(r#"{finished},"run":"q","agent":"lead","usage":{usage}"#)),
        ];
        let all = resumed.concat().into_bytes();
        change_events(&disk, |before| if keeps_events { [before, all].concat() } else { all });
        let trace = trace(&disk);
        let attempts: Vec<_> = trace.runs.iter().map(|run| (run.continues, run.continued_by)).collect();
        assert_eq!(attempts, [(None, Some(2)), (None, Some(3)), (Some(0), None), (Some(1), None)], "{keeps_events}");
        let totals = trace.totals();
        assert_eq!((totals.runs, totals.turns, totals.usage.total()), (2, 6, 14), "{keeps_events}");
    }
    // A run that begins anew is another one, though the one before it was interrupted.
    let disk = interrupted().await;
    let opened = store(&disk).open("s", SessionOpenOptions::default()).unwrap();
    work(opened.session, Chat::recorded()).await;
    let trace = trace(&disk);
    assert!(trace.runs.iter().all(|run| run.continues.is_none() && run.continued_by.is_none()), "{:?}", trace.runs);
    assert_eq!(trace.totals().runs, 4);
}

#[tokio::test]
async fn resumed_session_is_traced_as_one() {
    let disk = worked().await;
    let before = lines(&disk).len();
    let opened = store(&disk).open("s", SessionOpenOptions::default()).unwrap();
    work(opened.session, Chat::recorded()).await;
    let lines = lines(&disk);
    assert_eq!(lines.len(), 2 * before);
    let trace = trace(&disk);
    assert_eq!(shown(&trace), format!("{WHOLE}; {WHOLE}"));
    let ids: std::collections::HashSet<_> = trace.runs.iter().map(|run| &run.span.id).collect();
    assert_eq!(ids.len(), 4, "two processes used the same ids: {ids:?}");
}

#[tokio::test]
async fn page_blocks_decode_to_the_lines() {
    let disk = worked().await;
    let mut page = Cursor::new(Vec::new());
    write_page(TraceLines::open(&store(&disk), "s").unwrap(), &mut page).unwrap();
    let page = String::from_utf8(page.into_inner()).unwrap();
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"shelly-trace\">").unwrap();
    let (facts, rest) = data.split_once("</script>").unwrap();
    assert!(!facts.contains('<'), "{facts}");
    let facts: Value = serde_json::from_str(facts).unwrap();
    assert!(facts["title"].as_str().unwrap().contains("</script>"), "{facts}");
    let expected = lines(&disk);
    assert_eq!(
        (&facts["version"], &facts["session"], &facts["chunks"], &facts["lines"]),
        (&json!(1), &json!("s"), &json!(1), &json!(expected.len()))
    );
    let start = "<script type=\"application/json+gzip-base64\" data-chunk=\"0\">";
    let block = rest.trim_start().strip_prefix(start).unwrap().split_once("</script>").unwrap().0;
    let mut text = String::new();
    GzDecoder::new(&*STANDARD.decode(block).unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    assert!(page.trim_end().ends_with("</html>"));
}

#[tokio::test]
async fn page_is_limited() {
    let disk = worked().await;
    let mut page = Cursor::new(Vec::new());
    let most = lines(&disk)[0].len() as u64 + 2;
    write_up_to(most, TraceLines::open(&store(&disk), "s").unwrap(), &mut page).unwrap();
    let page = String::from_utf8(page.into_inner()).unwrap();
    assert!(page.contains("\"chunks\":         1,\"lines\":         2}"), "one line, and a warning");
}

#[tokio::test]
async fn otlp_request_has_the_fields_of_the_encoding() {
    let disk = worked().await;
    let write = || {
        let mut out = Vec::new();
        write_otlp(TraceLines::open(&store(&disk), "s").unwrap(), &mut out).unwrap();
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let request = write();
    assert_eq!(request, write(), "ids are the same each time");
    let scope = &request["resourceSpans"][0]["scopeSpans"][0];
    let spans = scope["spans"].as_array().unwrap();
    let mut names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let chats = ["chat scripted"; 4];
    let expected =
        [&chats[..], &["execute_tool delegate", "execute_tool read", "invoke_agent bob", "invoke_agent lead"]].concat();
    assert_eq!(names, expected);
    let known = [
        "attributes",
        "endTimeUnixNano",
        "kind",
        "name",
        "parentSpanId",
        "spanId",
        "startTimeUnixNano",
        "status",
        "traceId",
    ];
    let ids: Vec<_> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    for span in spans {
        assert!(span.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{span}");
        assert_eq!((span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()), (32, 16));
        let nanoseconds = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanoseconds("startTimeUnixNano") <= nanoseconds("endTimeUnixNano"), "{span}");
        assert!([1, 3].contains(&span["kind"].as_u64().unwrap()));
        let is_root = span["name"] == "invoke_agent lead";
        assert_eq!(span.get("parentSpanId").is_none(), is_root, "{span}");
        assert!(is_root || ids.contains(&span["parentSpanId"].as_str().unwrap()), "{span}");
        for attribute in span["attributes"].as_array().unwrap() {
            let value = attribute["value"].as_object().unwrap();
            assert!(attribute["key"].is_string() && value.len() == 1, "{attribute}");
            assert!(value.get("intValue").is_none_or(Value::is_string), "{attribute}: 64 bits are text");
        }
    }
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    assert_eq!(named("invoke_agent bob")["parentSpanId"], named("execute_tool delegate")["spanId"]);
    assert_eq!(named("execute_tool delegate")["parentSpanId"], named("invoke_agent lead")["spanId"]);
    let attribute = |name: &str, key: &str| {
        let span = spans.iter().find(|span| span["name"] == name).unwrap();
        let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
        found.unwrap_or_else(|| panic!("{key} of {span}"))["value"].clone()
    };
    assert_eq!(attribute("execute_tool read", "gen_ai.tool.call.arguments")["stringValue"], r#"{"path": "a.txt"}"#);
    assert_eq!(attribute("execute_tool read", "error.type")["stringValue"], "tool_failed");
    assert_eq!(attribute("invoke_agent bob", "gen_ai.usage.input_tokens")["intValue"], "10");
    assert_eq!(attribute("invoke_agent lead", "gen_ai.conversation.id")["stringValue"], "s");
    let input = attribute("chat scripted", "gen_ai.input.messages");
    let input: Value = serde_json::from_str(input["stringValue"].as_str().unwrap()).unwrap();
    assert_eq!(input[0]["parts"][0]["type"], "text");
}

#[tokio::test]
async fn inspect_log_has_one_sample_with_messages_and_events() {
    let disk = worked().await;
    let mut out = Vec::new();
    write_inspect(|| TraceLines::open(&store(&disk), "s"), &mut out).unwrap();
    let log: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&log["version"], &log["status"]), (&json!(2), &json!("success")));
    for key in ["created", "task", "dataset", "model", "config"] {
        assert!(!log["eval"][key].is_null(), "{key} is required");
    }
    let samples = log["samples"].as_array().unwrap();
    let sample = &samples[0];
    assert_eq!(
        (samples.len(), &sample["id"], &sample["epoch"], &sample["target"]),
        (1, &json!("s"), &json!(1), &json!(""))
    );
    let messages = sample["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles[roles.len() - 6..], ["user", "assistant", "tool", "assistant", "tool", "assistant"]);
    let ids: std::collections::HashSet<_> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), messages.len(), "a message without an id of its own would be taken for another");
    let failed = messages.iter().find(|message| !message["error"].is_null()).unwrap();
    assert_eq!((&failed["function"], &failed["tool_call_id"]), (&json!("read"), &json!("c1")));
    assert_eq!(sample["output"]["choices"][0]["message"]["content"][0]["text"], "All is done.");
    assert_eq!(sample["model_usage"]["scripted"]["total_tokens"], 60);
    let events = sample["events"].as_array().unwrap();
    let count = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((count("span_begin"), count("span_end"), count("model"), count("tool")), (2, 2, 4, 2));
    for event in events {
        assert!(event["timestamp"].is_string() && event["working_start"].is_number(), "{event}");
    }
    let tool = events.iter().find(|event| event["event"] == "tool").unwrap();
    assert_eq!((&tool["function"], &tool["arguments"]), (&json!("read"), &json!({"path": "a.txt"})));
    let child = events.iter().find(|event| event["event"] == "span_begin" && event["name"] == "bob-look-1").unwrap();
    assert!(!child["parent_id"].is_null(), "{child}");
}

#[tokio::test]
async fn inspect_log_of_a_team_has_messages_of_members() {
    let disk = worked().await;
    let line = |sequence: u64, rest: &str| format!("{{\"sequence\":{sequence},\"n\":1,{rest}}}\n");
    let added = |role: &str, text: &str| {
        let message = json!({"sender": "x", "role": role, "parts": [{"type": "text", "value": text}]});
        format!(r#""event":"message_added","run":"m","agent":"bob","role":"{role}","message":{message}"#)
    };
    let events: String = [
        line(1, r#""event":"run_started","run":"t","agent":"desk","task":"Sing.""#),
        line(2, r#""event":"run_started","run":"m","parent":"t","agent":"bob","depth":1,"model":"m","task":"Sing.""#),
        line(3, &added("user", "Sing.")),
        line(4, r#""event":"model_started","run":"m","agent":"bob","iteration":0"#),
        line(5, r#""event":"model_finished","run":"m","agent":"bob","iteration":0,"model":"m","stop":"end_turn""#),
        line(6, &added("assistant", "La, la.")),
        line(7, r#""event":"run_finished","run":"m","agent":"bob","iterations":1"#),
        line(8, r#""event":"run_finished","run":"t","agent":"desk","iterations":1"#),
    ]
    .concat();
    change_events(&disk, |_| events.into_bytes());
    let mut out = Vec::new();
    write_inspect(|| TraceLines::open(&store(&disk), "s"), &mut out).unwrap();
    let log: Value = serde_json::from_slice(&out).unwrap();
    let messages = log["samples"][0]["messages"].as_array().unwrap();
    assert!(messages.iter().any(|message| message.to_string().contains("La, la.")), "{messages:?}");
}

#[tokio::test]
async fn inspect_log_of_a_long_session_has_each_message_once() {
    let disk = worked().await;
    let long = |turn: usize, word: &str| format!("<{turn}> {}", word.repeat(500));
    let added = |role: &str, text: String| {
        let message = json!({"sender": "x", "role": role, "parts": [{"type": "text", "value": text}]});
        format!(r#""event":"message_added","run":"r","agent":"lead","role":"{role}","message":{message}"#)
    };
    let finished = r#""event":"model_finished","run":"r","agent":"lead","iteration":0,"model":"m","stop":"end_turn""#;
    let log_of = |turns: usize| {
        let mut events = vec![r#""event":"run_started","run":"r","agent":"lead","model":"m","task":"Go.""#.to_owned()];
        for turn in 0..turns {
            events.push(added("user", long(turn, "ask ")));
            events.push(r#""event":"model_started","run":"r","agent":"lead","iteration":0"#.to_owned());
            events.extend([finished.to_owned(), added("assistant", long(turn, "say "))]);
        }
        events.push(r#""event":"run_finished","run":"r","agent":"lead","iterations":1"#.to_owned());
        let line = |(event, at): (String, u64)| format!("{{\"sequence\":{at},\"n\":1,{event}}}\n");
        change_events(&disk, |_| events.into_iter().zip(1..).map(line).collect::<String>().into_bytes());
        let mut out = Vec::new();
        write_inspect(|| TraceLines::open(&store(&disk), "s"), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (few, many) = (log_of(20), log_of(80));
    assert!(many.len() < 5 * few.len(), "{} and {}", few.len(), many.len());
    assert_eq!(many.matches(&long(7, "ask ")).count(), 1);
    assert_eq!(many.matches(&long(7, "say ")).count(), 2, "as Inspect has it, also in `completion`");
    let log: Value = serde_json::from_str(&many).unwrap();
    let sample = &log["samples"][0];
    assert_eq!(sample["events_data"]["messages"][158], sample["messages"][158], "the last question");
    let requests = sample["events"].as_array().unwrap().iter().filter(|event| event["event"] == "model");
    let heard: Vec<_> = requests.map(|event| (&event["input"], &event["input_refs"])).collect();
    assert_eq!((heard[0], heard[79]), ((&json!([]), &json!([[0, 1]])), (&json!([]), &json!([[0, 159]]))));
    let reference = sample["messages"][14]["content"][0]["text"].as_str().unwrap();
    let attached = &sample["attachments"][reference.strip_prefix("attachment://").unwrap()];
    assert_eq!(attached, &json!(long(7, "ask ")));
}

#[tokio::test]
async fn hostile_events_break_no_format() {
    let disk = worked().await;
    let line = |sequence: u64, rest: &str| format!("{{\"sequence\":{sequence},\"n\":1,{rest}}}\n");
    let (most, few) = (u64::MAX, 1);
    let usage = json!({
        "input_tokens": most, "output_tokens": most, "cache_read_tokens": few, "cache_write_tokens": most,
    });
    let hostile: String = [
        line(1, r#""event":"run_started","run":"a","parent":"a","agent":"x""#),
        line(2, r#""event":"run_started","run":"a","parent":"a","agent":"x""#),
        line(3, r#""event":"tool_finished","run":"a","call":"c","tool":"t","is_error":true,"duration_ms":1e300"#),
        line(4, &format!(r#""event":"model_finished","run":"a","model":"m","stop":"end_turn","usage":{usage}"#)),
        line(5, r#""event":"message_added","run":"a","agent":"x","role":"tool","recorded":{"line":3,"change":99}"#),
        line(6, r#""event":"message_added","agent":"x","role":"user","recorded":{"line":18446744073709551615}"#),
        line(7, r#""time":"9999-12-31T23:59:59Z","event":"tool_started","run":"a","agent":"x","call":"d","tool":"t""#),
        line(8, r#""event":"run_finished","run":"b","agent":"x""#),
        "{\"sequence\":9,\"n\":1,\"event\":7}\nnot json\n{}\n".into(),
        "{\"sequence\":10,\"n\":18446744073709551615,\"event\":\"missed\",\"count\":1}\n".into(),
    ]
    .concat();
    change_events(&disk, |_| hostile.into_bytes());
    let trace = trace(&disk);
    assert!(trace.runs.len() >= 2 && trace.notes.iter().any(|note| note.contains("damaged")), "{trace:?}");
    let mut out = Vec::new();
    write_otlp(TraceLines::open(&store(&disk), "s").unwrap(), &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap();
    let mut out = Vec::new();
    write_inspect(|| TraceLines::open(&store(&disk), "s"), &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap();
}

#[tokio::test]
async fn line_that_the_journal_never_had_is_not_looked_for() {
    let disk = worked().await;
    let journal = disk.open(Path::new("/sessions/s/journal.jsonl")).unwrap();
    let mut bytes = vec![0; usize::try_from(journal.len().unwrap()).unwrap()];
    let read = journal.read_at(&mut bytes, 0).unwrap();
    let header = bytes[..read].split_inclusive(|byte| *byte == b'\n').next().unwrap().len();
    journal.truncate(header as u64).unwrap();
    let line = |sequence: u64| format!("{{\"sequence\":{sequence},\"n\":{},\"event\":\"stream_started\"}}\n", u64::MAX);
    change_events(&disk, |_| (1..=3).map(line).collect::<String>().into_bytes());
    assert_eq!(lines(&disk).iter().filter(|line| line.contains("stream_started")).count(), 3);
}

#[tokio::test]
async fn message_that_many_events_name_is_read_a_few_times() {
    let disk = worked().await;
    change_events(&disk, |events| {
        let events = String::from_utf8(events).unwrap();
        let named = events.lines().find(|line| line.contains("message_added")).unwrap();
        format!("{named}\n").repeat(100).into_bytes()
    });
    let mut read = TraceLines::open(&store(&disk), "s").unwrap();
    let is_named = |line: &String| line.contains("message_added") && line.contains("Do it.");
    let added = read.by_ref().map(Result::unwrap).take(101).filter(is_named).count();
    assert_eq!(added, limits::SESSION_MESSAGE_EVENTS as usize);
    assert_eq!(read.damaged_events(), 100 - u64::from(limits::SESSION_MESSAGE_EVENTS));
}

#[test]
fn runs_steps_and_texts_are_limited() {
    let mut assembler = TraceAssembler::default();
    let started = |run: &str, task: &str| {
        let line = json!({"sequence": 1, "event": "run_started", "run": run, "agent": "a", "task": task});
        TraceEvent::parse(&line.to_string()).unwrap()
    };
    let parts = assembler.add(started("r", &"x".repeat(limits::TRACE_TEXT_BYTES + 9)));
    let [TracePart::Began(run)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(run.task.chars().count(), limits::TRACE_TEXT_BYTES + 1, "and a mark");
    assert_eq!((run.started, run.ended), (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH));
    let long = "y".repeat(limits::TRACE_ATTRIBUTE_BYTES + 1);
    assert_eq!(chat_json::short(&long).len(), limits::TRACE_ATTRIBUTE_BYTES + "…".len());
}

#[test]
fn run_is_below_the_call_that_it_works_for() {
    let mut assembler = TraceAssembler::default();
    let run = |run: &str, parent: Option<&str>, agent: &str, configured: &str| {
        json!({
            "sequence": 1, "event": "run_started", "run": run, "parent": parent, "agent": agent, "configured": configured
        })
    };
    let call = |call: &str, agent: &str| {
        let origin = format!("agent:{agent}");
        json!({"sequence": 1, "event": "tool_started", "run": "r", "call": call, "tool": agent, "origin": origin})
    };
    // Events of older hosts do not name the call.
    let named = |id: &str, agent: &str, call: &str| {
        let mut event = run(id, Some("r"), agent, agent);
        event["parent_call"] = call.into();
        event
    };
    let mut places = Vec::new();
    for event in [
        run("r", None, "lead", "lead"),
        call("c1", "ada"),
        call("c2", "adam"),
        call("c3", "ada"),
        run("r.1", Some("r"), "lead/adam#1", "adam"),
        run("r.2", Some("r"), "lead/ada#1", "ada"),
        named("r.3", "ada", "c3"),
        named("r.4", "eve", "c1"),
        named("r.5", "ada", "gone"),
    ] {
        for part in assembler.add(TraceEvent::parse(&event.to_string()).unwrap()) {
            if let TracePart::Began(run) = part {
                places.push((run.configured.to_string(), run.parent_step));
            }
        }
    }
    let expected =
        [("lead", None), ("adam", Some(1)), ("ada", Some(0)), ("ada", Some(2)), ("eve", Some(0)), ("ada", None)];
    assert_eq!(places, expected.map(|(agent, step)| (agent.to_owned(), step)));
}
