//! Checks that serde cannot express: unique names, references and bounds.

use std::collections::HashMap;

use super::{
    ANY_PROGRAM, AgentConfig, Config, GIT_PROGRAM, HostToolbox, LimitsConfig, PluginUse, ShippedToolbox, TeamConfig,
    ToolboxUse, egress::check_way_out, explain::unknown,
};
use crate::{
    agent::{AgentToolError, RUN_TOOLS},
    error::{ErrorKind, Report},
    limits,
};

/// The mistakes found so far, each once.
#[derive(Default)]
pub(super) struct ConfigErrorCollector(Vec<Report>);

impl ConfigErrorCollector {
    fn note(&mut self, checked: Result<(), Report>) {
        if let Err(report) = checked
            && !self.0.contains(&report)
        {
            self.0.push(report);
        }
    }
}

impl Config {
    /// Returns all mistakes that make the config unusable, in a stable order.
    pub(super) fn mistakes(&self) -> Vec<Report> {
        let mut found = ConfigErrorCollector::default();
        found.note(unique("providers", self.providers.iter().map(|provider| provider.name.as_str())));
        let agents = unique("agents", self.agents.iter().map(|agent| agent.name.as_str()));
        found.note(agents.and_then(|()| unique("agents and teams", self.everyone().map(|who| who.name.as_str()))));
        found.note(unique("credentials", self.credentials.iter().map(|credential| credential.name.as_str())));
        self.credentials.iter().for_each(|credential| found.note(credential.check()));
        self.cluster.iter().for_each(|cluster| found.note(cluster.check()));
        self.mcp_servers.iter().for_each(|server| found.note(server.check()));
        found.note(unique("mcp_servers", self.mcp_servers.iter().map(|server| server.name.as_str())));
        let keys = &self.plugin_signatures.require;
        found.note(unique("plugin_signatures.require", keys.iter().map(|key| key.name.as_str())));
        found.note(self.plugin_signatures.policy().map(drop));
        self.api_mistakes().into_iter().for_each(|report| found.note(Err(report)));
        for provider in &self.providers {
            found.note(provider.check());
            let at = format!("providers.{}", provider.name);
            found.note(check_way_out(&at, &provider.http, &provider.credentials, &self.credentials));
        }
        if let Some(name) = &self.default_provider {
            let checked = self.provider(Some(name)).map(drop);
            found.note(checked.map_err(|report| report.cause("named by default_provider")));
        }
        self.check_toolboxes("toolboxes", &self.toolboxes, &mut found);
        found.note(check_shipped("toolboxes", &self.default_agent()));
        self.everyone().for_each(|agent| self.check_one(agent, &mut found));
        self.agents.iter().for_each(|agent| found.note(self.check_tools_of(agent)));
        found.note(self.check_programs());
        self.each_limits().for_each(|(at, own)| found.note(own.check_memory(&at, self.limits.total_memory_bytes)));
        if self.context.max_external_file_size > limits::CONTEXT_FILE_CEILING {
            let most = limits::CONTEXT_FILE_CEILING;
            found.note(wrong(format!("context.max_external_file_size: must be at most {most}")));
        }
        if let Some(name) = &self.entry_agent {
            found.note(self.who(name).map(drop).map_err(|report| report.cause("named by entry_agent")));
        }
        self.telemetry.iter().for_each(|telemetry| found.note(telemetry.check()));
        found.note(unique("triggers", self.triggers.iter().map(|trigger| trigger.name.as_str())));
        self.trigger_mistakes().into_iter().for_each(|report| found.note(Err(report)));
        found.note(self.check_circles());
        self.teams.iter().for_each(|team| found.note(self.check_team(team)));
        if self.is_sound() {
            found.note(self.check_sizes());
        }
        found.0
    }

    /// Returns the limits of all plugins, of each plugin of an agent and of each model, with their positions in the
    /// config.
    fn each_limits(&self) -> impl Iterator<Item = (String, &LimitsConfig)> {
        let of_agents = self.everyone().flat_map(|agent| {
            let place = agent.place();
            agent.all_plugins().map(move |(listed, id, uses)| (format!("{place}.{listed}.{id}.limits"), &uses.limits))
        });
        let of_models =
            self.providers.iter().map(|provider| (format!("providers.{}.limits", provider.name), &provider.limits));
        [("limits".to_owned(), &self.limits)].into_iter().chain(of_agents).chain(of_models)
    }

    /// Returns the largest memory limit in bytes that any plugin call is given.
    pub fn largest_memory_bytes(&self) -> usize {
        let named = self.each_limits().filter_map(|(_, limits)| limits.memory_bytes);
        let most = named.max().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        most.max(limits::PLUGIN_MEMORY_BYTES)
    }

    /// Returns `true` if the references between agents and teams can be followed although there are mistakes: names are
    /// unique, and no agent needs itself.
    pub(super) fn is_sound(&self) -> bool {
        let lists = [unique("", self.everyone().map(|who| who.name.as_str())), self.check_circles()];
        lists.iter().all(Result::is_ok)
    }

    /// Checks the names that one agent or team refers to, and its options.
    fn check_one(&self, agent: &AgentConfig, found: &mut ConfigErrorCollector) {
        let names = || self.providers.iter().map(|provider| provider.name.as_str());
        let servers = || self.mcp_servers.iter().map(|server| server.name.as_str());
        if let Some(name) = &agent.provider
            && !names().any(|known| known == name)
        {
            found.note(Err(unknown("model", name, names()).cause(format!("named by {}.provider", agent.place()))));
        }
        check_agent(agent, found);
        if let Some(remote) = &agent.remote {
            found.note(remote.check(agent, &self.credentials));
        }
        found.note(agent.check_place(self.cluster.is_some()));
        let toolboxes = format!("{}.toolboxes", agent.place());
        self.check_toolboxes(&toolboxes, &agent.toolboxes, found);
        found.note(check_shipped(&toolboxes, agent));
        for (listed, id, uses) in agent.all_plugins() {
            let at = format!("{}.{listed}.{id}", agent.place());
            uses.models.iter().for_each(|name| found.note(self.check_model_name(name, &at)));
            found.note(check_way_out(&at, &uses.http, &uses.credentials, &self.credentials));
        }
        for (key, grant) in [("use", &agent.ceiling), ("delegable.grant", &agent.delegable.grant)] {
            let Some(grant) = grant else { continue };
            let at = format!("{}.{key}", agent.place());
            found.note(check_way_out(&at, &grant.http, &grant.credentials, &self.credentials));
            for name in grant.mcp.iter().filter(|name| !servers().any(|known| known == name.as_str())) {
                found.note(Err(unknown("MCP server", name, servers()).cause(format!("named by {at}.mcp"))));
            }
        }
        for name in agent.delegable.agents.iter().flatten() {
            let place = || format!("named by {}.delegable.agents", agent.place());
            found.note(self.who(name).map(drop).map_err(|report| report.cause(place())));
        }
        if agent.options.max_iterations.is_some_and(|most| most > limits::MAX_ITERATIONS_CEILING) {
            let most = limits::MAX_ITERATIONS_CEILING;
            found.note(wrong(format!("{}.options.max_iterations: must be at most {most}", agent.place())));
        }
    }

    /// Checks a list of toolboxes at the position `place`: each is there once, and its MCP server exists.
    fn check_toolboxes(&self, place: &str, toolboxes: &[ToolboxUse], found: &mut ConfigErrorCollector) {
        let servers = || self.mcp_servers.iter().map(|server| server.name.as_str());
        let mut had = Vec::new();
        for name in toolboxes.iter().filter_map(ToolboxUse::server).map(|uses| uses.name.as_str()) {
            if had.contains(&name) {
                let report = Report::new(ErrorKind::Usage, format!("{place}: `{name}` appears twice"));
                found.note(Err(report.hint("merge the two entries")));
            } else if !servers().any(|known| known == name) {
                let known = HostToolbox::NAMES.into_iter().chain(ShippedToolbox::NAMES).chain(servers());
                found.note(Err(unknown("toolbox or MCP server", name, known).cause(format!("named by {place}"))));
            }
            had.push(name);
        }
    }

    /// Checks the programs, and the names of programs that agents refer to.
    fn check_programs(&self) -> Result<(), Report> {
        if self.programs.len() > limits::PROGRAMS {
            let most = limits::PROGRAMS;
            return Err(Report::new(ErrorKind::Usage, format!("programs: must have at most {most} entries")));
        }
        self.programs.iter().try_for_each(|(name, program)| program.check(name))?;
        let check = |names: &[String], more: &[&str], place: String| self.check_program_names(names, more, &place);
        let check_toolboxes = |place: &str, toolboxes: &[ToolboxUse]| {
            let own = || toolboxes.iter().filter_map(ToolboxUse::own);
            for toolbox in [HostToolbox::Exec, HostToolbox::Git] {
                if own().filter(|uses| uses.name == toolbox).count() > 1 {
                    let what = format!("{place}: `{}` appears twice", toolbox.name());
                    return Err(Report::new(ErrorKind::Usage, what).hint("merge the two entries"));
                }
            }
            own().try_for_each(|uses| check(uses.programs.as_deref().unwrap_or_default(), &[], place.to_owned()))
        };
        check_toolboxes("toolboxes", &self.toolboxes)?;
        for agent in self.everyone() {
            let place = agent.place();
            check_toolboxes(&format!("{place}.toolboxes"), &agent.toolboxes)?;
            for (listed, id, uses) in agent.all_plugins() {
                check(&uses.programs, &[], format!("{place}.{listed}.{id}.programs"))?;
            }
            for (key, grant) in [("use", &agent.ceiling), ("delegable.grant", &agent.delegable.grant)] {
                let names = grant.as_ref().map(|grant| grant.programs.as_slice()).unwrap_or_default();
                check(names, &[ANY_PROGRAM, GIT_PROGRAM], format!("{place}.{key}.programs"))?;
            }
        }
        Ok(())
    }

    /// Checks that the programs of these names exist. The names in `more` stand for several programs.
    fn check_program_names(&self, names: &[String], more: &[&str], place: &str) -> Result<(), Report> {
        let is_known = |name: &&String| self.programs.contains_key(*name) || more.contains(&name.as_str());
        match names.iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let known = self.programs.keys().map(String::as_str);
                Err(unknown("program", name, known).cause(format!("named by {place}")))
            }
        }
    }

    /// Checks that the model of this name exists, to which the plugin at `place` may send requests.
    fn check_model_name(&self, name: &str, place: &str) -> Result<(), Report> {
        let names = || self.providers.iter().map(|provider| provider.name.as_str());
        match names().any(|known| known == name) {
            true => Ok(()),
            false => Err(unknown("model", name, names()).cause(format!("named by {place}.models"))),
        }
    }

    /// Checks what a plugin is granted by something else than this config, as if the config did. `place` names it.
    ///
    /// # Errors
    ///
    /// A [`Report`] about a name that this config does not have, or a bound that is exceeded.
    pub fn check_use(&self, uses: &PluginUse, place: &str) -> Result<(), Report> {
        uses.models.iter().try_for_each(|name| self.check_model_name(name, place))?;
        check_way_out(place, &uses.http, &uses.credentials, &self.credentials)?;
        self.check_program_names(&uses.programs, &[], &format!("{place}.programs"))?;
        let limits = format!("{place}.limits");
        uses.limits.check_one(&limits)?;
        uses.limits.check_memory(&limits, self.limits.total_memory_bytes)
    }

    /// Checks the agents that `agent` has as tools: each exists, may be started, and gets a free tool name.
    fn check_tools_of(&self, agent: &AgentConfig) -> Result<(), Report> {
        let place = format!("agents.{}.agent_tools", agent.name);
        let wrong = |what: String| Report::new(ErrorKind::Usage, format!("{place}: {what}"));
        let mut had: Vec<String> = Vec::new();
        for uses in &agent.agent_tools {
            let whom = &uses.agent;
            if *whom == agent.name {
                return Err(
                    wrong(format!("`{whom}` is the agent itself")).hint("name another agent, or remove the entry")
                );
            }
            let who = self.who(whom).map_err(|report| report.cause(format!("named by {place}")))?;
            if agent.delegable.agents.as_ref().is_some_and(|agents| !agents.contains(whom)) {
                return Err(wrong(format!("the agent may not start `{whom}`"))
                    .hint(format!("add `{whom}` to agents.{}.delegable.agents", agent.name)));
            }
            let tool = uses.tool(&who.own().description).map_err(|AgentToolError(why)| wrong(why))?;
            let name = tool.name();
            if RUN_TOOLS.contains(&name) {
                return Err(wrong(format!("`{name}` is the name of a tool of the host")).hint("set another `name`"));
            }
            if had.iter().any(|before| before == name) {
                return Err(
                    wrong(format!("two tools have the name `{name}`")).hint("set another `name` for one of them")
                );
            }
            had.push(name.to_owned());
        }
        Ok(())
    }

    /// Checks the team by itself, and that its members exist.
    fn check_team(&self, team: &TeamConfig) -> Result<(), Report> {
        team.check()?;
        for member in &team.members {
            self.who(&member.agent).map_err(|report| report.cause(format!("named by {}.members", team.own.place())))?;
        }
        Ok(())
    }

    /// Checks that no team is too large. No team may contain itself.
    fn check_sizes(&self) -> Result<(), Report> {
        let mut sizes = HashMap::new();
        self.teams.iter().try_for_each(|team| self.size(team, &mut sizes).map(drop))
    }

    /// Returns the number of agents in a team, including those of teams in it. No team may contain itself. `sizes` caches
    /// known sizes.
    fn size<'a>(&'a self, team: &'a TeamConfig, sizes: &mut HashMap<&'a str, usize>) -> Result<usize, Report> {
        let name = team.own.name.as_str();
        let wrong = |what: String| Err(Report::new(ErrorKind::Usage, format!("{}.members: {what}", team.own.place())));
        if let Some(size) = sizes.get(name) {
            return Ok(*size);
        }
        let mut size = 0;
        for member in &team.members {
            size += match self.teams.iter().find(|inner| inner.own.name == member.agent) {
                Some(inner) => self.size(inner, sizes)?,
                None => 1,
            };
            let most = self.runs.limits().agents;
            if size > most {
                let what =
                    format!("the team and the teams in it have more than {most} members, the limit `runs.agents`");
                return wrong(what);
            }
        }
        sizes.insert(name, size);
        Ok(size)
    }
}

fn wrong(message: String) -> Result<(), Report> {
    Err(Report::new(ErrorKind::Usage, message))
}

/// Refuses a shipped plugin that one agent has twice: under two toolboxes, or as a toolbox and under `plugins`. `toolboxes` is
/// the position of its toolboxes.
fn check_shipped(toolboxes: &str, agent: &AgentConfig) -> Result<(), Report> {
    let mut had: Vec<&str> = Vec::new();
    for uses in agent.toolboxes.iter().filter_map(ToolboxUse::shipped) {
        for id in uses.plugins.keys() {
            let (place, toolbox) = (agent.place(), uses.name);
            let twice = |place: String| Err(Report::new(ErrorKind::Usage, place).hint("remove one of the two"));
            if had.contains(&id.as_str()) {
                return twice(format!("{toolboxes}: `{toolbox}` appears twice"));
            }
            if agent.plugins.contains_key(id) {
                return twice(format!(
                    "{place}: the plugin `{id}` appears under `plugins` and in the toolbox `{toolbox}`"
                ));
            }
            had.push(id);
        }
    }
    Ok(())
}

fn check_agent(agent: &AgentConfig, found: &mut ConfigErrorCollector) {
    let at = |key: &str| format!("{}.{key}", agent.place());
    let wrong = |key: &str, what: String| wrong(format!("{}: {what}", at(key)));
    let options = &agent.options;
    if options.max_delegation_depth > limits::DELEGATION_DEPTH_CEILING {
        let most = limits::DELEGATION_DEPTH_CEILING;
        found.note(wrong("options.max_delegation_depth", format!("must be at most {most}")));
    }
    let most = options.iterations();
    if options.warn_iterations >= most {
        found.note(wrong("options.warn_iterations", format!("must be less than the number of turns, {most}")));
    }
    for (listed, id, uses) in agent.all_plugins() {
        found.note(uses.limits.check_one(&at(&format!("{listed}.{id}.limits"))));
    }
    for step in &agent.middleware {
        if let Some(Err(why)) = step.own() {
            found.note(wrong(&format!("middleware.{}", step.kind), why));
        }
    }
    if options.context_threshold.is_some_and(|share| !(0.0..1.0).contains(&share)) {
        let what = "must be at least 0 and less than 1, as a share of the model's window";
        found.note(wrong("options.context_threshold", what.into()));
    }
}

fn unique<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Report> {
    let mut seen = Vec::new();
    for name in names {
        if name.trim().is_empty() {
            return Err(Report::new(ErrorKind::Usage, format!("{list}: an entry has an empty name"))
                .hint("set a unique `name`"));
        }
        if seen.contains(&name) {
            return Err(Report::new(ErrorKind::Usage, format!("{list}: two entries have the name `{name}`"))
                .hint("rename one of them"));
        }
        seen.push(name);
    }
    Ok(())
}
