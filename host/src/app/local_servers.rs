//! The model servers on this machine that a run without a config looks for.

use crate::{
    error::{ErrorKind, Fault, Report},
    net::{HttpClient, HttpClientConfig},
    provider,
};

/// The answer of one kind of local model server on its usual port.
#[derive(Debug, Clone)]
pub struct LocalServerStatus {
    /// The name of the server, for messages.
    pub name: &'static str,
    /// The base URL at which it was asked.
    pub address: &'static str,
    /// The names of the models that it lists, or the reason for which there is no list.
    pub models: Result<Vec<String>, Fault>,
}

/// Asks each kind of local model server for its models.
///
/// # Errors
///
/// A [`Report`] if no request can be sent at all.
pub async fn local_servers() -> Result<Vec<LocalServerStatus>, Report> {
    let client = HttpClient::with(HttpClientConfig::default());
    let client = client.map_err(|fault| Report::new(ErrorKind::Provider, fault.to_string()))?;
    let status = |server: provider::LocalModelServer| {
        let (preset, models) = (server.vendor.preset(), server.models);
        let models = models.map(|models| models.into_iter().map(|model| model.id).collect());
        LocalServerStatus { name: preset.name, address: preset.base_url, models }
    };
    Ok(provider::local_servers(&client).await.into_iter().map(status).collect())
}
