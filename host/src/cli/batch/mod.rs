//! The subcommand `batch`: many tasks, each a run of its own, in one process.
//!
//! - `bounded_lines.rs` reads files of lines piece by piece; `task_file.rs` reads tasks with it, `task_line.rs` one of them.
//!   `file_tasks.rs` reads them for another command.
//! - `task_survey.rs` checks all tasks before the first one runs, and keeps their ids in `task_index.rs`.
//! - `result_file.rs` reads the results of earlier starts and appends new ones; `task_result.rs` is one of them.
//! - `batch_name.rs` names the sessions, and `session_room.rs` checks that there is room for them; `vendor_batches.rs`
//!   turns on the batches of vendors; `open_files.rs` makes room for many open files; `dry_run.rs` estimates.
//! - `task_queue.rs` hands out the tasks that are to be run, as memory allows; `task_runner.rs` runs one task and
//!   `batch_run.rs` all of them; `batch_progress.rs` shows how far they are,
//!   `batch_failures.rs` counts their failures, and `batch_costs.rs` adds up what they cost.

mod batch_args;
mod batch_costs;
mod batch_failures;
mod batch_name;
mod batch_progress;
mod batch_run;
mod bounded_lines;
mod dry_run;
mod file_tasks;
mod open_files;
mod result_file;
mod schema_cache;
mod session_room;
mod task_file;
mod task_index;
mod task_line;
mod task_queue;
mod task_result;
mod task_runner;
mod task_survey;
mod vendor_batches;

pub use batch_args::BatchArgs;
pub use file_tasks::{FileTask, FileTasks};
