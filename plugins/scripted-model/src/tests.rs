//! Tests of conversations as agents have them, turn by turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use shelly_plugin::{
    Content, Message, Part,
    sink::{self, Delta},
    types::{Role, ToolCall, ToolHints, ToolResult, ToolSpec, Usage},
};

use super::*;

fn tool(name: &str) -> ToolSpec {
    let (description, input_schema) = ("Does it.".into(), r#"{"type":"object"}"#.into());
    ToolSpec {
        name: name.into(),
        description,
        input_schema,
        output_schema: None,
        hints: ToolHints::empty(),
        meta: Vec::new(),
    }
}

fn request(messages: &[Message]) -> Request {
    Request {
        messages: messages.to_vec(),
        tools: vec![tool("weather"), tool("map")],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        response_schema: None,
        meta: Vec::new(),
    }
}

fn user(sender: &str, text: &str) -> Message {
    Message { sender: sender.into(), ..Message::new(Role::User, text) }
}

fn note(text: &str) -> Message {
    Message { meta: vec![("shelly.note".into(), "true".into())], ..user("host", text) }
}

fn said(sender: &str, text: &str) -> Message {
    Message { sender: sender.into(), ..Message::new(Role::Assistant, text) }
}

/// Builds a round of calls, each with a tool and its result.
fn round(calls: &[(&str, Content)]) -> [Message; 2] {
    // Call ids are unique within a conversation, as in the host.
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    let number = ROUNDS.fetch_add(1, Ordering::Relaxed);
    let id = |at: usize| format!("{number}-{at}");
    let call = |(at, (name, _)): (usize, &(&str, Content))| {
        Part::ToolCall(ToolCall { id: id(at), name: (*name).into(), arguments: "{}".into(), meta: Vec::new() })
    };
    let result = |(at, (_, content)): (usize, &(&str, Content))| {
        Part::ToolResult(ToolResult { call_id: id(at), content: vec![content.clone()], is_error: false })
    };
    let message = |role, parts| Message { parts, ..Message::new(role, "") };
    [
        message(Role::Assistant, calls.iter().enumerate().map(call).collect()),
        message(Role::Tool, calls.iter().enumerate().map(result).collect()),
    ]
}

fn complete_with(params: Value, request: &Request) -> Result<Completion, Error> {
    complete(serde_json::from_value(params).unwrap(), "asked", request)
}

/// Returns the text and the calls of a reply, or the error.
fn reply(params: Value, messages: &[Message]) -> String {
    match complete_with(params, &request(messages)) {
        Ok(completion) => completion.parts.iter().map(shown).collect::<Vec<_>>().join(" "),
        Err(error) => format!("error: {}", error.message()),
    }
}

fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::ToolCall(call) => format!("{}{}", call.name, call.arguments),
        other => panic!("{other:?}"),
    }
}

/// Returns a text with its placeholders filled in this conversation.
fn filled(text: &str, messages: &[Message]) -> String {
    reply(json!({ "replies": [text], "at_end": "repeat" }), messages)
}

#[test]
fn script_replays_turn_by_turn_and_restarts_for_each_task() {
    let script =
        json!({"replies": [{"calls": [{"tool": "weather", "arguments": {"city": "{{task}}"}}]}, "{{result}}!"]});
    let mut chat = vec![Message::new(Role::System, "You are ada."), user("user", "Paris")];
    assert_eq!(reply(script.clone(), &chat), r#"weather{"city":"Paris"}"#);
    chat.extend(round(&[("weather", "sunny".into())]));
    // A note does not start a new task.
    chat.push(note("Be quick."));
    assert_eq!(reply(script.clone(), &chat), "sunny!");
    assert_eq!(reply(script.clone(), &chat), "sunny!", "the same request has the same answer");
    chat.push(said("ada", "sunny!"));
    let over = "error: the script has ended: it has 2 replies for this task, but one more is requested (`at_end: \
                repeat` repeats the last one): Paris";
    assert_eq!(reply(script.clone(), &chat), over);
    let mut repeated = script.clone();
    repeated["at_end"] = "repeat".into();
    assert_eq!(reply(repeated, &chat), "sunny!");
    chat.push(user("user", "Rome"));
    assert_eq!(reply(script, &chat), r#"weather{"city":"Rome"}"#);
}

#[test]
fn script_placeholders_are_filled_from_the_chat() {
    let json = |json: Value| Content::Json(json.to_string());
    let mut chat = vec![
        Message { sender: "eve".into(), ..Message::new(Role::System, "You are ada.") },
        user("user", "Weather in New York, please: {{task}}"),
        said("ada", "old"),
        user("bob", "And in Oslo?\nQuick."),
    ];
    chat.extend(round(&[("weather", json(json!({"temp": 7, "of": ["a", "b/c"]}))), ("map", "[1]".into())]));
    chat.extend(round(&[("weather", "{\"temp\": \"eight\"}".into())]));
    chat.push(note("It is late."));
    for (text, expected) in [
        ("no braces { } }}", "no braces { } }}"),
        ("", ""),
        ("{{task}} {{ task }}", "And in Oslo?\nQuick. And in Oslo?\nQuick."),
        // Placeholders in inserted text are not replaced.
        ("{{from user}}", "Weather in New York, please: {{task}}"),
        ("{{from user ~ in ([A-Z]\\w+ [A-Z]\\w+)}}", "New York"),
        ("{{from ada}}, {{from bob ~ ^And}}, {{said}}", "old, And, old"),
        ("{{result}}", "{\"temp\": \"eight\"}"),
        ("{{result/temp}} {{result 1/temp}} {{result 1/of}}", "eight 7 [\"a\",\"b/c\"]"),
        ("{{result 1/of/1}} {{result map/0}} {{result weather/temp ~ e(i)}}", "b/c 1 i"),
        ("{{note}} {{system ~ \\w+\\.$}}", "It is late. ada."),
    ] {
        assert_eq!(filled(text, &chat), expected, "{text}");
    }
    for (text, why) in [
        ("{{result 4}}", "`{{result 4}}`: since the task there is one of `weather`, `map`, `weather`"),
        ("{{result sea}}", "`{{result sea}}`: since the task there is one of `weather`"),
        ("{{error}}", "there is no error since the task"),
        ("{{result/sea}}", "there is no `/sea` in {\"temp\": \"eight\"}"),
        ("{{task/0}}", "the value is not JSON: And in Oslo?"),
        ("{{task ~ rome}}", "`rome` is not found in: And in Oslo?"),
        ("{{from eve}}", "`eve` has said nothing in this conversation"),
    ] {
        let error = filled(text, &chat);
        assert!(error.starts_with("error: the script says `{{") && error.contains(why), "{text}: {error}");
    }
    for (text, why) in [
        ("{{result}}", "there is no result since the task"),
        ("{{said}}", "there is no reply yet"),
        ("{{note}}", "there is no note"),
        ("{{system}}", "there is no system prompt"),
    ] {
        assert!(filled(text, &[user("", "a")]).ends_with(why), "{text}");
    }
    assert_eq!(filled("{{task}}.", &[]), ".");
    // A caller in the host's name sends only notes.
    assert_eq!(filled("{{task}}", &[note("old"), note("Who is next?")]), "Who is next?");
}

#[test]
fn script_placeholders_skip_failed_results() {
    let mut chat = vec![user("user", "a")];
    chat.extend(round(&[("weather", "rain".into()), ("map", "torn".into())]));
    chat.extend(round(&[("weather", "{\"code\": 7}".into())]));
    let fails = |message: &mut Message| {
        if let Some(Part::ToolResult(result)) = message.parts.last_mut() {
            result.is_error = true;
        }
    };
    chat.iter_mut().for_each(fails);
    for (text, expected) in [
        ("{{result 1}}, {{error 1}}, {{error map}}, {{error/code}}", "rain, torn, torn, 7"),
        (
            "{{result}}",
            "error: the script says `{{result}}`: `weather` has failed, and `{{error}}` is why: {\"code\": 7}",
        ),
        ("{{error 3}}", "error: the script says `{{error 3}}`: since the task there is one of `map`, `weather`"),
    ] {
        assert_eq!(filled(text, &chat), expected, "{text}");
    }
}

#[test]
fn script_placeholders_keep_json_types_at_any_depth() {
    let script = json!({"replies": ["", {
        "json": {"n": "{{result/n}}", "in": ["{{result/n}} of {{task}}", {"all": "{{result/all}}"}, null, 1.5]},
        "calls": [{"tool": "map", "arguments": {"at": {"n": "{{result/n}}"}}}, {"tool": "weather"}],
    }]});
    let mut chat = vec![user("user", "\"it\"")];
    chat.extend(round(&[("map", r#"{"n": 3, "all": [true, {}]}"#.into())]));
    let expected = r#"{"in":["3 of \"it\"",{"all":[true,{}]},null,1.5],"n":3} map{"at":{"n":3}} weather{}"#;
    assert_eq!(reply(script, &chat), expected);
}

#[test]
fn script_cases_match_task_sender_and_system_prompt() {
    let script = json!({
        "cases": [
            {"task": "(?i)refund", "from": "user", "replies": ["money"]},
            {"task": "(?i)refund", "replies": ["from {{task ~ \\w+$}}", "again"]},
            {"from": "critic", "replies": ["better"]},
            {"system": "^You are ada", "task": "who", "replies": ["ada"]},
        ],
        "replies": ["hello"],
    });
    for (sender, task, expected) in [
        ("user", "A Refund!", "money"),
        ("boss", "refund me", "from me"),
        ("critic", "Longer.", "better"),
        ("critics", "Longer.", "hello"),
        ("user", "who", "hello"),
    ] {
        assert_eq!(reply(script.clone(), &[user(sender, task)]), expected, "{sender}");
    }
    let asked = |name: &str| [Message::new(Role::System, format!("You are {name}.")), user("user", "who are you?")];
    assert_eq!(["ada", "bob"].map(|name| reply(script.clone(), &asked(name))), ["ada", "hello"]);
    let second = [user("boss", "refund me"), said("ada", "from me")];
    assert_eq!(reply(script.clone(), &second), "again");
    let mut only_cases = script;
    only_cases["replies"] = json!([]);
    let nothing =
        "error: the script has no reply for this task; add a case that matches it, or `replies` beside the cases: hi";
    assert_eq!(reply(only_cases, &[user("user", "hi")]), nothing);
}

#[test]
fn script_failures_map_to_contract_errors() {
    let retry = |message: &str| shelly_plugin::types::Retry { message: message.into(), after_ms: None };
    for (kind, expected) in [
        ("invalid", Error::Invalid("no to a".into())),
        ("denied", Error::Denied("no to a".into())),
        ("not_found", Error::NotFound("no to a".into())),
        ("too_large", Error::TooLarge("no to a".into())),
        ("exhausted", Error::Exhausted("no to a".into())),
        ("timeout", Error::Timeout("no to a".into())),
        ("rate_limited", Error::RateLimited(retry("no to a"))),
        ("unavailable", Error::Unavailable(retry("no to a"))),
        ("other", Error::Other("no to a".into())),
    ] {
        let script = json!({"replies": [{"fail": {kind: "no to {{task}}"}}]});
        assert_eq!(complete_with(script, &request(&[user("user", "a")])).unwrap_err(), expected);
    }
}

#[test]
fn script_call_of_an_unavailable_tool_is_an_error() {
    let calls = |tool: &str| json!({"replies": [{"say": "Hm.", "calls": [{"tool": tool}]}]});
    let mut request = request(&[user("user", "a")]);
    let error = |script, request: &Request| complete_with(script, request).unwrap_err().message().to_owned();
    assert_eq!(
        error(calls("sea"), &request),
        "the script calls `sea`, which does not exist; available tools: `weather`, `map`"
    );
    request.tool_choice = ToolChoice::Never;
    assert_eq!(error(calls("map"), &request), "the script calls `map`, but no call is allowed now");
    (request.tool_choice, request.tools) = (ToolChoice::Auto, Vec::new());
    assert_eq!(error(calls("map"), &request), "the script calls `map`, which does not exist; this agent has no tools");
}

#[test]
fn invalid_script_is_refused_before_the_first_reply() {
    let many = vec![json!("a"); 1_001];
    for (script, why) in [
        (json!({}), "params: `replies` is empty"),
        (json!({"replies": many}), "`replies` has 1001 entries, the maximum is 1000"),
        (json!({"cases": vec![json!({}); 101]}), "`cases` has 101 entries, the maximum is 100"),
        (json!({"replies": ["a", 3]}), "params: `replies[1]`: "),
        (json!({"replies": ["a", {}]}), "`replies[1]`: the reply is empty; write `say`"),
        (json!({"replies": [{"says": "a"}]}), "`replies[0]`: unknown field `says`, expected one of `say`"),
        (json!({"replies": [{"say": "a", "json": 1}]}), "must not have both `say` and `json`"),
        (json!({"replies": [{"fail": {"other": "a"}, "say": "b"}]}), "`fail` must have nothing else"),
        (json!({"replies": [{"fail": {"boom": "a"}}]}), "unknown variant `boom`, expected one of `invalid`"),
        (json!({"replies": ["a", "{{task}"]}), "`replies[1]`: `{{` is never closed in `{{task}`"),
        (json!({"replies": ["{{taks}}"]}), "unknown slot `{{taks}}`; use `task`, "),
        (json!({"replies": ["{{result 0}}"]}), "unknown slot `{{result 0}}`"),
        (json!({"replies": ["{{task ~ (}}"]}), "invalid regular expression `(`"),
        (
            json!({"replies": [{"calls": [{"tool": "map", "arguments": {"a": ["{{from}}"]}}]}]}),
            "unknown slot `{{from}}`",
        ),
        (json!({"cases": [{"replies": ["a"]}]}), "`cases[0]`: the case matches every task"),
        (json!({"cases": [{"task": "a", "replies": []}]}), "`cases[0]`: the `replies` of the case are empty"),
        (json!({"cases": [{"task": "a", "replies": [{}]}]}), "`cases[0]`: `replies[0]`: the reply is empty"),
        (json!({"cases": [{"task": "(", "replies": ["a"]}]}), "invalid regular expression `(`"),
    ] {
        let error = complete_with(script, &request(&[user("user", "a")])).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains(why)), "{why}: {error:?}");
    }
    assert!(serde_json::from_value::<Params>(json!({"reply": []})).is_err());
}

#[test]
fn scripted_reply_is_streamed_counted_and_cut() {
    let _ = sink::emitted();
    let long = "word ".repeat(50);
    let script = json!({"replies": [{"say": long, "calls": [{"tool": "map"}]}]});
    let mut request = request(&[user("user", "abcd")]);
    let completion = complete_with(script.clone(), &request).unwrap();
    assert_eq!((completion.stop, &*completion.model), (StopReason::ToolCalls, "asked"));
    let (texts, calls): (Vec<_>, Vec<_>) =
        sink::emitted().into_iter().partition(|delta| matches!(delta, Delta::Text(_)));
    let streamed: String = texts.iter().map(|delta| if let Delta::Text(text) = delta { &**text } else { "" }).collect();
    assert!(texts.len() > 3 && streamed == long, "{texts:?}");
    assert_eq!(calls, [Delta::ToolCall("map".into())]);
    // Two tools of 7 + 8 + 17 and 3 + 8 + 17 bytes, a task of 4; a reply of 250, and a call of 3 + 2.
    assert_eq!(completion.usage, Usage { input_tokens: 16, output_tokens: 64, ..Usage::default() });
    // A reply that is cut off within its text has no calls.
    request.max_output_tokens = Some(2);
    let cut = complete_with(script, &request).unwrap();
    assert_eq!((cut.parts, cut.stop), (vec!["word wor".into()], StopReason::MaxTokens));
}
