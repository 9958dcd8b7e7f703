//! The parts of a log of Inspect by which nothing is written again and again: the messages that requests have in common,
//! and long texts.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;

use super::spans::{RequestSpan, RunSpan};
use shelly_core::{digest::Sha256Digest, limits};

/// The scheme of a text that names an attachment.
const ATTACHMENT: &str = "attachment://";
/// The scheme that Inspect had for that before.
const OLDER_ATTACHMENT: &str = "tc://";
/// The digits of the name of an attachment.
const NAME_DIGITS: usize = 32;

/// The places of messages in the pool of a log: those of each request follow those of the request before it, and its reply
/// follows them.
#[derive(Default)]
pub(crate) struct MessagePool {
    /// The place of the next message.
    next: u64,
    /// The ranges of the messages that each open run has heard, without their ends.
    heard: HashMap<Arc<str>, Vec<[u64; 2]>>,
}

impl MessagePool {
    /// Adds the messages of a request. Returns the ranges of those that its run has heard by then.
    pub fn add(&mut self, request: &RequestSpan, input: usize, output: usize) -> Vec<[u64; 2]> {
        let ranges = self.heard.entry(Arc::clone(&request.run.id)).or_default();
        extend(ranges, &mut self.next, input as u64);
        let before = ranges.clone();
        extend(ranges, &mut self.next, output as u64);
        before
    }

    /// Forgets a run that has ended.
    pub fn end(&mut self, run: &RunSpan) {
        self.heard.remove(&run.id);
    }
}

fn extend(ranges: &mut Vec<[u64; 2]>, next: &mut u64, count: u64) {
    if count == 0 {
        return;
    }
    let start = *next;
    *next += count;
    match ranges.last_mut() {
        Some([_, end]) if *end == start => *end = *next,
        _ => ranges.push([start, *next]),
    }
    if ranges.len() > limits::TRACE_INPUT_RANGES {
        ranges.remove(0);
    }
}

/// A walk over the texts of a value that may be attachments.
type TextVisit = fn(&mut Value, &mut dyn FnMut(&mut String));

/// The attachments that were written, by name.
#[derive(Default)]
pub(crate) struct WrittenAttachments(HashSet<String>);

impl WrittenAttachments {
    /// Returns the name and the text of an attachment for each long text of a value that has none yet. If there are too many
    /// to remember, one may come again, which says the same.
    pub fn of(&mut self, mut value: Value, visit: TextVisit) -> Vec<(String, String)> {
        let mut new = Vec::new();
        visit(&mut value, &mut |text: &mut String| {
            if !is_attached(text) {
                return;
            }
            let name = name_of(text);
            if self.0.contains(&name) {
                return;
            }
            if self.0.len() < limits::TRACE_ATTACHMENTS {
                self.0.insert(name.clone());
            }
            new.push((name, std::mem::take(text)));
        });
        new
    }
}

/// Returns a message whose long texts are names of attachments.
pub(crate) fn with_attachments(mut message: Value) -> Value {
    visit_message(&mut message, &mut refer);
    message
}

/// Returns the arguments of a call with the names of attachments in the place of long texts.
pub(crate) fn arguments_with_attachments(mut arguments: Value) -> Value {
    visit_json(&mut arguments, &mut refer);
    arguments
}

/// Visits the texts of a message that may be attachments.
pub(crate) fn visit_message(message: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match message.get_mut("content") {
        Some(Value::String(text)) => visit(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                for key in ["text", "reasoning"] {
                    if let Some(Value::String(text)) = part.get_mut(key) {
                        visit(text);
                    }
                }
            }
        }
        _ => {}
    }
    if let Some(Value::Array(calls)) = message.get_mut("tool_calls") {
        calls
            .iter_mut()
            .filter_map(|call| call.get_mut("arguments"))
            .for_each(|arguments| visit_json(arguments, visit));
    }
}

/// Visits the texts in a JSON value, apart from keys.
pub(crate) fn visit_json(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter_mut().for_each(|value| visit_json(value, visit)),
        Value::Object(members) => members.values_mut().for_each(|value| visit_json(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn refer(text: &mut String) {
    if is_attached(text) {
        *text = format!("{ATTACHMENT}{}", name_of(text));
    }
}

/// Returns `true` for a long text, and for one that would be taken for the name of an attachment.
fn is_attached(text: &str) -> bool {
    text.chars().nth(limits::TRACE_INLINE_CHARS).is_some()
        || text.starts_with(ATTACHMENT)
        || text.starts_with(OLDER_ATTACHMENT)
}

fn name_of(text: &str) -> String {
    let mut name = Sha256Digest::of(text).hex();
    name.truncate(NAME_DIGITS);
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        spans::{RequestSpan, RunEnd},
        tests::run_span,
    };

    fn request(run: &str) -> RequestSpan {
        let run = run_span(run, RunEnd::Open);
        RequestSpan {
            step: 0,
            iteration: 0,
            model: "m".into(),
            started: run.started,
            ended: run.ended,
            retries: 0,
            stop: None,
            usage: Default::default(),
            usd: None,
            error: None,
            input: Vec::new(),
            output: None,
            run,
        }
    }

    #[test]
    fn request_names_all_that_its_run_has_heard() {
        let mut pool = MessagePool::default();
        let (one, other) = (request("a"), request("b"));
        assert_eq!(pool.add(&one, 2, 1), [[0_u64, 2]]);
        assert_eq!(pool.add(&one, 1, 1), [[0_u64, 4]]);
        assert_eq!(pool.add(&other, 1, 1), [[5_u64, 6]]);
        assert_eq!(pool.add(&one, 1, 0), [[0_u64, 5], [7, 8]]);
        assert_eq!(pool.add(&one, 0, 0), [[0_u64, 5], [7, 8]]);
        pool.end(&one.run);
        assert_eq!(pool.add(&one, 0, 0), [[0_u64; 2]; 0]);
        for _ in 0..2 * limits::TRACE_INPUT_RANGES {
            pool.add(&one, 1, 0);
            pool.add(&other, 1, 0);
        }
        let newest = pool.next;
        let ranges = pool.add(&one, 1, 0);
        assert_eq!((ranges.len(), ranges.last()), (limits::TRACE_INPUT_RANGES, Some(&[newest, newest + 1])));
    }

    #[test]
    fn long_text_is_one_attachment_wherever_it_occurs() {
        let (long, short) = ("x".repeat(limits::TRACE_INLINE_CHARS + 1), "y".repeat(limits::TRACE_INLINE_CHARS));
        let call = json!({"id": "c", "arguments": {"a": [long], "b": short, (long.as_str()): 1}});
        let content = json!([{"type": "text", "text": long}, {"type": "reasoning", "reasoning": short}]);
        let message = json!({"role": "assistant", "content": content, "tool_calls": [call]});
        let mut written = WrittenAttachments::default();
        let attached = written.of(message.clone(), visit_message);
        let [(name, text)] = &attached[..] else { panic!("{attached:?}") };
        assert_eq!((text, name.len()), (&long, NAME_DIGITS));
        assert!(written.of(json!({"content": long}), visit_message).is_empty());
        let reference = format!("attachment://{name}");
        let shown = with_attachments(message);
        assert_eq!(
            (&shown["content"][0]["text"], &shown["content"][1]["reasoning"]),
            (&json!(reference), &json!(short))
        );
        assert_eq!(shown["tool_calls"][0]["arguments"]["a"][0], json!(reference));
        // A text that looks like a reference is none.
        let fake = json!({"content": reference});
        let attached = written.of(fake.clone(), visit_message);
        assert_eq!(attached[0].1, reference);
        assert_ne!(with_attachments(fake)["content"], json!(reference));
    }

    #[test]
    fn remembered_attachments_are_bounded() {
        let mut written = WrittenAttachments::default();
        for number in 0..limits::TRACE_ATTACHMENTS {
            written.0.insert(number.to_string());
        }
        let long = json!({"content": "x".repeat(limits::TRACE_INLINE_CHARS + 1)});
        assert_eq!(written.of(long.clone(), visit_message).len(), 1);
        assert_eq!(written.of(long, visit_message).len(), 1, "again");
        assert_eq!(written.0.len(), limits::TRACE_ATTACHMENTS);
    }
}
