use serde::{Deserialize, Serialize};

use super::session_header::SessionPart;

/// A record that the session itself writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum SessionRecord {
    /// A process opened the session for writing.
    Opened { pid: u32, host: String, parts: Vec<SessionPart> },
}

/// The kind of a [`SessionRecord`].
pub(super) const OPENED: &str = "opened";
