//! Limits of tasks: files attached to them, schemas of their answers, and batches of many tasks.

use std::time::Duration;

use super::{REPLY_BYTES, STDIN_BYTES};

// ---- one task

/// The maximum number of files attached to one task: more pages than a vendor takes in one request.
pub const TASK_ATTACHMENTS: usize = 100;
/// The maximum bytes of one attached text file: like standard input, it is sent whole.
pub const ATTACHED_TEXT_BYTES: u64 = STDIN_BYTES as u64;
/// The maximum bytes of one attached image or PDF: the largest request that vendors take.
pub const ATTACHED_MEDIA_BYTES: u64 = 32 << 20;
/// The maximum bytes of all files attached to one task: twice the largest request that vendors take.
pub const TASK_ATTACHED_BYTES: u64 = 64 << 20;
/// The maximum bytes of the JSON Schema of an answer, which stands in the task: about 16,000 tokens.
pub const ANSWER_SCHEMA_BYTES: usize = 64 << 10;
/// The number of times that an agent may correct an answer that does not follow its schema. A model that fails three times
/// mostly fails a fourth time.
pub const ANSWER_CORRECTIONS: u32 = 2;

// ---- batches of tasks

/// The maximum number of tasks in one file: their ids take about 50 bytes of memory each. Those that are recorded must also fit
/// into [`SESSIONS`](super::SESSIONS).
pub const TASKS_IN_FILE: usize = 1_000_000;
/// The maximum bytes of one line of a tasks file: the longest task with every character escaped, and its schema.
pub const TASK_LINE_BYTES: usize = 8 << 20;
/// The maximum characters of a task's id.
pub const TASK_ID_CHARS: usize = 200;
/// The maximum number of different pairs of agent and model in one tasks file. Each is built once before the first task
/// begins.
pub const TASK_RUNNERS: usize = 1_000;
/// The number of compiled schemas that a batch keeps: tasks mostly share a few.
pub const ANSWER_SCHEMAS_KEPT: usize = 64;
/// The default number of tasks that run at once: eight replies of ten seconds are 48 requests a minute, which the lowest tiers
/// of vendors take.
pub const TASK_JOBS: usize = 8;
/// The largest number of tasks that can run at once: each holds a conversation in memory, two open files and a thread for its
/// session.
pub const TASK_JOBS_CEILING: usize = 1_000;
/// The open files of one task at work: its journal, its lock, and connections.
pub const TASK_FILES: u64 = 4;
/// The open files of the program besides those of tasks: plugins, servers, the files of the batch.
pub const TASK_FILES_BESIDE: u64 = 256;
/// The maximum bytes of the lines and attached files of all tasks at work together; one further task is read, and waits. A task
/// that alone takes more is impossible.
pub const TASKS_HELD_BYTES: u64 = 256 << 20;
/// The number of results that wait for the disk before tasks wait for it.
pub const TASK_RESULTS_WAITING: usize = 256;
/// The maximum bytes of one line of a results file: the longest answer with every character escaped, twice.
pub const TASK_RESULT_BYTES: usize = 12 * REPLY_BYTES;
/// The maximum bytes of the file in which the name of a batch is stored: a path and a few digits.
pub const TASK_BATCH_BYTES: u64 = 64 << 10;
/// The maximum characters of a task's id that stands in the name of its session as it is; a longer one is replaced by a digest.
pub const TASK_SESSION_ID_CHARS: usize = 24;
/// The maximum number of mistakes in a tasks file that are reported at once: further ones mostly have the same cause.
pub const TASK_MISTAKES: usize = 10;
/// The maximum number of different failures of a batch that are counted apart: each takes up to a kilobyte of memory.
pub const TASK_FAILURES_COUNTED: usize = 100;
/// The maximum number of different failures that are shown at the end of a batch: they fit on a screen.
pub const TASK_FAILURES_SHOWN: usize = 5;
/// The maximum number of different warnings of a batch that are shown; ten thousand tasks mostly have the same few.
pub const TASK_WARNINGS: usize = 100;
/// The time between two states of the progress bar on a terminal.
pub const TASK_PROGRESS_REDRAW: Duration = Duration::from_millis(200);
/// The time between two lines of progress where there is no terminal.
pub const TASK_PROGRESS_LINE: Duration = Duration::from_secs(10);
/// The characters of the bar in the progress bar.
pub const TASK_PROGRESS_BAR: usize = 20;
/// The width of a terminal that does not say how wide it is.
pub const TERMINAL_COLUMNS: usize = 80;
