//! A text of several lines that a person edits with keys, and its rows at the bottom of the screen.

#[cfg(test)]
mod tests;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use crate::{
    display_width::{display_width, grapheme_width},
    live_region::RegionCursor,
    safe_text::safe_line,
    styled_line::{Style, StyledLine},
};

/// A way from the cursor to another position in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorMotion {
    /// One character back.
    Left,
    /// One character on.
    Right,
    /// To the start of the word before the cursor.
    WordLeft,
    /// To the end of the word after the cursor.
    WordRight,
    /// To the start of the line.
    LineStart,
    /// To the end of the line.
    LineEnd,
    /// To the line above, in the same column as far as it has one.
    Up,
    /// To the line below.
    Down,
}

/// The rows in which a text is shown, and the place of its cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorView {
    /// The rows, at least one.
    pub rows: Vec<StyledLine>,
    /// The place of the cursor among them.
    pub cursor: RegionCursor,
}

/// A text with a cursor.
///
/// The cursor is always between two characters as a person sees them. The text has no control characters apart from line
/// breaks and tabs, and never more bytes than its maximum.
///
/// ```
/// use shelly_terminal::text_editor::{CursorMotion, TextEditor};
///
/// let mut editor = TextEditor::new(100);
/// editor.insert("two words");
/// editor.remove(CursorMotion::WordLeft);
/// assert_eq!(editor.text(), "two ");
/// editor.restore_removed();
/// assert_eq!(editor.take(), "two words");
/// ```
#[derive(Debug, Clone)]
pub struct TextEditor {
    text: String,
    /// The byte before which text is inserted.
    cursor: usize,
    /// The column to which the cursor returns when it moves over shorter lines.
    column: Option<usize>,
    /// The text that was removed last.
    removed: String,
    most_bytes: usize,
}

impl TextEditor {
    /// Creates an empty text of at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self { text: String::new(), cursor: 0, column: None, removed: String::new(), most_bytes }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Returns `true` if there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Inserts text at the cursor. Line breaks of all systems become line feeds; other control characters are left out.
    /// Returns `false` and inserts nothing if the text would be too long.
    pub fn insert(&mut self, text: &str) -> bool {
        let text: String = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        if self.text.len() + text.len() > self.most_bytes {
            return false;
        }
        self.text.insert_str(self.cursor, &text);
        self.cursor = self.boundary_from(self.cursor + text.len());
        self.column = None;
        true
    }

    /// Replaces the whole text, and moves the cursor behind it. A text that is too long is cut.
    pub fn set(&mut self, text: &str) {
        self.text.clear();
        self.cursor = 0;
        let mut end = text.len().min(self.most_bytes);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.insert(&text[..end]);
    }

    /// Replaces the last `bytes` before the cursor, which end at a character boundary on both sides, by a text. Returns
    /// `false` if the text would be too long.
    pub fn replace_before_cursor(&mut self, bytes: usize, text: &str) -> bool {
        let (start, end) = (self.cursor.saturating_sub(bytes), self.cursor);
        if !self.text.is_char_boundary(start) || self.text.len() - (end - start) + text.len() > self.most_bytes {
            return false;
        }
        self.text.replace_range(start..end, "");
        self.cursor = start;
        self.insert(text)
    }

    /// Returns the text, and leaves none.
    pub fn take(&mut self) -> String {
        (self.cursor, self.column) = (0, None);
        std::mem::take(&mut self.text)
    }

    /// Moves the cursor. Returns `false` if it stays where it is.
    pub fn move_cursor(&mut self, motion: CursorMotion) -> bool {
        let to = self.target(motion);
        if !matches!(motion, CursorMotion::Up | CursorMotion::Down) {
            self.column = None;
        }
        let has_moved = to != self.cursor;
        self.cursor = to;
        has_moved
    }

    /// Removes the text between the cursor and the target of a motion; at the start or the end of a line, the line break.
    /// It can be restored.
    pub fn remove(&mut self, motion: CursorMotion) {
        let to = match (motion, self.target(motion)) {
            (CursorMotion::LineStart, to) if to == self.cursor => self.target(CursorMotion::Left),
            (CursorMotion::LineEnd, to) if to == self.cursor => self.target(CursorMotion::Right),
            (_, to) => to,
        };
        let (start, end) = (self.cursor.min(to), self.cursor.max(to));
        if start < end {
            self.removed = self.text.drain(start..end).collect();
        }
        // What stood on both sides may be one character now.
        (self.cursor, self.column) = (self.boundary_from(start), None);
    }

    /// Removes the whole text. It can be restored.
    pub fn clear(&mut self) {
        if !self.text.is_empty() {
            self.removed = self.take();
        }
    }

    /// Inserts the text that was removed last.
    pub fn restore_removed(&mut self) {
        let removed = self.removed.clone();
        self.insert(&removed);
    }

    /// Returns the text for so many columns: at most `most_rows` rows around the cursor, whose cell has `cursor_style`. A line
    /// that is too long is broken.
    pub fn view(&self, columns: usize, most_rows: usize, style: Style, cursor_style: Style) -> EditorView {
        let mut rows = EditorRows::new(columns.max(1), style, cursor_style);
        for (at, grapheme) in self.text.grapheme_indices(true) {
            rows.push(grapheme, at == self.cursor);
        }
        rows.finish(self.cursor == self.text.len(), most_rows.max(1))
    }

    /// Returns the position to which a motion leads.
    fn target(&mut self, motion: CursorMotion) -> usize {
        let (before, after) = self.text.split_at(self.cursor);
        match motion {
            CursorMotion::Left => before.grapheme_indices(true).next_back().map_or(0, |(at, _)| at),
            CursorMotion::Right => self.cursor + after.graphemes(true).next().map_or(0, str::len),
            CursorMotion::WordLeft => {
                let mut words = before.unicode_word_indices();
                words.next_back().map_or(0, |(at, _)| at)
            }
            CursorMotion::WordRight => {
                let word = after.unicode_word_indices().next();
                word.map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
            }
            CursorMotion::LineStart => self.line_start(),
            CursorMotion::LineEnd => self.line_end(),
            CursorMotion::Up => match self.line_start() {
                0 => self.cursor,
                start => {
                    let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
                    self.in_column(above, start - 1)
                }
            },
            CursorMotion::Down => match self.line_end() {
                end if end == self.text.len() => self.cursor,
                end => {
                    let below = self.text[end + 1..].find('\n').map_or(self.text.len(), |at| end + 1 + at);
                    self.in_column(end + 1, below)
                }
            },
        }
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// Returns the position in the line from `start` to `end` that is in the column of the cursor.
    fn in_column(&mut self, start: usize, end: usize) -> usize {
        let line = &self.text[self.line_start()..self.cursor];
        let column = *self.column.get_or_insert_with(|| display_width(line));
        let (mut at, mut used) = (start, 0);
        for grapheme in self.text[start..end].graphemes(true) {
            used += grapheme_width(grapheme);
            if used > column {
                break;
            }
            at += grapheme.len();
        }
        at
    }

    /// Returns the first position from `at` on that is between two characters.
    fn boundary_from(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        match cursor.is_boundary(&self.text, 0) {
            Ok(true) => at,
            _ => cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len()),
        }
    }
}

/// Breaks a text into rows.
struct EditorRows {
    columns: usize,
    style: Style,
    cursor_style: Style,
    rows: Vec<StyledLine>,
    /// The columns that the last row takes.
    used: usize,
    cursor: RegionCursor,
}

impl EditorRows {
    fn new(columns: usize, style: Style, cursor_style: Style) -> Self {
        let cursor = RegionCursor { line: 0, column: 0 };
        Self { columns, style, cursor_style, rows: vec![StyledLine::default()], used: 0, cursor }
    }

    fn push(&mut self, grapheme: &str, is_cursor: bool) {
        if matches!(grapheme, "\n" | "\r\n") {
            if is_cursor {
                self.put(" ", 1, true);
            }
            return self.break_row();
        }
        let shown = safe_line(grapheme);
        self.put(&shown, display_width(&shown), is_cursor);
    }

    fn put(&mut self, shown: &str, width: usize, is_cursor: bool) {
        if self.used > 0 && self.used + width > self.columns {
            self.break_row();
        }
        if is_cursor {
            self.cursor = RegionCursor { line: self.rows.len() - 1, column: self.used };
        }
        self.used += width;
        let style = if is_cursor { self.cursor_style } else { self.style };
        if let Some(row) = self.rows.last_mut() {
            row.push(shown, style);
        }
    }

    fn break_row(&mut self) {
        self.rows.push(StyledLine::default());
        self.used = 0;
    }

    /// Returns the rows around the cursor, which is at the end of the text if `is_at_end`.
    fn finish(mut self, is_at_end: bool, most_rows: usize) -> EditorView {
        if is_at_end {
            self.put(" ", 1, true);
        }
        let last_start = self.rows.len().saturating_sub(most_rows);
        let start = (self.cursor.line + 1).saturating_sub(most_rows).min(last_start);
        let cursor = RegionCursor { line: self.cursor.line - start, ..self.cursor };
        EditorView { rows: self.rows.drain(start..).take(most_rows).collect(), cursor }
    }
}
