//! Agents and teams of a config, and the ones that each of them needs.

use std::collections::HashMap;

use super::{AgentConfig, Config, DEFAULT_AGENT, TeamConfig, explain::unknown};
use crate::{
    error::{ErrorKind, Report},
    limits,
};

/// The config of an agent or a team.
#[derive(Debug, Clone, Copy)]
pub enum RunnerConfig<'a> {
    /// An agent.
    Agent(&'a AgentConfig),
    /// A team.
    Team(&'a TeamConfig),
}

impl<'a> RunnerConfig<'a> {
    /// Returns the settings that an agent and a team share.
    pub fn own(self) -> &'a AgentConfig {
        match self {
            Self::Agent(agent) => agent,
            Self::Team(team) => &team.own,
        }
    }

    /// Returns its name, which is unique among agents and teams.
    pub fn name(self) -> &'a str {
        &self.own().name
    }

    /// Returns the names it depends on: the members of a team, or the agents that an agent has as tools.
    pub fn needs(self) -> Vec<&'a str> {
        match self {
            Self::Agent(agent) => agent.agent_tools.iter().map(|uses| uses.agent.as_str()).collect(),
            Self::Team(team) => team.members.iter().map(|member| member.agent.as_str()).collect(),
        }
    }
}

impl Config {
    /// Returns the agent or team that runs if the caller names none.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent or team.
    pub fn entry(&self) -> Result<RunnerConfig<'_>, Report> {
        match self.entry_agent.as_deref() {
            Some(name) => self.who(name),
            None => self.agents.first().map(RunnerConfig::Agent).ok_or_else(|| {
                Report::new(ErrorKind::Usage, "the config has no agents")
                    .hint("add an agent: `agents: [{name: helper}]`")
            }),
        }
    }

    /// Returns the agent or team of this name.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is none.
    pub fn who(&self, name: &str) -> Result<RunnerConfig<'_>, Report> {
        let found = self.runners().find(|who| who.name() == name);
        found.ok_or_else(|| unknown("agent", name, self.runners().map(RunnerConfig::name)))
    }

    /// Checks that a command line can name this agent or team: one of the config, or the default agent if there are none.
    ///
    /// # Errors
    ///
    /// The [`Report`] with which a run of it would fail.
    pub fn check_runner(&self, name: &str) -> Result<(), Report> {
        match self.agents.is_empty() && name == DEFAULT_AGENT {
            true => Ok(()),
            false => self.who(name).map(drop),
        }
    }

    /// Returns the agents, then the teams.
    pub fn runners(&self) -> impl Iterator<Item = RunnerConfig<'_>> {
        self.agents.iter().map(RunnerConfig::Agent).chain(self.teams.iter().map(RunnerConfig::Team))
    }

    /// Returns the shared settings of all agents, then of all teams.
    pub fn everyone(&self) -> impl Iterator<Item = &AgentConfig> {
        self.runners().map(RunnerConfig::own)
    }

    /// Returns the agent that runs if the config has no agents, as far as the config says what it has.
    pub fn default_agent(&self) -> AgentConfig {
        AgentConfig { name: DEFAULT_AGENT.into(), toolboxes: self.toolboxes.clone(), ..AgentConfig::default() }
    }

    /// Returns `who` after everything that it needs, directly or indirectly. Each appears once.
    pub fn needed_by<'a>(&'a self, who: RunnerConfig<'a>) -> Vec<RunnerConfig<'a>> {
        fn gather<'a>(config: &'a Config, who: RunnerConfig<'a>, all: &mut Vec<RunnerConfig<'a>>) {
            if all.iter().any(|had| had.name() == who.name()) {
                return;
            }
            // This terminates: the config is checked for circles when it is read.
            who.needs().into_iter().filter_map(|name| config.who(name).ok()).for_each(|who| gather(config, who, all));
            all.push(who);
        }
        let mut all = Vec::new();
        gather(self, who, &mut all);
        all
    }

    /// Checks that nobody needs itself and that no chain of needs is too long. Unknown names are skipped.
    pub(super) fn check_circles(&self) -> Result<(), Report> {
        let mut heights = HashMap::new();
        self.runners().try_for_each(|who| self.height(&mut vec![who.name()], &mut heights).map(drop))
    }

    /// Returns the length of the longest chain of needs that starts at the last of `way`. `heights` caches known lengths.
    fn height<'a>(&'a self, way: &mut Vec<&'a str>, heights: &mut HashMap<&'a str, usize>) -> Result<usize, Report> {
        let wrong = |what: String, way: &[&str]| Err(Report::new(ErrorKind::Usage, what).cause(way.join(" → ")));
        let Some(who) = way.last().and_then(|name| self.who(name).ok()) else { return Ok(0) };
        let mut height = 1;
        for name in who.needs() {
            if let Some(at) = way.iter().position(|before| *before == name) {
                let report =
                    wrong("agents and teams depend on each other in a cycle".into(), &[&way[at..], &[name]].concat());
                let hint = "break the cycle: remove one of them from `agent_tools` or `members`";
                return report.map_err(|report| report.hint(hint));
            }
            way.push(name);
            let above = match heights.get(name) {
                Some(height) => *height,
                // The chain is too long already; 1 is the least that its last link counts.
                None if way.len() > limits::NEED_DEPTH => 1,
                None => self.height(way, heights)?,
            };
            if way.len() + above > limits::NEED_DEPTH + 1 {
                return wrong(format!("the chain of agents and teams is longer than {}", limits::NEED_DEPTH), way);
            }
            way.pop();
            height = height.max(above + 1);
        }
        heights.insert(who.name(), height);
        Ok(height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_runners_come_before_their_users() {
        let text = "agents: [{name: a, agent_tools: [c, inner]}, {name: b}, {name: c}]
teams:
  - {name: outer, members: [b, a, inner2]}
  - {name: inner, members: [c, b]}
  - {name: inner2, members: [inner]}";
        let config = Config::parse(text, "/project".into()).unwrap();
        let names = |who: &str| {
            config.needed_by(config.who(who).unwrap()).into_iter().map(RunnerConfig::name).collect::<Vec<_>>()
        };
        assert_eq!(names("outer"), ["b", "c", "inner", "a", "inner2", "outer"]);
        assert_eq!((names("a"), names("c")), (vec!["c", "b", "inner", "a"], vec!["c"]));
        assert_eq!(config.entry().unwrap().name(), "a");
    }

    #[test]
    fn runner_of_a_command_line_is_checked() {
        let config = Config::parse("agents: [{name: ada}]\nteams: [{name: crew, members: [ada]}]", "/project".into());
        let (config, empty) = (config.unwrap(), Config::default());
        for (config, name, hint) in [
            (&config, "ada", None),
            (&config, "crew", None),
            (&config, "adda", Some("did you mean `ada`?")),
            (&config, DEFAULT_AGENT, Some("available: ada, crew")),
            (&empty, DEFAULT_AGENT, None),
            (&empty, "ada", Some("the config has no agents")),
        ] {
            let checked = config.check_runner(name).map_err(|report| report.with_hint());
            assert_eq!(checked.is_err(), hint.is_some(), "{name}: {checked:?}");
            let Err(told) = checked else { continue };
            assert!(told.starts_with(&format!("there is no agent `{name}`")) && told.contains(hint.unwrap()), "{told}");
        }
    }

    #[test]
    fn circular_needs_are_refused() {
        for (text, way) in [
            ("agents: [{name: a, agent_tools: [b]}, {name: b, agent_tools: [a]}]", "a → b → a"),
            ("agents: [{name: a}]\nteams: [{name: t, members: [t]}]", "t → t"),
            ("agents: [{name: a}]\nteams: [{name: t, members: [a, u]}, {name: u, members: [t]}]", "t → u → t"),
            ("agents: [{name: a, agent_tools: [t]}]\nteams: [{name: t, members: [a]}]", "a → t → a"),
        ] {
            let report = Config::parse(text, "/project".into()).unwrap_err().to_string();
            assert!(report.contains(&format!("agents and teams depend on each other in a cycle: {way}")), "{report}");
        }
    }

    #[test]
    fn too_long_chain_of_needs_is_refused() {
        let chain = |length: usize| {
            let one = |n: usize| {
                format!(
                    "{{name: a{n}, agent_tools: [{}]}}",
                    if n + 1 < length { format!("a{}", n + 1) } else { String::new() }
                )
            };
            format!("agents: [{}]", (0..length).rev().map(one).collect::<Vec<_>>().join(", "))
        };
        assert!(Config::parse(&chain(limits::NEED_DEPTH), "/project".into()).is_ok());
        for length in [limits::NEED_DEPTH + 1, 5_000] {
            let report = Config::parse(&chain(length), "/project".into()).unwrap_err().to_string();
            assert!(report.contains("the chain of agents and teams is longer than 16"), "{report}");
        }
    }
}
