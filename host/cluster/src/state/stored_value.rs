//! The form of a value in a bucket.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shelly_core::{digest::Sha256Digest, hex, limits};

/// The version of this form, and the bytes of a token.
const VERSION: u8 = b'1';
const TOKEN_BYTES: usize = 24;

/// A stored value: a token that no other write has, and the content or where its parts are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredValue {
    /// The token, hexadecimal digits.
    pub token: String,
    pub content: StoredContent,
}

/// The content of a stored value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoredContent {
    Whole(Bytes),
    /// The content is longer than a message.
    Parts(StoredParts),
}

/// The parts of a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredParts {
    pub parts: usize,
    pub bytes: usize,
    /// The digest of the whole, hexadecimal digits.
    pub sha256: String,
}

impl StoredParts {
    /// Describes a content that is stored in parts of at most `most` bytes.
    pub fn of(content: &[u8], most: usize) -> Self {
        Self { parts: content.len().div_ceil(most), bytes: content.len(), sha256: Sha256Digest::of(content).hex() }
    }

    /// Returns `true` if this is the content.
    pub fn describes(&self, content: &[u8]) -> bool {
        content.len() == self.bytes && Sha256Digest::of(content).hex() == self.sha256
    }
}

impl StoredValue {
    /// The bytes of a whole content's frame.
    pub const HEAD: usize = 2 + TOKEN_BYTES;

    pub fn to_bytes(&self) -> Bytes {
        let (kind, content) = match &self.content {
            StoredContent::Whole(content) => (b'w', content.clone()),
            // Numbers and text always serialize.
            StoredContent::Parts(parts) => (b'p', serde_json::to_vec(parts).unwrap_or_default().into()),
        };
        let mut bytes = Vec::with_capacity(Self::HEAD + content.len());
        bytes.extend([VERSION, kind]);
        bytes.extend_from_slice(self.token.as_bytes());
        bytes.extend_from_slice(&content);
        bytes.into()
    }

    /// Returns `true` if a later version of this program has written these bytes.
    pub fn is_newer(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|version| version.is_ascii_digit() && *version > VERSION)
    }

    /// Reads a value, which may be anything; an error is the reason for which it is none.
    pub fn parse(bytes: &Bytes) -> Result<Self, String> {
        let [VERSION, kind, ..] = bytes[..] else {
            return Err("it is no value, or was written by a newer shelly-host".into());
        };
        let token = bytes.get(2..Self::HEAD).and_then(|token| std::str::from_utf8(token).ok());
        let token = token.filter(|token| hex::decode_lower::<12>(token).is_some()).ok_or("it has no token")?.to_owned();
        let content = bytes.slice(Self::HEAD..);
        let most = limits::BUCKET_VALUE_BYTES;
        let content = match kind {
            b'w' if content.len() > most => return Err(format!("it has more than {most} bytes")),
            b'w' => StoredContent::Whole(content),
            b'p' => {
                let parts: StoredParts = serde_json::from_slice(&content).map_err(|error| error.to_string())?;
                if parts.bytes > most || parts.parts > parts.bytes {
                    return Err(format!("it has more than {most} bytes, or empty parts"));
                }
                StoredContent::Parts(parts)
            }
            _ => return Err("it is of an unknown kind".into()),
        };
        Ok(Self { token, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef01234567";

    #[test]
    fn stored_value_is_read_as_it_was_written() {
        let content = Bytes::from_static(b"some content");
        for of in [StoredContent::Whole(content.clone()), StoredContent::Parts(StoredParts::of(&content, 5))] {
            let value = StoredValue { token: TOKEN.into(), content: of };
            assert_eq!(StoredValue::parse(&value.to_bytes()), Ok(value));
        }
        let newer = [&b"2w"[..], b"9", b"1w", b"x", b""].map(StoredValue::is_newer);
        assert_eq!(newer, [true, true, false, false, false]);
        let parts = StoredParts::of(&content, 5);
        assert_eq!((parts.parts, parts.describes(&content), parts.describes(b"some Content")), (3, true, false));
    }

    #[test]
    fn foreign_value_is_refused_with_its_reason() {
        let parts = |bytes: usize, parts: usize| format!(r#"1p{TOKEN}{{"parts":{parts},"bytes":{bytes},"sha256":""}}"#);
        for (value, why) in [
            (String::new(), "no value"),
            ("{}".into(), "no value"),
            (format!("2w{TOKEN}"), "newer shelly-host"),
            ("1w".into(), "no token"),
            (format!("1w{}", "*".repeat(TOKEN_BYTES)), "no token"),
            (format!("1x{TOKEN}"), "unknown kind"),
            (format!("1p{TOKEN}[]"), "invalid"),
            (parts(limits::BUCKET_VALUE_BYTES + 1, 1), "more than"),
            (parts(3, 4), "empty parts"),
            (format!("1w{TOKEN}{}", "x".repeat(limits::BUCKET_VALUE_BYTES + 1)), "more than"),
        ] {
            let refused = StoredValue::parse(&value.into()).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }
}
