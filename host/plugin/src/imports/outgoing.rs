use crate::{
    bindings::{imports::outgoing, types},
    convert::{self, GuestPayload},
    store::PluginState,
};

impl outgoing::Host for PluginState {
    async fn get(&mut self) -> wasmtime::Result<types::Request> {
        let request = match &self.outgoing {
            Some((request, powers)) => convert::request_seen(request, powers),
            None => convert::no_request(),
        };
        self.hand(request.bytes())?;
        Ok(request)
    }
}
