use crate::{
    event::{Event, LogLevel},
    limits,
    plugin::{bindings::imports::log, convert, runtime::PluginState},
};

impl log::Host for PluginState {
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.take(message.len())?;
        let message = convert::bounded(message, limits::LOG_ENTRY_BYTES);
        let bytes = self.log_bytes.saturating_add(message.len());
        // Once one was dropped all later ones are: what is told is the beginning, without holes.
        if self.log_dropped > 0 || self.log_entries >= self.limits.log_entries || bytes > self.limits.log_bytes {
            self.log_dropped = self.log_dropped.saturating_add(1);
            return Ok(());
        }
        self.log_entries += 1;
        self.log_bytes = bytes;
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
