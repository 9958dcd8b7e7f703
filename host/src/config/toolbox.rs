//! Tools that an agent has by the name of a box: those of the host, those of plugins that come with it, and those of MCP
//! servers.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, IntoDeserializer,
        value::{self, MapAccessDeserializer},
    },
};

use super::{ChangesUse, FolderUse, HttpUse, PluginFolderUse, PluginUse};
use crate::capability::{FileAccess, Power, PromptableCapability};

/// Tools that an agent has: a name, or a mapping with more.
#[derive(Debug, Clone)]
pub enum ToolboxUse {
    /// Tools of the host.
    Own(HostToolboxUse),
    /// Tools of plugins that come with the host.
    Shipped(ShippedToolboxUse),
    /// Tools of an MCP server.
    Server(McpServerUse),
}

/// Tools of the host that an agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostToolboxUse {
    /// Which.
    pub name: HostToolbox,
    /// Only these of its tools; none: all.
    pub tools: Option<Vec<String>>,
    /// `exec`: the programs that it may run unasked, by their names in `programs`; none: any, and a person is asked.
    pub programs: Option<Vec<String>>,
    /// `state`: which blackboard; it stands before the names of its tools. None: `shared`.
    pub ns: Option<String>,
}

/// Plugins that come with the host, and what each may do for an agent: the same as under `plugins`, said shortly.
#[derive(Debug, Clone)]
pub struct ShippedToolboxUse {
    /// Which.
    pub name: ShippedToolbox,
    /// Only these of their tools; none: all.
    pub tools: Option<Vec<String>>,
    /// The plugins by id, in order.
    pub plugins: IndexMap<String, PluginUse>,
}

/// Tools of an MCP server that an agent has, and what the server may do for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServerUse {
    /// The server, by its name in `mcp_servers`.
    pub name: String,
    /// Only these of its tools, by the server's own names; none: all.
    pub tools: Option<Vec<String>>,
    /// Whether a person is asked before each call of its tools; none: before those of tools that it says may destroy something.
    pub confirm: Option<bool>,
    /// Whether it may have the agent's model reply to it, within the agent's budget.
    pub sampling: bool,
    /// Whether it may ask the person.
    pub elicitation: bool,
}

/// The toolboxes of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostToolbox {
    /// Ask a person. Where somebody is there to answer every agent has it.
    Ask,
    /// A blackboard.
    State,
    /// The task board.
    Tasks,
    /// Notes that outlast a run.
    Notes,
    /// Programs.
    Exec,
    /// A repository.
    Git,
}

impl HostToolbox {
    /// Their names and those of plugins: no MCP server has one of these.
    pub fn is_reserved(name: &str) -> bool {
        Self::of(name).is_ok() || ShippedToolbox::of(name).is_ok()
    }

    /// The names of all of them.
    pub const NAMES: [&str; 6] = ["ask", "state", "tasks", "notes", "exec", "git"];

    /// Its name.
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

/// The toolboxes that are plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShippedToolbox {
    /// Reading files, and proposing changes to them.
    Filesystem,
    /// Looking for files, and in them.
    Search,
    /// Requests to servers.
    Http,
    /// JSON, tables, dates, sums, encodings, documents, differences: of what they are handed, and of files that they read.
    Everyday,
}

impl ShippedToolbox {
    /// The names of all of them.
    pub const NAMES: [&str; 4] = ["filesystem", "search", "http", "everyday"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Search => "search",
            Self::Http => "http",
            Self::Everyday => "everyday",
        }
    }

    /// The ids of its plugins.
    pub fn plugins(self) -> &'static [&'static str] {
        match self {
            Self::Filesystem => &["filesystem"],
            Self::Search => &["search"],
            Self::Http => &["fetch"],
            Self::Everyday => &["json-query", "tables", "date-time", "calculator", "encode", "convert", "compare"],
        }
    }

    /// The keys that one of them can have beside its name.
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
    /// What an agent gives the plugins where its config says no more: the project's folder to read, and a person is asked for
    /// what turns out to be lacking.
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
            // What time it is takes a clock; of the everyday ones some read files.
            let reads = name != ShippedToolbox::Everyday || ["json-query", "tables", "encode"].contains(id);
            let files = if reads { uses.files.clone() } else { Vec::new() };
            ((*id).to_owned(), PluginUse { clock: *id == "date-time", files, ..uses.clone() })
        };
        Self { name, tools, plugins: name.plugins().iter().map(of).collect() }
    }

    /// Has plugins that read files see each folder under its absolute path, and know the project's: paths that are not
    /// absolute are below it.
    pub(super) fn settle_paths(&mut self, root: &Path) {
        if !matches!(self.name, ShippedToolbox::Filesystem | ShippedToolbox::Search) {
            return;
        }
        let absolute = |path: &Path| plain(&root.join(path)).to_string_lossy().into_owned();
        for uses in self.plugins.values_mut() {
            for file in &mut uses.files {
                file.name = Some(absolute(&file.path));
            }
            uses.params.insert("root".into(), absolute(Path::new("")).into());
        }
    }
}

/// A path without `.` and `..`, whatever lies there.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
        plain
    })
}

impl ToolboxUse {
    /// What an agent has of the host, if these are tools of it.
    pub fn own(&self) -> Option<&HostToolboxUse> {
        match self {
            Self::Own(own) => Some(own),
            Self::Server(_) | Self::Shipped(_) => None,
        }
    }

    /// The plugins that these are, if they are.
    pub fn shipped(&self) -> Option<&ShippedToolboxUse> {
        match self {
            Self::Shipped(uses) => Some(uses),
            Self::Own(_) | Self::Server(_) => None,
        }
    }

    /// What an agent has of a server, if these are a server's.
    pub fn server(&self) -> Option<&McpServerUse> {
        match self {
            Self::Own(_) | Self::Shipped(_) => None,
            Self::Server(uses) => Some(uses),
        }
    }
}

/// A mapping, whichever of them it is.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolboxMapping {
    name: String,
    tools: Option<Vec<String>>,
    programs: Option<Vec<String>>,
    ns: Option<String>,
    files: Option<Vec<FolderUse>>,
    http: Option<Vec<HttpUse>>,
    ask: Option<Vec<PromptableCapability>>,
    confirm: Option<bool>,
    changes: Option<ChangesUse>,
    sampling: Option<bool>,
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

    /// Refuses a key that such a toolbox has no use for.
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
                Err(E::custom(format!("`{key}` is not for `{name}`; remove it: beside its name it has {keys}")))
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
