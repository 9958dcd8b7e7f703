use shelly_terminal::theme::Theme;

use crate::{
    cli::{
        live::{TerminalColours, theme_named},
        render::{BOLD, DIM, PLAIN},
    },
    config::ThemeChoice,
    error::{ErrorKind, Report},
};

/// The theme of a chat, which the person may change.
#[derive(Debug, Clone, Copy)]
pub struct ChatTheme {
    colours: TerminalColours,
    choice: ThemeChoice,
}

impl ChatTheme {
    /// Looks at the terminal of this process; without one that can be redrawn in place there is no theme. The terminal may be
    /// asked for its colours, so this comes before anything reads what a person types.
    pub fn of_terminal(choice: ThemeChoice) -> Option<Self> {
        TerminalColours::of_terminal(choice).map(|colours| Self { colours, choice })
    }

    /// Returns the present theme.
    pub fn theme(&self) -> Theme {
        self.colours.theme(self.choice)
    }

    /// Returns `true` if the terminal breaks lines anew when it becomes narrower.
    pub fn rewraps_lines(&self) -> bool {
        self.colours.rewraps_lines
    }

    /// Formats the present theme, and the others.
    pub fn text(&self) -> String {
        let shown = self.choice.name();
        let shown = match self.colours.has_colours() {
            true => format!("{BOLD}{shown}{PLAIN}"),
            false => format!("{shown}, without colours: the environment turns them off"),
        };
        let names = ThemeChoice::ALL.map(ThemeChoice::name).join(", ");
        format!("{shown}\n{DIM}/theme NAME uses another one in this chat: {names}{PLAIN}")
    }

    /// Chooses the theme of this name, and returns it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such theme, or if the environment turns colours off.
    pub fn choose(&mut self, given: &str) -> Result<Theme, Report> {
        let choice = theme_named(given)?;
        if !self.colours.has_colours() && choice != ThemeChoice::None {
            return Err(Report::new(ErrorKind::Usage, "the environment turns colours off (NO_COLOR or CLICOLOR)")
                .hint("unset the variable, and begin the chat anew"));
        }
        self.choice = choice;
        Ok(self.theme())
    }
}
