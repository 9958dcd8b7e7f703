//! The config file: agents, the models that they use, their plugins and MCP servers, and what those are granted.
//!
//! Unknown keys are refused with their position and the nearest known key. A key that only a later version knows is
//! reported as not supported yet. `${NAME}` in a provider's `api_key`, `base_url`, `proxy` and `headers` is replaced by an
//! environment variable. Credentials for plugins are named, each with its audience; the file never holds the value of one.
//!
//! A person's own config for all projects ([`UserConfig`]) is read first. A project's config adds to it, and replaces entries
//! of the same name; the config remembers which entries are the person's ([`UserEntries`]).

mod agent;
mod agent_package;
mod agent_package_origin;
mod agent_plugins;
mod agent_tools;
mod check;
mod cluster;
#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod config;
mod config_apis;
mod config_namespaces;
mod config_triggers;
mod context;
mod default_toolboxes;
mod description;
mod effective_setting;
mod egress;
mod explain;
mod fragments;
mod grants;
mod installed_agents;
mod json_schema;
mod located_yaml;
mod mask;
mod mcp;
mod openapi;
mod over_user_config;
mod ownership;
mod placed_agents;
mod plugin_limits;
mod programs;
mod provider;
mod recover;
mod remote_agent;
mod runner_config;
mod runs;
mod sessions;
mod setting_origin;
mod settle;
mod shareable_config;
mod signatures;
mod steps;
mod team;
mod telemetry;
#[cfg(test)]
mod tests;
mod theme;
mod toolbox;
mod triggers;
mod unknown_window;
mod user_config;
mod user_config_location;
mod user_entries;
mod values;
mod variables;

pub use agent::{AgentConfig, AgentOptions, DEFAULT_AGENT, DelegableConfig, RunnerSection};
pub use agent_package::AgentPackageConfig;
pub use agent_package_origin::AgentPackageOrigin;
pub use agent_plugins::{PluginRoles, PluginSection};
pub use agent_tools::AgentToolUse;
pub use cluster::{
    ClusterConfig, ClusterCredentialsConfig, ClusterEncryptionConfig, ClusterKeyConfig, ClusterLimitsConfig,
    ClusterNamespaceConfig,
};
pub use config::{Config, ConfigErrors, ProjectApprovals};
pub use context::ContextConfig;
pub use description::{AgentRuntimeInfo, ConfigRuntimeInfo, EffectiveConfig, PluginRuntimeInfo, StepOrder};
pub use egress::{AuthConfig, CredentialAuthConfig, CredentialConfig, HttpUse, requests};
pub use explain::{nearest, unknown};
pub use fragments::parse_yaml;
pub use grants::{ChangesUse, FolderUse, GrantConfig, PluginFolderUse, PluginUse, UnspecifiedGrants, params};
pub use installed_agents::InstalledAgents;
pub use json_schema::json_schema;
pub use located_yaml::{ListEntryLines, list_entry_lines};
pub use mcp::{LoginGrant, McpProtocol, McpServerConfig, OAuthConfig, check_url};
pub use openapi::{OpenApiConfig, OpenApiUse, ReadListing, document_text};
pub use ownership::is_of_this_person;
pub use plugin_limits::LimitsConfig;
pub use programs::{ANY_PROGRAM, GIT_PROGRAM, GitConfig, ProgramConfig};
pub use provider::{ProviderConfig, ProviderKind};
pub use remote_agent::RemoteAgentConfig;
pub use runner_config::RunnerConfig;
pub use runs::RunsConfig;
pub use sessions::SessionsConfig;
pub use setting_origin::{ConfigSources, OriginatedSetting, SettingOrigin};
pub use settle::{CONTEXT_THRESHOLD, default_effects};
pub use shareable_config::ShareableConfig;
pub use signatures::{PluginSignaturesConfig, SigningKeyConfig};
pub use steps::{HostMiddleware, OWN_MIDDLEWARE, StepUse};
pub use team::{
    HandoffChats, HandoffParams, HostCoordinator, LoopParams, MemberUse, RolesParams, TeamConfig, TeamStopCondition,
};
pub use telemetry::{EVERY_DESTINATION, OtlpConfig, TelemetryConfig, TelemetryProtocol};
pub use theme::ThemeChoice;
pub use toolbox::{
    DEFAULT_NAMESPACE, HostToolbox, HostToolboxUse, McpServerUse, ShippedToolbox, ShippedToolboxUse, ToolboxUse,
};
pub use triggers::{
    FileTriggerConfig, HmacEncoding, HmacHeaderConfig, MissedTimes, TriggerConfig, TriggerOverlap, WebhookConfig,
    WebhookSecretConfig, WebhookSignatureConfig,
};
pub use user_config::UserConfig;
pub use user_config_location::{home_folder, user_config_location};
pub use user_entries::{ConfigEntryKind, LeftOutToolbox, UserEntries};
pub(crate) use variables::variables;
