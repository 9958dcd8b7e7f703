use wasmtime::component::Resource;
use wasmtime_wasi::p2::{
    DynOutputStream,
    bindings::cli::{stderr, stdout},
};

use crate::store::{GuestOutputStream, PluginState};
use shelly_core::event::LogLevel;

impl stdout::Host for PluginState {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        let output = self.output(LogLevel::Info);
        let output = self.base.stdout.get_or_insert(output).clone();
        Ok(self.table.push(Box::new(output) as DynOutputStream)?)
    }
}

impl stderr::Host for PluginState {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        let output = self.output(LogLevel::Warn);
        let output = self.base.stderr.get_or_insert(output).clone();
        Ok(self.table.push(Box::new(output) as DynOutputStream)?)
    }
}

impl PluginState {
    /// Returns a new stream whose lines are logged at this level.
    fn output(&self, level: LogLevel) -> GuestOutputStream {
        GuestOutputStream::new(level, &self.plugin, &self.limits, (&self.cx, &self.logged, &self.meter))
    }
}
