//! The library behind `shelly-host`: LLM agents whose tools, effects, middleware and models are sandboxed WebAssembly
//! components.
//!
//! # The map
//!
//! In reading order, what is below first:
//!
//! | module | what it is |
//! |---|---|
//! | [`error`], [`limits`], [`event`] | how failures are told, every bound, what happens in a run |
//! | [`chat`] | messages and the log that keeps them valid |
//! | [`capability`] | what a plugin may do, what a run may spend: plain data and its algebra |
//! | [`change`] | changes of files that tools propose: checked, shown, made all or none, undone |
//! | [`approval`] | who may say yes: every question that a person may have to answer |
//! | [`trust`] | what a person has said yes to in a project that may be somebody else's |
//! | [`model`], [`tool`] | the two traits that an agent stands on |
//! | [`kv`] | bytes by key, for plugins: in memory or in a file |
//! | [`process`] | programs that the host runs, outside of any sandbox |
//! | [`builtin`] | tools that a guest cannot be |
//! | [`net`], [`provider`] | the way to the network, and models behind it |
//! | [`mcp`] | tools of servers that speak the Model Context Protocol, and what is here for its clients |
//! | [`state`] | what agents share: blackboards, tasks, notes, and the tools for them |
//! | [`agent`] | the loop, effects and middleware; agents that delegate to each other |
//! | [`team`] | agents on one conversation, and what decides who works next |
//! | [`session`] | what happened, on disk, so that it goes on after a crash |
//! | [`plugin`] | the sandbox: components as tools, effects, middleware, models and coordinators |
//! | [`conformance`] | plugins that attack the host, and what each must come to |
//! | [`skill`], [`project`] | procedures in folders; a project's folder `.shelly`, and what agents are told of it |
//! | [`config`], [`app`] | from a file to an agent that can run |
//! | [`cli`] | the command line |
//!
//! # An agent without a config
//!
//! ```
//! use std::sync::Arc;
//! use shelly_host::{agent::Agent, chat::{Chat, Message}, event::RunCx, model::ScriptedCompleter};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Arc::new(ScriptedCompleter::new([ScriptedCompleter::text("Four.")]));
//! let agent = Agent::new("ada", "Be brief.", model);
//! let answer = agent.run(&RunCx::new("ada"), &Chat::new(), vec![Message::user("What is two and two?")]).await?;
//! assert_eq!(answer.message.text_content(), "Four.");
//! # Ok(()) }
//! ```
//!
//! # Invariants
//!
//! Each says what is absent; the tests hold them.
//!
//! 1. Only [`plugin`] names wasmtime or WIT types, only [`net`] the HTTP client, only [`mcp`] its protocol's library, only
//!    [`cli`] the terminal. The agent cannot tell a plugin's tool from one written in Rust.
//! 2. Outside [`cli`] nothing prints, exits, or reads the environment, the home or the current directory.
//! 3. A transcript is always valid: every tool call gets exactly one result before anything else is appended, whatever
//!    stops the run; edits work on whole groups; notes wait until after the results.
//! 4. [`tool::ToolBox::dispatch`] never fails, and the list that a model is shown is the table that is dispatched from.
//! 5. Control flow is a value; `?` always means failure.
//! 6. Usage travels with each reply; no lock is held across a request to a model.
//! 7. No loop, queue, buffer or fan-out is without a bound, and each bound is in [`limits`].
//! 8. No task outlives its run: dropping the run cancels it.
//! 9. A guest's store holds what that plugin was granted for that agent and nothing else.
//! 10. Only a provider, and a component whose functions give handles, keep their store while a model works, in capped pools of
//!     their own. Any other is used for one call and dropped; one that trapped or ran into a limit is never used again.
//! 11. A plugin never sees a credential.
//! 12. Nothing that is declared is unwired.
//! 13. Any beginning of what a session has written down is a state from which its runs go on. A call that cannot be
//!     repeated begins only when all that came before it is on the disk.
//! 14. Nothing that a config or permissions found in a project name is acted on before a person has said yes to it, and no
//!     session that this person has not made goes on before that.

mod encodings;
pub mod error;
mod files;
mod json_schema;
pub mod kv;
pub mod limits;
pub mod process;

pub mod chat;
pub mod event;

pub mod approval;
pub mod capability;
pub mod change;
pub mod model;
pub mod tool;
pub mod trust;

pub mod builtin;
pub mod project;
pub mod skill;
pub mod state;

pub mod mcp;
pub mod net;
pub mod provider;

pub mod agent;
pub mod conformance;
pub mod plugin;
pub mod session;
pub mod team;

pub mod app;
pub mod config;

#[doc(hidden)]
pub mod fuzz;

pub mod cli;

// The program of the page on embedding is a test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
pub struct EmbeddingPage;
