//! Lines of Markdown out of text that arrives in pieces.

use crate::{limits::MARKDOWN_LINE_BYTES, safe_text::expand_tabs};

/// A blank that begins each line for the parser of inline Markdown; in the source it becomes an ordinary blank.
pub const LINE_MARK: &str = "\u{205f}";

/// A line of Markdown, or a part of a line that is longer than [`MARKDOWN_LINE_BYTES`]. Tabs are blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePiece {
    /// The text without its line break.
    pub text: String,
    /// `true` if a line begins here.
    pub begins_line: bool,
}

/// The start of a line whose end has not come yet.
///
/// Where a long line is divided depends on its bytes alone, so the pieces do not depend on how the text arrived.
#[derive(Debug, Clone, Default)]
pub struct SourceLines {
    pending: String,
    /// `true` if pieces of the pending line were taken already.
    is_divided: bool,
    /// `true` after a carriage return: a line feed that follows belongs to it.
    follows_return: bool,
}

impl SourceLines {
    /// Takes text and passes on each piece that is complete.
    pub fn push(&mut self, mut text: &str, mut take: impl FnMut(SourcePiece)) {
        while !text.is_empty() {
            if self.follows_return {
                self.follows_return = false;
                text = text.strip_prefix('\n').unwrap_or(text);
                continue;
            }
            let room = MARKDOWN_LINE_BYTES - self.pending.len();
            let near = &text.as_bytes()[..text.len().min(room + 1)];
            let end = near.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            if end.is_none() && text.len() > room {
                // A piece is full when its next character does not fit.
                let cut = text.floor_char_boundary(room);
                self.pending.push_str(&text[..cut]);
                text = &text[cut..];
                take(self.take_piece());
                self.is_divided = true;
                continue;
            }
            let Some(end) = end else {
                self.pending.push_str(text);
                return;
            };
            self.pending.push_str(&text[..end]);
            self.follows_return = text.as_bytes()[end] == b'\r';
            text = &text[end + 1..];
            take(self.take_piece());
            self.is_divided = false;
        }
    }

    /// Returns the line whose end has not come; `None` if nothing of it has.
    pub fn unfinished(&self) -> Option<SourcePiece> {
        (!self.pending.is_empty()).then(|| self.clone().take_piece())
    }

    /// Returns the bytes that are kept.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.pending.len()
    }

    fn take_piece(&mut self) -> SourcePiece {
        let mut text = expand_tabs(&self.pending).into_owned();
        if text.contains(LINE_MARK) {
            text = text.replace(LINE_MARK, " ");
        }
        self.pending.clear();
        SourcePiece { text, begins_line: !self.is_divided }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(deltas: &[&str]) -> Vec<(String, bool)> {
        let (mut lines, mut pieces) = (SourceLines::default(), Vec::new());
        for delta in deltas {
            lines.push(delta, |piece| pieces.push((piece.text, piece.begins_line)));
        }
        pieces.extend(lines.unfinished().map(|piece| (piece.text, piece.begins_line)));
        pieces
    }

    #[test]
    fn every_line_break_ends_one_line() {
        let expected =
            [("a", true), ("b", true), ("", true), ("c", true)].map(|(text, begins)| (text.to_owned(), begins));
        assert_eq!(pieces(&["a\r\nb\r\rc"]), expected);
        assert_eq!(pieces(&["a\r", "\nb\r", "\rc"]), expected);
        assert_eq!(pieces(&["a\r", "", "\n", "b\r", "\r", "c\n"]), expected);
    }

    #[test]
    fn long_line_is_divided_at_its_bytes() {
        let line = format!("{}é{}", "a".repeat(MARKDOWN_LINE_BYTES - 1), "b".repeat(MARKDOWN_LINE_BYTES));
        let whole = pieces(&[&line, "\nend"]);
        let lengths: Vec<_> = whole.iter().map(|(text, begins)| (text.len(), *begins)).collect();
        assert_eq!(lengths, [(MARKDOWN_LINE_BYTES - 1, true), (MARKDOWN_LINE_BYTES, false), (2, false), (3, true)]);
        let (start, rest) = line.split_at(MARKDOWN_LINE_BYTES - 1);
        assert_eq!(pieces(&[start, rest, "\n", "end"]), whole);
    }

    #[test]
    fn full_line_is_not_divided_at_its_end() {
        let line = "a".repeat(MARKDOWN_LINE_BYTES);
        assert_eq!(pieces(&[&line, "\n"]), [(line.clone(), true)]);
    }
}
