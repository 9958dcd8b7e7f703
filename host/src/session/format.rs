use std::{borrow::Cow, collections::BTreeMap, fmt, str, time::SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::chain::{CODE_DIGITS, LineChain};

/// The version of the format that is written, and the newest that can be read.
pub const VERSION: u64 = 1;

/// The first line of a journal: what a list of sessions shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHeader {
    /// The session's name: its folder has it too.
    pub id: String,
    /// When it began.
    #[serde(with = "rfc3339")]
    pub created: SystemTime,
    /// The release of the host that began it.
    pub host: String,
    /// The agent that a person started.
    pub agent: String,
    /// Its model.
    pub model: String,
    /// Its first task, cut.
    pub title: String,
    /// The session that it is a copy of the beginning of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    /// The session whose conversation it goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// What it was run with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SessionPart>,
    /// What the command line named when it began.
    #[serde(default, skip_serializing_if = "LaunchOptions::is_empty")]
    pub options: LaunchOptions,
}

/// The options of the command line that began a session. They choose files, so they are acted on only if the session
/// [was made here](super::SessionStore::is_made_here).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOptions {
    /// The config, relative to the folder that holds the project's `.shelly` where it is below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Plugin directories, relative in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// The model, by the name that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl LaunchOptions {
    /// Returns `true` if nothing was named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bytes of all names and paths.
    pub(super) fn size(&self) -> usize {
        self.config.iter().chain(&self.plugins).chain(&self.model).map(String::len).sum()
    }
}

/// Where a session was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The other session.
    pub id: String,
    /// The last line that was copied.
    pub at: u64,
}

/// Something that a session was run with, so that a change of it can be noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPart {
    /// What it is.
    pub kind: SessionPartKind,
    /// Its name.
    pub name: String,
    /// The digest of its content.
    pub digest: Sha256Digest,
}

/// What a [`SessionPart`] is.
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
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Team => "team",
            Self::Plugin => "plugin",
            Self::Model => "model",
        }
    }
}

/// A SHA-256 digest; as text `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SHA256}{}", self.hex())
    }
}

const SHA256: &str = "sha256:";
/// Before the digest of an attachment whose bytes stand in the record as base64.
const BASE64: &str = "base64:";

impl Sha256Digest {
    /// The 64 digits alone.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::of_hex(text.strip_prefix(SHA256)?)
    }

    /// The digest that is written so: 64 digits, in small letters.
    pub fn of_hex(hex: &str) -> Option<Self> {
        let hex = Some(hex).filter(|hex| hex.len() == 64)?.as_bytes();
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(Self(bytes))
    }
}

impl Serialize for Sha256Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("it is not `sha256:` and 64 hexadecimal digits"))
    }
}

/// Where a string of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttachmentRef {
    /// Of the file's bytes.
    pub digest: Sha256Digest,
    /// Whether the string is the base64 of the bytes, and not the bytes themselves.
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

/// What the session itself writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum SessionRecord {
    /// A process goes on with it.
    Opened { pid: u32, host: String, parts: Vec<SessionPart> },
}

/// The kinds of [`SessionRecord`].
pub(super) const OPENED: &str = "opened";

/// What every line but the first begins with.
#[derive(Debug, Deserialize)]
pub(super) struct LineEnvelope<'a> {
    pub n: u64,
    pub t: u64,
    pub run: u64,
    /// Whether it is the beginning or the end of a run that a person started.
    #[serde(default)]
    pub top: bool,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// Strings that stand in files, by their places (JSON pointers).
    #[serde(default)]
    pub attached: BTreeMap<String, AttachmentRef>,
}

/// What every line begins with; the digits are the checksum of all that follows up to the end of the line.
const PREFIX: &str = r#"{"crc":"00000000","#;
const CRC_AT: usize = r#"{"crc":""#.len();

/// Before the authentication code of a line, which is its last member.
const CODE: &[u8] = br#","mac":""#;
/// Behind it.
const CODE_END: &[u8] = br#""}"#;

/// Appends the line of these JSON objects, whose members follow one another. With a chain it ends with the code of the chain.
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

/// Returns what the authentication code at the end of a line covers, and the code; `None` if it ends with none.
pub(super) fn split_code(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.get(PREFIX.len()..)?.strip_suffix(CODE_END)?;
    let (rest, code) = rest.split_at_checked(rest.len().checked_sub(CODE_DIGITS)?)?;
    Some((rest.strip_suffix(CODE)?, code))
}

/// The line of these members.
pub(crate) fn line_of(members: &str) -> Vec<u8> {
    let mut line = Vec::new();
    append_line(&mut line, format_args!("{members}"), b"", None);
    line
}

/// The text of a line, without its end, if it is what was written.
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

/// The members of a JSON object, without its braces.
pub(super) fn members(object: &[u8]) -> &[u8] {
    object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default()
}

/// The first line.
pub(super) fn header_line(header: &SessionHeader) -> Vec<u8> {
    let mut line = Vec::new();
    // Texts and numbers alone: it can always be written.
    let json = serde_json::to_vec(header).unwrap_or_default();
    append_line(&mut line, format_args!("\"shelly_session\":{VERSION},"), members(&json), None);
    line
}

/// Why a header is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionHeaderError {
    /// A later release wrote it.
    Newer(u64),
    /// It is not what was written.
    Damaged(String),
}

/// The header in the first line, without the line's end. Each version that there ever was has its own reading here.
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

    use crate::files::writable_date;

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
    fn what_is_no_header_says_why() {
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
