use std::{io::Write, sync::Arc, time::Duration};

use shelly_terminal::{
    live_region::{LiveRegion, RegionCursor, TerminalSize},
    safe_text::safe_lines,
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};
use tokio::time::Instant;

use super::{
    chat_rows::{ChatStatus, chat_rows},
    chat_state::ChatState,
};
use crate::{
    cli::{
        live::{RunActivity, RunLines, SizeQuery, rendered},
        render::{escaped, one_line, styled_lines},
    },
    event::Event,
    limits,
};

/// The screen of a chat: what was said scrolls away above, what goes on and what is typed is drawn in place below.
pub struct ChatScreen<W: Write> {
    region: LiveRegion<W, Box<dyn FnMut() -> TerminalSize + Send + Sync>>,
    size: SizeQuery,
    theme: Theme,
    run: RunLines,
    /// Final lines that are printed with the next drawing.
    above: Vec<StyledLine>,
    drawn: Instant,
    is_dirty: bool,
}

impl<W: Write> ChatScreen<W> {
    pub fn new(output: W, size: SizeQuery, theme: Theme) -> Self {
        let of_region = Arc::clone(&size);
        Self {
            region: LiveRegion::new(output, Box::new(move || of_region()), limits::CHAT_LINES),
            run: RunLines::new(Arc::clone(&size), theme.clone(), true),
            size,
            theme,
            above: Vec::new(),
            drawn: Instant::now(),
            is_dirty: true,
        }
    }

    fn columns(&self) -> usize {
        usize::from((self.size)().columns)
    }

    /// Prints a text with the colours of the host, in which untrusted parts are escaped already.
    pub fn print(&mut self, text: &str) {
        self.take_run_lines();
        self.above.extend(styled_lines(text, &self.theme));
        self.is_dirty = true;
    }

    /// Prints a message of the person.
    pub fn print_typed(&mut self, text: &str) {
        self.take_run_lines();
        let text = escaped(text);
        for (at, line) in safe_lines(&text).enumerate() {
            let mut shown =
                StyledLine::styled(if at == 0 { "› " } else { "  " }, self.theme.style(StyleRole::ListMarker));
            shown.push(&line, self.theme.style(StyleRole::Strong));
            self.above.push(shown);
        }
        self.above.push(StyledLine::default());
        self.is_dirty = true;
    }

    /// Prints a text of others as it is, with control characters spelled out.
    pub fn print_plain(&mut self, text: &str) {
        self.take_run_lines();
        let text = escaped(text);
        self.above.extend(safe_lines(&text).map(|line| StyledLine::from(line.as_str())));
        self.is_dirty = true;
    }

    /// Prints a complete answer.
    pub fn print_markdown(&mut self, text: &str) {
        self.take_run_lines();
        self.above.extend(rendered(text, self.columns(), self.theme.clone()));
        self.above.push(StyledLine::default());
        self.is_dirty = true;
    }

    /// Shows an event of the run. `line` is its text for people, if it has one.
    pub fn show(&mut self, event: &Event, line: Option<String>) {
        self.run.show(event, line);
        self.is_dirty = true;
    }

    /// Ends the lines of a run, and prepares those of the next one.
    pub fn end_run(&mut self) {
        self.run.end();
        self.take_run_lines();
        self.run = RunLines::new(Arc::clone(&self.size), self.theme.clone(), true);
        self.is_dirty = true;
    }

    /// Returns the present state of the run.
    pub fn activity(&self) -> &RunActivity {
        self.run.activity()
    }

    fn take_run_lines(&mut self) {
        self.above.extend(self.run.take_finished());
    }

    /// Notes that something has changed.
    pub fn change(&mut self) {
        self.is_dirty = true;
    }

    /// Returns the time of the next drawing; `None` if nothing changes until then.
    pub fn next_drawing(&self, is_working: bool) -> Option<Instant> {
        match (self.is_dirty, is_working) {
            (true, _) => Some(self.drawn + limits::CHAT_DRAWING),
            (false, true) => Some(self.drawn + limits::LIVE_TICK),
            (false, false) => None,
        }
    }

    /// Draws. A terminal that has gone away is not written to any more; its keys end then too.
    pub fn draw(&mut self, state: &ChatState, status: &ChatStatus, working: Option<Duration>) {
        let now = Instant::now();
        (self.drawn, self.is_dirty) = (now, false);
        self.take_run_lines();
        let mut lines = self.run.now(now);
        if !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        let (rows, cursor) = chat_rows(state, status, working, self.columns(), &self.theme);
        let cursor = RegionCursor { line: lines.len() + cursor.line, ..cursor };
        lines.extend(rows);
        let _ = self.region.update_with_cursor(&std::mem::take(&mut self.above), lines, Some(cursor));
    }

    /// Erases the region, so that the next drawing writes all of it.
    pub fn erase(&mut self) {
        let _ = self.region.clear();
        self.is_dirty = true;
    }

    /// Calls the person's attention with a text, in which untrusted parts may be.
    pub fn notify(&mut self, text: &str) {
        let _ = self.region.notify(&one_line(text, limits::CHAT_NOTIFICATION_CHARS));
    }

    /// Prints what is left, and takes the region off the screen.
    pub fn finish(mut self) {
        self.end_run();
        let _ = self.region.update(&std::mem::take(&mut self.above), Vec::new());
        let _ = self.region.clear();
    }
}
