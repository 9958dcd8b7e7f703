//! The config file: what agents there are, which models they use, which plugins they have and what those may do.
//!
//! Unknown keys are refused with their place and the nearest known key; a key that a later version knows is refused as
//! such. `${NAME}` in a provider's `api_key`, `base_url`, `proxy` and `headers` is replaced by a variable of the environment.
//! Credentials for plugins are named, each with its audience: no value of one stands in the file.

mod agent_tools;
mod check;
mod effective;
mod effective_setting;
mod egress;
mod explain;
mod mask;
mod mcp;
mod plugin_limits;
mod programs;
mod provider;
mod recover;
mod runner_config;
mod runs;
mod schema;
mod steps;
mod team;
#[cfg(test)]
mod tests;
mod toolbox;
mod trust_facts;

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use recover::ParsedConfig;
use serde::Deserialize;

pub use agent_tools::AgentToolUse;
pub use effective::{AgentRuntimeInfo, ConfigRuntimeInfo, EffectiveConfig, PluginRuntimeInfo, StepOrder};
pub use egress::{CredentialConfig, HttpUse, requests};
pub use explain::{nearest, unknown};
pub use mcp::{LoginGrant, McpProtocol, McpServerConfig, OAuthConfig, check_url};
pub use plugin_limits::LimitsConfig;
pub use programs::{ANY_PROGRAM, GIT_PROGRAM, GitConfig, ProgramConfig};
pub use provider::{AuthConfig, ProviderConfig, ProviderKind};
pub use runner_config::RunnerConfig;
pub use runs::RunsConfig;
pub use schema::{
    AgentConfig, AgentOptions, ChangesUse, ContextConfig, DelegableConfig, FolderUse, GrantConfig, PluginFolderUse,
    PluginUse, RunnerSection, SessionsConfig, params,
};
pub use steps::{
    CONTEXT_THRESHOLD, HostMiddleware, OWN_MIDDLEWARE, PluginRoles, PluginSection, StepUse, UnspecifiedGrants,
    default_effects,
};
pub use team::{
    HandOffChats, HandOffParams, HostCoordinator, LoopParams, MemberUse, RolesParams, TeamConfig, TeamStopCondition,
};
pub use toolbox::{HostToolbox, HostToolboxUse, McpServerUse, ShippedToolbox, ShippedToolboxUse, ToolboxUse};
pub(crate) use trust_facts::variables;

use crate::{
    capability::HttpGrant,
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
};

/// The blackboard of the toolbox `state` where the config names none.
pub const DEFAULT_NAMESPACE: &str = "shared";

/// A config file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Models, each under a name.
    #[serde(default)]
    pub providers: Vec<ProviderConfig>,
    /// Credentials that the host holds, and adds to requests of plugins.
    #[serde(default)]
    pub credentials: Vec<CredentialConfig>,
    /// MCP servers, each under a name.
    #[serde(default)]
    pub mcp_servers: Vec<McpServerConfig>,
    /// Programs that agents and plugins may run, each under a name.
    #[serde(default)]
    pub programs: IndexMap<String, ProgramConfig>,
    /// Where the toolbox `git` works.
    #[serde(default)]
    pub git: GitConfig,
    /// Directories of plugin folders; relative ones are below the config's root.
    #[serde(default)]
    pub plugin_dirs: Vec<PathBuf>,
    /// Agents.
    #[serde(default)]
    pub agents: Vec<AgentConfig>,
    /// Teams: agents that work on one conversation.
    #[serde(default)]
    pub teams: Vec<TeamConfig>,
    /// The agent or team that runs if none is named; none: the first agent.
    pub entry_agent: Option<String>,
    /// Tokens that models of a kind can take, where their entry does not say.
    #[serde(default)]
    pub default_context_windows: IndexMap<ProviderKind, u64>,
    /// What goes into the system prompts besides this file.
    #[serde(default)]
    pub context: ContextConfig,
    /// What is written down of runs.
    #[serde(default)]
    pub sessions: SessionsConfig,
    /// Bounds on what the agents of one run take together.
    #[serde(default)]
    pub runs: RunsConfig,
    /// What plugins may take.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// What the person has approved for this project, for plugins that may ask for such. No file of a config says it.
    #[serde(skip)]
    pub approved: ProjectApprovals,
    /// The folder that relative paths are below.
    #[serde(skip)]
    pub root: PathBuf,
    /// The file that it was read from, as it was named; none: it was not read from one.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// All that was found wrong with a config at once.
#[derive(Debug)]
pub struct ConfigErrors {
    /// Each mistake, at least one, in the order in which they are told.
    pub reports: Vec<Report>,
    /// The config without what could not be read of it, if what it names can still be looked at. It is not to be used.
    pub config: Option<Box<Config>>,
}

impl ConfigErrors {
    fn first(mut self) -> Report {
        self.reports.swap_remove(0)
    }
}

impl From<Report> for ConfigErrors {
    fn from(report: Report) -> Self {
        Self { reports: vec![report], config: None }
    }
}

/// What a person has approved for a project, for good.
#[derive(Debug, Clone, Default)]
pub struct ProjectApprovals {
    /// Folders, absolute.
    pub folders: Vec<PathBuf>,
    /// Servers of the public Internet.
    pub servers: HttpGrant,
}

impl Config {
    /// Reads a config file. Relative paths in it are below its folder, or, if that is called `.shelly`, the one around it.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the place in it and the mend.
    pub fn read(path: &Path) -> Result<Self, Report> {
        Self::read_all(path).map_err(ConfigErrors::first)
    }

    /// The same, with all mistakes that can be found at once.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], each of which names the file, the place in it and the mend.
    pub fn read_all(path: &Path) -> Result<Self, ConfigErrors> {
        let (text, root) = Self::text_of(path)?;
        let of_file = |config: Self| Self { file: Some(path.to_owned()), ..config };
        Self::parse_all(&text, root).map(of_file).map_err(|ConfigErrors { reports, config }| ConfigErrors {
            reports: reports.into_iter().map(|report| report.in_file(path.display())).collect(),
            config: config.map(|config| Box::new(of_file(*config))),
        })
    }

    /// The text of a config file, and the folder that relative paths in it are below.
    fn text_of(path: &Path) -> Result<(String, PathBuf), Report> {
        let shown = path.display();
        let unreadable = |error: io::Error| {
            let report = Report::new(ErrorKind::Usage, format!("cannot read the config {shown}"));
            let hint = match error.kind() {
                io::ErrorKind::IsADirectory => {
                    format!("name the file: --config {}", path.join("shelly.yaml").display())
                }
                io::ErrorKind::PermissionDenied => "change who may read it, or name another with --config".into(),
                _ => "name another with --config, or leave --config out to run without one".into(),
            };
            report.cause(why_unreadable(&error)).hint(hint)
        };
        let mut bytes = Vec::new();
        let file = files::open(path).map_err(unreadable)?;
        file.take(limits::CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > limits::CONFIG_BYTES {
            let most = limits::CONFIG_BYTES;
            return Err(Report::new(ErrorKind::Usage, format!("the config {shown} has more than {most} bytes"))
                .hint("check that --config names the right file"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            Report::new(ErrorKind::Usage, "the config is not UTF-8 text")
                .hint("save it as UTF-8, for example with iconv")
                .at(format!(", line {line}"))
                .in_file(&shown)
        })?;
        let root = Self::root_of(path).map_err(unreadable)?;
        Ok((text, root))
    }

    /// The folder that relative paths in a config file are below, whatever stands in it.
    ///
    /// # Errors
    ///
    /// There is no current directory that a relative `path` could be below.
    pub fn root_of(path: &Path) -> io::Result<PathBuf> {
        let folder = std::path::absolute(path)?.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(match folder.file_name() {
            Some(name) if name == ".shelly" => folder.parent().unwrap_or(&folder).to_owned(),
            _ => folder,
        })
    }

    /// Reads a config; relative paths in it are below `root`.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the place and the mend.
    pub fn parse(text: &str, root: PathBuf) -> Result<Self, Report> {
        Self::parse_all(text, root).map_err(ConfigErrors::first)
    }

    fn parse_all(text: &str, root: PathBuf) -> Result<Self, ConfigErrors> {
        let ParsedConfig { config, mistakes: mut reports } = recover::parse(text);
        let Some(mut config) = config else { return Err(ConfigErrors { reports, config: None }) };
        config.root = root;
        for toolbox in config.agents.iter_mut().flat_map(|agent| &mut agent.toolboxes) {
            if let ToolboxUse::Shipped(uses) = toolbox {
                uses.settle_paths(&config.root);
            }
        }
        reports.extend(config.mistakes());
        reports.truncate(limits::CONFIG_MISTAKES);
        match reports.is_empty() {
            true => Ok(config),
            false => Err(ConfigErrors { config: config.is_sound().then(|| Box::new(config)), reports }),
        }
    }

    /// Tokens that the model of a provider can take, if that is known.
    pub fn context_window(&self, provider: &ProviderConfig) -> Option<u64> {
        let of_kind = || self.default_context_windows.get(&provider.kind).copied();
        // What the vendor's own models can take says nothing of another server's.
        let vendor = provider.kind.vendor().filter(|_| provider.base_url.is_none());
        let of_vendor = || vendor.and_then(|vendor| vendor.preset().context_window);
        let window = provider.context_window.or_else(of_kind).or_else(of_vendor);
        window.filter(|tokens| *tokens > 0)
    }

    /// Returns `true` if the server of a provider is asked how much the model takes: it is one of the person's own, and the
    /// config does not say.
    pub fn asks_server_for_window(&self, provider: &ProviderConfig) -> bool {
        let is_local = provider.kind.vendor().is_some_and(|vendor| vendor.is_local());
        is_local && provider.context_window.is_none() && self.context_window(provider).is_none()
    }

    /// The directories of plugin folders: those that the config names, then `more`.
    pub fn plugin_directories(&self, more: &[PathBuf]) -> Vec<PathBuf> {
        let named = self.plugin_dirs.iter().map(|directory| self.root.join(directory));
        named.chain(more.iter().cloned()).collect()
    }

    /// The model of this name; without one the first.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is none of that name.
    pub fn provider(&self, name: Option<&str>) -> Result<Option<&ProviderConfig>, Report> {
        let Some(name) = name else { return Ok(self.providers.first()) };
        let found = self.providers.iter().find(|provider| provider.name == name);
        let names = self.providers.iter().map(|provider| provider.name.as_str());
        found.map(Some).ok_or_else(|| unknown("model", name, names))
    }
}
