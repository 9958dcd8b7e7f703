//! What is known of vendors and servers, so that a config need not say it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    AdapterConfig, Anthropic, ChatCompletions, Gemini, HttpBatches, HttpModel, MaxTokensField, ResponsesApi,
    WireProtocol,
};
use crate::{
    error::Fault,
    model::{BatchSubmitter, Completer},
    net::{AuthHeader, HttpClient, Secret, is_loopback},
};

/// Whose API a model is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Vendor {
    /// Anthropic.
    Anthropic,
    /// OpenAI, and every server that speaks one of its APIs.
    #[default]
    Openai,
    /// Google.
    Gemini,
    /// xAI.
    Grok,
    /// OpenRouter, which passes requests on to others.
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

/// What a vendor's API is like, and where it is unless the config says otherwise.
#[derive(Debug)]
pub struct VendorPreset {
    /// Its name in a config.
    pub word: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Where its API begins.
    pub base_url: &'static str,
    /// The variable of the environment in which its key usually is. None: a server of one's own, which asks for none.
    pub key_variable: Option<&'static str>,
    /// Another variable that says where its API begins.
    pub base_url_variable: Option<&'static str>,
    /// What it speaks.
    pub api: WireApi,
    /// The header for the key and the word before it.
    pub auth: (&'static str, &'static str),
    /// Tokens that its usual models can take.
    pub context_window: Option<u64>,
    /// Which of its models to take where none is named, best first.
    pub models: &'static [&'static str],
}

/// Which API a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Fields of a request that the host writes itself: in the body of a config they would be there twice.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Chat => ChatCompletions::FIELDS,
            Self::Responses => ResponsesApi::FIELDS,
            Self::Messages => Anthropic::FIELDS,
            Self::GenerateContent => Gemini::FIELDS,
        }
    }
}

/// What a config can say of how an API is spoken; none: as the vendor's preset has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireOptions {
    /// Which API.
    pub api: Option<WireApi>,
    /// Chat Completions: how the longest reply is named; none: as the host of the base URL wants it.
    pub max_tokens_field: Option<MaxTokensField>,
    /// All but Google's: whether calls and thoughts that a model prints as text are found; none: on servers of one's own, by
    /// their kind or their address on this machine, which leave it to their models how these are marked and do not always
    /// look for them.
    pub printed_calls: Option<bool>,
    /// Messages: whether the vendor is asked to keep the conversation for the next request; none: it is.
    pub prompt_cache: Option<bool>,
    /// Responses: whether the model is asked for its thoughts, encrypted; none: if its name is that of one that has them.
    pub encrypted_reasoning: Option<bool>,
}

/// An API, as a config wants it spoken.
enum ConfiguredProtocol {
    Chat(ChatCompletions),
    Responses(ResponsesApi),
    Messages(Anthropic),
    GenerateContent(Gemini),
}

/// Header and word of `Authorization: Bearer …`.
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
    // What OpenAI's own clients read.
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

/// A server on this machine. What its model can take depends on how it was started.
const fn local(word: &'static str, name: &'static str, base_url: &'static str) -> VendorPreset {
    let (key_variable, base_url_variable, context_window) = (None, None, None);
    VendorPreset { word, name, base_url, key_variable, base_url_variable, context_window, models: &[], ..OPENAI }
}

const OLLAMA: VendorPreset = local("ollama", "Ollama", "http://127.0.0.1:11434/v1");
const LLAMACPP: VendorPreset = local("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1");
const VLLM: VendorPreset = local("vllm", "vLLM", "http://127.0.0.1:8000/v1");
const LMSTUDIO: VendorPreset = local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1");

impl Vendor {
    /// All of them, those with keys first, in the order in which a model is looked for.
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

    /// What is known of it.
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

    /// Its key as it is sent.
    pub fn auth(self, key: Secret) -> AuthHeader {
        let (header, scheme) = self.preset().auth;
        AuthHeader { header: header.into(), scheme: scheme.into(), key }
    }

    /// A model of it.
    ///
    /// # Errors
    ///
    /// Those of [`HttpModel::new`].
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

    /// The batches of a model of it; none where it has none. xAI has batches of its own kind, which are not spoken.
    ///
    /// # Errors
    ///
    /// Those of [`HttpBatches::new`].
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

    /// Whether requests can be handed over in batches.
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

    /// Returns `true` if calls and thoughts are looked for in the text that a server of this kind sends at this address: on
    /// servers of one's own, and on whatever answers on this machine under another vendor's kind.
    pub fn prints_calls(self, base_url: &str) -> bool {
        self.is_local() || Url::parse(base_url).is_ok_and(|url| is_loopback(&url))
    }

    /// Whether it is a server of one's own: it asks for no key and sends no bill.
    pub fn is_local(self) -> bool {
        self.preset().key_variable.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_this_machine_are_read_alike_whatever_their_kind() {
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
    fn only_who_has_batches_makes_some() {
        for vendor in Vendor::ALL {
            let (client, config) = (HttpClient::new().unwrap(), AdapterConfig::new(vendor.preset().base_url, "m-1"));
            let batches = vendor.batches(client, config, WireOptions::default()).unwrap();
            let expected = [Vendor::Openai, Vendor::Anthropic, Vendor::Gemini].contains(&vendor);
            assert_eq!((batches.is_some(), vendor.has_batches()), (expected, expected));
        }
    }
}
