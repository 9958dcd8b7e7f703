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
mod process;
mod progress;
mod random;
mod sink;
mod wasi;
mod wasi_http;

pub use attachments::GuestAttachments;
pub use kv::KvBinding;
use wasmtime::{
    bail,
    component::{Component, HasSelf, Linker, Resource, ResourceTable, ResourceType, types::ComponentItem},
};
use wasmtime_wasi_io::{bindings::wasi::io, poll::DynPollable};

use super::{
    anatomy::{PluginKind, of_contract},
    bindings::imports,
    manifest::PluginManifest,
    runtime::PluginState,
};
use crate::{
    capability::{Grant, RequestedCapabilities},
    limits,
};

pub use files::{FileOpenLimiter, GuestFilesystem, InstanceFileState, NonblockingFiles};
pub use http::{GuestResponseBody, GuestUpload, PluginHttpClient};
pub use log::PluginLogQuota;
pub use wasi::{GuestExit, WasiBaseState};
pub use wasi_http::WasiHttpState;

/// The kinds that belong to a conversation which they can read.
pub const CHAT_KINDS: &[PluginKind] = &[PluginKind::Effect, PluginKind::Tool, PluginKind::Coordinator];

/// Whether one of these kinds can read a conversation.
pub fn reads_chat(kinds: &[PluginKind]) -> bool {
    CHAT_KINDS.iter().any(|kind| kinds.contains(kind))
}

/// Whether one of these kinds can read its conversation without a grant, as far as its powers go.
pub fn has_chat(kinds: &[PluginKind]) -> bool {
    [PluginKind::Effect, PluginKind::Coordinator].iter().any(|kind| kinds.contains(kind))
}

/// What it takes to import an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportRequirement {
    /// Nothing: it is always there.
    Nothing,
    /// To be of that kind.
    Kind(PluginKind),
    /// To be an effect or a coordinator, or a tool that is granted `chat`.
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
    /// To be granted `programs`.
    Programs,
    /// To be granted `files` or `http`, which are read through it.
    Streams,
    /// Nothing, if its types alone are taken, as `wasi:filesystem` and `wasi:http` take them; for its functions to have
    /// WASI's base, and to tell the time there to be granted `clock`.
    WasiClock,
    /// To have WASI's base, and for chance in it to be granted `random`.
    WasiRandom,
    /// To have WASI's base, which reaches nothing.
    WasiBase,
}

/// What it takes to import this, as the component names it; none if this host does not have it.
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
    // Later ones of the series have more functions at most, and who misses one is told so by the engine.
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
    /// Whether it is in WASI's base: then it is there without a grant, and reaches nothing.
    pub fn is_in_base(self) -> bool {
        matches!(self, Self::Files | Self::Streams | Self::WasiClock | Self::WasiRandom | Self::WasiBase)
    }

    /// How little it says of what a plugin is: one that has what only WASI's base has is of a language that imports all of it,
    /// and types of clocks come with whatever is read through them.
    pub fn says_little(self) -> u8 {
        match self {
            Self::WasiBase | Self::WasiRandom => 0,
            Self::WasiClock => 2,
            _ => 1,
        }
    }

    /// Whether the manifest asks for it.
    pub fn is_asked_for_by(self, manifest: &PluginManifest) -> bool {
        let RequestedCapabilities { files, clock, random, chat, kv, http, programs, .. } = &manifest.wants;
        if manifest.wasi && self.is_in_base() {
            return true;
        }
        match self {
            Self::Nothing => true,
            Self::Kind(kind) => manifest.kinds.contains(&kind),
            Self::Chat => *chat || has_chat(&manifest.kinds),
            Self::Clock => *clock,
            Self::Random => *random,
            Self::Files => files.is_some(),
            Self::Kv => *kv,
            Self::Http => !http.is_empty(),
            Self::Programs => *programs,
            // Types of the clocks come with them.
            Self::Streams | Self::WasiClock => files.is_some() || !http.is_empty(),
            Self::WasiRandom | Self::WasiBase => false,
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
            Self::Programs => "programs = true",
            Self::Streams => "http = true, or files = \"read\"",
            Self::WasiClock | Self::WasiRandom | Self::WasiBase => "wasi = \"powerless\"",
        }
    }

    /// The capability that gives it, by its name in manifest and config; none for what comes with the kind, or with others.
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

    /// Whether a plugin has it because of what it is, and not because it was granted.
    pub fn comes_with_kind(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        self.is_given_by(&Grant { chat: false, ..granted.clone() }, manifest) && self == Self::Chat
    }

    /// Whether a plugin that has got this can import it.
    pub fn is_linked_with(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        manifest.wasi && self.is_in_base() || self == Self::WasiClock || self.is_given_by(granted, manifest)
    }

    /// Whether a plugin that has got this reaches something by it.
    pub fn is_given_by(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        match self {
            Self::Nothing | Self::Kind(_) => true,
            Self::Chat => granted.chat || has_chat(&manifest.kinds),
            Self::Clock => granted.clock,
            Self::Random => granted.random,
            Self::WasiClock => manifest.wasi && granted.clock,
            Self::WasiRandom => manifest.wasi && granted.random,
            Self::WasiBase => false,
            Self::Files => !granted.files.is_empty(),
            Self::Kv => !granted.kv.is_empty(),
            Self::Http => !granted.http.is_empty(),
            Self::Programs => !granted.programs.is_empty(),
            Self::Streams => !granted.files.is_empty() || !granted.http.is_empty(),
        }
    }
}

/// Links what was granted, and nothing else: what is not here cannot be called, whatever the guest does. With `wasi` its base
/// is there too, which reaches nothing but what was granted. Every function reaches the state through
/// [`PluginState::called`], which counts.
pub fn link(linker: &mut Linker<PluginState>, grant: &Grant, kinds: &[PluginKind], wasi: bool) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    imports::types::add_to_linker::<_, Own>(linker, PluginState::called)?;
    imports::log::add_to_linker::<_, Own>(linker, PluginState::called)?;
    imports::config::add_to_linker::<_, Own>(linker, PluginState::called)?;
    if kinds.contains(&PluginKind::Tool) {
        imports::progress::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if kinds.contains(&PluginKind::Provider) {
        imports::sink::add_to_linker::<_, Own>(linker, PluginState::called)?;
        imports::attachments::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if kinds.contains(&PluginKind::ModelMiddleware) {
        imports::outgoing::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if grant.chat || has_chat(kinds) {
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
    if !grant.programs.is_empty() {
        imports::process::add_to_linker::<_, Own>(linker, PluginState::called)?;
    }
    if wasi || !grant.files.is_empty() || !grant.http.is_empty() {
        link_streams(linker)?;
    }
    if wasi || !grant.files.is_empty() {
        link_files(linker)?;
    }
    if wasi {
        wasi::link(linker, grant)?;
    }
    if !grant.http.is_empty() {
        imports::http::add_to_linker::<_, Own>(linker, PluginState::called)?;
        wasi_http::link(linker)?;
    }
    Ok(())
}

/// Links traps in place of all functions that a component imports beside WASI's base and what is always there, which are
/// linked. The engine's own way would also give it resources of WASI's that are none of WASI's.
pub fn link_the_rest_as_traps(linker: &mut Linker<PluginState>, component: &Component) -> wasmtime::Result<()> {
    let engine = component.engine().clone();
    for (name, import) in component.component_type().imports(&engine) {
        let is_linked =
            need_of_import(name).is_some_and(|need| need == ImportRequirement::Nothing || need.is_in_base());
        if is_linked || of_contract(name).is_some_and(|(interface, _)| interface == "types") {
            continue;
        }
        let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
        let mut traps = linker.instance(name)?;
        for (export, item) in interface.exports(&engine) {
            match item.ty {
                ComponentItem::ComponentFunc(_) => {
                    traps.func_new(export, |_, _, _, _| bail!("it is not there while a plugin is looked at"))?;
                }
                // Those of WASI's streams are the ones that are linked.
                ComponentItem::Resource(_) if !OF_STREAMS.contains(&export) => {
                    traps.resource(export, ResourceType::host::<()>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The resources that other interfaces take from `wasi:io`.
const OF_STREAMS: [&str; 4] = ["error", "pollable", "input-stream", "output-stream"];

/// WASI's file system, on the granted folders alone, if there are any.
fn link_files(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    use wasmtime_wasi::{
        filesystem::{WasiFilesystem, WasiFilesystemView},
        p2::bindings::filesystem,
    };
    filesystem::types::add_to_linker::<_, files::HasGuestFilesystem>(linker, |state| state.called().opened_files())?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, |state| state.called().filesystem())
}

/// WASI's streams, through which it reads and writes what it was granted, and what waits for them. By themselves they reach
/// nothing.
fn link_streams(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    struct HasResourceTable;
    impl wasmtime::component::HasData for HasResourceTable {
        type Data<'a> = &'a mut ResourceTable;
    }
    io::error::add_to_linker::<_, HasResourceTable>(linker, |state| &mut state.called().table)?;
    io::streams::add_to_linker::<_, HasResourceTable>(linker, |state| &mut state.called().table)?;
    io::poll::add_to_linker::<_, HasSelf<PluginState>>(linker, PluginState::called)
}

/// What wasmtime-wasi does, for no more at once than there can be.
impl io::poll::Host for PluginState {
    async fn poll(&mut self, list: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        if list.len() > limits::PLUGIN_HANDLES {
            let (most, asked) = (limits::PLUGIN_HANDLES, list.len());
            bail!("it waits for {asked} things at once, and at most {most} handles are given");
        }
        self.meter.count_host_calls(list.len() as u64);
        io::poll::Host::poll(&mut self.table, list).await
    }
}

impl io::poll::HostPollable for PluginState {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.table.ready(pollable).await
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.table.block(pollable).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        io::poll::HostPollable::drop(&mut self.table, pollable)
    }
}

impl imports::types::Host for PluginState {}
