//! The subcommands `submit`, `worker`, `attach` and `cluster`: runs in the queue of the cluster that the config names.
//!
//! - `cluster_access.rs` finds the cluster and whether the person has consented to it.
//! - `submit.rs` puts runs into the queue, and `run_end.rs` prints how they end.
//! - `worker.rs` works on runs, with what `worker_environment.rs` gives it of this host.
//! - `attach.rs` shows a run and steers it; `event_line.rs` formats its events, and `remote_question.rs` its questions.
//! - `cluster_command.rs` lists workers and runs, and `cluster_upkeep.rs` removes old ones and makes keys. Both say which
//!   runs this host cannot read, in the words of `unreadable_entries.rs`.

mod attach;
mod cluster_access;
mod cluster_command;
mod cluster_upkeep;
mod event_line;
mod remote_question;
mod run_end;
mod submit;
mod unreadable_entries;
mod worker;
mod worker_environment;

pub use attach::AttachArgs;
pub use cluster_command::ClusterCommand;
pub use submit::SubmitArgs;
pub use worker::WorkerArgs;
