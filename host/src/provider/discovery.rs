//! A model without a config: a key in the environment, or a server on its usual port.

use futures_util::future::join_all;

use super::{AdapterConfig, openai::list_models};
use crate::{
    limits,
    net::{Auth, HttpClient, Secret},
};

/// Vendors by the variable that holds their key, where their API begins, and which of their models to take, best first.
const VENDORS: [(&str, &str, &[&str]); 3] = [
    ("OPENAI_API_KEY", "https://api.openai.com/v1", &["gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini"]),
    ("XAI_API_KEY", "https://api.x.ai/v1", &["grok-4", "grok-3-mini", "grok-3"]),
    ("OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", &["openrouter/auto"]),
];

/// The variables in which keys of vendors are looked for.
pub fn key_variables() -> impl Iterator<Item = &'static str> {
    VENDORS.iter().map(|(variable, ..)| *variable)
}

/// Local servers by name and where they listen unless told otherwise.
const SERVERS: [(&str, &str); 4] = [
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
];

/// A model that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// How to reach it.
    pub config: AdapterConfig,
    /// Why it was taken, for people.
    pub because: String,
}

/// Looks for a model: first for a key in `environment`, then for a local server. `model` is the vendor's name of the one
/// that is wanted; none: the vendor's usual one, or the first that the server has.
pub async fn discover(
    client: &HttpClient,
    environment: &dyn Fn(&str) -> Option<String>,
    model: Option<&str>,
) -> Option<Found> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    for (variable, base_url, preferred) in VENDORS {
        let Some(key) = set(variable).map(Secret::new) else { continue };
        // The variable that OpenAI's own clients read.
        let elsewhere = if variable == "OPENAI_API_KEY" { set("OPENAI_BASE_URL") } else { None };
        let base_url = elsewhere.unwrap_or_else(|| base_url.to_owned());
        let model = match model {
            Some(model) => model.to_owned(),
            None => preferred_model(client, &base_url, &key, preferred).await,
        };
        let because = format!("{variable} is set");
        return Some(Found { config: at(base_url, model, Some(key)), because });
    }
    let lists = SERVERS.map(async |(name, base_url)| {
        let models = list_models(client, base_url, None, limits::DISCOVERY_TIME).await.ok()?;
        let model = model.map(str::to_owned).or_else(|| models.into_iter().next())?;
        Some(Found { config: at(base_url.into(), model, None), because: format!("{name} answers at {base_url}") })
    });
    join_all(lists).await.into_iter().flatten().next()
}

/// The first of the preferred models that the vendor has; without an answer the first preferred one.
async fn preferred_model(client: &HttpClient, base_url: &str, key: &Secret, preferred: &[&str]) -> String {
    let models = list_models(client, base_url, Some(key.clone()), limits::CONNECT_TIME).await.unwrap_or_default();
    let has = |name: &&&str| models.iter().any(|model| model == **name);
    let first = preferred.iter().find(has).map(|name| (*name).to_owned());
    first.or_else(|| models.into_iter().next()).unwrap_or_else(|| preferred[0].to_owned())
}

fn at(base_url: String, model: String, key: Option<Secret>) -> AdapterConfig {
    AdapterConfig { auth: key.map(Auth::bearer), ..AdapterConfig::new(base_url, model) }
}
