//! The agents and teams of an agent package. Somebody else wrote them, so they may not choose what is the installer's to
//! choose: models, credentials, and agents outside of the package.

use indexmap::IndexMap;
use serde::{Deserialize, de::IgnoredAny};

use super::{AgentConfig, AgentPackageOrigin, Config, GrantConfig, PluginUse, RunnerConfig, TeamConfig, parse_yaml};
use crate::{
    error::{ErrorKind, Report, acts_on_terminal},
    limits,
    trust::{RiskLevel, TrustFacts, quoted},
};

/// The keys that the config of a package may have.
const KEYS: [&str; 2] = ["agents", "teams"];

/// The agents and teams of an agent package.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentPackageConfig {
    /// Agents.
    #[serde(default)]
    pub agents: Vec<AgentConfig>,
    /// Teams of these agents.
    #[serde(default)]
    pub teams: Vec<TeamConfig>,
}

impl AgentPackageConfig {
    /// Parses the agents and teams of a package. `source` names the text in messages.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it is not valid, or chooses anything that is the installer's to choose.
    pub fn parse(text: &str, source: &str) -> Result<Self, Report> {
        let keys: IndexMap<String, IgnoredAny> = parse_yaml(text, "the config of the package", source)?;
        if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let message = format!("an agent package cannot have the key `{}`", key.escape_debug());
            let hint = "it has `agents` and `teams`; models, credentials, servers and programs are those of whoever installs it";
            return Err(Report::new(ErrorKind::Plugin, message).in_file(source).hint(hint));
        }
        let parsed: Self = parse_yaml(text, "the config of the package", source)?;
        parsed.check().map_err(|report| report.in_file(source))?;
        Ok(parsed)
    }

    /// Returns a package of which only the names of agents and teams are known.
    pub(super) fn of_names(names: &[String]) -> Self {
        let agent = |name: &String| AgentConfig { name: name.clone(), ..AgentConfig::default() };
        Self { agents: names.iter().map(agent).collect(), teams: Vec::new() }
    }

    /// Returns the agents, then the teams.
    fn runners(&self) -> impl Iterator<Item = RunnerConfig<'_>> {
        self.agents.iter().map(RunnerConfig::Agent).chain(self.teams.iter().map(RunnerConfig::Team))
    }

    /// Returns the names of the agents, then of the teams.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.runners().map(RunnerConfig::name)
    }

    fn runners_mut(&mut self) -> impl Iterator<Item = &mut AgentConfig> {
        self.agents.iter_mut().chain(self.teams.iter_mut().map(|team| &mut team.own))
    }

    fn check(&self) -> Result<(), Report> {
        let names: Vec<_> = self.names().collect();
        if names.is_empty() || names.len() > limits::AGENT_PACKAGE_RUNNERS {
            let most = limits::AGENT_PACKAGE_RUNNERS;
            let message = format!("it has {} agents and teams, and needs 1 to {most}", names.len());
            return Err(
                Report::new(ErrorKind::Plugin, message).hint("correct the package, or report this to its author")
            );
        }
        if let Some(name) = names.iter().find(|name| name.trim().is_empty() || name.contains(acts_on_terminal)) {
            let message = format!("`{}` is not a name that an installed agent can have", name.escape_debug());
            return Err(Report::new(ErrorKind::Plugin, message).hint("use letters, digits and `-`"));
        }
        self.runners().try_for_each(|runner| check_runner(runner, &names))
    }

    /// Marks the agents and teams with their package and with the model of the config that they use (`None`: the default
    /// model). Unless the package says otherwise, they may start each other, and no other agents.
    pub(super) fn installed_as(mut self, origin: &AgentPackageOrigin, model: Option<&str>) -> Self {
        let names: Vec<_> = self.names().map(str::to_owned).collect();
        for runner in self.runners_mut() {
            runner.package = Some(origin.clone());
            runner.provider = model.map(str::to_owned);
            let others = names.iter().filter(|name| **name != runner.name).cloned();
            runner.delegable.agents.get_or_insert_with(|| others.collect());
        }
        self
    }
}

/// Refuses an agent that chooses a model or a credential, or that names an agent outside of the package.
fn check_runner(runner: RunnerConfig<'_>, names: &[&str]) -> Result<(), Report> {
    let own = runner.own();
    let place = own.place();
    let wrong = |message: String, hint: &str| Err(Report::new(ErrorKind::Plugin, message).hint(hint));
    if own.provider.is_some() {
        return wrong(
            format!("{place}: an agent package cannot choose a model"),
            "remove `provider`; `model` in agent.toml says for which model the agents were made",
        );
    }
    if own.remote.is_some() {
        return wrong(
            format!("{place}.remote: an agent package cannot choose an agent of another host"),
            "remove the key; whoever installs the package decides which hosts get tasks",
        );
    }
    if own.worker_labels.is_some() {
        return wrong(
            format!("{place}.place: an agent package cannot choose workers"),
            "remove the key; whoever installs the package decides where its agents run",
        );
    }
    let of_uses = own.all_plugins().map(|(listed, id, PluginUse { models, credentials, .. })| {
        (format!("{listed}.{id}"), !models.is_empty(), !credentials.is_empty())
    });
    let ceilings = [("use", &own.ceiling), ("delegable.grant", &own.delegable.grant)];
    let of_ceilings = ceilings.into_iter().filter_map(|(key, grant)| {
        let GrantConfig { models, credentials, .. } = grant.as_ref()?;
        Some((key.to_owned(), !models.is_empty(), !credentials.is_empty()))
    });
    for (key, has_models, has_credentials) in of_uses.chain(of_ceilings) {
        if has_models || has_credentials {
            let what = if has_models { "models" } else { "credentials" };
            return wrong(
                format!("{place}.{key}: an agent package cannot choose {what}"),
                "remove the key; whoever installs the package has models and credentials of their own",
            );
        }
    }
    let started = own.delegable.agents.iter().flatten().map(String::as_str);
    match runner.needs().into_iter().chain(started).find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(other) => wrong(
            format!("{place} names the agent `{}`, which is not in the package", other.escape_debug()),
            "add the agent to the package, or remove the name",
        ),
    }
}

impl Config {
    /// Adds the agents and teams of a package. `model` is the model of this config that they use; `None`: the default one.
    ///
    /// # Errors
    ///
    /// A [`Report`] if one of them has the name of another agent or team. Nothing is added then.
    pub(super) fn add_agent_package(
        &mut self,
        package: AgentPackageConfig,
        origin: &AgentPackageOrigin,
        model: Option<&str>,
    ) -> Result<(), Report> {
        let taken = package.names().find_map(|name| self.everyone().find(|other| other.name == name));
        if let Some(other) = taken {
            return Err(self.name_is_taken(other, origin));
        }
        let AgentPackageConfig { agents, teams } = package.installed_as(origin, model);
        self.agents.extend(agents);
        self.teams.extend(teams);
        Ok(())
    }

    fn name_is_taken(&self, other: &AgentConfig, origin: &AgentPackageOrigin) -> Report {
        let (name, id) = (other.name.escape_debug(), &origin.id);
        let (there, hint) = match &other.package {
            Some(package) => (
                format!("in the agent package `{}`", package.id),
                format!("remove one of them: shelly-host agent remove {}", package.id),
            ),
            None => {
                let of_file = self.file.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default();
                (
                    format!("as {}{of_file}", other.place().escape_debug()),
                    format!("rename yours, or remove the package: shelly-host agent remove {id}"),
                )
            }
        };
        Report::new(
            ErrorKind::Usage,
            format!("the name `{name}` is used twice: {there}, and in the agent package `{id}`"),
        )
        .hint(hint)
    }

    /// Returns this config with the agents and teams of a package, in place of those of its installed version.
    ///
    /// # Errors
    ///
    /// The mistakes that the package adds to the config: a name that is used twice, or a server or program that the config
    /// does not have.
    pub fn with_agent_package(
        &self,
        package: AgentPackageConfig,
        origin: &AgentPackageOrigin,
        model: Option<&str>,
    ) -> Result<Self, Vec<Report>> {
        let mut config = self.without_agent_package(&origin.id);
        config.add_agent_package(package, origin, model).map_err(|report| vec![report])?;
        config.settle_toolbox_paths();
        let before = self.mistakes();
        let mistakes: Vec<_> = config.mistakes().into_iter().filter(|report| !before.contains(report)).collect();
        if mistakes.is_empty() { Ok(config) } else { Err(mistakes) }
    }

    /// Returns the facts that the agents of a package add: what they reach and this config does not reach without them.
    ///
    /// # Errors
    ///
    /// Those of [`Self::with_agent_package`].
    pub fn reach_of_agent_package(
        &self,
        package: AgentPackageConfig,
        origin: &AgentPackageOrigin,
        model: Option<&str>,
    ) -> Result<TrustFacts, Vec<Report>> {
        let mut before = self.without_agent_package(&origin.id);
        // The facts of a project leave out agents of the user-wide config. Those of the package must be in them.
        before.user.has_runners = false;
        let with = before.with_agent_package(package, origin, model)?;
        Ok(with.facts_without_packages().without(&before.facts_without_packages()))
    }

    /// Returns this config without the agents and teams of a package.
    pub fn without_agent_package(&self, id: &str) -> Self {
        let mut config = self.clone();
        let is_kept = |runner: &AgentConfig| runner.package.as_ref().is_none_or(|package| package.id != id);
        config.agents.retain(is_kept);
        config.teams.retain(|team| is_kept(&team.own));
        config
    }

    /// Returns one fact for each agent package of the project: its digest, so that a person is asked again if any of its
    /// files changes, prompts included.
    pub(super) fn package_facts(&self) -> TrustFacts {
        let runners = self.everyone().filter(|_| !self.user.has_runners);
        let mut packages: IndexMap<&str, (&AgentPackageOrigin, Vec<String>)> = IndexMap::new();
        for (runner, package) in runners.filter_map(|runner| Some((runner, runner.package.as_ref()?))) {
            packages.entry(&package.id).or_insert((package, Vec::new())).1.push(quoted(&runner.name));
        }
        let fact = |(package, names): (&AgentPackageOrigin, Vec<String>)| {
            let AgentPackageOrigin { id, version, digest, .. } = package;
            let line = format!("the agent package {} {version}: {digest}, brings {}", quoted(id), names.join(", "));
            (RiskLevel::Little, line)
        };
        packages.into_values().map(fact).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256Digest;

    fn origin(id: &str) -> AgentPackageOrigin {
        let digest = Sha256Digest::of(id);
        AgentPackageOrigin { id: id.into(), version: "1.0.0".into(), digest, folder: "/store".into() }
    }

    fn parse(text: &str) -> AgentPackageConfig {
        AgentPackageConfig::parse(text, "agents.yaml").unwrap_or_else(|report| panic!("{report}"))
    }

    #[test]
    fn package_with_choices_of_its_installer_is_refused() {
        let many: Vec<_> = (0..=limits::AGENT_PACKAGE_RUNNERS).map(|at| format!("{{name: a{at}}}")).collect();
        let many = format!("agents: [{}]", many.join(", "));
        for (text, says) in [
            ("providers: [{name: m, kind: openai, model: m}]", "an agent package cannot have the key `providers`"),
            ("agents: [{name: a}]\nentry_agent: a", "an agent package cannot have the key `entry_agent`"),
            ("agents: [{name: a, provider: m}]", "agents.a: an agent package cannot choose a model"),
            (
                "agents: [{name: a, plugins: {p: {models: [m]}}}]",
                "agents.a.plugins.p: an agent package cannot choose models",
            ),
            (
                "agents: [{name: a, use: {credentials: [c]}}]",
                "agents.a.use: an agent package cannot choose credentials",
            ),
            ("agents: [{name: a, agent_tools: [b]}]", "agents.a names the agent `b`, which is not in the package"),
            ("agents: [{name: a, delegable: {agents: [b]}}]", "agents.a names the agent `b`"),
            ("agents: [{name: a}]\nteams: [{name: t, members: [a, b]}]", "teams.t names the agent `b`"),
            ("agents: []", "it has 0 agents and teams, and needs 1 to 64"),
            (many.as_str(), "it has 65 agents and teams, and needs 1 to 64"),
            ("agents: [{name: \"a\\e[2J\"}]", "is not a name that an installed agent can have"),
            ("agents: [{name: a, nme: b}]", "there is no key `nme` (agents.yaml, line 1"),
        ] {
            let report = AgentPackageConfig::parse(text, "agents.yaml").unwrap_err();
            assert!(report.to_string().contains(says), "{text}: {report}");
        }
    }

    #[test]
    fn installed_agents_use_the_chosen_model_and_start_each_other() {
        let text = "providers: [{name: m, kind: ollama, model: m}]\nagents: [{name: own}]";
        let config = Config::parse(text, "/project".into()).unwrap();
        let package =
            parse("agents: [{name: a}, {name: b, delegable: {agents: []}}]\nteams: [{name: t, members: [a, b]}]");
        let with = config.with_agent_package(package.clone(), &origin("p"), Some("m")).unwrap();
        assert_eq!(with.everyone().map(|who| &*who.name).collect::<Vec<_>>(), ["own", "a", "b", "t"]);
        let delegable = |name: &str| with.who(name).unwrap().own().delegable.agents.clone();
        assert_eq!(delegable("a").unwrap(), ["b", "t"]);
        assert_eq!((delegable("b"), delegable("own")), (Some(Vec::new()), None));
        assert_eq!(with.who("t").unwrap().own().provider.as_deref(), Some("m"));
        assert_eq!(with.entry().unwrap().name(), "own");
        assert_eq!(with.without_agent_package("p").everyone().count(), 1);
        let again = with.with_agent_package(parse("agents: [{name: a}]"), &origin("p"), None).unwrap();
        assert_eq!(again.everyone().count(), 2, "a version takes the place of the one before");
        let missing = config.with_agent_package(package, &origin("p"), Some("n")).unwrap_err();
        assert!(missing[0].to_string().starts_with("there is no model `n`"), "{}", missing[0]);
    }

    #[test]
    fn name_that_is_taken_is_reported_with_both_places() {
        let mut config = Config::parse("agents: [{name: a}]", "/project".into()).unwrap();
        config.file = Some("shelly.yaml".into());
        let report = config.with_agent_package(parse("agents: [{name: a}]"), &origin("p"), None).unwrap_err().remove(0);
        assert_eq!(
            report.message,
            "the name `a` is used twice: as agents.a of shelly.yaml, and in the agent package `p`"
        );
        assert!(report.hint.unwrap().ends_with("shelly-host agent remove p"));
        let with = config.with_agent_package(parse("agents: [{name: b}]"), &origin("p"), None).unwrap();
        let report = with.with_agent_package(parse("teams: [{name: b, members: [b]}]"), &origin("q"), None);
        let report = report.unwrap_err().remove(0);
        assert!(report.message.ends_with("in the agent package `p`, and in the agent package `q`"), "{report}");
    }

    #[test]
    fn bytes_of_a_package_are_a_fact_of_the_project() {
        let config = Config::parse("agents: [{name: own}]", "/project".into()).unwrap();
        let before = config.facts();
        let with = config.with_agent_package(parse("agents: [{name: a}, {name: b}]"), &origin("p"), None).unwrap();
        let new: Vec<_> = with.facts().without(&before).lines().map(str::to_owned).collect();
        let digest = Sha256Digest::of("p");
        assert_eq!(new, [format!("the agent package `p` 1.0.0: {digest}, brings `a`, `b`")]);
        assert!(with.facts_without_packages().without(&before).is_empty());
    }
}
