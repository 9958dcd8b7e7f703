//! Server-sent events, parsed as the HTML standard specifies while they arrive.

use super::{
    body::Body,
    split::{Ends, Split},
};
use crate::types::Error;

/// The maximum size of an event: 16 MiB.
pub const MOST_EVENT: usize = 16 << 20;

/// A server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty if there is none.
    pub event: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// The newest `id` so far; empty if there was none.
    pub id: String,
}

/// An iterator over the events of a body. It skips comments, unknown fields and events without data. Lines end in `\n`,
/// `\r\n` or `\r`; invalid UTF-8 becomes `U+FFFD`.
///
/// A broken connection is [`Error::Unavailable`], and so is a body that ends in the middle of an event. A line longer
/// than [`MOST_LINE`](super::MOST_LINE) and an event larger than [`MOST_EVENT`] are [`Error::TooLarge`]. The iterator
/// ends after an error.
#[derive(Debug)]
pub struct Events {
    lines: Option<Split>,
    event: Event,
    has_data: bool,
    after_first_line: bool,
}

impl Events {
    /// Creates an iterator over the events of this body.
    pub fn new(body: Body) -> Events {
        let lines = Some(Split::new(body, Ends::Any));
        Events { lines, event: Event::default(), has_data: false, after_first_line: false }
    }

    fn next_event(&mut self) -> Result<Option<Event>, Error> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        while let Some(line) = lines.next()? {
            if !line.is_whole {
                return Err(cut());
            }
            let readable = String::from_utf8_lossy(line.bytes);
            let mut line = &*readable;
            if !std::mem::replace(&mut self.after_first_line, true) {
                line = line.strip_prefix('\u{feff}').unwrap_or(line);
            }
            if line.is_empty() {
                let id = self.event.id.clone();
                let event = std::mem::replace(&mut self.event, Event { id, ..Event::default() });
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(event));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => {
                    if self.event.data.len() + value.len() >= MOST_EVENT {
                        return Err(Error::TooLarge(format!(
                            "the server sent an event of more than {MOST_EVENT} bytes"
                        )));
                    }
                    if std::mem::replace(&mut self.has_data, true) {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                }
                "event" => value.clone_into(&mut self.event.event),
                "id" if !value.contains('\0') => value.clone_into(&mut self.event.id),
                _ => {}
            }
        }
        if self.has_data { Err(cut()) } else { Ok(None) }
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Result<Event, Error>> {
        let next = self.next_event().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.lines = None;
        }
        next
    }
}

fn cut() -> Error {
    Error::unavailable("the server ended its stream in the middle of an event")
}

#[cfg(test)]
mod tests {
    use super::{super::MOST_LINE, *};

    fn events(pieces: &[&[u8]]) -> Result<Vec<Event>, Error> {
        Events::new(Body::of(pieces.iter().copied())).collect()
    }

    fn event(event: &str, data: &str, id: &str) -> Event {
        Event { event: event.into(), data: data.into(), id: id.into() }
    }

    #[test]
    fn fields_comments_and_every_kind_of_line_end_at_every_split() {
        let text = "\u{feff}data: ä\n\n: comment\r\n\r\nevent: error\rid: 7\rdata:1\rdata:  2\r\rid\r\nretry: 9\r\ndata\r\n\r\n\
                    event: nothing\n\ndata\u{feff}: no field\ndata: 🌍\n\n"
            .as_bytes();
        let expected = [event("", "ä", ""), event("error", "1\n 2", "7"), event("", "", ""), event("", "🌍", "")];
        for at in 0..=text.len() {
            assert_eq!(events(&[&text[..at], &text[at..]]).unwrap(), expected, "split at {at}");
        }
        assert_eq!(events(&text.chunks(1).collect::<Vec<_>>()).unwrap(), expected);
        assert_eq!(
            events(&[b"data: \xff\n\nid: 1\ndata: a\n\ndata: b\n\nid: \0\ndata: c\n\n"]).unwrap(),
            [event("", "\u{fffd}", ""), event("", "a", "1"), event("", "b", "1"), event("", "c", "1"),]
        );
    }

    #[test]
    fn sse_event_cut_by_the_end_is_an_error() {
        for text in ["data: a", "data: a\n", "data: a\r", "dat", "event: a", ": comm"] {
            let mut events = Events::new(Body::of(["data: 1\n\n", text]));
            assert_eq!(events.next(), Some(Ok(event("", "1", ""))), "{text:?}");
            assert!(matches!(events.next(), Some(Err(Error::Unavailable(_)))), "{text:?}");
            assert_eq!(events.next(), None);
        }
        for text in ["", "\n", ": comment\n", "event: a\n\n"] {
            assert_eq!(events(&[text.as_bytes()]).unwrap(), [], "{text:?}");
        }
    }

    #[test]
    fn sse_lines_and_events_are_bounded() {
        let long = vec![b'a'; MOST_LINE];
        assert!(matches!(events(&[b":", &long]), Err(Error::TooLarge(_))));
        let line = [b"data:", &long[5..], b"\n"].concat();
        assert_eq!(events(&[&line, &line, b"\n"]).unwrap()[0].data.len(), 2 * (MOST_LINE - 5) + 1);
        let with = |last: &str| events(&[&line, &line, b"data:", last.as_bytes(), b"\n\n"]);
        assert_eq!(with("12345678").unwrap()[0].data.len(), MOST_EVENT);
        assert!(matches!(with("123456789"), Err(Error::TooLarge(_))));
    }
}
