//! Extraction of lines from a file that is read in pieces.

use shelly_plugin::Error;

/// A collector of the bytes of the lines from `first` to `last`, including line ends.
pub(crate) struct Collector {
    first: u64,
    last: u64,
    max: u64,
    /// The number of the line that the next byte belongs to, from 1.
    line: u64,
    at_line_start: bool,
    bytes: Vec<u8>,
    too_large: bool,
}

impl Collector {
    /// Creates a collector. Lines count from 1; a missing bound means the beginning or the end.
    pub(crate) fn new(first: Option<u64>, last: Option<u64>, max: u64) -> Result<Collector, String> {
        let (first, last) = (first.unwrap_or(1), last.unwrap_or(u64::MAX));
        if first == 0 || last < first {
            return Err(format!(
                "invalid lines: `first_line` is {first} and `last_line` is {last}; count lines from 1, the last not \
                 before the first"
            ));
        }
        Ok(Collector { first, last, max, line: 1, at_line_start: true, bytes: Vec::new(), too_large: false })
    }

    /// Returns `true` if further pieces change nothing.
    pub(crate) fn is_complete(&self) -> bool {
        self.line > self.last || self.too_large
    }

    /// Processes the next piece.
    pub(crate) fn take(&mut self, chunk: &[u8]) {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.is_complete() {
                return;
            }
            if self.line >= self.first {
                self.too_large = (self.bytes.len() + part.len()) as u64 > self.max;
                self.bytes.extend_from_slice(part);
            }
            self.at_line_start = part.ends_with(b"\n");
            self.line += u64::from(self.at_line_start);
        }
    }

    /// Returns the text of the lines.
    pub(crate) fn finish(self, path: &str) -> Result<String, Error> {
        let (first, last, max) = (self.first, self.last, self.max);
        if self.too_large {
            return Err(Error::TooLarge(format!(
                "`{path}` has more than {max} bytes in the requested lines, from {first} on; ask for fewer lines"
            )));
        }
        let lines = self.line - u64::from(self.at_line_start);
        if first > lines && first > 1 {
            return Err(Error::Invalid(format!("`{path}` has {lines} lines; there is no line {first}")));
        }
        String::from_utf8(self.bytes).map_err(|_| {
            let to = lines.min(last);
            Error::Invalid(format!("`{path}` is not text: lines {first} to {to} are not UTF-8"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(text: &[u8], first: Option<u64>, last: Option<u64>, max: u64) -> Result<String, Error> {
        let mut results = Vec::new();
        // The result does not depend on the size of the pieces.
        for piece in [1, 2, 3, 1000] {
            let mut collector = Collector::new(first, last, max).map_err(Error::Invalid)?;
            text.chunks(piece).for_each(|chunk| collector.take(chunk));
            results.push(collector.finish("f"));
        }
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        results.swap_remove(0)
    }

    #[test]
    fn read_files_picks_a_line_range() {
        let text = "one\ntwo\r\nthree\n".as_bytes();
        let cases = [
            (None, None, "one\ntwo\r\nthree\n"),
            (Some(2), None, "two\r\nthree\n"),
            (None, Some(1), "one\n"),
            (Some(2), Some(2), "two\r\n"),
            (Some(3), Some(99), "three\n"),
        ];
        for (first, last, expected) in cases {
            assert_eq!(pick(text, first, last, 100), Ok(expected.into()), "{first:?} to {last:?}");
        }
        assert_eq!(pick(b"", Some(1), None, 9), Ok(String::new()));
        assert_eq!(pick("a\nü".as_bytes(), Some(2), None, 9), Ok("ü".into()));
    }

    #[test]
    fn line_range_errors_state_the_line_count() {
        let invalid = |text: &str| Err(Error::Invalid(text.into()));
        assert_eq!(pick(b"a\nb\n", Some(3), None, 9), invalid("`f` has 2 lines; there is no line 3"));
        assert_eq!(pick(b"a\nb", Some(3), None, 9), invalid("`f` has 2 lines; there is no line 3"));
        assert_eq!(pick(b"a\n\xff\nc", Some(2), Some(3), 9), invalid("`f` is not text: lines 2 to 3 are not UTF-8"));
        assert!(matches!(pick(b"aaaa\nbbbb\n", Some(1), Some(2), 9), Err(Error::TooLarge(_))));
        assert!(Collector::new(Some(0), None, 9).is_err());
        assert!(Collector::new(Some(3), Some(2), 9).is_err());
    }

    #[test]
    fn reading_stops_after_the_last_wanted_line() {
        let mut collector = Collector::new(None, Some(1), 100).unwrap();
        collector.take(b"one\ntwo");
        assert!(collector.is_complete());
    }
}
