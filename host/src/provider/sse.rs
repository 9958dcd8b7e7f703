//! Server-sent events out of a stream of bytes, as the HTML standard has them.
//!
//! Written here because the events of an untrusted server must be bounded while they come, each byte looked at once,
//! and a byte order mark or broken UTF-8 must not stop or panic the stream.

use futures_util::StreamExt;

use crate::{error::Fault, net::ByteStream};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its `event` field; empty if it has none.
    pub name: String,
    /// Its `data` lines, joined by line ends.
    pub data: String,
}

/// The events of a stream, in order.
pub struct Events {
    stream: ByteStream,
    limit: usize,
    chunk: Vec<u8>,
    /// How much of `chunk` is done.
    at: usize,
    line: Vec<u8>,
    /// The last line ended in a carriage return: a line feed right after it belongs to it.
    after_return: bool,
    first_line: bool,
    name: String,
    data: Option<String>,
}

impl Events {
    /// Reads events of at most `limit` bytes.
    pub fn new(stream: ByteStream, limit: usize) -> Self {
        Self {
            stream,
            limit,
            chunk: Vec::new(),
            at: 0,
            line: Vec::new(),
            after_return: false,
            first_line: true,
            name: String::new(),
            data: None,
        }
    }

    /// The next event; none at the end of the stream. An event that the end cuts off is none.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] for an event beyond the limit, and what the stream fails with.
    pub async fn next(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            if let Some(event) = self.next_in_chunk()? {
                return Ok(Some(event));
            }
            match self.stream.next().await {
                Some(chunk) => (self.chunk, self.at) = (chunk?, 0),
                None => return Ok(None),
            }
        }
    }

    fn next_in_chunk(&mut self) -> Result<Option<Event>, Fault> {
        while let Some(&byte) = self.chunk.get(self.at) {
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                self.at += 1;
                continue;
            }
            let rest = &self.chunk[self.at..];
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let line = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + line.len() + self.data.as_ref().map_or(0, String::len) > self.limit {
                let message = format!("the server sent an event of more than {} bytes", self.limit);
                return Err(Fault::TooLarge { message });
            }
            self.line.extend_from_slice(line);
            self.at += line.len();
            if end.is_some() {
                self.after_return = self.chunk[self.at] == b'\r';
                self.at += 1;
                if let Some(event) = self.end_line() {
                    return Ok(Some(event));
                }
            }
        }
        Ok(None)
    }

    /// Takes in the line that is complete; an empty one completes the event.
    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut line: &str = &String::from_utf8_lossy(&line);
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", data @ None) => *data = Some(value.into()),
            ("event", _) => self.name = value.into(),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    async fn events(pieces: &[&[u8]], limit: usize) -> Result<Vec<(String, String)>, Fault> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(piece.to_vec())).collect();
        let mut events = Events::new(stream::iter(pieces).boxed(), limit);
        let mut seen = Vec::new();
        while let Some(event) = events.next().await? {
            seen.push((event.name, event.data));
        }
        Ok(seen)
    }

    #[tokio::test]
    async fn fields_comments_and_every_kind_of_line_end_at_every_split() {
        let text =
            "\u{feff}data: ä\n\n: comment\r\n\r\nevent: error\rdata:1\rdata:  2\r\rid: 3\r\ndata\r\n\r\ndata: cut"
                .as_bytes();
        let expected: Vec<_> = [("", "ä"), ("error", "1\n 2"), ("", "")].map(|(n, d)| (n.into(), d.into())).into();
        for at in 0..text.len() {
            assert_eq!(events(&[&text[..at], &text[at..]], 1_000).await.as_ref(), Ok(&expected), "split at {at}");
        }
        let bytes: Vec<_> = text.chunks(1).collect();
        assert_eq!(events(&bytes, 1_000).await, Ok(expected));
    }

    #[tokio::test]
    async fn an_event_is_bounded() {
        let line = b"data: 1234567890\n".as_slice();
        assert!(events(&[line, b"\n", line, b"\n"], 20).await.is_ok());
        for endless in [[line, line], [line, b"data: 12345"], [b": a comment without ", b"end"]] {
            assert!(matches!(events(&endless, 20).await, Err(Fault::TooLarge { .. })), "{endless:?}");
        }
    }

    #[tokio::test]
    async fn broken_utf8_does_not_stop_the_stream() {
        let seen = events(&[b"data: \xff\n\ndata: next\n\n"], 100).await.unwrap();
        assert_eq!(seen, [(String::new(), "\u{fffd}".into()), (String::new(), "next".into())]);
    }
}
