//! What serde cannot see: names that must be unique, references that must lead somewhere, bounds.

use super::{AgentConfig, Config, Shipped, Toolbox, ToolboxUse, egress::check_way_out, unknown};
use crate::{
    error::{ErrorKind, Report},
    limits,
};

impl Config {
    /// Whether it can be used.
    pub(super) fn check(&self) -> Result<(), Report> {
        let wrong = |message: String| Err(Report::new(ErrorKind::Usage, message));
        unique("providers", self.providers.iter().map(|provider| provider.name.as_str()))?;
        unique("agents", self.agents.iter().map(|agent| agent.name.as_str()))?;
        unique("agents and teams", self.everyone().map(|who| who.name.as_str()))?;
        unique("credentials", self.credentials.iter().map(|credential| credential.name.as_str()))?;
        for credential in &self.credentials {
            credential.check()?;
        }
        for server in &self.mcp_servers {
            server.check()?;
        }
        unique("mcp_servers", self.mcp_servers.iter().map(|server| server.name.as_str()))?;
        let servers = || self.mcp_servers.iter().map(|server| server.name.as_str());
        for provider in &self.providers {
            provider.check()?;
            let at = format!("providers.{}", provider.name);
            check_way_out(&at, &provider.http, &provider.credentials, &self.credentials)?;
        }
        let names = || self.providers.iter().map(|provider| provider.name.as_str());
        for agent in self.everyone() {
            if let Some(name) = &agent.provider
                && !names().any(|known| known == name)
            {
                return Err(unknown("model", name, names()).cause(format!("{}.provider names it", agent.place())));
            }
            check_agent(agent)?;
            let mut had = Vec::new();
            for name in agent.toolboxes.iter().filter_map(ToolboxUse::server).map(|uses| uses.name.as_str()) {
                let place = format!("{}.toolboxes", agent.place());
                if !servers().any(|known| known == name) {
                    let known = Toolbox::NAMES.into_iter().chain(Shipped::NAMES).chain(servers());
                    return Err(unknown("toolbox or MCP server", name, known).cause(format!("{place} names it")));
                }
                if had.contains(&name) {
                    return Err(Report::new(ErrorKind::Usage, format!("{place}: `{name}` is there twice"))
                        .hint("join them into one"));
                }
                had.push(name);
            }
            check_shipped(agent)?;
            for (listed, id, uses) in agent.all_plugins() {
                if let Some(name) = uses.models.iter().find(|name| !names().any(|known| known == name.as_str())) {
                    let place = format!("{}.{listed}.{id}.models names it", agent.place());
                    return Err(unknown("model", name, names()).cause(place));
                }
                let at = format!("{}.{listed}.{id}", agent.place());
                check_way_out(&at, &uses.http, &uses.credentials, &self.credentials)?;
            }
            for (key, grant) in [("use", &agent.ceiling), ("delegable.grant", &agent.delegable.grant)] {
                let Some(grant) = grant else { continue };
                let at = format!("{}.{key}", agent.place());
                check_way_out(&at, &grant.http, &grant.credentials, &self.credentials)?;
                if let Some(name) = grant.mcp.iter().find(|name| !servers().any(|known| known == name.as_str())) {
                    return Err(unknown("MCP server", name, servers()).cause(format!("{at}.mcp names it")));
                }
            }
            for name in agent.delegable.agents.iter().flatten() {
                let place = || format!("{}.delegable.agents names it", agent.place());
                self.who(name).map_err(|report| report.cause(place()))?;
            }
            if agent.options.max_iterations.is_some_and(|most| most > limits::MAX_ITERATIONS_CEILING) {
                let most = limits::MAX_ITERATIONS_CEILING;
                return wrong(format!("{}.options.max_iterations: it is at most {most}", agent.place()));
            }
        }
        self.check_agent_tools()?;
        self.check_programs()?;
        if self.context.max_external_file_size > limits::CONTEXT_FILE_CEILING {
            return wrong(format!("context.max_external_file_size: it is at most {}", limits::CONTEXT_FILE_CEILING));
        }
        if let Some(name) = &self.entry_agent {
            self.who(name).map_err(|report| report.cause("entry_agent names it"))?;
        }
        self.check_circles()?;
        self.check_teams()?;
        Ok(())
    }
}

/// A plugin is there once: as a toolbox or as a plugin, and under one toolbox.
fn check_shipped(agent: &AgentConfig) -> Result<(), Report> {
    let mut had: Vec<&str> = Vec::new();
    for uses in agent.toolboxes.iter().filter_map(ToolboxUse::shipped) {
        for id in uses.plugins.keys() {
            let (place, toolbox) = (agent.place(), uses.name);
            let twice = |place: String| Err(Report::new(ErrorKind::Usage, place).hint("join them into one"));
            if had.contains(&id.as_str()) {
                return twice(format!("{place}.toolboxes: `{toolbox}` is there twice"));
            }
            if agent.plugins.contains_key(id) {
                return twice(format!("{place}: the plugin `{id}` is there twice, as the toolbox `{toolbox}` too"));
            }
            had.push(id);
        }
    }
    Ok(())
}

fn check_agent(agent: &AgentConfig) -> Result<(), Report> {
    let at = |key: &str| format!("{}.{key}", agent.place());
    let wrong = |key: &str, what: String| Err(Report::new(ErrorKind::Usage, format!("{}: {what}", at(key))));
    let options = &agent.options;
    if options.max_delegation_depth > limits::DELEGATION_DEPTH_CEILING {
        return wrong("options.max_delegation_depth", format!("it is at most {}", limits::DELEGATION_DEPTH_CEILING));
    }
    let most = options.iterations();
    if options.warn_iterations >= most {
        return wrong("options.warn_iterations", format!("it comes after the last turn: there are {most}"));
    }
    for (listed, id, uses) in agent.all_plugins() {
        uses.limits.check_one(&at(&format!("{listed}.{id}.limits")))?;
    }
    for step in &agent.middleware {
        if let Some(Err(why)) = step.own() {
            return wrong(&format!("middleware.{}", step.kind), why);
        }
    }
    if options.context_threshold.is_some_and(|share| !(0.0..1.0).contains(&share)) {
        return wrong("options.context_threshold", "it is a share of the model's window: between 0 and 1".into());
    }
    Ok(())
}

fn unique<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Report> {
    let mut seen = Vec::new();
    for name in names {
        if name.trim().is_empty() {
            return Err(Report::new(ErrorKind::Usage, format!("{list}: one of them has an empty name"))
                .hint("write a `name` that the others do not have"));
        }
        if seen.contains(&name) {
            return Err(Report::new(ErrorKind::Usage, format!("{list}: two of them are called `{name}`"))
                .hint("give one of them another name"));
        }
        seen.push(name);
    }
    Ok(())
}
