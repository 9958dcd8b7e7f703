//! An MCP server for tests: lines of JSON over standard input and output, and nothing that it does not need.
//!
//! `shelly-mcp-server FILE [PROMPTS]` has the tools that stand in FILE as `tools/list` names them, and looks at it again
//! whenever it is asked. What a tool does its name says: `echo` says what it was given, `again` says that the list has
//! changed, `think` has the client's model reply, `form` has the person fill in one, `roots` names the folders, `changes`
//! says how often it was told that they have changed, `environment` says what it has got, `fail` fails, `die` ends the
//! program. With PROMPTS, a file as `prompts/list` names them, it has prompts, too: each also has its `messages`, in which
//! `$NAME` stands for the argument NAME.

use std::{
    env, fs,
    io::{self, BufRead, Write},
};

use serde_json::{Value, json};

fn main() {
    let file = env::args().nth(1).expect("a file with tools");
    let prompts = env::args().nth(2).unwrap_or_default();
    let capabilities = match prompts.is_empty() {
        false => json!({"tools": {"listChanged": true}, "prompts": {}}),
        true => json!({"tools": {"listChanged": true}}),
    };
    let mut lines = io::stdin().lock().lines();
    let mut changes = 0;
    while let Some(Ok(line)) = lines.next() {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        changes += i32::from(message["method"] == "notifications/roots/list_changed");
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
        let answer = match method {
            "initialize" => json!({"result": {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": {"name": "test", "version": "1"},
            }}),
            "tools/list" => json!({"result": {"tools": listed(&file)}}),
            "prompts/list" if !prompts.is_empty() => json!({"result": {"prompts": listed(&prompts)}}),
            "prompts/get" if !prompts.is_empty() => prompt(&message["params"], &listed(&prompts)),
            "tools/call" if message["params"]["name"] == "changes" => json!({"result": said(&changes.to_string())}),
            "tools/call" => json!({"result": call(&message["params"], &mut lines)}),
            _ => json!({"error": {"code": -32601, "message": "no such method"}}),
        };
        let mut answer = answer;
        answer["id"] = id.clone();
        say(answer);
    }
}

/// The list that stands in a file.
fn listed(file: &str) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_str(&text).expect("a list")
}

/// The answer to a request for a prompt of this list.
fn prompt(params: &Value, prompts: &Value) -> Value {
    let known = prompts.as_array().expect("a list").iter().find(|prompt| prompt["name"] == params["name"]);
    let Some(prompt) = known else { return json!({"error": {"code": -32602, "message": "no such prompt"}}) };
    let mut messages = prompt["messages"].to_string();
    for (name, value) in params["arguments"].as_object().expect("arguments") {
        // As it stands in JSON, without its quotes.
        let value = value.to_string();
        messages = messages.replace(&format!("${name}"), &value[1..value.len() - 1]);
    }
    json!({"result": {"messages": serde_json::from_str::<Value>(&messages).expect("messages")}})
}

fn say(mut message: Value) {
    message["jsonrpc"] = "2.0".into();
    let mut out = io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).expect("somebody listens");
}

/// Asks the client, and waits for its answer.
fn ask(method: &str, params: Value, lines: &mut impl Iterator<Item = io::Result<String>>) -> Value {
    say(json!({"id": "asked", "method": method, "params": params}));
    for line in lines.map_while(Result::ok) {
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if answer["id"] == "asked" => return answer,
            _ => {}
        }
    }
    Value::Null
}

fn call(params: &Value, lines: &mut impl Iterator<Item = io::Result<String>>) -> Value {
    let arguments = &params["arguments"];
    let text = match params["name"].as_str().unwrap_or_default() {
        "again" => {
            say(json!({"method": "notifications/tools/list_changed"}));
            "changed".into()
        }
        "think" => {
            let message = json!({"role": "user", "content": {"type": "text", "text": arguments["about"]}});
            ask("sampling/createMessage", json!({"messages": [message], "maxTokens": 50}), lines).to_string()
        }
        "form" => ask("elicitation/create", arguments.clone(), lines).to_string(),
        "roots" => ask("roots/list", json!({}), lines).to_string(),
        "environment" => {
            let folder = env::current_dir().unwrap_or_default();
            let mut names: Vec<_> = env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            names.sort();
            format!("{} in {}", names.join(" "), folder.display())
        }
        "fail" => return json!({"isError": true, "content": [{"type": "text", "text": "it failed"}]}),
        "die" => std::process::exit(7),
        _ => arguments.to_string(),
    };
    said(&text)
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
