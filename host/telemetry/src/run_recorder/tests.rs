use std::time::{Duration, UNIX_EPOCH};

use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use shelly_core::{
    capability::Price,
    chat::{Message, Part, ReplyDelta, Role, StopReason, ToolCall, ToolResult, ToolResultContent},
    event::{CalledFunction, LogLevel, MiddlewareAction, ModelWait, PluginCallOutcome, PropagatedSpan},
    limits,
};

use super::*;
use crate::{
    observed_run::{ModelDirectory, ModelFacts, ObservedRun},
    span_propagation::SpanPropagation,
    trace_context::TraceSampler,
};

fn context(has_content: bool) -> RecordingContext {
    let price = Some(serde_json::from_str::<Price>(r#"{"input": 1, "output": 2}"#).unwrap());
    let listed = ModelFacts { provider: "openai".into(), price };
    let models: ModelDirectory = [("m".to_owned(), listed)].into_iter().collect();
    let run = ObservedRun {
        conversation: Some("s1".into()),
        models: Arc::new(models),
        redact: Arc::new(|text: &str| text.replace("sk-12345678", "[secret KEY]")),
    };
    RecordingContext { run, has_content }
}

/// Records events one second apart, each of a run and its parent; an empty name is none.
fn recorded(cx: RecordingContext, events: Vec<(&str, &str, Event)>) -> RecordedTelemetry {
    recorded_below(None, cx, events)
}

/// Records events like [`recorded`], below a span of another host.
fn recorded_below(
    outer: Option<SpanContext>,
    cx: RecordingContext,
    events: Vec<(&str, &str, Event)>,
) -> RecordedTelemetry {
    let outer = outer.map(|context| PropagatedSpan { context, state: None });
    let trace = SinkTrace::new(outer, TraceSampler::default(), SpanPropagation::None);
    let mut recorder = RunRecorder::new(cx, Arc::new(trace));
    let id = |name: &str| (!name.is_empty()).then(|| Arc::from(name));
    for (at, (run, parent, event)) in (1..).zip(events) {
        let time = UNIX_EPOCH + Duration::from_secs(at);
        recorder.record(&StreamEvent { sequence: at, time, run: id(run), parent: id(parent), event });
    }
    recorder.end();
    recorder.take()
}

fn started(agent: &str) -> Event {
    started_for(agent, None)
}

fn started_for(agent: &str, call: Option<&str>) -> Event {
    Event::RunStarted {
        agent: agent.into(),
        configured: agent.into(),
        parent_agent: None,
        parent_call: call.map(Into::into),
        depth: 0,
        prefix: "".into(),
        model: "m".into(),
        task: "the task".into(),
    }
}

fn finished(agent: &str, error: Option<&str>) -> Event {
    Event::RunFinished {
        agent: agent.into(),
        error: error.map(str::to_owned),
        iterations: 2,
        usage: usage(),
        of_children: Usage::default(),
        duration: Duration::from_secs(9),
    }
}

fn usage() -> Usage {
    Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 20, cache_write_tokens: 3 }
}

fn asked(agent: &str) -> Event {
    Event::ModelStarted { agent: agent.into(), iteration: 0, tokens: 1, parts: Default::default(), window: None }
}

fn replied(agent: &str, stop: StopReason) -> Event {
    Event::ModelFinished {
        agent: agent.into(),
        iteration: 0,
        model: "m-2026".into(),
        stop,
        calls: 1,
        usage: usage(),
        duration: Duration::from_secs(1),
    }
}

fn call(agent: &str, call: &str, tool: &str, origin: &str) -> Event {
    Event::ToolStarted {
        agent: agent.into(),
        call: call.into(),
        tool: tool.into(),
        origin: origin.into(),
        arguments: r#"{"key":"sk-12345678"}"#.into(),
    }
}

fn result(agent: &str, call: &str, reason: Option<&str>) -> Event {
    Event::ToolFinished {
        agent: agent.into(),
        call: call.into(),
        tool: "t".into(),
        is_error: reason.is_some(),
        reason: reason.map(str::to_owned),
        bytes: 7,
        duration: Duration::from_secs(1),
    }
}

fn plugin_call(agent: &str, plugin: &str) -> Event {
    Event::PluginCall {
        agent: agent.into(),
        plugin: plugin.into(),
        function: CalledFunction::ToolCall,
        outcome: PluginCallOutcome::Ok,
        duration: Duration::from_millis(500),
        cpu: Duration::from_millis(250),
        memory: 65_536,
        host_calls: 2,
        imports: Vec::new(),
        bytes_in: 1,
        bytes_out: 1,
        given: Default::default(),
    }
}

fn added(agent: &str, message: Message) -> Event {
    Event::MessageAdded { agent: agent.into(), role: message.role, message: Some(Arc::new(message)) }
}

fn named<'a>(recorded: &'a RecordedTelemetry, name: &str) -> &'a Span {
    let names: Vec<_> = recorded.spans.iter().map(|span| &span.name).collect();
    recorded.spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no `{name}` in {names:?}"))
}

fn value(attributes: &[KeyValue], key: &str) -> Option<Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
}

fn text_of(span: &Span, key: &str) -> String {
    match value(&span.attributes, key) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{}: {key} is {other:?}", span.name),
    }
}

fn is_below(child: &Span, parent: &Span) -> bool {
    child.trace_id == parent.trace_id && child.parent_span_id == parent.span_id
}

#[test]
fn delegation_is_one_tree_of_spans() {
    let recorded = recorded(
        context(false),
        vec![
            ("r", "", started("lead")),
            ("r", "", asked("lead")),
            ("r", "", replied("lead", StopReason::ToolCalls)),
            ("r", "", call("lead", "c1", "researcher", "agent:researcher")),
            ("r", "", call("lead", "c2", "read", "files")),
            ("r.1", "r", started_for("researcher", Some("c1"))),
            ("r.1", "r", asked("researcher")),
            ("r", "", plugin_call("lead", "files")),
            ("r.1", "r", replied("researcher", StopReason::EndTurn)),
            ("r.1", "r", finished("researcher", None)),
            ("r", "", result("lead", "c1", None)),
            ("r", "", result("lead", "c2", None)),
            ("r", "", finished("lead", None)),
        ],
    );
    let (lead, researcher) = (named(&recorded, "invoke_agent lead"), named(&recorded, "invoke_agent researcher"));
    let (agent_call, read) = (named(&recorded, "execute_tool researcher"), named(&recorded, "execute_tool read"));
    assert!(lead.parent_span_id.is_empty());
    assert!(is_below(agent_call, lead) && is_below(researcher, agent_call) && is_below(read, lead));
    assert!(is_below(named(&recorded, "plugin_call files tool.call"), read));
    let chats: Vec<_> = recorded.spans.iter().filter(|span| span.name == "chat m").collect();
    assert_eq!(chats.iter().filter(|chat| is_below(chat, lead)).count(), 1);
    assert_eq!(chats.iter().filter(|chat| is_below(chat, researcher)).count(), 1);
    assert_eq!(lead.start_time_unix_nano, 1_000_000_000);
    assert_eq!(lead.end_time_unix_nano, 13_000_000_000);
    assert_eq!((text_of(lead, "shelly.run.id"), text_of(researcher, "shelly.run.id")), ("r".into(), "r.1".into()));
    assert_eq!(recorded.spans.len(), 7);
}

#[test]
fn run_is_below_the_call_that_it_works_for() {
    let recorded = recorded(
        context(false),
        vec![
            ("r", "", started("lead")),
            ("r", "", call("lead", "c1", "ada", "agent:ada")),
            ("r", "", call("lead", "c2", "adam", "agent:adam")),
            ("r", "", call("lead", "c3", "read", "files")),
            ("r.1", "r", started_for("adam", Some("c2"))),
            ("r.2", "r", started_for("ada", Some("c1"))),
            ("r.3", "r", started_for("eve", Some("c3"))),
            ("r.4", "r", started_for("max", Some("c4"))),
            ("r", "", finished("lead", None)),
        ],
    );
    for (agent, call) in [("ada", "ada"), ("adam", "adam"), ("eve", "read")] {
        let (run, call) = (format!("invoke_agent {agent}"), format!("execute_tool {call}"));
        assert!(is_below(named(&recorded, &run), named(&recorded, &call)), "{agent}");
    }
    let (run, lead) = (named(&recorded, "invoke_agent max"), named(&recorded, "invoke_agent lead"));
    assert!(is_below(run, lead), "its call is not known");
}

#[test]
fn parallel_delegations_have_runs_of_their_own() {
    let recorded = recorded(
        context(false),
        vec![
            ("r", "", started("lead")),
            ("r", "", call("lead", "c1", "delegate", "host")),
            ("r", "", call("lead", "c2", "delegate", "host")),
            ("r.1", "r", started_for("two", Some("c2"))),
            ("r.2", "r", started_for("one", Some("c1"))),
            ("r.3", "gone", started_for("three", Some("c1"))),
            ("r", "", finished("lead", None)),
        ],
    );
    let calls: Vec<_> = recorded.spans.iter().filter(|span| span.name == "execute_tool delegate").collect();
    let id_of = |call: &str| calls.iter().find(|span| text_of(span, "gen_ai.tool.call.id") == call).unwrap();
    assert!(is_below(named(&recorded, "invoke_agent one"), id_of("c1")));
    assert!(is_below(named(&recorded, "invoke_agent two"), id_of("c2")));
    let lead = named(&recorded, "invoke_agent lead");
    assert!(is_below(named(&recorded, "invoke_agent three"), lead), "the event of its parent was missed");
    assert_eq!(text_of(named(&recorded, "invoke_agent one"), "error.type"), "run_failed", "its end was not seen");
}

#[test]
fn spans_have_the_attributes_of_the_conventions() {
    let recorded = recorded(
        context(false),
        vec![
            ("r", "", started("ada")),
            ("r", "", added("ada", Message::user("my key is sk-12345678"))),
            ("r", "", asked("ada")),
            ("r", "", Event::ModelDelta { agent: "ada".into(), delta: ReplyDelta::Usage(usage()) }),
            ("r", "", Event::ModelDelta { agent: "ada".into(), delta: ReplyDelta::Text("So".into()) }),
            ("r", "", Event::ModelDelta { agent: "ada".into(), delta: ReplyDelta::Text("!".into()) }),
            ("r", "", replied("ada", StopReason::MaxTokens)),
            ("r", "", call("ada", "c1", "read", "files")),
            ("r", "", result("ada", "c1", Some("sk-12345678 is not a file"))),
            ("r", "", finished("ada", Some("the run was cancelled"))),
        ],
    );
    let chat = named(&recorded, "chat m");
    for (key, expected) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.response.model", "m-2026"),
        ("gen_ai.agent.name", "ada"),
        ("gen_ai.conversation.id", "s1"),
    ] {
        assert_eq!(text_of(chat, key), expected, "{key}");
    }
    for (key, expected) in [
        ("gen_ai.usage.input_tokens", 123),
        ("gen_ai.usage.output_tokens", 10),
        ("gen_ai.usage.cache_read.input_tokens", 20),
        ("gen_ai.usage.cache_creation.input_tokens", 3),
        ("shelly.iteration", 0),
    ] {
        assert_eq!(value(&chat.attributes, key), Some(Value::IntValue(expected)), "{key}");
    }
    // Two seconds: the report of the usage is no piece of the reply.
    assert_eq!(value(&chat.attributes, "gen_ai.response.time_to_first_chunk"), Some(Value::DoubleValue(2.0)));
    let Some(Value::DoubleValue(cost)) = value(&chat.attributes, "shelly.cost.usd") else { panic!() };
    assert!((cost - 143e-6).abs() < 1e-12, "{cost}");
    let Some(Value::ArrayValue(reasons)) = value(&chat.attributes, "gen_ai.response.finish_reasons") else { panic!() };
    assert_eq!(reasons.values[0].value, Some(Value::StringValue("length".into())));
    let tool = named(&recorded, "execute_tool read");
    for (key, expected) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "read"),
        ("gen_ai.tool.call.id", "c1"),
        ("shelly.tool.origin", "files"),
        ("error.type", "tool_failed"),
    ] {
        assert_eq!(text_of(tool, key), expected, "{key}");
    }
    let run = named(&recorded, "invoke_agent ada");
    assert_eq!(value(&run.attributes, "shelly.cost.usd"), Some(Value::DoubleValue(cost)));
    assert_eq!(text_of(run, "error.type"), "cancelled");
    assert_eq!(run.status.as_ref().unwrap().message, "the run was cancelled");
    assert!(!format!("{:?}", recorded.spans).contains("12345678"), "no content unless it is asked for");
}

#[test]
fn no_text_of_any_event_has_a_secret() {
    const SECRET: &str = "sk-12345678";
    let hidden = || SECRET.to_owned();
    let agent: Arc<str> = SECRET.into();
    let failed = |again| Event::ModelFailed { agent: agent.clone(), model: hidden(), reason: hidden(), again };
    let call = || call(SECRET, SECRET, SECRET, SECRET);
    for has_content in [false, true] {
        let events = vec![
            started(SECRET),
            added(SECRET, Message::user(SECRET)),
            asked(SECRET),
            failed(true),
            Event::ModelWaits { agent: agent.clone(), model: hidden(), wait: ModelWait::Retry, detail: hidden() },
            replied(SECRET, StopReason::Other(hidden())),
            added(SECRET, Message::text(Role::Assistant, SECRET, SECRET)),
            call(),
            plugin_call(SECRET, SECRET),
            result(SECRET, SECRET, Some(SECRET)),
            Event::HandedOver { agent: agent.clone(), to: agent.clone(), reason: hidden() },
            Event::MiddlewareActed {
                agent: agent.clone(),
                middleware: hidden(),
                action: MiddlewareAction::Deny,
                tool: Some(hidden()),
                reason: Some(hidden()),
            },
            Event::MiddlewareFailed { agent: agent.clone(), middleware: hidden(), reason: hidden(), skipped: true },
            Event::Warning { message: hidden() },
            asked(SECRET),
            failed(false),
            finished(SECRET, Some(SECRET)),
        ];
        let recorded = recorded(context(has_content), events.into_iter().map(|event| ("r", "", event)).collect());
        assert!(recorded.spans.len() >= 4 && recorded.logs.len() >= 2 && !recorded.measurements.is_empty());
        let labels: Vec<_> = recorded.measurements.iter().map(|measurement| &measurement.labels).collect();
        let all = format!("{:?} {:?} {labels:?}", recorded.spans, recorded.logs);
        assert!(!all.contains("12345678") && all.contains("[secret KEY]"), "{all}");
    }
}

#[test]
fn content_is_recorded_without_secrets_if_asked_for() {
    let reply = {
        let mut reply = Message::text(Role::Assistant, "ada", "I use it.");
        let arguments = r#"{"key":"sk-12345678"}"#.to_owned();
        reply.parts.push(Part::ToolCall(ToolCall { id: "c1".into(), name: "use".into(), arguments, meta: Vec::new() }));
        reply
    };
    let content = vec![ToolResultContent::Text("used sk-12345678".into())];
    let result_part = Part::ToolResult(ToolResult { call_id: "c1".into(), content, is_error: false });
    let results = Message { parts: vec![result_part], ..Message::text(Role::Tool, "", "") };
    let recorded = recorded(
        context(true),
        vec![
            ("r", "", started("ada")),
            ("r", "", added("ada", Message::user("my key is sk-12345678"))),
            ("r", "", asked("ada")),
            ("r", "", replied("ada", StopReason::ToolCalls)),
            ("r", "", added("ada", reply)),
            ("r", "", call("ada", "c1", "use", "files")),
            ("r", "", result("ada", "c1", None)),
            ("r", "", added("ada", results)),
            ("r", "", finished("ada", None)),
        ],
    );
    let (chat, tool, run) =
        (named(&recorded, "chat m"), named(&recorded, "execute_tool use"), named(&recorded, "invoke_agent ada"));
    for (span, key, part) in [
        (chat, "gen_ai.input.messages", "my key is [secret KEY]"),
        (chat, "gen_ai.output.messages", "I use it."),
        (tool, "gen_ai.tool.call.arguments", r#"{"key":"[secret KEY]"}"#),
        (tool, "gen_ai.tool.call.result", "used [secret KEY]"),
        (run, "gen_ai.input.messages", "my key is [secret KEY]"),
        (run, "gen_ai.output.messages", "I use it."),
    ] {
        let found = text_of(span, key);
        assert!(found.contains(part), "{key}: {found}");
    }
    assert!(!format!("{:?}", recorded.spans).contains("12345678"));
    assert_eq!(chat.end_time_unix_nano, 4_000_000_000, "not when its message came");
    assert_eq!(tool.end_time_unix_nano, 7_000_000_000);
}

#[test]
fn failed_request_and_its_retry_are_one_span() {
    let failed = |again| Event::ModelFailed { agent: "ada".into(), model: "m".into(), reason: "busy".into(), again };
    let outcome = |last: Vec<(&'static str, &'static str, Event)>| {
        let first = vec![("r", "", started("ada")), ("r", "", asked("ada")), ("r", "", failed(true))];
        recorded(context(false), first.into_iter().chain(last).collect())
    };
    let good = outcome(vec![
        ("r", "", failed(false)),
        ("r", "", replied("ada", StopReason::EndTurn)),
        ("r", "", finished("ada", None)),
    ]);
    let chat = named(&good, "chat m");
    assert_eq!((chat.events.len(), &chat.status), (2, &None), "another model has answered");
    assert_eq!(value(&chat.attributes, "error.type"), None);
    let bad = outcome(vec![("r", "", failed(false)), ("r", "", finished("ada", Some("the request failed: busy")))]);
    assert_eq!(text_of(named(&bad, "chat m"), "error.type"), "model_failed");
    assert_eq!(text_of(named(&bad, "invoke_agent ada"), "error.type"), "run_failed");
}

#[test]
fn runs_belong_to_the_trace_outside() {
    let outside = SpanContext { trace_id: [7; 16], span_id: [8; 8], is_sampled: true };
    let events = || vec![("r", "", started("ada")), ("r", "", finished("ada", None))];
    let inside = recorded_below(Some(outside), context(false), events());
    assert_eq!((&inside.spans[0].trace_id[..], &inside.spans[0].parent_span_id[..]), (&[7_u8; 16][..], &[8_u8; 8][..]));
    let parent = Some(SpanContext { is_sampled: false, ..outside });
    let unsampled = recorded_below(parent, context(false), events());
    assert!(unsampled.spans.is_empty(), "the trace is not exported");
    assert!(!unsampled.measurements.is_empty(), "metrics are");
}

#[test]
fn warnings_and_plugin_logs_become_log_records() {
    let log = |level| Event::PluginLog {
        agent: "ada".into(),
        plugin: "files".into(),
        level,
        message: "the key sk-12345678".into(),
    };
    let recorded = recorded(
        context(false),
        vec![
            ("", "", Event::Warning { message: "before the run".into() }),
            ("r", "", started("ada")),
            ("r", "", log(LogLevel::Error)),
            ("", "", Event::Warning { message: "in the run".into() }),
        ],
    );
    let [before, error, warning] = &recorded.logs[..] else { panic!("{:?}", recorded.logs) };
    assert_eq!((before.severity_text.as_str(), before.trace_id.len()), ("WARN", 0));
    let run = named(&recorded, "invoke_agent ada");
    assert_eq!((error.severity_text.as_str(), &error.span_id), ("ERROR", &run.span_id));
    let body = error.body.clone().unwrap().value;
    assert_eq!(body, Some(Value::StringValue("the key [secret KEY]".into())));
    assert_eq!(value(&error.attributes, "shelly.plugin.name"), Some(Value::StringValue("files".into())));
    assert_eq!(warning.trace_id, run.trace_id);
}

#[test]
fn denials_and_plugin_calls_are_counted() {
    let decided = Event::CapabilityDecided {
        agent: "ada".into(),
        plugin: "files".into(),
        capability: "clock: true".into(),
        allowed: false,
        rule: "agents.ada".into(),
    };
    let recorded = recorded(context(false), vec![("r", "", decided), ("r", "", plugin_call("ada", "files"))]);
    let found: Vec<_> = recorded.measurements.iter().map(|one| (one.instrument.name, one.value)).collect();
    assert_eq!(found, [("shelly.denials", 1.0), ("shelly.plugin.cpu", 0.25), ("shelly.plugin.calls", 1.0)]);
}

#[test]
fn too_many_open_calls_are_dropped_and_counted() {
    let calls: Vec<_> = (0..limits::TELEMETRY_OPEN_SPANS + 3).map(|n| n.to_string()).collect();
    let events = [("r", "", started("ada"))].into_iter();
    let calls = calls.iter().map(|id| ("r", "", call("ada", id, "read", "files")));
    let recorded = recorded(context(false), events.chain(calls).collect());
    assert_eq!((recorded.spans.len(), recorded.dropped), (limits::TELEMETRY_OPEN_SPANS + 1, 3));
}

#[test]
fn too_many_span_events_are_dropped_and_counted() {
    let waits = |_| {
        let wait = ModelWait::RateLimit;
        ("r", "", Event::ModelWaits { agent: "ada".into(), model: "m".into(), wait, detail: String::new() })
    };
    let events = [("r", "", started("ada"))].into_iter();
    let recorded = recorded(context(false), events.chain((0..limits::TELEMETRY_SPAN_EVENTS + 2).map(waits)).collect());
    let run = named(&recorded, "invoke_agent ada");
    assert_eq!((run.events.len(), run.dropped_events_count), (limits::TELEMETRY_SPAN_EVENTS, 2));
}
