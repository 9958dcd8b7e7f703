use wasmtime::{bail, component::Resource};
use wasmtime_wasi_io::{bindings::wasi::io, poll::DynPollable};

use crate::store::PluginState;
use shelly_core::limits;

/// Polls like wasmtime-wasi, but at most as many pollables as there can be handles.
impl io::poll::Host for PluginState {
    async fn poll(&mut self, list: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        if list.len() > limits::PLUGIN_HANDLES {
            let (most, asked) = (limits::PLUGIN_HANDLES, list.len());
            bail!("the plugin polls {asked} handles at once, the maximum is {most}");
        }
        self.meter.count_host_calls(list.len() as u64);
        io::poll::Host::poll(&mut self.table, list).await
    }
}

impl io::poll::HostPollable for PluginState {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.table.ready(pollable).await
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.table.block(pollable).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        io::poll::HostPollable::drop(&mut self.table, pollable)
    }
}
