//! Inputs of user interfaces as runs, and events of runs as those of the protocol.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};

use super::{ag_ui_event::AgUiEvent, event_translation::AgUiTranslation, run_agent_input::AgUiCall};
use crate::{
    agent::{RunAnswer, RunEnding},
    capability::BudgetBreakdown,
    chat::{Message, Part, ReplyDelta, Role, StopReason, ToolCall, ToolResult, ToolResultContent, Usage},
    error::{ErrorKind, Report},
    event::{Event, StreamEvent},
    limits,
    serve::{
        hosted_runs::{
            HostedRunOutcome, RunSnapshot,
            testing::{SilentHost, request},
        },
        http_api::problem::Problem,
    },
    task::AttachedFile,
};

fn parse(body: &Value) -> Result<AgUiCall, Box<Problem>> {
    AgUiCall::parse(body.to_string().as_bytes())
}

fn input(messages: Value) -> Value {
    json!({
        "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": messages, "tools": [], "context": [],
        "state": {"open": true}, "forwardedProps": {"x": 1},
    })
}

#[test]
fn input_of_an_interface_becomes_a_run() {
    let mut body = input(json!([
        {"id": "1", "role": "user", "content": "One?"},
        {"id": "2", "role": "assistant", "toolCalls": [{"id": "c"}]},
        {"id": "3", "role": "tool", "toolCallId": "c", "content": "1"},
        {"id": "4", "role": "reasoning", "content": "hm"},
        {"id": "5", "role": "activity", "activityType": "plan", "content": {"steps": []}},
        {"id": "6", "role": "assistant", "content": "One."},
        {"id": "7", "role": "user", "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}},
            {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}},
            {"type": "binary", "mimeType": "text/plain", "data": "aGk=", "filename": "a.txt"},
        ]},
    ]));
    body["context"] = json!([{"description": "the open page", "value": "Prices"}]);
    let call = parse(&body).unwrap();
    assert_eq!((&*call.thread, &*call.run, &call.state["open"]), ("t", "r", &json!(true)));
    let history: Vec<_> = call.request.history.iter().map(|message| (message.role, message.text_content())).collect();
    assert_eq!(history, [(Role::User, "One?".to_owned()), (Role::Assistant, "One.".to_owned())]);
    let task = call.request.input.unwrap();
    assert_eq!((&*task.text, task.attachments.len()), ("And this?", 4));
    let AttachedFile::Text { name, text } = &task.attachments[3] else { panic!("{task:?}") };
    assert_eq!((&**name, &**text), ("the open page", "Prices"));
}

#[test]
fn unusable_input_of_an_interface_is_refused() {
    let user = json!({"id": "1", "role": "user", "content": "hi"});
    let with = |name: &str, value: Value| {
        let mut body = input(json!([user]));
        body[name] = value;
        body
    };
    let part = |part: Value| input(json!([{"id": "1", "role": "user", "content": [part]}]));
    for (body, says) in [
        (json!({}), "missing field"),
        (with("threadId", json!("")), "`threadId` has not 1 to 255 bytes"),
        (with("runId", json!("x".repeat(limits::SERVE_CLIENT_ID_BYTES + 1))), "`runId` has not 1 to 255 bytes"),
        (with("tools", json!([{"name": "confirm", "description": ""}])), "the tool `confirm` of the interface"),
        (with("resume", json!([{"interruptId": "1", "status": "resolved"}])), "no run of this server ends"),
        (input(json!([])), "there is no message of the user"),
        (input(json!([{"id": "1", "role": "critic", "content": "no"}])), "`messages[0]`: the role"),
        (part(json!({"type": "video"})), "`messages[0].content[0]`: a part of the type `video`"),
        (part(json!({"type": "document", "source": {"type": "url", "value": "https://a"}})), "the source must have"),
        (part(json!({"type": "binary"})), "neither `data` nor `url`"),
        (part(json!("text")), "`messages[0].content`"),
    ] {
        let problem = parse(&body).unwrap_err();
        assert!(problem.sentence().contains(says), "{says}: {}", problem.sentence());
    }
}

/// Returns a run with this id that has begun.
async fn begun() -> RunSnapshot {
    let silent = SilentHost::new(1).await;
    let run = silent.host.start(request("hi")).await.unwrap();
    run.cancel();
    let cancelled = run.finished().await;
    RunSnapshot { id: "r".into(), agents: Default::default(), session: Some("s".into()), ..cancelled }
}

fn of(run: &str, event: Event) -> StreamEvent {
    StreamEvent { sequence: 1, time: UNIX_EPOCH, run: Some(run.into()), parent: None, event }
}

fn agent() -> Arc<str> {
    "ada".into()
}

fn delta(delta: ReplyDelta) -> Event {
    Event::ModelDelta { agent: agent(), delta }
}

fn model_finished() -> Event {
    Event::ModelFinished {
        agent: agent(),
        iteration: 0,
        model: "m".into(),
        stop: StopReason::EndTurn,
        calls: 0,
        usage: Usage::default(),
        duration: Duration::ZERO,
    }
}

fn added(message: Message) -> Event {
    Event::MessageAdded { agent: agent(), role: message.role, message: Some(Arc::new(message)) }
}

fn tool_started(call: &str) -> Event {
    let (tool, origin) = ("look".into(), "host".into());
    Event::ToolStarted { agent: agent(), call: call.into(), tool, origin, arguments: "{\"cut".into() }
}

fn tool_finished(call: &str, reason: Option<&str>) -> Event {
    Event::ToolFinished {
        agent: agent(),
        call: call.into(),
        tool: "look".into(),
        is_error: reason.is_some(),
        reason: reason.map(str::to_owned),
        bytes: 2,
        duration: Duration::ZERO,
    }
}

/// Returns the types of events, with the content of some.
fn types(events: &[AgUiEvent]) -> Vec<String> {
    let shown = |event: &AgUiEvent| {
        let json = json!(event);
        let content = ["delta", "content", "stepName", "toolCallName"].iter().find_map(|name| json[name].as_str());
        let kind = json["type"].as_str().unwrap().to_owned();
        content.map_or(kind.clone(), |content| format!("{kind} {content}"))
    };
    events.iter().map(shown).collect()
}

#[tokio::test]
async fn events_of_a_run_are_in_the_order_of_the_protocol() {
    let begun = begun().await;
    let mut translation = AgUiTranslation::new("t".into(), "x".into(), &begun);
    let mut events = translation.begin(Map::from_iter([("open".to_owned(), json!(true))]));
    let state = json!({"open": true, "shelly": {"run": "r", "session": "s", "questions": []}});
    assert_eq!(json!(events[1])["snapshot"], state);
    assert_eq!(
        json!(events[0]),
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": "x", "protocolVersion": "1.0"})
    );
    let call = ToolCall { id: "c1".into(), name: "look".into(), arguments: "{\"a\":1}".into(), meta: vec![] };
    let reply = Message { parts: vec![Part::ToolCall(call)], ..Message::text(Role::Assistant, "ada", "") };
    let content = vec![ToolResultContent::Text("22 degrees".into())];
    let result = Message::results(vec![ToolResult { call_id: "c1".into(), content, is_error: false }]);
    let question = |id: u64| Event::QuestionAsked { agent: agent(), id, question: "May I?".into() };
    let child = Event::RunStarted {
        agent: "bob".into(),
        configured: "bob".into(),
        parent_agent: Some(agent()),
        parent_call: Some("c1".into()),
        depth: 1,
        prefix: Arc::default(),
        model: "m".into(),
        task: "help".into(),
    };
    for event in [
        of("r", delta(ReplyDelta::Thinking("hm".into()))),
        of("r", delta(ReplyDelta::Text("Let me ".into()))),
        of("r", delta(ReplyDelta::Text("look.".into()))),
        of("r", model_finished()),
        of("r", added(reply)),
        of("r", tool_started("c1")),
        of("r", tool_started("c2")),
        of("r.1", child),
        of("r.1", delta(ReplyDelta::Text("for ada".into()))),
        of("r.1", question(3)),
        of("r", tool_finished("c1", None)),
        of("r", tool_finished("c2", Some("gone"))),
        of("r", added(result)),
        of("r", Event::ModelFailed { agent: agent(), model: "m".into(), reason: "gone".into(), again: true }),
        of("r", delta(ReplyDelta::Text("It is ".into()))),
    ] {
        events.extend(translation.take(&event));
    }
    let answer = RunAnswer {
        message: Message::text(Role::Assistant, "ada", "It is warm."),
        ending: RunEnding::Answered,
        iterations: 1,
        usage: Usage::default(),
        account: BudgetBreakdown::default(),
    };
    let outcome = HostedRunOutcome::Completed { answer: Box::new(answer), value: None };
    let completed = RunSnapshot { outcome: Some(outcome), ..begun.clone() };
    events.extend(translation.end(&completed, Some("It is warm.")));
    let expected = [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT hm",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT Let me ",
        "TEXT_MESSAGE_CONTENT look.",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START look",
        "TOOL_CALL_ARGS {\"a\":1}",
        "TOOL_CALL_END",
        "TOOL_CALL_START look",
        "TOOL_CALL_ARGS {\"cut",
        "TOOL_CALL_END",
        "STEP_STARTED bob (r.1)",
        "STATE_DELTA",
        "TOOL_CALL_RESULT 22 degrees",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT It is ",
        "TEXT_MESSAGE_CONTENT warm.",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_RESULT failed: gone",
        "STEP_FINISHED bob (r.1)",
        "RUN_FINISHED",
    ];
    assert_eq!(types(&events), expected);
    let finished = json!(events.last().unwrap());
    assert_eq!((&finished["threadId"], &finished["runId"]), (&json!("t"), &json!("x")), "{finished}");
    assert_eq!((&finished["result"]["session"], finished.get("outcome")), (&json!("s"), None));
    let delta = json!(events[18]);
    assert_eq!(delta["delta"][0]["path"], "/shelly/questions");
    assert_eq!(delta["delta"][0]["value"], json!([{"id": 3, "agent": "ada", "question": "May I?"}]));
    let parent = json!(events[11])["parentMessageId"].clone();
    assert_eq!(parent, json!(events[7])["messageId"], "a call belongs to the text before it");
}

#[tokio::test]
async fn long_result_of_a_tool_is_cut() {
    let mut translation = AgUiTranslation::new("t".into(), "x".into(), &begun().await);
    translation.take(&of("r", tool_started("c1")));
    let content = vec![ToolResultContent::Text("é".repeat(limits::SERVE_TOOL_RESULT_CHARS + 1))];
    let result = Message::results(vec![ToolResult { call_id: "c1".into(), content, is_error: false }]);
    let events = json!(translation.take(&of("r", added(result))));
    let shown = events[0]["content"].as_str().unwrap();
    assert_eq!(shown.chars().count(), limits::SERVE_TOOL_RESULT_CHARS + 1, "with the mark of the cut");
    assert!(shown.ends_with('…'));
}

#[tokio::test]
async fn last_event_says_how_the_run_ended() {
    let begun = begun().await;
    let report = Report::new(ErrorKind::Provider, "no model").hint("start it");
    for (outcome, last) in [
        (HostedRunOutcome::Cancelled, json!({"type": "RUN_FINISHED", "outcome": {"type": "cancelled"}})),
        (
            HostedRunOutcome::Failed { error: report, failure: None },
            json!({"type": "RUN_ERROR", "code": "provider", "message": "no model; start it"}),
        ),
        (HostedRunOutcome::Interrupted, json!({"type": "RUN_ERROR", "code": "interrupted"})),
    ] {
        let run = RunSnapshot { outcome: Some(outcome), ..begun.clone() };
        let mut translation = AgUiTranslation::new("t".into(), "x".into(), &begun);
        let said = translation.take(&of("r", delta(ReplyDelta::Text("Hel".into()))));
        assert_eq!(types(&said), ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT Hel"]);
        let events = translation.end(&run, None);
        assert_eq!(types(&events)[0], "TEXT_MESSAGE_END", "what has begun is ended");
        let ended = json!(events.last().unwrap());
        for (name, value) in last.as_object().unwrap() {
            assert_eq!(&ended[name], value, "{:?}: {ended}", run.outcome);
        }
    }
}
