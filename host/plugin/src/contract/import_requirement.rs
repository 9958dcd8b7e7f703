//! The interfaces that a plugin may import, and the requirement for each.

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
    /// The plugin is granted `clock`.
    Clock,
    /// The plugin is granted `random`.
    Random,
    /// The plugin is granted `files`.
    Files,
    /// The plugin is granted `kv`.
    Kv,
    /// The plugin is granted `http`.
    Http,
    /// The plugin is granted `programs`.
    Programs,
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

/// Returns the requirement of an import, by its name in the component; `None` if this host does not provide it.
pub fn need_of_import(import: &str) -> Option<ImportRequirement> {
    if let Some((interface, _)) = of_contract(import) {
        return Some(match interface {
            "log" | "config" => ImportRequirement::Nothing,
            "progress" => ImportRequirement::Kind(PluginKind::Tool),
            "sink" | "attachments" => ImportRequirement::Kind(PluginKind::Provider),
            "outgoing" => ImportRequirement::Kind(PluginKind::ModelMiddleware),
            "chat" => ImportRequirement::Chat,
            "clock" => ImportRequirement::Clock,
            "random" => ImportRequirement::Random,
            "kv" => ImportRequirement::Kv,
            "http" => ImportRequirement::Http,
            "process" => ImportRequirement::Programs,
            _ => return None,
        });
    }
    let (interface, version) = import.split_once('@')?;
    // Later versions of the series add functions at most, and the engine reports one that is missing.
    if !version.starts_with("0.2.") {
        return None;
    }
    Some(match interface {
        "wasi:filesystem/types" | "wasi:filesystem/preopens" => ImportRequirement::Files,
        "wasi:http/types" | "wasi:http/outgoing-handler" => ImportRequirement::Http,
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
        matches!(self, Self::Files | Self::Streams | Self::WasiClock | Self::WasiRandom | Self::WasiBase)
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
            Self::Chat => "chat = true",
            Self::Clock => "clock = true",
            Self::Random => "random = true",
            Self::Files => "files = \"read\"",
            Self::Kv => "kv = true",
            Self::Http => "http = true",
            Self::Programs => "programs = true",
            Self::Streams => "http = true, or files = \"read\"",
            Self::WasiClock | Self::WasiRandom | Self::WasiBase => "wasi = \"powerless\"",
        }
    }

    /// Returns the capability that grants it, by its name in manifest and config; `None` for an interface that comes
    /// with the kind or with other interfaces.
    pub fn capability(self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Kind(_) | Self::Streams | Self::WasiBase => None,
            Self::Chat => Some("chat"),
            Self::Clock | Self::WasiClock => Some("clock"),
            Self::Random | Self::WasiRandom => Some("random"),
            Self::Files => Some("files"),
            Self::Kv => Some("kv"),
            Self::Http => Some("http"),
            Self::Programs => Some("programs"),
        }
    }
}
