//! The server of the Agent2Agent protocol: each agent has an address below `/a2a`, at which clients of other hosts give it
//! tasks. A task is a run of the [`RunHost`](super::hosted_runs::RunHost), and its context is the session of that run.
//!
//! - `a2a_service.rs` reads requests and writes answers, over JSON-RPC and over HTTP+JSON.
//! - `agent_cards.rs` describes the agents.
//! - `task_operations.rs` does what a request asks for, with the tasks in `task_table.rs`.
//! - `incoming_message.rs` makes a task, an answer or a word to an agent of a message.
//! - `served_task.rs` is a task with its messages; `task_view.rs` is the task as clients see it.
//! - `task_updates.rs` streams the updates of a task; `push_sender.rs` sends them to the addresses in `push_targets.rs`.

mod a2a_service;
mod agent_cards;
mod incoming_message;
mod push_sender;
mod push_targets;
mod served_task;
mod task_operations;
mod task_table;
mod task_updates;
mod task_view;
#[cfg(test)]
mod tests;

pub use a2a_service::{A2aOptions, A2aService};
pub use agent_cards::A2A_PATH;
