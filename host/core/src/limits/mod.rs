//! Every limit of the host, with its unit and its reason.
//!
//! Input from guests, models, servers and files is untrusted: one of these limits bounds it on entry.

mod agent_loop;
mod author;
mod budget;
mod change;
mod chat;
mod command_line;
mod component;
mod config;
mod conformance;
mod delegation;
mod egress;
mod kv;
mod mcp;
mod net;
mod packages;
mod plugin;
mod plugin_output;
mod process;
mod project;
mod provider;
mod question;
mod session;
mod state;
mod task;
mod terminal;
mod trial;
mod trust;

pub use agent_loop::*;
pub use author::*;
pub use budget::*;
pub use change::*;
pub use chat::*;
pub use command_line::*;
pub use component::*;
pub use config::*;
pub use conformance::*;
pub use delegation::*;
pub use egress::*;
pub use kv::*;
pub use mcp::*;
pub use net::*;
pub use packages::*;
pub use plugin::*;
pub use plugin_output::*;
pub use process::*;
pub use project::*;
pub use provider::*;
pub use question::*;
pub use session::*;
pub use state::*;
pub use task::*;
pub use terminal::*;
pub use trial::*;
pub use trust::*;
