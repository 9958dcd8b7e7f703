//! A splitter of a body into lines. It examines each byte once, and buffers only the current line and the bytes of one
//! read.

use std::ops::Range;

use super::body::{Body, READ};
use crate::types::Error;

/// The maximum size of a line: 8 MiB.
pub const MOST_LINE: usize = 8 << 20;

/// The characters that end a line besides a line feed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ends {
    /// None; a carriage return before a line feed belongs to the line's end.
    LineFeed,
    /// A carriage return, with or without a line feed after it.
    Any,
}

#[derive(Debug)]
pub(super) struct Split {
    body: Body,
    ends: Ends,
    buffer: Vec<u8>,
    /// The start of the current line in `buffer`.
    start: usize,
    /// The position in `buffer` up to which it was searched for the line's end.
    seen: usize,
    /// The last line ended in a carriage return: a line feed right after it belongs to that end.
    after_return: bool,
    at_end: bool,
}

/// A line, and whether its end has arrived.
pub(super) struct Line<'a> {
    pub bytes: &'a [u8],
    pub is_whole: bool,
}

impl Split {
    pub(super) fn new(body: Body, ends: Ends) -> Split {
        Split { body, ends, buffer: Vec::new(), start: 0, seen: 0, after_return: false, at_end: false }
    }

    /// Returns the next line without its end; `None` at the end of the body. Only the last line can lack an end.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        let (line, is_whole) = loop {
            if let Some(line) = self.whole() {
                break (line, true);
            }
            bounded(self.buffer.len() - self.start)?;
            if self.at_end {
                let rest = self.start..self.buffer.len();
                self.start = rest.end;
                if rest.is_empty() {
                    return Ok(None);
                }
                break (rest, false);
            }
            self.read()?;
        };
        bounded(line.len())?;
        Ok(Some(Line { bytes: &self.buffer[line], is_whole }))
    }

    /// Returns the range of the next line if the buffer contains all of it.
    fn whole(&mut self) -> Option<Range<usize>> {
        if self.after_return && self.start < self.buffer.len() {
            self.after_return = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.seen = self.start;
            }
        }
        let is_end = |byte: &u8| *byte == b'\n' || (*byte == b'\r' && self.ends == Ends::Any);
        let Some(length) = self.buffer[self.seen..].iter().position(is_end) else {
            self.seen = self.buffer.len();
            return None;
        };
        let mut line = self.start..self.seen + length;
        self.after_return = self.buffer[line.end] == b'\r';
        self.start = line.end + 1;
        self.seen = self.start;
        if self.ends == Ends::LineFeed && self.buffer[line.clone()].last() == Some(&b'\r') {
            line.end -= 1;
        }
        Some(line)
    }

    fn read(&mut self) -> Result<(), Error> {
        self.buffer.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        // A body that fails has ended.
        self.at_end = true;
        let piece = self.body.read(READ)?;
        self.at_end = piece.is_empty();
        self.buffer.extend_from_slice(&piece);
        Ok(())
    }
}

fn bounded(line: usize) -> Result<(), Error> {
    if line <= MOST_LINE {
        return Ok(());
    }
    Err(Error::TooLarge(format!("the server sent a line of more than {MOST_LINE} bytes")))
}
