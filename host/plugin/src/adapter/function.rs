use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use wasmtime::{
    Store,
    component::{Instance, Val},
};

use crate::{
    convert::{GuestPayload, WitError},
    functions::{
        FunctionAction, FunctionOutput, FunctionTool, ResourceHandles, WitType, WitTypeKind, arguments,
        receive_streams, send_streams, written,
    },
    loader::{Plugin, no_function},
    metering::Lane,
    runtime::{CallSetup, RunInstances},
    store::PluginState,
};
use shelly_core::{
    chat::{ToolCall, ToolResultContent, ToolSpec},
    error::Fault,
    event::CalledFunction,
    limits,
    tool::{Tool, ToolConcurrency, ToolCx, ToolOutput},
};

/// A tool that calls an exported function of a component that does not use the contract.
pub struct PluginFunction {
    plugin: Arc<Plugin>,
    tool: Arc<FunctionTool>,
}

impl PluginFunction {
    /// Returns all functions of a plugin that are tools.
    pub fn all(plugin: &Arc<Plugin>) -> impl Iterator<Item = Arc<dyn Tool>> {
        let function = |tool: &Arc<FunctionTool>| Self { plugin: Arc::clone(plugin), tool: Arc::clone(tool) };
        plugin.package.offer.tools.iter().map(move |tool| Arc::new(function(tool)) as Arc<dyn Tool>)
    }

    /// Calls the function with these values, or drops the handle among them.
    async fn called(
        &self,
        mut values: Vec<Val>,
        store: &mut Store<PluginState>,
        instance: &Instance,
    ) -> wasmtime::Result<Result<FunctionReturnValue, WitError>> {
        let function = &self.tool.function;
        if let (FunctionAction::Drop(_), [Val::Resource(handle)]) = (&function.act, &*values) {
            handle.resource_drop_async(&mut *store).await?;
            return Ok(Ok(FunctionReturnValue { value: None, is_cut: false }));
        }
        let index = self.plugin.functions.get(&function.path).ok_or_else(|| no_function(&function.path))?;
        let func = instance.get_func(&mut *store, index).ok_or_else(|| no_function(&function.path))?;
        let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
        // Only components that use the async ABI have streams, and only their stores have an event loop.
        let uses_async = self.plugin.package.anatomy.uses_async;
        if uses_async {
            for (param, value) in function.params.iter().zip(&mut values) {
                send_streams(store, &param.shape, value)?;
            }
        }
        func.call_async(&mut *store, &values, &mut results).await?;
        let mut is_cut = false;
        if uses_async && let (Some(shape), Some(value)) = (&function.result, results.first_mut()) {
            is_cut = receive_streams(store, shape, value).await?;
        }
        Ok(Ok(FunctionReturnValue { value: results.pop(), is_cut }))
    }

    fn setup(&self, values: &[Val], lane: Lane) -> CallSetup {
        let input = values.iter().map(weight).sum();
        CallSetup { function: CalledFunction::FunctionsCall, time: self.plugin.limits().tool_time, lane, input }
    }

    async fn fresh(&self, cx: &ToolCx, json: &str) -> Result<ToolOutput, Fault> {
        let values = arguments(&self.tool.function.params, json, None)?.values;
        let setup = self.setup(&values, self.plugin.lane());
        let returned = self.plugin.executor.call(
            &cx.run,
            setup,
            |state| self.reach(state, cx),
            async |store, instance| self.called(values, store, instance).await,
        );
        self.output(&returned.await?, None)
    }

    async fn kept(&self, cx: &ToolCx, json: &str) -> Result<ToolOutput, Fault> {
        let instances = cx.run.extensions.get::<RunInstances>();
        let mut slot = instances.slot(&self.plugin.executor).await?;
        let given = arguments(&self.tool.function.params, json, Some(&slot.handles))?;
        let setup = self.setup(&given.values, Lane::Kept);
        let returned = self.plugin.executor.call_kept(
            &mut slot,
            &cx.run,
            setup,
            |state| self.reach(state, cx),
            async |store, instance| self.called(given.values, store, instance).await,
        );
        let returned = returned.await?;
        given.given_away.into_iter().for_each(|number| slot.handles.take(number));
        let output = self.output(&returned, Some(&mut slot.handles));
        // The model cannot drop handles that it was not told of, so drop the instance.
        if output.is_err() && self.gives_handles() {
            slot.lose("a call returned more than could be reported");
        }
        output
    }

    /// Gives a call its HTTP client and programs.
    fn reach(&self, state: &mut PluginState, cx: &ToolCx) {
        state.http = self.plugin.http_client(&cx.run);
        state.programs = self.plugin.programs();
    }

    fn gives_handles(&self) -> bool {
        self.tool.function.result.as_ref().is_some_and(WitType::holds_own)
    }

    /// Converts the return value to the tool's output: an error that the function returns becomes a failure.
    fn output(
        &self,
        returned: &FunctionReturnValue,
        handles: Option<&mut ResourceHandles>,
    ) -> Result<ToolOutput, Fault> {
        let content = |shape: Option<&WitType>, value: Option<&Val>| -> Result<Vec<ToolResultContent>, Fault> {
            let content = match (shape, value) {
                (Some(shape), Some(value)) => match written(shape, value, handles)? {
                    FunctionOutput::Text(text) => ToolResultContent::Text(text),
                    FunctionOutput::Json(json) => ToolResultContent::Json(json),
                },
                _ => ToolResultContent::Text("done".into()),
            };
            // In front, where no cut of a long result takes it away.
            Ok(returned.cut_notice().into_iter().chain([content]).collect())
        };
        match (self.tool.function.result.as_ref(), &returned.value) {
            (Some(WitType { form: WitTypeKind::Result { ok, .. }, .. }), Some(Val::Result(Ok(value)))) => {
                content(ok.as_deref(), value.as_deref()).map(ToolOutput::Reply)
            }
            (Some(WitType { form: WitTypeKind::Result { error: None, .. }, .. }), Some(Val::Result(Err(_)))) => {
                Ok(ToolOutput::Failed(vec![ToolResultContent::Text(
                    "the function returned an error without details".into(),
                )]))
            }
            (Some(WitType { form: WitTypeKind::Result { error, .. }, .. }), Some(Val::Result(Err(value)))) => {
                content(error.as_deref(), value.as_deref()).map(ToolOutput::Failed)
            }
            (shape, value) => content(shape, value.as_ref()).map(ToolOutput::Reply),
        }
    }
}

#[async_trait]
impl Tool for PluginFunction {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.tool.spec
    }

    fn origin(&self) -> &str {
        self.plugin.id()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.plugin.concurrency(self.tool.spec.hints)
    }

    fn time_limit(&self) -> Duration {
        // The limit of other tools, and the wait for earlier calls where calls run one after the other.
        limits::PLUGIN_PERMIT_WAIT * 2 + self.plugin.limits().tool_time * 2 + limits::READER_WAIT
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        match self.plugin.package.offer.is_kept {
            true => self.kept(cx, &call.arguments).await,
            false => self.fresh(cx, &call.arguments).await,
        }
    }
}

/// The outcome of a function.
struct FunctionReturnValue {
    /// Its value; `None` if it returns nothing.
    value: Option<Val>,
    /// `true` if a stream in it had more elements than the host reads.
    is_cut: bool,
}

impl FunctionReturnValue {
    /// Returns the text that tells a model that streams were cut; `None` if none was.
    fn cut_notice(&self) -> Option<ToolResultContent> {
        let (elements, mib) = (limits::STREAM_ELEMENTS, limits::STREAM_TEXT_BYTES >> 20);
        let notice = format!(
            "(a stream of the result had more than {elements} elements or {mib} MiB of text; only its beginning was read)"
        );
        self.is_cut.then_some(ToolResultContent::Text(notice))
    }
}

impl GuestPayload for FunctionReturnValue {
    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, weight)
    }
}

/// Returns the bytes that a value takes to cross. Numbers count with their size, since a list can hold many.
fn weight(value: &Val) -> usize {
    let payload = |payload: &Option<Box<Val>>| 1 + payload.as_deref().map_or(0, weight);
    match value {
        Val::Bool(_) | Val::S8(_) | Val::U8(_) | Val::Enum(_) => 1,
        Val::S16(_) | Val::U16(_) => 2,
        Val::S64(_) | Val::U64(_) | Val::Float64(_) => 8,
        Val::String(text) => text.len(),
        Val::List(list) | Val::Tuple(list) | Val::FixedLengthList(list) => list.iter().map(weight).sum(),
        Val::Record(fields) => fields.iter().map(|(_, value)| weight(value)).sum(),
        Val::Map(pairs) => pairs.iter().map(|(key, value)| weight(key) + weight(value)).sum(),
        Val::Variant(_, inner) | Val::Option(inner) | Val::Result(Ok(inner) | Err(inner)) => payload(inner),
        Val::Flags(flags) => flags.len(),
        _ => 4,
    }
}
