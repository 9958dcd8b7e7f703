//! Presets of known vendors and servers, so that a config need not spell them out.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    AdapterConfig, Anthropic, ChatCompletions, Gemini, HttpBatches, HttpModel, MaxTokensField, ResponsesApi,
    WireProtocol,
};
use shelly_core::{
    error::Fault,
    model::{BatchSubmitter, Completer},
};
use shelly_net::{AuthHeader, HttpClient, Secret, is_loopback};

/// The vendor or server whose API a model is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Vendor {
    /// Anthropic.
    Anthropic,
    /// OpenAI, and every server that offers one of its APIs.
    #[default]
    Openai,
    /// Google.
    Gemini,
    /// xAI.
    Grok,
    /// OpenRouter, which forwards requests to other vendors.
    Openrouter,
    /// A local Ollama.
    Ollama,
    /// A local `llama-server` of llama.cpp.
    Llamacpp,
    /// A local vLLM.
    Vllm,
    /// A local LM Studio.
    Lmstudio,
}

/// The properties of a vendor's API, and its address unless the config sets another.
#[derive(Debug)]
pub struct VendorPreset {
    /// The vendor's name in a config.
    pub word: &'static str,
    /// The vendor's name in messages.
    pub name: &'static str,
    /// The base URL of the vendor's API.
    pub base_url: &'static str,
    /// The environment variable that usually holds the vendor's key; `None` for a server that the user runs, which needs no
    /// key.
    pub key_variable: Option<&'static str>,
    /// An environment variable that overrides the base URL.
    pub base_url_variable: Option<&'static str>,
    /// The API that the vendor's server offers.
    pub api: WireApi,
    /// The header that carries the key, and the scheme in front of the key.
    pub auth: (&'static str, &'static str),
    /// The context window of the vendor's usual models, in tokens.
    pub context_window: Option<u64>,
    /// The models to choose from if the config names none, best first.
    pub models: &'static [&'static str],
}

/// The API that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WireApi {
    /// Chat Completions, of OpenAI and of nearly everyone else.
    Chat,
    /// Responses, of OpenAI and some others.
    Responses,
    /// Messages, of Anthropic and some others.
    Messages,
    /// Google's `generateContent`.
    #[serde(rename = "gemini")]
    GenerateContent,
}

impl WireApi {
    /// Returns the fields of the request body that the host writes itself. A config must not set them, since they would
    /// appear twice.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Chat => ChatCompletions::FIELDS,
            Self::Responses => ResponsesApi::FIELDS,
            Self::Messages => Anthropic::FIELDS,
            Self::GenerateContent => Gemini::FIELDS,
        }
    }
}

/// The settings of a config that concern the API; `None` means the default of the vendor's preset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireOptions {
    /// The API that the server offers.
    pub api: Option<WireApi>,
    /// Chat Completions: the field that carries the token limit of a reply; `None`: chosen by the host of the base URL.
    pub max_tokens_field: Option<MaxTokensField>,
    /// All APIs but Google's: `true` to search for calls and thoughts that a model prints as text. `None`: enabled for
    /// servers that the user runs, recognized by their kind or by a loopback address. They leave the marks of calls and
    /// thoughts to the model and do not always look for them.
    pub printed_calls: Option<bool>,
    /// Messages: `true` to ask the vendor to cache the conversation for the next request; `None`: enabled.
    pub prompt_cache: Option<bool>,
    /// Responses: `true` to request the model's encrypted reasoning; `None`: enabled if the model's name is that of a
    /// reasoning model.
    pub encrypted_reasoning: Option<bool>,
}

/// A wire protocol with the options of the config applied.
enum ConfiguredProtocol {
    Chat(ChatCompletions),
    Responses(ResponsesApi),
    Messages(Anthropic),
    GenerateContent(Gemini),
}

/// The header and scheme of `Authorization: Bearer …`.
const BEARER: (&str, &str) = ("authorization", "Bearer");

const ANTHROPIC: VendorPreset = VendorPreset {
    word: "anthropic",
    name: "Anthropic",
    base_url: "https://api.anthropic.com",
    key_variable: Some("ANTHROPIC_API_KEY"),
    base_url_variable: Some("ANTHROPIC_BASE_URL"),
    api: WireApi::Messages,
    auth: ("x-api-key", ""),
    context_window: Some(200_000),
    models: &["claude-sonnet-4-5", "claude-haiku-4-5"],
};

const GEMINI: VendorPreset = VendorPreset {
    word: "gemini",
    name: "Google",
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    key_variable: Some("GEMINI_API_KEY"),
    base_url_variable: None,
    api: WireApi::GenerateContent,
    auth: ("x-goog-api-key", ""),
    context_window: Some(1_048_576),
    models: &["gemini-2.5-flash", "gemini-2.5-pro"],
};

const OPENAI: VendorPreset = VendorPreset {
    word: "openai",
    name: "OpenAI",
    base_url: "https://api.openai.com/v1",
    key_variable: Some("OPENAI_API_KEY"),
    // OpenAI's own clients read this variable.
    base_url_variable: Some("OPENAI_BASE_URL"),
    api: WireApi::Chat,
    auth: BEARER,
    context_window: Some(128_000),
    models: &["gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini"],
};

const GROK: VendorPreset = VendorPreset {
    word: "grok",
    name: "xAI",
    base_url: "https://api.x.ai/v1",
    key_variable: Some("XAI_API_KEY"),
    base_url_variable: None,
    context_window: Some(131_072),
    models: &["grok-4", "grok-3-mini", "grok-3"],
    ..OPENAI
};

const OPENROUTER: VendorPreset = VendorPreset {
    word: "openrouter",
    name: "OpenRouter",
    base_url: "https://openrouter.ai/api/v1",
    key_variable: Some("OPENROUTER_API_KEY"),
    base_url_variable: None,
    context_window: None,
    models: &["openrouter/auto"],
    ..OPENAI
};

/// Returns the preset of a server on this machine. Its context window depends on how the server was started.
const fn local(word: &'static str, name: &'static str, base_url: &'static str) -> VendorPreset {
    let (key_variable, base_url_variable, context_window) = (None, None, None);
    VendorPreset { word, name, base_url, key_variable, base_url_variable, context_window, models: &[], ..OPENAI }
}

const OLLAMA: VendorPreset = local("ollama", "Ollama", "http://127.0.0.1:11434/v1");
const LLAMACPP: VendorPreset = local("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1");
const VLLM: VendorPreset = local("vllm", "vLLM", "http://127.0.0.1:8000/v1");
const LMSTUDIO: VendorPreset = local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1");

impl Vendor {
    /// All vendors in the order in which a model is looked for; those with keys come first.
    pub const ALL: [Self; 9] = [
        Self::Openai,
        Self::Anthropic,
        Self::Gemini,
        Self::Grok,
        Self::Openrouter,
        Self::Ollama,
        Self::Llamacpp,
        Self::Vllm,
        Self::Lmstudio,
    ];

    /// Returns the vendor's preset.
    pub const fn preset(self) -> &'static VendorPreset {
        match self {
            Self::Anthropic => &ANTHROPIC,
            Self::Openai => &OPENAI,
            Self::Gemini => &GEMINI,
            Self::Grok => &GROK,
            Self::Openrouter => &OPENROUTER,
            Self::Ollama => &OLLAMA,
            Self::Llamacpp => &LLAMACPP,
            Self::Vllm => &VLLM,
            Self::Lmstudio => &LMSTUDIO,
        }
    }

    /// Returns the header that sends `key` to this vendor.
    pub fn auth(self, key: Secret) -> AuthHeader {
        let (header, scheme) = self.preset().auth;
        AuthHeader { header: header.into(), scheme: scheme.into(), key }
    }

    /// Creates a completer for a model of this vendor.
    ///
    /// # Errors
    ///
    /// The errors of [`HttpModel::new`].
    pub fn completer(
        self,
        client: HttpClient,
        config: AdapterConfig,
        options: WireOptions,
    ) -> Result<Arc<dyn Completer>, Fault> {
        Ok(match self.speaks(options, &config.base_url) {
            ConfiguredProtocol::Chat(wire) => Arc::new(HttpModel::new(client, config, wire)?),
            ConfiguredProtocol::Responses(wire) => Arc::new(HttpModel::new(client, config, wire)?),
            ConfiguredProtocol::Messages(wire) => Arc::new(HttpModel::new(client, config, wire)?),
            ConfiguredProtocol::GenerateContent(wire) => Arc::new(HttpModel::new(client, config, wire)?),
        })
    }

    /// Creates a batch submitter for a model of this vendor; `None` if the vendor has no batches. The batch API of xAI
    /// differs and is not supported.
    ///
    /// # Errors
    ///
    /// The errors of [`HttpBatches::new`].
    pub fn batches(
        self,
        client: HttpClient,
        config: AdapterConfig,
        options: WireOptions,
    ) -> Result<Option<Arc<dyn BatchSubmitter>>, Fault> {
        if !self.has_batches() {
            return Ok(None);
        }
        Ok(Some(match self.speaks(options, &config.base_url) {
            ConfiguredProtocol::Chat(wire) => Arc::new(HttpBatches::new(client, config, wire)?),
            ConfiguredProtocol::Responses(wire) => Arc::new(HttpBatches::new(client, config, wire)?),
            ConfiguredProtocol::Messages(wire) => Arc::new(HttpBatches::new(client, config, wire)?),
            ConfiguredProtocol::GenerateContent(wire) => Arc::new(HttpBatches::new(client, config, wire)?),
        }))
    }

    /// Returns `true` if the vendor accepts requests in batches.
    pub fn has_batches(self) -> bool {
        matches!(self, Self::Openai | Self::Anthropic | Self::Gemini)
    }

    fn speaks(self, options: WireOptions, base_url: &str) -> ConfiguredProtocol {
        let printed_calls = options.printed_calls.unwrap_or_else(|| self.prints_calls(base_url));
        match options.api.unwrap_or(self.preset().api) {
            WireApi::Chat => {
                let max_tokens_field = options.max_tokens_field;
                ConfiguredProtocol::Chat(ChatCompletions { max_tokens_field, printed_calls, think_tags: printed_calls })
            }
            WireApi::Responses => ConfiguredProtocol::Responses(ResponsesApi {
                encrypted_reasoning: options.encrypted_reasoning,
                printed_calls,
            }),
            WireApi::Messages => {
                ConfiguredProtocol::Messages(Anthropic { cache: options.prompt_cache.unwrap_or(true), printed_calls })
            }
            WireApi::GenerateContent => ConfiguredProtocol::GenerateContent(Gemini),
        }
    }

    /// Returns `true` if the text from a server of this kind at `base_url` is searched for printed calls and thoughts: for
    /// servers that the user runs, and for any loopback address, whatever vendor the config names.
    pub fn prints_calls(self, base_url: &str) -> bool {
        self.is_local() || Url::parse(base_url).is_ok_and(|url| is_loopback(&url))
    }

    /// Returns `true` for a server that the user runs: it needs no key and sends no bill.
    pub fn is_local(self) -> bool {
        self.preset().key_variable.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_servers_are_searched_for_printed_calls() {
        for (vendor, base_url, expected) in [
            (Vendor::Ollama, "http://10.0.0.7:11434/v1", true),
            (Vendor::Openai, "http://127.0.0.1:8080/v1", true),
            (Vendor::Openai, "http://localhost:1234/v1", true),
            (Vendor::Grok, "http://[::1]:8000/v1", true),
            (Vendor::Openai, "https://api.openai.com/v1", false),
            (Vendor::Openai, "http://localhost.example/v1", false),
            (Vendor::Openai, "no address", false),
        ] {
            assert_eq!(vendor.prints_calls(base_url), expected, "{vendor:?} {base_url}");
            let ConfiguredProtocol::Chat(wire) = vendor.speaks(WireOptions::default(), base_url) else {
                panic!("{vendor:?}")
            };
            assert_eq!((wire.printed_calls, wire.think_tags), (expected, expected), "{vendor:?} {base_url}");
            let off = WireOptions { printed_calls: Some(!expected), ..WireOptions::default() };
            let ConfiguredProtocol::Chat(wire) = vendor.speaks(off, base_url) else { panic!("{vendor:?}") };
            assert_eq!(wire.printed_calls, !expected, "what the config says holds");
        }
    }

    #[test]
    fn batches_exist_only_for_vendors_with_batch_api() {
        for vendor in Vendor::ALL {
            let (client, config) = (HttpClient::new().unwrap(), AdapterConfig::new(vendor.preset().base_url, "m-1"));
            let batches = vendor.batches(client, config, WireOptions::default()).unwrap();
            let expected = [Vendor::Openai, Vendor::Anthropic, Vendor::Gemini].contains(&vendor);
            assert_eq!((batches.is_some(), vendor.has_batches()), (expected, expected));
        }
    }
}
