use std::{io::Write, sync::Arc, time::Duration};

use shelly_terminal::{
    line_wrapping::wrap_line,
    live_region::{LiveRegion, RegionCursor, TerminalSize},
    safe_text::safe_lines,
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};
use tokio::time::Instant;

use super::{
    board_panel::BoardPanel,
    chat_rows::{ChatStatus, chat_rows},
    chat_state::ChatState,
};
use crate::{
    agent::AgentGroup,
    cli::{
        live::{AgentFeeds, RunActivity, RunLines, SizeQuery, rendered},
        render::{escaped, one_line, styled_lines},
    },
    event::Event,
    limits,
};

/// Asks for the size of the terminal at each drawing.
type RegionSizeQuery = Box<dyn FnMut() -> TerminalSize + Send + Sync>;

/// The screen of a chat: what was said scrolls away above, what goes on and what is typed is drawn in place below.
pub struct ChatScreen<W: Write> {
    region: LiveRegion<W, RegionSizeQuery>,
    size: SizeQuery,
    theme: Theme,
    run: RunLines,
    feeds: AgentFeeds,
    /// The agent that is shown in place of all.
    focus: Option<Arc<str>>,
    board: BoardPanel,
    /// Final lines that are printed with the next drawing.
    above: Vec<StyledLine>,
    drawn: Instant,
    is_dirty: bool,
    /// A key has been pressed since the last drawing.
    has_key: bool,
}

impl<W: Write> ChatScreen<W> {
    /// Creates an empty screen. `rewraps` says that the terminal breaks lines anew when it becomes narrower.
    pub fn new(output: W, size: SizeQuery, theme: Theme, rewraps: bool) -> Self {
        let of_region = Arc::clone(&size);
        let of_region: RegionSizeQuery = Box::new(move || of_region());
        Self {
            region: LiveRegion::new(output, of_region, limits::CHAT_LINES).rewrapping(rewraps),
            run: RunLines::new(Arc::clone(&size), theme.clone(), true),
            feeds: AgentFeeds::default(),
            focus: None,
            board: BoardPanel::default(),
            size,
            theme,
            above: Vec::new(),
            drawn: Instant::now(),
            is_dirty: true,
            has_key: false,
        }
    }

    fn columns(&self) -> usize {
        usize::from((self.size)().columns)
    }

    /// Prints a text with the colours of the host, in which untrusted parts are escaped already. Its lines are broken between
    /// words.
    pub fn print(&mut self, text: &str) {
        self.take_run_lines();
        let columns = self.columns();
        self.above.extend(styled_lines(text, &self.theme).iter().flat_map(|line| wrap_line(line, columns)));
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
        self.feeds.note(event);
        self.run.show(event, line);
        if let Event::RunFinished { agent, .. } = event
            && self.focus.as_ref() == Some(agent)
        {
            self.focus = None;
        }
        self.is_dirty = true;
    }

    /// Shows one agent in place of all, or all again. Returns the agent that was shown before.
    pub fn focus_on(&mut self, agent: Option<&Arc<str>>) -> Option<Arc<str>> {
        agent.into_iter().for_each(|agent| self.feeds.follow(agent));
        self.is_dirty = true;
        std::mem::replace(&mut self.focus, agent.cloned())
    }

    /// Shows the open tasks and blackboards of these agents while they work.
    pub fn watch_board(&mut self, group: &Arc<AgentGroup>) {
        self.board.watch(Some(Arc::clone(group)));
    }

    /// Turns them on or off.
    pub fn turn_board(&mut self, is_on: bool) {
        self.board.turn(is_on);
        self.is_dirty = true;
    }

    /// Uses another theme from now on.
    pub fn set_theme(&mut self, theme: Theme) {
        self.run.set_theme(theme.clone());
        self.theme = theme;
        self.is_dirty = true;
    }

    /// Ends the lines of a run, and prepares those of the next one.
    pub fn end_run(&mut self) {
        self.run.end();
        self.take_run_lines();
        self.run = RunLines::new(Arc::clone(&self.size), self.theme.clone(), true);
        (self.feeds, self.focus) = (AgentFeeds::default(), None);
        self.board.watch(None);
        self.is_dirty = true;
    }

    /// Returns the present state of the run.
    pub fn activity(&self) -> &RunActivity {
        self.run.activity()
    }

    fn take_run_lines(&mut self) {
        let columns = self.columns();
        self.above.extend(self.run.take_finished().iter().flat_map(|line| wrap_line(line, columns)));
    }

    /// Notes that something has changed.
    pub fn change(&mut self) {
        self.is_dirty = true;
    }

    /// Notes that a key has changed something, which is drawn sooner.
    pub fn change_by_key(&mut self) {
        (self.is_dirty, self.has_key) = (true, true);
    }

    /// Returns the time of the next drawing; `None` if nothing changes until then.
    pub fn next_drawing(&self, is_working: bool) -> Option<Instant> {
        match (self.is_dirty, is_working) {
            (true, _) if self.has_key => Some(self.drawn + limits::CHAT_KEY_DRAWING),
            (true, _) => Some(self.drawn + limits::CHAT_DRAWING),
            (false, true) => Some(self.drawn + limits::LIVE_TICK),
            (false, false) => None,
        }
    }

    /// Draws. A terminal that has gone away is not written to any more; its keys end then too.
    pub fn draw(&mut self, state: &ChatState, status: &ChatStatus, elapsed: Option<Duration>) {
        let now = Instant::now();
        (self.drawn, self.is_dirty, self.has_key) = (now, false, false);
        self.take_run_lines();
        let mut lines = self.work_lines(now);
        if !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        let (rows, cursor) = chat_rows(state, status, elapsed, self.columns(), &self.theme);
        let cursor = RegionCursor { line: lines.len() + cursor.line, ..cursor };
        lines.extend(rows);
        let _ = self.region.update_with_cursor(&std::mem::take(&mut self.above), lines, Some(cursor));
    }

    /// Returns the lines that say what goes on now: the reply, the agents or the one that was chosen, and the open tasks.
    fn work_lines(&mut self, now: Instant) -> Vec<StyledLine> {
        let TerminalSize { columns, rows } = (self.size)();
        let mut lines = match &self.focus {
            None => self.run.now(now),
            Some(agent) => {
                let mut lines = self.run.now_of(agent, now);
                lines.extend(self.feeds.rows(agent, columns.into(), limits::CHAT_FOCUS_ROWS, &self.theme));
                let how = "/focus shows all agents again";
                lines.push(StyledLine::styled(how, self.theme.style(StyleRole::Muted)));
                lines
            }
        };
        lines.extend(self.board.rows(rows, &self.theme));
        lines
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
