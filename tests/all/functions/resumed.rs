//! Function handles in resumed conversations: the old ones are lost, which is reported, and new ones work.

use super::*;
use crate::bad_input::{Server, answer};

/// The results of the calls that a model is shown, the last one first; how many of them are of its newest task.
fn results(request: &str) -> (Vec<String>, usize) {
    let request: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let messages = request["messages"].as_array().unwrap().iter().rev();
    let is_result = |message: &&Value| message["role"] == "tool";
    let newest = messages.clone().take_while(|message| message["role"] != "user").filter(is_result).count();
    let text = |message: &Value| message["content"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned();
    (messages.filter(is_result).map(text).collect(), newest)
}

fn reply(message: &Value, stop: &str) -> String {
    let choice = json!({"message": message, "finish_reason": stop});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
    answer("200 OK", &json!({"choices": [choice], "usage": usage}).to_string())
}

/// A model that creates a counter, counts with the newest handle that it finds, and replaces a handle that is lost. It
/// answers with the newest result.
fn model() -> Server {
    Server::start(|request| {
        let (told, newest) = results(request);
        let call = |name: &str, arguments: Value| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let id = format!("c{}", told.len());
            reply(&json!({"tool_calls": [{"id": id, "type": "function", "function": function}]}), "tool_calls")
        };
        let handle = told.iter().find(|text| text.starts_with("\"counter#")).map(|text| text.trim_matches('"'));
        match (told.first().filter(|_| newest > 0), handle) {
            (Some(last), _) if last == "44" => reply(&json!({"content": "44"}), "stop"),
            (Some(last), _) if last.contains("is not a handle of this run") => {
                call("counter_new", json!({"start": 40}))
            }
            (_, Some(handle)) => call("counter_increment", json!({"self": handle, "by": 4})),
            (_, None) => call("counter_new", json!({"start": 1})),
        }
    })
}

#[test]
fn resumed_session_reports_that_function_handles_are_lost() {
    let (place, model) = (Place::new(), model());
    let config = |turns: u32| {
        format!(
            "providers: [{{name: m, kind: openai, base_url: 'http://127.0.0.1:{}/v1', model: m}}]\n\
             plugin_dirs: ['{}']\n\
             agents: [{{name: a, plugins: {{plain-counters: }}, options: {{max_iterations: {turns}}}}}]\n",
            model.port,
            crate::GUEST_ROOT
        )
    };
    // It comes as far as having a handle.
    place.file("shelly.yaml", config(1));
    let ran = place.run(&["run", "count", "--session", "s"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    place.file("shelly.yaml", config(9));
    let ran = place.run(&["session", "resume", "s"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "44\n"), "{}", ran.shown());
    let told = || {
        let asked = model.asked.lock().unwrap();
        results(asked.last().unwrap()).0.into_iter().rev().collect::<Vec<_>>()
    };
    let is_gone = |handle: &str| {
        let handle = handle.trim_matches('"');
        format!(
            "Error: self: `{handle}` is not a handle of this run: handles are lost when a run ends or is interrupted; \
             create a new one"
        )
    };
    let all = told();
    let [first, gone, second, counted] = &all[..] else { panic!("{all:#?}") };
    assert_eq!((gone.as_str(), counted.as_str()), (is_gone(first).as_str(), "44"));
    assert!(second.starts_with("\"counter#1-") && second != first, "the same number, and another handle: {all:#?}");
    // So it is for the next task of a session.
    let ran = place.run(&["session", "resume", "s", "count on"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "44\n"), "{}", ran.shown());
    let all = told();
    assert_eq!(all.len(), 7, "{all:#?}");
    assert_eq!(all[4], is_gone(second));
}
