//! Breaks a styled line between words, for text that is no Markdown: lists, warnings, questions.

use crate::{
    display_width::display_width,
    markdown::wrapping::{InlineRun, wrap},
    styled_line::{Style, StyledLine},
};

/// Breaks a line into rows of at most so many columns, between words where that is possible. Later rows begin below the text of
/// the first one: after its indentation, or below the second column of a row such as `/help  shows the commands`.
///
/// ```
/// use shelly_terminal::{line_wrapping::wrap_line, styled_line::StyledLine};
///
/// let rows = wrap_line(&StyledLine::from("  /help  shows keys and commands"), 24);
/// let rows: Vec<_> = rows.iter().map(ToString::to_string).collect();
/// assert_eq!(rows, ["  /help  shows keys and", "         commands"]);
/// ```
pub fn wrap_line(line: &StyledLine, columns: usize) -> Vec<StyledLine> {
    if line.width() <= columns {
        return vec![line.clone()];
    }
    let bytes = hanging_bytes(&line.to_string(), columns);
    let (first, rest) = split(line, bytes);
    let hanging = first.width();
    let below = StyledLine::styled(&" ".repeat(hanging), Style::new());
    let rows = wrap(&rest, columns.saturating_sub(hanging));
    let with_beginning = |(at, row): (usize, &StyledLine)| {
        let mut whole = if at == 0 { first.clone() } else { below.clone() };
        whole.append(row);
        whole
    };
    rows.iter().enumerate().map(with_beginning).collect()
}

/// Returns the bytes of the beginning below which later rows are blank; it takes at most half of the columns.
fn hanging_bytes(text: &str, columns: usize) -> usize {
    let blanks = |from: usize| text[from..].len() - text[from..].trim_start_matches(' ').len();
    let indentation = blanks(0);
    let end_of_cell = text[indentation..].find("  ").map(|at| indentation + at);
    let second_cell = end_of_cell.map(|end| end + blanks(end));
    let fits = |bytes: &usize| *bytes < text.len() && display_width(&text[..*bytes]) <= columns / 2;
    second_cell.filter(fits).or(Some(indentation).filter(fits)).unwrap_or(0)
}

/// Returns the beginning of a line, and what follows it.
fn split(line: &StyledLine, bytes: usize) -> (StyledLine, Vec<InlineRun>) {
    let (mut first, mut rest, mut left) = (StyledLine::default(), Vec::new(), bytes);
    for span in line.spans() {
        let at = left.min(span.text().len());
        left -= at;
        let (before, after) = span.text().split_at(at);
        first.push_linked(before, span.style(), span.link());
        if !after.is_empty() {
            rest.push(InlineRun { text: after.to_owned(), style: span.style(), link: span.link().cloned() });
        }
    }
    (first, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        wrap_line(&StyledLine::from(text), columns).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn line_is_broken_between_words_below_its_text() {
        for (text, columns, rows) in [
            ("one two three", 20, &["one two three"][..]),
            ("one two three", 9, &["one two", "three"]),
            ("  one two three", 9, &["  one two", "  three"]),
            ("  a  one two", 11, &["  a  one", "     two"]),
            ("  a long cell  one two", 16, &["  a long cell", "  one two"]),
            ("a  longerword", 8, &["a  longe", "   rword"]),
            ("", 5, &[""]),
        ] {
            assert_eq!(wrapped(text, columns), rows, "{text}");
        }
    }

    #[test]
    fn styles_of_a_line_are_kept_in_its_rows() {
        let mut line = StyledLine::styled("  a  ", Style::new().bold());
        line.push("one two three", Style::new().dim());
        let rows = wrap_line(&line, 12);
        assert_eq!(rows[0].spans()[0].style(), Style::new().bold());
        assert_eq!(rows[1].spans()[1].style(), Style::new().dim());
    }

    proptest! {
        #[test]
        fn rows_fit_and_lose_only_blanks(text in "[ a-z日本é]{0,60}", columns in 8_usize..30) {
            let visible = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            let rows = wrap_line(&StyledLine::from(&*text), columns);
            prop_assert!(rows.iter().all(|row| row.width() <= columns));
            prop_assert_eq!(visible(&wrapped(&text, columns).concat()), visible(&text));
        }
    }
}
