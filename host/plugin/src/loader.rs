//! Binding of a plugin to one agent: it is checked against the grant, linked to the granted imports, and probed once.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde_json::value::RawValue;
use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, Instance, InstancePre, Linker},
};

use super::{
    anatomy::PluginKind,
    bindings::exports,
    catalog::PluginPackage,
    convert,
    error::PluginError,
    folders::{self, FolderMount, PreopenedFolders},
    functions::{self, FunctionAction},
    imports::{self, KvBinding, PluginHttpClient},
    manifest::PluginManifest,
    runtime::{CallSetup, Lane, Limits, PROBE, PluginEngine, PluginQuota, PluginState},
    tool_concurrency::PluginToolConcurrency,
};
use shelly_core::{
    agent::OnFailure,
    capability::{Capability, CapabilityDecision, Ceiling, Grant, MissingCapability, Power, PromptableCapability},
    change::ChangePath,
    chat::ToolSpec,
    error::Fault,
    event::{Event, EventSink, EventStream, RunCx},
    kv::KvStores,
    limits,
    process::AllowedPrograms,
};
use shelly_net::egress::{Credential, Egress, EgressLimits};

/// The settings of a plugin for one agent, read from the config.
#[derive(Debug, Clone)]
pub struct PluginSettings {
    /// The name of the agent.
    pub agent: String,
    /// The place of the plugin in the config, for hints: `agents.helper.plugins.read-files`.
    pub place: String,
    /// The toolbox of the agent that contains the plugin; `None` if the config names the plugin itself.
    pub toolbox: Option<&'static str>,
    /// The capabilities that the agent grants.
    pub grant: Grant,
    /// The folders of the grant, and the name under which the plugin sees each.
    pub mounts: Vec<FolderMount>,
    /// The capabilities that a person may open to the plugin during a run. Until then the plugin reaches nothing
    /// through them.
    pub ask: BTreeSet<PromptableCapability>,
    /// The capabilities that a person has opened beyond the grant. Their folders are among `mounts`.
    pub opened: Grant,
    /// The bounds of the agent: its own `use`, and those under which it was started.
    pub ceiling: Ceiling,
    /// The plugin's own settings, a JSON object.
    pub params: Box<RawValue>,
    /// The limits of the plugin's calls.
    pub limits: Limits,
    /// The policy when the plugin fails as an effect or middleware; `None` leaves it to the manifest.
    pub on_failure: Option<OnFailure>,
    /// The key-value stores, for a plugin that is granted one.
    pub stores: KvStores,
    /// The credentials that the plugin is granted and that exist.
    pub credentials: Vec<Arc<Credential>>,
    /// The programs that the config names; those granted to the plugin are among them.
    pub programs: AllowedPrograms,
}

impl PluginSettings {
    /// Returns the hint how to grant this line of capabilities in the config: `http: [https://example.com]`.
    pub fn granted_by(&self, line: &str) -> String {
        match (self.toolbox, self.place.rsplit_once('.')) {
            (Some(name), Some((list, _))) => format!("`- {{name: {name}, {line}}}` under {list}"),
            _ => format!("`{line}` under {}", self.place),
        }
    }

    /// Returns the place of the config where the plugin's limits are raised: the entry of a toolbox has no limits.
    pub(super) fn limits_place(&self) -> String {
        match self.toolbox {
            Some(_) => "at the top of the config".into(),
            None => format!("under {} in the config", self.place),
        }
    }

    /// Returns the settings of a plugin without any grant. `place` is its place in the config.
    pub fn new(agent: impl Into<String>, place: impl Into<String>) -> Self {
        let params = RawValue::from_string("{}".into()).expect("it is JSON");
        let (agent, place, grant, mounts) = (agent.into(), place.into(), Grant::default(), Vec::new());
        Self {
            agent,
            place,
            toolbox: None,
            grant,
            mounts,
            ask: BTreeSet::new(),
            opened: Grant::default(),
            ceiling: Ceiling::default(),
            params,
            limits: Limits::default(),
            on_failure: None,
            stores: KvStores::default(),
            credentials: Vec::new(),
            programs: AllowedPrograms::default(),
        }
    }

    /// Returns the capabilities that the plugin has: those that it requests and that are granted or opened to it,
    /// within the ceiling of its agent.
    pub fn granted(&self, manifest: &PluginManifest) -> Grant {
        let opened = self.ceiling.narrow_opened(&self.opened.meet(&manifest.wants.grant()));
        self.ceiling.narrow(&self.offered(manifest)).join(&opened)
    }

    /// Returns the capabilities whose imports are linked: those that the plugin has, those that reach nothing until a
    /// person opens them, and optional files, which reach nothing without a folder.
    pub(super) fn linked(&self, manifest: &PluginManifest) -> Grant {
        let openable = PromptableCapability::most(&self.ask).meet(&manifest.wants.grant());
        let mut linked = self.granted(manifest).join(&self.ceiling.narrow_opened(&openable));
        if manifest.files_are_optional {
            linked.files = linked.files.join(&manifest.wants.grant().files);
        }
        linked
    }

    /// Returns the requested capabilities that the agent grants, before the ceiling.
    fn offered(&self, manifest: &PluginManifest) -> Grant {
        self.grant.meet(&manifest.wants.grant())
    }

    /// Returns the requested capabilities that the plugin lacks: for each the place of the config that would have to
    /// grant it, and the line to write there.
    pub fn refused(&self, manifest: &PluginManifest) -> Vec<(Arc<str>, MissingCapability)> {
        let place: Arc<str> = self.place.as_str().into();
        let missing = self.grant.missing(&manifest.wants).into_iter().map(|missing| (Arc::clone(&place), missing));
        missing.chain(self.ceiling.withheld(&self.offered(manifest))).collect()
    }

    /// Returns one decision per requested capability: allowed or refused.
    pub fn decisions(&self, manifest: &PluginManifest) -> Vec<CapabilityDecision> {
        let plugin: Arc<str> = manifest.id.as_str().into();
        let decision =
            |allowed, capability, rule| CapabilityDecision { plugin: Arc::clone(&plugin), capability, allowed, rule };
        let place: Arc<str> = self.place.as_str().into();
        let allowed = Grant::default().lacking(&self.granted(manifest)).into_iter();
        let allowed = allowed.map(|given| decision(true, given.line, Arc::clone(&place)));
        let refused = self.refused(manifest).into_iter();
        allowed.chain(refused.map(|(rule, missing)| decision(false, missing.line, rule))).collect()
    }

    /// Returns warnings for a person about requested capabilities that are not granted. A ceiling withholds on purpose:
    /// what it withholds appears among the [decisions](Self::decisions) only.
    pub fn lacking(&self, manifest: &PluginManifest) -> Vec<String> {
        let (id, place) = (&manifest.id, &self.place);
        let missing = self.grant.missing(&manifest.wants).into_iter();
        let optional = [
            ("files", manifest.files_are_optional),
            ("models", manifest.models_are_optional),
            ("credentials", manifest.credentials_are_optional),
        ];
        // The host asks a person for these when the plugin needs them.
        let asked = |missing: &MissingCapability| self.ask.iter().any(|one| one.capability() == missing.capability);
        let is_optional = |missing: &MissingCapability| {
            manifest.wants_are_optional || optional.contains(&(missing.capability.as_str(), true)) || asked(missing)
        };
        let missing = missing.filter(|missing| !is_optional(missing));
        // Under `plugins` an effect has no powers unless the config names them; under `effects` a shipped one has those
        // it wants.
        let agent = place.strip_suffix(&format!(".plugins.{id}"));
        let is_effect =
            manifest.kinds.contains(&PluginKind::Effect) && !manifest.kinds.iter().any(|kind| kind.is_middleware());
        let lacking = missing.map(|MissingCapability { capability, line }| {
            if let Some(agent) = agent.filter(|_| capability == "powers" && is_effect) {
                return format!(
                    "plugin `{id}` is an effect and may do less here than it wants, perhaps nothing: move it from `plugins` to \
                     {agent}.effects, as `{{kind: {id}, {line}}}`"
                );
            }
            let without = match capability == "powers" && !offers_tools(manifest, &self.granted(manifest)) {
                true => " (without `provide-tools` its tools are not offered)",
                false => "",
            };
            format!("plugin `{id}` has less than it wants: grant `{line}` under {place}{without}")
        });
        lacking.collect()
    }

    /// Returns warnings for a person about settings that the plugin has no use for.
    pub fn in_vain(&self, manifest: &PluginManifest) -> Vec<String> {
        let place = &self.place;
        let unwanted = self.grant.unwanted(&manifest.wants).into_iter();
        let mut in_vain: Vec<_> = unwanted
            .map(|unwanted| format!("{place} grants `{unwanted}`, which the plugin does not ask for"))
            .collect();
        if self.on_failure.is_some() && !manifest.kinds.iter().any(|kind| kind.is_step()) {
            in_vain.push(format!(
                "{place} sets `on_failure`, which is for effects and middleware, and the plugin is none"
            ));
        }
        in_vain
    }

    /// Checks that the plugin can be bound with these settings: every import is granted, and the folders exist. Runs no
    /// code of the plugin.
    ///
    /// # Errors
    ///
    /// The [`PluginError`] that [`Plugin::load`] would return.
    pub fn check(&self, package: &PluginPackage) -> Result<(), PluginError> {
        check_grant(package, self)?;
        folders::open(package, self).map(drop)
    }
}

/// Returns `true` unless the plugin is an effect with tools that lacks the power `provide-tools`.
fn offers_tools(manifest: &PluginManifest, grant: &Grant) -> bool {
    !manifest.is_effect_with_tools() || grant.powers.contains(&Power::ProvideTools)
}

/// A plugin bound to one agent. Its reach is fixed when it is linked.
pub struct Plugin {
    pub(super) id: Arc<str>,
    pub(super) package: Arc<PluginPackage>,
    settings: Arc<PluginSettings>,
    pub(super) grant: Grant,
    pub(super) reach: PluginToolConcurrency,
    pub(super) on_failure: OnFailure,
    pub(super) engine: Arc<PluginEngine>,
    /// Keeps the code alive: the engine holds it weakly.
    component: Arc<Component>,
    pub(super) pre: InstancePre<PluginState>,
    pub(super) kinds: KindIndices,
    pub(super) config: Arc<str>,
    pub(super) limits: Arc<Limits>,
    pub(super) share: Arc<PluginQuota>,
    /// The number of permits among all calls that one call takes.
    pub(super) places: u32,
    pub(super) files: PreopenedFolders,
    pub(super) kv: Option<Arc<KvBinding>>,
    egress: Option<Egress>,
    specs: Arc<[Arc<ToolSpec>]>,
    /// The indices of the functions that are tools, for kind `functions`.
    pub(super) functions: Arc<FunctionIndices>,
}

/// The export indices of a component's own functions, looked up once.
pub(super) type FunctionIndices = BTreeMap<functions::FunctionPath, ComponentExportIndex>;

/// The export indices of each kind, looked up once.
pub(super) struct KindIndices {
    pub tool: Option<exports::tool::GuestIndices>,
    pub effect: Option<exports::effect::GuestIndices>,
    pub run_middleware: Option<exports::run_middleware::GuestIndices>,
    pub model_middleware: Option<exports::model_middleware::GuestIndices>,
    pub tool_middleware: Option<exports::tool_middleware::GuestIndices>,
    pub provider: Option<exports::provider::GuestIndices>,
    pub coordinator: Option<exports::coordinator::GuestIndices>,
}

impl KindIndices {
    fn find(pre: &InstancePre<PluginState>, kinds: &[PluginKind]) -> wasmtime::Result<Self> {
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
    fn load(
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
        check_grant(package, settings)?;
        let component = compile(engine, package).await?;
        let mut plugin = Self::bind(engine, package, Arc::new(settings.clone()), &component)?;
        plugin.specs = plugin.probe(&component, &settings.agent).await?;
        Ok(plugin)
    }

    /// Links a component to the capabilities that its settings give it, and to nothing else.
    fn bind(
        engine: &Arc<PluginEngine>,
        package: &Arc<PluginPackage>,
        settings: Arc<PluginSettings>,
        component: &Arc<Component>,
    ) -> Result<Self, PluginError> {
        let not_runnable = |error| not_runnable(package, &error);
        let (grant, linked) = (settings.granted(&package.manifest), settings.linked(&package.manifest));
        let limits = settings.limits.within_ceilings();
        let mut linker = Linker::new(engine.engine());
        imports::link(&mut linker, &linked, &package.manifest.kinds, package.manifest.wasi).map_err(not_runnable)?;
        let pre = linker.instantiate_pre(component).map_err(not_runnable)?;
        Ok(Self {
            id: package.manifest.id.as_str().into(),
            package: Arc::clone(package),
            reach: PluginToolConcurrency::of(package, &settings),
            on_failure: settings.on_failure.unwrap_or(package.manifest.on_failure),
            engine: Arc::clone(engine),
            kinds: KindIndices::find(&pre, &package.manifest.kinds).map_err(not_runnable)?,
            component: Arc::clone(component),
            pre,
            config: settings.params.get().into(),
            share: Arc::new(engine.share(&limits, package.digest, &settings.agent)),
            limits: Arc::new(limits),
            places: PluginEngine::places_of(component),
            files: folders::open(package, &settings)?,
            kv: KvBinding::of(&grant, &settings, &package.manifest.id).map(Arc::new),
            egress: (!linked.http.is_empty()).then(|| egress(&grant, &settings, &limits)),
            settings,
            grant,
            specs: [].into(),
            functions: find_functions(package, component).map_err(not_runnable)?.into(),
        })
    }

    /// Returns this plugin under one more ceiling, for an agent that is started by another agent. It is linked again,
    /// with fewer capabilities.
    ///
    /// # Errors
    ///
    /// [`PluginError::NotGranted`] if the plugin needs a capability that the ceiling withholds,
    /// [`PluginError::NoFolder`] if a folder no longer exists.
    pub fn under(self: &Arc<Self>, ceiling: &Ceiling) -> Result<Arc<Self>, PluginError> {
        let settings =
            PluginSettings { ceiling: self.settings.ceiling.meet(ceiling), ..PluginSettings::clone(&self.settings) };
        // A plugin that a person can open something to must carry the new ceiling, even if its grant stays the same.
        if settings.ask.is_empty() && settings.granted(&self.package.manifest) == self.grant {
            return Ok(Arc::clone(self));
        }
        check_grant(&self.package, &settings)?;
        let mut narrowed = Self::bind(&self.engine, &self.package, Arc::new(settings), &self.component)?;
        narrowed.files.opening = self.files.opening.clone();
        // It remains one plugin with one quota.
        Ok(Arc::new(Self { specs: Arc::clone(&self.specs), share: Arc::clone(&self.share), ..narrowed }))
    }

    /// Returns this plugin with capabilities that a person has opened during the run: it reaches more, through the same
    /// interfaces. The ceiling of the agent and the requests of the manifest still bound what is opened.
    ///
    /// # Errors
    ///
    /// [`PluginError::NoFolder`] if a folder no longer exists.
    pub fn with_opened(self: &Arc<Self>, opened: &Grant, mounts: &[FolderMount]) -> Result<Arc<Self>, PluginError> {
        let mut settings = PluginSettings::clone(&self.settings);
        settings.opened = settings.opened.join(opened);
        settings.mounts.extend(mounts.iter().cloned());
        let mut wider = Self::bind(&self.engine, &self.package, Arc::new(settings), &self.component)?;
        wider.files.opening = self.files.opening.clone();
        // Requests after the change count towards the same limits as those before it.
        wider.egress = self.egress.as_ref().map(|egress| egress.for_requests(wider.grant.http.clone()));
        Ok(Arc::new(Self { specs: Arc::clone(&self.specs), share: Arc::clone(&self.share), ..wider }))
    }

    /// Returns the HTTP client of one call; `None` if the plugin may send no requests.
    pub(super) fn asker(&self, cx: &RunCx) -> Option<PluginHttpClient> {
        let (cx, plugin) = (cx.clone(), Arc::clone(&self.id));
        let egress = self.egress.clone()?;
        Some(PluginHttpClient { egress, cx, plugin, idle: None, nobody_listens: Arc::default() })
    }

    /// Returns the programs that one call may run; `None` if there are none.
    pub(super) fn programs(&self) -> Option<AllowedPrograms> {
        let granted = &self.grant.programs;
        (!granted.is_empty()).then(|| self.settings.programs.only(|name| granted.contains(name)))
    }

    /// Resolves a path that the plugin names in a proposal, if it may propose changes.
    pub(super) fn place(&self, path: &str) -> Result<ChangePath, Fault> {
        if !self.grant.powers.contains(&Power::ProposeFiles) {
            let place = &self.settings.place;
            let message = format!(
                "the plugin `{}` proposed to change a file and may not: the person can grant `powers: [propose-files]` under \
                 {place}",
                self.id
            );
            return Err(Fault::Denied { message });
        }
        Ok(folders::place(&self.settings, &self.grant, path)?)
    }

    /// Returns the lane of the plugin's tool calls: [`Lane::Stream`] if they may wait for servers or programs,
    /// otherwise [`Lane::Step`].
    pub(super) fn lane(&self) -> Lane {
        if self.egress.is_some() || !self.grant.programs.is_empty() { Lane::Stream } else { Lane::Step }
    }

    /// Returns the plugin's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the settings that the plugin was bound with.
    pub fn settings(&self) -> &PluginSettings {
        &self.settings
    }

    /// Returns the plugin's tools, as it described them.
    pub fn tools(&self) -> &Arc<[Arc<ToolSpec>]> {
        &self.specs
    }

    /// Returns the package that the plugin was bound from.
    pub fn package(&self) -> &PluginPackage {
        &self.package
    }

    /// Returns `true` if the plugin's tools are offered to a model: an effect needs the power `provide-tools` for that.
    pub fn offers_tools(&self) -> bool {
        offers_tools(&self.package.manifest, &self.grant)
    }

    /// Returns the capabilities that the plugin has.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Instantiates the plugin once, loads every kind that it exports and asks for its tools, so that a component that
    /// does not fit the contract is found at load and not in the middle of a run. Meanwhile only log, config and the
    /// powerless WASI base are linked.
    async fn probe(&self, component: &Component, agent: &str) -> Result<Arc<[Arc<ToolSpec>]>, PluginError> {
        let known = self.engine.specs(self.package.digest, &self.config);
        let id = || self.id.to_string();
        let not_runnable = |error| not_runnable(&self.package, &error);

        let mut linker = Linker::new(self.engine.engine());
        imports::link(&mut linker, &Grant::default(), &[], self.package.manifest.wasi).map_err(not_runnable)?;
        match self.package.manifest.wasi {
            true => imports::link_the_rest_as_traps(&mut linker, component).map_err(not_runnable)?,
            false => linker.define_unknown_imports_as_traps(component).map_err(not_runnable)?,
        }
        let pre = linker.instantiate_pre(component).map_err(not_runnable)?;

        let (events, stream) = EventSink::channel();
        let cx = RunCx::new(agent).with_run("load").with_events(events);
        let setup = CallSetup { function: PROBE, time: self.limits.probe_time, lane: Lane::Step, input: 0 };
        let kinds = &self.kinds;
        let asking = async {
            // `cx` ends here, and with it the stream of log events.
            let cx = cx;
            let asked = self.call_on(
                &pre,
                &cx,
                setup,
                |_| {},
                async |store, instance| {
                    match kinds.load(store, instance) {
                        // Not a crash: the exports differ from what the component claims.
                        Err(mismatch) => Ok(Ok(Err(mismatch))),
                        Ok(Some(tool)) if known.is_none() => Ok(tool.call_specs(store).await?.map(Ok)),
                        Ok(_) => Ok(Ok(Ok(vec![]))),
                    }
                },
            );
            asked.await
        };
        let (asked, log) = tokio::join!(asking, last_logged(stream));
        let asked = asked.map_err(|fault| PluginError::Probe { id: id(), fault, log })?.map_err(not_runnable)?;
        // The same component may be in two folders whose manifests make different tools of its functions.
        if self.package.manifest.kinds.contains(&PluginKind::Functions) {
            return Ok(self.package.offer.specs());
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let specs = check_specs(asked).map_err(|message| PluginError::BadTool { id: id(), message })?;
        self.engine.keep_specs(self.package.digest, &self.config, &specs);
        Ok(specs)
    }
}

/// Returns the last entries that the plugin wrote to the log.
async fn last_logged(mut stream: EventStream) -> Vec<String> {
    let mut last = VecDeque::new();
    while let Some(event) = stream.next().await {
        if let Event::PluginLog { message, .. } = event {
            last.push_back(message);
        }
        if last.len() > limits::PROBE_LOG_ENTRIES {
            last.pop_front();
        }
    }
    last.into()
}

/// Returns the egress client of a plugin, restricted to its grant, which may be empty so far.
fn egress(granted: &Grant, settings: &PluginSettings, limits: &Limits) -> Egress {
    let is_granted = |credential: &&Arc<Credential>| granted.credentials.contains(credential.name());
    let credentials = || settings.credentials.iter().filter(is_granted).cloned().collect();
    let limits = EgressLimits {
        requests_per_minute: limits.http_requests_per_minute,
        concurrency: limits.http_concurrency,
        request_bytes: limits.http_request_bytes,
        response_bytes: limits.http_response_bytes,
    };
    Egress::new(granted.http.clone(), credentials(), limits)
}

/// Looks up the exports of the functions that are tools.
fn find_functions(package: &PluginPackage, component: &Component) -> wasmtime::Result<FunctionIndices> {
    let calls = package.offer.tools.iter().filter(|tool| matches!(tool.function.act, FunctionAction::Call));
    let index = |path: &functions::FunctionPath| {
        let interface = path.interface.as_ref().map(|name| component.get_export_index(None, &**name));
        component.get_export_index(interface.flatten().as_ref(), &*path.function).ok_or_else(|| no_function(path))
    };
    calls.map(|tool| Ok((tool.function.path.clone(), index(&tool.function.path)?))).collect()
}

/// Returns the error for an exported function that the engine does not find.
pub(super) fn no_function(path: &functions::FunctionPath) -> wasmtime::Error {
    wasmtime::format_err!("it exports no function `{path}`")
}

/// Checks that every import of the component is linked. Reported here because the engine's own message misleads.
fn check_grant(package: &PluginPackage, settings: &PluginSettings) -> Result<(), PluginError> {
    let manifest = &package.manifest;
    let linked = settings.linked(manifest);
    for import in &package.anatomy.imports {
        let Some(need) = imports::need_of_import(import).filter(|need| !need.is_linked_with(&linked, manifest)) else {
            continue;
        };
        let mut refused = settings.refused(manifest).into_iter();
        let missing =
            refused.find(|(_, missing)| Some(missing.capability.as_str()) == need.capability().map(Capability::name));
        if let Some((place, missing)) = missing {
            let withheld = *place != *settings.place;
            let (id, agent, place) = (manifest.id.clone(), settings.agent.clone(), place.to_string());
            let (import, missing) = (import.clone(), Box::new(missing));
            return Err(PluginError::NotGranted { id, agent, place, withheld, import, missing });
        }
    }
    Ok(())
}

/// Returns the error for a component that the engine rejects.
fn not_runnable(package: &PluginPackage, error: &wasmtime::Error) -> PluginError {
    PluginError::NotRunnable { id: package.manifest.id.clone(), message: format!("{error:#}") }
}

/// Returns the component as native code: already compiled, or compiled now, in a process of its own or on a blocking
/// thread.
async fn compile(engine: &Arc<PluginEngine>, package: &Arc<PluginPackage>) -> Result<Arc<Component>, PluginError> {
    let (id, digest) = (|| package.manifest.id.clone(), package.digest);
    let not_runnable = |error: wasmtime::Error| not_runnable(package, &error);
    if let Some(component) = blocking(engine, move |engine| engine.compiled(digest)).await {
        return Ok(component);
    }
    let bytes = package.bytes()?;
    match engine.compiler().compile(&bytes, engine.layout()).await {
        Some(code) => {
            let code =
                code.map_err(|refused| refused.of_plugin(id(), package.folder.join(&package.manifest.component)))?;
            blocking(engine, move |engine| engine.adopt(digest, &code)).await.map_err(not_runnable)
        }
        None => blocking(engine, move |engine| engine.compile(digest, &bytes)).await.map_err(not_runnable),
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
fn check_specs(specs: Vec<super::bindings::types::ToolSpec>) -> Result<Arc<[Arc<ToolSpec>]>, String> {
    if specs.len() > limits::TOOLS_PER_PLUGIN {
        return Err(format!("it has {} tools, at most {} are taken", specs.len(), limits::TOOLS_PER_PLUGIN));
    }
    let bytes: usize = specs.iter().map(convert::tool_spec_bytes).sum();
    if bytes > limits::SPECS_BYTES {
        return Err(format!("its tools are described in {bytes} bytes, at most {} are taken", limits::SPECS_BYTES));
    }
    let specs: Vec<_> =
        specs.into_iter().map(|spec| convert::tool_spec(spec).map(Arc::new)).collect::<Result<_, _>>()?;
    for (position, spec) in specs.iter().enumerate() {
        if specs[..position].iter().any(|before| before.name == spec.name) {
            return Err(format!("two of its tools are called `{}`", spec.name));
        }
    }
    Ok(specs.into())
}
