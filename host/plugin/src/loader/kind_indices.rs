use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use crate::{bindings::exports, contract::PluginKind, store::PluginState};

/// The export indices of each kind, looked up once.
pub struct KindIndices {
    pub tool: Option<exports::tool::GuestIndices>,
    pub effect: Option<exports::effect::GuestIndices>,
    pub run_middleware: Option<exports::run_middleware::GuestIndices>,
    pub model_middleware: Option<exports::model_middleware::GuestIndices>,
    pub tool_middleware: Option<exports::tool_middleware::GuestIndices>,
    pub provider: Option<exports::provider::GuestIndices>,
    pub coordinator: Option<exports::coordinator::GuestIndices>,
}

impl KindIndices {
    /// Looks up the exports of these kinds.
    pub fn find(pre: &InstancePre<PluginState>, kinds: &[PluginKind]) -> wasmtime::Result<Self> {
        let has = |kind| kinds.contains(&kind);
        Ok(Self {
            tool: has(PluginKind::Tool).then(|| exports::tool::GuestIndices::new(pre)).transpose()?,
            effect: has(PluginKind::Effect).then(|| exports::effect::GuestIndices::new(pre)).transpose()?,
            run_middleware: has(PluginKind::RunMiddleware)
                .then(|| exports::run_middleware::GuestIndices::new(pre))
                .transpose()?,
            model_middleware: has(PluginKind::ModelMiddleware)
                .then(|| exports::model_middleware::GuestIndices::new(pre))
                .transpose()?,
            tool_middleware: has(PluginKind::ToolMiddleware)
                .then(|| exports::tool_middleware::GuestIndices::new(pre))
                .transpose()?,
            provider: has(PluginKind::Provider).then(|| exports::provider::GuestIndices::new(pre)).transpose()?,
            coordinator: has(PluginKind::Coordinator)
                .then(|| exports::coordinator::GuestIndices::new(pre))
                .transpose()?,
        })
    }

    /// Loads every kind, which checks the types of its functions; returns the tool interface.
    pub fn load(
        &self,
        store: &mut Store<PluginState>,
        instance: &Instance,
    ) -> wasmtime::Result<Option<exports::tool::Guest>> {
        self.effect.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()?;
        self.run_middleware.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()?;
        self.model_middleware.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()?;
        self.tool_middleware.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()?;
        self.provider.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()?;
        self.coordinator.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()?;
        self.tool.as_ref().map(|kind| kind.load(&mut *store, instance)).transpose()
    }
}
