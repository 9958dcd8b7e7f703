//! Grants of plugins: entries of `plugins`, effects and middleware, and the ceilings of agents.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IntoDeserializer},
};
use serde_json::value::RawValue;

use super::{ANY_PROGRAM, HttpUse, LimitsConfig, egress::requests};
use crate::{
    agent::OnFailure,
    capability::{FileAccess, Grant, KvScope, KvScopes, NameSet, Powers, PromptableCapability},
};

/// The most that plugins may be granted. A capability that is left out is not granted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
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
    #[schemars(schema_with = "scopes_schema")]
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
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderUse {
    /// The folder; a relative path is below the config's root.
    pub path: PathBuf,
    /// `read` or `write`.
    #[serde(default = "read")]
    pub mode: FileAccess,
}

/// Grants and settings of one plugin for one agent. A capability that is left out is not granted.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
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

/// The mapping of an effect or a middleware. Plugins that come with the host get what they ask for where it leaves out a
/// grant, so it has to know which ones it leaves out.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepMapping {
    /// The id of a plugin, or a kind of the host.
    kind: String,
    /// Params that are passed to the plugin.
    #[serde(default)]
    params: IndexMap<String, serde_json::Value>,
    /// Folders that the plugin sees.
    #[serde(default)]
    files: Vec<PluginFolderUse>,
    /// The clock.
    clock: Option<bool>,
    /// Random bytes.
    random: Option<bool>,
    /// The scope of its key-value store.
    kv: Option<KvScope>,
    /// Names of models to which it may send requests, besides the agent's own.
    #[serde(default)]
    models: Vec<String>,
    /// HTTP requests that it may send.
    #[serde(default)]
    http: Vec<HttpUse>,
    /// Names of credentials that the host adds to its requests where it names them.
    #[serde(default)]
    credentials: Vec<String>,
    /// Names of programs from `programs` that it may have the host run.
    #[serde(default)]
    programs: Vec<String>,
    /// Access to the conversation: the parts that the plugin may see, and the changes that its effect may make.
    powers: Option<Powers>,
    /// Asks a person before each call of its tools.
    #[serde(default)]
    confirm: bool,
    /// Handling of file changes that its tools propose.
    #[serde(default)]
    changes: ChangesUse,
    /// The effect of a failure on the run; `None`: what the plugin's manifest says.
    on_failure: Option<OnFailure>,
    /// Limits of its calls, which override those of all plugins.
    #[serde(default)]
    limits: LimitsConfig,
}

/// Grants of a step that the file leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnspecifiedGrants {
    /// `clock`.
    pub clock: bool,
    /// `random`.
    pub random: bool,
    /// `kv`.
    pub kv: bool,
    /// `powers`.
    pub powers: bool,
}

impl UnspecifiedGrants {
    /// All of them, for a step that is written as a name alone or not at all.
    pub const ALL: Self = Self { clock: true, random: true, kv: true, powers: true };
}

impl StepMapping {
    /// Returns the kind, the use of the plugin, and the grants that the mapping leaves out.
    pub fn into_parts(self) -> (String, PluginUse, UnspecifiedGrants) {
        let Self {
            kind,
            params,
            files,
            clock,
            random,
            kv,
            models,
            http,
            credentials,
            programs,
            powers,
            confirm,
            changes,
            on_failure,
            limits,
        } = self;
        let unsaid = UnspecifiedGrants {
            clock: clock.is_none(),
            random: random.is_none(),
            kv: kv.is_none(),
            powers: powers.is_none(),
        };
        let uses = PluginUse {
            files,
            clock: clock.unwrap_or_default(),
            random: random.unwrap_or_default(),
            chat: false,
            kv,
            models,
            http,
            credentials,
            powers: powers.unwrap_or_default(),
            programs,
            // Asking for more during a run would widen what an effect or a middleware may see.
            ask: Vec::new(),
            confirm,
            changes,
            params,
            on_failure,
            limits,
        };
        (kind, uses, unsaid)
    }
}

/// Handling of file changes that tools propose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangesUse {
    /// Asks a person and shows the difference.
    #[default]
    Ask,
    /// Applies changes that can be undone at once, except to files that programs act on; asks about all others.
    Apply,
}

/// A folder that a plugin sees.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
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

fn scopes_schema(generator: &mut SchemaGenerator) -> Schema {
    let (one, list) = (generator.subschema_for::<KvScope>(), generator.subschema_for::<KvScopes>());
    json_schema!({ "anyOf": [one, list] })
}
