//! Serves editors over the Agent Client Protocol, version 1: each conversation of an editor is a session, and each prompt
//! a run.
//!
//! - `rpc.rs` reads messages, and `editor_connection.rs` sends everything to the editor. `protocol.rs` has the parts of the
//!   protocol that are read, `session_update.rs` those that are sent.
//! - `options.rs` says what the caller provides, `server.rs` answers requests, `session_opening.rs` those for
//!   conversations, and `session_list.rs` lists sessions. `open_requests.rs` has the requests that are not answered yet.
//!   `client_servers.rs` chooses the MCP servers of the editor that are used.
//! - `conversation.rs` is a conversation, whose prompts `conversation_worker.rs` answers; both share
//!   `conversation_controls.rs`. `prompt_content.rs` turns a prompt into a task, and `history.rs` shows a conversation
//!   again.
//! - `update_stream.rs` sends what a run does, as `run_updates.rs` says it: words in `speaker_text.rs`, calls with
//!   `tool_display.rs`, `call_result.rs` and `diff_content.rs`, agents that work for others in `sub_run_steps.rs`.
//! - `editor_files.rs` reads and writes files as the editor has them.
//! - `questions.rs` puts questions to the person, about the calls in `calls_in_progress.rs`.

mod call_result;
mod calls_in_progress;
mod client_servers;
mod conversation;
mod conversation_controls;
mod conversation_worker;
mod diff_content;
mod editor_connection;
mod editor_files;
mod history;
mod open_requests;
mod options;
mod prompt_content;
mod protocol;
mod questions;
mod rpc;
mod run_updates;
mod server;
mod session_list;
mod session_opening;
mod session_update;
mod speaker_text;
mod sub_run_steps;
mod tool_display;
mod update_stream;

pub use options::{
    AcpOptions, CommandSource, EditorCommand, OpenedProject, ProjectOpener, ProjectRequest, SessionFinder,
};
pub use server::AcpServer;
