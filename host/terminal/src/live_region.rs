//! Lines at the bottom of the normal screen that are redrawn in place: a progress display, the end of an answer.
//!
//! Between two draws the cursor stays in the first column of the region's first row, hidden. The place of the region is
//! thereby known whatever happens to the screen: terminals that break or cut lines anew when they are resized move the cursor
//! with its row, and what other code writes meanwhile stays above the next draw.
//!
//! A region in which a person types shows the cursor where they type ([`LiveRegion::update_with_cursor`]): input methods open
//! their window there. Then nothing else may write to the terminal, and the region must know if the terminal breaks lines anew
//! when it becomes narrower ([`LiveRegion::rewrapping`]): its first row is then farther above the cursor.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::{ansi, safe_text::safe_line, styled_line::StyledLine};

/// Erases a region that was drawn last, and makes the cursor visible.
///
/// For a program that ends without dropping its [`LiveRegion`], as [`std::process::exit`] does.
pub const LEAVE_REGION: &str = "\r\x1b[J\x1b[?7h\x1b[?25h";

/// The size of a terminal that tells none.
const UNKNOWN_SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The size of a terminal in characters; 0 columns or rows if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// The characters in a row.
    pub columns: u16,
    /// The rows.
    pub rows: u16,
}

/// The place of a visible cursor in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionCursor {
    /// The line, counted from 0.
    pub line: usize,
    /// The columns before it.
    pub column: usize,
}

/// A region of lines at the bottom of the screen.
///
/// `S` is asked for the size of the terminal at each draw. Each draw is one write and one flush. The cursor must be in the
/// first column when the region is drawn first, and nothing else may read or move it. When it is dropped, also while a panic
/// unwinds, the region is erased and the cursor is visible again.
///
/// ```
/// use shelly_terminal::live_region::{LiveRegion, TerminalSize};
///
/// # fn main() -> std::io::Result<()> {
/// let mut screen = Vec::new();
/// let mut region = LiveRegion::new(&mut screen, || TerminalSize { columns: 80, rows: 24 }, 2);
/// region.set(vec!["reading…".into()])?;
/// region.print_above(&["read 3 files".into()])?;
/// region.clear()?;
/// # Ok(()) }
/// ```
pub struct LiveRegion<W: Write, S: FnMut() -> TerminalSize> {
    output: W,
    size: S,
    most_lines: usize,
    lines: Vec<StyledLine>,
    /// The lines on the screen, cut to the size with which they were drawn.
    drawn: Vec<StyledLine>,
    drawn_size: TerminalSize,
    cursor: Option<RegionCursor>,
    /// The place of the cursor among the lines on the screen; `None` if it is hidden in the first row.
    drawn_cursor: Option<RegionCursor>,
    /// `true` if the terminal breaks lines anew when it becomes narrower.
    rewraps: bool,
}

impl<W: Write, S: FnMut() -> TerminalSize> LiveRegion<W, S> {
    /// Creates an empty region of at most `most_lines` lines; it writes nothing yet. It also takes at most all rows of the
    /// terminal but one. If there are more lines, the last ones are shown.
    pub fn new(output: W, size: S, most_lines: usize) -> Self {
        Self {
            output,
            size,
            most_lines,
            lines: Vec::new(),
            drawn: Vec::new(),
            drawn_size: UNKNOWN_SIZE,
            cursor: None,
            drawn_cursor: None,
            rewraps: false,
        }
    }

    /// Says if the terminal breaks lines anew when it becomes narrower. If it is said of one that cuts them, a region with a
    /// visible cursor erases printed rows above it; if it is not said of one that breaks them, old rows of the region stay.
    #[must_use]
    pub fn rewrapping(mut self, rewraps: bool) -> Self {
        self.rewraps = rewraps;
        self
    }

    /// Prints final lines above the region, from where they scroll away. The terminal breaks a line that is too long.
    ///
    /// # Errors
    ///
    /// If the output cannot be written, for example because the terminal has gone away
    /// ([`BrokenPipe`](io::ErrorKind::BrokenPipe)). The lines may have been printed in part.
    pub fn print_above(&mut self, lines: &[StyledLine]) -> io::Result<()> {
        self.draw(lines)
    }

    /// Replaces the lines of the region. Lines that are too long are cut. If nothing has changed on the screen, nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn set(&mut self, lines: Vec<StyledLine>) -> io::Result<()> {
        self.update(&[], lines)
    }

    /// Prints final lines above the region and replaces its lines, in one draw: for lines that move from the region to the
    /// text above it.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn update(&mut self, above: &[StyledLine], lines: Vec<StyledLine>) -> io::Result<()> {
        self.update_with_cursor(above, lines, None)
    }

    /// Updates the region like [`LiveRegion::update`], and shows the cursor at a place in it. A place in a line that is not shown
    /// hides it.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn update_with_cursor(
        &mut self,
        above: &[StyledLine],
        lines: Vec<StyledLine>,
        cursor: Option<RegionCursor>,
    ) -> io::Result<()> {
        (self.lines, self.cursor) = (lines, cursor);
        self.draw(above)
    }

    /// Calls the person's attention: rings the bell, and asks the terminal for a notification of the desktop with this text
    /// (OSC 9), which terminals without it ignore. The screen does not change.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn notify(&mut self, text: &str) -> io::Result<()> {
        let notification =
            format!("{}{}{}{}", ansi::BEGIN_NOTIFICATION, safe_line(text), ansi::END_NOTIFICATION, ansi::BELL);
        self.output.write_all(notification.as_bytes())?;
        self.output.flush()
    }

    /// Erases the region and makes the cursor visible. The region can be set again.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn clear(&mut self) -> io::Result<()> {
        self.update(&[], Vec::new())
    }

    fn present_size(&mut self) -> TerminalSize {
        match (self.size)() {
            TerminalSize { columns: 0, .. } | TerminalSize { rows: 0, .. } => UNKNOWN_SIZE,
            size => size,
        }
    }

    /// Returns the rows from the first one of the region to the cursor, on a screen that has this size now.
    fn rows_above_cursor(&self, now: TerminalSize) -> usize {
        let Some(RegionCursor { line, column }) = self.drawn_cursor else { return 0 };
        if !self.rewraps || now.columns >= self.drawn_size.columns {
            return line;
        }
        let columns = usize::from(now.columns);
        let above: usize = self.drawn[..line].iter().map(|above| above.rows(columns)).sum();
        above + self.drawn[line].row_of_column(column, columns)
    }

    fn draw(&mut self, above: &[StyledLine]) -> io::Result<()> {
        let size = self.present_size();
        let most_lines = self.most_lines.min(usize::from(size.rows).saturating_sub(1).max(1));
        let hidden = self.lines.len().saturating_sub(most_lines);
        let lines: Vec<_> = self.lines[hidden..].iter().map(|line| line.cut(size.columns.into())).collect();
        let in_lines = |cursor: RegionCursor| {
            let line = cursor.line.checked_sub(hidden).filter(|line| *line < lines.len())?;
            Some(RegionCursor { line, column: cursor.column.min(usize::from(size.columns) - 1) })
        };
        let cursor = self.cursor.and_then(in_lines);
        let is_same = lines == self.drawn && cursor == self.drawn_cursor;
        if above.is_empty() && is_same && (size == self.drawn_size || lines.is_empty()) {
            return Ok(());
        }
        let mut output = String::from(ansi::BEGIN_UPDATE);
        if !self.drawn.is_empty() {
            if self.drawn_cursor.is_some() {
                output.push_str(ansi::HIDE_CURSOR);
                ansi::move_up(&mut output, self.rows_above_cursor(size));
            }
            output.push_str(ansi::ERASE_BELOW);
        }
        for line in above {
            line.write_ansi(&mut output);
            output.push_str(ansi::NEW_LINE);
        }
        if !lines.is_empty() {
            output.push_str(ansi::HIDE_CURSOR);
            // A terminal may give a character more columns than expected. The rest of its line is then lost, not the region.
            output.push_str(ansi::NO_AUTO_WRAP);
            for (row, line) in lines.iter().enumerate() {
                if row > 0 {
                    output.push_str(ansi::NEW_LINE);
                }
                line.write_ansi(&mut output);
            }
            output.push_str(ansi::AUTO_WRAP);
            ansi::move_up(&mut output, lines.len() - 1 - cursor.map_or(0, |cursor| cursor.line));
            if let Some(RegionCursor { column, .. }) = cursor {
                ansi::move_right(&mut output, column);
                output.push_str(ansi::SHOW_CURSOR);
            }
        } else if !self.drawn.is_empty() {
            output.push_str(ansi::SHOW_CURSOR);
        }
        output.push_str(ansi::END_UPDATE);
        // After a failure too, what is on the screen is rather this than what was there before.
        (self.drawn, self.drawn_size, self.drawn_cursor) = (lines, size, cursor);
        self.output.write_all(output.as_bytes())?;
        self.output.flush()
    }
}

impl<W: Write, S: FnMut() -> TerminalSize> Drop for LiveRegion<W, S> {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            let (mut leave, size) = (String::new(), self.present_size());
            ansi::move_up(&mut leave, self.rows_above_cursor(size));
            leave.push_str(LEAVE_REGION);
            // The terminal may have gone away, and there is nobody left to be told.
            let _ = self.output.write_all(leave.as_bytes()).and_then(|()| self.output.flush());
        }
    }
}
