//! Serves an app to clients of several protocols.
//!
//! - `app_server.rs` serves MCP clients: the tools of an agent, agents as tools, skills as prompts, and the attachments of
//!   sessions. They are rebuilt when the folders of plugins or skills change.
//! - [`hosted_runs`] hosts runs that clients start, for every other protocol.
//! - [`http_api`] is the HTTP API to them, with OpenAI's API and AG-UI.
//! - [`triggers`] starts such runs by itself.
//! - [`a2a`] is the endpoint for agents of other hosts, which is a part of the HTTP API.

pub mod a2a;
mod app_server;
mod app_server_snapshot;
mod attachment_archive;
mod elicitors;
mod folder_watcher;
pub mod hosted_runs;
pub mod http_api;
mod serve_options;
mod served_agent_tool;
pub mod triggers;

pub use app_server::{AppReloader, AppServer};
pub use serve_options::ServeOptions;
