//! Parsing of server-sent events from a byte stream, according to the HTML standard.
//!
//! This is our own implementation because the events of an untrusted server must be bounded while they arrive, with each
//! byte examined once, and because neither a byte order mark nor invalid UTF-8 may stop or panic the stream.

use std::time::Duration;

use futures_util::StreamExt;
use memchr::memchr2;
use tokio::time::{Instant, timeout_at};

use super::ByteStream;
use shelly_core::{error::Fault, limits};

/// A server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty if there is none.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// The `id` field, if any.
    pub id: Option<String>,
    /// The `retry` field in milliseconds, if any.
    pub retry: Option<u64>,
}

/// The events of a stream, in order.
pub struct SseEventStream {
    stream: ByteStream,
    limit: usize,
    chunk: Vec<u8>,
    /// The number of bytes of `chunk` that were processed.
    at: usize,
    /// The part of the current line from earlier chunks.
    line: Vec<u8>,
    /// `true` if the last line ended in a carriage return: a line feed right after it belongs to it.
    after_return: bool,
    coming: PartialSseEvent,
    /// The number of bytes received.
    bytes: usize,
    idle: IdlePhase,
}

/// The phase of a stream since the last progress; see [`SseEventStream::note_progress`].
#[derive(Default)]
struct IdlePhase {
    bytes: usize,
    /// The longest time without progress; `None` if the caller limits it.
    time: Option<Duration>,
    /// The time at which the phase has lasted too long.
    until: Option<Instant>,
    /// The last value passed to [`SseEventStream::note_progress`].
    progress: u64,
}

/// An event that arrives line by line. Its buffers are reused for the next one.
#[derive(Default)]
struct PartialSseEvent {
    event: SseEvent,
    has_data: bool,
    /// `true` if an event without data counts, provided that it has an id or a retry.
    may_be_bare: bool,
    is_complete: bool,
    after_first_line: bool,
}

impl SseEventStream {
    /// Creates a stream of events of at most `limit` bytes each.
    pub fn new(stream: ByteStream, limit: usize) -> Self {
        let (chunk, line, coming) = (Vec::new(), Vec::new(), PartialSseEvent::default());
        Self { stream, limit, chunk, at: 0, line, after_return: false, coming, bytes: 0, idle: IdlePhase::default() }
    }

    /// Limits the time without progress, from now on.
    pub fn with_idle_time(self, time: Duration) -> Self {
        let until = Instant::now().checked_add(time);
        Self { idle: IdlePhase { time: Some(time), until, ..self.idle }, ..self }
    }

    /// Reports the progress that the events have made. As long as `progress` stays the same, everything that arrives
    /// (comments, events without content, unknown events) counts against [`limits::STREAM_IDLE_BYTES`] and the idle time.
    pub fn note_progress(&mut self, progress: u64) {
        if std::mem::replace(&mut self.idle.progress, progress) != progress {
            self.idle.bytes = 0;
            self.idle.until = self.idle.time.and_then(|time| Instant::now().checked_add(time));
        }
    }

    /// Also returns events without data if they have an id or a retry, for streams that can be resumed.
    pub fn with_bare(self) -> Self {
        Self { coming: PartialSseEvent { may_be_bare: true, ..self.coming }, ..self }
    }

    /// Returns the next event; `None` at the end of the stream. An event that the end cuts off is dropped.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] for an event beyond the limit, and beyond [`limits::STREAM_BYTES`] in all; [`Fault::Other`]
    /// beyond [`limits::STREAM_IDLE_BYTES`] without progress; [`Fault::Unavailable`] beyond the idle time; and the fault of
    /// the stream.
    pub async fn next(&mut self) -> Result<Option<&SseEvent>, Fault> {
        if self.coming.is_complete {
            self.coming.clear();
        }
        while !self.next_in_chunk()? {
            match self.next_chunk().await? {
                Some(chunk) => (self.chunk, self.at) = (chunk, 0),
                None => return Ok(None),
            }
        }
        Ok(Some(&self.coming.event))
    }

    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if self.idle.bytes > limits::STREAM_IDLE_BYTES {
            // Not [`Fault::TooLarge`]: a shorter request would not help.
            return Err(Fault::other(format!(
                "the server sent {} bytes without progress in its reply",
                self.idle.bytes
            )));
        }
        let time = self.idle.time.unwrap_or_default();
        let idle = || {
            let message = format!("the server made no progress in its reply for {time:?}");
            Fault::Unavailable { message, after: None }
        };
        let chunk = match self.idle.until {
            None => self.stream.next().await,
            // A stream that is always ready would never run into the timeout.
            Some(until) if until <= Instant::now() => return Err(idle()),
            Some(until) => timeout_at(until, self.stream.next()).await.map_err(|_| idle())?,
        };
        let Some(chunk) = chunk.transpose()? else { return Ok(None) };
        self.bytes = self.bytes.saturating_add(chunk.len());
        self.idle.bytes = self.idle.bytes.saturating_add(chunk.len());
        if self.bytes > limits::STREAM_BYTES {
            let message = format!("the server sent more than {} bytes in one stream", limits::STREAM_BYTES);
            return Err(Fault::TooLarge { message });
        }
        Ok(Some(chunk))
    }

    /// Processes the rest of this chunk. Returns `true` if it completes an event.
    fn next_in_chunk(&mut self) -> Result<bool, Fault> {
        while let Some(&byte) = self.chunk.get(self.at) {
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                self.at += 1;
                continue;
            }
            let rest = &self.chunk[self.at..];
            let end = memchr2(b'\n', b'\r', rest);
            let line = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + line.len() + self.coming.event.data.len() > self.limit {
                let message = format!("the server sent an event of more than {} bytes", self.limit);
                return Err(Fault::TooLarge { message });
            }
            if end.is_none() || !self.line.is_empty() {
                self.line.extend_from_slice(line);
            }
            self.at += line.len();
            if end.is_some() {
                self.after_return = rest[line.len()] == b'\r';
                self.at += 1;
                self.coming.take(if self.line.is_empty() { line } else { &self.line });
                self.line.clear();
                if self.coming.is_complete {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl PartialSseEvent {
    /// Adds a line; an empty one completes the event.
    fn take(&mut self, line: &[u8]) {
        let readable;
        let mut line = match str::from_utf8(line) {
            Ok(line) => line,
            Err(_) => {
                readable = String::from_utf8_lossy(line);
                &readable
            }
        };
        if !std::mem::replace(&mut self.after_first_line, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let says_more = self.event.id.is_some() || self.event.retry.is_some();
            self.is_complete = self.has_data || self.may_be_bare && says_more;
            if !self.is_complete {
                self.clear();
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let SseEvent { name, data, id, retry } = &mut self.event;
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    data.push('\n');
                }
                data.push_str(value);
            }
            "event" => value.clone_into(name),
            "id" if !value.contains('\0') => *id = Some(value.into()),
            "retry" => {
                *retry = value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit())).or(*retry)
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        (self.has_data, self.is_complete) = (false, false);
        self.event.name.clear();
        self.event.data.clear();
        (self.event.id, self.event.retry) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    async fn events(pieces: &[&[u8]], limit: usize) -> Result<Vec<(String, String)>, Fault> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(piece.to_vec())).collect();
        let mut events = SseEventStream::new(stream::iter(pieces).boxed(), limit);
        let mut seen = Vec::new();
        while let Some(event) = events.next().await? {
            seen.push((event.name.clone(), event.data.clone()));
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
    async fn ids_and_pauses_are_told_also_without_data() {
        let text = b"id: 1\nretry: 20\n\nretry: -1\n\nid: a\0b\n\nevent: x\n\nid: 2\ndata: d\nretry: x\n\n".to_vec();
        for (is_bare, expected) in
            [(false, vec![("d", Some("2"), None)]), (true, vec![("", Some("1"), Some(20)), ("d", Some("2"), None)])]
        {
            let events = SseEventStream::new(stream::iter([Ok(text.clone())]).boxed(), 100);
            let mut events = if is_bare { events.with_bare() } else { events };
            let mut seen = Vec::new();
            while let Some(event) = events.next().await.unwrap() {
                seen.push(event.clone());
            }
            let seen: Vec<_> = seen.iter().map(|event| (&*event.data, event.id.as_deref(), event.retry)).collect();
            assert_eq!(seen, expected);
        }
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
    async fn bytes_without_progress_are_bounded() {
        let most = limits::STREAM_IDLE_BYTES;
        let padding = "x".repeat(200);
        for endless in [format!(": {padding}\n"), format!("id: {padding}\ndata:\n\n"), format!("data: {padding}\n\n")] {
            let pieces = stream::repeat(Ok(endless.repeat(500).into_bytes()));
            let mut events = SseEventStream::new(pieces.boxed(), 1_000);
            let fault = loop {
                if let Err(fault) = events.next().await {
                    break fault;
                }
            };
            assert!(matches!(fault, Fault::Other { .. }), "{fault}");
            assert!(events.bytes > most && events.bytes < most + 200_000, "{}", events.bytes);
        }
        // Progress resets the count, up to the limit of the whole stream.
        let large = [b"data: ", &vec![b'x'; 1 << 20][..], b"\n\n"].concat();
        let mut events = SseEventStream::new(stream::repeat(Ok(large)).boxed(), 2 << 20);
        let fault = loop {
            match events.next().await {
                Ok(_) => events.note_progress(events.idle.progress + 1),
                Err(fault) => break fault,
            }
        };
        assert!(matches!(fault, Fault::TooLarge { .. }) && events.bytes > limits::STREAM_BYTES, "{fault}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_progress_is_bounded() {
        let second = Duration::from_secs(1);
        let pings = |every: &'static str| {
            let pings = stream::repeat(every).then(move |ping| async move {
                tokio::time::sleep(second).await;
                Ok(ping.as_bytes().to_vec())
            });
            SseEventStream::new(pings.boxed(), 100).with_idle_time(10 * second)
        };
        let begun = Instant::now();
        for ping in [": ping\n\n", "data: {}\n\n"] {
            let mut events = pings(ping);
            let fault = loop {
                if let Err(fault) = events.next().await {
                    break fault;
                }
            };
            assert!(matches!(&fault, Fault::Unavailable { message, .. } if message.contains("for 10s")), "{fault}");
        }
        assert_eq!(begun.elapsed().as_secs(), 20);
        let mut events = pings("data: a\n\n");
        for progress in 1..100 {
            events.next().await.unwrap();
            events.note_progress(progress);
        }
    }

    #[tokio::test]
    async fn broken_utf8_does_not_stop_the_stream() {
        let seen = events(&[b"data: \xff\n\ndata: next\n\n"], 100).await.unwrap();
        assert_eq!(seen, [(String::new(), "\u{fffd}".into()), (String::new(), "next".into())]);
    }
}
