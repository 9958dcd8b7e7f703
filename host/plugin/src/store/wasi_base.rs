use std::sync::Arc;

use wasmtime_wasi::{cli::WasiCliCtx, sockets::WasiSocketsCtx};

use super::{
    deterministic_random::DeterministicRandom, frozen_clock::FrozenClock, guest_output::GuestOutputStream,
    log_quota::PluginLogQuota,
};
use crate::metering::CallMeter;
use shelly_core::event::RunCx;

/// The state of the WASI base in one instance.
#[derive(Default)]
pub struct WasiBaseState {
    /// No variables, arguments or folders; standard input at its end.
    pub cli: WasiCliCtx,
    /// Allows no address; created on first use.
    pub sockets: Option<WasiSocketsCtx>,
    /// Standard output, once the guest has asked for it.
    pub stdout: Option<GuestOutputStream>,
    /// Standard error, once the guest has asked for it.
    pub stderr: Option<GuestOutputStream>,
    /// The value of the frozen clock.
    pub frozen: FrozenClock,
    /// The state of the deterministic random numbers.
    pub fixed: DeterministicRandom,
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
