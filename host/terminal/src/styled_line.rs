//! Lines of safe text with styles and hyperlinks.
//!
//! A line can only be made of text that has passed [`safe_line`], so it has no
//! control character, whatever it is made of. For widgets of ratatui it becomes a [`Line`].

use std::{fmt, fmt::Write, sync::Arc};

pub use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use crate::{
    ansi,
    display_width::{display_width, end_of_broken_line, grapheme_width, prefix_within},
    limits::HYPERLINK_BYTES,
    safe_text::safe_line,
};

/// The mark at the end of a line that was cut.
const CUT_MARK: &str = "…";

/// The target of a hyperlink: a URL of the scheme `http`, `https` or `mailto`, in printable ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget(Arc<str>);

impl LinkTarget {
    /// Returns the target for a URL; `None` for other schemes, relative references and URLs longer than
    /// [`HYPERLINK_BYTES`]. Characters that a URL cannot have are percent-encoded.
    pub fn from_url(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once(':')?;
        if !["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let mut encoded = String::with_capacity(url.len());
        for byte in url.bytes() {
            match byte {
                b'!'..=b'~' => encoded.push(byte.into()),
                _ => write!(encoded, "%{byte:02X}").expect("a string takes all that is written"),
            }
        }
        (encoded.len() <= HYPERLINK_BYTES).then(|| Self(encoded.into()))
    }

    /// Returns the URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A part of a line in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyledSpan {
    text: String,
    style: Style,
    link: Option<LinkTarget>,
}

impl StyledSpan {
    /// Returns the text, which is safe to show.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Returns the target of the hyperlink.
    pub fn link(&self) -> Option<&LinkTarget> {
        self.link.as_ref()
    }
}

/// A line of text with styles, safe to show.
///
/// ```
/// use shelly_terminal::styled_line::{Style, StyledLine};
///
/// let mut line = StyledLine::styled("tool: ", Style::new().bold());
/// line.push("\x1b[31mred", Style::new());
/// assert_eq!(line.to_string(), "tool: \\u{1b}[31mred");
/// assert_eq!(line.width(), 19);
/// assert_eq!(line.cut(8).to_string(), "tool: \\…");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StyledLine {
    spans: Vec<StyledSpan>,
}

impl StyledLine {
    /// Creates a line of one style; line breaks and tabs become blanks.
    pub fn styled(text: &str, style: Style) -> Self {
        let mut line = Self::default();
        line.push(text, style);
        line
    }

    /// Appends text; line breaks and tabs become blanks.
    pub fn push(&mut self, text: &str, style: Style) {
        self.push_linked(text, style, None);
    }

    /// Appends text that is a hyperlink if there is a `link`.
    pub fn push_linked(&mut self, text: &str, style: Style, link: Option<&LinkTarget>) {
        let text = safe_line(text);
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style && last.link.as_ref() == link => last.text.push_str(&text),
            _ => self.spans.push(StyledSpan { text: text.into_owned(), style, link: link.cloned() }),
        }
    }

    /// Appends another line.
    pub fn append(&mut self, line: &Self) {
        for span in &line.spans {
            self.push_linked(&span.text, span.style, span.link.as_ref());
        }
    }

    /// Removes the blanks at the end.
    pub(crate) fn trim_end(&mut self) {
        while let Some(last) = self.spans.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if !last.text.is_empty() {
                break;
            }
            self.spans.pop();
        }
    }

    /// Returns the parts of the line; neighbours differ in style or link.
    pub fn spans(&self) -> &[StyledSpan] {
        &self.spans
    }

    /// Returns `true` if the line has no text.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the columns that the line takes at most: terminals count some emoji differently, and the larger count is
    /// meant.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| display_width(&span.text)).sum()
    }

    /// Returns the number of rows into which a terminal of so many columns breaks the line.
    pub(crate) fn rows(&self, columns: usize) -> usize {
        end_of_broken_line(self.grapheme_widths(), columns).0 + 1
    }

    /// Returns the row to which a column of the line moves where a terminal of so many columns breaks it, counted from 0. It is
    /// the larger one where terminals disagree: after a full row.
    pub(crate) fn row_of_column(&self, column: usize, columns: usize) -> usize {
        let mut passed = 0;
        let before = self.grapheme_widths().take_while(|width| {
            let is_before = passed < column;
            passed += if is_before { *width } else { 0 };
            is_before
        });
        let (row, used) = end_of_broken_line(before, columns);
        row + (used + column.saturating_sub(passed)) / columns
    }

    fn grapheme_widths(&self) -> impl Iterator<Item = usize> {
        self.spans.iter().flat_map(|span| span.text.graphemes(true)).map(grapheme_width)
    }

    /// Returns the line, or as much of it as fits into so many columns with a `…` at its end.
    pub fn cut(&self, columns: usize) -> Self {
        if self.width() <= columns {
            return self.clone();
        }
        let mut left = columns.saturating_sub(display_width(CUT_MARK));
        let mut line = Self::default();
        for span in &self.spans {
            let (bytes, used) = prefix_within(&span.text, left);
            line.push_linked(&span.text[..bytes], span.style, span.link.as_ref());
            left -= used;
            if bytes < span.text.len() {
                break;
            }
        }
        if columns > 0 {
            let style = line.spans.last().map_or_else(Style::new, |last| last.style);
            line.push(CUT_MARK, style);
        }
        line
    }

    /// Appends the line as a terminal shows it, without a line break: its text with the control sequences of its styles
    /// and hyperlinks (OSC 8).
    ///
    /// The only control character in it is the escape character, which begins these sequences.
    pub fn write_ansi(&self, output: &mut String) {
        for span in &self.spans {
            if let Some(link) = &span.link {
                ansi::begin_link(output, link.as_str());
            }
            let is_styled = ansi::begin_style(output, span.style);
            output.push_str(&span.text);
            if is_styled {
                output.push_str(ansi::RESET_STYLE);
            }
            if span.link.is_some() {
                output.push_str(ansi::END_LINK);
            }
        }
    }
}

/// Writes the text alone.
impl fmt::Display for StyledLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spans.iter().try_for_each(|span| f.write_str(&span.text))
    }
}

impl From<&str> for StyledLine {
    fn from(text: &str) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Loses the targets of hyperlinks, which lines of ratatui do not have.
impl From<StyledLine> for Line<'static> {
    fn from(line: StyledLine) -> Self {
        line.spans.into_iter().map(|span| Span::styled(span.text, span.style)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ansi(line: &StyledLine) -> String {
        let mut output = String::new();
        line.write_ansi(&mut output);
        output
    }

    #[test]
    fn only_targets_of_known_schemes_are_links() {
        for (url, target) in [
            ("https://a.example/b?c=d#e", Some("https://a.example/b?c=d#e")),
            ("HTTP://a.example", Some("HTTP://a.example")),
            ("mailto:a@b.example", Some("mailto:a@b.example")),
            ("https://a.example/ü \x1b\\", Some("https://a.example/%C3%BC%20%1B\\")),
            ("javascript:alert(1)", None),
            ("file:///etc/passwd", None),
            ("src/main.rs", None),
            ("", None),
        ] {
            assert_eq!(LinkTarget::from_url(url).as_ref().map(LinkTarget::as_str), target, "{url}");
        }
        let of_length = |bytes: usize| LinkTarget::from_url(&format!("http:{}", "a".repeat(bytes - 5)));
        assert!(of_length(HYPERLINK_BYTES).is_some());
        assert!(of_length(HYPERLINK_BYTES + 1).is_none());
    }

    #[test]
    fn styles_and_links_become_control_sequences() {
        let mut line = StyledLine::from("a ");
        line.push("b", Style::new().fg(Color::Rgb(1, 2, 3)).bold());
        line.push_linked("c", Style::new(), LinkTarget::from_url("https://c.example").as_ref());
        assert_eq!(ansi(&line), "a \x1b[38;2;1;2;3;1mb\x1b[0m\x1b]8;;https://c.example\x1b\\c\x1b]8;;\x1b\\");
    }

    #[test]
    fn plain_line_has_no_control_sequence() {
        assert_eq!(ansi(&StyledLine::from("a\nb")), "a b");
        assert_eq!(ansi(&StyledLine::default()), "");
    }

    #[test]
    fn line_is_cut_by_columns_and_not_by_chars() {
        let mut line = StyledLine::styled("日本", Style::new().bold());
        line.push("語です", Style::new());
        for (columns, text) in [(10, "日本語です"), (9, "日本語で…"), (8, "日本語…"), (2, "…"), (1, "…"), (0, "")]
        {
            let cut = line.cut(columns);
            assert_eq!(cut.to_string(), text, "{columns}");
            assert!(cut.width() <= columns, "{columns}");
        }
    }

    #[test]
    fn broken_line_has_rows_and_its_columns_move() {
        let mut line = StyledLine::from("ab日");
        line.push("cd", Style::new().bold());
        for (columns, rows, moved) in [(9, 1, [0, 0, 0]), (6, 1, [0, 0, 1]), (3, 3, [0, 1, 2]), (2, 3, [1, 2, 3])] {
            assert_eq!(line.rows(columns), rows, "{columns}");
            assert_eq!([2, 4, 6].map(|column| line.row_of_column(column, columns)), moved, "{columns}");
        }
        assert_eq!((StyledLine::default().rows(4), StyledLine::default().row_of_column(9, 4)), (1, 2));
    }

    #[test]
    fn neighbours_of_one_style_are_one_span() {
        let mut line = StyledLine::from("a");
        line.push("", Style::new().bold());
        line.push("b", Style::new());
        assert_eq!(line.spans().len(), 1);
        assert_eq!(Line::from(line).spans.len(), 1);
    }
}
