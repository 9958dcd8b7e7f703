use wasmtime::{
    bail,
    component::{Component, HasSelf, Linker, ResourceTable, ResourceType, types::ComponentItem},
};
use wasmtime_wasi_io::bindings::wasi::io;

use super::{wasi, wasi_http};
use crate::{
    bindings::imports,
    contract::{
        ContractVersion, ImportRequirement, ImportedInterface, PluginKind, need_of_import, need_of_interface,
        of_contract,
    },
    store::{HasGuestFilesystem, PluginState},
};
use shelly_core::capability::Grant;

/// Links the granted interfaces and no others: a guest cannot call what is not linked. The interfaces of the contract have
/// the names of `contract`, the version of the component; their functions are the same in all versions. With `wasi` the
/// WASI base is linked too, which reaches nothing but what is granted. Every function gets the state through
/// [`PluginState::called`], which counts the call.
pub fn link(
    linker: &mut Linker<PluginState>,
    contract: ContractVersion,
    grant: &Grant,
    kinds: &[PluginKind],
    wasi: bool,
) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    // Types alone: there is no function to link.
    linker.instance(&contract.qualified("types"))?;
    // Links each of these interfaces of the contract whose requirement is met.
    macro_rules! link_granted {
        ($($interface:ident as $counted:ident,)*) => {$(
            if need_of_interface(stringify!($interface)).is_some_and(|need| need.is_given_to(kinds, grant)) {
                let mut interface = linker.instance(&contract.qualified(stringify!($interface)))?;
                imports::$interface::add_to_linker_instance::<_, Own>(&mut interface, |state| {
                    state.called(ImportedInterface::$counted)
                })?;
            }
        )*};
    }
    link_granted! {
        log as Log, config as Config, progress as Progress, sink as Sink, attachments as Attachments,
        outgoing as Outgoing, chat as Chat, clock as Clock, random as Random, kv as Kv, http as Http,
        process as Process,
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
                    traps.func_new(export, |_, _, _, _| {
                        bail!("the import is not available while a plugin is examined")
                    })?;
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
    filesystem::types::add_to_linker::<_, HasGuestFilesystem>(linker, |state| {
        state.called(ImportedInterface::WasiFilesystem).opened_files()
    })?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, |state| {
        state.called(ImportedInterface::WasiFilesystem).filesystem()
    })
}

/// Links WASI's streams and polls, through which a guest uses what it was granted. By themselves they reach nothing.
fn link_streams(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    struct HasResourceTable;
    impl wasmtime::component::HasData for HasResourceTable {
        type Data<'a> = &'a mut ResourceTable;
    }
    io::error::add_to_linker::<_, HasResourceTable>(linker, |state| {
        &mut state.called(ImportedInterface::WasiIo).table
    })?;
    io::streams::add_to_linker::<_, HasResourceTable>(linker, |state| {
        &mut state.called(ImportedInterface::WasiIo).table
    })?;
    io::poll::add_to_linker::<_, HasSelf<PluginState>>(linker, |state| state.called(ImportedInterface::WasiIo))
}
