use wasmtime::bail;

use crate::{
    limits,
    plugin::{bindings::imports::random, runtime::PluginState},
};

impl random::Host for PluginState {
    async fn bytes(&mut self, len: u32) -> wasmtime::Result<Vec<u8>> {
        if len > limits::RANDOM_BYTES {
            bail!("{len} random bytes were asked for, at most {} are given", limits::RANDOM_BYTES);
        }
        self.hand(len as usize)?;
        let mut bytes = vec![0; len as usize];
        getrandom::fill(&mut bytes)
            .map_err(|error| wasmtime::format_err!("the system gives no random bytes: {error}"))?;
        self.give(|given| given.random(&bytes));
        Ok(bytes)
    }
}
