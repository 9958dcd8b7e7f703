use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::{
    cli::{WasiCli, WasiCliCtxView},
    p2::bindings::{cli, sockets},
    sockets::{WasiSockets, WasiSocketsCtxView},
};

use super::{clocks, random};
use crate::{
    contract::ImportedInterface,
    store::{GuestExit, PluginState},
};
use shelly_core::capability::Grant;

/// Links the WASI base except for files, HTTP and streams, which are linked with their grants. Without a grant the real
/// clocks and random numbers are not linked at all, so there is no code path to them.
pub fn link(linker: &mut Linker<PluginState>, grant: &Grant) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    cli::environment::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, |state| state.called(ImportedInterface::WasiCli).cli())?;
    cli::exit::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiCli))?;
    cli::stdout::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiCli))?;
    cli::stderr::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiCli))?;
    clocks::link(linker, grant.clock)?;
    random::link(linker, grant.random)?;
    link_sockets(linker)
}

/// Links sockets that allow no address: every socket and every name lookup is refused.
fn link_sockets(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &options, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, |state| {
        state.called(ImportedInterface::WasiSockets).sockets()
    })
}

impl PluginState {
    fn cli(&mut self) -> WasiCliCtxView<'_> {
        WasiCliCtxView { ctx: &mut self.base.cli, table: &mut self.table }
    }

    fn sockets(&mut self) -> WasiSocketsCtxView<'_> {
        // The default context allows nothing.
        WasiSocketsCtxView { ctx: self.base.sockets.get_or_insert_default(), table: &mut self.table }
    }
}

impl cli::exit::Host for PluginState {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(GuestExit { code: status.is_err().into() }.into())
    }

    fn exit_with_code(&mut self, code: u8) -> wasmtime::Result<()> {
        Err(GuestExit { code }.into())
    }
}
