//! Lines of a peer that may send anything.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::limits;

/// Reads lines of a bounded length.
pub(super) struct LineReader<R> {
    read: BufReader<R>,
    /// The part of the current line that has been read. Kept here because [`next`](Self::next) may be cancelled.
    line: Vec<u8>,
    /// The bytes of the current line, if it is too long to be kept.
    too_long: Option<usize>,
    /// Bytes of blank lines since the last line that was not blank.
    blank: usize,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineReadResult {
    Whole(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
    /// The peer has hung up, or sends a line without an end.
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub fn new(read: R) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), too_long: None, blank: 0 }
    }

    /// Reads the next line that is not blank. A part of a line before the end of the input is not a line. Cancel safe.
    pub async fn next(&mut self) -> LineReadResult {
        loop {
            // No await between this and `consume`: cancellation loses no bytes.
            let Ok(bytes) = self.read.fill_buf().await else { return LineReadResult::End };
            if bytes.is_empty() {
                return LineReadResult::End;
            }
            if self.line.is_empty() && self.too_long.is_none() {
                // All blank lines at once: one by one they take long.
                let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                if blank > 0 {
                    self.blank += blank;
                    self.read.consume(blank);
                    if self.blank > limits::ACP_SKIPPED_BYTES {
                        return LineReadResult::End;
                    }
                    continue;
                }
                self.blank = 0;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            match &mut self.too_long {
                Some(length) => *length += part.len(),
                None if self.line.len() + part.len() <= limits::ACP_LINE_BYTES => self.line.extend_from_slice(part),
                None => {
                    self.too_long = Some(self.line.len() + part.len());
                    self.line.extend_from_slice(&part[..part.len().min(limits::ACP_ID_BYTES)]);
                    self.line.truncate(limits::ACP_ID_BYTES);
                    self.line.shrink_to_fit();
                }
            }
            let taken = part.len() + usize::from(end.is_some());
            self.read.consume(taken);
            if self.too_long.is_some_and(|length| length > limits::ACP_SKIPPED_BYTES) {
                return LineReadResult::End;
            }
            if end.is_none() {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            return match self.too_long.take() {
                Some(_) => LineReadResult::TooLong(line),
                None => LineReadResult::Whole(line),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(sent: &[u8]) -> Vec<LineReadResult> {
        let mut reader = LineReader::new(sent);
        let mut lines = Vec::new();
        loop {
            match reader.next().await {
                LineReadResult::End => return lines,
                line => lines.push(line),
            }
        }
    }

    #[tokio::test]
    async fn long_line_is_skipped_and_the_next_one_read() {
        let whole = |line: &[u8]| LineReadResult::Whole(line.to_vec());
        assert_eq!(lines(b"a\n\n \r\nb\r\nc").await, [whole(b"a"), whole(b"b\r")], "the last one has no end");
        let mut sent = vec![b'x'; limits::ACP_LINE_BYTES];
        sent.extend_from_slice(b"\n");
        assert_eq!(lines(&sent).await, [whole(&sent[..limits::ACP_LINE_BYTES])]);
        sent.splice(0..0, *b"y");
        sent.extend_from_slice(b"z\n");
        let beginning = [b"y", &vec![b'x'; limits::ACP_ID_BYTES - 1][..]].concat();
        assert_eq!(lines(&sent).await, [LineReadResult::TooLong(beginning), whole(b"z")]);
    }

    #[tokio::test]
    async fn endless_lines_end_the_input() {
        struct Endless(u8, usize);
        impl AsyncRead for Endless {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let room = buf.remaining();
                let byte = self.0;
                self.1 += room;
                buf.initialize_unfilled().fill(byte);
                buf.advance(room);
                std::task::Poll::Ready(Ok(()))
            }
        }
        for byte in [b'x', b'\n'] {
            let mut reader = LineReader::new(Endless(byte, 0));
            assert_eq!(reader.next().await, LineReadResult::End);
            let read = reader.read.get_ref().1;
            assert!((limits::ACP_SKIPPED_BYTES..limits::ACP_SKIPPED_BYTES + (1 << 20)).contains(&read), "{read}");
        }
    }
}
