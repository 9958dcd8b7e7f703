//! Builds the blueprint of an agent: its model, toolboxes, plugins, skills, and the tools that run other agents.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    App, ModelCache, ResolvedModel, RunResources, StartupNotices,
    agent_blueprint::{AgentBlueprint, AttachedPlugin},
    plugin_grants::delegable,
    plugins::{check_only, only_of},
    tool_conflicts::extend,
};
use crate::{
    builtin::EscalationContext,
    config::{AgentConfig, PluginSection, ProviderKind, StepUse, ToolboxUse, user_config_location},
    error::{ErrorKind, Report},
    model::Completer,
    tool::ToolBox,
};

impl App {
    /// Builds the blueprint of an agent, and resolves its model.
    pub(crate) async fn blueprint(
        &self,
        config: &AgentConfig,
        named: Option<&str>,
        models: &ModelCache,
        shared: &RunResources,
        notices: &mut StartupNotices,
    ) -> Result<(AgentBlueprint, ResolvedModel), Report> {
        let is_placed = config.worker_labels.is_some();
        let model = match (&config.remote, &config.worker_labels) {
            (Some(remote), _) => self.remote_agent(config, remote, notices).await?,
            (None, Some(labels)) => self.placed_agent(config, labels, named)?,
            (None, None) => self.model(config, named, models, notices).await?,
        };
        // The worker knows the price, and checks it.
        if config.bounds_usd().is_some() && model.completer.info().price.is_none() && !is_placed {
            return Err(no_price(config, &model.completer.info().model));
        }
        let mut blueprint = self.blueprint_around(config, Arc::clone(&model.completer), shared, notices).await?;
        blueprint.agent.models = self.other_models(config, models, notices).await?;
        self.add_agent_tools(config, &mut blueprint, notices);
        match model.completer.info().context_window.tokens() {
            // The other host has the window.
            None if config.remote.is_some() || is_placed => {}
            None => {
                notices.warnings.extend(self.sleepers(config));
                let notice = self.unknown_window(config, named, &model.completer.info().model, model.kind);
                // Agents on one model share the notice.
                notices.notes.extend(notice.filter(|notice| !notices.notes.contains(notice)));
            }
            Some(_) => notices.warnings.extend(self.missing_effects(config)),
        }
        Ok((blueprint, model))
    }

    /// Builds the blueprint of an agent around a resolved model.
    pub(crate) async fn blueprint_around(
        &self,
        config: &AgentConfig,
        completer: Arc<dyn Completer>,
        shared: &RunResources,
        notices: &mut StartupNotices,
    ) -> Result<AgentBlueprint, Report> {
        let mut blueprint = AgentBlueprint::new(config, completer, self.escalation_context(config), &shared.changes);
        if config.worker_labels.is_none() {
            blueprint.agent.context = self.project.context();
            // Agents that are left to workers use there what their config says.
            blueprint.agent.delegable = delegable(config, &self.whole().config);
        }
        for toolbox in &config.toolboxes {
            let place = format!("{}.toolboxes", config.place());
            let toolbox = match toolbox {
                ToolboxUse::Own(toolbox) => toolbox,
                // Its plugins are among the agent's plugins.
                ToolboxUse::Shipped(_) => continue,
                ToolboxUse::Server(uses) => {
                    // An unreachable server was reported before.
                    blueprint.servers.extend(shared.servers.of(uses));
                    continue;
                }
            };
            if let Some(running) = self.running(toolbox) {
                blueprint.running.push(running);
                continue;
            }
            let tools = shared.tools(&config.name, toolbox)?;
            extend(&mut blueprint.agent.tools, tools, &place, &mut notices.warnings);
        }
        let place = format!("{}.openapi", config.place());
        for uses in &config.openapi {
            // A document that cannot be used was reported before.
            blueprint.apis.extend(shared.apis.of(uses, &place, &mut notices.warnings));
        }
        // The effects are either all the host's defaults or all from the config.
        let has_defaults = config.effects.iter().flatten().any(|step| step.is_default);
        for (listed, id, uses) in config.all_plugins() {
            if let Some(warning) = self.vain_entry(config, listed, id) {
                notices.warnings.push(warning);
                continue;
            }
            match self.load(config, (listed, id), uses, &shared.stores, &mut notices.warnings).await {
                Ok(plugin) => {
                    let is_default = listed == PluginSection::Effects && has_defaults;
                    let (confirm, changes, only) = (uses.confirm, uses.changes, only_of(config, listed, id));
                    let roles = config.roles(listed, id);
                    blueprint.plugins.push(AttachedPlugin {
                        plugin,
                        confirm,
                        changes,
                        only,
                        listed,
                        roles,
                        is_default,
                        rebuilt: self.rebuilt_tools_of(id),
                    });
                }
                // The config does not name the plugin; it was included because it is installed.
                Err(report) if self.config.agents.is_empty() && listed != PluginSection::Toolboxes => {
                    notices.warnings.push(format!("ignoring plugin `{id}`: {report}"));
                }
                Err(report) => return Err(report),
            }
        }
        check_only(
            config,
            blueprint.plugins.iter().map(|attached_plugin| (attached_plugin.listed, &*attached_plugin.plugin)),
        )?;
        blueprint.middleware = config.middleware.iter().map(StepUse::own).map(|own| own.and_then(Result::ok)).collect();
        blueprint.ask = shared.ask();
        blueprint.skills = self.project.skills(config)?;
        Ok(blueprint)
    }

    /// Gives an agent its tools that run other agents.
    fn add_agent_tools(&self, config: &AgentConfig, blueprint: &mut AgentBlueprint, notices: &mut StartupNotices) {
        let place = format!("agents.{}.agent_tools", config.name);
        for uses in &config.agent_tools {
            let about = self.config.who(&uses.agent).map_or("", |who| &who.own().description);
            // An invalid entry was refused when the config was read.
            let Ok(tool) = uses.tool(about) else { continue };
            blueprint.calls.push((tool.name().to_owned(), uses.agent.clone()));
            extend(&mut blueprint.agent.tools, ToolBox::new().with(tool), &place, &mut notices.warnings);
        }
    }

    /// Returns the context in which tools of an agent ask for missing grants.
    fn escalation_context(&self, agent: &AgentConfig) -> EscalationContext {
        let roots = Arc::clone(&self.clients.roots);
        EscalationContext {
            broker: self.broker.clone(),
            agent: agent.name.as_str().into(),
            root: self.config.root.clone(),
            home: (self.environment)("HOME").map(PathBuf::from),
            on_folder_trusted: Arc::new(move |folder| roots.approve(folder)),
            opened: Arc::default(),
        }
    }

    /// Warns of effects that the config names and that shorten a conversation only at a share of the model's context window,
    /// if that window is not known.
    pub(crate) fn sleepers(&self, agent: &AgentConfig) -> Option<String> {
        let kinds: Vec<_> = self.shortening(agent, false).map(|kind| format!("`{kind}`")).collect();
        (!kinds.is_empty()).then(|| {
            let (name, kinds) = (&agent.name, kinds.join(", "));
            format!(
                "agents.{name}.effects: the model's context window is unknown, so {kinds} may have no effect until the model \
                 refuses a request as too long; set `context_window` of the model"
            )
        })
    }

    /// Tells that the window of an agent's model is not known, if the host's default effects depend on it. `named` is the
    /// model that the command line names. A plugin never reports a window, so a plugin model causes no notice.
    pub(crate) fn unknown_window(
        &self,
        agent: &AgentConfig,
        named: Option<&str>,
        model: &str,
        kind: ProviderKind,
    ) -> Option<String> {
        if kind == ProviderKind::Plugin || self.shortening(agent, true).next().is_none() {
            return None;
        }
        let provider = self.config.provider(named.or(agent.provider.as_deref())).ok().flatten();
        let user_config = user_config_location(&|name| (self.environment)(name).map(Into::into));
        Some(self.config.unknown_window_notice(model, kind, provider, user_config.as_deref()))
    }

    /// Returns the effects of an agent that shorten its conversation: those of the host, or those that the config names.
    fn shortening<'a>(&'a self, agent: &'a AgentConfig, of_host: bool) -> impl Iterator<Item = &'a str> {
        let shortens =
            move |id: &&str| self.catalog.get(id).and_then(Result::ok).is_some_and(|it| it.manifest.shortens);
        let steps = agent.effects.iter().flatten().filter(move |step| step.is_default == of_host);
        steps.map(|step| step.kind.as_str()).filter(shortens)
    }

    /// Resolves the models to which plugins of an agent may send requests, besides its own.
    pub(crate) async fn other_models(
        &self,
        agent: &AgentConfig,
        models: &ModelCache,
        notices: &mut StartupNotices,
    ) -> Result<Arc<BTreeMap<String, Arc<dyn Completer>>>, Report> {
        let mut others = BTreeMap::new();
        for name in agent.all_plugins().flat_map(|(_, _, uses)| &uses.models) {
            if !others.contains_key(name) {
                let model = self.model(agent, Some(name), models, notices).await?;
                if agent.bounds_usd().is_some() && model.completer.info().price.is_none() {
                    return Err(no_price(agent, &model.completer.info().model));
                }
                others.insert(name.clone(), model.completer);
            }
        }
        Ok(Arc::new(others))
    }
}

/// Reports that a bound on cost in the config has no effect, because the price of a model is not known.
pub(crate) fn no_price(config: &AgentConfig, model: &str) -> Report {
    let key = config.bounds_usd().unwrap_or("delegable.budget.usd");
    unknown_price(model, format!("{}.{key} limits the cost", config.place()))
}

/// Reports the same for a bound on the cost of this run.
pub(crate) fn no_price_for_run(model: &str) -> Report {
    unknown_price(model, "the cost of this run is limited".into())
}

fn unknown_price(model: &str, cause: String) -> Report {
    Report::new(ErrorKind::Usage, format!("the price of the model {} is unknown", model.escape_debug()))
        .cause(cause)
        .hint("set the price, in dollars per million tokens: providers: [{…, price: {input: 0.25, output: 2}}]")
}
