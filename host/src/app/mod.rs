//! Uses of an [`App`] besides running its agents: checks of a config, probes of models, estimates of prompts, the person's consent to what a project
//! names, and logins at MCP servers. The parts of `assemble` that callers need are here under one path.

mod check;
mod local_servers;
mod mcp_login;
mod probe;
mod project_trust;
mod prompt_estimate;

pub use crate::{
    assemble::{
        App, BoardSharing, ClusterKeyFile, ConnectedMcpServer, EntryRunner, Environment, GRANT_OPTION, LONE_RUN,
        ListedSkill, LonePlugin, LonePluginFailure, LonePluginHost, NO_MODEL, PendingWork, PreparedRun, ReadApi,
        Recording, RunInterrupter, RunSession, SessionCloser, SkillListing, TelemetryFlush, changed, cluster_of,
        explain, find_program, how_to_mend, locked_plugins, namespace_limits, sessions, sessions_of, skill_names,
    },
    config::DEFAULT_AGENT,
    provider::{VendorAddress, key_variables, key_variables_in_words, local_servers_in_words, vendor_keys},
};
pub use check::{AppCheck, AppCheckFailure};
pub use local_servers::{LocalServerStatus, local_servers};
pub use mcp_login::{mcp_login, mcp_logout, mcp_server_at};
pub use probe::ModelProbe;
pub use project_trust::ProjectTrustStatus;
pub use prompt_estimate::PromptEstimate;
