//! Runs that an API hosts: several at once, each in a session, with their events, questions and results.
//!
//! [`RunHost`] starts a [`RunRequest`] as a [`HostedRun`], by the steps of `shelly-host run`. It is the one place for
//! runs that a client starts over a protocol, whatever the protocol is.
//!
//! - `run_request.rs` says what a client asks for, and `run_host_error.rs` why it is refused.
//! - `run_events.rs` keeps the events of a run for readers that come late or again, the newest ones in memory and those
//!   before them in the file of `run_event_file.rs`. `run_line_reader.rs` reads both as JSON. `run_event_record.rs` is one
//!   event.
//! - `hosted_run.rs` is a run from its request to its end, and `run_work.rs` does its work.
//! - `output_budget.rs` bounds the replies of an agent together.
//! - `run_questions.rs` keeps the questions of all runs until they are answered, or are declined because nobody
//!   answers.

mod hosted_run;
mod output_budget;
mod run_event_file;
mod run_event_record;
mod run_events;
mod run_host;
mod run_host_error;
mod run_line_reader;
mod run_questions;
mod run_request;
mod run_work;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use hosted_run::{HostedRun, HostedRunOutcome, HostedRunState, RunSnapshot};
pub use run_event_record::{RunEventLine, RunEventRecord};
pub use run_events::{RunEventReader, RunEventStep};
pub use run_host::{RunHost, RunRoom, RunTotals};
pub use run_host_error::RunHostError;
pub use run_line_reader::{RunLineReader, RunLineStep};
pub use run_questions::{HostedQuestion, QuestionReply};
pub use run_request::{RunHostOptions, RunRequest, RunTarget};
