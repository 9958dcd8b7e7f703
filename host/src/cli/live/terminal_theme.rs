//! The colours at the terminal of this process: the person's choice, and what the terminal can show.

use std::io::{self, IsTerminal};

use anstream::ColorChoice;
use shelly_terminal::theme::{Background, ColourSupport, TerminalEnvironment, Theme};

use crate::{
    cli::render::name,
    config::{Config, ThemeChoice, nearest},
    error::{ErrorKind, Report},
    limits,
};

/// The variable of the environment that names a theme.
const VARIABLE: &str = "SHELLY_THEME";

/// Returns the theme that the environment names, or else the user-wide config. If it has no colours, nothing that this process
/// prints has some from then on.
///
/// # Errors
///
/// A [`Report`] if the environment names none that exists.
pub fn chosen_theme(config: &Config) -> Result<ThemeChoice, Report> {
    let choice = chosen(std::env::var(VARIABLE).ok().as_deref(), config)?;
    if choice == ThemeChoice::None {
        ColorChoice::Never.write_global();
    }
    Ok(choice)
}

/// Returns the choice where the environment has this value.
fn chosen(variable: Option<&str>, config: &Config) -> Result<ThemeChoice, Report> {
    match variable.map(str::trim).filter(|value| !value.is_empty()) {
        Some(value) => theme_named(value).map_err(|report| report.cause(format!("named by {VARIABLE}"))),
        None => Ok(config.theme.unwrap_or_default()),
    }
}

/// Returns the theme of this name.
///
/// # Errors
///
/// A [`Report`] with the names that there are.
pub fn theme_named(given: &str) -> Result<ThemeChoice, Report> {
    let names = ThemeChoice::ALL.map(ThemeChoice::name);
    ThemeChoice::from_name(given).ok_or_else(|| {
        let report = Report::new(ErrorKind::Usage, format!("there is no theme `{}`", name(given)));
        report.hint(match nearest(given, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("themes: {}", names.join(", ")),
        })
    })
}

/// The facts about a terminal that decide how a theme looks on it.
#[derive(Debug, Clone, Copy)]
pub struct TerminalColours {
    support: ColourSupport,
    /// `None` if the terminal was not asked, or gave no answer.
    background: Option<Background>,
    /// `true` if the terminal breaks lines anew when it becomes narrower.
    pub rewraps_lines: bool,
}

impl TerminalColours {
    /// Looks at the terminal of this process; `None` if it has none that can be redrawn in place. Asks the terminal for its
    /// background if the choice depends on it, so nothing else may read what is typed meanwhile.
    pub fn of_terminal(choice: ThemeChoice) -> Option<Self> {
        let [no_color, clicolor_force, clicolor, term, colorterm, xterm_version, screen_session] =
            ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM", "COLORTERM", "XTERM_VERSION", "STY"]
                .map(|name| std::env::var(name).ok());
        let environment = TerminalEnvironment {
            no_color: no_color.as_deref(),
            clicolor_force: clicolor_force.as_deref(),
            clicolor: clicolor.as_deref(),
            term: term.as_deref(),
            colorterm: colorterm.as_deref(),
            xterm_version: xterm_version.as_deref(),
            screen_session: screen_session.as_deref(),
            input_is_terminal: io::stdin().is_terminal(),
            output_is_terminal: io::stdout().is_terminal() || io::stderr().is_terminal(),
        };
        let background = || match choice {
            ThemeChoice::Auto => environment.ask_background(limits::TERMINAL_ANSWER),
            ThemeChoice::Dark | ThemeChoice::Light | ThemeChoice::None => None,
        };
        environment.can_redraw().then(|| Self {
            support: environment.colour_support(),
            background: background(),
            rewraps_lines: environment.rewraps_lines(),
        })
    }

    /// Returns `true` if the environment allows colours.
    pub fn has_colours(&self) -> bool {
        self.support != ColourSupport::None
    }

    /// Returns the theme for a choice. Where the environment allows no colours, it has none.
    pub fn theme(&self, choice: ThemeChoice) -> Theme {
        let background = match choice {
            ThemeChoice::Auto => self.background,
            ThemeChoice::Dark => Some(Background::Dark),
            ThemeChoice::Light => Some(Background::Light),
            ThemeChoice::None => return Theme::plain(),
        };
        Theme::new(self.support, background)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_comes_before_the_config() {
        let config = |theme| Config { theme, ..Config::default() };
        for (variable, theme, expected) in [
            (None, None, ThemeChoice::Auto),
            (None, Some(ThemeChoice::Light), ThemeChoice::Light),
            (Some("dark"), Some(ThemeChoice::Light), ThemeChoice::Dark),
            (Some(" none "), None, ThemeChoice::None),
            (Some(""), Some(ThemeChoice::Light), ThemeChoice::Light),
        ] {
            assert_eq!(chosen(variable, &config(theme)).unwrap(), expected, "{variable:?} {theme:?}");
        }
        let report = chosen(Some("drak\x1b[2J"), &config(None)).unwrap_err();
        assert_eq!(report.to_string(), "there is no theme `drak\\u{1b}[2J`: named by SHELLY_THEME");
        assert_eq!(theme_named("ligth").unwrap_err().hint.as_deref(), Some("did you mean `light`?"));
        assert_eq!(theme_named("sepia").unwrap_err().hint.as_deref(), Some("themes: auto, dark, light, none"));
    }

    #[test]
    fn theme_follows_the_choice_and_what_the_terminal_shows() {
        let dark = Some(Background::Dark);
        let colours = |support, background| TerminalColours { support, background, rewraps_lines: true };
        for (support, background, choice, expected) in [
            (ColourSupport::TrueColour, dark, ThemeChoice::Auto, Theme::new(ColourSupport::TrueColour, dark)),
            (ColourSupport::TrueColour, None, ThemeChoice::Dark, Theme::new(ColourSupport::TrueColour, dark)),
            (
                ColourSupport::TrueColour,
                dark,
                ThemeChoice::Light,
                Theme::new(ColourSupport::TrueColour, Some(Background::Light)),
            ),
            (ColourSupport::Palette, dark, ThemeChoice::Light, Theme::new(ColourSupport::Palette, None)),
            (ColourSupport::TrueColour, dark, ThemeChoice::None, Theme::plain()),
            (ColourSupport::None, dark, ThemeChoice::Dark, Theme::plain()),
        ] {
            assert_eq!(colours(support, background).theme(choice), expected, "{support:?} {choice:?}");
        }
        assert!(!colours(ColourSupport::None, None).has_colours());
    }
}
