//! Lines of text, read while they arrive.

use super::{
    body::Body,
    split::{Ends, Split},
};
use crate::types::Error;

/// An iterator over the lines of a body, without their ends (`\n` or `\r\n`), including empty ones. Invalid UTF-8 becomes
/// `U+FFFD`. The last line needs no end. A broken connection is [`Error::Unavailable`], a line longer than
/// [`MOST_LINE`](super::MOST_LINE) is [`Error::TooLarge`]. The iterator ends after an error.
#[derive(Debug)]
pub struct Lines(Option<Split>);

impl Lines {
    /// Creates an iterator over the lines of this body.
    pub fn new(body: Body) -> Lines {
        Lines(Some(Split::new(body, Ends::LineFeed)))
    }
}

impl Iterator for Lines {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Result<String, Error>> {
        match self.0.as_mut()?.next() {
            Ok(line) => line.map(|line| Ok(String::from_utf8_lossy(line.bytes).into_owned())),
            Err(error) => {
                self.0 = None;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::MOST_LINE, *};

    fn lines(pieces: &[&[u8]]) -> Result<Vec<String>, Error> {
        Lines::new(Body::of(pieces.iter().copied())).collect()
    }

    #[test]
    fn http_lines_are_read_at_every_split() {
        let text = "{\"a\":\"ä\"}\n\r\n\n two\rparts \r\nlast 🌍".as_bytes();
        let expected = ["{\"a\":\"ä\"}", "", "", " two\rparts ", "last 🌍"].map(str::to_owned);
        for at in 0..=text.len() {
            assert_eq!(lines(&[&text[..at], &text[at..]]).unwrap(), expected, "split at {at}");
        }
        assert_eq!(lines(&text.chunks(1).collect::<Vec<_>>()).unwrap(), expected);
        for (text, expected) in [("", &[][..]), ("\n", &[""]), ("a", &["a"]), ("a\n", &["a"]), ("a\r", &["a\r"])] {
            assert_eq!(lines(&[text.as_bytes()]).unwrap(), expected, "{text:?}");
        }
        assert_eq!(lines(&[b"\xff\nb"]).unwrap(), ["\u{fffd}", "b"]);
    }

    #[test]
    fn http_lines_end_with_an_error_when_the_connection_breaks() {
        let cut = Error::unavailable("cut");
        let mut lines = Lines::new(Body::of(["a\nb"]).and_then_fails(cut.clone()));
        assert_eq!(lines.next(), Some(Ok("a".into())));
        assert_eq!((lines.next(), lines.next()), (Some(Err(cut)), None));
    }

    #[test]
    fn http_line_length_is_bounded() {
        let most = vec![b'a'; MOST_LINE];
        assert_eq!(lines(&[&most, b"\n", &most]).unwrap().len(), 2);
        assert!(matches!(lines(&[&most, b"a\n"]), Err(Error::TooLarge(_))));
        assert!(matches!(lines(&[&most, b"a"]), Err(Error::TooLarge(_))));
    }
}
