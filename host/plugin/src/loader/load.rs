//! The loading of a plugin: its component is compiled, linked to what was granted, and probed once.

use std::{collections::VecDeque, sync::Arc};

use wasmtime::component::{Component, Linker};

use super::{
    grant_check::check_grant,
    plugin::{Plugin, not_runnable},
    plugin_settings::PluginSettings,
    plugin_start::PluginStart,
};
use crate::{
    bindings::types,
    compile::CompileInput,
    contract::PluginKind,
    convert,
    error::PluginError,
    imports,
    metering::Lane,
    package::PluginPackage,
    runtime::{CallSetup, GuestExecutor, PluginEngine},
};
use shelly_core::{
    capability::Grant,
    chat::ToolSpec,
    event::{CalledFunction, Event, EventSink, EventStream, RunCx},
    limits,
};

impl Plugin {
    /// Binds a plugin to an agent. Compiling it may take seconds the first time.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if a capability that the plugin needs is not granted, the component does not fit the contract,
    /// or the probe fails.
    pub async fn load(
        engine: &Arc<PluginEngine>,
        package: &Arc<PluginPackage>,
        settings: &PluginSettings,
    ) -> Result<Self, PluginError> {
        Ok(Self::load_measured(engine, package, settings).await?.0)
    }

    /// Binds a plugin as [`load`](Self::load) does, and returns what its first call took.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load).
    pub async fn load_measured(
        engine: &Arc<PluginEngine>,
        package: &Arc<PluginPackage>,
        settings: &PluginSettings,
    ) -> Result<(Self, PluginStart), PluginError> {
        check_grant(package, settings)?;
        let component = compile(engine, package).await?;
        let mut plugin = Self::bind(engine, package, Arc::new(settings.clone()), &component, None)?;
        let (specs, start) = plugin.probe(&settings.agent).await?;
        plugin.specs = specs;
        Ok((plugin, start))
    }

    /// Instantiates the plugin once, checks every kind that it exports and asks for its tools, so that a component that
    /// does not fit the contract is found at load and not in the middle of a run. Meanwhile only log, config and the
    /// powerless WASI base are linked.
    async fn probe(&self, agent: &str) -> Result<(Arc<[Arc<ToolSpec>]>, PluginStart), PluginError> {
        let GuestExecutor { id, engine, component, config, limits, .. } = &*self.executor;
        let known = engine.specs(self.package.digest, config);
        let id = || id.to_string();
        let not_runnable = |error| not_runnable(&self.package, &error);

        let mut linker = Linker::new(component.engine());
        let contract = self.package.anatomy.linked_contract();
        imports::link(&mut linker, contract, &Grant::default(), &[], self.package.manifest.wasi)
            .map_err(not_runnable)?;
        match self.package.manifest.wasi {
            true => imports::link_the_rest_as_traps(&mut linker, component).map_err(not_runnable)?,
            false => linker.define_unknown_imports_as_traps(component).map_err(not_runnable)?,
        }
        let pre = linker.instantiate_pre(component).map_err(not_runnable)?;

        let (events, stream) = EventSink::channel();
        let cx = RunCx::new(agent).with_run("load").with_events(events);
        let setup = CallSetup { function: CalledFunction::Probe, time: limits.probe_time, lane: Lane::Step, input: 0 };
        let kinds = &self.kinds;
        let asking = async {
            // `cx` ends here, and with it the stream of log events.
            let cx = cx;
            let asked = self.executor.call_on(
                &pre,
                &cx,
                setup,
                |_| {},
                async |store, instance| {
                    if let Err(mismatch) = kinds.check(store, instance) {
                        // Not a crash: the exports differ from what the component claims.
                        return Ok(Ok(Err(mismatch)));
                    }
                    match &kinds.tool {
                        Some(tool) if known.is_none() => Ok(tool.specs(store, instance).await?.map(Ok)),
                        _ => Ok(Ok(Ok(vec![]))),
                    }
                },
            );
            asked.await
        };
        let (asked, ProbeEvents { log, start }) = tokio::join!(asking, probe_events(stream));
        let asked =
            asked.map_err(|fault| PluginError::Probe { id: id(), fault, log: log.into() })?.map_err(not_runnable)?;
        // The same component may be in two folders whose manifests make different tools of its functions.
        if self.package.manifest.kinds.contains(&PluginKind::Functions) {
            return Ok((self.package.offer.specs(), start));
        }
        if let Some(known) = known {
            return Ok((known, start));
        }
        let specs = check_specs(asked).map_err(|message| PluginError::BadTool { id: id(), message })?;
        engine.keep_specs(self.package.digest, config, &specs);
        Ok((specs, start))
    }
}

/// The events of a probe that somebody has a use for.
#[derive(Default)]
struct ProbeEvents {
    /// The last entries that the plugin wrote to the log.
    log: VecDeque<String>,
    /// The figures of the call.
    start: PluginStart,
}

/// Reads the events of a probe to their end.
async fn probe_events(mut stream: EventStream) -> ProbeEvents {
    let mut events = ProbeEvents::default();
    while let Some(event) = stream.next_event().await {
        match event {
            Event::PluginLog { message, .. } => events.log.push_back(message),
            Event::PluginCall { duration, cpu, memory, .. } => events.start = PluginStart { duration, cpu, memory },
            _ => {}
        }
        if events.log.len() > limits::PROBE_LOG_ENTRIES {
            events.log.pop_front();
        }
    }
    events
}

/// Returns the component as native code: already compiled, or compiled now, in a process of its own or on a blocking
/// thread.
pub(super) async fn compile(
    engine: &Arc<PluginEngine>,
    package: &Arc<PluginPackage>,
) -> Result<Arc<Component>, PluginError> {
    let (id, digest) = (|| package.manifest.id.clone(), package.digest);
    let not_runnable = |error: wasmtime::Error| not_runnable(package, &error);
    let uses_async = package.anatomy.uses_async;
    if let Some(component) = blocking(engine, move |engine| engine.compiled(digest, uses_async)).await {
        return Ok(component);
    }
    let bytes = package.bytes()?;
    let input = CompileInput { id: &package.manifest.id, bytes: &bytes };
    match engine.compiler().compile(input, engine.layout()).await {
        Some(code) => {
            let code = code.map_err(|refused| refused.of_plugin(id(), package.component_path()))?;
            blocking(engine, move |engine| engine.adopt(digest, &code, uses_async)).await.map_err(not_runnable)
        }
        None => blocking(engine, move |engine| engine.compile(digest, &bytes, uses_async)).await.map_err(not_runnable),
    }
}

/// Runs `work` on a blocking thread: compiling, and reading compiled code, keeps a core busy.
async fn blocking<T: Send + 'static>(
    engine: &Arc<PluginEngine>,
    work: impl FnOnce(&PluginEngine) -> T + Send + 'static,
) -> T {
    let engine = Arc::clone(engine);
    match tokio::task::spawn_blocking(move || work(&engine)).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Converts the tools that a plugin describes, if they can be offered.
fn check_specs(specs: Vec<types::ToolSpec>) -> Result<Arc<[Arc<ToolSpec>]>, String> {
    if specs.len() > limits::TOOLS_PER_PLUGIN {
        return Err(format!("the plugin has {} tools, the maximum is {}", specs.len(), limits::TOOLS_PER_PLUGIN));
    }
    let bytes: usize = specs.iter().map(convert::tool_spec_bytes).sum();
    if bytes > limits::SPECS_BYTES {
        return Err(format!(
            "the descriptions of its tools have {bytes} bytes, the maximum is {}",
            limits::SPECS_BYTES
        ));
    }
    let specs: Vec<_> =
        specs.into_iter().map(|spec| convert::tool_spec(spec).map(Arc::new)).collect::<Result<_, _>>()?;
    for (position, spec) in specs.iter().enumerate() {
        if specs[..position].iter().any(|before| before.name == spec.name) {
            return Err(format!("two of its tools have the name `{}`", spec.name));
        }
    }
    Ok(specs.into())
}
