//! The subcommand `chat`: a conversation with an agent or team at a terminal.
//!
//! The person's side knows no terminal and no agent, so it is tested with keys alone:
//!
//! - `chat_key.rs` has the keys; `chat_input.rs` is the message that is typed, with `input_history.rs` and `completion.rs`;
//!   `chat_state.rs` adds what waits and what is asked.
//! - `slash_command.rs`, `project_commands.rs`, `prompt_arguments.rs` and `file_mentions.rs` say what a message means.
//! - `chat_rows.rs` and `chat_screen.rs` show all of it, with the open tasks of `board_panel.rs` and in the colours of
//!   `chat_theme.rs`; `call_log.rs` has the tool calls that a person may want to see in full, and `notifications.rs` says when the
//!   person's attention is called.
//!
//! Around it:
//!
//! - `chat_args.rs` prepares a chat, `no_model.rs` says how to get a model, `raw_terminal.rs` reads keys, and
//!   `external_editor.rs` has the person's own editor.
//! - `chat_loop.rs` handles one thing after another, and `step_progress.rs` what a step reports; `command_execution.rs` has its
//!   commands, `session_commands.rs` those that act on sessions, `view_commands.rs` those that change what is shown,
//!   `command_arguments.rs` the words that Tab completes after them, and `chat_questions.rs` its questions. `rewind.rs`,
//!   `compaction.rs` and `session_state_text.rs` do their work.
//! - `plugin_development.rs` builds plugins again whenever their projects change, `build_error_excerpt.rs` says why that failed,
//!   `plugin_adoption.rs` tries what was built, and `rebuilt_plugins.rs` has the chat use it.
//! - `server_prompts.rs` has the prompts of MCP servers, and `fetched_prompt.rs` the text of one.
//! - `chat_session.rs` is the session of the chat; `running_step.rs` is the step that the person waits for: `message_run.rs`,
//!   `shell_command.rs`, `session_watch.rs` while another program works in the session, or a look at another agent, which
//!   `runner_facts.rs` describes.

mod board_panel;
mod build_error_excerpt;
mod call_log;
mod chat_args;
mod chat_input;
mod chat_key;
mod chat_loop;
mod chat_questions;
mod chat_rows;
mod chat_screen;
mod chat_session;
mod chat_state;
mod chat_theme;
mod command_arguments;
mod command_execution;
mod compaction;
mod completion;
mod external_editor;
mod fetched_prompt;
mod file_mentions;
mod input_history;
mod message_run;
mod no_model;
mod notifications;
mod plugin_adoption;
mod plugin_development;
mod project_commands;
mod prompt_arguments;
mod raw_terminal;
mod rebuilt_plugins;
mod rewind;
mod runner_facts;
mod running_step;
mod server_prompts;
mod session_commands;
mod session_state_text;
mod session_watch;
mod shell_command;
mod slash_command;
mod step_progress;
#[cfg(test)]
mod tests;
mod view_commands;

pub use chat_args::{ChatArgs, open_without_arguments};
pub use fetched_prompt::FetchedPrompt;
pub use project_commands::ProjectCommands;
pub use raw_terminal::restore_and_leave;
pub use server_prompts::ServerPrompts;
pub use slash_command::PromptCommand;
