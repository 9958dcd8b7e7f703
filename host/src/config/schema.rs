//! Types of the config file: agents, grants and plugin uses.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IntoDeserializer},
};
use serde_json::value::RawValue;

use super::{ANY_PROGRAM, AgentToolUse, HttpUse, LimitsConfig, StepUse, ToolboxUse, egress::requests};
use crate::{
    agent::{CostTier, InteractionMode, OnFailure},
    capability::{Budget, FileAccess, Grant, KvScope, KvScopes, NameSet, Powers, PromptableCapability},
    limits,
};

/// The config of an agent; a team uses the keys that it shares with agents.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: String,
    /// A description for other agents and for people.
    #[serde(default)]
    pub description: String,
    /// The agent's instructions, a part of its system prompt.
    #[serde(default)]
    pub instructions: String,
    /// The name of its model; `None`: the first provider of the config.
    pub provider: Option<String>,
    /// The text shown before its name in a terminal.
    pub prefix: Option<String>,
    /// Toolboxes of the host and of MCP servers.
    #[serde(default)]
    pub toolboxes: Vec<ToolboxUse>,
    /// The names of its skills; `None`: all skills of the project.
    pub skills: Option<Vec<String>>,
    /// Words for its abilities, for agents that choose a delegate.
    #[serde(default)]
    pub skills_tags: Vec<String>,
    /// The cost class of asking it, for agents that choose a delegate.
    pub estimated_cost: Option<CostTier>,
    /// The number of its runs that may work at once; 0: as many as the run as a whole allows.
    #[serde(default)]
    pub max_concurrency: u32,
    /// The budget of one of its runs, including its delegations.
    #[serde(default)]
    pub budget: Budget,
    /// Its plugins by id, in order, each with what it is granted for this agent.
    #[serde(default)]
    pub plugins: IndexMap<String, Option<PluginUse>>,
    /// Agents that it calls as tools.
    #[serde(default)]
    pub agent_tools: Vec<AgentToolUse>,
    /// Effects on its conversation in every turn, in order; those that shorten the conversation always come first. `None`:
    /// the effects that [`Config::settle`](super::Config::settle) adds if the model's context window may be known.
    pub effects: Option<Vec<StepUse>>,
    /// Middleware around its runs, its requests to models and its tool calls, outermost first.
    #[serde(default)]
    pub middleware: Vec<StepUse>,
    /// Ceiling of all its plugins, whatever each is granted; `None`: no ceiling besides the grants.
    #[serde(rename = "use")]
    pub ceiling: Option<GrantConfig>,
    /// Ceiling of the agents that it starts, and of those that they start.
    #[serde(default)]
    pub delegable: DelegableConfig,
    /// Options of its runs.
    #[serde(default)]
    pub options: AgentOptions,
    /// The coordinator of a team, if it is a plugin.
    #[serde(skip)]
    pub coordinator: Option<StepUse>,
    /// The list of the file in which it stands.
    #[serde(skip)]
    pub list: RunnerSection,
}

/// The list of a config in which an agent or team stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunnerSection {
    /// `agents`.
    #[default]
    Agents,
    /// `teams`.
    Teams,
}

impl AgentConfig {
    /// Returns its position in the file, such as `agents.helper`.
    pub fn place(&self) -> String {
        let list = match self.list {
            RunnerSection::Agents => "agents",
            RunnerSection::Teams => "teams",
        };
        format!("{list}.{}", self.name)
    }

    /// Returns the word for it in messages: "agent" or "team".
    pub fn word(&self) -> &'static str {
        match self.list {
            RunnerSection::Agents => "agent",
            RunnerSection::Teams => "team",
        }
    }
}

/// The most that plugins may be granted. A capability that is left out is not granted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantConfig {
    /// Folders, with everything below them.
    #[serde(default)]
    pub files: Vec<FolderUse>,
    /// The clock.
    #[serde(default)]
    pub clock: bool,
    /// Random bytes.
    #[serde(default)]
    pub random: bool,
    /// The agent's conversation.
    #[serde(default)]
    pub chat: bool,
    /// Scopes of key-value stores: one, or a list.
    #[serde(default, deserialize_with = "scopes")]
    pub kv: KvScopes,
    /// Names of models to which plugins may send requests, besides the agent's own.
    #[serde(default)]
    pub models: Vec<String>,
    /// HTTP requests that plugins may send.
    #[serde(default)]
    pub http: Vec<HttpUse>,
    /// Names of credentials that the host adds to these requests.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// Access to the conversation: the parts that plugins may see, and the changes that effects may make.
    #[serde(default)]
    pub powers: Powers,
    /// Names of MCP servers from `mcp_servers`.
    #[serde(default)]
    pub mcp: Vec<String>,
    /// Names of programs from `programs`; `git` for the toolbox, `*` for any program.
    #[serde(default)]
    pub programs: Vec<String>,
}

/// A folder and the access to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderUse {
    /// The folder; a relative path is below the config's root.
    pub path: PathBuf,
    /// `read` or `write`.
    #[serde(default = "read")]
    pub mode: FileAccess,
}

/// Ceiling of the agents that an agent starts. A key that is left out sets no bound of its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelegableConfig {
    /// Grants for the plugins of the agents that it starts; `None`: all that it and the agents that it may start use
    /// themselves.
    pub grant: Option<GrantConfig>,
    /// The names of the agents that may be started; `None`: all.
    pub agents: Option<Vec<String>>,
    /// The budget of each of them.
    #[serde(default)]
    pub budget: Budget,
}

/// Options of an agent's runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Turns of one run; 0: the ceiling, `None`: the default.
    pub max_iterations: Option<u32>,
    /// The turn before which the agent is told to finish; 0: never.
    #[serde(default)]
    pub warn_iterations: u32,
    /// The largest depth to which it may delegate; 0: it does not delegate.
    #[serde(default)]
    pub max_delegation_depth: u32,
    /// For a delegate: whether it may hand its task over; 0: it may not. For a delegating agent: how often a task that it
    /// delegates may be handed on; 0: the default.
    #[serde(default)]
    pub max_handoffs: u32,
    /// The share of the model's context window, between 0 and 1, at which the conversation is compacted if the file names
    /// no effects; `None` or 0: [`CONTEXT_THRESHOLD`](super::CONTEXT_THRESHOLD).
    pub context_threshold: Option<f64>,
    /// The party that answers the questions of its delegates.
    #[serde(default, deserialize_with = "interaction")]
    pub interaction_mode: InteractionMode,
    /// The longest wait for an answer to such a question; `None`: no limit of its own.
    #[serde(default, deserialize_with = "duration")]
    pub question_timeout: Option<Duration>,
    /// Leaves the hints on how to work out of its system prompt.
    #[serde(default)]
    pub disable_behavioral_hints: bool,
}

impl AgentOptions {
    /// Returns the number of turns of one run, with the ceiling in place of 0.
    pub fn iterations(&self) -> u32 {
        match self.max_iterations {
            None => limits::MAX_ITERATIONS,
            Some(0) => limits::MAX_ITERATIONS_CEILING,
            Some(most) => most,
        }
    }
}

/// Limits on the files that go into system prompts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Bytes that are read of one rules file of another program (CLAUDE.md and the like), at most 16 MiB; 0: the default.
    #[serde(default)]
    pub max_external_file_size: u64,
}

/// Settings for recording runs as sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// `true` if runs are recorded unless the command line says otherwise.
    pub record: bool,
    /// Bytes of one session; 0: the default.
    pub max_bytes: u64,
    /// Bytes of all sessions; 0: the default.
    pub max_total_bytes: u64,
}

impl Default for SessionsConfig {
    fn default() -> Self {
        Self { record: true, max_bytes: 0, max_total_bytes: 0 }
    }
}

/// Deserializes a duration such as `90s` or `5m`; the empty text is `None`.
pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(from)?.filter(|text| !text.is_empty());
    let parsed = text.map(|text| humantime::parse_duration(&text)).transpose();
    parsed.map_err(|_| de::Error::custom("it is not a duration; write it as 90s, 5m or 1h30m"))
}

/// Deserializes a duration that must be given and longer than zero.
pub(super) fn set_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(from)?.filter(|time| !time.is_zero()).ok_or_else(|| de::Error::custom("it must be longer than nothing"))
}

/// Deserializes a scope, or a list of scopes.
fn scopes<'de, D: Deserializer<'de>>(from: D) -> Result<KvScopes, D::Error> {
    struct KvScopesVisitor;
    impl<'de> de::Visitor<'de> for KvScopesVisitor {
        type Value = KvScopes;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("`run`, `session`, `agent` or `plugin`, or a list of them")
        }
        fn visit_str<E: de::Error>(self, name: &str) -> Result<KvScopes, E> {
            Ok([KvScope::deserialize(name.into_deserializer())?].into())
        }
        fn visit_seq<S: de::SeqAccess<'de>>(self, list: S) -> Result<KvScopes, S::Error> {
            KvScopes::deserialize(de::value::SeqAccessDeserializer::new(list))
        }
    }
    from.deserialize_any(KvScopesVisitor)
}

/// Deserializes the mode; the empty text is the default.
fn interaction<'de, D: Deserializer<'de>>(from: D) -> Result<InteractionMode, D::Error> {
    let text = String::deserialize(from)?;
    match text.as_str() {
        "" => Ok(InteractionMode::default()),
        text => InteractionMode::deserialize(text.into_deserializer()),
    }
}

/// Grants and settings of one plugin for one agent. A capability that is left out is not granted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginUse {
    /// Folders that the plugin sees.
    #[serde(default)]
    pub files: Vec<PluginFolderUse>,
    /// The clock.
    #[serde(default)]
    pub clock: bool,
    /// Random bytes.
    #[serde(default)]
    pub random: bool,
    /// The agent's conversation.
    #[serde(default)]
    pub chat: bool,
    /// The scope of its key-value store; `None`: it has no store.
    pub kv: Option<KvScope>,
    /// Names of models to which it may send requests, besides the agent's own.
    #[serde(default)]
    pub models: Vec<String>,
    /// HTTP requests that it may send.
    #[serde(default)]
    pub http: Vec<HttpUse>,
    /// Names of credentials that the host adds to its requests where it names them.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// Access to the conversation: the parts that the plugin may see, and the changes that its effect may make.
    #[serde(default)]
    pub powers: Powers,
    /// Names of programs from `programs` that it may have the host run.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Capabilities that a person is asked for during a run when one of its tools lacks them.
    #[serde(default)]
    pub ask: Vec<PromptableCapability>,
    /// Asks a person before each call of its tools.
    #[serde(default)]
    pub confirm: bool,
    /// Handling of file changes that its tools propose.
    #[serde(default)]
    pub changes: ChangesUse,
    /// Params that are passed to the plugin.
    #[serde(default)]
    pub params: IndexMap<String, serde_json::Value>,
    /// The effect of a failure of its effect or middleware on the run; `None`: what the plugin's manifest says.
    pub on_failure: Option<OnFailure>,
    /// Limits of its calls, which override those of all plugins.
    #[serde(default)]
    pub limits: LimitsConfig,
}

/// Handling of file changes that tools propose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangesUse {
    /// Asks a person and shows the difference.
    #[default]
    Ask,
    /// Applies changes that can be undone at once, except to files that programs act on; asks about all others.
    Apply,
}

/// A folder that a plugin sees.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginFolderUse {
    /// The folder; a relative path is below the config's root.
    pub path: PathBuf,
    /// The path under which the plugin sees the folder; `None`: `path` as it is written.
    #[serde(rename = "as")]
    pub name: Option<String>,
    /// `read` or `write`.
    #[serde(default = "read")]
    pub mode: FileAccess,
}

fn read() -> FileAccess {
    FileAccess::Read
}

impl PluginUse {
    /// Returns the grant. `resolve` turns a path of the config into the path that it leads to.
    pub fn grant(&self, resolve: impl Fn(&Path) -> PathBuf) -> Grant {
        Grant {
            files: self.files.iter().map(|file| (resolve(&file.path), file.mode)).collect(),
            clock: self.clock,
            random: self.random,
            chat: self.chat,
            kv: self.kv.into_iter().collect(),
            models: names(&self.models),
            http: requests(&self.http),
            credentials: names(&self.credentials),
            powers: self.powers.clone(),
            mcp: NameSet::default(),
            programs: names(&self.programs),
        }
    }
}

impl PluginFolderUse {
    /// Returns the path under which the plugin sees the folder.
    pub fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.path.to_string_lossy().into_owned())
    }
}

impl GrantConfig {
    /// Returns the grant. `resolve` turns a path of the config into the path that it leads to.
    pub fn grant(&self, resolve: impl Fn(&Path) -> PathBuf) -> Grant {
        Grant {
            files: self.files.iter().map(|folder| (resolve(&folder.path), folder.mode)).collect(),
            clock: self.clock,
            random: self.random,
            chat: self.chat,
            kv: self.kv.clone(),
            models: names(&self.models),
            http: requests(&self.http),
            credentials: names(&self.credentials),
            powers: self.powers.clone(),
            mcp: names(&self.mcp),
            programs: match self.programs.iter().any(|name| name == ANY_PROGRAM) {
                true => NameSet::all(),
                false => names(&self.programs),
            },
        }
    }
}

fn names(names: &[String]) -> NameSet {
    names.iter().cloned().collect()
}

/// Returns a plugin's params as the JSON text that it is given.
pub fn params(params: &IndexMap<String, serde_json::Value>) -> Box<RawValue> {
    serde_json::value::to_raw_value(params).expect("a map with string keys is a JSON object")
}
