//! Search for matching lines in a file.

use grep_matcher::{Match, Matcher};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memchr_iter, memrchr};
use shelly_plugin::{Error, text::short};

use crate::{
    report::Report,
    walk::{Bytes, CHUNK},
};

/// The number of bytes that are searched at once. In a larger file, the lines around a match are cut where two pieces
/// meet, and a longer line is searched in parts.
const PIECE: usize = 4 << 20;

/// The maximum size of a pattern in bytes.
const PATTERN: usize = 10_000;

/// The maximum depth of nested groups in a pattern: each takes stack, of which a guest has little.
const NESTED: u32 = 50;

/// The maximum size of a compiled pattern in bytes.
const COMPILED: usize = 8 << 20;

/// A search for lines, with a buffer for the file.
pub(crate) struct Lines {
    pattern: RegexMatcher,
    /// The number of lines that are shown around a match.
    pub(crate) context: usize,
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(pattern: &str, case_insensitive: bool) -> Result<Lines, Error> {
        let invalid = |why: String| Error::Invalid(format!("`pattern` is not a regular expression for lines: {why}"));
        if pattern.len() > PATTERN {
            return Err(invalid(format!("more than {PATTERN} bytes")));
        }
        // Matches that never span lines make it unnecessary to examine each line by itself.
        let built = RegexMatcherBuilder::new()
            .multi_line(true)
            .crlf(true)
            .line_terminator(Some(b'\n'))
            .case_insensitive(case_insensitive)
            .nest_limit(NESTED)
            .size_limit(COMPILED)
            .build(pattern);
        let pattern = built.map_err(|error| match error.kind() {
            ErrorKind::NotAllowed(_) => invalid("it spans several lines; search for a part in one line".into()),
            _ => invalid(short(reason(&error.to_string()), 1_000)),
        })?;
        Ok(Lines { pattern, context: 0, buffer: Vec::new() })
    }

    /// Returns the first match from a position on.
    fn find(&self, text: &[u8], from: usize) -> Option<Match> {
        // This matcher cannot fail.
        self.pattern.find_at(text, from).ok().flatten()
    }

    /// Searches one file and reports the matches.
    pub(crate) fn search(&mut self, path: &str, file: &mut impl Bytes, report: &mut Report) {
        let (mut offset, mut line, mut is_end) = (0, 1, false);
        let mut found = Found { path, count: 0 };
        self.buffer.clear();
        while !is_end && !report.is_full() {
            while self.buffer.len() < PIECE && !is_end {
                let Ok(chunk) = file.read(offset) else {
                    report.unreadable += 1;
                    return;
                };
                // The host returns whole pages except at the end of a file, so a chunk that is not made of whole pages is
                // the last.
                is_end = chunk.is_empty() || chunk.len() < CHUNK as usize && chunk.len() % 4_096 != 0;
                offset += chunk.len() as u64;
                report.read += chunk.len() as u64;
                if memchr(0, &chunk).is_some() {
                    report.binary += 1;
                    return;
                }
                match self.buffer.is_empty() {
                    true => self.buffer = chunk,
                    false => self.buffer.extend_from_slice(&chunk),
                }
            }
            let whole = if is_end {
                self.buffer.len()
            } else {
                memrchr(b'\n', &self.buffer).map_or(self.buffer.len(), |at| at + 1)
            };
            let piece = &self.buffer[..whole];
            if !self.search_piece(piece, line, &mut found, report) {
                return;
            }
            if !is_end {
                line += memchr_iter(b'\n', piece).count();
                self.buffer.drain(..whole);
            }
        }
        report.files += 1;
    }

    /// Searches whole lines, the first of which has the number `first`. Returns `false` if they are not text.
    fn search_piece(&self, piece: &[u8], first: usize, found: &mut Found, report: &mut Report) -> bool {
        let (mut at, mut counted, mut line, mut shown) = (0, 0, first, 0);
        while at < piece.len() && !report.is_full() {
            let Some(matched) = self.find(piece, at) else { break };
            let start = memrchr(b'\n', &piece[..matched.start()]).map_or(0, |at| at + 1);
            if start >= piece.len() {
                break;
            }
            let end = memchr(b'\n', &piece[matched.start()..]).map_or(piece.len(), |length| matched.start() + length);
            at = end + 1;
            if found.count == 0 && std::str::from_utf8(piece).is_err() && !is_cut(piece) {
                report.not_utf8 += 1;
                return false;
            }
            line += memchr_iter(b'\n', &piece[counted..start]).count();
            counted = start;
            if found.count == 0 {
                report.heading(found.path);
            }
            found.count += 1;
            shown = self.show(piece, (start, end), matched.start() - start, line, shown, report);
        }
        true
    }

    /// Shows a line and the lines around it that are not shown yet. `shown` is the end of the lines shown so far; returns
    /// the new end.
    fn show(
        &self,
        piece: &[u8],
        (start, end): (usize, usize),
        place: usize,
        line: usize,
        shown: usize,
        report: &mut Report,
    ) -> usize {
        let mut before = Vec::new();
        let mut from = start;
        while before.len() < self.context && from > shown {
            let previous = memrchr(b'\n', &piece[..from - 1]).map_or(0, |at| at + 1);
            before.push(&piece[previous..from - 1]);
            from = previous;
        }
        if from > shown && self.context > 0 {
            report.gap();
        }
        let count = before.len();
        for (index, text) in before.into_iter().rev().enumerate() {
            report.context(line - count + index, text);
        }
        report.matched(line, &piece[start..end], place);
        // The following lines are shown up to the next match, which is shown by itself.
        let mut to = (end + 1).min(piece.len());
        for after in 1..=self.context {
            if to >= piece.len() {
                break;
            }
            let next = memchr(b'\n', &piece[to..]).map_or(piece.len(), |length| to + length);
            if self.find(&piece[to..next], 0).is_some() && !report.is_full() {
                break;
            }
            report.context(line + after, &piece[to..next]);
            to = (next + 1).min(piece.len());
        }
        to
    }
}

/// Returns the reason why a pattern is invalid: the whole message with the position if it is short, else only its last
/// line, which states the cause.
fn reason(error: &str) -> &str {
    if error.len() <= 1_000 { error } else { error.lines().next_back().unwrap_or(error) }
}

/// The matches found in a file so far.
struct Found<'a> {
    path: &'a str,
    count: usize,
}

/// Returns `true` if the only error of a text is that its end is cut off in the middle of a character.
fn is_cut(piece: &[u8]) -> bool {
    std::str::from_utf8(piece).is_err_and(|error| error.error_len().is_none() && piece.len() >= PIECE)
}
