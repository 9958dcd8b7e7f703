//! Splitting of a byte stream into lines of bounded length.

use futures_util::{StreamExt, stream::Fuse};

use shelly_core::error::Fault;
use shelly_net::ByteStream;

/// A line without its terminator.
#[derive(Debug, PartialEq, Eq)]
pub enum BatchLine {
    /// A line that has a terminator.
    Whole(Vec<u8>),
    /// The bytes after the last terminator: a line without one, or the beginning of a line that was cut off.
    Last(Vec<u8>),
    /// A line beyond the limit; nothing of it is kept.
    TooLong,
}

/// The lines of a stream, in order. Empty lines are skipped.
pub struct BatchLineReader {
    /// Fused, because it is polled again after the last line.
    stream: Fuse<ByteStream>,
    limit: usize,
    chunk: Vec<u8>,
    /// The number of bytes of `chunk` that were processed.
    at: usize,
    line: Vec<u8>,
    is_too_long: bool,
    /// The number of bytes received.
    read: usize,
}

impl BatchLineReader {
    /// Creates a reader of lines of at most `limit` bytes.
    pub fn new(stream: ByteStream, limit: usize) -> Self {
        Self { stream: stream.fuse(), limit, chunk: Vec::new(), at: 0, line: Vec::new(), is_too_long: false, read: 0 }
    }

    /// Returns the number of bytes of the stream that were read so far.
    pub fn read(&self) -> usize {
        self.read
    }

    /// Returns the next line; `None` at the end of the stream, or once more than `most` bytes were read.
    ///
    /// # Errors
    ///
    /// The fault with which the stream fails.
    pub async fn next(&mut self, most: usize) -> Result<Option<BatchLine>, Fault> {
        loop {
            while let Some(line) = self.next_in_chunk() {
                if !matches!(&line, BatchLine::Whole(bytes) if bytes.trim_ascii().is_empty()) {
                    return Ok(Some(line));
                }
            }
            if self.read > most {
                return Ok(None);
            }
            match self.stream.next().await {
                Some(chunk) => (self.chunk, self.at) = (chunk?, 0),
                None if self.line.is_empty() && !self.is_too_long => return Ok(None),
                None => return Ok(Some(self.end_line(BatchLine::Last))),
            }
            self.read += self.chunk.len();
        }
    }

    fn next_in_chunk(&mut self) -> Option<BatchLine> {
        let rest = self.chunk.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        self.at += line.len() + 1;
        self.is_too_long |= self.line.len() + line.len() > self.limit;
        if self.is_too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(line);
        }
        end.map(|_| self.end_line(BatchLine::Whole))
    }

    fn end_line(&mut self, kind: fn(Vec<u8>) -> BatchLine) -> BatchLine {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) { BatchLine::TooLong } else { kind(line) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    async fn lines(pieces: &[&[u8]], limit: usize, most: usize) -> Vec<BatchLine> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(piece.to_vec())).collect();
        let mut lines = BatchLineReader::new(stream::iter(pieces).boxed(), limit);
        let mut seen = Vec::new();
        while let Some(line) = lines.next(most).await.unwrap() {
            seen.push(line);
        }
        seen
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_come() {
        let text = "one\r\n\n \ntwö\nmuch too long\n12345\nlast".as_bytes();
        let whole = |text: &str| BatchLine::Whole(text.into());
        let expected =
            [whole("one\r"), whole("twö"), BatchLine::TooLong, whole("12345"), BatchLine::Last("last".into())];
        for at in 0..text.len() {
            assert_eq!(lines(&[&text[..at], &text[at..]], 5, usize::MAX).await, expected, "split at {at}");
        }
        let bytes: Vec<_> = text.chunks(1).collect();
        assert_eq!(lines(&bytes, 5, usize::MAX).await, expected);
        assert_eq!(lines(&[b"12345\n123456"], 5, usize::MAX).await, [whole("12345"), BatchLine::TooLong]);
        assert_eq!(lines(&[b"", b"\n", b""], 5, usize::MAX).await, []);
    }

    #[tokio::test]
    async fn batch_lines_stop_at_byte_limit() {
        let endless = [b"1\n".as_slice(); 100];
        assert_eq!(lines(&endless, 5, 10).await.len(), 6);
        let one_line = [b"11".as_slice(); 100];
        assert_eq!(lines(&one_line, 5, 10).await, []);
    }
}
