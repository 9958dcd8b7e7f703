//! The config as a whole: reading a file, and looking things up in it.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AgentConfig, ClusterConfig, ContextConfig, CredentialConfig, GitConfig, LimitsConfig, McpServerConfig,
    OpenApiConfig, PluginSignaturesConfig, ProgramConfig, ProviderConfig, ProviderKind, RunsConfig, SessionsConfig,
    TeamConfig, TelemetryConfig, ThemeChoice, ToolboxUse, TriggerConfig, UserEntries, explain::unknown,
    located_yaml::misplaced_key, recover,
};
use crate::{
    capability::HttpGrant,
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
};

/// A parsed config file.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Models, each under a unique name.
    #[serde(default)]
    pub providers: Vec<ProviderConfig>,
    /// The model of agents that name none; `None`: the first provider.
    pub default_provider: Option<String>,
    /// Credentials that the host holds and adds to requests of plugins.
    #[serde(default)]
    pub credentials: Vec<CredentialConfig>,
    /// MCP servers, each under a unique name.
    #[serde(default)]
    pub mcp_servers: Vec<McpServerConfig>,
    /// APIs that OpenAPI documents describe, each under a unique name.
    #[serde(default)]
    pub openapi: Vec<OpenApiConfig>,
    /// Programs that agents and plugins may run, each under a name.
    #[serde(default)]
    pub programs: IndexMap<String, ProgramConfig>,
    /// The repository in which the toolbox `git` works.
    #[serde(default)]
    pub git: GitConfig,
    /// Directories that hold plugin folders; relative paths are below `root`.
    #[serde(default)]
    pub plugin_dirs: Vec<PathBuf>,
    /// Rules for the signatures of installed plugins.
    #[serde(default)]
    pub plugin_signatures: PluginSignaturesConfig,
    /// The URL or path of the index in which plugins are looked up by name; only a user-wide config may set it.
    pub plugin_index: Option<String>,
    /// Toolboxes of the agent that runs if the config has no agents.
    #[serde(default)]
    pub toolboxes: Vec<ToolboxUse>,
    /// Agents.
    #[serde(default)]
    pub agents: Vec<AgentConfig>,
    /// Teams: agents that work together on one task.
    #[serde(default)]
    pub teams: Vec<TeamConfig>,
    /// The agent or team that runs if the caller names none; `None`: the first agent.
    pub entry_agent: Option<String>,
    /// Context windows in tokens by provider kind, for providers without a `context_window` of their own.
    #[serde(default)]
    pub default_context_windows: IndexMap<ProviderKind, u64>,
    /// Limits on the files that go into system prompts.
    #[serde(default)]
    pub context: ContextConfig,
    /// Settings for recording runs as sessions.
    #[serde(default)]
    pub sessions: SessionsConfig,
    /// A NATS server on which hosts share sessions; `None`: they are files in the project.
    pub cluster: Option<ClusterConfig>,
    /// Limits on what the agents of one run use together.
    #[serde(default)]
    pub runs: RunsConfig,
    /// Resource limits of plugin calls.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// The export of traces, metrics and log records; `None`: the environment may turn it on.
    pub telemetry: Option<TelemetryConfig>,
    /// Triggers, which start runs by themselves in a server that is started with `--triggers`.
    #[serde(default)]
    pub triggers: Vec<TriggerConfig>,
    /// The colours at a terminal; only a user-wide config may set them.
    pub theme: Option<ThemeChoice>,
    /// Approvals of the person for this project, for plugins that may ask for it. It is never read from the config
    /// file.
    #[serde(skip)]
    pub approved: ProjectApprovals,
    /// The folder below which relative paths are resolved.
    #[serde(skip)]
    pub root: PathBuf,
    /// The path of the file that the config was read from, as the caller named it; `None` if it was not read from a file.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// The entries that come from the user-wide config.
    #[serde(skip)]
    pub user: UserEntries,
}

/// All mistakes of a config that one pass finds.
#[derive(Debug)]
pub struct ConfigErrors {
    /// The mistakes, at least one, in the order in which they are reported.
    pub reports: Vec<Report>,
    /// The config without the parts that could not be read, if its references can still be checked. It must not be run.
    pub config: Option<Box<Config>>,
}

impl ConfigErrors {
    /// Returns the first mistake.
    pub fn first(mut self) -> Report {
        self.reports.swap_remove(0)
    }
}

impl From<Report> for ConfigErrors {
    fn from(report: Report) -> Self {
        Self { reports: vec![report], config: None }
    }
}

/// Permissions that the person has stored for a project.
#[derive(Debug, Clone, Default)]
pub struct ProjectApprovals {
    /// Absolute paths of folders.
    pub folders: Vec<PathBuf>,
    /// Servers on the public Internet.
    pub servers: HttpGrant,
}

impl Config {
    /// Reads a config file. Relative paths in it are below its folder, or below the parent of that folder if it is called
    /// `.shelly`.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the position in it and the fix.
    pub fn read(path: &Path) -> Result<Self, Report> {
        Self::read_all(path).map_err(ConfigErrors::first)
    }

    /// Reads a config file like [`Self::read`], and returns every mistake that one pass finds.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], whose reports each name the file, the position in it and the fix.
    pub fn read_all(path: &Path) -> Result<Self, ConfigErrors> {
        let (text, root) = Self::text_of(path)?;
        Self::in_file(path, Self::parse_all(&text, root))
    }

    /// Adds the file to a config and to its mistakes.
    pub(super) fn in_file(path: &Path, parsed: Result<Self, ConfigErrors>) -> Result<Self, ConfigErrors> {
        let of_file = |config: Self| Self { file: Some(path.to_owned()), ..config };
        parsed.map(of_file).map_err(|ConfigErrors { reports, config }| ConfigErrors {
            reports: reports.into_iter().map(|report| report.in_file(path.display())).collect(),
            config: config.map(|config| Box::new(of_file(*config))),
        })
    }

    /// Returns the text of a config file and the folder below which its relative paths are resolved.
    pub(crate) fn text_of(path: &Path) -> Result<(String, PathBuf), Report> {
        let shown = path.display();
        let unreadable = |error: io::Error| {
            let report = Report::new(ErrorKind::Usage, format!("cannot read the config {shown}"));
            let hint = match error.kind() {
                io::ErrorKind::IsADirectory => {
                    format!("name the file: --config {}", path.join("shelly.yaml").display())
                }
                io::ErrorKind::PermissionDenied => {
                    "change the file's permissions, or name another config with --config".into()
                }
                _ => "name another config with --config, or omit --config".into(),
            };
            report.cause(why_unreadable(&error)).hint(hint)
        };
        let bytes = bounded_bytes(files::open(path).map_err(unreadable)?).map_err(unreadable)?;
        let bytes = bytes.ok_or_else(|| {
            let most = limits::CONFIG_BYTES;
            Report::new(ErrorKind::Usage, format!("the config {shown} exceeds {most} bytes"))
                .hint("check that --config names the right file")
        })?;
        let text = utf8(bytes).map_err(|report| report.in_file(&shown))?;
        let root = Self::root_of(path).map_err(unreadable)?;
        Ok((text, root))
    }

    /// Returns the folder below which the relative paths of a config file are resolved. The file itself is not read.
    ///
    /// # Errors
    ///
    /// An I/O error if `path` is relative and there is no current directory.
    pub fn root_of(path: &Path) -> io::Result<PathBuf> {
        let folder = std::path::absolute(path)?.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(match folder.file_name() {
            Some(name) if name == ".shelly" => folder.parent().unwrap_or(&folder).to_owned(),
            _ => folder,
        })
    }

    /// Parses a config whose relative paths are below `root`.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the position and the fix.
    pub fn parse(text: &str, root: PathBuf) -> Result<Self, Report> {
        Self::parse_all(text, root).map_err(ConfigErrors::first)
    }

    /// Parses a config like [`Self::parse`], and returns every mistake.
    pub(super) fn parse_all(text: &str, root: PathBuf) -> Result<Self, ConfigErrors> {
        Self::parse_over(text, root, |config| config.check_is_of_project(text))
    }

    /// Refuses a key that only a user-wide config may have. `text` is that of this config.
    pub(super) fn check_is_of_project(&self, text: &str) -> Result<(), Report> {
        const OF_PERSON: &str = "a setting of a person, not of a project";
        const MEND: &str = "move it to your user-wide config, whose path `shelly-host config path` shows";
        match (self.theme, &self.plugin_index) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(misplaced_key(text, "theme", OF_PERSON).hint(format!("{MEND}, or set SHELLY_THEME"))),
            // It decides which plugin a name means.
            (None, Some(_)) => {
                Err(misplaced_key(text, "plugin_index", OF_PERSON).hint(format!("{MEND}, or use --index")))
            }
        }
    }

    /// Parses a config whose relative paths are below `root`. `complete` checks whose text it is, and adds what the text does
    /// not say before the whole is checked.
    pub(super) fn parse_over(
        text: &str,
        root: PathBuf,
        complete: impl FnOnce(&mut Self) -> Result<(), Report>,
    ) -> Result<Self, ConfigErrors> {
        let (config, mut reports) = recover::parse::<Self>(text);
        let Some(mut config) = config else { return Err(ConfigErrors { reports, config: None }) };
        config.root = root;
        reports.extend(complete(&mut config).err());
        config.settle_toolbox_paths();
        reports.extend(config.mistakes());
        reports.truncate(limits::CONFIG_MISTAKES);
        match reports.is_empty() {
            true => Ok(config),
            false => Err(ConfigErrors { config: config.is_sound().then(|| Box::new(config)), reports }),
        }
    }

    /// Makes the folders of all toolboxes absolute.
    pub(super) fn settle_toolbox_paths(&mut self) {
        let toolboxes = self.agents.iter_mut().flat_map(|agent| &mut agent.toolboxes);
        for toolbox in toolboxes.chain(&mut self.toolboxes) {
            if let ToolboxUse::Shipped(uses) = toolbox {
                uses.settle_paths(&self.root);
            }
        }
    }

    /// Returns the context window of a provider's model in tokens, if it is known.
    pub fn context_window(&self, provider: &ProviderConfig) -> Option<u64> {
        let of_kind = || self.default_context_windows.get(&provider.kind).copied();
        // The window of the vendor's own models does not apply to another server.
        let vendor = provider.kind.vendor().filter(|_| provider.base_url.is_none());
        let of_vendor = || vendor.and_then(|vendor| vendor.preset().context_window);
        let window = provider.context_window.or_else(of_kind).or_else(of_vendor);
        window.filter(|tokens| *tokens > 0)
    }

    /// Returns `true` if the provider's server is asked for the context window of its model. That is so for local servers
    /// whose window the config does not set.
    pub fn asks_server_for_window(&self, provider: &ProviderConfig) -> bool {
        let is_local = provider.kind.vendor().is_some_and(|vendor| vendor.is_local());
        is_local && provider.context_window.is_none() && self.context_window(provider).is_none()
    }

    /// Returns the directories of plugin folders: those that the config names, then `more`.
    pub fn plugin_directories(&self, more: &[PathBuf]) -> Vec<PathBuf> {
        let named = self.plugin_dirs.iter().map(|directory| self.root.join(directory));
        named.chain(more.iter().cloned()).collect()
    }

    /// Returns the directories in which the person keeps plugins for all projects: those that the user-wide config names, then
    /// `standard`.
    pub fn personal_plugin_directories(&self, standard: &[PathBuf]) -> Vec<PathBuf> {
        [&self.user.plugin_dirs, standard].concat()
    }

    /// Returns the provider of this name, or the default one if `name` is `None`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if no provider has this name.
    pub fn provider(&self, name: Option<&str>) -> Result<Option<&ProviderConfig>, Report> {
        let Some(name) = name.or(self.default_provider.as_deref()) else { return Ok(self.providers.first()) };
        let found = self.providers.iter().find(|provider| provider.name == name);
        let names = self.providers.iter().map(|provider| provider.name.as_str());
        found.map(Some).ok_or_else(|| unknown("model", name, names))
    }
}

impl Config {
    /// Returns the provider that a command line names: the one of this name, or the only one whose model the vendor calls so.
    /// Without a name, returns the default one.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is none, or several have this model.
    pub fn named_provider(&self, name: Option<&str>) -> Result<Option<&ProviderConfig>, Report> {
        match (self.provider(name), name) {
            (Err(unknown), Some(model)) => self.provider_of_model(model)?.map(Some).ok_or(unknown),
            (found, _) => found,
        }
    }

    /// Returns the provider whose model the vendor calls so; `None` if no provider has it.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the providers if several have it.
    pub fn provider_of_model(&self, model: &str) -> Result<Option<&ProviderConfig>, Report> {
        let of_model: Vec<_> =
            self.providers.iter().filter(|provider| provider.model.as_deref() == Some(model)).collect();
        match of_model[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            [..] => {
                let names = of_model.iter().take(limits::NAMES_SHOWN).map(|provider| format!("`{}`", provider.name));
                let names = names.collect::<Vec<_>>().join(", ");
                let message = format!(
                    "{} models of the config are called `{}` by their vendors",
                    of_model.len(),
                    model.escape_debug()
                );
                Err(Report::new(ErrorKind::Usage, message).hint(format!("name one of them: {names}")))
            }
        }
    }
}

/// Reads a config file; `None` if it has more than [`limits::CONFIG_BYTES`].
pub(super) fn bounded_bytes(file: fs::File) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(limits::CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limits::CONFIG_BYTES).then_some(bytes))
}

/// Returns the text of a config file.
///
/// # Errors
///
/// A [`Report`] that names the first line that is not text.
pub(super) fn utf8(bytes: Vec<u8>) -> Result<String, Report> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        Report::new(ErrorKind::Usage, "the config is not UTF-8 text")
            .hint("convert the file to UTF-8, for example with iconv")
            .at(format!(", line {line}"))
    })
}
