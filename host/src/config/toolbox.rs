//! Toolboxes of an agent: tools of the host, of plugins that come with it, and of MCP servers.

use std::{borrow::Cow, fmt, path::Path};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, IntoDeserializer,
        value::{self, MapAccessDeserializer},
    },
};

use super::{ChangesUse, FolderUse, HttpUse, PluginFolderUse, PluginUse, values::or_text};
use crate::{
    capability::{FileAccess, Power, PromptableCapability},
    files,
};

/// The blackboard namespace of the toolbox `state` if the config names none.
pub const DEFAULT_NAMESPACE: &str = "shared";

/// A toolbox of an agent: a name, or a mapping with options.
#[derive(Debug, Clone)]
pub enum ToolboxUse {
    /// Tools of the host.
    Own(HostToolboxUse),
    /// Tools of plugins that come with the host.
    Shipped(ShippedToolboxUse),
    /// Tools of an MCP server.
    Server(McpServerUse),
}

/// A toolbox of the host that an agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostToolboxUse {
    /// The toolbox.
    pub name: HostToolbox,
    /// The names of the tools to use; `None`: all.
    pub tools: Option<Vec<String>>,
    /// `exec`: names of programs from `programs` that it may run unasked; `None`: any program, and a person is asked.
    pub programs: Option<Vec<String>>,
    /// `state`: the blackboard, whose name is the prefix of the tool names. `None`: `shared`.
    pub ns: Option<String>,
}

/// A toolbox that consists of plugins that come with the host; a short form for entries under `plugins`.
#[derive(Debug, Clone)]
pub struct ShippedToolboxUse {
    /// The toolbox.
    pub name: ShippedToolbox,
    /// The names of the tools to use; `None`: all.
    pub tools: Option<Vec<String>>,
    /// The plugins by id, in order, each with its grants.
    pub plugins: IndexMap<String, PluginUse>,
}

/// Tools of an MCP server that an agent has, and the requests that the server may make of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServerUse {
    /// The name of the server in `mcp_servers`.
    pub name: String,
    /// The server's own names of the tools to use; `None`: all.
    pub tools: Option<Vec<String>>,
    /// Asks a person before each call. `None`: only before calls of tools that the server marks as
    /// destructive.
    pub confirm: Option<bool>,
    /// Lets the server request completions from the agent's model, within the agent's budget.
    pub sampling: bool,
    /// Lets the server ask the person.
    pub elicitation: bool,
}

/// The toolboxes of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostToolbox {
    /// Asking a person. Every agent has it if there is a person who answers.
    Ask,
    /// A blackboard.
    State,
    /// The task board.
    Tasks,
    /// Notes that are kept after a run.
    Notes,
    /// Running programs.
    Exec,
    /// A git repository.
    Git,
}

impl HostToolbox {
    /// Returns `true` if a toolbox of the host or of its plugins has this name, so that no MCP server can.
    pub fn is_reserved(name: &str) -> bool {
        Self::of(name).is_ok() || ShippedToolbox::of(name).is_ok()
    }

    /// The names of all toolboxes of the host.
    pub const NAMES: [&str; 6] = ["ask", "state", "tasks", "notes", "exec", "git"];

    /// Returns the toolbox's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::State => "state",
            Self::Tasks => "tasks",
            Self::Notes => "notes",
            Self::Exec => "exec",
            Self::Git => "git",
        }
    }

    fn of(name: &str) -> Result<Self, value::Error> {
        Self::deserialize(name.into_deserializer())
    }
}

/// The toolboxes that consist of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShippedToolbox {
    /// Reading files, and proposing changes to them.
    Filesystem,
    /// Finding files, and searching in them.
    Search,
    /// HTTP requests.
    Http,
    /// JSON, tables, dates, sums, encodings, documents and differences, of arguments and of files that they read.
    Everyday,
}

impl ShippedToolbox {
    /// The names of all toolboxes that consist of plugins.
    pub const NAMES: [&str; 4] = ["filesystem", "search", "http", "everyday"];

    /// Returns the toolbox's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Search => "search",
            Self::Http => "http",
            Self::Everyday => "everyday",
        }
    }

    /// Returns the ids of its plugins.
    pub fn plugins(self) -> &'static [&'static str] {
        match self {
            Self::Filesystem => &["filesystem"],
            Self::Search => &["search"],
            Self::Http => &["fetch"],
            Self::Everyday => &["json-query", "tables", "date-time", "calculator", "encode", "convert", "compare"],
        }
    }

    /// Returns the keys that its mapping can have besides `name`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Filesystem => &["tools", "files", "ask", "confirm", "changes"],
            Self::Search => &["tools", "files", "ask", "confirm"],
            Self::Http => &["tools", "http", "ask", "confirm"],
            Self::Everyday => &["tools", "files", "confirm"],
        }
    }

    fn of(name: &str) -> Result<Self, value::Error> {
        Self::deserialize(name.into_deserializer())
    }
}

impl fmt::Display for ShippedToolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ShippedToolboxUse {
    /// Builds the uses of the plugins. Where the config does not say, they may read the project's folder, and a person is
    /// asked for further folders or servers that they turn out to lack.
    fn of(name: ShippedToolbox, full: ToolboxMapping) -> Self {
        let ToolboxMapping { name: _, tools, files, http, ask, confirm, changes, .. } = full;
        let project = || vec![FolderUse { path: ".".into(), mode: FileAccess::Read }];
        let (by_default, folders) = match name {
            ShippedToolbox::Filesystem | ShippedToolbox::Search => {
                (Some(PromptableCapability::Files), files.unwrap_or_else(project))
            }
            ShippedToolbox::Http => (Some(PromptableCapability::Http), Vec::new()),
            ShippedToolbox::Everyday => (None, files.unwrap_or_else(project)),
        };
        let files = folders.into_iter().map(|FolderUse { path, mode }| PluginFolderUse { path, name: None, mode });
        let uses = PluginUse {
            files: files.collect(),
            http: http.unwrap_or_default(),
            ask: ask.unwrap_or_else(|| by_default.into_iter().collect()),
            powers: (name == ShippedToolbox::Filesystem).then_some(Power::ProposeFiles).into_iter().collect(),
            confirm: confirm.unwrap_or_default(),
            changes: changes.unwrap_or_default(),
            ..PluginUse::default()
        };
        let of = |id: &&str| {
            // `date-time` needs the clock, and only some plugins of `everyday` read files.
            let reads = name != ShippedToolbox::Everyday || ["json-query", "tables", "encode"].contains(id);
            let files = if reads { uses.files.clone() } else { Vec::new() };
            ((*id).to_owned(), PluginUse { clock: *id == "date-time", files, ..uses.clone() })
        };
        Self { name, tools, plugins: name.plugins().iter().map(of).collect() }
    }

    /// Shows plugins that read files each folder under its absolute path, and tells them the project's folder, below which
    /// they resolve relative paths.
    pub(super) fn settle_paths(&mut self, root: &Path) {
        if !matches!(self.name, ShippedToolbox::Filesystem | ShippedToolbox::Search) {
            return;
        }
        let absolute = |path: &Path| files::normalized(&root.join(path)).to_string_lossy().into_owned();
        for uses in self.plugins.values_mut() {
            for file in &mut uses.files {
                file.name = Some(absolute(&file.path));
            }
            uses.params.insert("root".into(), absolute(Path::new("")).into());
        }
    }
}

impl ToolboxUse {
    /// Returns the name of the toolbox, or of the MCP server.
    pub fn name(&self) -> &str {
        match self {
            Self::Own(own) => own.name.name(),
            Self::Shipped(uses) => uses.name.name(),
            Self::Server(uses) => &uses.name,
        }
    }

    /// Returns the use of a toolbox of the host, if it is one.
    pub fn own(&self) -> Option<&HostToolboxUse> {
        match self {
            Self::Own(own) => Some(own),
            Self::Server(_) | Self::Shipped(_) => None,
        }
    }

    /// Returns the use of a toolbox of plugins, if it is one.
    pub fn shipped(&self) -> Option<&ShippedToolboxUse> {
        match self {
            Self::Shipped(uses) => Some(uses),
            Self::Own(_) | Self::Server(_) => None,
        }
    }

    /// Returns the use of a toolbox of plugins to be changed, if it is one.
    pub(super) fn shipped_mut(&mut self) -> Option<&mut ShippedToolboxUse> {
        match self {
            Self::Shipped(uses) => Some(uses),
            Self::Own(_) | Self::Server(_) => None,
        }
    }

    /// Returns the use of an MCP server, if it is one.
    pub fn server(&self) -> Option<&McpServerUse> {
        match self {
            Self::Own(_) | Self::Shipped(_) => None,
            Self::Server(uses) => Some(uses),
        }
    }
}

/// The mapping of any toolbox. Each toolbox has some of these keys.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolboxMapping {
    /// The name of a toolbox, or of an MCP server from `mcp_servers`.
    name: String,
    /// The names of the tools to use; `None`: all.
    tools: Option<Vec<String>>,
    /// `exec`: names of programs from `programs` that it may run unasked; `None`: any program, and a person is asked.
    programs: Option<Vec<String>>,
    /// `state`: the blackboard, whose name is the prefix of the tool names. `None`: `shared`.
    ns: Option<String>,
    /// Toolboxes of plugins: folders that they see; `None`: the project's folder, for reading.
    files: Option<Vec<FolderUse>>,
    /// `http`: requests that may be sent.
    http: Option<Vec<HttpUse>>,
    /// Toolboxes of plugins: capabilities that a person is asked for during a run when a tool lacks them.
    ask: Option<Vec<PromptableCapability>>,
    /// Asks a person before each call. `None` for an MCP server: only before calls of tools that it marks as destructive.
    confirm: Option<bool>,
    /// `filesystem`: handling of file changes that its tools propose.
    changes: Option<ChangesUse>,
    /// MCP servers: lets the server request completions from the agent's model, within the agent's budget.
    sampling: Option<bool>,
    /// MCP servers: lets the server ask the person.
    elicitation: Option<bool>,
}

impl ToolboxMapping {
    fn of<E: de::Error>(self) -> Result<ToolboxUse, E> {
        match (HostToolbox::of(&self.name), ShippedToolbox::of(&self.name)) {
            (Ok(own), _) => {
                self.has_only(match own {
                    HostToolbox::State => &["tools", "ns"],
                    HostToolbox::Exec => &["tools", "programs"],
                    HostToolbox::Ask | HostToolbox::Tasks | HostToolbox::Notes | HostToolbox::Git => &["tools"],
                })?;
                let Self { tools, programs, ns, .. } = self;
                Ok(ToolboxUse::Own(HostToolboxUse { name: own, tools, programs, ns }))
            }
            (_, Ok(shipped)) => {
                self.has_only(shipped.keys())?;
                Ok(ToolboxUse::Shipped(ShippedToolboxUse::of(shipped, self)))
            }
            _ => {
                self.has_only(&["tools", "confirm", "sampling", "elicitation"])?;
                Ok(ToolboxUse::Server(McpServerUse {
                    name: self.name,
                    tools: self.tools,
                    confirm: self.confirm,
                    sampling: self.sampling.unwrap_or_default(),
                    elicitation: self.elicitation.unwrap_or_default(),
                }))
            }
        }
    }

    /// Refuses a key that this toolbox does not have.
    fn has_only<E: de::Error>(&self, keys: &[&str]) -> Result<(), E> {
        let Self { name, tools, programs, ns, files, http, ask, confirm, changes, sampling, elicitation } = self;
        let given = [
            ("tools", tools.is_some()),
            ("programs", programs.is_some()),
            ("ns", ns.is_some()),
            ("files", files.is_some()),
            ("http", http.is_some()),
            ("ask", ask.is_some()),
            ("confirm", confirm.is_some()),
            ("changes", changes.is_some()),
            ("sampling", sampling.is_some()),
            ("elicitation", elicitation.is_some()),
        ];
        match given.iter().find(|(key, is_given)| *is_given && !keys.contains(key)) {
            None => Ok(()),
            Some((key, _)) => {
                let keys = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                let name = name.escape_debug();
                Err(E::custom(format!(
                    "`{key}` is not valid for `{name}`; remove `{key}`, valid keys besides `name`: {keys}"
                )))
            }
        }
    }
}

impl<'de> Deserialize<'de> for ToolboxUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ToolboxVisitor;
        impl<'de> de::Visitor<'de> for ToolboxVisitor {
            type Value = ToolboxUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a toolbox or of an MCP server, or a mapping with `name`")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<ToolboxUse, E> {
                ToolboxMapping { name: name.to_owned(), ..ToolboxMapping::default() }.of()
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<ToolboxUse, M::Error> {
                ToolboxMapping::deserialize(MapAccessDeserializer::new(map))?.of()
            }
        }
        from.deserialize_any(ToolboxVisitor)
    }
}

impl JsonSchema for ToolboxUse {
    fn schema_name() -> Cow<'static, str> {
        "ToolboxUse".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ToolboxMapping::json_schema(generator);
        or_text(&mut schema);
        schema
    }
}
