//! The base of WASI without any power in it, for plugins whose manifest says `wasi = "powerless"`: runtimes of other languages
//! import all of it whatever they do.
//!
//! | interface | what a plugin finds there | with a grant |
//! |---|---|---|
//! | `wasi:cli/environment` | no variables, no arguments, no working directory | |
//! | `wasi:cli/exit` | ends the call, which is an error | |
//! | `wasi:cli/stdin` | is at its end | |
//! | `wasi:cli/stdout`, `stderr` | each line is an entry of the plugin's log, within its bounds | |
//! | `wasi:cli/terminal-*` | there is none | |
//! | `wasi:clocks/wall-clock` | stands still at the beginning of 1970 | `clock`: the time, in milliseconds |
//! | `wasi:clocks/monotonic-clock` | goes on by a step with each reading; waits are real, within the call's time | `clock`: the nanoseconds of the call |
//! | `wasi:random/*` | the same numbers in each instance | `random`: chance |
//! | `wasi:filesystem/*` | no folder | `files`: the granted ones |
//! | `wasi:sockets/*` | every socket and every name is refused | |
//! | `wasi:io/*` | works on what the others hand out | |
//!
//! Nothing of this process is among it: no stream, variable, argument, folder or address. What wasmtime-wasi does without
//! reaching anything it does; clocks, chance and output are ours, because its own are those of the process. Every version
//! 0.2 of WASI is taken, as the engine's linker takes it.

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
use crate::{
    capability::Grant,
    event::RunCx,
    plugin::runtime::{CallMeter, PluginState},
};

/// What one call has of it.
#[derive(Default)]
pub struct WasiBaseState {
    /// No variable, no argument, no folder; standard input at its end.
    cli: WasiCliCtx,
    /// No address; made for who asks.
    sockets: Option<WasiSocketsCtx>,
    /// Lines of its standard output and of its standard error.
    stdout: Option<GuestOutputStream>,
    stderr: Option<GuestOutputStream>,
    /// What the clock that stands still says.
    frozen: clocks::FrozenClock,
    /// Where the numbers that are the same in each call have come to.
    fixed: random::DeterministicRandom,
}

impl WasiBaseState {
    /// The next call of an instance that is kept: what it writes from now on is logged there.
    pub fn begin(&self, cx: &RunCx, logged: &PluginLogQuota, meter: &Arc<CallMeter>) {
        for output in [&self.stdout, &self.stderr].into_iter().flatten() {
            output.begin(cx, logged, meter);
        }
    }

    /// Tells what a call has left in its standard output and error: lines that it did not wait for, and a last one that it
    /// did not end.
    pub async fn flush(&mut self) {
        // Not through `&self`: what stands for the process's own streams cannot be shared between threads.
        for output in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
            output.flush().await;
        }
    }
}

/// What it ends with when a guest calls `exit`.
#[derive(Debug, thiserror::Error)]
#[error("it ended itself with exit code {code}")]
pub struct GuestExit {
    pub code: u8,
}

/// Links all of it but files, HTTP and streams, which are linked with what is granted of them. Of clocks and chance those
/// that were not granted are not there: there is no code path to them.
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

/// There is no address that a guest may reach through them: it gets no socket and no name looked up.
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
        // By default nothing is allowed.
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
