use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    WasiHttp, WasiHttpCtxView, WasiHttpView,
    p2::bindings::{LinkOptions, http as wasi},
};

use crate::{contract::ImportedInterface, store::PluginState};

/// Links `wasi:http` for outgoing requests alone.
pub fn link(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    wasi::outgoing_handler::add_to_linker::<_, WasiHttp>(linker, |state| {
        state.called(ImportedInterface::WasiHttp).http()
    })?;
    wasi::types::add_to_linker::<_, WasiHttp>(linker, &LinkOptions::default().into(), |state| {
        state.called(ImportedInterface::WasiHttp).http()
    })
}

impl WasiHttpView for PluginState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Self { wasi_http, http, table, .. } = self;
        wasi_http.view(http, table)
    }
}
