//! The library behind `shelly-host`: LLM agents whose tools, effects, middleware and models are sandboxed WebAssembly
//! components.
//!
//! # Modules
//!
//! In reading order, the lowest layer first:
//!
//! | module | contents |
//! |---|---|
//! | [`error`], [`limits`], [`event`] | error types, every bound, the events of a run |
//! | [`chat`] | messages and the log that keeps them valid |
//! | [`capability`] | plugin permissions and budgets: plain data and its algebra |
//! | [`change`] | file changes that tools propose: checked, shown, applied all or none, undone |
//! | [`approval`] | the broker for every question that a person may have to answer |
//! | [`trust`] | the approvals that a person has given to a project, which may be someone else's |
//! | [`model`], [`tool`] | the two traits on which an agent is built |
//! | [`bucket`] | values with revisions that several hosts share |
//! | [`kv`] | key-value stores for plugins, in memory, in a file or in a bucket |
//! | [`process`] | programs that the host runs outside any sandbox |
//! | [`builtin`] | tools that a sandboxed plugin cannot implement, and wrappers around tools that ask a person |
//! | [`net`], [`provider`] | network access, and the model providers that use it |
//! | [`mcp`] | the client for tools and prompts of MCP servers, and the host's own MCP server |
//! | [`a2a`] | the Agent2Agent protocol: its messages and bindings |
//! | [`openapi`] | OpenAPI documents as tools, one for each operation |
//! | [`state`] | state that agents share: blackboards, tasks, notes, and the tools for them |
//! | [`agent`] | the agent loop, effects and middleware; delegation between agents |
//! | [`team`] | agents that share one conversation, and the coordinators that choose who works next |
//! | [`session`] | the journal of a session and its storage, from which it resumes after a crash |
//! | [`cluster`] | sessions, shared state and a queue of runs on a NATS server |
//! | [`trace`] | what the runs of a session did, read back for people and other programs |
//! | [`telemetry`] | traces, metrics and log records of runs, exported with OpenTelemetry |
//! | [`plugin`] | the sandbox: components as tools, effects, middleware, models and coordinators |
//! | [`packages`] | plugins as packages: their sources, the store that holds them, the lock file that names them |
//! | [`conformance`] | plugins that attack the host, and the result that each must have |
//! | [`skill`], [`project`] | procedures in folders; a project's `.shelly` folder, and its context in the system prompt |
//! | [`config`], [`app`] | from a config file to a runnable agent, and what else can be done with it |
//! | [`trigger`] | when runs start by themselves, and with which task |
//! | [`task`] | a task with its attached files and the schema of its answer |
//! | [`serve`] | agents served to clients: over MCP, A2A, and the HTTP API |
//! | [`cluster_runs`] | runs in the queue of a cluster: submitted, done by workers, watched from elsewhere |
//! | [`acp`] | conversations with agents served to editors |
//! | [`trial`] | single calls of a plugin outside of any agent |
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
//! Most invariants state what never happens; tests enforce them.
//!
//! 1. Only [`plugin`] names wasmtime or WIT types, only [`net`] the HTTP client, only [`mcp`] the MCP library, only [`cli`]
//!    the terminal. The agent cannot tell a plugin's tool from one written in Rust.
//! 2. Outside [`cli`] no code prints, exits, or reads the environment, the home directory or the current directory.
//! 3. A transcript is always valid: every tool call gets exactly one result before anything else is appended, however the
//!    run ends; edits work on whole groups; notes wait until after the results.
//! 4. [`tool::ToolBox::dispatch`] never fails, and the list that a model is shown is the table that is dispatched from.
//! 5. Control flow is a value; `?` always means failure.
//! 6. Usage travels with each reply; no lock is held across a request to a model.
//! 7. Every loop, queue, buffer and fan-out has a bound, and each bound is in [`limits`].
//! 8. No task outlives its run: dropping the run cancels it.
//! 9. A guest's store holds what that plugin was granted for that agent and nothing else.
//! 10. Only a provider, and a component whose functions return handles, keep their store while a model works, in capped
//!     pools of their own. Every other store is used for one call and dropped; one that trapped or ran into a limit is never
//!     used again.
//! 11. A plugin never sees a credential.
//! 12. Every declared feature is wired to the code that implements it.
//! 13. Every prefix of a session's journal is a state from which its runs can resume. A call that cannot be repeated begins
//!     only when everything before it is on disk.
//! 14. No config and no permission found in a project is acted on before a person has approved it, and no session that this
//!     person did not create resumes before that.

#[doc(inline)]
pub use shelly_a2a as a2a;
#[doc(inline)]
pub use shelly_cluster as cluster;
#[doc(inline)]
pub use shelly_core::{
    agent, approval, bucket, capability, change, chat, digest, error, event, kv, limits, model, process, skill, state,
    team, tool, trust,
};
#[doc(inline)]
pub use shelly_mcp as mcp;
#[doc(inline)]
pub use shelly_net as net;
pub use shelly_openapi as openapi;
#[doc(inline)]
pub use shelly_packages as packages;
#[doc(inline)]
pub use shelly_plugin_host as plugin;
#[doc(inline)]
pub use shelly_provider as provider;
#[doc(inline)]
pub use shelly_session as session;
#[doc(inline)]
pub use shelly_telemetry as telemetry;
#[doc(inline)]
pub use shelly_trace as trace;

use shelly_core::{files, hex, json_values, line_reader};

pub mod builtin;
pub mod conformance;
pub mod project;

pub mod acp;
pub mod app;
mod assemble;
pub mod cluster_runs;
pub mod config;
pub mod serve;
pub mod task;
pub mod trial;
pub mod trigger;

#[doc(hidden)]
pub mod fuzz;

pub mod cli;

// The program of the page on embedding is a test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
pub struct EmbeddingPage;
