//! A model without a config: a key in the environment, or a server on its usual port.

use futures_util::future::join_all;

use super::{AdapterConfig, Vendor, openai::list_models};
use crate::{
    limits,
    net::{HttpClient, Secret},
};

/// The variables in which keys of vendors are looked for.
pub fn key_variables() -> impl Iterator<Item = &'static str> {
    Vendor::ALL.into_iter().filter_map(|vendor| vendor.preset().key_variable)
}

/// A model that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Whose it is.
    pub vendor: Vendor,
    /// How to reach it.
    pub config: AdapterConfig,
    /// Why it was taken, for people.
    pub because: String,
}

/// Looks for a model: first for a key in `environment`, then for a local server. `model` is the vendor's name of the one
/// that is wanted; none: the vendor's usual one, or the first that the server has.
pub async fn discover(
    client: &HttpClient,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
    model: Option<&str>,
) -> Option<Found> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    for vendor in Vendor::ALL {
        let preset = vendor.preset();
        let Some((variable, key)) = preset.key_variable.and_then(|variable| Some((variable, set(variable)?))) else {
            continue;
        };
        let key = Secret::new(key);
        let base_url = preset.base_url_variable.and_then(set).unwrap_or_else(|| preset.base_url.to_owned());
        let model = match model {
            Some(model) => model.to_owned(),
            None => preferred_model(client, &base_url, &key, preset.models).await,
        };
        let config = AdapterConfig { auth: Some(vendor.auth(key)), ..AdapterConfig::new(base_url, model) };
        return Some(Found { vendor, config, because: format!("{variable} is set") });
    }
    let servers = Vendor::ALL.into_iter().filter(|vendor| vendor.is_local());
    let lists = servers.map(async |vendor| {
        let preset = vendor.preset();
        let models = list_models(client, preset.base_url, None, limits::DISCOVERY_TIME).await.ok()?;
        let model = model.map(str::to_owned).or_else(|| models.into_iter().next())?;
        let because = format!("{} answers at {}", preset.name, preset.base_url);
        Some(Found { vendor, config: AdapterConfig::new(preset.base_url, model), because })
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
