//! The Agent2Agent protocol (A2A), version 1.0: its messages, the bindings that carry them, and agents of other hosts in the
//! place of models.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | agent cards, tasks, messages, and the parameters and results of operations |
//! | `operation` | the operations, by their names in JSON-RPC and their paths over HTTP |
//! | `protocol_error` | the errors, as each binding writes them |
//! | `protocol_version` | the version that is spoken |
//! | `rpc` | requests and answers of JSON-RPC |
//! | `agent_path` | the names of agents in paths |
//! | `budget` | the budget of a task, in its metadata |
//! | `remote_card`, `remote_client`, `remote_task` | an agent of another host: its card, its server, a task there |
//! | `remote_agent` | that agent in the place of a model |
//!
//! Everything that another host sends is untrusted: it is bounded, and only the origin of its card is reached.
//!
//! # What it must not name
//!
//! The crate names no HTTP client: its requests go through [`shelly_net::egress`]. It knows no config. It serves nothing:
//! the server is in `shelly-host`, which knows the runs.

mod agent_path;
mod budget;
mod operation;
mod protocol_error;
mod protocol_version;
mod remote_agent;
mod remote_card;
mod remote_client;
mod remote_task;
mod rpc;
pub mod wire;

pub use agent_path::{agent_of_segment, agent_segment};
pub use budget::{BUDGET_EXTENSION, budget_metadata, budget_of};
pub use operation::A2aOperation;
pub use protocol_error::{A2aError, A2aErrorKind};
pub use protocol_version::{PROTOCOL_VERSION, VERSION_HEADER, check_version, is_spoken};
pub use remote_agent::{RemoteAgentModel, RemoteAgentOptions};
pub use remote_card::{CardApproval, RemoteCard};
pub use rpc::{RpcRequest, rpc_error, rpc_result};

/// The path of the card of a server's agent.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";

/// The media type of requests and answers over HTTP+JSON.
pub const MEDIA_TYPE: &str = "application/a2a+json";

#[cfg(test)]
mod remote_tests;
#[cfg(test)]
mod tests;
