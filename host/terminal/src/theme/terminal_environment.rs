//! Colours that a terminal can show, from environment variables and the terminal's own answer.

use std::time::Duration;

use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

/// The brightness of a terminal's background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Light text on a dark background.
    Dark,
    /// Dark text on a light background.
    Light,
}

/// The colours that may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourSupport {
    /// No colours and no other styles.
    None,
    /// The sixteen colours of the terminal's palette.
    Palette,
    /// Any colour.
    TrueColour,
}

/// The facts that decide about colours and redrawing: environment variables as the caller read them, and its streams.
///
/// ```
/// use shelly_terminal::theme::{ColourSupport, TerminalEnvironment};
///
/// let environment = TerminalEnvironment {
///     term: Some("xterm-256color"),
///     colorterm: Some("truecolor"),
///     input_is_terminal: true,
///     output_is_terminal: true,
///     ..TerminalEnvironment::default()
/// };
/// assert_eq!(environment.colour_support(), ColourSupport::TrueColour);
/// assert!(environment.can_redraw());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TerminalEnvironment<'a> {
    /// `NO_COLOR`: no colours if it is not empty.
    pub no_color: Option<&'a str>,
    /// `CLICOLOR_FORCE`: colours also without a terminal, unless it is `0` or empty.
    pub clicolor_force: Option<&'a str>,
    /// `CLICOLOR`: no colours if it is `0`.
    pub clicolor: Option<&'a str>,
    /// `TERM`: the kind of terminal; `dumb` for one without control sequences.
    pub term: Option<&'a str>,
    /// `COLORTERM`: `truecolor` or `24bit` for a terminal that shows any colour.
    pub colorterm: Option<&'a str>,
    /// `XTERM_VERSION`: set by xterm, which cuts lines when it becomes narrower.
    pub xterm_version: Option<&'a str>,
    /// `STY`: set by GNU screen, which cuts lines too.
    pub screen_session: Option<&'a str>,
    /// `true` if the standard input is a terminal.
    pub input_is_terminal: bool,
    /// `true` if the stream that is written to is a terminal.
    pub output_is_terminal: bool,
}

impl TerminalEnvironment<'_> {
    /// Returns the colours that may be written. `NO_COLOR` comes before `CLICOLOR_FORCE`, and this before the rest.
    pub fn colour_support(&self) -> ColourSupport {
        let is_forced = self.clicolor_force.is_some_and(|value| !["", "0"].contains(&value));
        if self.no_color.is_some_and(|value| !value.is_empty()) {
            return ColourSupport::None;
        }
        if !is_forced && (self.clicolor == Some("0") || !self.can_redraw()) {
            return ColourSupport::None;
        }
        match self.colorterm {
            Some("truecolor" | "24bit") => ColourSupport::TrueColour,
            _ => ColourSupport::Palette,
        }
    }

    /// Returns `true` if the output is a terminal that follows control sequences, so that lines can be redrawn in place.
    pub fn can_redraw(&self) -> bool {
        self.output_is_terminal && self.term.is_some_and(|term| !["", "dumb"].contains(&term))
    }

    /// Returns `true` if the terminal breaks lines anew when it becomes narrower, as all in wide use do but the named ones.
    pub fn rewraps_lines(&self) -> bool {
        let is_set = |value: Option<&str>| value.is_some_and(|value| !value.is_empty());
        self.term != Some("linux") && !is_set(self.xterm_version) && !is_set(self.screen_session)
    }

    /// Asks the terminal for its colours (OSC 10 and 11) and waits for the answer, at most for `timeout`. Over a slow
    /// connection it may take some hundred milliseconds.
    ///
    /// Returns `None` without asking if the input or the output is no terminal, if nothing is written in colour, or if the
    /// process runs in the background of its terminal; after asking, if the terminal gives no answer. Keys that are
    /// pressed meanwhile may be lost, so it is called before anything is read.
    pub fn ask_background(&self, timeout: Duration) -> Option<Background> {
        if !self.may_ask() || !is_in_foreground() {
            return None;
        }
        let mut options = QueryOptions::default();
        options.timeout = timeout;
        match theme_mode(options).ok()? {
            ThemeMode::Dark => Some(Background::Dark),
            ThemeMode::Light => Some(Background::Light),
        }
    }

    fn may_ask(&self) -> bool {
        self.input_is_terminal && self.can_redraw() && self.colour_support() != ColourSupport::None
    }
}

/// Returns `true` if this process may read from its terminal. One in the background would be stopped for it.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Returns `true`: other systems have no processes in the background of a terminal.
#[cfg(not(unix))]
fn is_in_foreground() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: TerminalEnvironment<'_> = TerminalEnvironment {
        no_color: None,
        clicolor_force: None,
        clicolor: None,
        term: Some("xterm-256color"),
        colorterm: None,
        xterm_version: None,
        screen_session: None,
        input_is_terminal: true,
        output_is_terminal: true,
    };

    #[test]
    fn variables_decide_about_colours_in_order() {
        use ColourSupport::{None as Nothing, Palette, TrueColour};
        let pipe = TerminalEnvironment { output_is_terminal: false, ..TERMINAL };
        for (environment, colours) in [
            (TERMINAL, Palette),
            (TerminalEnvironment { colorterm: Some("truecolor"), ..TERMINAL }, TrueColour),
            (TerminalEnvironment { colorterm: Some("24bit"), ..TERMINAL }, TrueColour),
            (TerminalEnvironment { colorterm: Some("yes"), ..TERMINAL }, Palette),
            (TerminalEnvironment { no_color: Some("1"), ..TERMINAL }, Nothing),
            (TerminalEnvironment { no_color: Some(""), ..TERMINAL }, Palette),
            (TerminalEnvironment { no_color: Some("1"), clicolor_force: Some("1"), ..TERMINAL }, Nothing),
            (TerminalEnvironment { clicolor: Some("0"), ..TERMINAL }, Nothing),
            (TerminalEnvironment { clicolor: Some("0"), clicolor_force: Some("1"), ..TERMINAL }, Palette),
            (TerminalEnvironment { term: Some("dumb"), ..TERMINAL }, Nothing),
            (TerminalEnvironment { term: None, ..TERMINAL }, Nothing),
            (TerminalEnvironment { term: Some("dumb"), clicolor_force: Some("1"), ..TERMINAL }, Palette),
            (pipe, Nothing),
            (TerminalEnvironment { clicolor_force: Some("1"), ..pipe }, Palette),
            (TerminalEnvironment { clicolor_force: Some("0"), ..pipe }, Nothing),
        ] {
            assert_eq!(environment.colour_support(), colours, "{environment:?}");
        }
    }

    #[test]
    fn xterm_screen_and_the_console_cut_lines() {
        for (environment, rewraps) in [
            (TERMINAL, true),
            (TerminalEnvironment { xterm_version: Some("XTerm(390)"), ..TERMINAL }, false),
            (TerminalEnvironment { xterm_version: Some(""), ..TERMINAL }, true),
            (TerminalEnvironment { screen_session: Some("1.tty"), ..TERMINAL }, false),
            (TerminalEnvironment { term: Some("linux"), ..TERMINAL }, false),
        ] {
            assert_eq!(environment.rewraps_lines(), rewraps, "{environment:?}");
        }
    }

    #[test]
    fn terminal_is_not_asked_without_one() {
        assert!(TERMINAL.may_ask());
        for environment in [
            TerminalEnvironment { input_is_terminal: false, ..TERMINAL },
            TerminalEnvironment { output_is_terminal: false, ..TERMINAL },
            TerminalEnvironment { output_is_terminal: false, clicolor_force: Some("1"), ..TERMINAL },
            TerminalEnvironment { term: Some("dumb"), clicolor_force: Some("1"), ..TERMINAL },
            TerminalEnvironment { no_color: Some("1"), ..TERMINAL },
        ] {
            assert!(!environment.may_ask(), "{environment:?}");
            assert_eq!(environment.ask_background(Duration::ZERO), None);
        }
    }
}
