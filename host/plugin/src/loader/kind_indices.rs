use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use super::kind_functions::{
    CoordinatorFunctions, EffectFunctions, ModelMiddlewareFunctions, ProviderFunctions, RunMiddlewareFunctions,
    ToolFunctions, ToolMiddlewareFunctions,
};
use crate::{
    contract::{ContractVersion, PluginKind},
    store::PluginState,
};

/// The functions of the kinds that a component exports. They are looked up once, before the first instance.
pub struct KindIndices {
    pub tool: Option<ToolFunctions>,
    pub effect: Option<EffectFunctions>,
    pub run_middleware: Option<RunMiddlewareFunctions>,
    pub model_middleware: Option<ModelMiddlewareFunctions>,
    pub tool_middleware: Option<ToolMiddlewareFunctions>,
    pub provider: Option<ProviderFunctions>,
    pub coordinator: Option<CoordinatorFunctions>,
}

impl KindIndices {
    /// Looks up the exports of these kinds in a version of the contract.
    pub fn find(
        pre: &InstancePre<PluginState>,
        kinds: &[PluginKind],
        version: ContractVersion,
    ) -> wasmtime::Result<Self> {
        let has = |kind| kinds.contains(&kind);
        Ok(Self {
            tool: has(PluginKind::Tool).then(|| ToolFunctions::find(pre, version)).transpose()?,
            effect: has(PluginKind::Effect).then(|| EffectFunctions::find(pre, version)).transpose()?,
            run_middleware: has(PluginKind::RunMiddleware)
                .then(|| RunMiddlewareFunctions::find(pre, version))
                .transpose()?,
            model_middleware: has(PluginKind::ModelMiddleware)
                .then(|| ModelMiddlewareFunctions::find(pre, version))
                .transpose()?,
            tool_middleware: has(PluginKind::ToolMiddleware)
                .then(|| ToolMiddlewareFunctions::find(pre, version))
                .transpose()?,
            provider: has(PluginKind::Provider).then(|| ProviderFunctions::find(pre, version)).transpose()?,
            coordinator: has(PluginKind::Coordinator).then(|| CoordinatorFunctions::find(pre, version)).transpose()?,
        })
    }

    /// Checks the types of the functions of every kind.
    pub fn check(&self, store: &mut Store<PluginState>, instance: &Instance) -> wasmtime::Result<()> {
        self.effect.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        self.run_middleware.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        self.model_middleware.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        self.tool_middleware.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        self.provider.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        self.coordinator.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        self.tool.as_ref().map(|kind| kind.check(store, instance)).transpose()?;
        Ok(())
    }
}
