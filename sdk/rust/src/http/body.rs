//! The body of a response, read in pieces or as a whole.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;

use super::{Response, host};
use crate::types::Error;

/// The number of bytes that are requested at once.
pub(super) const READ: u32 = 64 << 10;

/// The maximum size of a body that is read as a whole: 16 MiB. Read a larger body in pieces.
pub const MOST_WHOLE: usize = 16 << 20;

/// The body of a response. Bytes are requested as they are read, so that a faster server has to wait. Dropping the body
/// closes the connection.
#[derive(Debug)]
pub struct Body(Source);

#[derive(Debug)]
enum Source {
    Host(host::Body),
    Given(VecDeque<Result<Vec<u8>, Error>>),
}

impl From<host::Body> for Body {
    fn from(body: host::Body) -> Body {
        Body(Source::Host(body))
    }
}

impl Body {
    /// Creates a body for unit tests, which arrives in these pieces.
    pub fn of<P: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = P>) -> Body {
        // No piece is empty, because an empty piece marks the end of a body. No piece is long, so that splitting one
        // costs little.
        let chunks = |piece: P| piece.into().chunks(READ as usize).map(|chunk| Ok(chunk.to_vec())).collect::<Vec<_>>();
        Body(Source::Given(pieces.into_iter().flat_map(chunks).collect()))
    }

    /// Makes a body for unit tests end with this error.
    pub fn and_then_fails(self, error: Error) -> Body {
        let Source::Given(mut pieces) = self.0 else { return self };
        pieces.push_back(Err(error));
        Body(Source::Given(pieces))
    }

    /// Waits for the next bytes and returns at most `most` of them, and at most 64 KiB (the contract's bound). The result
    /// is empty only at the end. A broken connection is [`Error::Unavailable`].
    pub fn read(&mut self, most: u32) -> Result<Vec<u8>, Error> {
        match &mut self.0 {
            Source::Host(body) => body.read(most),
            Source::Given(pieces) => match pieces.pop_front().transpose()? {
                Some(mut piece) if piece.len() > most as usize => {
                    pieces.push_front(Ok(piece.split_off(most as usize)));
                    Ok(piece)
                }
                piece => Ok(piece.unwrap_or_default()),
            },
        }
    }
}

impl Response {
    /// Reads the whole body. Bound: [`MOST_WHOLE`].
    pub fn bytes(self) -> Result<Vec<u8>, Error> {
        let (whole, is_all) = first(self.body, MOST_WHOLE)?;
        if is_all {
            return Ok(whole);
        }
        Err(Error::TooLarge(format!("{} sent a body of more than {MOST_WHOLE} bytes", self.origin)))
    }

    /// Reads the whole body as text; invalid UTF-8 becomes `U+FFFD`. Bound: [`MOST_WHOLE`].
    pub fn text(self) -> Result<String, Error> {
        let bytes = self.bytes()?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Reads the whole body as JSON. The error names the field that is wrong. Bound: [`MOST_WHOLE`].
    pub fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let origin = self.origin.clone();
        crate::json::parse(&self.text()?)
            .map_err(|cause| Error::Other(format!("{origin} sent unexpected JSON: {cause}")))
    }
}

/// Reads the first `most` bytes, and returns them with `true` if there are no more.
pub(super) fn first(mut body: Body, most: usize) -> Result<(Vec<u8>, bool), Error> {
    let mut whole = Vec::new();
    loop {
        let piece = body.read(READ)?;
        if piece.is_empty() {
            return Ok((whole, true));
        }
        whole.extend_from_slice(&piece[..piece.len().min(most - whole.len())]);
        if whole.len() == most {
            return Ok((whole, body.read(1)?.is_empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(pieces: &[&[u8]]) -> Response {
        Response::new(200, &[], Body::of(pieces.iter().copied()))
    }

    fn cut() -> Error {
        Error::unavailable("cut")
    }

    #[test]
    fn http_body_pieces_are_bounded_by_the_requested_size() {
        let mut body = Body::of(["abc", "", "de"]).and_then_fails(cut());
        let read: Vec<_> = (0..4).map(|_| body.read(2)).collect();
        assert_eq!(read, [Ok(b"ab".into()), Ok(b"c".into()), Ok(b"de".into()), Err(cut())]);
        assert_eq!(body.read(2), Ok(vec![]));
    }

    #[test]
    fn http_body_reads_as_text_bytes_and_json() {
        assert_eq!(response(&["grö".as_bytes(), "ße".as_bytes()]).text().unwrap(), "größe");
        assert_eq!(response(&[b"a\xff"]).text().unwrap(), "a\u{fffd}");
        assert_eq!(response(&[]).bytes().unwrap(), b"");
        assert_eq!(response(&[b"[1,", b"2]"]).json::<Vec<u8>>().unwrap(), [1, 2]);
        let error = response(&[b"[1,\"a\"]"]).json::<Vec<u8>>().unwrap_err();
        let says = "the server sent unexpected JSON: `[1]`: invalid type: string \"a\", expected u8";
        assert_eq!(error, Error::Other(says.into()));
        let broken = Response::new(200, &[], Body::of(["a"]).and_then_fails(cut()));
        assert_eq!(broken.text(), Err(cut()));
    }

    #[test]
    fn a_whole_body_is_bounded() {
        let most = vec![b'a'; MOST_WHOLE];
        assert_eq!(response(&[&most]).bytes().unwrap().len(), MOST_WHOLE);
        assert!(matches!(response(&[&most, b"a"]).bytes(), Err(Error::TooLarge(_))));
    }
}
