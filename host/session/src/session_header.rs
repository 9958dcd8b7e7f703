//! The first line of a journal.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::line_format::{append_line, checked, members};
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

/// The command line options that began a session. They select files, so they are used only if the session [was created
/// here](super::SessionStore::is_created_here).
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
    let unreadable = |error: serde_json::Error| damaged(format!("not a header: {error}"));
    let FormatVersion { shelly_session: version } = serde_json::from_str(text).map_err(unreadable)?;
    match version {
        1 => serde_json::from_str(text).map_err(unreadable),
        0 => Err(damaged("unknown version 0".into())),
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
    use crate::line_format::CRC_AT;

    fn header() -> SessionHeader {
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
            (line(r#""shelly_session":0"#), "unknown version 0"),
            (line(r#""shelly_session":1"#), "missing field `id`"),
            (line(r#""shelly_session":-1"#), "not a header"),
            (line(r#""a":"#), "not a header"),
            (b"{}".to_vec(), "does not begin with a checksum"),
            (br#"{"crc":"00000000","shelly_session":1}"#.to_vec(), "does not match the content"),
            (b"\xff".to_vec(), "UTF-8"),
        ] {
            let read = format!("{:?}", read_header(&line).unwrap_err());
            assert!(read.contains(why), "{read}, not {why}");
        }
    }
}
