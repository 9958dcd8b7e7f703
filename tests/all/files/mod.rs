//! The plugins `filesystem`, `search` and `fetch` in whole runs of the program: real folders, a real server, and the results
//! that the model reads.

use std::fs;

use serde_json::{Value, json};

use crate::{
    support::{Place, Ran},
    wiring::scripted,
};

mod changing;
mod fetching;
mod searching;

pub use self::{changing::filesystem, fetching::fetch, searching::search};

/// Returns the results that the model received, of an agent with these plugins whose model makes these calls, and the run.
fn told(place: &Place, plugins: &str, calls: &[(&str, Value)]) -> (Vec<String>, Ran) {
    let calls: Vec<_> = calls.iter().map(|(tool, arguments)| (*tool, arguments.to_string())).collect();
    let calls: Vec<_> = calls.iter().map(|(tool, arguments)| (*tool, &**arguments)).collect();
    let server = scripted(&calls);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    place.file(
        "shelly.yaml",
        format!(
            "providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\n\
             agents: [{{name: ada, plugins: {{{plugins}}}}}]\n"
        ),
    );
    let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "go"]);
    let asked = server.asked.lock().unwrap();
    let body = |request: &String| request.split_once("\r\n\r\n").map_or(Value::Null, |(_, body)| body.parse().unwrap());
    let last: Value = asked.last().map_or(Value::Null, body);
    drop(asked);
    let messages = last["messages"].as_array().cloned().unwrap_or_default();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let results: Vec<_> = results.map(|message| text(&message["content"])).collect();
    assert!(ran.code == 0 && results.len() == calls.len(), "{results:?}\n{}", ran.shown());
    (results, ran)
}

/// Asserts that the result of each call of an agent with this one plugin contains its text.
fn tells(place: &Place, plugin: &str, calls: &[(&str, Value, &str)]) {
    let made: Vec<_> = calls.iter().map(|(tool, arguments, _)| (*tool, arguments.clone())).collect();
    let (results, ran) = told(place, plugin, &made);
    for ((tool, arguments, expected), result) in calls.iter().zip(&results) {
        assert!(result.contains(expected), "{tool} {arguments}\n{result}\nhas no\n{expected}\n{}", ran.shown());
    }
}
