//! The lines in which a run is shown at a terminal: those that are final, and those that say what goes on now.

use std::{borrow::Cow, path::Path, sync::Arc, time::Duration};

use shelly_terminal::{
    live_region::TerminalSize,
    markdown::StreamedMarkdown,
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};
use tokio::time::Instant;

use super::{
    activity_rows::{ActivityRow, ActivityRowKind, activity_rows, elapsed_in_words, row_of_agent},
    call_arguments::telling_argument,
    run_activity::{CompletedCall, RunActivity},
};
use crate::{
    chat::{Message, Role},
    cli::{
        render::{escaped, name, one_line, without_colours},
        secrets::without_secrets,
    },
    event::Event,
    limits,
    model::ReplyDelta,
};

/// The pictures of the mark beside what is under way.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Asks for the size of the terminal, which is never 0.
pub type SizeQuery = Arc<dyn Fn() -> TerminalSize + Send + Sync>;

/// Turns the events of a run into lines.
pub struct RunLines {
    size: SizeQuery,
    theme: Theme,
    activity: RunActivity,
    /// The agent or team that the person has started.
    entry: Option<EntryRun>,
    /// `true` if the reply of the entry agent is shown as it is written.
    shows_answer: bool,
    reply: Option<StreamedReply>,
    /// The last reply that was shown whole.
    last_shown: Option<String>,
    /// Final lines that were not taken yet.
    finished: Vec<StyledLine>,
    /// `true` if the newest final line says what was done: a blank line separates it from a text.
    ends_with_step: bool,
    frame: usize,
}

/// The run that the person has started.
struct EntryRun {
    agent: Arc<str>,
    /// `true` for a team: the replies of its members are shown.
    is_team: bool,
}

/// A reply that is being written.
struct StreamedReply {
    markdown: StreamedMarkdown,
    text: String,
}

impl RunLines {
    /// Creates the lines of a run that has not begun. With `shows_answer` they include the replies of the entry agent.
    pub fn new(size: SizeQuery, theme: Theme, shows_answer: bool) -> Self {
        Self {
            size,
            theme,
            activity: RunActivity::default(),
            entry: None,
            shows_answer,
            reply: None,
            last_shown: None,
            finished: Vec::new(),
            ends_with_step: false,
            frame: 0,
        }
    }

    /// Adds what an event says. `line` is its text for people, if it has one.
    pub fn show(&mut self, event: &Event, line: Option<String>) {
        let calls_done = match event {
            Event::RunFinished { agent, .. } => self.activity.calls_done(agent),
            _ => 0,
        };
        if let Some(completed) = self.activity.note(event) {
            return self.show_call(&completed);
        }
        match event {
            Event::RunStarted { agent, model, .. } if self.entry.is_none() => {
                self.entry = Some(EntryRun { agent: Arc::clone(agent), is_team: model.is_empty() });
            }
            Event::RunFinished { agent, error: None, iterations, duration, .. } if !self.is_entry(agent) => {
                let line = format!("{}: {} turns, {calls_done} calls", name(agent), iterations);
                self.show_outcome(true, &line, *duration, None);
            }
            Event::RunFinished { agent, error: Some(error), duration, .. } if !self.is_entry(agent) => {
                self.show_outcome(false, &name(agent), *duration, Some(error));
            }
            Event::ModelDelta { agent, delta: ReplyDelta::Text(text) } if self.is_entry(agent) => self.write(text),
            Event::ModelFailed { agent, .. } => {
                if self.is_entry(agent) {
                    self.end_reply();
                }
                self.print_line(line, StyleRole::Warning);
            }
            Event::MessageAdded { agent, role: Role::Assistant, message: Some(message) } => {
                self.show_message(agent, message);
            }
            Event::Warning { .. } | Event::EffectFailed { .. } | Event::MiddlewareFailed { .. } => {
                self.print_line(line, StyleRole::Warning);
            }
            Event::FileChange { agent, act, path, to, added, removed, .. } => {
                let to = to.as_deref().map_or(String::new(), |to| format!(" to {}", shown_path(to)));
                let text = format!("{}{act} {}{to}", self.author(agent), shown_path(path));
                self.show_change(&text, added.zip(*removed));
            }
            // The region and the lines above it say the same.
            Event::RunStarted { .. }
            | Event::RunFinished { .. }
            | Event::ModelFinished { .. }
            | Event::ModelWaits { .. }
            | Event::ToolStarted { .. }
            | Event::ToolProgress { .. }
            | Event::MemberReplied { .. } => {}
            _ => self.print_line(line, StyleRole::Muted),
        }
    }

    /// Returns the present state of the run.
    pub fn activity(&self) -> &RunActivity {
        &self.activity
    }

    /// Returns the final lines since the last call.
    pub fn take_finished(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.finished)
    }

    /// Returns the lines that say what goes on now: the end of the reply, and the agents with their calls. Each call moves the
    /// mark beside them.
    pub fn now(&mut self, now: Instant) -> Vec<StyledLine> {
        let rows = activity_rows(&self.activity, now, limits::LIVE_ROWS);
        self.reply_and(&rows)
    }

    /// Returns the lines that say what goes on now, of one agent alone in place of all.
    pub fn now_of(&mut self, agent: &str, now: Instant) -> Vec<StyledLine> {
        let rows: Vec<_> = row_of_agent(&self.activity, agent, now).into_iter().collect();
        self.reply_and(&rows)
    }

    /// Uses another theme from now on; a reply that is being written keeps its own.
    pub fn set_theme(&mut self, theme: Theme) {
        self.theme = theme;
    }

    /// Returns the end of the reply that is being written, and these rows. Moves the mark beside them.
    fn reply_and(&mut self, rows: &[ActivityRow]) -> Vec<StyledLine> {
        self.frame += 1;
        let mut lines = self.reply.as_ref().map(|reply| reply.markdown.tail()).unwrap_or_default();
        if !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        lines.extend(rows.iter().map(|row| self.row(row)));
        lines
    }

    /// Ends the run: what was not final is final now. Returns the last reply that was shown whole.
    pub fn end(&mut self) -> Option<String> {
        self.end_reply();
        self.last_shown.take()
    }

    fn is_entry(&self, agent: &str) -> bool {
        self.entry.as_ref().is_some_and(|entry| &*entry.agent == agent)
    }

    /// Adds to the reply of the entry agent.
    fn write(&mut self, text: &str) {
        if !self.shows_answer {
            return;
        }
        if self.reply.is_none() {
            self.begin_text();
        }
        let columns = usize::from((self.size)().columns);
        let reply = self.reply.get_or_insert_with(|| StreamedReply {
            markdown: StreamedMarkdown::new(columns, self.theme.clone()).with_hyperlinks(),
            text: String::new(),
        });
        reply.markdown.set_width(columns);
        self.finished.extend(reply.markdown.push(text));
        reply.text.push_str(text);
    }

    /// Separates a text from the lines about steps above it.
    fn begin_text(&mut self) {
        if std::mem::take(&mut self.ends_with_step) {
            self.finished.push(StyledLine::default());
        }
    }

    /// Ends the reply that is being written. Returns its text.
    fn end_reply(&mut self) -> Option<String> {
        let StreamedReply { markdown, text } = self.reply.take()?;
        self.finished.extend(markdown.finish());
        self.finished.push(StyledLine::default());
        Some(text)
    }

    /// Shows a reply that is complete, unless it was shown as it was written.
    fn show_message(&mut self, agent: &str, message: &Message) {
        let is_member = self.entry.as_ref().is_some_and(|entry| {
            entry.is_team && self.activity.parent_of(agent).is_some_and(|parent| *parent == entry.agent)
        });
        let text = message.text_content();
        if !self.shows_answer || !(is_member || self.is_entry(agent)) {
            return;
        }
        if self.is_entry(agent)
            && let Some(written) = self.end_reply()
        {
            // What was written has no credentials; the message still has them.
            self.last_shown = (written == without_secrets(&text)).then_some(text);
            return;
        }
        if text.trim().is_empty() {
            return;
        }
        self.begin_text();
        if is_member {
            self.finished.push(StyledLine::styled(&name(agent), self.theme.style(StyleRole::Heading)));
        }
        self.finished.extend(rendered(&text, usize::from((self.size)().columns), self.theme.clone()));
        self.finished.push(StyledLine::default());
        self.last_shown = Some(text);
    }

    fn show_call(&mut self, call: &CompletedCall) {
        let arguments = one_line(&telling_argument(&call.arguments), limits::LIVE_DETAIL_CHARS);
        let line = format!("{}{} {arguments}", self.author(&call.agent), name(&call.tool));
        self.show_outcome(call.failure.is_none(), &line, call.duration, call.failure.as_deref());
    }

    /// Shows a change of a file, with the numbers of added and removed lines if they are known.
    fn show_change(&mut self, text: &str, lines: Option<(usize, usize)>) {
        let mut line = StyledLine::styled("✓ ", self.theme.style(StyleRole::Success));
        line.push(text, self.theme.style(StyleRole::Muted));
        if let Some((added, removed)) = lines {
            line.push(&format!(" +{added}"), self.theme.style(StyleRole::Success));
            line.push(&format!(" -{removed}"), self.theme.style(StyleRole::Failure));
        }
        self.finished.push(line);
        self.ends_with_step = true;
    }

    /// Returns the beginning of a line about a step; empty for those of the entry agent.
    fn author(&self, agent: &str) -> String {
        if self.is_entry(agent) { String::new() } else { format!("{}: ", name(agent)) }
    }

    fn show_outcome(&mut self, is_ok: bool, text: &str, duration: Duration, failure: Option<&str>) {
        self.finished.push(outcome_line(&self.theme, is_ok, text, duration, failure));
        self.ends_with_step = true;
    }

    fn print_line(&mut self, line: Option<String>, role: StyleRole) {
        if let Some(line) = line {
            self.finished.push(StyledLine::styled(&without_colours(&line), self.theme.style(role)));
            self.ends_with_step = true;
        }
    }

    fn row(&self, row: &ActivityRow) -> StyledLine {
        let muted = self.theme.style(StyleRole::Muted);
        let mut line = StyledLine::styled(&"  ".repeat(row.depth), muted);
        let subject = match row.kind {
            ActivityRowKind::Agent => {
                line.push(SPINNER[self.frame % SPINNER.len()], self.theme.style(StyleRole::ListMarker));
                self.theme.style(StyleRole::Strong)
            }
            ActivityRowKind::Call => {
                line.push("·", muted);
                self.theme.style(StyleRole::Function)
            }
            ActivityRowKind::Omitted => muted,
        };
        if !row.subject.is_empty() {
            line.push(" ", muted);
            line.push(&row.subject, subject);
        }
        line.push(" ", muted);
        line.push(&row.detail, muted);
        let elapsed = elapsed_in_words(row.elapsed);
        if !elapsed.is_empty() {
            line.push(&format!(" {elapsed}"), muted);
        }
        line
    }
}

/// Returns a path for people: relative to the present folder if it lies in it.
fn shown_path(path: &str) -> String {
    let here = std::env::current_dir().ok();
    let below = here.as_ref().and_then(|here| Path::new(path).strip_prefix(here).ok());
    let shown = below.map_or(Cow::Borrowed(path), |below| below.to_string_lossy());
    one_line(&shown, limits::LIVE_DETAIL_CHARS)
}

/// Returns the line about something that has ended: its mark, a text in which untrusted parts are escaped, its time, and the first
/// line of a failure.
pub fn outcome_line(theme: &Theme, is_ok: bool, text: &str, duration: Duration, failure: Option<&str>) -> StyledLine {
    let (mark, role) = if is_ok { ("✓ ", StyleRole::Success) } else { ("✗ ", StyleRole::Failure) };
    let muted = theme.style(StyleRole::Muted);
    let mut line = StyledLine::styled(mark, theme.style(role));
    line.push(text, muted);
    line.push(&format!(" ({})", time_in_words(duration)), muted);
    if let Some(first) = failure.and_then(|failure| failure.trim().lines().next()) {
        line.push(": ", muted);
        line.push(&one_line(first, limits::LIVE_DETAIL_CHARS), theme.style(StyleRole::Failure));
    }
    line
}

/// Renders a Markdown text that is complete, for so many columns.
pub fn rendered(text: &str, columns: usize, theme: Theme) -> Vec<StyledLine> {
    let mut markdown = StreamedMarkdown::new(columns, theme).with_hyperlinks();
    let mut lines = markdown.push(&escaped(text));
    lines.extend(markdown.finish());
    lines
}

/// Formats the time that something has taken: `16 ms`, `3.2 s`, `1 min 05 s`.
pub fn time_in_words(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{} ms", time.as_millis()),
        seconds if seconds < 60.0 => format!("{seconds:.1} s"),
        _ => elapsed_in_words(time),
    }
}

/// Formats an amount in at most four characters and a unit: `950`, `4.2k`, `1.3M`.
pub fn amount_in_words(amount: u64) -> String {
    match amount {
        0..1_000 => amount.to_string(),
        1_000..10_000 => format!("{:.1}k", amount as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", amount / 1_000),
        _ => format!("{:.1}M", amount as f64 / 1e6),
    }
}
