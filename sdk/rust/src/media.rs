//! Attachments in the form in which a provider sends them to its vendor. [`Media::bytes`] reads one from the host.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{
    attachments,
    types::{Error, Media, Source},
};

/// The number of bytes that are read from the host at once.
const READ: u32 = 1 << 20;

/// The maximum size of an attachment: 32 MiB.
const MOST: u64 = 32 << 20;

/// Encodes bytes as base64, for JSON.
pub fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

impl Media {
    /// Returns the bytes, read from the host if they are an attachment; `None` if they are on the web. For providers.
    /// Bound: 32 MiB.
    pub fn bytes(&self) -> Result<Option<Vec<u8>>, Error> {
        match &self.source {
            Source::Bytes(bytes) => Ok(Some(bytes.clone())),
            Source::Attachment(id) => all(|offset, most| attachments::read(id, offset, most)).map(Some),
            Source::Url(_) => Ok(None),
        }
    }

    /// Describes the media in words, for a vendor that cannot take it.
    pub fn in_words(&self) -> String {
        let name = self.name.as_deref().unwrap_or("attachment");
        match &self.source {
            Source::Url(url) => format!("[{name}, {}: {url}]", self.media_type),
            _ => format!("[{name}, {}: cannot be shown]", self.media_type),
        }
    }
}

fn all(mut read: impl FnMut(u64, u32) -> Result<Vec<u8>, Error>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    loop {
        let piece = read(bytes.len() as u64, READ)?;
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > MOST {
            return Err(Error::TooLarge(format!("an attachment has more than {MOST} bytes")));
        }
        // Only the last piece is shorter.
        if piece.len() < READ as usize {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(source: Source, name: Option<&str>) -> Media {
        Media { media_type: "image/png".into(), name: name.map(Into::into), source }
    }

    #[test]
    fn attachment_is_read_to_its_end_within_bounds() {
        let piece = READ as usize;
        for (length, reads) in [(0, 1), (1, 1), (piece - 1, 1), (piece, 2), (2 * piece + 1, 3)] {
            let there: Vec<u8> = (0..length).map(|at| (at / 1_000) as u8).collect();
            let mut count = 0;
            let read = |offset, most| {
                count += 1;
                Ok(there.iter().skip(offset as usize).take(most as usize).copied().collect())
            };
            assert_eq!(all(read).unwrap(), there, "{length}");
            assert_eq!(count, reads, "{length}");
        }
        assert!(matches!(all(|_, most| Ok(vec![0; most as usize])), Err(Error::TooLarge(_))));
        let gone = Error::NotFound("no such attachment".into());
        assert_eq!(all(|_, _| Err(gone.clone())), Err(gone));
    }

    #[test]
    fn media_bytes_are_returned_and_other_sources_described() {
        let here = media(Source::Bytes(vec![1, 2, 3]), Some("a.png"));
        assert_eq!(here.bytes().unwrap().as_deref().map(base64).as_deref(), Some("AQID"));
        assert_eq!(here.in_words(), "[a.png, image/png: cannot be shown]");
        let far = media(Source::Url("https://example.com/a".into()), None);
        assert_eq!((far.bytes(), &*far.in_words()), (Ok(None), "[attachment, image/png: https://example.com/a]"));
    }
}
