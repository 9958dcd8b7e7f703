//! Tools that an agent has beside its plugins: those of the host, and those of MCP servers.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, IntoDeserializer,
        value::{self, MapAccessDeserializer},
    },
};

use super::explain::NOT_YET_VALUES;

/// Tools that an agent has: a name, or a mapping with more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolboxUse {
    /// Tools of the host.
    Own(OwnToolbox),
    /// Tools of an MCP server.
    Server(ServerUse),
}

/// Tools of the host that an agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnToolbox {
    /// Which.
    pub name: Toolbox,
    /// Only these of its tools; none: all.
    pub tools: Option<Vec<String>>,
    /// `state`: which blackboard; it stands before the names of its tools. None: `shared`.
    pub ns: Option<String>,
}

/// Tools of an MCP server that an agent has, and what the server may do for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerUse {
    /// The server, by its name in `mcp_servers`.
    pub name: String,
    /// Only these of its tools, by the server's own names; none: all.
    pub tools: Option<Vec<String>>,
    /// Whether a person is asked before each call of its tools.
    pub confirm: bool,
    /// Whether it may have the agent's model reply to it, within the agent's budget.
    pub sampling: bool,
    /// Whether it may ask the person.
    pub elicitation: bool,
}

/// The toolboxes of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Toolbox {
    /// Ask a person. Where somebody is there to answer every agent has it.
    Ask,
    /// A blackboard.
    State,
    /// The task board.
    Tasks,
    /// Notes that outlast a run.
    Notes,
}

impl Toolbox {
    /// Their names, and those that are kept for later ones: no MCP server has one of these.
    pub fn is_reserved(name: &str) -> bool {
        Self::of(name).is_ok() || NOT_YET_VALUES.contains(&name)
    }

    /// The names of all of them.
    pub const NAMES: [&str; 4] = ["ask", "state", "tasks", "notes"];

    fn of(name: &str) -> Result<Self, value::Error> {
        Self::deserialize(name.into_deserializer())
    }
}

impl ToolboxUse {
    /// What an agent has of a server, if these are a server's.
    pub fn server(&self) -> Option<&ServerUse> {
        match self {
            Self::Own(_) => None,
            Self::Server(uses) => Some(uses),
        }
    }
}

/// A mapping, whichever of the two it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    name: String,
    tools: Option<Vec<String>>,
    ns: Option<String>,
    confirm: Option<bool>,
    sampling: Option<bool>,
    elicitation: Option<bool>,
}

impl Full {
    fn of<E: de::Error>(self) -> Result<ToolboxUse, E> {
        let Self { name, tools, ns, confirm, sampling, elicitation } = self;
        let for_servers = [("confirm", confirm), ("sampling", sampling), ("elicitation", elicitation)];
        match Toolbox::of(&name) {
            Ok(own) => match for_servers.iter().find(|(_, given)| given.is_some()) {
                None if ns.is_some() && own != Toolbox::State => {
                    Err(E::custom("`ns` is for the toolbox `state`; remove it"))
                }
                None => Ok(ToolboxUse::Own(OwnToolbox { name: own, tools, ns })),
                Some((key, _)) => Err(E::custom(format!("`{key}` is for MCP servers; remove it"))),
            },
            // Later ones, and nothing that a server is called.
            Err(_) if NOT_YET_VALUES.contains(&name.as_str()) => Err(E::unknown_variant(&name, &Toolbox::NAMES)),
            Err(_) if ns.is_some() => Err(E::custom("`ns` is for the toolbox `state`; remove it")),
            Err(_) => Ok(ToolboxUse::Server(ServerUse {
                name,
                tools,
                confirm: confirm.unwrap_or_default(),
                sampling: sampling.unwrap_or_default(),
                elicitation: elicitation.unwrap_or_default(),
            })),
        }
    }
}

impl<'de> Deserialize<'de> for ToolboxUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ToolboxUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a toolbox or of an MCP server, or a mapping with `name`")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<ToolboxUse, E> {
                let name = name.to_owned();
                Full { name, tools: None, ns: None, confirm: None, sampling: None, elicitation: None }.of()
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<ToolboxUse, M::Error> {
                Full::deserialize(MapAccessDeserializer::new(map))?.of()
            }
        }
        from.deserialize_any(Visitor)
    }
}
