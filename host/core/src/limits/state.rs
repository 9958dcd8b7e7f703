//! Limits of shared state: blackboards, tasks, notes, reflections, and the buckets in which several hosts share them.

use std::time::Duration;

use super::TOOL_RESULT_CHARS;

// ---- reflections on failures

/// The maximum bytes of one reflection on a failure; the rest is cut.
pub const REFLECTION_BYTES: usize = 12 << 10;
/// The maximum number of reflections in an agent's prompt.
pub const REFLECTIONS_TOLD: usize = 5;
/// The maximum bytes of all reflections in an agent's prompt.
pub const REFLECTIONS_BYTES: usize = 32 << 10;
/// The number of reflections that are kept, and searched for a task; the oldest are removed.
pub const REFLECTIONS_KEPT: usize = 200;
/// The minimum bytes of a word that is searched for.
pub const REFLECTION_WORD_BYTES: usize = 4;
/// The maximum number of reflections written in one second; more simultaneous failures teach nothing new.
pub const REFLECTIONS_A_SECOND: usize = 100;

// ---- shared state: blackboards, tasks, notes

/// The maximum bytes of a key on a blackboard.
pub const BLACKBOARD_KEY_BYTES: usize = 128;
/// The maximum bytes of a value on a blackboard as JSON: slightly below [`TOOL_RESULT_CHARS`](super::TOOL_RESULT_CHARS),
/// so that a model that reads it sees all of it.
pub const BLACKBOARD_VALUE_BYTES: usize = 31_000;
/// The maximum number of keys on one blackboard.
pub const BLACKBOARD_KEYS: usize = 1_024;
/// The maximum bytes of all keys and values on one blackboard.
pub const BLACKBOARD_BYTES: usize = 8 << 20;
/// The maximum number of revisions between two recorded changes of a blackboard that several hosts share: one that was
/// overwritten before it arrived on a host is not recorded there.
pub const BLACKBOARD_SKIPPED: u64 = 1 << 20;
/// The maximum number of existing keys named in the error for a missing key.
pub const BLACKBOARD_KEYS_SHOWN: usize = 20;
/// The maximum bytes of a blackboard's namespace: with a suffix it is the name of a tool.
pub const NAMESPACE_BYTES: usize = 32;
/// The longest time that a tool call waits for a blackboard or a task, and the default.
pub const SHARED_WAIT: Duration = Duration::from_secs(300);
/// The additional time of such a call to report that nothing came.
pub const SHARED_WAIT_GRACE: Duration = Duration::from_secs(5);
/// The maximum number of tasks on one board; none is ever removed.
pub const TASKS: usize = 1_024;
/// The maximum number of tasks in one listing for a model.
pub const TASKS_LISTED: usize = 100;
/// The maximum characters of a task's title, which is shown in lists.
pub const TASK_TITLE_CHARS: usize = 200;
/// The maximum bytes of a task's description.
pub const TASK_DESCRIPTION_BYTES: usize = 16 << 10;
/// The maximum number of dependencies of one task.
pub const TASK_DEPENDENCIES: usize = 64;
/// The maximum number of facts in the metadata of a task.
pub const TASK_METADATA_KEYS: usize = 32;
/// The maximum bytes of all metadata of a task as JSON.
pub const TASK_METADATA_BYTES: usize = 8 << 10;
/// The maximum nesting depth of a task's metadata: any document that contains it must stay below the parser's depth of 127.
pub const TASK_METADATA_DEPTH: usize = 64;
/// The time that a watched task may be without an assignee: long enough for an agent to start, and short enough not to wait
/// for one that never will.
pub const TASK_UNCLAIMED: Duration = Duration::from_secs(15);
/// The maximum bytes of the name of a note.
pub const NOTES_NAME_BYTES: usize = 64;
/// The maximum bytes of one note: a model that reads it sees all of it.
pub const NOTES_FILE_BYTES: usize = TOOL_RESULT_CHARS;
/// The maximum number of notes in one folder.
pub const NOTES_FILES: usize = 256;
/// The maximum characters of a note's first line in a list.
pub const NOTES_LINE_CHARS: usize = 80;
/// The maximum characters of an invalid name in an error message.
pub const NAME_SHOWN_CHARS: usize = 100;

// ---- buckets

/// The maximum bytes of a key in a bucket: the longest key of a plugin's store, each of whose bytes may be written as three,
/// and the names of its owner. A NATS server takes twice as many.
pub const BUCKET_KEY_BYTES: usize = 2_048;
/// The maximum bytes of an encoded name of an agent, plugin or session in such a key; a longer one is replaced by its
/// SHA-256.
pub const BUCKET_NAME_BYTES: usize = 100;
/// The maximum bytes of a value in a bucket: a full blackboard as JSON, with room for its form.
pub const BUCKET_VALUE_BYTES: usize = 12 << 20;
/// The maximum number of keys that one listing returns: twice those of the largest store.
pub const BUCKET_KEYS: usize = 131_072;
/// The maximum number of attempts at a change while other hosts change the same value. Each failed attempt is another host's
/// success.
pub const BUCKET_ATTEMPTS: usize = 256;
/// The maximum number of attempts to read a value that is replaced while it is read.
pub const BUCKET_READS: usize = 16;
/// The maximum number of large values of which a host remembers where their parts are, to remove them later.
pub const BUCKET_LARGE_KNOWN: usize = 1_024;
/// The maximum time that a check of a contract waits for a change to arrive on another host: a slow machine is no failure.
pub const CONTRACT_WAIT: Duration = Duration::from_secs(20);
/// The pause between two looks at a change that a check of a contract waits for.
pub const CONTRACT_PAUSE: Duration = Duration::from_millis(5);
