//! Builds agents and teams that can run from a config and plugin directories. It is the composition root: no other module
//! knows all parts.
//!
//! - `app.rs` holds everything that agents are built from; `project_folder.rs` reads the project's folder, and
//!   `environment.rs`, `allowed_programs.rs` and `plugin_limits.rs` turn parts of the config into what plugins and programs get.
//! - `models.rs` resolves models, and `http_models.rs` builds those behind HTTP APIs; `model_cache.rs` shares them within a run,
//!   `model_pool.rs` between the runs of an app.
//! - `credentials.rs` looks up the credentials that plugins are granted; `plugin_grants.rs` computes grants and ceilings, and
//!   `plugins.rs` selects each plugin of an agent, whose tools `plugin_tools.rs` makes.
//! - `mcp/` connects agents to MCP servers, and `apis/` to APIs that OpenAPI documents describe; `approved_tools.rs` holds what a
//!   person has approved of both. `program_toolbox.rs` provides programs to run, and `run_resources.rs` holds the
//!   resources that the agents of a run share.
//!   `locked_plugins.rs` reads which plugins are installed, `lone_plugin.rs` loads a plugin outside of any agent, and
//!   `rebuilt_plugin.rs` replaces one that was built again, and in the middle of a run the tools of it (`rebuilt_tools.rs`).
//! - `agent_assembly.rs` puts the parts of an agent into its blueprint (`agent_blueprint.rs`), `default_agent.rs` makes the
//!   agent of a config without agents, and `runner_factory.rs` makes the blueprints of teams (`runner_blueprint.rs`).
//! - `run_session.rs` records runs as sessions, which `session_closer.rs` closes, and `prepared_run.rs` is where all of this comes together.
//!   `cluster_sessions.rs` makes the connection to the cluster of the config, whose keys `cluster_key_files.rs` looks at.
//!   `pending_work.rs` is what is left to be done in a session, and `failure_hints.rs` explains why a run has failed.
//! - `telemetry.rs` attaches what takes part in the events of a run: its session, and the export of telemetry.

mod agent_assembly;
mod agent_blueprint;
mod allowed_programs;
mod apis;
mod app;
mod app_telemetry;
mod approved_tools;
mod cluster_key_files;
mod cluster_sessions;
mod credentials;
mod default_agent;
mod entry_runner;
mod environment;
mod failure_hints;
mod http_models;
mod locked_plugins;
mod lone_plugin;
mod mcp;
mod model_cache;
mod model_names;
mod model_pool;
mod models;
mod pending_work;
mod placed_agents;
mod plugin_grants;
mod plugin_limits;
mod plugin_tools;
mod plugins;
mod prepared_run;
mod program_toolbox;
mod project_folder;
mod rebuilt_plugin;
mod rebuilt_tools;
mod remote_agents;
mod run_resources;
mod run_session;
mod runner_blueprint;
mod runner_factory;
mod session_closer;
mod skill_listing;
mod startup_notices;
mod telemetry;
mod tool_conflicts;

pub(crate) use agent_assembly::no_price;
pub use allowed_programs::find_program;
pub use apis::ReadApi;
pub use app::{App, BoardSharing};
pub use cluster_key_files::ClusterKeyFile;
pub use cluster_sessions::{cluster_of, namespace_limits};
pub use entry_runner::EntryRunner;
pub use environment::Environment;
pub use failure_hints::{explain, how_to_mend};
pub use locked_plugins::locked_plugins;
pub use lone_plugin::{GRANT_OPTION, LONE_RUN, LonePlugin, LonePluginFailure, LonePluginHost};
pub use mcp::ConnectedMcpServer;
pub(crate) use model_cache::{ModelCache, ResolvedModel};
pub(crate) use model_names::model_name;
pub use models::NO_MODEL;
pub use pending_work::PendingWork;
pub(crate) use plugin_grants::own_ceiling;
pub(crate) use plugin_limits::as_size;
pub(crate) use plugins::{check_only, only_of};
pub use prepared_run::PreparedRun;
pub(crate) use project_folder::domain_of;
pub use project_folder::skill_names;
pub(crate) use remote_agents::remote_model;
pub(crate) use run_resources::RunResources;
pub use run_session::{Recording, RunSession, changed, sessions, sessions_of};
pub use session_closer::{RunInterrupter, SessionCloser};
pub use skill_listing::{ListedSkill, SkillListing};
pub(crate) use startup_notices::StartupNotices;
pub use telemetry::TelemetryFlush;
pub(crate) use tool_conflicts::{add_plugin_tools, extend};
