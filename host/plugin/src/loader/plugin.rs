use std::{path::Path, sync::Arc};

use wasmtime::component::{Component, Linker};

use super::{
    folder_mount::FolderMount,
    folders,
    function_indices::{FunctionIndices, find_functions},
    grant_check::check_grant,
    kind_indices::KindIndices,
    plugin_settings::{PluginSettings, offers_tools},
    tool_concurrency::PluginToolConcurrency,
};
use crate::{
    error::PluginError,
    http_client::PluginHttpClient,
    imports,
    metering::{Lane, Limits},
    package::PluginPackage,
    runtime::{GuestExecutor, PluginEngine},
    store::KvBinding,
};
use shelly_core::{
    agent::OnFailure,
    capability::{Ceiling, Grant, Power},
    change::ChangePath,
    chat::{ToolHints, ToolSpec},
    error::Fault,
    event::RunCx,
    process::AllowedPrograms,
    tool::ToolConcurrency,
};
use shelly_net::egress::{Credential, Egress, EgressLimits};

/// A plugin bound to one agent. Its reach is fixed when it is linked.
pub struct Plugin {
    /// Calls the component's functions.
    pub(crate) executor: Arc<GuestExecutor>,
    pub(crate) package: Arc<PluginPackage>,
    settings: Arc<PluginSettings>,
    pub(crate) grant: Grant,
    concurrency: PluginToolConcurrency,
    pub(crate) on_failure: OnFailure,
    pub(crate) kinds: KindIndices,
    egress: Option<Egress>,
    pub(super) specs: Arc<[Arc<ToolSpec>]>,
    /// The indices of the functions that are tools, for kind `functions`.
    pub(crate) functions: Arc<FunctionIndices>,
}

impl Plugin {
    /// Links a component to the capabilities that its settings give it, and to nothing else. A plugin that is bound
    /// again remains one plugin: it takes the quota and the limit of pending opens from `before`.
    pub(super) fn bind(
        engine: &Arc<PluginEngine>,
        package: &Arc<PluginPackage>,
        settings: Arc<PluginSettings>,
        component: &Arc<Component>,
        before: Option<&GuestExecutor>,
    ) -> Result<Self, PluginError> {
        let not_runnable = |error| not_runnable(package, &error);
        let (grant, linked) = (settings.granted(&package.manifest), settings.linked(&package.manifest));
        let limits = settings.limits.within_ceilings();
        let mut linker = Linker::new(component.engine());
        let contract = package.anatomy.linked_contract();
        imports::link(&mut linker, contract, &linked, &package.manifest.kinds, package.manifest.wasi)
            .map_err(not_runnable)?;
        let pre = linker.instantiate_pre(component).map_err(not_runnable)?;
        let kinds = KindIndices::find(&pre, &package.manifest.kinds, contract).map_err(not_runnable)?;
        let mut files = folders::open(package, &settings)?;
        let quota = match before {
            Some(before) => {
                files.opening = before.files.opening.clone();
                Arc::clone(&before.quota)
            }
            None => Arc::new(engine.quota(&limits, package.digest, &settings.agent)),
        };
        let id = &package.manifest.id;
        let kv = KvBinding::of(&grant, &settings.place, &settings.stores, id).map(Arc::new);
        let executor = GuestExecutor {
            id: id.as_str().into(),
            engine: Arc::clone(engine),
            component: Arc::clone(component),
            pre,
            config: settings.params.get().into(),
            limits: Arc::new(limits),
            limits_place: settings.limits_place(),
            quota,
            permits: PluginEngine::permits_of(component),
            files,
            kv,
            fixed_inputs: settings.fixed_inputs,
        };
        Ok(Self {
            executor: Arc::new(executor),
            package: Arc::clone(package),
            concurrency: PluginToolConcurrency::of(package, &settings),
            on_failure: settings.on_failure.unwrap_or(package.manifest.on_failure),
            kinds,
            egress: (!linked.http.is_empty()).then(|| egress(&grant, &settings, &limits)),
            settings,
            grant,
            specs: [].into(),
            functions: find_functions(package, component).map_err(not_runnable)?.into(),
        })
    }

    /// Binds this plugin again, with other settings.
    fn bind_again(&self, settings: PluginSettings) -> Result<Self, PluginError> {
        let GuestExecutor { engine, component, .. } = &*self.executor;
        let bound = Self::bind(engine, &self.package, Arc::new(settings), component, Some(&self.executor))?;
        Ok(Self { specs: Arc::clone(&self.specs), ..bound })
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
        Ok(Arc::new(self.bind_again(settings)?))
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
        let mut wider = self.bind_again(settings)?;
        // Requests after the change count towards the same limits as those before it.
        wider.egress = self.egress.as_ref().map(|egress| egress.for_requests(wider.grant.http.clone()));
        Ok(Arc::new(wider))
    }

    /// Returns the HTTP client of one call; `None` if the plugin may send no requests.
    pub(crate) fn http_client(&self, cx: &RunCx) -> Option<PluginHttpClient> {
        let (cx, plugin) = (cx.clone(), Arc::clone(&self.executor.id));
        let egress = self.egress.clone()?;
        Some(PluginHttpClient { egress, cx, plugin, idle: None, nobody_listens: Arc::default() })
    }

    /// Returns the programs that one call may run; `None` if there are none.
    pub(crate) fn programs(&self) -> Option<AllowedPrograms> {
        let granted = &self.grant.programs;
        (!granted.is_empty()).then(|| self.settings.programs.only(|name| granted.contains(name)))
    }

    /// Resolves a path that the plugin names in a proposal, if it may propose changes.
    pub(crate) fn resolve(&self, path: &str) -> Result<ChangePath, Fault> {
        if !self.grant.powers.contains(&Power::ProposeFiles) {
            let message = format!(
                "plugin `{}` proposed a file change, which is not granted; ask the person to grant {}",
                self.id(),
                self.settings.granted_by("powers: [propose-files]")
            );
            return Err(Fault::Denied { message });
        }
        Ok(folders::resolve(&self.settings, &self.grant, path)?)
    }

    /// Returns the files that a model may mean by a path in the arguments of a call: the one that the plugin sees under it,
    /// or, since the plugin itself decides where relative paths begin, one below each of its folders and each folder above
    /// these. All are in granted folders; none need exist.
    pub fn named_files(&self, path: &str) -> Vec<ChangePath> {
        let resolved = |path: &str| folders::resolve(&self.settings, &self.grant, path).ok();
        let mut files: Vec<_> = resolved(path).into_iter().collect();
        if files.is_empty() {
            let names = self.settings.mounts.iter().map(|mount| Path::new(&mount.name));
            for base in names.flat_map(Path::ancestors) {
                let file = base.join(path).to_str().and_then(resolved);
                if let Some(file) = file
                    && !files.contains(&file)
                {
                    files.push(file);
                }
            }
        }
        files
    }

    /// Returns the lane of the plugin's tool calls: [`Lane::Stream`] if they may wait for servers or programs,
    /// otherwise [`Lane::Step`].
    pub(crate) fn lane(&self) -> Lane {
        if self.egress.is_some() || !self.grant.programs.is_empty() { Lane::Stream } else { Lane::Step }
    }

    /// Returns the limits of the plugin's calls.
    pub(crate) fn limits(&self) -> &Limits {
        &self.executor.limits
    }

    /// Returns the concurrency of a tool with these hints beside the other calls of one reply.
    pub(crate) fn concurrency(&self, hints: ToolHints) -> ToolConcurrency {
        self.concurrency.concurrency(hints)
    }

    /// Returns the plugin's id.
    pub fn id(&self) -> &str {
        &self.executor.id
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
    match &settings.responder {
        Some(responder) => Egress::answered_by(granted.http.clone(), credentials(), limits, Arc::clone(responder)),
        None => Egress::new(granted.http.clone(), credentials(), limits),
    }
}

/// Returns the error for a component that the engine rejects.
pub(super) fn not_runnable(package: &PluginPackage, error: &wasmtime::Error) -> PluginError {
    PluginError::NotRunnable { id: package.manifest.id.clone(), message: format!("{error:#}") }
}
