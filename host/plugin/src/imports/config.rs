use crate::{bindings::imports::config, store::PluginState};

impl config::Host for PluginState {
    async fn get(&mut self) -> wasmtime::Result<String> {
        self.hand(self.config.len())?;
        Ok(self.config.to_string())
    }
}
