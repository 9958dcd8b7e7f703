//! Serves an app to MCP clients: the tools of an agent, agents as tools, skills as prompts, and the attachments of sessions.
//! They are rebuilt when the folders of plugins or skills change.

mod app_server;
mod app_server_snapshot;
mod attachment_archive;
mod elicitors;
mod folder_watcher;
mod serve_options;
mod served_agent_tool;

pub use app_server::{AppReloader, AppServer};
pub use serve_options::ServeOptions;
