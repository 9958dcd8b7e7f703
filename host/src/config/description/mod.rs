//! The description of a config: the values that apply, which `config check` shows, and the facts that a person who did not
//! write the config consents to.
//!
//! Each mapping of the config is taken apart here once, for both. A key that reaches beyond the config is disclosed as a
//! fact; at one that is not, a comment says why it need not be.

mod agent_tools;
mod agents;
mod apis;
mod cluster;
mod config_description;
mod credentials;
mod effective_config;
#[cfg(test)]
mod effective_tests;
mod fixed_limits;
mod grants;
mod plugins;
mod programs;
mod providers;
mod remote_agents;
mod runtime_info;
mod section;
mod servers;
mod shared_settings;
mod teams;
mod telemetry;
mod toolboxes;
mod triggers;
#[cfg(test)]
mod trust_tests;
mod user_entries;
#[cfg(test)]
mod user_entries_tests;
mod wording;

pub use effective_config::EffectiveConfig;
pub use runtime_info::{AgentRuntimeInfo, ConfigRuntimeInfo, PluginRuntimeInfo, StepOrder};
