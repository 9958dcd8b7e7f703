//! The interfaces that a plugin may import, one file per interface, and the requirements of each.

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
use shelly_core::{
    capability::{Capability, Grant},
    limits,
};

pub use files::{FileOpenLimiter, GuestFilesystem, InstanceFileState, NonblockingFiles};
pub use http::{GuestResponseBody, GuestUpload, PluginHttpClient};
pub use log::PluginLogQuota;
pub use wasi::{GuestExit, WasiBaseState};
pub use wasi_http::WasiHttpState;

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

    /// Returns `true` if the manifest asks for it.
    pub fn is_asked_for_by(self, manifest: &PluginManifest) -> bool {
        if manifest.wasi && self.is_in_base() {
            return true;
        }
        let wanted = manifest.wants.grant();
        match self {
            // Files and HTTP use types of the clocks.
            Self::WasiClock => Self::Streams.is_given_to(&manifest.kinds, &wanted),
            need => need.is_given_to(&manifest.kinds, &wanted),
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

    /// Returns `true` if a plugin has the interface because of its kind, without a grant.
    pub fn comes_with_kind(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        self.is_given_by(&Grant { chat: false, ..granted.clone() }, manifest) && self == Self::Chat
    }

    /// Returns `true` if a plugin with this grant can import it.
    pub fn is_linked_with(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        manifest.wasi && self.is_in_base() || self == Self::WasiClock || self.is_given_by(granted, manifest)
    }

    /// Returns `true` if a plugin with this grant reaches something through it.
    pub fn is_given_by(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        match self {
            Self::Kind(_) => true,
            Self::WasiClock => manifest.wasi && granted.clock,
            Self::WasiRandom => manifest.wasi && granted.random,
            need => need.is_given_to(&manifest.kinds, granted),
        }
    }
}

/// Links the granted interfaces and no others: a guest cannot call what is not linked. With `wasi` the WASI base is
/// linked too, which reaches nothing but what is granted. Every function gets the state through
/// [`PluginState::called`], which counts the call.
pub fn link(linker: &mut Linker<PluginState>, grant: &Grant, kinds: &[PluginKind], wasi: bool) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    imports::types::add_to_linker::<_, Own>(linker, PluginState::called)?;
    // Links each of these interfaces of the contract whose requirement is met.
    macro_rules! link_granted {
        ($($interface:ident)*) => {$(
            if need_of_interface(stringify!($interface)).is_some_and(|need| need.is_given_to(kinds, grant)) {
                imports::$interface::add_to_linker::<_, Own>(linker, PluginState::called)?;
            }
        )*};
    }
    link_granted!(log config progress sink attachments outgoing chat clock random kv http process);
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
        wasi_http::link(linker)?;
    }
    Ok(())
}

/// Links a trap for each imported function that belongs neither to the WASI base nor to the interfaces that are always
/// linked. The engine's own method would also define resources of WASI's streams again, apart from those that are
/// linked.
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
                // The resources of WASI's streams are linked already.
                ComponentItem::Resource(_) if !OF_STREAMS.contains(&export) => {
                    traps.resource(export, ResourceType::host::<()>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The resources of `wasi:io` that other interfaces use.
const OF_STREAMS: [&str; 4] = ["error", "pollable", "input-stream", "output-stream"];

/// Links WASI's file system, with the granted folders alone.
fn link_files(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    use wasmtime_wasi::{
        filesystem::{WasiFilesystem, WasiFilesystemView},
        p2::bindings::filesystem,
    };
    filesystem::types::add_to_linker::<_, files::HasGuestFilesystem>(linker, |state| state.called().opened_files())?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, |state| state.called().filesystem())
}

/// Links WASI's streams and polls, through which a guest uses what it was granted. By themselves they reach nothing.
fn link_streams(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    struct HasResourceTable;
    impl wasmtime::component::HasData for HasResourceTable {
        type Data<'a> = &'a mut ResourceTable;
    }
    io::error::add_to_linker::<_, HasResourceTable>(linker, |state| &mut state.called().table)?;
    io::streams::add_to_linker::<_, HasResourceTable>(linker, |state| &mut state.called().table)?;
    io::poll::add_to_linker::<_, HasSelf<PluginState>>(linker, PluginState::called)
}

/// Polls like wasmtime-wasi, but at most as many pollables as there can be handles.
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
