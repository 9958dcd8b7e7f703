//! The key `providers`: models, and how each is reached.

use std::{fmt, path::PathBuf, time::Duration};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AuthConfig, HttpUse, LimitsConfig, egress::requests, values::OptionalDuration, variables::expand_at};
use crate::{
    capability::{Grant, KvScope, Price},
    error::{ErrorKind, Fault, Report},
    limits,
    model::{BatchConfig, RateLimitConfig},
    net::header_name,
    provider::{MaxTokensField, Vendor, WireApi},
};

/// A named model.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The name by which agents and `--model` refer to the model.
    pub name: String,
    /// The vendor whose API serves the model, or `plugin`.
    pub kind: ProviderKind,
    /// `kind: plugin`: the plugin's id.
    pub plugin: Option<String>,
    /// `kind: plugin`: params that are passed to the plugin.
    #[serde(default)]
    pub params: IndexMap<String, Value>,
    /// `kind: plugin`: whether the plugin may read the clock.
    #[serde(default)]
    pub clock: bool,
    /// `kind: plugin`: whether the plugin may get random bytes.
    #[serde(default)]
    pub random: bool,
    /// `kind: plugin`: limits of its calls, which override those of all plugins.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// `kind: plugin`: the scope of its key-value store; `None`: it has no store.
    pub kv: Option<KvScope>,
    /// `kind: plugin`: HTTP requests that it may send.
    #[serde(default)]
    pub http: Vec<HttpUse>,
    /// `kind: plugin`: names of credentials that the host adds to these requests.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// The base URL of the API; `None`: the vendor's.
    pub base_url: Option<String>,
    /// The API key, preferably as `${NAME}`. If no source of the key and no `base_url` is set, the vendor's usual variable
    /// is read.
    pub api_key: Option<String>,
    /// A file that holds the key; a relative path is below the config's root.
    pub api_key_file: Option<PathBuf>,
    /// A program that prints the key, followed by its arguments.
    #[serde(default)]
    pub api_key_command: Vec<String>,
    /// The header that carries the key; `None`: the vendor's.
    pub auth: Option<AuthConfig>,
    /// Headers of each request besides those of the host; `${NAME}` as in `api_key`.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// Fields of each request body besides those of the host.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// The URL of an HTTP proxy; `${NAME}` as in `api_key`.
    pub proxy: Option<String>,
    /// Attempts after the first one, for transient failures.
    #[schemars(range(max = limits::HTTP_RETRIES_CEILING))]
    pub retries: Option<usize>,
    /// Time limit from the first attempt to the end of the reply.
    #[serde(default, with = "OptionalDuration")]
    pub timeout: Option<Duration>,
    /// The longest silence within a reply.
    #[serde(default, with = "OptionalDuration")]
    pub idle_timeout: Option<Duration>,
    /// The vendor's name for the model.
    pub model: Option<String>,
    /// Context window in tokens; 0: unknown. `None`: the value of `default_context_windows` for the kind.
    pub context_window: Option<u64>,
    /// The longest reply in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// The protocol of the server; `None`: the vendor's.
    pub api: Option<WireApi>,
    /// Chat Completions: the name of the request field for the longest reply.
    pub max_tokens_field: Option<MaxTokensField>,
    /// Chat, Responses and Messages: whether calls and thoughts that the model prints as text are parsed. `None`: they are
    /// for servers of a local kind, and for any server on a loopback address.
    pub printed_calls: Option<bool>,
    /// Messages: whether the vendor is asked to cache the conversation for the next request; `None`: it is.
    pub prompt_cache: Option<bool>,
    /// Responses: whether encrypted reasoning is requested; `None`: if the model's name is that of a reasoning model.
    pub encrypted_reasoning: Option<bool>,
    /// Limits a minute on requests and tokens, for all agents together.
    #[serde(default)]
    pub rate_limit: RateLimitConfig,
    /// Settings for sending requests as batches, which vendors sell for less; `None`: each request is sent by itself.
    pub batch: Option<BatchConfig>,
    /// Sampling temperature, 0 to 2.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f32>,
    /// Price in US dollars per million tokens; `None`: the price of a price list, if there is one, or 0 if nobody can send a
    /// bill: for a server of a local kind on a loopback or private address, and a plugin without `http`.
    pub price: Option<Price>,
}

/// The API of a vendor, or a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are the vendors of the same names")]
pub enum ProviderKind {
    Anthropic,
    #[default]
    Openai,
    Gemini,
    Grok,
    Openrouter,
    Ollama,
    Llamacpp,
    Vllm,
    Lmstudio,
    /// A provider plugin.
    Plugin,
}

impl ProviderKind {
    /// Returns the vendor; `None` for a plugin.
    pub fn vendor(self) -> Option<Vendor> {
        Some(match self {
            Self::Anthropic => Vendor::Anthropic,
            Self::Openai => Vendor::Openai,
            Self::Gemini => Vendor::Gemini,
            Self::Grok => Vendor::Grok,
            Self::Openrouter => Vendor::Openrouter,
            Self::Ollama => Vendor::Ollama,
            Self::Llamacpp => Vendor::Llamacpp,
            Self::Vllm => Vendor::Vllm,
            Self::Lmstudio => Vendor::Lmstudio,
            Self::Plugin => return None,
        })
    }

    /// Returns `true` if requests can be sent to the vendor in batches.
    pub fn has_batches(self) -> bool {
        self.vendor().is_some_and(Vendor::has_batches)
    }

    /// Returns the names of the kinds that have batches.
    pub fn with_batches() -> Vec<&'static str> {
        let vendors = Vendor::ALL.iter().filter(|vendor| vendor.has_batches());
        vendors.map(|vendor| vendor.preset().word).collect()
    }
}

impl From<Vendor> for ProviderKind {
    fn from(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Anthropic => Self::Anthropic,
            Vendor::Openai => Self::Openai,
            Vendor::Gemini => Self::Gemini,
            Vendor::Grok => Self::Grok,
            Vendor::Openrouter => Self::Openrouter,
            Vendor::Ollama => Self::Ollama,
            Vendor::Llamacpp => Self::Llamacpp,
            Vendor::Vllm => Self::Vllm,
            Vendor::Lmstudio => Self::Lmstudio,
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.vendor().map_or("plugin", |vendor| vendor.preset().word))
    }
}

impl ProviderConfig {
    /// Returns the base URL of the API, from the config or the vendor; `None` for a plugin.
    pub fn address(&self) -> Option<&str> {
        Some(self.base_url.as_deref().unwrap_or(self.kind.vendor()?.preset().base_url))
    }

    /// Returns the protocol of the server, from the config or the vendor; `None` for a plugin.
    pub fn api(&self) -> Option<WireApi> {
        self.kind.vendor().map(|vendor| self.api.unwrap_or(vendor.preset().api))
    }

    /// Returns what the plugin is granted. A model sees no agent's files, and no conversation besides the one in its request.
    pub fn grant(&self) -> Grant {
        Grant {
            clock: self.clock,
            random: self.random,
            kv: self.kv.into_iter().collect(),
            http: requests(&self.http),
            credentials: self.credentials.iter().cloned().collect(),
            ..Grant::default()
        }
    }

    /// Returns the vendor's usual variable for the key. It is read only if the config names neither a source of the key
    /// nor a `base_url`, so the key goes to no one but the vendor.
    pub fn usual_key(&self) -> Option<&'static str> {
        let named = self.base_url.is_some()
            || self.api_key.is_some()
            || self.api_key_file.is_some()
            || !self.api_key_command.is_empty();
        self.kind.vendor().filter(|_| !named)?.preset().key_variable
    }

    /// Checks what serde cannot express.
    pub(super) fn check(&self) -> Result<(), Report> {
        let at = format!("providers.{}", self.name);
        let wrong = |message: String| Err(Report::new(ErrorKind::Usage, message));
        let is_plugin = self.kind == ProviderKind::Plugin;
        if is_plugin && self.plugin.is_none() {
            return wrong(format!("{at}: `kind: plugin` needs the id of the plugin in `plugin`"));
        }
        if !is_plugin && self.model.is_none() {
            return wrong(format!("{at}: `model` is missing; set it to the server's name of the model"));
        }
        let of_plugins = [
            ("plugin", self.plugin.is_some()),
            ("params", !self.params.is_empty()),
            ("clock", self.clock),
            ("random", self.random),
            ("limits", self.limits != LimitsConfig::default()),
            ("kv", self.kv.is_some()),
            ("http", !self.http.is_empty()),
            ("credentials", !self.credentials.is_empty()),
        ];
        if let Some((key, _)) = of_plugins.iter().find(|(_, is_set)| !is_plugin && *is_set) {
            let report = Report::new(ErrorKind::Usage, format!("{at}.{key}: valid only for `kind: plugin`"));
            return Err(report.hint(format!("remove `{key}`, or write `kind: plugin`")));
        }
        let of_servers = [
            ("base_url", self.base_url.is_some()),
            ("api_key", self.api_key.is_some()),
            ("api_key_file", self.api_key_file.is_some()),
            ("api_key_command", !self.api_key_command.is_empty()),
            ("auth", self.auth.is_some()),
            ("headers", !self.headers.is_empty()),
            ("body", !self.body.is_empty()),
            ("proxy", self.proxy.is_some()),
            ("timeout", self.timeout.is_some()),
            ("api", self.api.is_some()),
            ("max_tokens_field", self.max_tokens_field.is_some()),
            ("printed_calls", self.printed_calls.is_some()),
            ("prompt_cache", self.prompt_cache.is_some()),
            ("encrypted_reasoning", self.encrypted_reasoning.is_some()),
            ("batch", self.batch.is_some()),
        ];
        if let Some((key, _)) = of_servers.iter().find(|(_, is_set)| is_plugin && *is_set) {
            let message = format!("{at}.{key}: valid only for providers over HTTP, not for `kind: plugin`");
            let report = Report::new(ErrorKind::Usage, message);
            return Err(report.hint(match *key {
                "timeout" => "write `limits: {time: …}` instead",
                _ => "remove the key, or name a vendor in `kind`",
            }));
        }
        if let Some(vendor) = self.kind.vendor().filter(|vendor| self.batch.is_some() && !vendor.has_batches()) {
            let message = format!("{at}.batch: not supported for {}", vendor.preset().name);
            return Err(Report::new(ErrorKind::Usage, message).hint("remove `batch`"));
        }
        let of_apis = [
            ("max_tokens_field", self.max_tokens_field.is_some(), &[WireApi::Chat][..]),
            (
                "printed_calls",
                self.printed_calls.is_some(),
                &[WireApi::Chat, WireApi::Responses, WireApi::Messages][..],
            ),
            ("prompt_cache", self.prompt_cache.is_some(), &[WireApi::Messages][..]),
            ("encrypted_reasoning", self.encrypted_reasoning.is_some(), &[WireApi::Responses][..]),
        ];
        let is_of = |apis: &[WireApi]| self.api().is_some_and(|api| apis.contains(&api));
        if let Some((key, _, apis)) = of_apis.iter().find(|(_, is_set, apis)| *is_set && !is_of(apis)) {
            let api = super::effective_setting::word(&apis[0]);
            let message = format!("{at}.{key}: valid only for servers that speak the API `{api}`");
            return Err(Report::new(ErrorKind::Usage, message).hint(format!("remove `{key}`, or write `api: {api}`")));
        }
        self.limits.check_one(&format!("{at}.limits"))?;
        let keys = [&of_servers[1], &of_servers[2], &of_servers[3]];
        let mut keys = keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key);
        if let (Some(one), Some(other)) = (keys.next(), keys.next()) {
            let message = format!("{at}: `{one}` and `{other}` are both set");
            return Err(Report::new(ErrorKind::Usage, message).hint("remove one of them"));
        }
        let names = self.headers.keys().map(|name| ("headers", name));
        for (key, name) in names.chain(self.auth.iter().map(|auth| ("auth.header", &auth.header))) {
            let fault = |fault: Fault| Report::new(ErrorKind::Usage, format!("{at}.{key}: {fault}"));
            header_name(name).map_err(fault)?;
        }
        let written = self.api().map_or(&[][..], WireApi::fields);
        if let Some(field) = self.body.keys().find(|field| written.contains(&field.as_str())) {
            let report = Report::new(ErrorKind::Usage, format!("{at}.body.{field}: the host sets this field itself"));
            return Err(report.hint(match field.as_str() {
                "temperature" => "write `temperature` beside `body`",
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => "write `max_tokens` beside `body`",
                "model" => "write `model` beside `body`",
                _ => "remove the field",
            }));
        }
        if self.temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
            return wrong(format!("{at}.temperature: must be between 0 and 2"));
        }
        if self.max_tokens == Some(0) {
            return wrong(format!("{at}.max_tokens: must be at least 1"));
        }
        if self.retries.is_some_and(|retries| retries > limits::HTTP_RETRIES_CEILING) {
            return wrong(format!("{at}.retries: must be at most {}", limits::HTTP_RETRIES_CEILING));
        }
        for (key, time) in [("timeout", self.timeout), ("idle_timeout", self.idle_timeout)] {
            if time.is_some_and(|time| time.is_zero() || time > limits::COMPLETION_TIME_CEILING) {
                let most = super::effective_setting::shown(limits::COMPLETION_TIME_CEILING);
                return wrong(format!("{at}.{key}: must be more than 0 and at most {most}"));
            }
        }
        Ok(())
    }

    /// Replaces each `${NAME}` in `value`, the value of `key`, by the environment variable of that name.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a variable is not set.
    pub fn expand(
        &self,
        key: &str,
        value: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<String>, Report> {
        let place = format!("providers.{}.{key} in the config", self.name);
        let unset = |variable: &str| self.unset(variable);
        value.map(|value| expand_at(&place, value, environment, unset)).transpose()
    }

    /// Reports that an environment variable is needed and not set.
    pub fn unset(&self, variable: &str) -> Report {
        Report::new(ErrorKind::Usage, format!("the environment variable {variable} is not set"))
            .hint(format!("set {variable}, or use another model with --model"))
    }
}
