//! Discovery of a model without a config: by a key in the environment, or by a server on its usual port.

use futures_util::future::join_all;

use super::{
    AdapterConfig, ServedWindow, Vendor, WindowProbe,
    listing::{ListedModel, preferred},
};
use shelly_core::{error::Fault, limits};
use shelly_net::{HttpClient, Secret, endpoint, origin};

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

/// An address in the environment that takes the place of a vendor's own, for a model that no config names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorAddress {
    /// The vendor's name for messages.
    pub vendor: &'static str,
    /// The variable with the vendor's key.
    pub key_variable: &'static str,
    /// The variable that has the address.
    pub variable: &'static str,
    /// The base URL of the API.
    pub base_url: String,
}

impl VendorAddress {
    /// Returns the addresses in `environment`, whether or not there is a key for them.
    pub fn all_in(environment: &dyn Fn(&str) -> Option<String>) -> Vec<Self> {
        Vendor::ALL.into_iter().filter_map(|vendor| Self::of(vendor, environment)).collect()
    }

    fn of(vendor: Vendor, environment: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let preset = vendor.preset();
        let (key_variable, variable) = (preset.key_variable?, preset.base_url_variable?);
        let base_url = environment(variable).filter(|value| !value.is_empty())?;
        let is_own = base_url.trim_end_matches('/') == preset.base_url;
        (!is_own).then_some(Self { vendor: preset.name, key_variable, variable, base_url })
    }

    /// Returns the host of the address, for messages: the path and the rest may hold a credential.
    pub fn host(&self) -> String {
        endpoint(&self.base_url, &[]).map_or_else(|_| "an address that cannot be used".into(), |url| origin(&url))
    }
}

/// A failure of the search for a model: the server at an address in the environment does not answer.
#[derive(Debug, Clone)]
pub struct SilentServer {
    /// The address.
    pub address: VendorAddress,
    /// The failure of the request for its models.
    pub fault: Fault,
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
    /// A warning that the server may not have the model, which nobody has named.
    pub doubt: Option<String>,
    /// The context window that the server reports, if it is a local server.
    pub served: Option<ServedWindow>,
}

/// Looks for a model: first by a key in `environment`, then on a local server. `model` is the vendor's name of the wanted
/// model; `None`: the vendor's usual one, or the first that the server lists.
///
/// # Errors
///
/// [`SilentServer`] if the server at an address in `environment` would have to name the model and does not answer: the
/// vendor's usual model is not taken for one of that server.
pub async fn discover(
    client: &HttpClient,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
    model: Option<&str>,
) -> Result<Option<DiscoveredModel>, SilentServer> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    for vendor in Vendor::ALL {
        let preset = vendor.preset();
        let Some((variable, key)) = preset.key_variable.and_then(|variable| Some((variable, set(variable)?))) else {
            continue;
        };
        let elsewhere = VendorAddress::of(vendor, environment);
        // The window of the vendor's own models says nothing about those of another server.
        let usual = preset.context_window.filter(|_| elsewhere.is_none());
        let base_url = elsewhere.as_ref().map_or(preset.base_url, |address| address.base_url.as_str());
        let because = match &elsewhere {
            Some(address) => format!("{variable} is set, and {} leads to {}", address.variable, address.host()),
            None => format!("{variable} is set"),
        };
        let auth = Some(vendor.auth(Secret::new(key)));
        let config = AdapterConfig { auth, ..AdapterConfig::new(base_url, model.unwrap_or(preset.models[0])) };
        let config = AdapterConfig { context_window: usual, ..config };
        let (config, unlisted) = match model {
            Some(_) => (config, None),
            None => with_preferred_model(client, vendor, config).await,
        };
        let doubt = match (elsewhere, unlisted) {
            (Some(address), Some(fault @ (Fault::Unavailable { .. } | Fault::Timeout { .. }))) => {
                return Err(SilentServer { address, fault });
            }
            (Some(address), Some(fault)) => Some(format!(
                "the models of {}, to which {} leads, are unknown ({fault}), so the usual model of {}, {}, is asked for; name \
                 another one with --model",
                address.host(),
                address.variable,
                address.vendor,
                config.model
            )),
            _ => None,
        };
        return Ok(Some(DiscoveredModel { vendor, config, because, doubt, served: None }));
    }
    let found = local_servers(client).await.into_iter().find_map(|LocalModelServer { vendor, models }| {
        let (models, preset) = (models.ok()?, vendor.preset());
        let model = model.map(str::to_owned).or_else(|| models.into_iter().next().map(|model| model.id))?;
        let because = format!("{} answers at {}", preset.name, preset.base_url);
        let config = AdapterConfig::new(preset.base_url, model);
        Some(DiscoveredModel { vendor, config, because, doubt: None, served: None })
    });
    let Some(mut found) = found else { return Ok(None) };
    if let Some(probe) = WindowProbe::new(client, found.vendor, &found.config) {
        found.served = probe.ask().await;
        found.config.context_window = found.served.map(|window| window.tokens);
    }
    Ok(Some(found))
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

/// Sets the first of the preferred models that the server lists, with its listed context window. Keeps `config` if the server
/// lists none, and returns the reason.
async fn with_preferred_model(
    client: &HttpClient,
    vendor: Vendor,
    config: AdapterConfig,
) -> (AdapterConfig, Option<Fault>) {
    let offered = match vendor.list_models(client, &config, limits::CONNECT_TIME).await {
        Ok(offered) => offered,
        Err(fault) => return (config, Some(fault)),
    };
    let Some(model) = preferred(&offered, vendor.preset().models) else {
        return (config, Some(Fault::other("it lists none")));
    };
    let context_window = model.context_window.or(config.context_window);
    (AdapterConfig { context_window, name: model.id.clone(), model: model.id.clone(), ..config }, None)
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
        discover(&HttpClient::new().unwrap(), &environment, model).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn address_in_the_environment_is_named_by_its_host() {
        let list = r#"{"data":[{"id":"of-a-gateway"}]}"#;
        let server = TestServer::start(vec![answer("200 OK", "", list)]).await;
        let host = server.url.trim_start_matches("http://").to_owned();
        let address = format!("{}/secret-path", server.url);
        let at = found(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", &address)], None).await;
        assert_eq!(at.because, format!("OPENAI_API_KEY is set, and OPENAI_BASE_URL leads to {host}"));
        assert_eq!((&*at.config.model, at.doubt), ("of-a-gateway", None));
        // The vendor's own address is not said.
        for address in ["", "https://api.openai.com/v1", "https://api.openai.com/v1/"] {
            let own = found(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", address)], Some("m")).await;
            assert_eq!((&*own.because, own.config.context_window), ("OPENAI_API_KEY is set", Some(128_000)));
        }
        let unusable = found(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "sk-secret")], Some("m")).await;
        assert!(unusable.because.ends_with("leads to an address that cannot be used"), "{}", unusable.because);
    }

    #[tokio::test]
    async fn usual_model_is_not_taken_for_one_of_a_silent_server() {
        // Nothing listens on a port that was just given back.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}/v1");
        let environment = |name: &str| match name {
            "OPENAI_API_KEY" => Some("k".to_owned()),
            "OPENAI_BASE_URL" => Some(url.clone()),
            _ => None,
        };
        let client = HttpClient::new().unwrap();
        let silent = discover(&client, &environment, None).await.unwrap_err();
        assert_eq!((silent.address.variable, silent.address.host()), ("OPENAI_BASE_URL", format!("127.0.0.1:{port}")));
        // A model that the person names is taken, and asked.
        let named = discover(&client, &environment, Some("m")).await.unwrap().unwrap();
        assert_eq!(named.config.model, "m");
    }

    #[tokio::test]
    async fn usual_model_of_a_server_without_a_list_is_doubted() {
        for (status, body, says) in [
            ("200 OK", "no", "answered without a list of models"),
            ("200 OK", r#"{"data":[]}"#, "it lists none"),
            ("401 Unauthorized", "no", "so the usual model of OpenAI, gpt-5-mini, is asked for"),
        ] {
            let server = TestServer::start(vec![answer(status, "", body)]).await;
            let found = found(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", &server.url)], None).await;
            let doubt = found.doubt.unwrap_or_default();
            assert!(doubt.contains(says) && doubt.contains("--model"), "{body}: {doubt}");
        }
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
