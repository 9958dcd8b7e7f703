//! Reads a project's config over the user-wide config.

use std::path::{Path, PathBuf};

use super::{
    Config, ConfigEntryKind, ConfigErrors, InstalledAgents, UserConfig, UserEntries,
    installed_agents::InstalledAgentPackage,
};

impl Config {
    /// Reads a config file like [`Self::read_all`], and adds the entries of the user-wide config that it does not replace.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], whose reports each name the file, the position in it and the fix.
    pub fn read_with_user(path: &Path, user: Option<UserConfig>) -> Result<Self, ConfigErrors> {
        Self::of_project(Some(path), user, PathBuf::new())
    }

    /// Reads the config of a project over the user-wide config, with the agents that its lock file names. A project without a config
    /// file is the one in `folder`.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], whose reports each name the file, the position in it and the fix.
    pub fn of_project(path: Option<&Path>, user: Option<UserConfig>, folder: PathBuf) -> Result<Self, ConfigErrors> {
        Self::of_project_with_agents(path, user, folder, &InstalledAgents::default())
    }

    /// Does the same as [`Self::of_project`] with these agents besides those of the project.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], whose reports each name the file, the position in it and the fix; also if an installed agent package cannot
    /// be used.
    pub fn of_project_with_agents(
        path: Option<&Path>,
        user: Option<UserConfig>,
        folder: PathBuf,
        agents: &InstalledAgents,
    ) -> Result<Self, ConfigErrors> {
        let (text, root) = match path {
            Some(path) => Self::text_of(path)?,
            None => (String::new(), folder),
        };
        let parsed = Self::of_text(&text, root, user, agents);
        match path {
            Some(path) => Self::in_file(path, parsed),
            None => parsed,
        }
    }

    /// Does the same as [`Self::of_project_with_agents`] with the text of a config of the project in the folder `root`.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], whose reports each name the position and the fix; also if an installed agent package cannot be used.
    pub fn of_text(
        text: &str,
        root: PathBuf,
        user: Option<UserConfig>,
        agents: &InstalledAgents,
    ) -> Result<Self, ConfigErrors> {
        let user = agents.add_to_user(user)?;
        let installed = agents.of_project(&root)?;
        Self::parse_with_agents(text, root, user, installed)
    }

    /// Parses a config whose relative paths are below `root`, and adds the agents of packages and the entries of the user-wide
    /// config.
    fn parse_with_agents(
        text: &str,
        root: PathBuf,
        user: Option<UserConfig>,
        installed: Vec<InstalledAgentPackage>,
    ) -> Result<Self, ConfigErrors> {
        Self::parse_over(text, root, |config| {
            let checked = config.check_is_of_project(text);
            // Before those of the person: agents of a project must not reach them.
            let added = installed.iter().try_for_each(|package| package.add_to(config));
            user.into_iter().for_each(|user| config.add_user_entries(user));
            checked.and(added).and_then(|()| installed.iter().try_for_each(|package| config.check_signature(package)))
        })
    }

    /// Parses a config whose relative paths are below `root`, and adds the entries of the user-wide config.
    #[cfg(test)]
    pub(super) fn parse_with_user(text: &str, root: PathBuf, user: Option<UserConfig>) -> Result<Self, ConfigErrors> {
        Self::parse_with_agents(text, root, user, Vec::new())
    }

    /// Adds the user-wide config. An entry of this config takes the place of one with the same name as a whole, so that no
    /// part of the person's entry, such as its key, goes with a part of the project's, such as its address.
    fn add_user_entries(&mut self, user: UserConfig) {
        // A new key must be decided on here: whether it is of a person, and how the two are put together.
        let Self {
            providers,
            default_provider,
            credentials,
            mcp_servers,
            openapi,
            programs,
            // Refused in a user-wide config: it is about one folder.
            git: _,
            plugin_dirs,
            plugin_signatures,
            plugin_index,
            toolboxes,
            agents,
            teams,
            entry_agent,
            default_context_windows,
            context,
            sessions,
            cluster,
            runs,
            limits,
            telemetry,
            // Refused in a user-wide config: they would work in each project.
            triggers: _,
            theme,
            approved: _,
            root: _,
            file,
            user: _,
        } = user.into_config();
        let mut entries = UserEntries::default();
        (entries.file, entries.plugin_dirs) = (file, plugin_dirs);
        // Both rules hold: a project cannot take back what the person requires.
        entries.plugin_signatures = plugin_signatures;
        if self.providers.is_empty() && self.default_provider.is_none() {
            entries.has_default_provider = default_provider.is_some();
            self.default_provider = default_provider;
        }
        // Agents can start each other and are members of teams: those of a project must not reach those of the person.
        let has_own_runners = !self.agents.is_empty() || !self.teams.is_empty() || !self.toolboxes.is_empty();
        if !has_own_runners && self.entry_agent.is_none() {
            entries.has_runners = !agents.is_empty() || !teams.is_empty();
            (self.agents, self.teams, self.entry_agent) = (agents, teams, entry_agent);
        }
        add_entries(&mut entries, ConfigEntryKind::Model, &mut self.providers, providers, |one| &one.name);
        add_entries(&mut entries, ConfigEntryKind::Credential, &mut self.credentials, credentials, |one| &one.name);
        add_entries(&mut entries, ConfigEntryKind::McpServer, &mut self.mcp_servers, mcp_servers, |one| &one.name);
        add_entries(&mut entries, ConfigEntryKind::Api, &mut self.openapi, openapi, |one| &one.name);
        add_entries(&mut entries, ConfigEntryKind::Toolbox, &mut self.toolboxes, toolboxes, |one| one.name());
        for (name, program) in programs {
            let is_replaced = self.programs.contains_key(&name);
            entries.note(ConfigEntryKind::Program, &name, is_replaced);
            if !is_replaced {
                self.programs.insert(name, program);
            }
        }
        for (kind, tokens) in default_context_windows {
            self.default_context_windows.entry(kind).or_insert(tokens);
        }
        self.context = self.context.over(&context);
        self.sessions = self.sessions.over(&sessions);
        if self.cluster.is_none() {
            entries.has_cluster = cluster.is_some();
            self.cluster = cluster;
        }
        self.runs = self.runs.over(&runs);
        self.limits = self.limits.over(&limits);
        // As a whole: no header of the person goes to an endpoint of the project.
        entries.has_replaced_telemetry = self.telemetry.is_some() && telemetry.is_some();
        if self.telemetry.is_none() {
            entries.has_telemetry = telemetry.is_some();
            self.telemetry = telemetry;
        }
        // Refused in the config of a project.
        (self.theme, self.plugin_index) = (theme, plugin_index);
        self.user = entries;
    }
}

/// Adds the entries `more` of the user-wide config to those of the project, except where the project has one of the same name.
fn add_entries<T>(
    entries: &mut UserEntries,
    kind: ConfigEntryKind,
    of_project: &mut Vec<T>,
    more: Vec<T>,
    name: impl Fn(&T) -> &str,
) {
    for entry in more {
        let is_replaced = of_project.iter().any(|own| name(own) == name(&entry));
        entries.note(kind, name(&entry), is_replaced);
        if !is_replaced {
            of_project.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::Report;

    fn user(text: &str) -> UserConfig {
        UserConfig::parse(Path::new("/home/me/.config/shelly-host/config.yaml"), text)
            .unwrap_or_else(|errors| panic!("{:?}", errors.reports))
    }

    fn merged(project: &str, of_user: &str) -> Result<Config, Vec<Report>> {
        Config::parse_with_user(project, "/project".into(), Some(user(of_user))).map_err(|errors| errors.reports)
    }

    const USER: &str = "
default_provider: quick
providers:
  - {name: strong, kind: openai, model: strong, api_key: '${KEY}'}
  - {name: quick, kind: ollama, model: quick}
credentials: [{name: hub, file: keys/hub, for: ['https://hub.example']}]
mcp_servers: [{name: web, url: 'https://h.example'}]
programs: {fmt: {command: ./fmt}}
toolboxes: [filesystem, {name: exec, programs: [fmt]}]
default_context_windows: {openai: 1, vllm: 2}
sessions: {record: false, max_bytes: 10}
runs: {agents: 3, working_agents: 2}
limits: {log_entries: 5, state_bytes: 6}
context: {max_external_file_size: 7}
";

    #[test]
    fn project_without_a_config_is_the_given_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = |path: Option<&Path>, user: Option<UserConfig>| {
            Config::of_project(path, user, "/project".into()).unwrap_or_else(|errors| panic!("{errors:?}")).root
        };
        assert_eq!(root(None, None), Path::new("/project"));
        assert_eq!(root(None, Some(user(USER))), Path::new("/project"));
        let path = folder.path().join("shelly.yaml");
        std::fs::write(&path, "").unwrap();
        assert_eq!(root(Some(&path), None), folder.path());
    }

    #[test]
    fn project_entry_replaces_user_entry_as_a_whole() {
        let project = "
providers: [{name: strong, kind: openai, model: other, base_url: 'http://far.example'}]
programs: {fmt: {args: [[x]]}, other: {}}
default_context_windows: {openai: 9}
sessions: {record: true}
runs: {agents: 1}
limits: {log_entries: 1}
agents: [{name: a, toolboxes: [web]}]
";
        let config = merged(project, USER).unwrap();
        let strong = config.provider(Some("strong")).unwrap().unwrap();
        assert_eq!((strong.base_url.as_deref(), &strong.api_key), (Some("http://far.example"), &None));
        assert_eq!(config.provider(None).unwrap().unwrap().name, "strong", "the project has models of its own");
        assert_eq!(config.providers.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["strong", "quick"]);
        assert_eq!((&config.programs["fmt"].command, config.programs.len()), (&None, 2));
        assert_eq!(config.default_context_windows.values().collect::<Vec<_>>(), [&9, &2]);
        assert_eq!((config.sessions.record, config.sessions.max_bytes), (Some(true), 10));
        assert_eq!((config.runs.agents, config.runs.working_agents), (Some(1), Some(2)));
        assert_eq!((config.limits.log_entries, config.limits.state_bytes), (Some(1), Some(6)));
        assert_eq!(config.context.max_external_file_size, 7);
        let entries = &config.user;
        assert_eq!(
            entries.replaced().collect::<Vec<_>>(),
            [(ConfigEntryKind::Model, "strong"), (ConfigEntryKind::Program, "fmt")]
        );
        assert!(
            entries.contains(ConfigEntryKind::Model, "quick") && !entries.contains(ConfigEntryKind::Model, "strong")
        );
        assert!(entries.contains(ConfigEntryKind::Credential, "hub") && !entries.has_default_provider);
    }

    #[test]
    fn project_without_models_has_default_model_of_user() {
        for (project, default) in [("", "quick"), ("default_provider: strong", "strong")] {
            let config = merged(project, USER).unwrap();
            assert_eq!(config.provider(None).unwrap().unwrap().name, default);
            assert_eq!(config.user.has_default_provider, project.is_empty());
        }
        let report = merged("default_provider: strog", USER).unwrap_err().remove(0);
        assert_eq!(report.to_string(), "there is no model `strog`: named by default_provider");
        assert_eq!(report.hint.as_deref(), Some("did you mean `strong`?"));
    }

    #[test]
    fn agents_are_of_the_project_or_of_the_user() {
        let of_user = "agents: [{name: a}, {name: b}]\nteams: [{name: t, members: [a]}]\nentry_agent: b";
        for (project, names) in [
            ("", &["a", "b", "t"][..]),
            ("providers: [{name: m, kind: ollama, model: m}]", &["a", "b", "t"]),
            ("agents: [{name: c, options: {max_delegation_depth: 1}}]", &["c"]),
            ("toolboxes: [notes]", &[]),
        ] {
            let config = merged(project, of_user).unwrap();
            assert_eq!(config.everyone().map(|agent| &*agent.name).collect::<Vec<_>>(), names, "{project}");
            assert_eq!(config.user.has_runners, names.len() == 3);
            assert_eq!(config.entry().ok().map(|who| who.name()), names.get(1).or(names.first()).copied());
        }
        for project in ["agents: [{name: c, agent_tools: [a]}]", "teams: [{name: u, members: [b]}]", "entry_agent: a"] {
            let report = merged(project, of_user).unwrap_err().remove(0);
            assert!(report.message.starts_with("there is no agent"), "{report}");
        }
    }

    #[test]
    fn user_files_are_below_their_config_and_folders_in_the_project() {
        let config = merged("agents: []", USER).unwrap();
        let folder = Path::new("/home/me/.config/shelly-host");
        assert_eq!(config.credentials[0].file.as_deref(), Some(&*folder.join("keys/hub")));
        assert_eq!(config.programs["fmt"].command.as_deref(), folder.join("./fmt").to_str());
        let files = config.toolboxes[0].shipped().unwrap();
        assert_eq!(files.plugins["filesystem"].params["root"], "/project", "an agent works in the project");
        assert_eq!(config.root, Path::new("/project"));
        let of_user = "plugin_dirs: [plugins, /opt/plugins]\nmcp_servers: [{name: a, command: npx}, {name: b, command: bin/b}]\n\
                       providers: [{name: m, kind: openai, model: m, api_key_file: keys/m}, \
                                   {name: n, kind: openai, model: n, api_key_command: [./key.sh, ./n]}]\n\
                       credentials: [{name: c, command: [bin/c, x/y], for: ['https://c.example']}, \
                                     {name: d, command: [pass, d], for: ['https://d.example']}]";
        let config = merged("plugin_dirs: [own]", of_user).unwrap();
        assert_eq!(config.user.plugin_dirs, [folder.join("plugins"), "/opt/plugins".into()]);
        assert_eq!(config.plugin_dirs, [Path::new("own")]);
        let commands: Vec<_> = config.mcp_servers.iter().map(|one| one.command.as_deref()).collect();
        assert_eq!(commands, [Some("npx"), folder.join("bin/b").to_str()]);
        assert_eq!(config.providers[0].api_key_file.as_deref(), Some(&*folder.join("keys/m")));
        let below = |path: &str| folder.join(path).to_str().unwrap().to_owned();
        assert_eq!(config.providers[1].api_key_command, [below("./key.sh"), "./n".into()]);
        assert_eq!(config.credentials[0].command, [below("bin/c"), "x/y".into()]);
        assert_eq!(config.credentials[1].command, ["pass", "d"]);
    }

    #[test]
    fn toolboxes_of_both_are_joined_by_name() {
        let config = merged("toolboxes: [{name: filesystem, changes: apply}, notes]", USER).unwrap();
        assert_eq!(config.toolboxes.iter().map(|one| one.name()).collect::<Vec<_>>(), ["filesystem", "notes", "exec"]);
        let entries = &config.user;
        assert_eq!(entries.replaced().collect::<Vec<_>>(), [(ConfigEntryKind::Toolbox, "filesystem")]);
        assert!(entries.contains(ConfigEntryKind::Toolbox, "exec"));
    }
}
