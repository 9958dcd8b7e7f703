use std::sync::Arc;

use crate::{
    bindings::{imports::kv, types},
    convert,
    store::PluginState,
};
use shelly_core::{
    error::Fault,
    event::Event,
    kv::{KvError, KvPrecondition, KvStore},
};

impl kv::Host for PluginState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<kv::Entry>, types::Error>> {
        self.take(key.len())?;
        let got = match self.store() {
            Ok(store) => guest_result(self, &store, store.get(key).await).await,
            Err(error) => return Ok(Err(error)),
        };
        if let Ok(Some(entry)) = &got {
            self.hand(entry.value.len())?;
        }
        Ok(got.map(|entry| entry.map(|entry| kv::Entry { value: entry.value, revision: entry.revision })))
    }

    async fn set(&mut self, key: String, value: Option<Vec<u8>>) -> wasmtime::Result<Result<(), types::Error>> {
        Ok(self.write(key, KvPrecondition::Anything, value).await?.map(drop))
    }

    async fn compare_and_swap(
        &mut self,
        key: String,
        expected: Option<u64>,
        value: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<bool, types::Error>> {
        self.write(key, expected.map_or(KvPrecondition::Nothing, KvPrecondition::Revision), value).await
    }

    async fn keys(
        &mut self,
        prefix: String,
        after: Option<String>,
    ) -> wasmtime::Result<Result<Vec<String>, types::Error>> {
        self.take(prefix.len() + after.as_ref().map_or(0, String::len))?;
        let keys = match self.store() {
            Ok(store) => guest_result(self, &store, store.keys(prefix, after).await).await,
            Err(error) => Err(error),
        };
        self.hand(keys.iter().flatten().map(String::len).sum())?;
        Ok(keys)
    }
}

impl PluginState {
    fn store(&self) -> Result<KvStore, types::Error> {
        // Without the grant the interface is not linked.
        let none = || convert::fault_to_wit(&Fault::Denied { message: "no key-value store is granted".into() });
        self.kv.as_ref().map(|binding| binding.store(&self.cx)).ok_or_else(none)
    }

    async fn write(
        &mut self,
        key: String,
        expected: KvPrecondition,
        value: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<bool, types::Error>> {
        self.take(key.len() + value.as_ref().map_or(0, Vec::len))?;
        Ok(match self.store() {
            Ok(store) => guest_result(self, &store, store.write(key, expected, value).await).await,
            Err(error) => Err(error),
        })
    }
}

/// Converts a result for the guest. The operator is warned once about a store that cannot be used, with its place.
async fn guest_result<T>(
    state: &mut PluginState,
    store: &KvStore,
    done: Result<T, KvError>,
) -> Result<T, types::Error> {
    let Err(error) = done else { return done.map_err(|error| convert::fault_to_wit(&error.fault())) };
    if error.is_of_operator() && store.is_news(&error) {
        let plugin = Arc::clone(&state.plugin);
        state.emit(Event::Warning { message: format!("plugin `{plugin}`: {error}") }).await;
    }
    Err(convert::fault_to_wit(&error.fault()))
}
