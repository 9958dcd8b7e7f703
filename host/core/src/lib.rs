//! The core of `shelly-host`: LLM agents, their conversations and their teams, without a sandbox, an HTTP client or a
//! database.
//!
//! # Modules
//!
//! In reading order, the lowest layer first:
//!
//! | module | contents |
//! |---|---|
//! | [`error`], [`limits`], [`event`] | error types, every bound, the events of a run |
//! | [`chat`] | messages and the log that keeps them valid |
//! | [`files`], [`digest`], [`hex`] | files read and replaced safely; SHA-256 digests; hexadecimal digits |
//! | [`encodings`], [`json_schema`] | forms in which a secret may appear; schemas of tools |
//! | [`line_reader`], [`json_values`] | bounded lines, and the size of JSON, of a peer that may send anything |
//! | [`capability`] | plugin permissions and budgets: plain data and its algebra |
//! | [`trust`] | the approvals that a person has given to a project, which may be someone else's |
//! | [`change`] | file changes that tools propose: checked, shown, applied all or none, undone |
//! | [`approval`] | the broker for every question that a person may have to answer |
//! | [`model`], [`tool`] | the two traits on which an agent is built |
//! | [`bucket`] | values with revisions that several hosts share |
//! | [`kv`] | key-value stores, in memory, in a file or in a bucket |
//! | [`process`] | programs that the host runs outside any sandbox |
//! | [`state`], [`skill`] | state that agents share; procedures in folders |
//! | [`agent`] | the agent loop, effects and middleware; delegation between agents |
//! | [`team`] | agents that share one conversation, and the coordinators that choose who works next |
//!
//! # An agent
//!
//! ```
//! use std::sync::Arc;
//! use shelly_core::{agent::Agent, chat::{Chat, Message}, event::RunCx, model::ScriptedCompleter};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Arc::new(ScriptedCompleter::new([ScriptedCompleter::text("Four.")]));
//! let agent = Agent::new("ada", "Be brief.", model);
//! let answer = agent.run(&RunCx::new("ada"), &Chat::new(), vec![Message::user("What is two and two?")]).await?;
//! assert_eq!(answer.message.text_content(), "Four.");
//! # Ok(()) }
//! ```

pub mod bucket;
pub mod digest;
pub mod encodings;
pub mod error;
pub mod files;
pub mod hex;
pub mod json_schema;
pub mod json_values;
pub mod kv;
pub mod limits;
pub mod line_reader;
pub mod process;

pub mod chat;
pub mod event;

pub mod approval;
pub mod capability;
pub mod change;
pub mod model;
pub mod tool;
pub mod trust;

pub mod skill;
pub mod state;

pub mod agent;
pub mod team;
