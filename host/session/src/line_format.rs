//! The lines of a journal: their checksum, their envelope and their authentication code.

use std::{borrow::Cow, collections::BTreeMap, fmt, str};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::line_chain::{CODE_DIGITS, LineChain};
use shelly_core::digest::Sha256Digest;

/// The prefix of an attachment's digest whose bytes appear in the record as base64.
const BASE64: &str = "base64:";

/// The reference of a line to an attached string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttachmentRef {
    /// The digest of the file's bytes.
    pub digest: Sha256Digest,
    /// `true` if the string is the base64 of the bytes, `false` if it is the bytes themselves.
    pub is_base64: bool,
}

impl Serialize for AttachmentRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}{}", if self.is_base64 { BASE64 } else { "" }, self.digest))
    }
}

impl<'de> Deserialize<'de> for AttachmentRef {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        let (is_base64, digest) = text.strip_prefix(BASE64).map_or((false, &*text), |digest| (true, digest));
        let digest =
            Sha256Digest::parse(digest).ok_or_else(|| D::Error::custom("invalid reference to an attachment"))?;
        Ok(Self { digest, is_base64 })
    }
}

/// The members with which every line but the first begins.
#[derive(Debug, Deserialize)]
pub(super) struct LineEnvelope<'a> {
    pub n: u64,
    pub t: u64,
    pub run: u64,
    /// `true` at the beginning and the end of a run that a person started.
    #[serde(default)]
    pub top: bool,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// The strings that are stored in files, by JSON pointer.
    #[serde(default)]
    pub attached: BTreeMap<String, AttachmentRef>,
}

/// The prefix of every line; the digits are the checksum of everything after the prefix up to the end of the line.
const PREFIX: &str = r#"{"crc":"00000000","#;
pub(super) const CRC_AT: usize = r#"{"crc":""#.len();

/// The text before the authentication code of a line, which is its last member.
const CODE: &[u8] = br#","mac":""#;
/// The text after the code.
const CODE_END: &[u8] = br#""}"#;

/// Appends a line with the members of these JSON objects. With a chain, the line ends with its authentication code.
pub(super) fn append_line(
    lines: &mut Vec<u8>,
    envelope: fmt::Arguments<'_>,
    members: &[u8],
    chain: Option<&mut LineChain>,
) {
    use std::io::Write;
    let start = lines.len();
    lines.extend_from_slice(PREFIX.as_bytes());
    // Writing to memory cannot fail.
    let _ = lines.write_fmt(envelope);
    lines.extend_from_slice(members);
    if let Some(chain) = chain {
        let code = chain.extend(&lines[start + PREFIX.len()..]);
        lines.extend_from_slice(CODE);
        lines.extend_from_slice(code.as_bytes());
        lines.push(b'"');
    }
    lines.push(b'}');
    let crc = crc32fast::hash(&lines[start + PREFIX.len()..]);
    let digits = format!("{crc:08x}");
    lines[start + CRC_AT..start + CRC_AT + digits.len()].copy_from_slice(digits.as_bytes());
    lines.push(b'\n');
}

/// Returns the content that the authentication code at the end of a line covers, and the code; `None` if the line has no
/// code.
pub(super) fn split_code(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.get(PREFIX.len()..)?.strip_suffix(CODE_END)?;
    let (rest, code) = rest.split_at_checked(rest.len().checked_sub(CODE_DIGITS)?)?;
    Some((rest.strip_suffix(CODE)?, code))
}

/// Returns the line of these members.
pub fn journal_line(members: &str) -> Vec<u8> {
    let mut line = Vec::new();
    append_line(&mut line, format_args!("{members}"), b"", None);
    line
}

/// Returns the text of a line, without its line end, if its checksum is correct.
pub(super) fn checked(line: &[u8]) -> Result<&str, &'static str> {
    let text = str::from_utf8(line).map_err(|_| "the line is not UTF-8 text")?;
    let wrong = "the line does not begin with a checksum";
    let (prefix, content) = line.split_at_checked(PREFIX.len()).ok_or(wrong)?;
    let (digits, frame) = (&prefix[CRC_AT..CRC_AT + 8], PREFIX.as_bytes());
    if prefix[..CRC_AT] != frame[..CRC_AT] || prefix[CRC_AT + 8..] != frame[CRC_AT + 8..] {
        return Err(wrong);
    }
    match digits == format!("{:08x}", crc32fast::hash(content)).as_bytes() {
        true => Ok(text),
        false => Err("the checksum does not match the content"),
    }
}

/// Returns the members of a JSON object, without its braces.
pub(super) fn members(object: &[u8]) -> &[u8] {
    object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_and_references_are_texts_of_one_form() {
        let digest = Sha256Digest::of(b"");
        for reference in [AttachmentRef { digest, is_base64: true }, AttachmentRef { digest, is_base64: false }] {
            let json = serde_json::to_string(&reference).unwrap();
            assert_eq!(serde_json::from_str::<AttachmentRef>(&json).unwrap(), reference, "{json}");
        }
        let hex = digest.hex();
        for wrong in [String::new(), hex.clone(), format!("sha256:{}", hex.to_uppercase()), format!("sha256:{hex}0")] {
            assert_eq!(Sha256Digest::parse(&wrong), None, "{wrong}");
        }
    }
}
