//! Lines of a peer that may send anything: messages of protocols that have one a line.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The bounds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineBounds {
    /// The maximum bytes of a line.
    pub line_bytes: usize,
    /// The maximum bytes of a line that is skipped because it is too long, and of blank lines before another line.
    pub skipped_bytes: usize,
    /// The bytes at the beginning of a skipped line that are kept: an id may be there.
    pub beginning_bytes: usize,
    /// The bytes at its end that are kept.
    pub end_bytes: usize,
}

/// Reads lines of a bounded length.
pub struct LineReader<R> {
    read: BufReader<R>,
    bounds: LineBounds,
    /// The part of the current line that has been read. Kept here because [`next`](Self::next) may be cancelled.
    line: Vec<u8>,
    skipped: Option<SkippedLine>,
    /// Bytes of blank lines since the last line that was not blank.
    blank: usize,
}

/// A line that is too long to be kept. Its beginning is in the reader.
struct SkippedLine {
    bytes: usize,
    end: Vec<u8>,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum LineReadResult {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line that is too long.
    TooLong {
        /// Its first bytes.
        beginning: Vec<u8>,
        /// Its last bytes.
        end: Vec<u8>,
    },
    /// The peer sends a line without an end, or blank lines without one.
    Endless,
    /// The peer has hung up.
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Returns a reader of these lines.
    pub fn new(read: R, bounds: LineBounds) -> Self {
        Self { read: BufReader::new(read), bounds, line: Vec::new(), skipped: None, blank: 0 }
    }

    /// Reads the next line that is not blank. White space before it is skipped; a part of a line before the end of the
    /// input is not a line. Cancel safe. There is no further line after [`LineReadResult::Endless`].
    pub async fn next(&mut self) -> LineReadResult {
        let LineBounds { line_bytes, skipped_bytes, beginning_bytes, end_bytes } = self.bounds;
        loop {
            // No await between this and `consume`: cancellation loses no bytes.
            let Ok(bytes) = self.read.fill_buf().await else { return LineReadResult::End };
            if bytes.is_empty() {
                return LineReadResult::End;
            }
            if self.line.is_empty() && self.skipped.is_none() {
                // Skips all blank lines at once: one by one, 50 MB of them take 20 s.
                let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                if blank > 0 {
                    self.blank += blank;
                    self.read.consume(blank);
                    if self.blank > skipped_bytes {
                        return LineReadResult::Endless;
                    }
                    continue;
                }
                self.blank = 0;
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = line_bytes.saturating_sub(self.line.len());
            match &mut self.skipped {
                None if part.len() <= room => self.line.extend_from_slice(part),
                None => {
                    // The end of the line so far: an id may lie across two reads.
                    let from = self.line.len().saturating_sub(end_bytes);
                    let mut skipped = SkippedLine { bytes: self.line.len(), end: self.line[from..].to_vec() };
                    skipped.take(part, end_bytes);
                    self.skipped = Some(skipped);
                    self.line.extend_from_slice(&part[..part.len().min(beginning_bytes)]);
                    self.line.truncate(beginning_bytes);
                    self.line.shrink_to_fit();
                }
                Some(skipped) => skipped.take(part, end_bytes),
            }
            let taken = part.len() + usize::from(end.is_some());
            self.read.consume(taken);
            if self.skipped.as_ref().is_some_and(|skipped| skipped.bytes > skipped_bytes) {
                return LineReadResult::Endless;
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return match self.skipped.take() {
                    None => LineReadResult::Whole(line),
                    Some(SkippedLine { end, .. }) => LineReadResult::TooLong { beginning: line, end },
                };
            }
        }
    }
}

impl SkippedLine {
    /// Takes a part of the line, of whose end so many bytes are kept.
    fn take(&mut self, part: &[u8], kept: usize) {
        self.bytes += part.len();
        self.end.extend_from_slice(&part[part.len().saturating_sub(kept)..]);
        let beyond = self.end.len().saturating_sub(kept);
        self.end.drain(..beyond);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: LineBounds =
        LineBounds { line_bytes: 20_000, skipped_bytes: 50_000, beginning_bytes: 4, end_bytes: 3 };

    async fn lines(sent: &[u8], bounds: LineBounds) -> Vec<LineReadResult> {
        let mut reader = LineReader::new(sent, bounds);
        let mut lines = Vec::new();
        loop {
            match reader.next().await {
                LineReadResult::End => return lines,
                LineReadResult::Endless => {
                    lines.push(LineReadResult::Endless);
                    return lines;
                }
                line => lines.push(line),
            }
        }
    }

    fn whole(line: &[u8]) -> LineReadResult {
        LineReadResult::Whole(line.to_vec())
    }

    fn too_long(beginning: &[u8], end: &[u8]) -> LineReadResult {
        LineReadResult::TooLong { beginning: beginning.to_vec(), end: end.to_vec() }
    }

    #[tokio::test]
    async fn long_line_is_skipped_and_the_next_one_read() {
        assert_eq!(lines(b"a\n\n \r\nb\r\nc", BOUNDS).await, [whole(b"a"), whole(b"b\r")], "the last one has no end");
        let mut sent = vec![b'x'; BOUNDS.line_bytes];
        sent.extend_from_slice(b"\n");
        assert_eq!(lines(&sent, BOUNDS).await, [whole(&sent[..BOUNDS.line_bytes])]);
        let longer = [&b"abc"[..], &sent[..BOUNDS.line_bytes], b"yz\nnext\n"].concat();
        assert_eq!(lines(&longer, BOUNDS).await, [too_long(b"abcx", b"xyz"), whole(b"next")]);
        // A bound below the size of one read, and no bytes that are kept.
        for (beginning_bytes, end_bytes, expected) in
            [(4, 0, too_long(b"abcd", b"")), (0, 9, too_long(b"", b"abcdef")), (9, 2, too_long(b"abcdef", b"ef"))]
        {
            let bounds = LineBounds { line_bytes: 3, skipped_bytes: 6, beginning_bytes, end_bytes };
            assert_eq!(lines(b"abcdef\nabc\n", bounds).await, [expected, whole(b"abc")]);
        }
    }

    #[tokio::test]
    async fn endless_lines_end_the_input() {
        for byte in [b'x', b'\n'] {
            let (most, more) = (vec![byte; BOUNDS.skipped_bytes], vec![byte; BOUNDS.skipped_bytes + 1]);
            assert_eq!(lines(&most, BOUNDS).await, Vec::new(), "{byte}");
            assert_eq!(lines(&more, BOUNDS).await, [LineReadResult::Endless], "{byte}");
        }
        // A line between them begins the count of blank lines again.
        let blank = vec![b'\n'; BOUNDS.skipped_bytes];
        let sent = [&blank[..], b"a\n", &blank[..], b"b\n"].concat();
        assert_eq!(lines(&sent, BOUNDS).await, [whole(b"a"), whole(b"b")]);
    }

    #[tokio::test]
    async fn cancelled_read_loses_no_bytes() {
        use tokio::io::AsyncWriteExt;
        let (mut peer, here) = tokio::io::duplex(64);
        let mut reader = LineReader::new(here, BOUNDS);
        peer.write_all(b"one ").await.unwrap();
        let waited = futures_util::FutureExt::now_or_never(reader.next());
        assert_eq!(waited, None);
        peer.write_all(b"line\n").await.unwrap();
        assert_eq!(reader.next().await, whole(b"one line"));
    }
}
