use std::{borrow::Cow, collections::BTreeMap, fmt, str, time::SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::chain::{CODE_DIGITS, LineChain};
use shelly_core::digest::Sha256Digest;

/// The version of the written format, and the newest readable version.
pub const VERSION: u64 = 1;

/// The first line of a journal, which a list of sessions shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHeader {
    /// The name of the session and of its folder.
    pub id: String,
    /// The time of creation.
    #[serde(with = "rfc3339")]
    pub created: SystemTime,
    /// The release of the host that created the session.
    pub host: String,
    /// The agent that a person started.
    pub agent: String,
    /// The model of that agent.
    pub model: String,
    /// The first task, cut.
    pub title: String,
    /// The session of which this one is a copy, up to a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    /// The session whose conversation this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The agents, teams, plugins and models in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SessionPart>,
    /// The command line options at creation.
    #[serde(default, skip_serializing_if = "LaunchOptions::is_empty")]
    pub options: LaunchOptions,
}

/// The command line options that began a session. They select files, so they are used only if the session [was made
/// here](super::SessionStore::is_made_here).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOptions {
    /// The config; relative to the folder that holds the project's `.shelly` if it is below that folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Plugin directories; relative under the same condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// The model, by the name that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl LaunchOptions {
    /// Returns `true` if no option was given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bytes of all names and paths.
    pub(super) fn size(&self) -> usize {
        self.config.iter().chain(&self.plugins).chain(&self.model).map(String::len).sum()
    }
}

/// The origin of a copied session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The name of the original session.
    pub id: String,
    /// The last line that was copied.
    pub at: u64,
}

/// A component of a session's setup, recorded so that a change of it can be noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPart {
    /// The kind of the part.
    pub kind: SessionPartKind,
    /// The name of the part.
    pub name: String,
    /// The digest of its content.
    pub digest: Sha256Digest,
}

/// The kind of a [`SessionPart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPartKind {
    /// An agent, as it is configured.
    Agent,
    /// A team, as it is configured.
    Team,
    /// A component.
    Plugin,
    /// A model.
    Model,
}

impl SessionPartKind {
    /// Returns the name of the kind, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Team => "team",
            Self::Plugin => "plugin",
            Self::Model => "model",
        }
    }
}

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
        let digest = Sha256Digest::parse(digest).ok_or_else(|| D::Error::custom("it names no attachment"))?;
        Ok(Self { digest, is_base64 })
    }
}

/// A record that the session itself writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum SessionRecord {
    /// A process opened the session for writing.
    Opened { pid: u32, host: String, parts: Vec<SessionPart> },
}

/// The kind of a [`SessionRecord`].
pub(super) const OPENED: &str = "opened";

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
const CRC_AT: usize = r#"{"crc":""#.len();

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
    let text = str::from_utf8(line).map_err(|_| "it is not UTF-8 text")?;
    let wrong = "it does not begin with a checksum";
    let (prefix, content) = line.split_at_checked(PREFIX.len()).ok_or(wrong)?;
    let (digits, frame) = (&prefix[CRC_AT..CRC_AT + 8], PREFIX.as_bytes());
    if prefix[..CRC_AT] != frame[..CRC_AT] || prefix[CRC_AT + 8..] != frame[CRC_AT + 8..] {
        return Err(wrong);
    }
    match digits == format!("{:08x}", crc32fast::hash(content)).as_bytes() {
        true => Ok(text),
        false => Err("its checksum is not that of its content"),
    }
}

/// Returns the members of a JSON object, without its braces.
pub(super) fn members(object: &[u8]) -> &[u8] {
    object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default()
}

/// Returns the first line of a journal.
pub(super) fn header_line(header: &SessionHeader) -> Vec<u8> {
    let mut line = Vec::new();
    // The header holds only text and numbers, so serialization cannot fail.
    let json = serde_json::to_vec(header).unwrap_or_default();
    append_line(&mut line, format_args!("\"shelly_session\":{VERSION},"), members(&json), None);
    line
}

/// The reason for which a header cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionHeaderError {
    /// A newer release wrote it.
    Newer(u64),
    /// The line is not what was written.
    Damaged(String),
}

/// Parses the header from the first line, without its line end. Every version that was ever released is handled here.
pub(super) fn read_header(line: &[u8]) -> Result<SessionHeader, SessionHeaderError> {
    #[derive(Deserialize)]
    struct FormatVersion {
        shelly_session: u64,
    }
    let damaged = |why: String| SessionHeaderError::Damaged(why);
    let text = checked(line).map_err(|why| damaged(why.into()))?;
    let unreadable = |error: serde_json::Error| damaged(format!("it is no header: {error}"));
    let FormatVersion { shelly_session: version } = serde_json::from_str(text).map_err(unreadable)?;
    match version {
        1 => serde_json::from_str(text).map_err(unreadable),
        0 => Err(damaged("there is no version 0".into())),
        newer => Err(SessionHeaderError::Newer(newer)),
    }
}

mod rfc3339 {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use shelly_core::files::writable_date;

    pub fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(writable_date(*time)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_rfc3339(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    pub fn header() -> SessionHeader {
        SessionHeader {
            id: "a".into(),
            created: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            host: "0.1.0".into(),
            agent: "ada".into(),
            model: "m".into(),
            title: "Say \"hi\".\n".into(),
            forked_from: Some(ForkOrigin { id: "b".into(), at: 7 }),
            follows: None,
            parts: vec![SessionPart { kind: SessionPartKind::Plugin, name: "p".into(), digest: Sha256Digest::of(b"") }],
            options: LaunchOptions { config: Some("a.yaml".into()), plugins: vec!["p".into()], model: None },
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let line = header_line(&header());
        let text = str::from_utf8(&line).unwrap();
        assert!(
            text.ends_with("}\n")
                && text[CRC_AT + 8..].starts_with(
                    r#"","shelly_session":1,"id":"a","created":"2023-11-14T22:13:20.123Z","host":"0.1.0","#
                ),
            "{text}"
        );
        assert!(text.contains("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), "{text}");
        assert_eq!(read_header(&line[..line.len() - 1]), Ok(header()));
    }

    #[test]
    fn invalid_session_header_says_why() {
        let line = |content: &str| {
            let mut line = Vec::new();
            append_line(&mut line, format_args!("{content}"), b"", None);
            line.pop();
            line
        };
        for (line, why) in [
            (line(r#""shelly_session":2"#), "Newer(2)"),
            (line(r#""shelly_session":0"#), "there is no version 0"),
            (line(r#""shelly_session":1"#), "missing field `id`"),
            (line(r#""shelly_session":-1"#), "it is no header"),
            (line(r#""a":"#), "it is no header"),
            (b"{}".to_vec(), "does not begin with a checksum"),
            (br#"{"crc":"00000000","shelly_session":1}"#.to_vec(), "not that of its content"),
            (b"\xff".to_vec(), "UTF-8"),
        ] {
            let read = format!("{:?}", read_header(&line).unwrap_err());
            assert!(read.contains(why), "{read}, not {why}");
        }
    }

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
