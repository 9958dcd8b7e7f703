//! The names of sessions, of files and folders in a session's folder, and of folders that are no sessions.

use shelly_core::limits;

/// The journal.
pub(super) const JOURNAL: &str = "journal.jsonl";
/// The recorded events.
pub(super) const EVENTS: &str = "events.jsonl";
/// The folder of the attachments.
pub(super) const ATTACHMENTS: &str = "attachments";
/// The file that a process locks while it writes.
pub(super) const LOCK: &str = "lock";
/// The mark.
pub(super) const MARK: &str = "mark";

/// Prefixes of folders that are not sessions yet, or not any more.
pub(super) const NEW: &str = ".new-";
pub(super) const GONE: &str = ".gone-";

/// Returns `true` if a session may have this name: never a path, an option or a hidden file.
pub(super) fn is_name(name: &str) -> bool {
    (1..=limits::SESSION_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !name.starts_with(['.', '-'])
}
