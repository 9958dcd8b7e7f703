//! Models: those that the config names, and what is found where it names none.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{App, Notices, check_params, plugin_limits};
use crate::{
    capability::Grant,
    config::{self, AgentConfig, AuthConfig, ProviderConfig, ProviderKind},
    error::{ErrorKind, Fault, Report},
    kv::Stores,
    limits,
    model::{Completer, ModelInfo, Price},
    net::{self, Auth, HttpClient, Secret},
    plugin::{Kind, Plugin, PluginModel, PluginPackage, Settings},
    provider::{self, AdapterConfig, Vendor, WireOptions},
};

/// Models that have been made: agents that name the same one share it.
pub(super) struct Models {
    made: Mutex<HashMap<String, Model>>,
    /// What their plugins keep.
    stores: Stores,
}

impl Models {
    pub fn new(stores: &Stores) -> Self {
        Self { made: Mutex::default(), stores: stores.clone() }
    }
}

/// A model and where it comes from, for hints: `providers.local in the config`, `OPENAI_API_KEY is set`.
#[derive(Clone)]
pub(super) struct Model {
    pub completer: Arc<dyn Completer>,
    pub source: String,
    /// Whether it runs in a sandbox here: then it is asked of nobody else.
    pub is_plugin: bool,
}

impl App {
    /// The model of an agent: the one named on the command line, the agent's, the config's first, or one that is found.
    pub(super) async fn model(
        &self,
        agent: &AgentConfig,
        named: Option<&str>,
        models: &Models,
        notices: &mut Notices,
    ) -> Result<Model, Report> {
        let name = named.or(agent.provider.as_deref()).unwrap_or_default().to_owned();
        let made = || models.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made().get(&name) {
            return Ok(model.clone());
        }
        let model = self.make_model((!name.is_empty()).then_some(&name), &models.stores, notices).await?;
        made().insert(name, model.clone());
        Ok(model)
    }

    async fn make_model(&self, name: Option<&str>, stores: &Stores, notices: &mut Notices) -> Result<Model, Report> {
        if !self.config.providers.is_empty() {
            let provider = self.config.provider(name)?.expect("there is at least one");
            let source = format!("providers.{} in the config", provider.name);
            let is_plugin = provider.kind == ProviderKind::Plugin;
            return Ok(Model { completer: self.configured(provider, stores, notices).await?, source, is_plugin });
        }
        // Without models in the config, `--model` may name a provider plugin or a vendor's model.
        if let Some(id) = name
            && let Some(package) = self.catalog.get(id)
            && let package = package.map_err(|error| error.report())?
            && package.manifest.kinds.contains(&Kind::Provider)
        {
            let (kind, name, plugin) = (ProviderKind::Plugin, id.to_owned(), Some(id.to_owned()));
            let provider = ProviderConfig { name, kind, plugin, ..ProviderConfig::default() };
            let completer = self.plugin_model(&provider, stores, notices).await?;
            return Ok(Model { completer, source: format!("plugin `{id}`"), is_plugin: true });
        }
        let client = http_client()?;
        let found = provider::discover(&client, &*self.environment, name).await.ok_or_else(|| self.no_model(name))?;
        notices.notes.push(format!("using the model {} ({})", found.config.model, found.because));
        let price = self.prices.price(found.vendor.preset().word, &found.config.model);
        let config = AdapterConfig { price, ..found.config };
        let name = config.name.clone();
        let completer = found.vendor.completer(client, config, WireOptions::default());
        let completer = completer.map_err(|fault| unusable(&name, "OPENAI_BASE_URL", &fault))?;
        Ok(Model { completer, source: found.because, is_plugin: false })
    }

    fn no_model(&self, wanted: Option<&str>) -> Report {
        let offline = self.catalog.iter().filter_map(|(id, package)| Some((id, package.ok()?)));
        let offline =
            offline.filter(|(_, package)| package.manifest.kinds.contains(&Kind::Provider)).map(|(id, _)| id).next();
        let report = match wanted {
            Some(model) => Report::new(ErrorKind::Usage, format!("there is no model `{}`", model.escape_debug())),
            None => Report::new(ErrorKind::Usage, "there is no model to use"),
        };
        let report = report.cause("no config names one, no key is set, and no local server answers on its usual port");
        report.hint(match offline {
            Some(id) => format!("set OPENAI_API_KEY, start a local server such as Ollama, or try the plugin with --model {id}"),
            None => {
                let file = self.config.file.as_deref().unwrap_or(Path::new("shelly.yaml")).display();
                format!("set OPENAI_API_KEY, start a local server such as Ollama, or name a model under `providers` in {file}")
            }
        })
    }

    async fn configured(
        &self,
        provider: &ProviderConfig,
        stores: &Stores,
        notices: &mut Notices,
    ) -> Result<Arc<dyn Completer>, Report> {
        match provider.kind.vendor() {
            Some(vendor) => self.http_model(provider, vendor),
            None => self.plugin_model(provider, stores, notices).await,
        }
    }

    fn http_model(&self, provider: &ProviderConfig, vendor: Vendor) -> Result<Arc<dyn Completer>, Report> {
        let environment = &*self.environment;
        let expand = |key: &str, value: Option<&str>| provider.expand(key, value, environment);
        let base_url = expand("base_url", provider.base_url.as_deref())?;
        let key = expand("api_key", provider.api_key.as_deref())?.map(Secret::new);
        let header = |(name, value): (&String, &String)| {
            let value = expand("headers", Some(value))?.unwrap_or_default();
            Ok::<_, Report>((name.clone(), Secret::new(value)))
        };
        let key = match provider.usual_key() {
            Some(variable) if key.is_none() => {
                let value = environment(variable).filter(|value| !value.is_empty());
                Some(Secret::new(value.ok_or_else(|| provider.unset(variable).cause(usual_key(provider, vendor)))?))
            }
            _ => key,
        };
        let auth = key.map(|key| match &provider.auth {
            Some(AuthConfig { header, scheme }) => Auth { header: header.clone(), scheme: scheme.clone(), key },
            None => vendor.auth(key),
        });
        let config = AdapterConfig {
            name: provider.name.clone(),
            auth,
            headers: provider.headers.iter().map(header).collect::<Result<_, _>>()?,
            body: provider.body.clone(),
            context_window: self.config.context_window(provider),
            max_tokens: provider.max_tokens,
            temperature: provider.temperature,
            price: self.price(provider),
            retries: provider.retries.unwrap_or(limits::HTTP_RETRIES),
            total: provider.timeout.unwrap_or(limits::COMPLETION_TIME),
            idle: provider.idle_timeout.unwrap_or(limits::STREAM_IDLE_TIME),
            ..AdapterConfig::new(base_url.unwrap_or_else(|| vendor.preset().base_url.into()), model_name(provider))
        };
        let options = WireOptions { max_tokens_field: provider.max_tokens_field };
        let model = vendor.completer(http_client()?, config, options);
        model.map_err(|fault| unusable(&provider.name, &format!("providers.{}.base_url", provider.name), &fault))
    }

    async fn plugin_model(
        &self,
        provider: &ProviderConfig,
        stores: &Stores,
        notices: &mut Notices,
    ) -> Result<Arc<dyn Completer>, Report> {
        let (settings, package) = self.provider_plugin(provider)?;
        let settings = Settings { stores: stores.clone(), ..settings };
        notices.warnings.extend(settings.in_vain(&package.manifest));
        let plugin = Plugin::load(self.engine().await?, package, &settings).await.map_err(|error| error.report())?;
        let info = ModelInfo {
            name: provider.name.clone(),
            price: self.price(provider),
            model: model_name(provider),
            context_window: self.config.context_window(provider),
        };
        let model = PluginModel::new(&Arc::new(plugin), info, provider.max_tokens, provider.temperature);
        Ok(Arc::new(model.ok_or_else(|| no_provider(&settings.place, plugin_id(provider)))?))
    }

    /// The plugin of a provider of kind `plugin`, and what it is given.
    pub(super) fn provider_plugin(&self, provider: &ProviderConfig) -> Result<(Settings, &Arc<PluginPackage>), Report> {
        // A model serves every agent: it sees no agent's files, and no conversation but the one in its request.
        let user = format!("providers.{}", provider.name);
        let package = self.package(&user, plugin_id(provider))?;
        check_params(package, &provider.params, &user)?;
        let settings = Settings {
            grant: Grant {
                clock: provider.clock,
                random: provider.random,
                kv: provider.kv.into_iter().collect(),
                ..Grant::default()
            },
            params: config::params(&provider.params),
            limits: plugin_limits(&provider.limits.over(&self.config.limits)),
            ..Settings::new(user.clone(), user)
        };
        Ok((settings, package))
    }

    /// What a model costs: as the config says, else as a price list does.
    pub(super) fn price(&self, provider: &ProviderConfig) -> Option<Price> {
        let kind = provider.kind.to_string();
        provider.price.or_else(|| self.prices.price(&kind, &model_name(provider)))
    }

    /// Whether a model can be made of this, as far as that can be told without asking it or running a plugin.
    pub(super) fn check_provider(&self, provider: &ProviderConfig, warnings: &mut Vec<String>) -> Result<(), Report> {
        if provider.kind == ProviderKind::Plugin {
            let (settings, package) = self.provider_plugin(provider)?;
            if !package.manifest.kinds.contains(&Kind::Provider) {
                return Err(no_provider(&settings.place, plugin_id(provider)));
            }
            settings.check(package).map_err(|error| error.report())?;
            warnings.extend(settings.in_vain(&package.manifest));
            return Ok(());
        }
        let named = [
            ("api_key", provider.api_key.as_deref()),
            ("base_url", provider.base_url.as_deref()),
            ("proxy", provider.proxy.as_deref()),
        ];
        let headers = provider.headers.values().map(|value| ("headers", Some(value.as_str())));
        for (key, value) in named.into_iter().chain(headers) {
            match provider.expand(key, value, &*self.environment) {
                Ok(Some(base_url)) if key == "base_url" => {
                    let place = format!("providers.{}.base_url", provider.name);
                    net::endpoint(&base_url, &[]).map_err(|fault| unusable(&provider.name, &place, &fault))?;
                }
                Ok(_) => {}
                Err(report) if value.is_some_and(|value| value.contains("${}")) => return Err(report),
                // It may be set where the agent is run.
                Err(report) => warnings.push(report.to_string()),
            }
        }
        if let (Some(variable), Some(vendor)) = (provider.usual_key(), provider.kind.vendor())
            && (self.environment)(variable).is_none_or(|value| value.is_empty())
        {
            warnings.push(provider.unset(variable).cause(usual_key(provider, vendor)).to_string());
        }
        Ok(())
    }
}

fn usual_key(provider: &ProviderConfig, vendor: Vendor) -> String {
    format!("providers.{} names no key, and {} wants one", provider.name, vendor.preset().name)
}

fn plugin_id(provider: &ProviderConfig) -> &str {
    provider.plugin.as_deref().unwrap_or(&provider.name)
}

/// The vendor's name for a model.
pub(super) fn model_name(provider: &ProviderConfig) -> String {
    let name = provider.model.as_deref();
    name.unwrap_or(if provider.kind == ProviderKind::Plugin { plugin_id(provider) } else { "" }).to_owned()
}

fn no_provider(place: &str, id: &str) -> Report {
    Report::new(ErrorKind::Plugin, format!("plugin `{id}` is no provider"))
        .cause(format!("{place} in the config names it"))
        .hint("name a plugin of kind `provider`: shelly-host plugin list shows the kinds")
}

/// `place` is what names the base URL.
fn unusable(name: &str, place: &str, fault: &Fault) -> Report {
    Report::new(ErrorKind::Usage, format!("the model `{name}` cannot be used"))
        .cause(format!("{place}: {fault}"))
        .hint("write where the API begins, for example http://localhost:11434/v1")
}

fn http_client() -> Result<HttpClient, Report> {
    HttpClient::new().map_err(|fault| Report::new(ErrorKind::Provider, fault.to_string()))
}
