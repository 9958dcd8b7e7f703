//! Shows a run at a terminal: the answer as it is written, completed work above, and below them what goes on now.

use std::{io::Write, sync::Arc, time::Duration};

use shelly_terminal::{
    live_region::{LiveRegion, TerminalSize},
    markdown::StreamedMarkdown,
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};
use tokio::time::Instant;

use super::{
    activity_rows::{ActivityRow, ActivityRowKind, activity_rows, elapsed_in_words},
    run_activity::{CompletedCall, RunActivity},
};
use crate::{
    chat::{Message, Role},
    cli::render::{escaped, name, one_line, without_colours},
    event::Event,
    limits,
    model::ReplyDelta,
};

/// The pictures of the mark beside what is under way.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Asks for the size of the terminal, which is never 0.
pub type SizeQuery = Arc<dyn Fn() -> TerminalSize + Send + Sync>;

/// Shows a run at a terminal that can be redrawn in place.
pub struct LiveDisplay<W: Write> {
    region: LiveRegion<W, Box<dyn FnMut() -> TerminalSize + Send + Sync>>,
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
    /// Lines that are printed above the region with the next drawing.
    above: Vec<StyledLine>,
    /// `true` while something else uses the terminal: nothing is drawn.
    is_suspended: bool,
    begun: Instant,
    drawn: Instant,
    is_dirty: bool,
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

impl<W: Write> LiveDisplay<W> {
    /// Creates a display that draws to `output`. With `shows_answer` it also shows the replies of the entry agent.
    pub fn new(output: W, size: SizeQuery, theme: Theme, shows_answer: bool) -> Self {
        let now = Instant::now();
        let of_region = Arc::clone(&size);
        Self {
            region: LiveRegion::new(output, Box::new(move || of_region()), limits::LIVE_LINES),
            size,
            theme,
            activity: RunActivity::default(),
            entry: None,
            shows_answer,
            reply: None,
            last_shown: None,
            above: Vec::new(),
            is_suspended: false,
            begun: now,
            drawn: now,
            is_dirty: false,
            frame: 0,
        }
    }

    /// Shows an event. `line` is its text for people, if it has one.
    pub fn show(&mut self, event: &Event, line: Option<String>) {
        self.is_dirty = true;
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

    /// Returns the time of the next drawing; `None` if nothing changes until the next event.
    pub fn next_drawing(&self) -> Option<Instant> {
        let wait = match (self.is_suspended, self.is_dirty, self.activity.agents().is_empty()) {
            (true, _, _) | (false, false, true) => return None,
            (false, true, _) => limits::LIVE_DRAWING,
            (false, false, false) => limits::LIVE_TICK,
        };
        Some(self.drawn + wait)
    }

    /// Draws what has changed. A terminal that has gone away is not written to any more: the run goes on without it.
    pub fn draw(&mut self) {
        if self.is_suspended {
            return;
        }
        let now = Instant::now();
        (self.drawn, self.is_dirty, self.frame) = (now, false, self.frame + 1);
        let mut lines = self.reply.as_ref().map(|reply| reply.markdown.tail()).unwrap_or_default();
        if !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        lines.extend(activity_rows(&self.activity, now, limits::LIVE_ROWS).iter().map(|row| self.row(row)));
        if !self.activity.agents().is_empty() {
            lines.push(self.status(now));
        }
        let _ = self.region.update(&std::mem::take(&mut self.above), lines);
    }

    /// Takes the region off the screen until [`Self::resume`], so that something else can be printed.
    pub fn suspend(&mut self) {
        self.flush();
        self.is_suspended = true;
    }

    /// Draws again.
    pub fn resume(&mut self) {
        self.is_suspended = false;
        self.draw();
    }

    /// Ends the display: everything that is left is printed, and the region leaves the screen. Returns the last reply that
    /// was shown whole.
    pub fn finish(mut self) -> Option<String> {
        self.end_reply();
        self.flush();
        self.last_shown
    }

    fn flush(&mut self) {
        let _ = self.region.update(&std::mem::take(&mut self.above), Vec::new());
        let _ = self.region.clear();
    }

    fn is_entry(&self, agent: &str) -> bool {
        self.entry.as_ref().is_some_and(|entry| &*entry.agent == agent)
    }

    /// Adds to the reply of the entry agent.
    fn write(&mut self, text: &str) {
        if !self.shows_answer {
            return;
        }
        let columns = usize::from((self.size)().columns);
        let reply = self.reply.get_or_insert_with(|| StreamedReply {
            markdown: StreamedMarkdown::new(columns, self.theme.clone()).with_hyperlinks(),
            text: String::new(),
        });
        reply.markdown.set_width(columns);
        self.above.extend(reply.markdown.push(text));
        reply.text.push_str(text);
    }

    /// Ends the reply that is being written. Returns its text.
    fn end_reply(&mut self) -> Option<String> {
        let StreamedReply { markdown, text } = self.reply.take()?;
        self.above.extend(markdown.finish());
        self.above.push(StyledLine::default());
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
            self.last_shown = (written == text).then_some(text);
            return;
        }
        if text.trim().is_empty() {
            return;
        }
        if is_member {
            self.above.push(StyledLine::styled(&name(agent), self.theme.style(StyleRole::Heading)));
        }
        self.above.extend(rendered(&text, usize::from((self.size)().columns), self.theme.clone()));
        self.above.push(StyledLine::default());
        self.last_shown = Some(text);
    }

    fn show_call(&mut self, call: &CompletedCall) {
        let of = if self.is_entry(&call.agent) { String::new() } else { format!("{}: ", name(&call.agent)) };
        let line = format!("{of}{} {}", name(&call.tool), one_line(&call.arguments, limits::LIVE_DETAIL_CHARS));
        self.show_outcome(call.failure.is_none(), &line, call.duration, call.failure.as_deref());
    }

    fn show_outcome(&mut self, is_ok: bool, text: &str, duration: Duration, failure: Option<&str>) {
        let (mark, role) = if is_ok { ("✓ ", StyleRole::Success) } else { ("✗ ", StyleRole::Failure) };
        let muted = self.theme.style(StyleRole::Muted);
        let mut line = StyledLine::styled(mark, self.theme.style(role));
        line.push(text, muted);
        line.push(&format!(" ({})", time_in_words(duration)), muted);
        if let Some(first) = failure.and_then(|failure| failure.trim().lines().next()) {
            line.push(": ", muted);
            line.push(&one_line(first, limits::LIVE_DETAIL_CHARS), self.theme.style(StyleRole::Failure));
        }
        self.above.push(line);
    }

    fn print_line(&mut self, line: Option<String>, role: StyleRole) {
        if let Some(line) = line {
            self.above.push(StyledLine::styled(&without_colours(&line), self.theme.style(role)));
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

    fn status(&self, now: Instant) -> StyledLine {
        let turns = self.activity.turns();
        let mut parts = vec![format!("{turns} {}", if turns == 1 { "turn" } else { "turns" })];
        let tokens = self.activity.usage().total();
        if tokens > 0 {
            parts.push(format!("{} tokens", amount_in_words(tokens)));
        }
        let elapsed = elapsed_in_words(now.saturating_duration_since(self.begun));
        if !elapsed.is_empty() {
            parts.push(elapsed);
        }
        parts.push("Ctrl-C stops".into());
        StyledLine::styled(&parts.join(" · "), self.theme.style(StyleRole::Muted))
    }
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
