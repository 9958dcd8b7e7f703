//! The entry of a session: the name under which it is known, and what a list shows of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shelly_core::limits;
use shelly_session::{SessionHeader, SessionStatus};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, key_of, name_of},
    encryption::{SealKind, SealPlace},
};

/// The number of bytes of a mark that are read: more than any mark has.
const MARK_BYTES: usize = 128;
/// The maximum number of bytes of a token, which becomes a part of subjects: more than any has.
const TOKEN_BYTES: usize = 64;

/// The entry of a session. Its lease's holder keeps it current, except for sizes and times, which lag behind until the
/// lease is refreshed or released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionEntry {
    /// The version of this form.
    version: u32,
    /// The token in the subjects of the session's messages.
    pub token: String,
    /// The first line of the journal, with its line end.
    pub header: String,
    /// The mark.
    pub mark: Option<String>,
    /// The status of the last run that a person started.
    status: String,
    /// The time of the last write, in milliseconds since 1970.
    modified: u64,
    pub journal_bytes: u64,
    pub attachment_bytes: u64,
    pub events_bytes: u64,
}

/// The version of an entry's form.
pub(crate) const VERSION: u32 = 1;

/// The version of an entry, whatever else is in it.
#[derive(Deserialize)]
struct SessionEntryVersion {
    version: u32,
}

/// The words for statuses in an entry.
const STATUSES: [(SessionStatus, &str); 4] = [
    (SessionStatus::Empty, "empty"),
    (SessionStatus::Unfinished, "unfinished"),
    (SessionStatus::Finished, "finished"),
    (SessionStatus::Failed, "failed"),
];

impl SessionEntry {
    /// Creates the entry of a session without lines.
    pub fn new(token: String) -> Self {
        Self {
            version: VERSION,
            token,
            header: String::new(),
            mark: None,
            status: "empty".into(),
            modified: now(),
            journal_bytes: 0,
            attachment_bytes: 0,
            events_bytes: 0,
        }
    }

    /// Parses an entry; an error is the reason for which it cannot be one.
    pub fn parse(value: &[u8]) -> Result<Self, String> {
        if value.len() > limits::CLUSTER_ENTRY_BYTES {
            return Err(format!("the entry has more than {} bytes", limits::CLUSTER_ENTRY_BYTES));
        }
        // The version is read first: a later version may have any other form.
        let none = |error: serde_json::Error| format!("not the entry of a session: {error}");
        let SessionEntryVersion { version } = serde_json::from_slice(value).map_err(none)?;
        if version != VERSION {
            return Err(format!("the entry has version {version}, this shelly-host reads version {VERSION}"));
        }
        let entry: Self = serde_json::from_slice(value).map_err(none)?;
        match is_token(&entry.token) {
            true => Ok(entry),
            false => Err("the token of the session is not one".into()),
        }
    }

    /// Returns the bytes of the entry.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Text and numbers alone: serialization cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the header; an error is the reason for which it cannot be read.
    pub fn header(&self) -> Result<SessionHeader, String> {
        serde_json::from_str(&self.header).map_err(|error| format!("not a header: {error}"))
    }

    /// Returns the mark if it can be one.
    pub fn mark(&self) -> Option<String> {
        self.mark.clone().filter(|mark| mark.len() <= MARK_BYTES)
    }

    pub fn status(&self) -> SessionStatus {
        let known = STATUSES.iter().find(|(_, word)| *word == self.status);
        known.map_or(SessionStatus::Unfinished, |(status, _)| *status)
    }

    /// Sets the status; returns `true` if it was another one.
    pub fn set_status(&mut self, status: SessionStatus) -> bool {
        let is_other = self.status() != status;
        let word = STATUSES.iter().find(|(known, _)| *known == status).map_or("unfinished", |(_, word)| *word);
        self.status = word.to_owned();
        is_other
    }

    /// Returns the bytes of the whole session, as far as one can have so many: the entry may be of somebody who wants the
    /// namespace to be full.
    pub fn bytes(&self) -> u64 {
        let journal = self.journal_bytes.saturating_add(self.attachment_bytes).min(limits::SESSION_BYTES);
        journal + self.events_bytes.min(limits::SESSION_EVENTS_BYTES)
    }

    /// Returns the entry without its header and its mark: those of all sessions together may be as large as somebody who
    /// publishes wants.
    pub fn without_texts(self) -> Self {
        Self { header: String::new(), mark: None, ..self }
    }

    /// Notes a write.
    pub fn touch(&mut self) {
        self.modified = now();
    }

    pub fn modified(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_millis(self.modified)).unwrap_or(UNIX_EPOCH)
    }
}

impl ClusterHandles {
    /// Returns the entry of a session and its revision; `None` if there is no such session.
    pub async fn session_entry(&self, id: &str) -> Result<Option<(SessionEntry, u64)>, ClusterCallError> {
        let key = key_of(id);
        let Some((value, revision)) = self.value(&self.entries, &key).await? else { return Ok(None) };
        Ok(Some((self.open_entry(&key, &value)?, revision)))
    }

    /// Returns the token of a session; `None` if there is no such session, or if its entry cannot be read.
    pub async fn session_token(&self, id: &str) -> Result<Option<String>, ClusterCallError> {
        let key = key_of(id);
        let value = self.value(&self.entries, &key).await?;
        Ok(value.and_then(|(value, _)| self.open_entry(&key, &value).ok()).map(|entry| entry.token))
    }

    /// Reads the entry that a server has under a key.
    pub fn open_entry(&self, key: &str, value: &Bytes) -> Result<SessionEntry, ClusterCallError> {
        let value = self.seals.open(SealPlace::new(SealKind::Session, key), value)?;
        let parsed = SessionEntry::parse(&value);
        parsed.map_err(|reason| ClusterError::invalid(format!("the entry of session {}", name_of(key)), reason).into())
    }

    /// Returns the bytes of an entry as the server is given them.
    pub fn seal_entry(&self, key: &str, entry: &SessionEntry) -> Result<Bytes, ClusterCallError> {
        Ok(self.seals.seal(SealPlace::new(SealKind::Session, key), entry.to_bytes().into())?)
    }
}

/// Returns `true` if this can be the token of a session, which becomes a part of subjects and of patterns.
pub(crate) fn is_token(token: &str) -> bool {
    (1..=TOKEN_BYTES).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_read_as_it_was_written() {
        let mut entry = SessionEntry::new("0a1b".into());
        assert!(entry.set_status(SessionStatus::Failed) && !entry.set_status(SessionStatus::Failed));
        assert_eq!(SessionEntry::parse(&entry.to_bytes()), Ok(entry.clone()));
        entry.mark = Some("m".repeat(MARK_BYTES + 1));
        assert_eq!((entry.status(), entry.mark()), (SessionStatus::Failed, None));
    }

    #[test]
    fn entry_that_is_none_is_refused() {
        let entry = String::from_utf8(SessionEntry::new("0a".into()).to_bytes()).unwrap();
        for (value, why) in [
            (String::new(), "not the entry of a session"),
            ("{}".into(), "missing field"),
            (entry.replace("\"version\":1", "\"version\":2"), "has version 2"),
            (r#"{"version":2,"another":"form"}"#.into(), "has version 2"),
            (entry.replace("\"0a\"", "\"a.*\""), "the token"),
            (entry.replace("\"0a\"", "\"\""), "the token"),
            (entry.replace("\"0a\"", &format!("\"{}\"", "a".repeat(TOKEN_BYTES + 1))), "the token"),
            (" ".repeat(limits::CLUSTER_ENTRY_BYTES + 1), "more than"),
        ] {
            let refused = SessionEntry::parse(value.as_bytes()).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        let far = SessionEntry { modified: u64::MAX, ..SessionEntry::new("0a".into()) };
        assert!(far.modified() >= UNIX_EPOCH, "a time beyond all times is no panic");
        let known = SessionEntry { header: "h".into(), mark: Some("m".into()), ..far.clone() };
        assert_eq!(known.without_texts(), far);
        let (journal_bytes, events_bytes) = (u64::MAX, u64::MAX);
        let huge = SessionEntry { journal_bytes, attachment_bytes: 7, events_bytes, ..SessionEntry::new("0a".into()) };
        assert_eq!(huge.bytes(), limits::SESSION_BYTES + limits::SESSION_EVENTS_BYTES);
    }
}
