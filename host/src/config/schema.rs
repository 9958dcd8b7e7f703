//! What can stand in the file.

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

/// An agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Its name.
    pub name: String,
    /// What it is good for.
    #[serde(default)]
    pub description: String,
    /// What it is told to do and how.
    #[serde(default)]
    pub instructions: String,
    /// The name of its model; none: the first.
    pub provider: Option<String>,
    /// What is shown before its name.
    pub prefix: Option<String>,
    /// Tools of the host, and of MCP servers.
    #[serde(default)]
    pub toolboxes: Vec<ToolboxUse>,
    /// The skills that it has, by name; none: all.
    pub skills: Option<Vec<String>>,
    /// Words for what it can do, for agents that choose whom to ask.
    #[serde(default)]
    pub skills_tags: Vec<String>,
    /// What asking it costs, for agents that choose whom to ask.
    pub estimated_cost: Option<CostTier>,
    /// How many of it may work at once; 0: as many as there are places.
    #[serde(default)]
    pub max_concurrency: u32,
    /// What one run of it may spend, its delegations included.
    #[serde(default)]
    pub budget: Budget,
    /// Its plugins by id, in order, and what each may do for it.
    #[serde(default)]
    pub plugins: IndexMap<String, Option<PluginUse>>,
    /// Agents that it has as tools.
    #[serde(default)]
    pub agent_tools: Vec<AgentToolUse>,
    /// What looks at its conversation in every turn, in order; those that shorten it come first in any case. None: where the
    /// model's window is known, what [`Config::settle`](super::Config::settle) adds.
    pub effects: Option<Vec<StepUse>>,
    /// What stands around its runs, its requests to models and its tool calls, outermost first.
    #[serde(default)]
    pub middleware: Vec<StepUse>,
    /// What none of its plugins may exceed, whatever each is granted; none: what each is granted.
    #[serde(rename = "use")]
    pub ceiling: Option<GrantConfig>,
    /// What those that it starts, and those that they start, may not exceed.
    #[serde(default)]
    pub delegable: DelegableConfig,
    /// How it runs.
    #[serde(default)]
    pub options: AgentOptions,
    /// Of a team: its coordinator, if that is a plugin.
    #[serde(skip)]
    pub coordinator: Option<StepUse>,
    /// Where it stands in the file.
    #[serde(skip)]
    pub list: RunnerSection,
}

/// The list of a config in which somebody stands who can run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunnerSection {
    /// `agents`.
    #[default]
    Agents,
    /// `teams`.
    Teams,
}

impl AgentConfig {
    /// Where it stands in the file: `agents.helper`.
    pub fn place(&self) -> String {
        let list = match self.list {
            RunnerSection::Agents => "agents",
            RunnerSection::Teams => "teams",
        };
        format!("{list}.{}", self.name)
    }

    /// What it is, for people: "the agent".
    pub fn word(&self) -> &'static str {
        match self.list {
            RunnerSection::Agents => "agent",
            RunnerSection::Teams => "team",
        }
    }
}

/// What plugins may do at most: nothing that does not stand here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantConfig {
    /// Folders, with all below them.
    #[serde(default)]
    pub files: Vec<FolderUse>,
    /// The time.
    #[serde(default)]
    pub clock: bool,
    /// Chance.
    #[serde(default)]
    pub random: bool,
    /// The agent's conversation.
    #[serde(default)]
    pub chat: bool,
    /// Key-value stores: one, or a list.
    #[serde(default, deserialize_with = "scopes")]
    pub kv: KvScopes,
    /// Models by their names, to which they may send requests beside the agent's own.
    #[serde(default)]
    pub models: Vec<String>,
    /// HTTP requests.
    #[serde(default)]
    pub http: Vec<HttpUse>,
    /// Credentials by their names, which the host adds to these requests.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// What they may see of the conversation, and what effects may do to it.
    #[serde(default)]
    pub powers: Powers,
    /// MCP servers by their names in `mcp_servers`.
    #[serde(default)]
    pub mcp: Vec<String>,
    /// Programs by their names in `programs`; `git` for the toolbox, `*` for any program.
    #[serde(default)]
    pub programs: Vec<String>,
}

/// A folder and how it may be used.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderUse {
    /// The folder; a relative one is below the config's root.
    pub path: PathBuf,
    /// `read` or `write`.
    #[serde(default = "read")]
    pub mode: FileAccess,
}

/// What an agent may pass on. What is not named has no bound of its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelegableConfig {
    /// What the plugins of those that it starts may do; none: what it and the agents that it may start use themselves.
    pub grant: Option<GrantConfig>,
    /// The agents that may be started, by name; none: all.
    pub agents: Option<Vec<String>>,
    /// What each of them may spend.
    #[serde(default)]
    pub budget: Budget,
}

/// How an agent runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Turns of one run; 0 is the ceiling.
    pub max_iterations: Option<u32>,
    /// The turn before which it is told to come to an end; 0: never.
    #[serde(default)]
    pub warn_iterations: u32,
    /// How deep it may delegate; 0: not at all.
    #[serde(default)]
    pub max_delegation_depth: u32,
    /// As one that was delegated to: 0 if it may not hand its task over. As one that delegates: how often a task of it
    /// may be handed on.
    #[serde(default)]
    pub max_handoffs: u32,
    /// The share of the model's window, between 0 and 1, from which on the conversation is compacted, where the file names
    /// no effects; none, or 0: [`CONTEXT_THRESHOLD`](super::CONTEXT_THRESHOLD).
    pub context_threshold: Option<f64>,
    /// Who answers the questions of those that it delegates to.
    #[serde(default, deserialize_with = "interaction")]
    pub interaction_mode: InteractionMode,
    /// How long such a question waits for its answer; none: as long as the run goes on.
    #[serde(default, deserialize_with = "duration")]
    pub question_timeout: Option<Duration>,
    /// Whether its system prompt goes without the hints on how to work.
    #[serde(default)]
    pub disable_behavioral_hints: bool,
}

impl AgentOptions {
    /// Turns of one run, with the ceiling in place of 0.
    pub fn iterations(&self) -> u32 {
        match self.max_iterations {
            None => limits::MAX_ITERATIONS,
            Some(0) => limits::MAX_ITERATIONS_CEILING,
            Some(most) => most,
        }
    }
}

/// What goes into the system prompts besides the config.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Bytes of one file of rules that other programs use (CLAUDE.md and the like), at most 16 MiB; 0: the default.
    #[serde(default)]
    pub max_external_file_size: u64,
}

/// What is written down of runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// Whether runs are written down where the command line does not say.
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

/// A duration such as `90s` or `5m`; the empty text is none.
pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(from)?.filter(|text| !text.is_empty());
    let parsed = text.map(|text| humantime::parse_duration(&text)).transpose();
    parsed.map_err(|_| de::Error::custom("it is not a duration; write it as 90s, 5m or 1h30m"))
}

/// The same where there must be one.
pub(super) fn set_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(from)?.filter(|time| !time.is_zero()).ok_or_else(|| de::Error::custom("it must be longer than nothing"))
}

/// A store, or a list of them.
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

/// The mode; the empty text is the default.
fn interaction<'de, D: Deserializer<'de>>(from: D) -> Result<InteractionMode, D::Error> {
    let text = String::deserialize(from)?;
    match text.as_str() {
        "" => Ok(InteractionMode::default()),
        text => InteractionMode::deserialize(text.into_deserializer()),
    }
}

/// What a plugin may do for an agent: nothing that does not stand here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginUse {
    /// Folders.
    #[serde(default)]
    pub files: Vec<PluginFolderUse>,
    /// The time.
    #[serde(default)]
    pub clock: bool,
    /// Chance.
    #[serde(default)]
    pub random: bool,
    /// The agent's conversation.
    #[serde(default)]
    pub chat: bool,
    /// Its key-value store; none: it has none.
    pub kv: Option<KvScope>,
    /// Models by their names, to which it may send requests beside the agent's own.
    #[serde(default)]
    pub models: Vec<String>,
    /// HTTP requests that it may send.
    #[serde(default)]
    pub http: Vec<HttpUse>,
    /// Credentials by their names, which the host adds to its requests where it names them.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// What it may see of the conversation, and what its effect may do to it.
    #[serde(default)]
    pub powers: Powers,
    /// Programs by their names in `programs`, which it may have run.
    #[serde(default)]
    pub programs: Vec<String>,
    /// What a person is asked for, in the middle of a run, where a tool of it lacks some.
    #[serde(default)]
    pub ask: Vec<PromptableCapability>,
    /// Whether a person is asked before each call of its tools.
    #[serde(default)]
    pub confirm: bool,
    /// What becomes of changes of files that its tools propose.
    #[serde(default)]
    pub changes: ChangesUse,
    /// Its own settings.
    #[serde(default)]
    pub params: IndexMap<String, serde_json::Value>,
    /// Whether a run goes on if its effect fails; none: it ends.
    pub on_failure: Option<OnFailure>,
    /// What its calls may take, over what holds for all plugins.
    #[serde(default)]
    pub limits: LimitsConfig,
}

/// What becomes of changes of files that tools propose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangesUse {
    /// A person is asked, with the difference shown.
    #[default]
    Ask,
    /// Those that can be undone are made at once, but for files that programs go by; the others are asked about.
    Apply,
}

/// A folder for a plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginFolderUse {
    /// The folder; a relative one is below the config's root.
    pub path: PathBuf,
    /// What the plugin sees it as; none: `path` as it is written.
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
    /// What it gives. `resolve` makes the path that a written one leads to.
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
    /// What the plugin sees the folder as.
    pub fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.path.to_string_lossy().into_owned())
    }
}

impl GrantConfig {
    /// What it gives. `resolve` makes the path that a written one leads to.
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

/// A plugin's own settings as it is handed them.
pub fn params(params: &IndexMap<String, serde_json::Value>) -> Box<RawValue> {
    serde_json::value::to_raw_value(params).expect("a map with string keys is a JSON object")
}
