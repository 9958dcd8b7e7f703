//! The interfaces that a plugin may import, and the requirement for each.

use shelly_core::capability::{Capability, Grant};

use super::{plugin_kind::PluginKind, version::of_contract};

/// The kinds that belong to a conversation and can read it.
pub const CHAT_KINDS: &[PluginKind] = &[PluginKind::Effect, PluginKind::Tool, PluginKind::Coordinator];

/// Returns `true` if one of these kinds can read a conversation.
pub fn reads_chat(kinds: &[PluginKind]) -> bool {
    CHAT_KINDS.iter().any(|kind| kinds.contains(kind))
}

/// Returns `true` if one of these kinds can read its conversation without a grant, as far as its powers go.
pub fn has_chat(kinds: &[PluginKind]) -> bool {
    [PluginKind::Effect, PluginKind::Coordinator].iter().any(|kind| kinds.contains(kind))
}

/// The requirement for importing an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportRequirement {
    /// None: always available.
    Nothing,
    /// The plugin is of this kind.
    Kind(PluginKind),
    /// The plugin is an effect or a coordinator, or is granted `chat`.
    Chat,
    /// The plugin is granted this capability.
    Granted(Capability),
    /// The plugin is granted `files` or `http`, whose data is read through streams.
    Streams,
    /// None for the types, which `wasi:filesystem` and `wasi:http` use. Calling the functions requires the WASI base,
    /// and reading the time requires the grant `clock`.
    WasiClock,
    /// The plugin has the WASI base; real random numbers require the grant `random`.
    WasiRandom,
    /// The plugin has the WASI base; the interface reaches nothing.
    WasiBase,
}

/// The interfaces of the contract that plugins import, each with its requirement.
const OF_CONTRACT: [(&str, ImportRequirement); 12] = [
    ("log", ImportRequirement::Nothing),
    ("config", ImportRequirement::Nothing),
    ("progress", ImportRequirement::Kind(PluginKind::Tool)),
    ("sink", ImportRequirement::Kind(PluginKind::Provider)),
    ("attachments", ImportRequirement::Kind(PluginKind::Provider)),
    ("outgoing", ImportRequirement::Kind(PluginKind::ModelMiddleware)),
    ("chat", ImportRequirement::Chat),
    ("clock", ImportRequirement::Granted(Capability::Clock)),
    ("random", ImportRequirement::Granted(Capability::Random)),
    ("kv", ImportRequirement::Granted(Capability::Kv)),
    ("http", ImportRequirement::Granted(Capability::Http)),
    ("process", ImportRequirement::Granted(Capability::Programs)),
];

/// Returns the requirement of an interface of the contract; `None` if this host does not provide it.
pub fn need_of_interface(interface: &str) -> Option<ImportRequirement> {
    OF_CONTRACT.into_iter().find(|(name, _)| *name == interface).map(|(_, need)| need)
}

/// Returns the requirement of an import, by its name in the component; `None` if this host does not provide it.
pub fn need_of_import(import: &str) -> Option<ImportRequirement> {
    if let Some((interface, _)) = of_contract(import) {
        return need_of_interface(interface);
    }
    let (interface, version) = import.split_once('@')?;
    // Later versions of the series add functions at most, and the engine reports one that is missing.
    if !version.starts_with("0.2.") {
        return None;
    }
    Some(match interface {
        "wasi:filesystem/types" | "wasi:filesystem/preopens" => ImportRequirement::Granted(Capability::Files),
        "wasi:http/types" | "wasi:http/outgoing-handler" => ImportRequirement::Granted(Capability::Http),
        "wasi:io/error" | "wasi:io/poll" | "wasi:io/streams" => ImportRequirement::Streams,
        "wasi:clocks/wall-clock" | "wasi:clocks/monotonic-clock" => ImportRequirement::WasiClock,
        "wasi:random/random" | "wasi:random/insecure" | "wasi:random/insecure-seed" => ImportRequirement::WasiRandom,
        "wasi:cli/environment"
        | "wasi:cli/exit"
        | "wasi:cli/stdin"
        | "wasi:cli/stdout"
        | "wasi:cli/stderr"
        | "wasi:cli/terminal-input"
        | "wasi:cli/terminal-output"
        | "wasi:cli/terminal-stdin"
        | "wasi:cli/terminal-stdout"
        | "wasi:cli/terminal-stderr"
        | "wasi:sockets/network"
        | "wasi:sockets/instance-network"
        | "wasi:sockets/ip-name-lookup"
        | "wasi:sockets/tcp"
        | "wasi:sockets/tcp-create-socket"
        | "wasi:sockets/udp"
        | "wasi:sockets/udp-create-socket" => ImportRequirement::WasiBase,
        _ => return None,
    })
}

impl ImportRequirement {
    /// Returns `true` if the interface belongs to the WASI base: it is then linked without a grant, and reaches
    /// nothing.
    pub fn is_in_base(self) -> bool {
        matches!(
            self,
            Self::Granted(Capability::Files) | Self::Streams | Self::WasiClock | Self::WasiRandom | Self::WasiBase
        )
    }

    /// Returns a sort key for reports of missing requirements, the most telling first. An import that only the WASI
    /// base has shows a language runtime that imports all of the base; clock types come with everything that is read
    /// through them.
    pub fn says_little(self) -> u8 {
        match self {
            Self::WasiBase | Self::WasiRandom => 0,
            Self::WasiClock => 2,
            _ => 1,
        }
    }

    /// Returns the line of `[wants]` that asks for it.
    pub fn manifest_line(self) -> &'static str {
        match self {
            Self::Nothing | Self::Kind(_) => "(it comes with the kind alone)",
            Self::Chat => Capability::Chat.request_line(),
            Self::Granted(Capability::Files) => "files = \"read\"",
            Self::Granted(capability) => capability.request_line(),
            Self::Streams => "http = true, or files = \"read\"",
            Self::WasiClock | Self::WasiRandom | Self::WasiBase => "wasi = \"powerless\"",
        }
    }

    /// Returns the capability that grants it; `None` for an interface that comes with the kind or with other interfaces.
    pub fn capability(self) -> Option<Capability> {
        match self {
            Self::Nothing | Self::Kind(_) | Self::Streams | Self::WasiBase => None,
            Self::Chat => Some(Capability::Chat),
            Self::Granted(capability) => Some(capability),
            Self::WasiClock => Some(Capability::Clock),
            Self::WasiRandom => Some(Capability::Random),
        }
    }

    /// Returns `true` if a plugin of these kinds with this grant reaches something through an interface of the contract.
    pub fn is_given_to(self, kinds: &[PluginKind], granted: &Grant) -> bool {
        match self {
            Self::Nothing => true,
            Self::Kind(kind) => kinds.contains(&kind),
            Self::Chat => granted.chat || has_chat(kinds),
            Self::Granted(capability) => granted.has(capability),
            Self::Streams => granted.has(Capability::Files) || granted.has(Capability::Http),
            Self::WasiClock | Self::WasiRandom | Self::WasiBase => false,
        }
    }
}
