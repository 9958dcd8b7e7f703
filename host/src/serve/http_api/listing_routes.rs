//! The agents and plugins that the host has, and its health.

use std::sync::Arc;

use http::StatusCode;

use super::{
    problem::{ApiResult, Problem},
    run_routes::json,
    views::{HealthView, ServedAgentView, ServedAgentsView, ServedPluginView, ServedPluginsView},
};
use crate::{
    app::App,
    config::RunnerConfig,
    plugin::{CatalogEntry, PluginError},
    serve::hosted_runs::RunHost,
};

pub(super) fn agents(host: &RunHost) -> ApiResult {
    Ok(json(host, StatusCode::OK, &ServedAgentsView { agents: served_agents(host) }))
}

/// Returns the agents, then the teams.
pub(super) fn served_agents(host: &RunHost) -> Vec<ServedAgentView> {
    let (config, entry) = (&host.app().config, host.entry_agent());
    let view = |runner: RunnerConfig<'_>| {
        let own = runner.own();
        ServedAgentView {
            name: own.name.clone(),
            kind: own.word(),
            description: own.description.clone(),
            entry: own.name == entry,
            model: own.provider.clone(),
        }
    };
    let mut agents: Vec<_> = config.runners().map(view).collect();
    if agents.is_empty() {
        agents.push(view(RunnerConfig::Agent(&config.default_agent())));
    }
    agents
}

pub(super) async fn plugins(host: &RunHost) -> ApiResult {
    let app = Arc::clone(host.app());
    // A component without a manifest is read for its kinds.
    let plugins = tokio::task::spawn_blocking(move || plugin_views(&app)).await;
    let plugins = plugins
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the plugins cannot be read"))?;
    Ok(json(host, StatusCode::OK, &ServedPluginsView { plugins }))
}

fn plugin_views(app: &App) -> Vec<ServedPluginView> {
    let view = |(id, plugin): (&str, &CatalogEntry)| match plugin.written_manifest() {
        Some(manifest) => ServedPluginView {
            id: id.to_owned(),
            version: (!manifest.version.is_empty()).then(|| manifest.version.clone()),
            description: (!manifest.description.is_empty()).then(|| manifest.description.clone()),
            kinds: manifest.kinds.iter().map(|kind| kind.name()).collect(),
            problem: None,
        },
        None => {
            let found = plugin.manifest();
            ServedPluginView {
                id: id.to_owned(),
                version: None,
                description: None,
                kinds: found.map(|found| found.kinds.iter().map(|kind| kind.name()).collect()).unwrap_or_default(),
                problem: found.err().map(|error| PluginError::report(error).to_string()),
            }
        }
    };
    app.catalog.iter().map(view).collect()
}

pub(super) fn health(host: &RunHost) -> ApiResult {
    let runs = host.runs().iter().filter(|run| !run.state().has_ended()).count();
    let (status, word) = match host.is_stopping() {
        false => (StatusCode::OK, "ok"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    Ok(json(host, status, &HealthView { status: word, runs }))
}
