//! Limits of file changes that tools propose.

use std::time::Duration;

/// The maximum number of changes that one result may propose.
pub const CHANGES_PER_RESULT: usize = 1_000;
/// The maximum bytes of a proposed file.
pub const CHANGED_FILE_BYTES: usize = 8 << 20;
/// The maximum bytes of the path of a change, as in operating systems.
pub const CHANGED_PATH_BYTES: usize = 4_096;
/// The maximum number of files and folders that the changes of one result may remove, move, copy or replace: each is
/// examined twice, and no tool needs more.
pub const CHANGED_ENTRIES: usize = 10_000;
/// The maximum bytes that the changes of one result may remove, move, copy or replace: they are read to verify that they
/// match what was shown.
pub const CHANGED_TREE_BYTES: u64 = 256 << 20;
/// The maximum nesting depth of folders that are removed, moved or copied.
pub const CHANGED_DEPTH: u32 = 64;
/// The maximum bytes of previous contents kept to undo one result, and of all files that it overwrites, which are held in
/// memory.
pub const CHANGE_UNDO_BYTES: u64 = 64 << 20;
/// The maximum bytes of previous contents kept for one session.
pub const SESSION_UNDO_BYTES: u64 = 256 << 20;
/// The maximum number of results of one session whose changes are kept; nobody examines more.
pub const SESSION_UNDO_RECORDS: usize = 4_096;
/// The maximum bytes of the record of one result that changed files: one line for each of its files and folders.
pub const CHANGE_RECORD_BYTES: u64 = 64 << 20;
/// The maximum bytes of a file whose changes are shown line by line.
pub const DIFF_BYTES: usize = 1 << 20;
/// The maximum bytes of all files of one result whose changes are shown line by line, since comparing takes time.
pub const DIFFS_BYTES: usize = 8 << 20;
/// The maximum characters of all diffs of one result that a person is shown: about 300 lines.
pub const DIFF_CHARS: usize = 16_000;
/// The maximum characters of one diff line that are shown.
pub const DIFF_LINE_CHARS: usize = 500;
/// The maximum time to apply the changes of one result, without the time of the question: enough for a slow disk to read and
/// write [`CHANGED_TREE_BYTES`] a few times.
pub const CHANGE_TIME: Duration = Duration::from_secs(10 * 60);
/// The maximum number of diff lines shown before an undo.
pub const UNDO_LINES: usize = 500;
/// The maximum characters of a change's path that a person is shown: of longer paths the beginning and the end.
/// [`CHANGES_SHOWN`] lines with two such paths, and as many warnings, leave room for diffs.
pub const PATH_SHOWN_CHARS: usize = 160;
/// The maximum number of changes of one result that are shown on a line each, and of listed entries of a folder.
pub const CHANGES_SHOWN: usize = 50;
/// The time to search for the shortest diff of two texts; afterwards a longer one is used.
pub const DIFF_TIME: Duration = Duration::from_millis(500);
/// The time in which an editor must answer about one file: it has the text in memory.
pub const EDITOR_TIME: Duration = Duration::from_secs(5);
