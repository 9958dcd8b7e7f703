//! A numbered range of lines of a file that is read in pieces.

/// The maximum number of bytes of a line that are shown; longer lines are cut and marked.
const LINE: usize = 10_000;

/// The maximum number of bytes of all lines together: more than a model is shown at once.
const SHOWN: usize = 1 << 20;

/// A collector of a range of lines, which also counts all lines.
pub(crate) struct Window {
    first: u64,
    last: u64,
    /// The number of the line that the next byte belongs to, from 1.
    line: u64,
    at_line_start: bool,
    /// The beginning of that line if it is in the range; `length` is the line's length so far.
    current: Vec<u8>,
    length: usize,
    shown: String,
    /// The number of the last line that is shown.
    until: u64,
    is_lossy: bool,
}

impl Window {
    /// Creates a collector of `limit` lines from line `offset` on, counted from 1.
    pub(crate) fn new(offset: u64, limit: u64) -> Result<Window, String> {
        if offset == 0 || limit == 0 {
            return Err("`offset` and `limit` must be at least 1; lines are counted from 1".to_owned());
        }
        Ok(Window {
            first: offset,
            last: offset.saturating_add(limit - 1),
            line: 1,
            at_line_start: true,
            current: Vec::new(),
            length: 0,
            shown: String::new(),
            until: 0,
            is_lossy: false,
        })
    }

    /// Processes the next piece of the file.
    pub(crate) fn take(&mut self, chunk: &[u8]) {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.is_wanted() {
                let room = (LINE + 1).saturating_sub(self.current.len());
                self.current.extend_from_slice(&part[..part.len().min(room)]);
                self.length += part.len();
            }
            self.at_line_start = part.ends_with(b"\n");
            if self.at_line_start {
                self.end_line();
            }
        }
    }

    fn is_wanted(&self) -> bool {
        (self.first..=self.last).contains(&self.line) && self.shown.len() < SHOWN
    }

    fn end_line(&mut self) {
        if self.is_wanted() {
            self.show();
        }
        self.line += 1;
    }

    fn show(&mut self) {
        let is_cut = self.length > self.current.len() || self.current.len() > LINE;
        self.current.truncate(LINE);
        let mut text = String::from_utf8_lossy(&self.current);
        if is_cut && text.ends_with('\u{fffd}') {
            // The cut may have split a character.
            text = text.trim_end_matches('\u{fffd}').to_owned().into();
        }
        self.is_lossy |= text.contains('\u{fffd}');
        let text = text.trim_end_matches(['\n', '\r']);
        self.shown += &format!("{:>6}\t{text}", self.line);
        if is_cut {
            self.shown += &format!("… [{} bytes in total]", self.length);
        }
        self.shown.push('\n');
        self.until = self.line;
        self.current.clear();
        self.length = 0;
    }

    /// Returns the lines below a header, or the reason why there are none. `is_all` is set if the whole file was read.
    pub(crate) fn finish(mut self, path: &str, is_all: bool) -> Result<String, String> {
        if !self.at_line_start {
            self.end_line();
        }
        let lines = self.line - 1;
        if self.until == 0 {
            return match (lines, is_all) {
                (0, true) => Ok(format!("`{path}` is empty")),
                (_, true) => Err(format!("`{path}` has {lines} lines; there is no line {}", self.first)),
                (_, false) => Err(format!("line {} of `{path}` is too far from the beginning to be read", self.first)),
            };
        }
        let (first, until, more) = (self.first, self.until, if is_all { "" } else { "more than " });
        let mut header = format!("`{path}`, lines {first} to {until} of {more}{lines}");
        if self.is_lossy {
            header += " (\u{fffd}: not UTF-8)";
        }
        Ok(format!("{header}\n{}", self.shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &[u8], offset: u64, limit: u64) -> Result<String, String> {
        let results: Vec<_> = [1, 2, 3, 7, 100_000]
            .into_iter()
            .map(|piece| {
                let mut window = Window::new(offset, limit)?;
                text.chunks(piece).for_each(|chunk| window.take(chunk));
                window.finish("f", true)
            })
            .collect();
        assert!(results.iter().all(|result| *result == results[0]), "however it is cut: {results:?}");
        results.into_iter().next().unwrap()
    }

    #[test]
    fn read_lines_are_numbered_below_a_header() {
        let text = "one\ntwo\r\n\nvier ü\n".as_bytes();
        for (offset, limit, expected) in [
            (1, 2, "`f`, lines 1 to 2 of 4\n     1\tone\n     2\ttwo\n"),
            (3, 100, "`f`, lines 3 to 4 of 4\n     3\t\n     4\tvier ü\n"),
            (4, u64::MAX, "`f`, lines 4 to 4 of 4\n     4\tvier ü\n"),
        ] {
            assert_eq!(window(text, offset, limit).as_deref(), Ok(expected));
        }
        assert_eq!(window(b"a\nb", 2, 1).as_deref(), Ok("`f`, lines 2 to 2 of 2\n     2\tb\n"));
        assert_eq!(
            window(b"a\nn\xefve\n", 2, 1).as_deref(),
            Ok("`f`, lines 2 to 2 of 2 (\u{fffd}: not UTF-8)\n     2\tn\u{fffd}ve\n")
        );
        assert_eq!(window(b"", 1, 1).as_deref(), Ok("`f` is empty"));
        assert_eq!(window(b"a\n", 2, 1), Err("`f` has 1 lines; there is no line 2".into()));
        assert!(Window::new(0, 1).is_err() && Window::new(1, 0).is_err());
    }

    #[test]
    fn long_line_is_cut_at_a_character_and_states_its_size() {
        let long = "ü".repeat(LINE);
        let shown = window(format!("{long}\nb\n").as_bytes(), 1, 9).unwrap();
        assert!(shown.contains(&format!("{}… [{} bytes in total]\n     2\tb\n", "ü".repeat(LINE / 2), 2 * LINE + 1)));
        let exact = window(format!("{}\nb", "x".repeat(LINE - 1)).as_bytes(), 1, 9).unwrap();
        assert!(!exact.contains('…'));
    }

    #[test]
    fn shown_lines_are_bounded_and_all_lines_are_counted() {
        let shown = window("0123456789\n".repeat(100_000).as_bytes(), 1, u64::MAX).unwrap();
        assert!(
            shown.len() < SHOWN + LINE && shown.starts_with("`f`, lines 1 to 58255 of 100000\n"),
            "{}",
            &shown[..60]
        );
        let mut far = Window::new(9, 1).unwrap();
        far.take(b"a\n");
        assert!(far.finish("f", false).unwrap_err().contains("too far"));
    }
}
