use std::sync::Arc;

use super::{
    coordinator_step::coordinator_step, effect_step::effect_step, fixture::StepFixture,
    model_middleware_step::model_middleware_step, model_query::StepModels, record::TrialWatcher,
    run_middleware_step::run_middleware_step, step_outcome::StepTrial, tool_middleware_step::tool_middleware_step,
};
use crate::{
    error::{ErrorKind, Report},
    plugin::{Plugin, PluginKind, PluginManifest},
};

/// Calls a plugin for one step. `models` answer queries of the step.
///
/// # Errors
///
/// A [`Report`] if the input cannot be used, or is for a kind that the plugin does not have. A failure of the plugin is part of
/// the outcome.
pub async fn step(
    plugin: &Arc<Plugin>,
    input: StepFixture,
    models: Option<&dyn StepModels>,
    watch: &mut TrialWatcher<'_>,
) -> Result<StepTrial, Report> {
    match input {
        StepFixture::Effect(input) => effect_step(plugin, input, models, watch).await,
        StepFixture::RunMiddleware(input) => run_middleware_step(plugin, input, watch).await,
        StepFixture::ModelMiddleware(input) => model_middleware_step(plugin, input, watch).await,
        StepFixture::ToolMiddleware(input) => tool_middleware_step(plugin, input, watch).await,
        StepFixture::Coordinator(input) => coordinator_step(plugin, input, models, watch).await,
    }
}

/// Returns the kind of a plugin whose step is called: the wanted one, or the only one that has steps.
///
/// # Errors
///
/// A [`Report`] if the plugin has no such kind, or several and none is wanted.
pub fn step_kind(manifest: &PluginManifest, wanted: Option<PluginKind>) -> Result<PluginKind, Report> {
    let id = &manifest.id;
    let has_steps = |kind: &PluginKind| kind.is_step() || *kind == PluginKind::Coordinator;
    let with_steps: Vec<_> = manifest.kinds.iter().copied().filter(has_steps).collect();
    let names = |kinds: &[PluginKind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    match (wanted, &with_steps[..]) {
        (Some(wanted), kinds) if kinds.contains(&wanted) => Ok(wanted),
        (None, [only]) => Ok(*only),
        (_, []) => {
            let command = match manifest.kinds.contains(&PluginKind::Provider) {
                true => "shelly-host plugin complete",
                false => "shelly-host plugin call",
            };
            let kinds = names(&manifest.kinds);
            Err(usage(format!("plugin `{id}` has no steps; its kinds are {kinds}")).hint(format!("use {command}")))
        }
        (Some(wanted), kinds) => {
            Err(usage(format!("plugin `{id}` is not of kind `{wanted}`")).hint(format!("available: {}", names(kinds))))
        }
        (None, [first, ..]) => {
            Err(usage(format!("plugin `{id}` has several kinds with steps: {}", names(&with_steps)))
                .hint(format!("name one of them: --kind {first}, or `kind: {first}` in a test case")))
        }
    }
}
