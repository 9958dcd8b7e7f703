//! The ways in which a run ends.

mod journal_write_error;
mod run_answer;
mod run_error;
mod window_exceeded;

pub use journal_write_error::JournalWriteError;
pub(crate) use run_answer::HANDED_OVER;
pub use run_answer::{RunAnswer, RunEnding};
pub use run_error::RunError;
pub use window_exceeded::WindowExceeded;
pub(crate) use window_exceeded::unread;
