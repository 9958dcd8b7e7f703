//! Prepares a run: builds the agent or team, registers those that it may start, and opens its session.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    App, EntryRunner, ModelCache, Recording, ResolvedModel, RunResources, RunSession, StartupNotices,
    agent_assembly::no_price_for_run, runner_factory::RunnerFactory,
};
use crate::{
    agent::{AgentEntry, AgentGroup},
    config::{AgentConfig, RunnerConfig},
    error::Report,
    limits,
    model::ModelInfo,
    plugin::CompileStep,
};

/// A runner that is ready to run, with the notices for the person.
pub struct PreparedRun {
    /// The agent or team to run.
    pub entrant: EntryRunner,
    /// Its position in the config, for hints: `agents.lead`.
    pub place: String,
    /// The group of agents that it works with, including itself.
    pub agent_group: Arc<AgentGroup>,
    /// Choices that the host made without being told to.
    pub notes: Vec<String>,
    /// Problems that do not keep the agent from running.
    pub warnings: Vec<String>,
    /// The source of its model, for hints: `providers.local in the config`, `OPENAI_API_KEY is set`.
    pub model_source: String,
    /// Its model. For a team it is the model of its coordinator, or that of its first member if the coordinator asks none.
    pub model: ModelInfo,
    /// `true` if its model is a plugin; hints then name the plugin's grants.
    pub model_is_plugin: bool,
    /// The session in which the run is recorded, if it is.
    pub session: Option<RunSession>,
}

impl App {
    /// Builds the agent or team `name` with the model `model`; each defaults to that of the config. A config without
    /// agents has one, `DEFAULT_AGENT`, with every plugin that needs no grant; a config without models uses one that is
    /// discovered. If the runner or one of its members may delegate, the other agents of the config are built too. `model`
    /// applies to all of them. The run is recorded as `recording` says. Agents with `place` are left to workers of the
    /// cluster, except for the one that the [queue](App::with_queued_run) gave to this process.
    ///
    /// # Errors
    ///
    /// A [`Report`]: no such agent or model, a required plugin cannot be loaded, or the session cannot be used.
    pub async fn agent(
        &self,
        name: Option<&str>,
        model: Option<&str>,
        recording: Recording,
    ) -> Result<PreparedRun, Report> {
        let placed = self.placed(name);
        placed.as_ref().unwrap_or(self).prepare(name, model, recording).await
    }

    /// Does the same, with the agents of its config as they are.
    async fn prepare(
        &self,
        name: Option<&str>,
        model: Option<&str>,
        recording: Recording,
    ) -> Result<PreparedRun, Report> {
        self.open_plugins(name, model).await?;
        let mut notices = StartupNotices { notes: Vec::new(), warnings: self.project.warnings().to_vec() };
        notices.warnings.extend(self.recover_changes());
        notices.warnings.extend(self.missing_programs());
        notices.warnings.extend_from_slice(self.telemetry_warnings());
        let shared = RunResources::new(&self.project, &self.broker, self.changes());
        let models = ModelCache::new(&shared.stores);
        let mut default;
        let who = match self.is_default(name) {
            true => {
                default = self.default_agent(&mut notices.warnings);
                if self.config.user.has_default_toolboxes {
                    let resolved = self.model(&default, model, &models, &mut notices).await?;
                    notices.notes.extend(fit_to_window(&mut default, resolved.completer.info()));
                }
                RunnerConfig::Agent(&default)
            }
            false => name.map_or_else(|| self.config.entry(), |name| self.config.who(name))?,
        };
        let (own, (mut all, others)) = (who.own(), self.runners_with(who));
        let starts_others = all.iter().any(|who| who.own().options.max_delegation_depth > 0);
        let called: Vec<_> = all.iter().flat_map(|who| &who.own().agent_tools).map(|uses| &*uses.agent).collect();
        let served: Vec<_> = all.iter().chain(&others).map(|who| who.own()).collect();
        let servers = self.reach_servers(&served, &mut notices).await;
        let apis = self.reach_apis(&served, &mut notices).await;
        let shared = shared.with_sources(servers, apis);
        let mut makers = RunnerFactory::new(self, model, &models, &shared);
        let (made, made_model) = makers.make(who, &mut notices).await?;
        let entrant = made.entry(&self.queued.ceiling)?.within(&self.budget);
        let bounded = self.budget.usd.is_some();
        if bounded {
            makers.check_all_prices(who, no_price_for_run)?;
        }
        let agent_group = shared.agent_group().with_limits(self.config.runs.limits());
        // A runner with a limit on concurrent runs is registered even if nobody can start it: its permits count for its
        // members.
        let is_known = |inner: &&RunnerConfig<'_>| {
            starts_others || called.contains(&inner.name()) || inner.own().max_concurrency > 0
        };
        for inner in all.iter().filter(is_known) {
            let made = makers.made(inner.name());
            agent_group.registry.register_under(entry(inner.own()), move |ceiling| made.under(ceiling));
        }
        for other in others {
            match makers.make_priced(other, own, &mut notices).await {
                Ok(_) if bounded && makers.check_all_prices(other, no_price_for_run).is_err() => {
                    let (word, name) = (other.own().word(), other.name().escape_debug());
                    let mend = "set it with `price` under the model in the config";
                    notices
                        .warnings
                        .push(format!("ignoring {word} `{name}`: the price of its model is unknown ({mend})"));
                }
                Ok(made) => {
                    agent_group.registry.register_under(entry(other.own()), move |ceiling| made.under(ceiling));
                    all.push(other);
                }
                // The requested runner can work without this one.
                Err(report) => {
                    let (word, name) = (other.own().word(), other.name().escape_debug());
                    notices.warnings.push(format!("ignoring {word} `{name}`: {}", report.with_hint()));
                }
            }
        }
        notices.warnings.extend(self.stand_ins(all.iter().map(|who| who.own())));
        let model_is_plugin = made_model.is_plugin();
        let ResolvedModel { completer, source: model_source, .. } = made_model;
        let model = completer.info().clone();
        let (agent_group, session) = self.record(recording, (own, &model), agent_group, &all, &shared)?;
        let agent_group = Arc::new(agent_group);
        let entrant = entrant.with_agent_group(&agent_group);
        notices.warnings.extend(self.engine_warnings());
        let StartupNotices { notes, warnings } = notices;
        let place = own.place();
        Ok(PreparedRun { entrant, place, agent_group, notes, warnings, model, model_source, model_is_plugin, session })
    }

    /// Returns the runners that a run of `who` needs, including itself, and the others that it may start.
    pub(crate) fn runners_with<'a>(&'a self, who: RunnerConfig<'a>) -> (Vec<RunnerConfig<'a>>, Vec<RunnerConfig<'a>>) {
        let all = self.config.needed_by(who);
        let starts_others = all.iter().any(|who| who.own().options.max_delegation_depth > 0);
        let is_other = |other: &RunnerConfig<'_>| starts_others && all.iter().all(|had| had.name() != other.name());
        let others = self.config.runners().filter(is_other).collect();
        (all, others)
    }

    /// Validates and compiles the plugins of a run before they are used one by one. Several are compiled at once, and
    /// dropping the future ends the compiling processes. Mistakes in a plugin are reported where it is needed.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent.
    pub(crate) async fn open_plugins(&self, name: Option<&str>, model: Option<&str>) -> Result<(), Report> {
        let default;
        let who = match self.is_default(name) {
            true => {
                self.open_lone_plugins().await;
                default = self.default_agent(&mut Vec::new());
                RunnerConfig::Agent(&default)
            }
            false => name.map_or_else(|| self.config.entry(), |name| self.config.who(name))?,
        };
        let (all, others) = self.runners_with(who);
        let agents = || all.iter().chain(&others).map(|who| who.own());
        let models = agents().flat_map(|agent| {
            let of_plugins = agent.all_plugins().flat_map(|(_, _, uses)| &uses.models).map(|name| Some(name.as_str()));
            of_plugins.chain([model.or(agent.provider.as_deref())]).collect::<Vec<_>>()
        });
        let models = models.filter_map(|name| self.model_plugin(name));
        let ids: BTreeSet<_> =
            agents().flat_map(|agent| agent.all_plugins()).map(|(_, id, _)| id).chain(models).collect();
        self.catalog.open(ids, CompileStep::Compile).await;
        Ok(())
    }

    /// Validates and compiles the plugins without a manifest: their kinds are known only from their components.
    pub(crate) async fn open_lone_plugins(&self) {
        let lone = self.catalog.iter().filter(|(_, plugin)| plugin.written_manifest().is_none());
        self.catalog.open(lone.map(|(id, _)| id), CompileStep::Compile).await;
    }

    /// Returns the id of the plugin behind the model `name`, or behind the first model of the config.
    pub(crate) fn model_plugin<'a>(&'a self, name: Option<&'a str>) -> Option<&'a str> {
        match self.config.named_provider(name) {
            Ok(provider) => provider?.plugin.as_deref(),
            // A plugin that the config does not name can be named as a model.
            Err(_) => name,
        }
    }

    /// Validates all plugins that are loaded into the app, as [`App::check`] needs them. Time and memory are bounded, and
    /// dropping the future ends the validating processes.
    pub async fn validate_plugins(&self) {
        self.catalog.open(self.catalog.iter().map(|(id, _)| id), CompileStep::Validate).await;
    }
}

/// Takes the tools from the default agent that do not fit into the window of its model. Returns a note if it took some.
fn fit_to_window(agent: &mut AgentConfig, model: &ModelInfo) -> Option<String> {
    let window = model.context_window.tokens().filter(|tokens| *tokens < limits::DEFAULT_TOOLS_WINDOW)?;
    agent.keep_file_tools();
    Some(format!(
        "the model takes only {window} tokens, so the agent has no tools but those for files; name others under `toolboxes` \
         in a config"
    ))
}

/// Returns the registry entry of an agent, as other agents see it.
fn entry(config: &AgentConfig) -> AgentEntry {
    AgentEntry {
        skills: config.skills_tags.clone(),
        estimated_cost: config.estimated_cost,
        max_concurrency: (config.max_concurrency > 0).then_some(config.max_concurrency),
        ..AgentEntry::new(config.name.as_str(), config.description.as_str())
    }
}
