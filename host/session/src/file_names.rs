//! The names of files and folders in a session's folder, and of folders that are no sessions.

/// The journal.
pub(super) const JOURNAL: &str = "journal.jsonl";
/// The recorded events.
pub(super) const EVENTS: &str = "events.jsonl";
/// The folder of the attachments.
pub(super) const ATTACHMENTS: &str = "attachments";
/// The file that a process locks while it writes.
pub(super) const LOCK: &str = "lock";

/// Prefixes of folders that are not sessions yet, or not any more.
pub(super) const NEW: &str = ".new-";
pub(super) const GONE: &str = ".gone-";
