//! Prose for people: at a terminal its lines are broken between words.

use std::io::IsTerminal;

use shelly_terminal::styled_line::{Style, StyledLine};
use terminal_size::{Width, terminal_size_of};

use super::{
    print::{print, tell},
    terminal_text::without_colours,
};
use crate::{error::Report, limits};

/// The least indent of the further lines of a line.
const CONTINUATION: usize = 2;

/// Writes prose to standard error, wrapped if that is a terminal.
pub fn tell_prose(text: &str) {
    let columns = std::io::stderr().is_terminal().then(|| terminal_size_of(std::io::stderr())).flatten();
    tell(&wrapped(text, columns.map(columns_of)));
}

/// Prints prose to standard output, wrapped if that is a terminal.
pub fn print_prose(text: &str) -> Result<(), Report> {
    let columns = std::io::stdout().is_terminal().then(|| terminal_size_of(std::io::stdout())).flatten();
    print(&wrapped(text, columns.map(columns_of)))
}

fn columns_of((Width(columns), _): (Width, terminal_size::Height)) -> usize {
    usize::from(columns)
}

/// Breaks the lines of a text between words, so that each fits into `columns`; `None` leaves them as they are. A word that
/// does not fit into a line stays whole, so that a path or an address can be copied; `wrap_line` of `shelly_terminal`, for
/// regions that are redrawn, breaks it, since each of its rows must fit. Texts of others are escaped already: of escape
/// sequences there are only the colours of the host.
fn wrapped(text: &str, columns: Option<usize>) -> String {
    match columns.filter(|columns| *columns >= limits::PROSE_COLUMNS) {
        None => text.to_owned(),
        Some(columns) => text.split('\n').map(|line| wrapped_line(line, columns)).collect::<Vec<_>>().join("\n"),
    }
}

fn wrapped_line(line: &str, columns: usize) -> String {
    let plain = without_colours(line);
    if width(&plain) <= columns {
        return line.to_owned();
    }
    let indent = hanging_indent(&plain).min(columns / 2);
    let (mut wrapped, mut column, mut blanks, mut is_empty) = (String::new(), 0, 0, true);
    for (at, word) in line.split(' ').enumerate() {
        blanks += usize::from(at > 0);
        if word.is_empty() {
            continue;
        }
        let taken = width(&without_colours(word));
        if !is_empty && column + blanks + taken > columns {
            wrapped.push('\n');
            (column, blanks) = (0, indent);
        }
        wrapped.push_str(&" ".repeat(blanks));
        wrapped.push_str(word);
        (column, blanks, is_empty) = (column + blanks + taken, 0, false);
    }
    wrapped
}

/// Returns the column in which the text of a line begins, below which its further lines continue: after a gap between
/// columns, after a label such as `warning:`, or after the mark of a list.
fn hanging_indent(plain: &str) -> usize {
    let text = plain.trim_start_matches(' ');
    let lead = plain.len() - text.len();
    let label = &text[..text.floor_char_boundary(limits::PROSE_LABEL_BYTES)];
    if let Some(gap) = label.rfind("  ") {
        let after = text[gap..].len() - text[gap..].trim_start_matches(' ').len();
        return lead + width(&text[..gap]) + after;
    }
    match text.split_once(' ') {
        Some((mark, _)) if mark.ends_with(':') || matches!(mark, "+" | "-" | "*") => lead + width(mark) + 1,
        // No part of another's text may begin a line as the host does.
        _ => lead.max(CONTINUATION),
    }
}

/// Returns the number of columns that a text without colours takes.
fn width(plain: &str) -> usize {
    StyledLine::styled(plain, Style::new()).width()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::render::{DIM, PLAIN, YELLOW};

    #[test]
    fn prose_is_wrapped_between_words_below_its_text() {
        let warning = format!("{YELLOW}warning:{PLAIN} the context window of the model is unknown\n");
        let bold = format!("  {DIM}hint:{PLAIN}  write the size into the config of the project");
        for (text, columns, expected) in [
            ("short", 20, "short".to_owned()),
            (&*warning, 30, format!("{YELLOW}warning:{PLAIN} the context window of\n         the model is unknown\n")),
            (
                &bold,
                30,
                format!("  {DIM}hint:{PLAIN}  write the size into\n         the config of the\n         project"),
            ),
            ("  + the agent may read all of it", 20, "  + the agent may\n    read all of it".into()),
            (
                "  get a model:      set a key, or start a server",
                30,
                "  get a model:      set a key,\n               or start a\n               server".into(),
            ),
            (
                "one /a/path/that/is/longer/than/a/line two",
                20,
                "one\n  /a/path/that/is/longer/than/a/line\n  two".into(),
            ),
            (
                "a sentence that ends far behind the label.  Another one.",
                30,
                "a sentence that ends far\n  behind the label.  Another\n  one.".into(),
            ),
            ("日本 日本 日本 日本 日本", 20, "日本 日本 日本 日本\n  日本".into()),
            ("no room for this text", 10, "no room for this text".into()),
        ] {
            assert_eq!(wrapped(text, Some(columns)), expected, "{text}");
        }
        let long = "word ".repeat(100);
        assert_eq!(wrapped(&long, None), long, "a pipe has no width");
        assert!(wrapped(&long, Some(80)).lines().all(|line| width(line) <= 80));
    }
}
