//! What a plugin may import: one file an interface, and the table of what each one takes.

mod attachments;
mod chat;
mod clock;
mod config;
mod files;
mod http;
mod kv;
mod log;
mod outgoing;
mod progress;
mod random;
mod sink;
mod wasi_http;

pub use attachments::Attachments;
pub use kv::KvBinding;
use wasmtime::component::{HasSelf, Linker, ResourceTable};

use super::{
    anatomy::{Kind, of_contract},
    bindings::imports,
    manifest::Manifest,
    runtime::PluginState,
};
use crate::capability::{Grant, Wants};

pub use files::{Files, Listings, Opening};
pub use http::{Asker, ResponseBody, Upload};
pub use wasi_http::WasiDoor;

/// The kinds that belong to a conversation which they can read.
pub const CHAT_KINDS: &[Kind] = &[Kind::Effect, Kind::Tool];

/// Whether one of these kinds can read a conversation.
pub fn reads_chat(kinds: &[Kind]) -> bool {
    CHAT_KINDS.iter().any(|kind| kinds.contains(kind))
}

/// What it takes to import an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is always there.
    Nothing,
    /// To be of that kind.
    Kind(Kind),
    /// To be an effect, or a tool that is granted `chat`.
    Chat,
    /// To be granted `clock`.
    Clock,
    /// To be granted `random`.
    Random,
    /// To be granted `files`.
    Files,
    /// To be granted `kv`.
    Kv,
    /// To be granted `http`.
    Http,
    /// To be granted `files` or `http`, which are read through it.
    Streams,
}

/// What it takes to import this, as the component names it; none if this host does not have it.
pub fn need_of_import(import: &str) -> Option<Need> {
    if let Some((interface, _)) = of_contract(import) {
        return Some(match interface {
            "log" | "config" => Need::Nothing,
            "progress" => Need::Kind(Kind::Tool),
            "sink" | "attachments" => Need::Kind(Kind::Provider),
            "outgoing" => Need::Kind(Kind::ModelMiddleware),
            "chat" => Need::Chat,
            "clock" => Need::Clock,
            "random" => Need::Random,
            "kv" => Need::Kv,
            "http" => Need::Http,
            _ => return None,
        });
    }
    Some(match import.split_once('@').map_or(import, |(interface, _)| interface) {
        "wasi:filesystem/types" | "wasi:filesystem/preopens" => Need::Files,
        "wasi:http/types" | "wasi:http/outgoing-handler" => Need::Http,
        "wasi:io/error" | "wasi:io/poll" | "wasi:io/streams" => Need::Streams,
        // `wasi:filesystem/types` takes a type from the one and `wasi:http/types` from the other; their functions are not
        // linked.
        "wasi:clocks/wall-clock" => Need::Files,
        "wasi:clocks/monotonic-clock" => Need::Http,
        _ => return None,
    })
}

/// Whether a plugin only takes types from this import: no function of it is ever linked.
pub fn holds_types_alone(import: &str) -> bool {
    ["wasi:clocks/wall-clock@", "wasi:clocks/monotonic-clock@"].iter().any(|clock| import.starts_with(clock))
}

impl Need {
    /// Whether the manifest asks for it.
    pub fn is_asked_for_by(self, manifest: &Manifest) -> bool {
        let Wants { files, clock, random, chat, kv, http, .. } = &manifest.wants;
        match self {
            Self::Nothing => true,
            Self::Kind(kind) => manifest.kinds.contains(&kind),
            Self::Chat => *chat || manifest.kinds.contains(&Kind::Effect),
            Self::Clock => *clock,
            Self::Random => *random,
            Self::Files => files.is_some(),
            Self::Kv => *kv,
            Self::Http => !http.is_empty(),
            Self::Streams => files.is_some() || !http.is_empty(),
        }
    }

    /// The line of `[wants]` that asks for it.
    pub fn manifest_line(self) -> &'static str {
        match self {
            Self::Nothing | Self::Kind(_) => "(it comes with the kind alone)",
            Self::Chat => "chat = true",
            Self::Clock => "clock = true",
            Self::Random => "random = true",
            Self::Files => "files = \"read\"",
            Self::Kv => "kv = true",
            Self::Http => "http = true",
            Self::Streams => "http = true, or files = \"read\"",
        }
    }

    /// The capability that gives it, by its name in manifest and config; none for what comes with the kind, or with others.
    pub fn capability(self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Kind(_) | Self::Streams => None,
            Self::Chat => Some("chat"),
            Self::Clock => Some("clock"),
            Self::Random => Some("random"),
            Self::Files => Some("files"),
            Self::Kv => Some("kv"),
            Self::Http => Some("http"),
        }
    }

    /// Whether a plugin has it because of what it is, and not because it was granted.
    pub fn comes_with_kind(self, granted: &Grant, manifest: &Manifest) -> bool {
        self.is_given_by(&Grant { chat: false, ..granted.clone() }, manifest) && self == Self::Chat
    }

    /// Whether a plugin that has got this can import it.
    pub fn is_given_by(self, granted: &Grant, manifest: &Manifest) -> bool {
        match self {
            Self::Nothing | Self::Kind(_) => true,
            Self::Chat => granted.chat || manifest.kinds.contains(&Kind::Effect),
            Self::Clock => granted.clock,
            Self::Random => granted.random,
            Self::Files => !granted.files.is_empty(),
            Self::Kv => !granted.kv.is_empty(),
            Self::Http => !granted.http.is_empty(),
            Self::Streams => !granted.files.is_empty() || !granted.http.is_empty(),
        }
    }
}

/// Links what was granted, and nothing else: what is not here cannot be called, whatever the guest does. Every function
/// reaches the state through [`PluginState::called`], which counts.
pub fn link(linker: &mut Linker<PluginState>, grant: &Grant, kinds: &[Kind]) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    imports::types::add_to_linker::<_, Own>(linker, PluginState::called)?;
    imports::log::add_to_linker::<_, Own>(linker, PluginState::called)?;
    imports::config::add_to_linker::<_, Own>(linker, PluginState::called)?;
    if kinds.contains(&Kind::Tool) {
        imports::progress::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if kinds.contains(&Kind::Provider) {
        imports::sink::add_to_linker::<_, Own>(linker, PluginState::called)?;
        imports::attachments::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if kinds.contains(&Kind::ModelMiddleware) {
        imports::outgoing::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if grant.chat || kinds.contains(&Kind::Effect) {
        imports::chat::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if grant.clock {
        imports::clock::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if grant.random {
        imports::random::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if !grant.kv.is_empty() {
        imports::kv::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if !grant.files.is_empty() || !grant.http.is_empty() {
        link_streams(linker)?;
    }
    if !grant.files.is_empty() {
        link_files(linker)?;
    }
    if !grant.http.is_empty() {
        imports::http::add_to_linker::<_, Own>(linker, PluginState::called)?;
        wasi_http::link(linker)?;
    }
    Ok(())
}

/// WASI's file system, on the granted folders alone.
fn link_files(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    use wasmtime_wasi::{
        filesystem::{WasiFilesystem, WasiFilesystemView},
        p2::bindings::filesystem,
    };
    filesystem::types::add_to_linker::<_, files::HasFiles>(linker, |state| state.called().opened_files())?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, |state| state.called().filesystem())
}

/// WASI's streams, through which it reads and writes what it was granted, and what waits for them. By themselves they reach
/// nothing.
fn link_streams(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    use wasmtime_wasi_io::bindings::wasi::io;
    struct Table;
    impl wasmtime::component::HasData for Table {
        type Data<'a> = &'a mut ResourceTable;
    }
    io::error::add_to_linker::<_, Table>(linker, |state| &mut state.called().table)?;
    io::poll::add_to_linker::<_, Table>(linker, |state| &mut state.called().table)?;
    io::streams::add_to_linker::<_, Table>(linker, |state| &mut state.called().table)
}

impl imports::types::Host for PluginState {}
