//! The newest words and calls of each agent at work, for a person who looks at one of them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use shelly_terminal::{
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};

use super::{
    call_arguments::telling_argument,
    run_lines::{outcome_line, rendered},
};
use crate::{
    chat::{Message, Role},
    cli::{
        render::{name, one_line},
        secrets::without_secrets,
    },
    event::Event,
    limits,
    model::ReplyDelta,
};

/// The blanks before each row of a feed.
const INDENT: &str = "  ";

/// The newest words and calls of each agent at work. It is given events whose deltas have no credentials.
#[derive(Debug, Default)]
pub struct AgentFeeds(Vec<AgentFeed>);

/// The newest words and calls of one agent, the newest last.
#[derive(Debug)]
struct AgentFeed {
    agent: Arc<str>,
    entries: VecDeque<FeedEntry>,
    /// `true` if the last entry is a reply that is being written.
    is_writing: bool,
}

#[derive(Debug)]
enum FeedEntry {
    Text(String),
    Call(FeedCall),
}

/// A tool call.
#[derive(Debug)]
struct FeedCall {
    id: String,
    /// The tool and its most telling argument, with untrusted parts escaped.
    text: String,
    /// The time that it took, and the reason for its failure; not set while it is under way.
    end: Option<(Duration, Option<String>)>,
    /// The first line of its result as the model was shown it; empty if it is not known.
    result: String,
}

impl AgentFeeds {
    /// Takes what an event says of an agent.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::RunStarted { agent, .. } if self.0.len() < limits::AGENTS_SHOWN => self.follow(agent),
            Event::RunFinished { agent, .. } => self.0.retain(|feed| feed.agent != *agent),
            Event::ModelDelta { agent, delta: ReplyDelta::Text(text) } => {
                self.of(agent, |feed| feed.write(text));
            }
            Event::ModelFailed { agent, .. } => self.of(agent, AgentFeed::drop_open_reply),
            Event::MessageAdded { agent, role: Role::Assistant, message: Some(message) } => {
                self.of(agent, |feed| feed.end_reply(message));
            }
            Event::MessageAdded { agent, role: Role::Tool, message: Some(message) } => {
                self.of(agent, |feed| feed.add_results(message));
            }
            Event::ToolStarted { agent, call, tool, arguments, .. } => {
                self.of(agent, |feed| feed.begin_call(call, tool, arguments));
            }
            Event::ToolFinished { agent, call, is_error, reason, duration, .. } => {
                let failure = is_error.then(|| reason.clone().unwrap_or_default());
                self.of(agent, |feed| feed.end_call(call, *duration, failure));
            }
            _ => {}
        }
    }

    /// Takes the words of an agent from now on, also of one beyond the number that is followed unasked.
    pub fn follow(&mut self, agent: &Arc<str>) {
        if self.0.iter().all(|feed| feed.agent != *agent) {
            self.0.push(AgentFeed { agent: Arc::clone(agent), entries: VecDeque::new(), is_writing: false });
        }
    }

    /// Returns the newest rows of an agent, at most `most`, for a terminal of so many columns.
    pub fn rows(&self, agent: &str, columns: usize, most: usize, theme: &Theme) -> Vec<StyledLine> {
        let feed = self.0.iter().find(|feed| &*feed.agent == agent);
        let muted = theme.style(StyleRole::Muted);
        let mut rows = VecDeque::new();
        for entry in feed.into_iter().flat_map(|feed| feed.entries.iter().rev()) {
            if rows.len() >= most {
                break;
            }
            let of_entry = match entry {
                FeedEntry::Text(text) => rendered(text, columns.saturating_sub(INDENT.len()), theme.clone()),
                FeedEntry::Call(call) => call.lines(theme),
            };
            for line in of_entry.iter().rev() {
                let mut row = StyledLine::styled(INDENT, muted);
                row.append(line);
                rows.push_front(row);
            }
        }
        if rows.is_empty() {
            rows.push_back(StyledLine::styled("  nothing said or called yet", muted));
        }
        rows.drain(..rows.len().saturating_sub(most));
        rows.into()
    }

    fn of(&mut self, agent: &str, change: impl FnOnce(&mut AgentFeed)) {
        if let Some(feed) = self.0.iter_mut().find(|feed| &*feed.agent == agent) {
            change(feed);
        }
    }
}

impl AgentFeed {
    fn push(&mut self, entry: FeedEntry) {
        self.entries.push_back(entry);
        if self.entries.len() > limits::CHAT_FEED_ENTRIES {
            self.entries.pop_front();
        }
    }

    fn write(&mut self, piece: &str) {
        if !std::mem::replace(&mut self.is_writing, true) {
            self.push(FeedEntry::Text(String::new()));
        }
        if let Some(FeedEntry::Text(text)) = self.entries.back_mut() {
            text.push_str(piece);
            keep_end(text);
        }
    }

    /// Removes the reply that is being written: its pieces are void.
    fn drop_open_reply(&mut self) {
        if std::mem::take(&mut self.is_writing) {
            self.entries.pop_back();
        }
    }

    /// Takes a reply that is complete, in place of its pieces.
    fn end_reply(&mut self, message: &Message) {
        self.drop_open_reply();
        let mut text = without_secrets(&message.text_content());
        if !text.trim().is_empty() {
            keep_end(&mut text);
            self.push(FeedEntry::Text(text));
        }
    }

    fn begin_call(&mut self, id: &str, tool: &str, arguments: &str) {
        self.is_writing = false;
        let arguments = one_line(&telling_argument(arguments), limits::LIVE_DETAIL_CHARS);
        let text = format!("{} {arguments}", name(tool));
        self.push(FeedEntry::Call(FeedCall { id: id.to_owned(), text, end: None, result: String::new() }));
    }

    fn end_call(&mut self, id: &str, duration: Duration, failure: Option<String>) {
        if let Some(call) = self.call(id) {
            call.end = Some((duration, failure));
        }
    }

    fn add_results(&mut self, message: &Message) {
        for result in message.tool_results() {
            if let Some(call) = self.call(&result.call_id) {
                let text = result.text();
                let first = text.trim().lines().next().unwrap_or_default();
                call.result = one_line(first, limits::LIVE_DETAIL_CHARS);
            }
        }
    }

    /// Returns the newest call of this id.
    fn call(&mut self, id: &str) -> Option<&mut FeedCall> {
        self.entries.iter_mut().rev().find_map(|entry| match entry {
            FeedEntry::Call(call) if call.id == id => Some(call),
            FeedEntry::Call(_) | FeedEntry::Text(_) => None,
        })
    }
}

impl FeedCall {
    fn lines(&self, theme: &Theme) -> Vec<StyledLine> {
        let muted = theme.style(StyleRole::Muted);
        let Some((duration, failure)) = &self.end else {
            return vec![StyledLine::styled(&format!("· {}", self.text), muted)];
        };
        let mut lines = vec![outcome_line(theme, failure.is_none(), &self.text, *duration, failure.as_deref())];
        // The first line of a failure is in the line above.
        if failure.is_none() && !self.result.is_empty() {
            lines.push(StyledLine::styled(&format!("  {}", self.result), muted));
        }
        lines
    }
}

/// Removes the beginning of a text that has become too long.
fn keep_end(text: &mut String) {
    let most = limits::CHAT_FEED_TEXT_BYTES;
    // Only once it is twice as long: a reply grows by small pieces.
    if text.len() > 2 * most {
        let from = (text.len() - most..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chat::ToolResult,
        cli::live::events_for_tests::{call_finished, call_started, finished, message, reply_failed, started, text},
    };

    fn feeds(events: &[Event]) -> AgentFeeds {
        let mut feeds = AgentFeeds::default();
        events.iter().for_each(|event| feeds.note(event));
        feeds
    }

    fn rows(feeds: &AgentFeeds, agent: &str, columns: usize, most: usize) -> Vec<String> {
        feeds.rows(agent, columns, most, &Theme::plain()).iter().map(ToString::to_string).collect()
    }

    fn result(agent: &str, call: &str, text: &str) -> Event {
        let message = Message::results(vec![ToolResult::error(call, text)]);
        Event::MessageAdded { agent: agent.into(), role: Role::Tool, message: Some(Arc::new(message)) }
    }

    #[test]
    fn agent_has_its_words_calls_and_first_lines_of_results() {
        let feeds = feeds(&[
            started("lead", None, "m", ""),
            started("ada", Some("lead"), "m", "look"),
            started("bob", Some("lead"), "m", "look"),
            text("ada", "I read "),
            text("bob", "Not of ada."),
            text("ada", "it."),
            message("ada", "I read it."),
            call_started("ada", "1", r#"{"path":"a\u001b[2J"}"#),
            call_finished("ada", "1", None),
            result("ada", "1", "\nfirst\x1b[2J\nsecond"),
            call_started("ada", "2", r#"{"path":"b"}"#),
            call_finished("ada", "2", Some("no such file\nmore")),
            result("ada", "2", "no such file"),
            call_started("ada", "3", r#"{"path":"c"}"#),
        ]);
        assert_eq!(
            rows(&feeds, "ada", 80, 9),
            [
                "  I read it.",
                "  ✓ read a\\u{1b}[2J (20 ms)",
                "    first\\u{1b}[2J",
                "  ✗ read b (20 ms): no such file",
                "  · read c"
            ]
        );
        assert_eq!(rows(&feeds, "ada", 80, 2), ["  ✗ read b (20 ms): no such file", "  · read c"]);
        assert_eq!(rows(&feeds, "lead", 80, 2), ["  nothing said or called yet"]);
        assert_eq!(rows(&feeds, "nobody", 80, 2), ["  nothing said or called yet"]);
    }

    #[test]
    fn reply_streams_in_wrapped_and_void_pieces_are_removed() {
        let mut feeds = feeds(&[started("ada", None, "m", ""), text("ada", "A long line of words\x1b[2J")]);
        let narrow = rows(&feeds, "ada", 14, 9);
        assert_eq!(narrow.concat().replace(' ', ""), "Alonglineofwords\\u{1b}[2J");
        assert!(narrow.len() > 2 && narrow.iter().all(|row| row.chars().count() <= 14), "{narrow:?}");
        feeds.note(&reply_failed("ada"));
        assert_eq!(rows(&feeds, "ada", 14, 9), ["  nothing said or called yet"]);
        feeds.note(&message("ada", "In one piece."));
        assert_eq!(rows(&feeds, "ada", 40, 9), ["  In one piece."]);
        feeds.note(&finished("ada", None));
        assert_eq!(rows(&feeds, "ada", 40, 9), ["  nothing said or called yet"]);
    }

    #[test]
    fn feeds_are_bounded_whatever_agents_say() {
        let mut feeds = AgentFeeds::default();
        for at in 0..limits::AGENTS_SHOWN + 2 {
            feeds.note(&started(&format!("a{at}"), None, "m", ""));
        }
        assert_eq!(feeds.0.len(), limits::AGENTS_SHOWN);
        for _ in 0..5 * limits::CHAT_FEED_TEXT_BYTES {
            feeds.note(&text("a0", "日"));
        }
        let FeedEntry::Text(kept) = &feeds.0[0].entries[0] else { panic!("{:?}", feeds.0[0]) };
        assert!((limits::CHAT_FEED_TEXT_BYTES - 3..=2 * limits::CHAT_FEED_TEXT_BYTES).contains(&kept.len()));
        feeds.note(&message("a0", &"x".repeat(3 * limits::CHAT_FEED_TEXT_BYTES)));
        let FeedEntry::Text(kept) = &feeds.0[0].entries[0] else { panic!("{:?}", feeds.0[0]) };
        assert_eq!(kept.len(), limits::CHAT_FEED_TEXT_BYTES);
        for call in 0..2 * limits::CHAT_FEED_ENTRIES {
            feeds.note(&call_started("a0", &call.to_string(), "{}"));
        }
        assert_eq!(feeds.0[0].entries.len(), limits::CHAT_FEED_ENTRIES);
        let beyond: Arc<str> = "a65".into();
        feeds.follow(&beyond);
        feeds.note(&text("a65", "Me, too."));
        assert_eq!(rows(&feeds, "a65", 40, 9), ["  Me, too."]);
    }
}
