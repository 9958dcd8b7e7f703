//! Discovery of a model without a config: by a key in the environment, or by a server on its usual port.

use futures_util::future::join_all;

use super::{
    AdapterConfig, ServedWindow, Vendor, WindowProbe,
    listing::{ListedModel, preferred},
};
use shelly_core::{error::Fault, limits};
use shelly_net::{HttpClient, Secret};

/// Returns the environment variables in which keys of vendors are looked for, in this order.
pub fn key_variables() -> impl Iterator<Item = &'static str> {
    vendor_keys().map(|(variable, _)| variable)
}

/// Returns these variables, each with the name of its vendor for messages.
pub fn vendor_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    Vendor::ALL.into_iter().filter_map(|vendor| Some((vendor.preset().key_variable?, vendor.preset().name)))
}

/// Lists these variables as `A, B or C`, with `last` before the last one.
pub fn key_variables_in_words(last: &str) -> String {
    let names: Vec<_> = key_variables().collect();
    match names.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}

/// Lists the servers that are looked for on this machine, for a sentence.
pub fn local_servers_in_words() -> String {
    let names = Vendor::ALL.into_iter().filter(|vendor| vendor.is_local()).map(|vendor| vendor.preset().name);
    names.collect::<Vec<_>>().join(", ")
}

/// A discovered model.
#[derive(Debug, Clone)]
pub struct DiscoveredModel {
    /// The vendor of the model.
    pub vendor: Vendor,
    /// The settings with which the model is reached, and its context window, if its server or its vendor reports one.
    pub config: AdapterConfig,
    /// The reason for the choice, for messages.
    pub because: String,
    /// The context window that the server reports, if it is a local server.
    pub served: Option<ServedWindow>,
}

/// Looks for a model: first by a key in `environment`, then on a local server. `model` is the vendor's name of the wanted
/// model; `None`: the vendor's usual one, or the first that the server lists.
pub async fn discover(
    client: &HttpClient,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
    model: Option<&str>,
) -> Option<DiscoveredModel> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    for vendor in Vendor::ALL {
        let preset = vendor.preset();
        let Some((variable, key)) = preset.key_variable.and_then(|variable| Some((variable, set(variable)?))) else {
            continue;
        };
        let elsewhere = preset.base_url_variable.and_then(set);
        // The window of the vendor's own models says nothing about those of another server.
        let usual = preset.context_window.filter(|_| elsewhere.is_none());
        let base_url = elsewhere.unwrap_or_else(|| preset.base_url.to_owned());
        let auth = Some(vendor.auth(Secret::new(key)));
        let config = AdapterConfig { auth, ..AdapterConfig::new(base_url, model.unwrap_or(preset.models[0])) };
        let config = AdapterConfig { context_window: usual, ..config };
        let config = match model {
            Some(_) => config,
            None => with_preferred_model(client, vendor, config).await,
        };
        return Some(DiscoveredModel { vendor, config, because: format!("{variable} is set"), served: None });
    }
    let found = local_servers(client).await.into_iter().find_map(|LocalModelServer { vendor, models }| {
        let (models, preset) = (models.ok()?, vendor.preset());
        let model = model.map(str::to_owned).or_else(|| models.into_iter().next().map(|model| model.id))?;
        let because = format!("{} answers at {}", preset.name, preset.base_url);
        Some(DiscoveredModel { vendor, config: AdapterConfig::new(preset.base_url, model), because, served: None })
    });
    let mut found = found?;
    if let Some(probe) = WindowProbe::new(client, found.vendor, &found.config) {
        found.served = probe.ask().await;
        found.config.context_window = found.served.map(|window| window.tokens);
    }
    Some(found)
}

/// A model server that was looked for on this machine.
#[derive(Debug, Clone)]
pub struct LocalModelServer {
    /// The kind of the server; its preset has the address.
    pub vendor: Vendor,
    /// The models that the server lists, or the reason for which there is no list.
    pub models: Result<Vec<ListedModel>, Fault>,
}

/// Asks the usual port of each kind of local server for its models, within [`limits::DISCOVERY_TIME`].
pub async fn local_servers(client: &HttpClient) -> Vec<LocalModelServer> {
    let servers = Vendor::ALL.into_iter().filter(|vendor| vendor.is_local());
    let asked = servers.map(async |vendor| {
        let config = AdapterConfig::new(vendor.preset().base_url, "");
        LocalModelServer { vendor, models: vendor.list_models(client, &config, limits::DISCOVERY_TIME).await }
    });
    join_all(asked).await
}

/// Sets the first of the preferred models that the vendor lists, with its listed context window. Keeps `config` if the
/// vendor does not answer.
async fn with_preferred_model(client: &HttpClient, vendor: Vendor, config: AdapterConfig) -> AdapterConfig {
    let offered = vendor.list_models(client, &config, limits::CONNECT_TIME).await.unwrap_or_default();
    let Some(model) = preferred(&offered, vendor.preset().models) else { return config };
    let context_window = model.context_window.or(config.context_window);
    AdapterConfig { context_window, name: model.id.clone(), model: model.id.clone(), ..config }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_test_support::{TestServer, answer};

    async fn found(variables: &[(&str, &str)], model: Option<&str>) -> DiscoveredModel {
        let environment = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        discover(&HttpClient::new().unwrap(), &environment, model).await.unwrap()
    }

    #[tokio::test]
    async fn a_found_model_has_its_window() {
        // No request is sent if the model is named.
        for (variable, window) in [
            ("OPENAI_API_KEY", Some(128_000)),
            ("ANTHROPIC_API_KEY", Some(200_000)),
            ("GEMINI_API_KEY", Some(1_048_576)),
            ("XAI_API_KEY", Some(131_072)),
            ("OPENROUTER_API_KEY", None),
        ] {
            let found = found(&[(variable, "sk-secret")], Some("m")).await;
            assert_eq!((&*found.config.model, found.config.context_window), ("m", window), "{variable}");
        }
        let elsewhere = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
        assert_eq!(found(&elsewhere, Some("m")).await.config.context_window, None);
    }

    #[tokio::test]
    async fn model_list_determines_model_and_window() {
        let list = r#"{"data":[{"id":"claude-opus-4-1"},{"id":"claude-sonnet-4-5-20250929","max_input_tokens":7}]}"#;
        for (body, model, window) in [
            (list, "claude-sonnet-4-5-20250929", Some(7)),
            (r#"{"data":[{"id":"of-a-gateway"}]}"#, "of-a-gateway", None),
            ("no", "claude-sonnet-4-5", None),
        ] {
            let server = TestServer::start(vec![answer("200 OK", "", body)]).await;
            let found = found(&[("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", &server.url)], None).await;
            assert_eq!((&*found.config.model, found.config.context_window), (model, window), "{body}");
            assert_eq!(found.config.name, found.config.model);
            let sent = server.requests().concat().to_lowercase();
            assert!(sent.starts_with("get /v1/models?") && sent.contains("x-api-key: k"), "{sent}");
        }
    }

    #[test]
    fn key_variables_are_listed_in_words() {
        let words = key_variables_in_words("or");
        assert!(key_variables().all(|variable| words.contains(variable)), "{words}");
        assert!(words.ends_with(" or OPENROUTER_API_KEY"), "{words}");
    }
}
