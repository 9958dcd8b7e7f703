//! An agent with its plugins, and how it is made to fit the ceiling of whoever starts it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::{extend, of_a_plugin, options};
use crate::{
    agent::{Agent, Grants, Refused},
    approval::Desk,
    builtin::ConfirmedTool,
    capability::{Bound, Ceiling, Grant},
    config::{AgentConfig, Config, PluginUse},
    error::{ErrorKind, Report},
    limits,
    model::Completer,
    plugin::{self, Kind, Mount, Plugin, PluginEffect, PluginError, PluginMiddleware, PluginTool},
    skill::Skill,
    tool::{Tool, ToolBox},
};

/// An agent but for its plugins, and those: enough to make it under any ceiling.
pub(super) struct Outfit {
    /// With the tools of its toolboxes.
    pub agent: Agent,
    /// Its plugins in order, and whether a person is asked before each call of their tools.
    pub plugins: Vec<(Arc<Plugin>, bool)>,
    /// The tool with which it asks a person, if there is one who answers.
    pub ask: Option<Arc<dyn Tool>>,
    pub skills: Vec<Skill>,
    pub root: PathBuf,
    pub desk: Desk,
    /// Those that were made, by what they were made under, up to [`limits::OUTFITS_KEPT`]. There are as many as there are
    /// chains of agents that start each other to different effect: a handful.
    made: Mutex<HashMap<Vec<Arc<str>>, Agent>>,
}

impl Outfit {
    /// What stands in the config of an agent beside its plugins.
    pub fn new(config: &AgentConfig, completer: Arc<dyn Completer>, root: &Path, desk: &Desk) -> Self {
        let mut agent = Agent::new(config.name.as_str(), config.instructions.as_str(), completer)
            .with_description(config.description.as_str())
            .with_budget(config.budget);
        if let Some(prefix) = config.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            agent.prefix = prefix.into();
        }
        agent.options = options(config);
        let (root, desk) = (root.to_owned(), desk.clone());
        Self { agent, plugins: Vec::new(), ask: None, skills: Vec::new(), root, desk, made: Mutex::default() }
    }

    /// The agent as its config has it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the tools of a plugin clash with each other.
    pub fn agent(&self, warnings: &mut Vec<String>) -> Result<Agent, Report> {
        let plugins = self.plugins.iter().map(|(plugin, confirm)| (Arc::clone(plugin), *confirm));
        self.equipped(plugins, Vec::new(), warnings)
    }

    /// The agent under the ceiling of whoever starts it. A plugin that only has tools is left out if it cannot do with
    /// what is left; one that watches over the agent is not: then there is no such agent.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the line of config that would help.
    pub fn under(&self, ceiling: &Ceiling) -> Result<Agent, Refused> {
        let places = ceiling.places();
        if let Some(agent) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&places) {
            return Ok(agent.clone());
        }
        let refused = |report: Report| {
            let hint = report.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
            Refused(format!("{report}{hint}"))
        };
        let name = &self.agent.name;
        let (mut plugins, mut notices) = (Vec::new(), Vec::new());
        for (plugin, confirm) in &self.plugins {
            let manifest = &plugin.package().manifest;
            match plugin.under(ceiling) {
                Ok(narrowed) => {
                    // Without its powers it would look on.
                    if manifest.kinds != [Kind::Tool] && narrowed.grant().powers != plugin.grant().powers {
                        let refused = narrowed.settings().refused(manifest).into_iter();
                        let lines = refused.map(|(place, missing)| format!("`{}` under {place}", missing.line));
                        let lines = lines.collect::<Vec<_>>().join(", ");
                        let id = &manifest.id;
                        return Err(Refused(format!(
                            "`{id}` watches over it and would have less power: grant {lines}"
                        )));
                    }
                    plugins.push((narrowed, *confirm));
                }
                Err(error @ PluginError::NotGranted { .. }) if manifest.kinds == [Kind::Tool] => {
                    let Refused(why) = refused(error.report());
                    notices.push(format!("agent `{name}` goes without plugin `{}`: {why}", manifest.id));
                }
                Err(error) => return Err(refused(error.report())),
            }
        }
        let agent = self.equipped(plugins.into_iter(), notices, &mut Vec::new()).map_err(refused)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= limits::OUTFITS_KEPT {
            made.clear();
        }
        made.insert(places, agent.clone());
        Ok(agent)
    }

    fn equipped(
        &self,
        plugins: impl Iterator<Item = (Arc<Plugin>, bool)>,
        notices: Vec<String>,
        warnings: &mut Vec<String>,
    ) -> Result<Agent, Report> {
        let mut agent = self.agent.clone();
        let mut decisions = Vec::new();
        for (plugin, confirm) in plugins {
            decisions.extend(plugin.settings().decisions(&plugin.package().manifest));
            self.equip(&mut agent, &plugin, confirm, warnings)?;
        }
        agent.grants = Arc::new(Grants::new(decisions, notices));
        // Every agent can ask if somebody is there; the toolbox `ask` is the same tool.
        if let Some(ask) = &self.ask {
            let _ = agent.tools.register(Arc::clone(ask));
        }
        Ok(agent.with_skills(self.skills.clone(), &self.root))
    }

    /// Gives an agent all that a plugin is.
    fn equip(
        &self,
        agent: &mut Agent,
        plugin: &Arc<Plugin>,
        confirm: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(), Report> {
        let (mut tools, digest) = (ToolBox::new(), plugin.package().named_digest());
        for tool in PluginTool::all(plugin).filter(|_| plugin.offers_tools()) {
            let tool: Arc<dyn Tool> = match confirm {
                true => Arc::new(ConfirmedTool::new(tool, self.desk.clone(), &*agent.name, digest.as_str())),
                false => tool,
            };
            tools.register(tool).map_err(|clash| Report::new(ErrorKind::Plugin, clash.to_string()))?;
        }
        let place = format!("agents.{}.plugins", agent.name);
        let tools = of_a_plugin(&tools, &place, warnings);
        extend(&mut agent.tools, tools, &place, warnings);
        if let Some(effect) = PluginEffect::new(plugin) {
            agent.effects.push(Arc::new(effect));
        }
        if let Some(middleware) = PluginMiddleware::new(plugin) {
            agent.middleware.push(Arc::new(middleware));
        }
        Ok(())
    }
}

/// What an agent gives a plugin, with paths as they lead somewhere.
pub(super) fn given(uses: &PluginUse, root: &Path) -> (Grant, Vec<Mount>) {
    let resolve = |path: &Path| plugin::resolved(&root.join(path));
    let mounts = uses.files.iter().map(|file| Mount { path: resolve(&file.path), name: file.shown() });
    (uses.grant(resolve), mounts.collect())
}

/// What bounds all plugins of an agent.
pub(super) fn own_ceiling(agent: &AgentConfig, root: &Path) -> Ceiling {
    let Some(grant) = &agent.ceiling else { return Ceiling::default() };
    let grant = Some(grant.grant(|path| plugin::resolved(&root.join(path))));
    Ceiling::of(format!("agents.{}.use", agent.name), Bound { grant, ..Bound::default() })
}

/// What an agent may pass on: as its config says, or what those that it may start use themselves.
pub(super) fn delegable(agent: &AgentConfig, config: &Config) -> Ceiling {
    let (delegable, root) = (&agent.delegable, &config.root);
    let agents = delegable.agents.as_ref().map(|agents| agents.iter().cloned().collect());
    let grant = match &delegable.grant {
        Some(grant) => grant.grant(|path| plugin::resolved(&root.join(path))),
        None => {
            let named = |other: &&AgentConfig| delegable.agents.as_ref().is_none_or(|all| all.contains(&other.name));
            // Its own too: one that it starts may start it in turn.
            let all = config.agents.iter().filter(|other| other.name == agent.name || named(other));
            all.fold(Grant::default(), |all, other| all.join(&used(other, root)))
        }
    };
    let bound = Bound { grant: Some(grant), agents, budget: delegable.budget };
    Ceiling::of(format!("agents.{}.delegable.grant", agent.name), bound)
}

/// All that an agent's plugins may do together.
fn used(agent: &AgentConfig, root: &Path) -> Grant {
    let uses = agent.plugins.values().flatten().map(|uses| given(uses, root).0);
    own_ceiling(agent, root).narrow(&uses.fold(Grant::default(), |all, one| all.join(&one)))
}
