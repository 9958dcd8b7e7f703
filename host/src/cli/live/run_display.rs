use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
};

use shelly_terminal::{live_region::TerminalSize, theme::Theme};
use tokio::time::sleep_until;

use super::{live_display::LiveDisplay, plain_reply::PlainReply, terminal_theme::TerminalColours};
use crate::{
    app::{PreparedRun, RunSession},
    cli::{
        render::{ProgressDisplay, ProgressLevel, RunOutputFormat},
        secrets::ReplyRedactor,
    },
    config::ThemeChoice,
    event::{Event, StreamEvent},
};

/// The form and the amount of what is shown of a run.
#[derive(Debug, Clone, Copy)]
pub struct DisplayOptions {
    pub output: RunOutputFormat,
    pub level: ProgressLevel,
    /// `true` if standard output gets the text of the entry agent as it comes, also where it is no terminal.
    pub streams: bool,
    pub theme: ThemeChoice,
}

/// Shows the events of a run: as lines of JSON, as lines for people, or at a terminal that is redrawn in place.
pub struct RunDisplay {
    lines: ProgressDisplay,
    live: Option<LiveDisplay<TerminalOutput>>,
    /// Writes replies to a standard output that is no terminal.
    plain: Option<PlainReply<io::Stdout>>,
    redactor: ReplyRedactor,
    /// The agent or team that the person has started.
    entry: Option<Arc<str>>,
    theme: Option<Theme>,
}

/// The result of a display.
#[derive(Default)]
pub struct FinishedDisplay {
    /// The last reply, if standard output has it whole.
    pub reply: Option<String>,
    /// The theme for what is printed later; `None` if nothing is rendered.
    pub theme: Option<Theme>,
}

impl FinishedDisplay {
    /// Returns the result where no run was shown.
    pub fn of_no_run(output: RunOutputFormat, choice: ThemeChoice) -> Self {
        Self { reply: None, theme: theme(output, choice) }
    }
}

impl RunDisplay {
    /// Creates the display of a run for the standard streams of this process.
    pub fn new(options: DisplayOptions) -> Self {
        let DisplayOptions { output, level, streams, theme: choice } = options;
        // The terminal is asked for its colours before anything reads what a person types.
        let theme = theme(output, choice);
        let is_live = level != ProgressLevel::Quiet && io::stderr().is_terminal();
        let live = theme.clone().filter(|_| is_live).map(live);
        let is_plain = streams && output == RunOutputFormat::Text && !io::stdout().is_terminal();
        let plain = is_plain.then(|| PlainReply::new(io::stdout()));
        Self { live, plain, theme, ..Self::lines(output, level) }
    }

    /// Creates a display of lines alone, without the text of replies.
    pub fn lines(output: RunOutputFormat, level: ProgressLevel) -> Self {
        let lines = ProgressDisplay::new(output, level);
        Self { lines, live: None, plain: None, redactor: ReplyRedactor::default(), entry: None, theme: None }
    }

    /// Returns `true` if the output goes to the terminal on which questions are asked.
    pub fn shares_the_terminal(&self) -> bool {
        self.lines.shares_the_terminal()
    }

    /// Shows the notices from before the run. Returns the warnings that are to be emitted as events.
    pub fn notes(&mut self, prepared: &PreparedRun, session: Option<&RunSession>) -> Vec<Event> {
        self.lines.notes(prepared, session)
    }

    /// Shows an event.
    pub fn show(&mut self, event: &StreamEvent) {
        if self.live.is_none() && self.plain.is_none() {
            return self.lines.show(event);
        }
        if let Event::RunStarted { agent, .. } = &event.event
            && self.entry.is_none()
        {
            self.entry = Some(Arc::clone(agent));
        }
        for shown in self.redactor.pass(&event.event) {
            if let Some(plain) = &mut self.plain
                && is_of(&shown, self.entry.as_deref())
            {
                plain.show(&shown);
            }
            match &mut self.live {
                Some(live) => live.show(&shown, self.lines.line(&shown)),
                None => self.lines.show_line(&shown),
            }
        }
    }

    /// Waits until something is due without an event: a drawing, or a line about an agent that waits for its model.
    pub async fn next_update(&self) {
        match &self.live {
            None => self.lines.silence().await,
            Some(live) => match live.next_drawing() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            },
        }
    }

    /// Shows what is due.
    pub fn update(&mut self) {
        match &mut self.live {
            Some(live) => live.draw(),
            None => self.lines.tell_silence(),
        }
    }

    /// Frees the terminal for a question.
    pub fn suspend(&mut self) {
        if let Some(live) = &mut self.live {
            live.suspend();
        }
    }

    /// Takes the terminal again.
    pub fn resume(&mut self) {
        if let Some(live) = &mut self.live {
            live.resume();
        }
    }

    /// Ends the display.
    pub fn finish(self) -> FinishedDisplay {
        let shown = self.live.and_then(LiveDisplay::finish);
        FinishedDisplay { reply: self.plain.map_or(shown, PlainReply::finish), theme: self.theme }
    }
}

/// Returns `true` if an event is about the replies of this agent.
fn is_of(event: &Event, entry: Option<&str>) -> bool {
    match event {
        Event::ModelDelta { agent, .. } | Event::ModelFailed { agent, .. } | Event::MessageAdded { agent, .. } => {
            entry == Some(&**agent)
        }
        _ => false,
    }
}

/// Returns the display for a terminal.
fn live(theme: Theme) -> LiveDisplay<TerminalOutput> {
    let shows_answer = io::stdout().is_terminal();
    let output = if shows_answer { TerminalOutput::Stdout } else { TerminalOutput::Stderr };
    LiveDisplay::new(output, Arc::new(terminal_size), theme, shows_answer)
}

/// Returns the theme for the output of a run; `None` if it is not for people, or the terminal cannot be redrawn in place.
fn theme(output: RunOutputFormat, choice: ThemeChoice) -> Option<Theme> {
    match output {
        RunOutputFormat::Text => TerminalColours::of_terminal(choice).map(|colours| colours.theme(choice)),
        RunOutputFormat::Json | RunOutputFormat::Events => None,
    }
}

/// Returns the size of the terminal; 80 columns and 24 rows if it does not tell.
pub fn terminal_size() -> TerminalSize {
    terminal_size::terminal_size().map_or(TerminalSize { columns: 80, rows: 24 }, |(columns, rows)| TerminalSize {
        columns: columns.0,
        rows: rows.0,
    })
}

/// The stream that is a terminal.
enum TerminalOutput {
    Stdout,
    Stderr,
}

impl Write for TerminalOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::Stderr => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::Stderr => io::stderr().flush(),
        }
    }
}
