use crate::{
    event::{Event, LogLevel},
    limits,
    plugin::{bindings::imports::log, convert, runtime::PluginState},
};

impl log::Host for PluginState {
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.log_entries = self.log_entries.saturating_add(1);
        if self.log_entries > limits::LOG_ENTRIES {
            return Ok(());
        }
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        let message = convert::bounded(message, limits::LOG_ENTRY_BYTES);
        let (agent, plugin) = (self.cx.agent.clone(), self.plugin.clone());
        self.emit(Event::PluginLog { agent, plugin, level, message }).await;
        Ok(())
    }
}
