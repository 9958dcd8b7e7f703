//! Models: those that the config names, and the one that is discovered if it names none.

use std::{path::Path, sync::Arc};

use super::{
    App, ModelCache, ResolvedModel, StartupNotices,
    http_models::{asked_again, http_client, unusable},
    model_names::{model_name, plugin_id},
    model_pool::PooledModel,
    plugin_limits::plugin_limits,
    plugins::check_params,
};
use crate::{
    capability::Grant,
    config::{self, AgentConfig, ProviderConfig, ProviderKind},
    error::{ErrorKind, Report, without_number},
    kv::KvStores,
    limits,
    model::{Completer, ModelInfo, ProviderRateLimiter, RateLimitConfig, RateLimitedCompleter},
    net::{HttpClientConfig, Retries},
    plugin::{
        CatalogEntry, Plugin, PluginCatalog, PluginError, PluginKind, PluginManifest, PluginModel, PluginPackage,
        PluginSettings, SHIPPED_PLUGINS,
    },
    provider::{self, AdapterConfig, SilentServer, VendorAddress, WindowProbe, WireOptions},
};

/// The message of the report that no model is named and none is found.
pub const NO_MODEL: &str = "there is no model to use";

impl App {
    /// Returns the model of an agent: the one of the command line, the agent's, the first of the config, or a discovered
    /// one.
    pub(crate) async fn model(
        &self,
        agent: &AgentConfig,
        named: Option<&str>,
        models: &ModelCache,
        notices: &mut StartupNotices,
    ) -> Result<ResolvedModel, Report> {
        let name = named.or(agent.provider.as_deref()).unwrap_or_default().to_owned();
        if let Some(model) = models.made().get(&name) {
            return Ok(model.clone());
        }
        let model = self.make_model((!name.is_empty()).then_some(&name), &models.stores, notices).await?;
        models.made().insert(name, model.clone());
        Ok(model)
    }

    pub(crate) async fn make_model(
        &self,
        name: Option<&str>,
        stores: &KvStores,
        notices: &mut StartupNotices,
    ) -> Result<ResolvedModel, Report> {
        let configured = match (self.config.provider(name), name) {
            // The vendor's name for a model of the config.
            (Err(unknown), Some(model)) => self.config.provider_of_model(model)?.map(Some).ok_or(unknown),
            (found, _) => found,
        };
        if let Ok(Some(provider)) = configured {
            let source = format!("providers.{} in the config", provider.name);
            let Some(vendor) = provider.kind.vendor() else {
                let completer = self.plugin_model(provider, stores, notices).await?;
                return Ok(ResolvedModel { completer, source, kind: provider.kind });
            };
            let slot = self.model_pool.slot(&provider.name);
            let pooled = slot.get_or_try_init(|| async move {
                let mut notices = StartupNotices::default();
                let completer = self.http_model(provider, vendor, &mut notices).await?;
                let model = ResolvedModel { completer, source, kind: provider.kind };
                Ok::<_, Report>(PooledModel { model, notices })
            });
            return Ok(pooled.await?.with_notices(notices));
        }
        // A name that is no provider of the config may be a provider plugin or, if the config has no providers, a vendor's
        // model. No vendor calls a model like a plugin.
        if let Some(id) = name
            && let Some(package) = self.installed(id)
        {
            let package = package.map_err(|error| error.report())?;
            if !package.manifest.kinds.contains(&PluginKind::Provider) {
                return Err(self.not_a_model(package));
            }
            check_needs_nothing(id, package)?;
            let (kind, name, plugin) = (ProviderKind::Plugin, id.to_owned(), Some(id.to_owned()));
            let provider = ProviderConfig { name, kind, plugin, ..ProviderConfig::default() };
            let completer = self.plugin_model(&provider, stores, notices).await?;
            return Ok(ResolvedModel { completer, source: format!("plugin `{id}`"), kind });
        }
        if let Some(id) = name.filter(|name| SHIPPED_PLUGINS.contains(name)) {
            return Err(self.not_installed(id));
        }
        if !self.config.providers.is_empty()
            && let Err(report) = configured
        {
            let known = |name| config::unknown("model", name, self.known_models().iter().map(String::as_str));
            return Err(name.map_or(report, known));
        }
        let slot = self.model_pool.slot(name.unwrap_or_default());
        let pooled = slot.get_or_try_init(|| self.found_model(name));
        Ok(pooled.await?.with_notices(notices))
    }

    /// Checks that there is a model of this name, as the command line gives it, before a run asks for it. If no config names
    /// a model, those that are found without one are looked for.
    ///
    /// # Errors
    ///
    /// The [`Report`] with which a run with this model would fail.
    pub async fn check_model(&self, name: &str) -> Result<(), Report> {
        if self.knows_model(name)? {
            return Ok(());
        }
        let slot = self.model_pool.slot(name);
        slot.get_or_try_init(|| self.found_model(Some(name))).await.map(|_| ())
    }

    /// Returns `true` if there is a model of this name, as the command line gives it; `false` if no config names a model, so
    /// that only a look for one can tell, on the host of the run.
    ///
    /// # Errors
    ///
    /// The [`Report`] with which a run with this model would fail.
    pub fn knows_model(&self, name: &str) -> Result<bool, Report> {
        if self.config.provider(Some(name)).is_ok() || self.config.provider_of_model(name)?.is_some() {
            return Ok(true);
        }
        if let Some(package) = self.installed(name) {
            let package = package.map_err(|error| error.report())?;
            return match package.manifest.kinds.contains(&PluginKind::Provider) {
                true => check_needs_nothing(name, package).map(|()| true),
                false => Err(self.not_a_model(package)),
            };
        }
        if SHIPPED_PLUGINS.contains(&name) {
            return Err(self.not_installed(name));
        }
        match self.config.providers.is_empty() {
            true => Ok(false),
            false => Err(config::unknown("model", name, self.known_models().iter().map(String::as_str))),
        }
    }

    /// Looks for a model that no config names: a key in the environment, or a local server.
    async fn found_model(&self, name: Option<&str>) -> Result<PooledModel, Report> {
        let client = http_client(HttpClientConfig::default())?;
        let mut found = provider::discover(&client, &*self.environment, name)
            .await
            .map_err(|silent| silent_server(&silent))?
            .ok_or_else(|| self.no_model(name))?;
        let kind = ProviderKind::from(found.vendor);
        // A window in the config has precedence over what the server or the vendor says, as for a model of the config.
        let window = self.config.default_context_windows.get(&kind).copied();
        if let Some(tokens) = window {
            found.config.context_window = Some(tokens).filter(|tokens| *tokens > 0);
        }
        let notes = vec![format!("using the model {} ({})", found.config.model, found.because)];
        let warnings = found.doubt.into_iter().collect();
        let price = self.found_price(found.vendor, &found.config.base_url, &found.config.model);
        let config = AdapterConfig { price, ..found.config };
        let name = config.name.clone();
        let probe = WindowProbe::new(&client, found.vendor, &config).filter(|_| window.is_none());
        let completer = found.vendor.completer(client, config, WireOptions::default());
        let place = found.vendor.preset().base_url_variable.unwrap_or("its address");
        let completer = completer.map_err(|fault| unusable(&name, place, &fault))?;
        let completer = asked_again(completer, probe, found.served);
        let model = ResolvedModel { completer, source: found.because, kind };
        Ok(PooledModel { model, notices: StartupNotices { notes, warnings } })
    }

    fn no_model(&self, wanted: Option<&str>) -> Report {
        let is_provider = |manifest: &PluginManifest| manifest.kinds.contains(&PluginKind::Provider);
        let offline =
            self.catalog.iter().find(|(_, plugin)| plugin.manifest().is_ok_and(is_provider)).map(|(id, _)| id);
        let report = match wanted {
            Some(model) => Report::new(ErrorKind::Usage, format!("there is no model `{}`", model.escape_debug())),
            None => Report::new(ErrorKind::Usage, NO_MODEL),
        };
        let report =
            report.cause("no config names a model, no key is set, and no local server answers on its usual port");
        let without_key = VendorAddress::all_in(&*self.environment).into_iter().map(|address| {
            let VendorAddress { variable, key_variable, .. } = address;
            format!("{variable} is set, but is not used without {key_variable}")
        });
        let report = without_key.fold(report, |report, cause| report.cause(cause));
        let known = self.known_models();
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        if let Some(near) = wanted.and_then(|wanted| config::nearest(wanted, &known)) {
            return report.hint(format!("did you mean `{near}`?"));
        }
        let keys = provider::key_variables_in_words("or");
        let or = match offline {
            Some(id) => format!("try the offline plugin with --model {id}"),
            None => {
                let file = self.config.file.as_deref().unwrap_or(Path::new("shelly.yaml")).display();
                format!("name a model under `providers` in {file}")
            }
        };
        report.hint(format!("set {keys}, start a local server such as Ollama, or {or}"))
    }

    /// Returns the names that a command line can give to a model: those of the config, the vendors' names for its models, and
    /// the ids of provider plugins. No component is read.
    fn known_models(&self) -> Vec<String> {
        let mut plugins = self.catalog_of_person();
        plugins.add_locked(|_| true);
        plugins.add_all(&self.personal_dirs);
        let is_model = |plugin: &CatalogEntry| {
            plugin.written_manifest().is_some_and(|manifest| manifest.kinds.contains(&PluginKind::Provider))
        };
        let ids = self.catalog.iter().chain(plugins.iter()).filter(|(_, plugin)| is_model(plugin));
        let ids = ids.map(|(id, _)| id.to_owned());
        let names = self.config.providers.iter().map(|provider| provider.name.clone());
        let of_vendors = self.config.providers.iter().filter_map(|provider| provider.model.clone());
        let mut known = Vec::new();
        for name in names.chain(of_vendors).chain(ids) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        known
    }

    /// Reports that a plugin which is named as a model is of another kind.
    fn not_a_model(&self, package: &PluginPackage) -> Report {
        let PluginManifest { id, kinds, .. } = &package.manifest;
        let kinds = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let report = Report::new(ErrorKind::Usage, format!("there is no model `{id}`"))
            .cause(format!("`{id}` is a plugin of kind {kinds}; a model is one of kind provider"));
        let known = self.known_models();
        let known: Vec<_> =
            known.iter().take(limits::NAMES_SHOWN).map(|name| format!("`{}`", name.escape_debug())).collect();
        match known.is_empty() {
            true => report.hint(format!("to use the plugin, name it under `plugins` of an agent: plugins: {{{id}: }}")),
            false => report.hint(format!("name a model: {}", known.join(", "))),
        }
    }

    /// Returns `true` if a plugin of this name is there, which may be a model that no config names.
    pub(crate) fn is_model_plugin(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| self.installed(name).is_some())
    }

    /// Returns the plugin of this id: a loaded one, or one that the person has installed. The project's own plugin folder
    /// is searched only for plugins that its config names.
    fn installed(&self, id: &str) -> Option<Result<&Arc<PluginPackage>, &PluginError>> {
        let find = || {
            let mut found = self.catalog_of_person();
            found.add_by_id(&self.personal_dirs, [id]);
            found
        };
        self.catalog.get(id).or_else(|| self.named_model.get_or_init(find).get(id))
    }

    /// Returns an empty catalog that finds what comes with the host and what the person has installed.
    fn catalog_of_person(&self) -> PluginCatalog {
        let locked = self.catalog.locked().filter(|locked| locked.is_personal).cloned();
        let catalog = PluginCatalog::new(&self.compiler).with_locked(locked);
        catalog.with_shipped(self.shipped.clone(), self.personal_dirs.clone())
    }

    async fn plugin_model(
        &self,
        provider: &ProviderConfig,
        stores: &KvStores,
        notices: &mut StartupNotices,
    ) -> Result<Arc<dyn Completer>, Report> {
        let (settings, package) = self.provider_plugin(provider)?;
        notices.warnings.extend(settings.lacking(&package.manifest));
        notices.warnings.extend(settings.in_vain(&package.manifest));
        notices.warnings.extend(self.doubts_of_credentials(&settings, &package.manifest));
        let credentials = self.credentials(&settings, &package.manifest, &mut notices.warnings).await;
        let settings = PluginSettings { stores: stores.clone(), credentials, ..settings };
        let plugin = Plugin::load(self.engine().await?, package, &settings).await.map_err(|error| error.report())?;
        let info = ModelInfo {
            name: provider.name.clone(),
            price: self.price(provider),
            model: model_name(provider),
            context_window: self.config.context_window(provider).into(),
            retries: provider.retries,
        };
        let model = PluginModel::new(&Arc::new(plugin), info, provider.max_tokens, provider.temperature);
        let model = model.ok_or_else(|| no_provider(&settings.place, plugin_id(provider)))?;
        let retries = provider.retries.map_or(Retries::DEFAULT, Retries::times);
        let idle = provider.idle_timeout.unwrap_or(limits::STREAM_IDLE_TIME);
        let model = Arc::new(model.with_retries(retries).with_idle(idle));
        if provider.rate_limit == RateLimitConfig::default() {
            return Ok(model);
        }
        let limiter = self.model_pool.limiter(&provider.name, || self.rate_limiter(provider));
        Ok(Arc::new(RateLimitedCompleter::new(model, limiter)))
    }

    /// Returns a new limiter of a provider's rate, which the hosts of a cluster share.
    pub(super) fn rate_limiter(&self, provider: &ProviderConfig) -> ProviderRateLimiter {
        let limiter = ProviderRateLimiter::new(provider.rate_limit);
        match self.project.buckets() {
            Some(buckets) => limiter.shared_in(Arc::clone(&buckets.rates), &provider.name),
            None => limiter,
        }
    }

    /// Returns the package of a provider of kind `plugin`, and its settings.
    pub(crate) fn provider_plugin(
        &self,
        provider: &ProviderConfig,
    ) -> Result<(PluginSettings, &Arc<PluginPackage>), Report> {
        let user = format!("providers.{}", provider.name);
        let id = plugin_id(provider);
        let package = match self.installed(id) {
            Some(package) => package.map_err(|error| error.report())?,
            None => self.package(&user, id)?,
        };
        check_params(package, &provider.params, &format!("{user}.params in the config"))?;
        let settings = PluginSettings {
            grant: provider.grant(),
            params: config::params(&provider.params),
            limits: plugin_limits(&provider.limits.over(&self.config.limits)),
            ..PluginSettings::new(user.clone(), user)
        };
        Ok((settings, package))
    }

    /// Checks whether a model can be built from `provider`, as far as possible without a request or running a plugin.
    pub(crate) fn check_provider(&self, provider: &ProviderConfig, warnings: &mut Vec<String>) -> Result<(), Report> {
        if provider.kind == ProviderKind::Plugin {
            let (settings, package) = self.provider_plugin(provider)?;
            if !package.manifest.kinds.contains(&PluginKind::Provider) {
                return Err(no_provider(&settings.place, plugin_id(provider)));
            }
            settings.check(package).map_err(|error| error.report())?;
            warnings.extend(settings.lacking(&package.manifest));
            warnings.extend(settings.in_vain(&package.manifest));
            warnings.extend(self.doubts_of_credentials(&settings, &package.manifest));
            warnings.extend(self.unset_credentials(&settings, &package.manifest));
            return Ok(());
        }
        self.check_server(provider, warnings)
    }
}

/// Reports that the server at an address in the environment cannot be asked which models it has.
fn silent_server(silent: &SilentServer) -> Report {
    let SilentServer { address, fault } = silent;
    let VendorAddress { vendor, variable, .. } = address;
    let message =
        format!("the server at {}, to which {variable} leads, does not say which models it has", address.host());
    Report::new(ErrorKind::Provider, message).cause(without_number(&fault.to_string())).hint(format!(
        "check that the server runs, correct {variable}, unset it to use {vendor} itself, or name a model with --model"
    ))
}

/// Refuses a provider plugin that needs a grant of the config.
fn check_needs_nothing(id: &str, package: &PluginPackage) -> Result<(), Report> {
    let missing = Grant::default().missing(&package.manifest.wants);
    let lines: Vec<_> = missing.into_iter().map(|missing| format!("`{}`", missing.line)).collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Report::new(ErrorKind::Usage, format!("the plugin `{id}` cannot be used without a config"))
        .cause(format!("the plugin needs grants: {}", lines.join(", ")))
        .hint(format!(
            "add the plugin with its grants under `providers`: {{name: {id}, kind: plugin, plugin: {id}, …}}"
        )))
}

fn no_provider(place: &str, id: &str) -> Report {
    Report::new(ErrorKind::Plugin, format!("plugin `{id}` is not a provider"))
        .cause(format!("named by {place} in the config"))
        .hint("name a plugin of kind `provider`: shelly-host plugin list shows the kinds")
}
