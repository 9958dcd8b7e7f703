//! The stream of events of a run: one JSON object a line.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::{
    output_format::RunOutputFormat,
    print::print,
    result_line::{AnswerLine, FailureLine},
    terminal_text::json_line,
};
use crate::event::{EVENT_STREAM_VERSION, StreamEvent, StreamLine, StreamStart};

/// Prints the first line of the stream, if that is the output.
pub fn begin_stream(session: Option<&str>, output: RunOutputFormat) {
    if output == RunOutputFormat::Events {
        let start = StreamStart { version: EVENT_STREAM_VERSION, host: env!("CARGO_PKG_VERSION"), session };
        // That the output cannot be written is reported with the result.
        let _ = print(&json_line(&start));
    }
}

/// Prints the line of an event.
pub fn print_event(session: Option<&str>, event: &StreamEvent) {
    let _ = print(&json_line(&StreamLine { session, event }));
}

/// Returns the JSON Schema (2020-12) of one line of the stream. Each kind of line is a case of its own.
pub fn event_stream_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut event = StreamLine::json_schema(&mut generator).to_value();
    let cases = event["oneOf"].take();
    let mut lines = vec![with_name(StreamStart::json_schema(&mut generator).to_value(), "stream_started")];
    lines.extend(cases.as_array().into_iter().flatten().map(|case| with_place(case, &event)));
    lines.push(with_name(AnswerLine::json_schema(&mut generator).to_value(), "result"));
    lines.push(with_name(FailureLine::json_schema(&mut generator).to_value(), "result"));
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("One line of the stream of events of shelly-host, version {EVENT_STREAM_VERSION}"),
        "oneOf": lines,
        "$defs": generator.take_definitions(false),
    });
    describe_for_readers(&mut schema);
    schema
}

/// Returns the schema of a line that is no event with its name, which schemas of structs do not have.
fn with_name(mut line: Value, name: &str) -> Value {
    if let Some(properties) = line["properties"].as_object_mut() {
        properties.insert("event".into(), json!({ "type": "string", "const": name }));
    }
    if let Some(required) = line["required"].as_array_mut() {
        required.insert(0, json!("event"));
    }
    line
}

/// Returns the schema of an event with the fields that all events have, which `place` describes.
fn with_place(case: &Value, place: &Value) -> Value {
    let mut case = case.clone();
    if let (Some(all), Some(own)) = (place["properties"].as_object(), case["properties"].as_object_mut()) {
        let mut properties = all.clone();
        properties.append(own);
        *own = properties;
    }
    if let (Some(all), Some(own)) = (place["required"].as_array(), case["required"].as_array_mut()) {
        own.extend(all.iter().cloned());
    }
    case
}

/// Rewrites descriptions for readers of JSON: `null` in place of `None`, and no links to items of the code.
fn describe_for_readers(schema: &mut Value) {
    match schema {
        Value::Object(words) => {
            if let Some(Value::String(text)) = words.get_mut("description") {
                *text = in_json(text);
            }
            words.values_mut().for_each(describe_for_readers);
        }
        Value::Array(list) => list.iter_mut().for_each(describe_for_readers),
        _ => {}
    }
}

fn in_json(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    // A link is `[text](target)` or `[text]`; no other bracket comes before a backtick.
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        let after = after.strip_prefix('(').and_then(|target| target.split_once(')')).map_or(after, |(_, after)| after);
        let name = name.rsplit("::").next().unwrap_or(name);
        plain.push_str(&format!("{before}`{name}`"));
        rest = after;
    }
    plain.push_str(rest);
    plain.replace("`None`", "`null`").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::Map;

    use super::*;
    use crate::event::Event;

    /// Returns the kinds of lines that the schema names, each with its keys and the required ones.
    fn lines() -> Vec<(String, Map<String, Value>, Vec<Value>)> {
        let schema = event_stream_schema();
        let lines = schema["oneOf"].as_array().unwrap().iter().map(|line| {
            let properties = line["properties"].as_object().unwrap().clone();
            let name = properties["event"]["const"].as_str().unwrap().to_owned();
            (name, properties, line["required"].as_array().unwrap().clone())
        });
        lines.collect()
    }

    #[test]
    fn every_line_of_the_stream_has_a_schema() {
        let lines = lines();
        let names: Vec<_> = lines.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!((names[0], &names[names.len() - 2..]), ("stream_started", &["result", "result"][..]));
        assert!(names.len() > 30 && names.contains(&"run_finished"), "{names:?}");
        for (name, properties, required) in &lines[1..lines.len() - 2] {
            for key in ["sequence", "time"] {
                assert!(properties.contains_key(key) && required.contains(&json!(key)), "{name}: {key}");
            }
            for key in ["run", "parent", "session"] {
                assert!(properties.contains_key(key) && !required.contains(&json!(key)), "{name}: {key}");
            }
        }
        let text = event_stream_schema().to_string();
        assert!(!text.contains("`None`") && !text.contains("](") && !text.contains("[`"), "it speaks of the code");
    }

    #[test]
    fn keys_of_an_event_are_those_of_its_schema() {
        let event = Event::RunFinished {
            agent: "ada".into(),
            error: None,
            iterations: 1,
            usage: Default::default(),
            of_children: Default::default(),
            duration: Duration::from_millis(2),
        };
        let (run, parent) = (Some("r.1".into()), Some("r".into()));
        let event = StreamEvent { sequence: 1, time: UNIX_EPOCH, run, parent, event };
        let line = json!(StreamLine { session: Some("s"), event: &event });
        let (_, properties, _) = lines().into_iter().find(|(name, ..)| name == "run_finished").unwrap();
        let (mut written, mut known): (Vec<_>, Vec<_>) =
            (line.as_object().unwrap().keys().collect(), properties.keys().collect());
        written.sort();
        known.sort();
        assert_eq!(written, known);
    }
}
