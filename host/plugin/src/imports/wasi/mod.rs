//! The base of WASI without any power in it, for plugins whose manifest says `wasi = "powerless"`: runtimes of other
//! languages import all of it, whatever the program does.
//!
//! | interface | content for a plugin | with a grant |
//! |---|---|---|
//! | `wasi:cli/environment` | no variables, no arguments, no working directory | |
//! | `wasi:cli/exit` | ends the call, which is an error | |
//! | `wasi:cli/stdin` | is at its end | |
//! | `wasi:cli/stdout`, `stderr` | each line is an entry of the plugin's log, within its limits | |
//! | `wasi:cli/terminal-*` | there is none | |
//! | `wasi:clocks/wall-clock` | stands still at the beginning of 1970 | `clock`: the time, in milliseconds |
//! | `wasi:clocks/monotonic-clock` | a step per reading; waits are real, within the call's time | `clock`: nanoseconds |
//! | `wasi:random/*` | the same numbers in each instance | `random`: random numbers |
//! | `wasi:filesystem/*` | no folder | `files`: the granted ones |
//! | `wasi:sockets/*` | every socket and every name is refused | |
//! | `wasi:io/*` | works on the resources of the other interfaces | |
//!
//! Nothing of this process is exposed: no stream, variable, argument, folder or address. wasmtime-wasi implements the
//! parts that reach nothing; clocks, random numbers and output are implemented here, because wasmtime-wasi's are those
//! of the process. Every version 0.2 of WASI is accepted, as the engine's linker accepts it.

mod clocks;
mod random;
mod stdio;

use std::sync::Arc;

use stdio::GuestOutputStream;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::{
    cli::{WasiCli, WasiCliCtx, WasiCliCtxView},
    p2::bindings::{cli, sockets},
    sockets::{WasiSockets, WasiSocketsCtx, WasiSocketsCtxView},
};

use super::PluginLogQuota;
use crate::runtime::{CallMeter, PluginState};
use shelly_core::{capability::Grant, event::RunCx};

/// The state of the WASI base in one instance.
#[derive(Default)]
pub struct WasiBaseState {
    /// No variables, arguments or folders; standard input at its end.
    cli: WasiCliCtx,
    /// Allows no address; created on first use.
    sockets: Option<WasiSocketsCtx>,
    /// Standard output, once the guest has asked for it.
    stdout: Option<GuestOutputStream>,
    /// Standard error, once the guest has asked for it.
    stderr: Option<GuestOutputStream>,
    /// The value of the frozen clock.
    frozen: clocks::FrozenClock,
    /// The state of the deterministic random numbers.
    fixed: random::DeterministicRandom,
}

impl WasiBaseState {
    /// Begins the next call of a kept instance: further output is logged for that call.
    pub fn begin(&self, cx: &RunCx, logged: &PluginLogQuota, meter: &Arc<CallMeter>) {
        for output in [&self.stdout, &self.stderr].into_iter().flatten() {
            output.begin(cx, logged, meter);
        }
    }

    /// Logs the rest of a call's standard output and error: lines that it did not wait for, and a last line without an
    /// end.
    pub async fn flush(&mut self) {
        // Takes `&mut self`, since wasmtime-wasi's context cannot be shared between threads.
        for output in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
            output.flush().await;
        }
    }
}

/// The error that ends a call when its guest calls `exit`.
#[derive(Debug, thiserror::Error)]
#[error("it ended itself with exit code {code}")]
pub struct GuestExit {
    pub code: u8,
}

/// Links the WASI base except for files, HTTP and streams, which are linked with their grants. Without a grant the real
/// clocks and random numbers are not linked at all, so there is no code path to them.
pub fn link(linker: &mut Linker<PluginState>, grant: &Grant) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    cli::environment::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, |state| state.called().cli())?;
    cli::exit::add_to_linker::<_, Own>(linker, PluginState::called)?;
    cli::stdout::add_to_linker::<_, Own>(linker, PluginState::called)?;
    cli::stderr::add_to_linker::<_, Own>(linker, PluginState::called)?;
    clocks::link(linker, grant.clock)?;
    random::link(linker, grant.random)?;
    link_sockets(linker)
}

/// Links sockets that allow no address: every socket and every name lookup is refused.
fn link_sockets(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &options, |state| state.called().sockets())?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, |state| state.called().sockets())?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, |state| state.called().sockets())?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, |state| state.called().sockets())?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, |state| state.called().sockets())?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, |state| state.called().sockets())?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, |state| state.called().sockets())
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
