//! Models behind HTTP APIs: address, authentication, proxy and rate limit.

use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;

use super::{App, StartupNotices, model_names::model_name};
use crate::{
    config::{AuthConfig, ProviderConfig},
    error::{ErrorKind, Fault, Report},
    limits,
    model::{BatchedCompleter, Completer, RateLimitConfig, RateLimitedCompleter},
    net::{self, AuthHeader, HttpClient, HttpClientConfig, ProxyUrl, Secret, SecretSource},
    provider::{AdapterConfig, ProbedModel, ServedWindow, Vendor, WindowProbe, WireApi, WireOptions},
};

impl App {
    pub(crate) async fn http_model(
        &self,
        provider: &ProviderConfig,
        vendor: Vendor,
        notices: &mut StartupNotices,
    ) -> Result<Arc<dyn Completer>, Report> {
        let expand = |key: &str, value: Option<&str>| provider.expand(key, value, &*self.environment);
        let base_url = expand("base_url", provider.base_url.as_deref())?;
        let auth = self.key(provider, vendor, notices).await?.map(|key| match &provider.auth {
            Some(AuthConfig { header, scheme }) => AuthHeader { header: header.clone(), scheme: scheme.clone(), key },
            None => vendor.auth(key),
        });
        let base_url = base_url.unwrap_or_else(|| vendor.preset().base_url.into());
        if let (Some(_), Ok(url)) = (&auth, net::endpoint(&base_url, &[]))
            && net::is_readable_on_the_way(&url)
        {
            let (name, origin) = (&provider.name, net::origin(&url));
            notices.warnings.push(format!("providers.{name}: the key is sent to {origin} unencrypted; write https://"));
        }
        let header = |(name, value): (&String, &String)| {
            let value = expand(&format!("headers.{name}"), Some(value))?.unwrap_or_default();
            Ok::<_, Report>((name.clone(), Secret::new(value)))
        };
        let proxy = expand("proxy", provider.proxy.as_deref())?;
        let proxy = proxy.map(|url| ProxyUrl::parse(&url).map_err(|fault| wrong(provider, "proxy", &fault)));
        let client = http_client(HttpClientConfig { proxy: proxy.transpose()?, no_proxy: Vec::new() })?;
        let limit = (provider.rate_limit != RateLimitConfig::default()).then(|| {
            let limit = self.rate_limiter(provider);
            // Anthropic does not count tokens that come from its cache.
            Arc::new(if provider.api() == Some(WireApi::Messages) { limit.without_cache_reads() } else { limit })
        });
        let mut config = AdapterConfig {
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
            limit: limit.clone(),
            ..AdapterConfig::new(base_url, model_name(provider))
        };
        let asks = self.config.asks_server_for_window(provider);
        let probe = asks.then(|| WindowProbe::new(&client, vendor, &config)).flatten();
        let served = match &probe {
            Some(probe) => probe.ask().await,
            None => None,
        };
        config.context_window = config.context_window.or(served.map(|window| window.tokens));
        let options = WireOptions {
            api: provider.api,
            max_tokens_field: provider.max_tokens_field,
            printed_calls: provider.printed_calls,
            prompt_cache: provider.prompt_cache,
            encrypted_reasoning: provider.encrypted_reasoning,
        };
        let place = format!("providers.{}.base_url", provider.name);
        let unusable = |fault: Fault| unusable(&provider.name, &place, &fault);
        let submitter = match provider.batch {
            Some(_) => vendor.batches(client.clone(), config.clone(), options).map_err(unusable)?,
            None => None,
        };
        let model = vendor.completer(client, config, options).map_err(unusable)?;
        let model = match limit {
            Some(limit) => Arc::new(RateLimitedCompleter::new(model, limit)),
            None => model,
        };
        let model = asked_again(model, probe, served);
        let (Some(submitter), Some(batch)) = (submitter, provider.batch) else { return Ok(model) };
        let batched = Arc::new(BatchedCompleter::new(model, submitter, batch));
        self.batched.lock().unwrap_or_else(PoisonError::into_inner).push(batched.clone());
        Ok(batched)
    }

    /// Waits until batches and tasks at other hosts that nobody waits for any more are cancelled there, before the program
    /// ends. It takes at most twice [`limits::BATCH_CANCEL_TIME`], or [`limits::CANCEL_GRACE`] for tasks.
    pub async fn settled(&self) {
        let all = self.batched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.cancellations.close();
        tokio::join!(join_all(all.iter().map(|batched| batched.settled())), self.cancellations.wait());
    }

    /// Resolves the key of a model from its config, or from the vendor's usual variable.
    async fn key(
        &self,
        provider: &ProviderConfig,
        vendor: Vendor,
        notices: &mut StartupNotices,
    ) -> Result<Option<Secret>, Report> {
        if let Some(key) = provider.expand("api_key", provider.api_key.as_deref(), &*self.environment)? {
            return Ok(Some(Secret::new(key)));
        }
        if let Some(variable) = provider.usual_key() {
            let value = (self.environment)(variable).filter(|value| !value.trim().is_empty());
            let value = value.ok_or_else(|| provider.unset(variable).cause(no_key(provider, vendor)))?;
            return Ok(Some(Secret::new(value)));
        }
        let (source, key) = match &provider.api_key_file {
            Some(file) => (SecretSource::File(self.config.root.join(file)), "api_key_file"),
            None if provider.api_key_command.is_empty() => return Ok(None),
            None => (SecretSource::Command(provider.api_key_command.clone()), "api_key_command"),
        };
        let resolved = self.keys.resolve(&source, &*self.environment).await.map_err(|error| {
            let place = format!("providers.{}.{key} in the config", provider.name);
            Report::new(ErrorKind::Usage, error.to_string()).cause(format!("named by {place}")).hint(error.hint())
        })?;
        notices.warnings.extend(resolved.warning);
        Ok(Some(resolved.secret))
    }

    /// Checks whether a provider can be reached, as far as possible without sending a request or running a program.
    pub(crate) fn check_server(&self, provider: &ProviderConfig, warnings: &mut Vec<String>) -> Result<(), Report> {
        let named = [
            ("api_key".to_owned(), provider.api_key.as_deref()),
            ("base_url".to_owned(), provider.base_url.as_deref()),
            ("proxy".to_owned(), provider.proxy.as_deref()),
        ];
        let headers = provider.headers.iter().map(|(name, value)| (format!("headers.{name}"), Some(value.as_str())));
        for (key, value) in named.into_iter().chain(headers) {
            match provider.expand(&key, value, &*self.environment) {
                Ok(Some(base_url)) if key == "base_url" => {
                    let place = format!("providers.{}.base_url", provider.name);
                    net::endpoint(&base_url, &[]).map_err(|fault| unusable(&provider.name, &place, &fault))?;
                }
                Ok(Some(proxy)) if key == "proxy" => {
                    ProxyUrl::parse(&proxy).map_err(|fault| wrong(provider, "proxy", &fault))?;
                }
                Ok(_) => {}
                Err(report) if value.is_some_and(|value| value.contains("${}")) => return Err(report),
                // The variable may be set where the agent is run.
                Err(report) => warnings.push(report.to_string()),
            }
        }
        if let (Some(variable), Some(vendor)) = (provider.usual_key(), provider.kind.vendor())
            && (self.environment)(variable).is_none_or(|value| value.trim().is_empty())
        {
            warnings.push(provider.unset(variable).cause(no_key(provider, vendor)).to_string());
        }
        Ok(())
    }
}

/// Wraps a model whose server has not settled its context window, so that it is asked again once the model is loaded.
pub(crate) fn asked_again(
    model: Arc<dyn Completer>,
    probe: Option<WindowProbe>,
    said: Option<ServedWindow>,
) -> Arc<dyn Completer> {
    match probe.filter(|_| !said.is_some_and(|window| window.is_settled)) {
        Some(probe) => Arc::new(ProbedModel::new(model, probe)),
        None => model,
    }
}

fn no_key(provider: &ProviderConfig, vendor: Vendor) -> String {
    format!("providers.{} has no key, and {} requires one", provider.name, vendor.preset().name)
}

fn wrong(provider: &ProviderConfig, key: &str, fault: &Fault) -> Report {
    Report::new(ErrorKind::Usage, format!("the model `{}` cannot be used", provider.name))
        .cause(format!("providers.{}.{key}: {fault}", provider.name))
}

/// Reports an unusable base URL; `place` is the config key or the variable that names it.
pub(crate) fn unusable(name: &str, place: &str, fault: &Fault) -> Report {
    Report::new(ErrorKind::Usage, format!("the model `{name}` cannot be used"))
        .cause(format!("{place}: {fault}"))
        .hint("write the base URL of the API, for example http://localhost:11434/v1")
}

pub(crate) fn http_client(config: HttpClientConfig) -> Result<HttpClient, Report> {
    HttpClient::with(config).map_err(|fault| Report::new(ErrorKind::Provider, fault.to_string()))
}
