//! The tool calls of the last answers, for a person who wants to see one in full: on the screen a call is one line.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    chat::{Message, Role},
    cli::{
        live::{amount_in_words, time_in_words},
        render::{DIM, GREEN, PLAIN, RED, name},
    },
    event::{Event, NO_ORIGIN},
    limits,
};

/// The tool calls of the last answers.
#[derive(Debug, Default)]
pub struct CallLog {
    /// The calls by answer, the newest last. An answer without calls has no entry.
    answers: VecDeque<Vec<LoggedCall>>,
    /// `true` if the next call begins an entry.
    is_new_answer: bool,
    /// The number of entries that were shown one after another, from the newest on.
    shown: usize,
}

/// A tool call with its result.
#[derive(Debug)]
struct LoggedCall {
    agent: Arc<str>,
    id: String,
    tool: String,
    /// The plugin, server or part of the host that the tool is of; `None` if it is not known.
    origin: Option<String>,
    arguments: String,
    /// The result as the model was shown it; `None` if it is not known.
    result: Option<String>,
    state: LoggedCallState,
}

/// The state of a call.
#[derive(Debug)]
enum LoggedCallState {
    UnderWay,
    Ended {
        duration: Duration,
        bytes: usize,
        is_error: bool,
    },
    /// The run has ended before the call.
    Interrupted,
}

impl CallLog {
    /// Begins a further answer.
    pub fn begin_answer(&mut self) {
        (self.is_new_answer, self.shown) = (true, 0);
    }

    /// Ends an answer: a call that is under way will never end.
    pub fn end_answer(&mut self) {
        for call in self.answers.iter_mut().flatten() {
            if matches!(call.state, LoggedCallState::UnderWay) {
                call.state = LoggedCallState::Interrupted;
            }
        }
    }

    /// Takes what an event says of a call.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::MessageAdded { agent, role: Role::Assistant, message: Some(message) } => {
                for call in message.tool_calls() {
                    self.begin(agent, &call.id, &call.name, &call.arguments);
                }
            }
            // The messages of an agent may be withheld; then there are only the arguments of the event, which are cut.
            Event::ToolStarted { agent, call, tool, origin, arguments } => {
                self.begin(agent, call, tool, arguments);
                if let Some(logged) = self.find(agent, call) {
                    logged.origin = Some(origin.clone()).filter(|origin| origin != NO_ORIGIN);
                }
            }
            Event::ToolFinished { agent, call, is_error, reason, bytes, duration, .. } => {
                if let Some(logged) = self.find(agent, call) {
                    logged.state = LoggedCallState::Ended { duration: *duration, bytes: *bytes, is_error: *is_error };
                    logged.result = reason.as_deref().map(kept);
                }
            }
            Event::MessageAdded { agent, role: Role::Tool, message: Some(message) } => self.add_results(agent, message),
            _ => {}
        }
    }

    fn begin(&mut self, agent: &Arc<str>, id: &str, tool: &str, arguments: &str) {
        if self.find(agent, id).is_some_and(|known| matches!(known.state, LoggedCallState::UnderWay)) {
            return;
        }
        if std::mem::take(&mut self.is_new_answer) || self.answers.is_empty() {
            self.answers.push_back(Vec::new());
        }
        self.shown = 0;
        let (agent, id, tool) = (Arc::clone(agent), id.to_owned(), tool.to_owned());
        let (arguments, state) = (kept(arguments), LoggedCallState::UnderWay);
        let call = LoggedCall { agent, id, tool, origin: None, arguments, result: None, state };
        if let Some(answer) = self.answers.back_mut() {
            answer.push(call);
        }
        while self.answers.iter().map(Vec::len).sum::<usize>() > limits::CHAT_CALLS_KEPT {
            match self.answers.front_mut() {
                Some(oldest) if oldest.len() > 1 => drop(oldest.remove(0)),
                _ => drop(self.answers.pop_front()),
            }
        }
    }

    fn add_results(&mut self, agent: &Arc<str>, message: &Message) {
        for result in message.tool_results() {
            if let Some(logged) = self.find(agent, &result.call_id) {
                logged.result = Some(kept(&result.text()));
            }
        }
    }

    /// Returns the newest call of this agent and id in the present answer. Ids may come again in later answers.
    fn find(&mut self, agent: &str, id: &str) -> Option<&mut LoggedCall> {
        let answer = self.answers.back_mut().filter(|_| !self.is_new_answer)?;
        answer.iter_mut().rev().find(|call| &*call.agent == agent && call.id == id)
    }

    /// Formats the calls of the newest answer that has some, and with each further call those of the one before; `None` if
    /// there are no more.
    pub fn next_shown(&mut self) -> Option<Vec<ShownCall>> {
        let at = self.answers.len().checked_sub(self.shown + 1)?;
        self.shown += 1;
        Some(self.answers[at].iter().map(LoggedCall::shown).collect())
    }
}

/// A call as it is printed.
#[derive(Debug, PartialEq, Eq)]
pub struct ShownCall {
    /// A line with the colours of the host, in which the words of others are escaped.
    pub heading: String,
    /// The arguments and the result, in the words of others.
    pub text: String,
}

impl LoggedCall {
    fn shown(&self) -> ShownCall {
        let of = self.origin.as_ref().map_or(String::new(), |origin| format!(" of {}", name(origin)));
        let (tool, agent) = (name(&self.tool), name(&self.agent));
        let (mark, facts) = match &self.state {
            LoggedCallState::UnderWay => (format!("{DIM}·"), "under way".to_owned()),
            LoggedCallState::Interrupted => (format!("{RED}✗"), "interrupted".to_owned()),
            LoggedCallState::Ended { duration, bytes, is_error } => {
                let mark = if *is_error { format!("{RED}✗") } else { format!("{GREEN}✓") };
                (mark, format!("{}, {} bytes", time_in_words(*duration), amount_in_words(*bytes as u64)))
            }
        };
        let heading = format!("{mark}{PLAIN} {tool}{of} {DIM}({agent}, {facts}){PLAIN}");
        let mut text = format!("  arguments:\n{}", indented(&pretty(&self.arguments)));
        if let Some(result) = &self.result {
            text.push_str("  result:\n");
            text.push_str(&indented(result));
        }
        ShownCall { heading, text }
    }
}

/// Returns the part of a text that is kept, with a mark if it is not all.
fn kept(text: &str) -> String {
    if text.len() <= limits::CHAT_CALL_TEXT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limits::CHAT_CALL_TEXT_BYTES);
    let more = text.len() - end;
    format!("{}…\n[{more} more bytes are not shown; shelly-host session show --full has them]", &text[..end])
}

/// Formats JSON on several lines; other text stays as it is.
fn pretty(arguments: &str) -> String {
    let value = serde_json::from_str::<serde_json::Value>(arguments);
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| arguments.to_owned())
}

fn indented(text: &str) -> String {
    text.trim_end().split('\n').map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        chat::{ToolCall, ToolResult},
        cli::live::events_for_tests::{call_finished, call_started},
    };

    fn started(call: &str) -> Event {
        call_started("ada", call, "{\"path\":")
    }

    fn finished(call: &str, reason: Option<&str>) -> Event {
        call_finished("ada", call, reason)
    }

    fn headings(log: &mut CallLog) -> Option<Vec<String>> {
        log.next_shown().map(|calls| calls.into_iter().map(|call| call.heading).collect())
    }

    #[test]
    fn call_is_shown_with_whole_arguments_and_result() {
        let mut log = CallLog::default();
        let call: ToolCall =
            serde_json::from_value(json!({"id": "1", "name": "read", "arguments": "{\"path\":\"a\",\"deep\":true}"}))
                .unwrap();
        let reply =
            Message { parts: vec![crate::chat::Part::ToolCall(call)], ..Message::text(Role::Assistant, "ada", "") };
        let agent: Arc<str> = "ada".into();
        log.note(&Event::MessageAdded {
            agent: Arc::clone(&agent),
            role: Role::Assistant,
            message: Some(Arc::new(reply)),
        });
        log.note(&started("1"));
        log.note(&finished("1", None));
        let result = Message::results(vec![ToolResult::error("1", "one\ntwo")]);
        log.note(&Event::MessageAdded { agent, role: Role::Tool, message: Some(Arc::new(result)) });
        let shown = log.next_shown().unwrap();
        assert_eq!(shown.len(), 1, "one call, although two events told of it");
        assert_eq!(shown[0].heading, format!("{GREEN}✓{PLAIN} read of files {DIM}(ada, 20 ms, 3 bytes){PLAIN}"));
        for line in ["  arguments:\n    {\n", "      \"path\": \"a\"", "  result:\n    one\n    two\n"] {
            assert!(shown[0].text.contains(line), "{}", shown[0].text);
        }
    }

    #[test]
    fn each_further_press_shows_the_answer_before() {
        let mut log = CallLog::default();
        assert_eq!(log.next_shown(), None);
        for calls in [&["1", "2"][..], &[], &["1"]] {
            log.begin_answer();
            for call in calls {
                log.note(&started(call));
                log.note(&finished(call, Some("gone\x1b[2J")));
            }
        }
        assert_eq!(headings(&mut log).map(|calls| calls.len()), Some(1));
        let before = headings(&mut log).unwrap();
        assert!(before.len() == 2 && before[0].contains("✗"), "{before:?}");
        assert_eq!(headings(&mut log), None);
        log.note(&started("3"));
        let again = headings(&mut log).unwrap();
        assert!(again.len() == 2 && again[1].contains("(ada, under way)"), "a new call begins anew: {again:?}");
    }

    #[test]
    fn call_of_an_interrupted_run_is_not_under_way() {
        let mut log = CallLog::default();
        log.begin_answer();
        ["1", "2"].iter().for_each(|call| log.note(&started(call)));
        log.note(&finished("1", None));
        log.end_answer();
        let shown = headings(&mut log).unwrap();
        assert!(shown[0].contains("20 ms") && shown[1].contains("(ada, interrupted)"), "{shown:?}");
    }

    #[test]
    fn names_of_others_cannot_act_on_the_terminal() {
        let mut log = CallLog::default();
        let (tool, origin) = ("read\x1b[2J".to_owned(), "a\x1b[2J".to_owned());
        let (agent, call) = ("ada".into(), "1".to_owned());
        log.note(&Event::ToolStarted { agent, call, tool, origin, arguments: "{}".into() });
        let shown = headings(&mut log).unwrap();
        assert!(shown[0].contains("read\\u{1b}[2J of a\\u{1b}[2J"), "{shown:?}");
    }

    #[test]
    fn calls_and_their_texts_are_bounded() {
        let mut log = CallLog::default();
        for answer in 0..3 {
            log.begin_answer();
            for call in 0..limits::CHAT_CALLS_KEPT / 2 {
                log.note(&started(&format!("{answer}-{call}")));
                log.note(&finished(&format!("{answer}-{call}"), Some(&"x".repeat(limits::CHAT_CALL_TEXT_BYTES + 7))));
            }
        }
        let mut kept_calls = 0;
        while let Some(calls) = log.next_shown() {
            kept_calls += calls.len();
            assert!(calls.iter().all(|call| call.text.contains("[7 more bytes are not shown")));
        }
        assert_eq!(kept_calls, limits::CHAT_CALLS_KEPT);
    }
}
