use crate::{bindings::imports::log, convert, store::PluginState};
use shelly_core::{
    event::{Event, LogLevel},
    limits,
};

impl log::Host for PluginState {
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.take(message.len())?;
        let message = convert::bounded(message, limits::LOG_ENTRY_BYTES);
        if !self.logged.admits(message.len(), &self.limits) {
            return Ok(());
        }
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        let (agent, plugin) = (self.cx.agent.clone(), self.plugin.clone());
        self.emit(Event::PluginLog { agent, plugin, level, message }).await;
        Ok(())
    }
}
