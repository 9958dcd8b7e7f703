use crate::{bindings::imports::config, runtime::PluginState};

impl config::Host for PluginState {
    async fn get(&mut self) -> wasmtime::Result<String> {
        self.hand(self.config.len())?;
        Ok(self.config.to_string())
    }
}
