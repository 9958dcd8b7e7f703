//! Events of a run on another host, as lines for people. They come from the bus, and may be anything.

use serde_json::Value;

use crate::{
    cli::render::{DIM, PLAIN, one_line},
    limits,
};

/// The kinds of events that a person is shown, and the members with what is said about each.
const SHOWN: [(&str, &[&str]); 16] = [
    ("run_started", &["model"]),
    ("run_finished", &["error"]),
    ("model_failed", &["reason"]),
    ("model_waits", &["detail"]),
    ("tool_started", &["tool", "arguments"]),
    ("tool_finished", &["tool", "error"]),
    ("file_change", &["path"]),
    ("effect_failed", &["effect", "reason"]),
    ("middleware_failed", &["middleware", "reason"]),
    ("member_replied", &["text"]),
    ("handed_over", &["to", "reason"]),
    ("overspent", &["message"]),
    ("question_asked", &["id", "question"]),
    ("question_answered", &["id", "outcome"]),
    ("warning", &["message"]),
    ("gap", &["from", "to"]),
];

/// Formats an event; `None` for one that says little to a person.
pub fn event_line(event: &Value) -> Option<String> {
    let kind = event["event"].as_str()?;
    let (_, members) = SHOWN.iter().find(|(shown, _)| *shown == kind)?;
    let said = members.iter().filter_map(|member| match &event[*member] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    });
    let said = one_line(&said.collect::<Vec<_>>().join(" "), limits::CLUSTER_REASON_CHARS);
    let agent = one_line(event["agent"].as_str().unwrap_or("-"), limits::NAME_SHOWN_CHARS);
    Some(format!("{DIM}{agent}{PLAIN} {} {said}", kind.replace('_', " ")).trim_end().to_owned())
}

/// Returns `true` if the questions of the run may have changed.
pub fn is_about_questions(event: &Value) -> bool {
    event["event"].as_str().is_some_and(|kind| kind.starts_with("question_"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_others_are_shown_on_one_harmless_line() {
        let event = json!({"event": "tool_started", "agent": "ada\u{1b}[2J", "tool": "search", "arguments": "{\n}"});
        let line = event_line(&event).unwrap();
        assert!(line.contains("tool started search") && !line.contains('\n') && !line.contains("\u{1b}[2J"), "{line}");
        assert!(event_line(&json!({"event": "model_delta"})).is_none() && event_line(&json!(7)).is_none());
        assert!(is_about_questions(&json!({"event": "question_asked"})) && !is_about_questions(&json!([])));
    }
}
