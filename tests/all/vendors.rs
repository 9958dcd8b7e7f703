//! The rules that vendors publish and their servers enforce for a conversation: a request that breaks one of them is refused
//! whole. A conversation is converted to the format of each vendor and checked.
//!
//! The conversions that each provider makes anyway are made here too: neighbours of one role are merged for Anthropic, blank
//! pieces beside others are left out, calls stand after all else in their message, and arguments that are no object are
//! wrapped. Everything else is the conversation's own.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use serde_json::{Value, json};
use shelly_host::{
    chat::{ChatSnapshot, Message, Part, Role, ToolCall, ToolSpec},
    model::CompletionRequest,
};

/// A rule that is broken: whose, which, and at which message of the conversation.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    vendor: &'static str,
    message: usize,
    rule: &'static str,
    detail: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: message {}: {}: {}", self.vendor, self.message, self.rule, self.detail)
    }
}

const SYSTEM_FIRST: &str = "a system message must be the first message";
const USER_FIRST: &str = "the first message after the system message is a user's";
const ALTERNATE: &str = "user and assistant take turns";
const SAYS_SOMETHING: &str = "a message has something in it, and no text is blank";
const NO_LAST_THOUGHT: &str = "a thought is not the last piece of a message";
const CALL_BY_ASSISTANT: &str = "only an assistant calls";
const RESULT_TO_ASSISTANT: &str = "only a user's message has results";
const CALL_LAST: &str = "nothing follows the calls in their message";
const CALL_ID: &str = "a call has an id of its own";
const CALL_NAME: &str = "a called tool has a name of A-Z a-z 0-9 _ -";
const CALL_ARGUMENTS: &str = "arguments are a JSON object";
const ANSWERED: &str = "each call is answered once, at the beginning of the next message";
const RESULT_OF_CALL: &str = "a result answers a call of the message before";
const TOOL_AFTER_CALLS: &str = "a tool message answers a call of the assistant message before";
const ENDS_WITH_USER: &str = "a request ends with a user's message or a result";
const TOOL_NAMES: &str = "no two tools have one name";

/// A conversation at rest: valid for every vendor, and its own figures are right.
///
/// # Panics
///
/// With the rule that is broken, and the conversation.
#[track_caller]
pub fn check_transcript(chat: &ChatSnapshot) {
    let messages: Vec<_> = chat.iter().map(|entry| &*entry.message).collect();
    if let Err(broken) = check_messages(&messages) {
        panic!("{broken}\n{messages:#?}");
    }
    let ids: HashSet<_> = chat.iter().map(|entry| entry.id).collect();
    assert_eq!(ids.len(), chat.len(), "two messages have one id");
    assert_eq!(chat.tokens(), chat.iter().map(|entry| u64::from(entry.tokens)).sum::<u64>());
    assert_eq!(chat.bytes(), messages.iter().map(|message| message.bytes()).sum::<usize>());
    let mut group = None;
    for entry in chat.iter() {
        match entry.message.role {
            Role::Tool => {}
            _ => group = entry.message.tool_calls().next().map(|_| entry.id),
        }
        assert_eq!(entry.group, group, "message {} is in the wrong group", entry.id);
    }
}

/// A conversation of these messages.
pub fn check_messages(messages: &[&Message]) -> Result<(), Broken> {
    check_anthropic(&anthropic(messages)?)?;
    check_openai(&openai(messages))
}

/// Checks a model request: a conversation that waits for a reply, and tools.
pub fn check_request(request: &CompletionRequest) -> Result<(), Broken> {
    let messages: Vec<_> = request.messages.iter().map(|entry| &*entry.message).collect();
    check_messages(&messages)?;
    let broken = |rule, detail: String| Err(Broken { vendor: "both", message: messages.len(), rule, detail });
    match messages.last().map(|message| message.role) {
        Some(Role::User | Role::Tool) => {}
        last => return broken(ENDS_WITH_USER, format!("{last:?}")),
    }
    let mut names = HashSet::new();
    match request.tools.iter().find(|tool| !names.insert(&*tool.name)) {
        Some(tool) => broken(TOOL_NAMES, tool.name.clone()),
        None => Ok(()),
    }
}

/// Messages of a vendor, each with the place of what it was made of.
type Wire = Vec<(usize, Value)>;

// ---- Anthropic Messages

fn anthropic(messages: &[&Message]) -> Result<Wire, Broken> {
    let mut wire: Wire = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = match message.role {
            // It has a field of its own.
            Role::System if at == 0 => continue,
            Role::System => {
                let detail = message.text_content();
                return Err(Broken { vendor: "Anthropic", message: at, rule: SYSTEM_FIRST, detail });
            }
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        let (calls, others): (Vec<_>, Vec<_>) = message.parts.iter().partition(|part| is_call(part));
        let blocks: Vec<_> = others.into_iter().chain(calls).filter_map(block).collect();
        match wire.last_mut() {
            // A message that came to nothing stays one, to be found.
            Some((_, last)) if last["role"] == role && !blocks.is_empty() && last["content"] != json!([]) => {
                last["content"].as_array_mut().unwrap().extend(blocks);
            }
            _ => wire.push((at, json!({"role": role, "content": blocks}))),
        }
    }
    Ok(wire)
}

fn is_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall(_))
}

fn block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(text) if text.trim().is_empty() => return None,
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Media(media) => json!({"type": "image", "source": {"media_type": media.media_type}}),
        Part::Thinking(thinking) => {
            let signature = thinking.opaque.as_ref()?;
            json!({"type": "thinking", "thinking": thinking.text, "signature": signature})
        }
        Part::ToolCall(call) => {
            json!({"type": "tool_use", "id": call.id, "name": name(call), "input": arguments(call)})
        }
        Part::ToolResult(result) => json!({
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.text(),
            "is_error": result.is_error,
        }),
        Part::Other(opaque) => json!({"type": "text", "text": opaque.json}),
    })
}

fn check_anthropic(messages: &[(usize, Value)]) -> Result<(), Broken> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut before = None;
    for (at, message) in messages {
        let broken =
            |rule, detail: &Value| Err(Broken { vendor: "Anthropic", message: *at, rule, detail: detail.to_string() });
        let (role, blocks) = (&message["role"], message["content"].as_array().unwrap());
        let is_user = role == "user";
        match before {
            None if !is_user => return broken(USER_FIRST, message),
            Some(before) if before == role => return broken(ALTERNATE, message),
            _ => before = Some(role),
        }
        match blocks.last() {
            None => return broken(SAYS_SOMETHING, message),
            Some(last) if last["type"] == "thinking" => return broken(NO_LAST_THOUGHT, last),
            _ => {}
        }
        let called: Vec<_> = std::mem::take(&mut open);
        let mut answered = BTreeSet::new();
        for (position, block) in blocks.iter().enumerate() {
            match block["type"].as_str() {
                Some("text") if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) => {
                    return broken(SAYS_SOMETHING, block);
                }
                Some("tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    if is_user {
                        return broken(CALL_BY_ASSISTANT, block);
                    }
                    if id.is_empty() || !ids.insert(id) {
                        return broken(CALL_ID, block);
                    }
                    if !block["name"].as_str().is_some_and(ToolSpec::is_valid_name) {
                        return broken(CALL_NAME, block);
                    }
                    if !block["input"].is_object() {
                        return broken(CALL_ARGUMENTS, block);
                    }
                    open.push(id);
                }
                _ if !open.is_empty() => return broken(CALL_LAST, block),
                Some("tool_result") => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    if !is_user {
                        return broken(RESULT_TO_ASSISTANT, block);
                    }
                    if !called.contains(&id) {
                        return broken(RESULT_OF_CALL, block);
                    }
                    // The first so many blocks, each another id.
                    if !answered.insert(id) || position >= called.len() {
                        return broken(ANSWERED, block);
                    }
                }
                _ => {}
            }
        }
        if answered.len() < called.len() {
            return broken(ANSWERED, &json!(called));
        }
    }
    match open.first() {
        Some(call) => {
            let at = messages.last().map_or(0, |(at, _)| *at);
            Err(Broken { vendor: "Anthropic", message: at, rule: ANSWERED, detail: (*call).into() })
        }
        None => Ok(()),
    }
}

// ---- OpenAI Chat Completions

fn openai(messages: &[&Message]) -> Wire {
    let mut wire = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let content: Vec<_> = message.parts.iter().filter(|part| !is_call(part)).filter_map(content).collect();
        let calls: Vec<_> = message.tool_calls().map(openai_call).collect();
        match message.role {
            Role::System => wire.push((at, json!({"role": "system", "content": message.text_content()}))),
            Role::User => wire.push((at, json!({"role": "user", "content": content, "tool_calls": calls}))),
            Role::Assistant => wire.push((at, json!({"role": "assistant", "content": content, "tool_calls": calls}))),
            // One without a result comes to nothing, and is to be found.
            Role::Tool if message.tool_results().next().is_none() => wire.push((at, json!({"role": "tool"}))),
            Role::Tool => {
                let result = |result: &shelly_host::chat::ToolResult| {
                    (at, json!({"role": "tool", "tool_call_id": result.call_id, "content": result.text()}))
                };
                wire.extend(message.tool_results().map(result));
            }
        }
    }
    wire
}

fn content(part: &Part) -> Option<Value> {
    match part {
        Part::Thinking(_) => None,
        Part::ToolResult(_) => Some(json!({"type": "tool_result"})),
        part => block(part),
    }
}

fn openai_call(call: &ToolCall) -> Value {
    let function = json!({"name": name(call), "arguments": arguments(call).to_string()});
    json!({"id": call.id, "type": "function", "function": function})
}

fn check_openai(messages: &[(usize, Value)]) -> Result<(), Broken> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (position, (at, message)) in messages.iter().enumerate() {
        let broken =
            |rule, detail: &Value| Err(Broken { vendor: "OpenAI", message: *at, rule, detail: detail.to_string() });
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(call) = open.iter().position(|call| *call == id) else {
                return broken(TOOL_AFTER_CALLS, message);
            };
            open.remove(call);
            continue;
        }
        if !open.is_empty() {
            return broken(ANSWERED, &json!(open));
        }
        if role == "system" {
            if position > 0 {
                return broken(SYSTEM_FIRST, message);
            }
            continue;
        }
        let list = |key: &str| message[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let (content, calls) = (list("content"), list("tool_calls"));
        if content.is_empty() && calls.is_empty() {
            return broken(SAYS_SOMETHING, message);
        }
        if let Some(result) = content.iter().find(|piece| piece["type"] == "tool_result") {
            return broken(TOOL_AFTER_CALLS, result);
        }
        for call in calls {
            let (id, function) = (call["id"].as_str().unwrap_or_default(), &call["function"]);
            if role != "assistant" {
                return broken(CALL_BY_ASSISTANT, call);
            }
            if id.is_empty() || !ids.insert(id) {
                return broken(CALL_ID, call);
            }
            if !function["name"].as_str().is_some_and(ToolSpec::is_valid_name) {
                return broken(CALL_NAME, call);
            }
            let arguments = function["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|arguments| arguments.is_object()) {
                return broken(CALL_ARGUMENTS, call);
            }
            open.push(id);
        }
    }
    match open.first() {
        Some(call) => {
            let at = messages.last().map_or(0, |(at, _)| *at);
            Err(Broken { vendor: "OpenAI", message: at, rule: ANSWERED, detail: (*call).into() })
        }
        None => Ok(()),
    }
}

// ---- what both need

/// A name that a model made up, as a provider must write it.
fn name(call: &ToolCall) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = call.name.chars().take(64).map(allowed).collect();
    if name.is_empty() { "_".into() } else { name }
}

/// Arguments as a provider must write them.
fn arguments(call: &ToolCall) -> Value {
    match call.arguments.trim() {
        "" => json!({}),
        written => match serde_json::from_str::<Value>(written) {
            Ok(object @ Value::Object(_)) => object,
            _ => json!({"invalid_arguments": written}),
        },
    }
}

#[cfg(test)]
mod tests {
    use shelly_host::chat::{ThinkingPart, ToolResult};

    use super::*;

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message { sender: String::new(), role, parts, meta: vec![] }
    }

    fn call(id: &str) -> Part {
        Part::ToolCall(ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into(), meta: vec![] })
    }

    fn result(id: &str) -> Part {
        Part::ToolResult(ToolResult { call_id: id.into(), content: vec![], is_error: false })
    }

    /// A conversation in short: `S` system, `U` user, `A` assistant, each with what follows `:` as text; `?x` calls,
    /// `=x` a message with a result, `=x=y` one with two.
    fn conversation(short: &str) -> Vec<Message> {
        let one = |word: &str| match word.split_at(1) {
            ("S", text) => Message::text(Role::System, "", text.trim_start_matches(':')),
            ("U", text) => Message::user(text.trim_start_matches(':')),
            ("A", text) => Message::text(Role::Assistant, "", text.trim_start_matches(':')),
            ("?", ids) => message(Role::Assistant, ids.split('?').map(call).collect()),
            ("=", ids) => message(Role::Tool, ids.split('=').map(result).collect()),
            other => panic!("{other:?}"),
        };
        short.split_whitespace().map(one).collect()
    }

    fn check(messages: &[Message]) -> Result<(), Broken> {
        check_messages(&messages.iter().collect::<Vec<_>>())
    }

    #[test]
    fn valid_vendor_conversations_are_accepted() {
        for short in [
            "",
            "S:s",
            "S:s U:hi",
            "U:hi A:hello U:more U:and A:yes A:no",
            "S:s U:go ?x?y =x =y A:done",
            "U:go ?x?y =x=y U:note ?z =z",
            "U:go ?x =x ?y =y U:note U:note A:done",
        ] {
            assert_eq!(check(&conversation(short)), Ok(()), "{short}");
        }
        let mut spoken = conversation("U:go ?x =x");
        // Text after calls is put before them, blank text is left out, names and arguments are mended.
        spoken[1].parts.extend([Part::Text("looking".into()), Part::Text(" ".into())]);
        for (name, arguments) in [("t", ""), ("t", "[1]"), ("t", "{"), ("get weather!", "{}"), ("", r#"{"a":1}"#)] {
            let Part::ToolCall(call) = &mut spoken[1].parts[0] else { unreachable!() };
            (call.name, call.arguments) = (name.into(), arguments.into());
            assert_eq!(check(&spoken), Ok(()), "{name} {arguments}");
        }
    }

    #[test]
    fn invalid_vendor_conversation_is_refused_with_its_rule() {
        for (short, message, rule) in [
            ("U:hi S:s", 1, SYSTEM_FIRST),
            ("S:s S:s", 1, SYSTEM_FIRST),
            ("S:s A:hello", 1, USER_FIRST),
            ("?x =x U:hi", 0, USER_FIRST),
            ("U", 0, SAYS_SOMETHING),
            ("U:hi A U:hi", 1, SAYS_SOMETHING),
            ("U:hi U", 1, ALTERNATE),
            ("U:go ?x", 1, ANSWERED),
            ("U:go ?x U:go", 2, ANSWERED),
            ("U:go ?x?y =x", 2, ANSWERED),
            ("U:go ?x?y =x U:note =y", 2, ANSWERED),
            ("U:go ?x U:note =x", 2, ANSWERED),
            ("U:go ?x =x=x", 2, ANSWERED),
            ("U:go ?x =x =x", 2, ANSWERED),
            ("U:go ?x =y", 2, RESULT_OF_CALL),
            ("U:go =x", 0, RESULT_OF_CALL),
            ("U:go ?x =x A:done =x", 4, RESULT_OF_CALL),
            ("U:go ?x =x ?x =x", 3, CALL_ID),
            ("U:go ?x?x =x", 1, CALL_ID),
            ("U:go ? =", 1, CALL_ID),
            ("U:go ?x ?y =x =y", 2, ANSWERED),
            ("U:go ?x A:hm =x", 1, CALL_LAST),
        ] {
            let broken = check(&conversation(short)).expect_err(short);
            assert_eq!((broken.message, broken.rule), (message, rule), "{short}: {broken}");
        }
    }

    #[test]
    fn vendor_parts_of_the_wrong_role_are_refused() {
        let thought = Part::Thinking(ThinkingPart { text: "hm".into(), opaque: Some("s".into()) });
        for (messages, at, rule) in [
            (vec![message(Role::User, vec![call("x")])], 0, CALL_BY_ASSISTANT),
            (vec![Message::user("go"), message(Role::Assistant, vec![result("x")])], 1, RESULT_TO_ASSISTANT),
            (vec![Message::user("go"), message(Role::Assistant, vec![thought])], 1, NO_LAST_THOUGHT),
            (vec![Message::user("go"), message(Role::Tool, vec![Part::Text("!".into())])], 1, TOOL_AFTER_CALLS),
        ] {
            let broken = check(&messages).unwrap_err();
            assert_eq!((broken.message, broken.rule), (at, rule), "{broken}");
        }
    }

    /// The conversions would mend some of these errors, and the check of one vendor would hide those of the other.
    #[test]
    fn vendor_wire_formats_are_checked_separately() {
        let wire = |messages: Value| -> Wire { messages.as_array().unwrap().iter().cloned().enumerate().collect() };
        let user = json!({"role": "user", "content": [{"type": "text", "text": "go"}]});
        let used = |id: &str, name: &str, input: Value| {
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
            json!({"role": "assistant", "content": [block]})
        };
        let blank = json!({"role": "user", "content": [{"type": "text", "text": " "}]});
        for (messages, rule) in [
            (json!([user, user]), ALTERNATE),
            (json!([blank]), SAYS_SOMETHING),
            (json!([user, used("x", "a b", json!({}))]), CALL_NAME),
            (json!([user, used("x", "", json!({}))]), CALL_NAME),
            (json!([user, used("x", "t", json!("{}"))]), CALL_ARGUMENTS),
            (json!([user, used("x", "t", json!({}))]), ANSWERED),
        ] {
            assert_eq!(check_anthropic(&wire(messages)).unwrap_err().rule, rule);
        }
        let called = |id: &str, name: &str, arguments: &str| {
            let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            json!({"role": "assistant", "content": [], "tool_calls": [call]})
        };
        let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": ""});
        let system = json!({"role": "system", "content": "s"});
        let nothing = json!({"role": "assistant", "content": [], "tool_calls": []});
        for (messages, rule) in [
            (json!([user, system]), SYSTEM_FIRST),
            (json!([user, nothing]), SAYS_SOMETHING),
            (json!([user, called("", "t", "{}")]), CALL_ID),
            (json!([user, called("x", "t", "{}"), tool("x"), called("x", "t", "{}")]), CALL_ID),
            (json!([user, called("x", "a b", "{}")]), CALL_NAME),
            (json!([user, called("x", "t", "[]")]), CALL_ARGUMENTS),
            (json!([user, called("x", "t", "")]), CALL_ARGUMENTS),
            (json!([user, called("x", "t", "{}")]), ANSWERED),
            (json!([user, called("x", "t", "{}"), user, tool("x")]), ANSWERED),
            (json!([user, called("x", "t", "{}"), tool("x"), tool("x")]), TOOL_AFTER_CALLS),
            (json!([user, tool("x")]), TOOL_AFTER_CALLS),
        ] {
            assert_eq!(check_openai(&wire(messages)).unwrap_err().rule, rule);
        }
        let mut request = CompletionRequest::new(ChatSnapshot::default(), [].into());
        assert_eq!(check_request(&request).unwrap_err().rule, ENDS_WITH_USER);
        request.messages = ChatSnapshot::from_messages(conversation("U:go A:done")).unwrap();
        assert_eq!(check_request(&request).unwrap_err().rule, ENDS_WITH_USER);
        request.messages = ChatSnapshot::from_messages(conversation("U:go ?x =x")).unwrap();
        assert_eq!(check_request(&request), Ok(()));
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        struct Nothing {}
        let spec: std::sync::Arc<ToolSpec> = shelly_host::tool::spec::<Nothing>("t", "").into();
        request.tools = [spec.clone(), spec].into();
        assert_eq!(check_request(&request).unwrap_err().rule, TOOL_NAMES);
    }
}
