//! Shows a run at a terminal: the answer as it is written, completed work above, and below them what goes on now.

use std::{io::Write, sync::Arc};

use shelly_terminal::{
    live_region::{LiveRegion, TerminalSize},
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};
use tokio::time::Instant;

use super::{
    activity_rows::elapsed_in_words,
    run_lines::{RunLines, SizeQuery, amount_in_words},
};
use crate::{event::Event, limits};

/// Shows a run at a terminal that can be redrawn in place.
pub struct LiveDisplay<W: Write> {
    region: LiveRegion<W, Box<dyn FnMut() -> TerminalSize + Send + Sync>>,
    theme: Theme,
    run: RunLines,
    /// `true` while something else uses the terminal: nothing is drawn.
    is_suspended: bool,
    begun: Instant,
    drawn: Instant,
    is_dirty: bool,
}

impl<W: Write> LiveDisplay<W> {
    /// Creates a display that draws to `output`. With `shows_answer` it also shows the replies of the entry agent.
    pub fn new(output: W, size: SizeQuery, theme: Theme, shows_answer: bool) -> Self {
        let now = Instant::now();
        let of_region = Arc::clone(&size);
        Self {
            region: LiveRegion::new(output, Box::new(move || of_region()), limits::LIVE_LINES),
            run: RunLines::new(size, theme.clone(), shows_answer),
            theme,
            is_suspended: false,
            begun: now,
            drawn: now,
            is_dirty: false,
        }
    }

    /// Shows an event. `line` is its text for people, if it has one.
    pub fn show(&mut self, event: &Event, line: Option<String>) {
        self.is_dirty = true;
        self.run.show(event, line);
    }

    /// Returns the time of the next drawing; `None` if nothing changes until the next event.
    pub fn next_drawing(&self) -> Option<Instant> {
        let wait = match (self.is_suspended, self.is_dirty, self.run.activity().agents().is_empty()) {
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
        (self.drawn, self.is_dirty) = (now, false);
        let mut lines = self.run.now(now);
        if !self.run.activity().agents().is_empty() {
            lines.push(self.status(now));
        }
        let _ = self.region.update(&self.run.take_finished(), lines);
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
        let shown = self.run.end();
        self.flush();
        shown
    }

    fn flush(&mut self) {
        let _ = self.region.update(&self.run.take_finished(), Vec::new());
        let _ = self.region.clear();
    }

    fn status(&self, now: Instant) -> StyledLine {
        let turns = self.run.activity().turns();
        let mut parts = vec![format!("{turns} {}", if turns == 1 { "turn" } else { "turns" })];
        let tokens = self.run.activity().usage().total();
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
