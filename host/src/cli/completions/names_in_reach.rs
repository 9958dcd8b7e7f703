use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    app,
    cli::{
        config_path::agents_of_person,
        host_environment::plugin_dirs,
        project_search::ProjectSearch,
        trust,
        user_config_path::{home, user_config_path},
    },
    config::{
        Config, ConfigErrors, InstalledAgents, McpServerConfig, ProviderConfig, RunnerConfig, TriggerConfig, UserConfig,
    },
    limits,
    packages::{LockedAgentPackage, PackagePlace},
    plugin::{ComponentCompiler, PluginCatalog, PluginDirs, PluginKind},
    session::SessionStore,
};

/// A name that an argument can be completed with, and a description of it, which may be empty.
pub type DescribedName = (String, String);

/// The names that a command line can use: those of its config, its plugin directories and its sessions.
///
/// Nothing is read before it is asked for, and what cannot be read has no names.
pub struct NamesInReach {
    /// The folders and files of the person.
    person: PersonPlaces,
    /// The config that the command line names, or that is found; `None` if there is none.
    path: Option<PathBuf>,
    /// The folder whose sessions are meant if there is no config.
    folder: PathBuf,
    /// The plugin directories that the command line names.
    named_dirs: Vec<PathBuf>,
    config: OnceLock<Config>,
    plugins: OnceLock<PluginCatalog>,
}

/// The places of a person's settings.
#[derive(Default)]
pub struct PersonPlaces {
    /// The home folder, above which no config is looked for.
    pub home: Option<PathBuf>,
    /// The user-wide config, whether or not it exists.
    pub user_config: Option<PathBuf>,
    /// The agents that the person has installed for all projects.
    pub agents: InstalledAgents,
}

impl PersonPlaces {
    /// Returns the places that the environment names.
    pub fn of_environment() -> Self {
        Self { home: home(), user_config: user_config_path(), agents: agents_of_person() }
    }
}

impl NamesInReach {
    /// Takes the config and the plugin directories from the words of a command line. Without a config there, one is looked
    /// for in `folder` and above it.
    pub fn new(words: &[OsString], folder: &Path, person: PersonPlaces) -> Self {
        let below = |path: PathBuf| if folder.as_os_str().is_empty() { path } else { folder.join(path) };
        let found = || {
            let real = if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.canonicalize().ok()?;
            ProjectSearch::of(folder, &real, person.home.as_deref()).used().map(|found| found.path.clone())
        };
        let path = values_of(words, "--config").pop().map(below).or_else(found);
        let named_dirs = values_of(words, "--plugins").into_iter().map(below).collect();
        let (config, plugins) = Default::default();
        Self { person, path, folder: folder.to_owned(), named_dirs, config, plugins }
    }

    /// Returns the config; an empty one if there is none that can be read.
    fn config(&self) -> &Config {
        self.config.get_or_init(|| {
            let user = self.person.user_config.as_deref();
            let user = user.and_then(|path| UserConfig::read(path, self.person.home.as_deref()).ok().flatten());
            let (path, folder) = (self.path.as_deref(), self.folder.clone());
            let read = Config::of_project_with_agents(path, user, folder, &self.person.agents);
            // While a config is edited its names are still of use.
            read.unwrap_or_else(|ConfigErrors { config, .. }| config.map(|config| *config).unwrap_or_default())
        })
    }

    /// Returns the plugins that a command can name. Only their manifests are read.
    fn plugins(&self) -> &PluginCatalog {
        self.plugins.get_or_init(|| {
            let config = self.config();
            let PluginDirs { named, shipped, standard, installed, .. } = plugin_dirs(&self.named_dirs);
            let mut catalog = PluginCatalog::new(&ComponentCompiler::in_process());
            catalog.add_all(&config.plugin_directories(&named));
            let personal_dirs = config.personal_plugin_directories(&standard);
            let locked = app::locked_plugins(config, installed.as_deref()).unwrap_or_default();
            let mut catalog = catalog.with_shipped(shipped, personal_dirs.clone()).with_locked(locked);
            catalog.add_locked(|_| true);
            catalog.add_all(&[vec![config.root.join(".shelly/plugins")], personal_dirs].concat());
            catalog
        })
    }

    /// Returns the agents and teams of the config.
    pub fn agents(&self) -> Vec<DescribedName> {
        let described = |who: RunnerConfig<'_>| (who.name().to_owned(), who.own().description.clone());
        self.config().runners().map(described).collect()
    }

    /// Returns the models of the config.
    pub fn models(&self) -> Vec<DescribedName> {
        let described = |provider: &ProviderConfig| {
            let model = provider.model.as_ref().or(provider.plugin.as_ref());
            (provider.name.clone(), model.cloned().unwrap_or_default())
        };
        self.config().providers.iter().map(described).collect()
    }

    /// Returns the models of the config, and the plugins that are models.
    pub fn models_and_plugins(&self) -> Vec<DescribedName> {
        let mut models = self.models();
        models.extend(self.plugins_of(|kinds| kinds.contains(&PluginKind::Provider)));
        models
    }

    /// Returns the ids of plugins.
    pub fn plugin_ids(&self) -> Vec<DescribedName> {
        self.plugins_of(|_| true)
    }

    /// Returns the installed agent packages of the project and of the person, with their versions.
    pub fn agent_packages(&self) -> Vec<DescribedName> {
        let of_person = self.person.agents.person.as_deref().map(PackagePlace::of_person);
        let places = [PackagePlace::of_project(&self.config().root)].into_iter().chain(of_person);
        let described = |package: &LockedAgentPackage| (package.id.clone(), package.version.clone());
        let locks = places.filter_map(|place| place.read_lock().ok());
        locks.flat_map(|lock| lock.agents().map(described).collect::<Vec<_>>()).collect()
    }

    fn plugins_of(&self, is_wanted: impl Fn(&[PluginKind]) -> bool) -> Vec<DescribedName> {
        let described = self.plugins().iter().filter_map(|(id, plugin)| {
            let manifest = plugin.written_manifest();
            let kinds = manifest.map_or(&[][..], |manifest| &manifest.kinds);
            let about = manifest.map(|manifest| manifest.description.clone()).unwrap_or_default();
            is_wanted(kinds).then(|| (id.to_owned(), about))
        });
        described.take(limits::COMPLETED_NAMES).collect()
    }

    /// Returns the MCP servers of the config, each with its program, or with its host alone: a URL may hold credentials.
    pub fn mcp_servers(&self) -> Vec<DescribedName> {
        let described = |server: &McpServerConfig| {
            (server.name.clone(), server.command.clone().or_else(|| server.host_name()).unwrap_or_default())
        };
        self.config().mcp_servers.iter().map(described).collect()
    }

    /// Returns the APIs of the config.
    pub fn apis(&self) -> Vec<DescribedName> {
        self.config().openapi.iter().map(|api| (api.name.clone(), String::new())).collect()
    }

    /// Returns the triggers of the config, each with its agent.
    pub fn triggers(&self) -> Vec<DescribedName> {
        let described = |trigger: &TriggerConfig| (trigger.name.clone(), trigger.agent.clone().unwrap_or_default());
        self.config().triggers.iter().map(described).collect()
    }

    /// Returns the newest sessions of the project, with their titles.
    pub fn sessions(&self) -> Vec<DescribedName> {
        let listed = self.session_store().list(limits::COMPLETED_NAMES).unwrap_or_default();
        let described = listed.into_iter().map(|session| {
            let title = session.content.map(|(header, _)| header.title).unwrap_or_default();
            (session.id, title)
        });
        described.collect()
    }

    fn session_store(&self) -> SessionStore {
        let root = self.path.as_ref().and_then(|path| Config::root_of(path).ok());
        app::sessions(&root.unwrap_or_else(|| self.folder.clone()), trust::own_key())
    }
}

/// Returns the values of an option, written as `--option VALUE` or `--option=VALUE`, up to `--`.
fn values_of(words: &[OsString], option: &str) -> Vec<PathBuf> {
    let words: Vec<_> = words.iter().take_while(|word| *word != "--").collect();
    let value = |at: usize| match words[at].to_str()?.strip_prefix(option)? {
        "" => words.get(at + 1).map(PathBuf::from),
        rest => rest.strip_prefix('=').map(PathBuf::from),
    };
    (0..words.len()).filter_map(value).filter(|path| !path.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn names(found: Vec<DescribedName>) -> Vec<String> {
        found.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn names_come_from_the_named_or_the_found_config() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let of = |line: &str| NamesInReach::new(&words(line), folder.path(), PersonPlaces::default());
        assert_eq!(names(of("shelly-host run --agent ").agents()), [] as [&str; 0], "there is no config");
        write(
            "shelly.yaml",
            "agents: [{name: ada, description: counts}]\nmcp_servers: [{name: files, command: x}]\n\
             openapi: [{name: pets, document: p.yaml}]\n\
             triggers: [{name: nightly, cron: '0 3 * * *', agent: ada, task: t}]\n",
        );
        write("other.yaml", "agents: [{name: bob}]\nteams: [{name: crew, members: [bob], coordinator: sequence}]\n");
        let found = of("shelly-host run --agent ");
        assert_eq!(found.agents(), [("ada".to_owned(), "counts".to_owned())]);
        assert_eq!(names(found.mcp_servers()), ["files"]);
        assert_eq!(names(found.apis()), ["pets"]);
        assert_eq!(found.triggers(), [("nightly".to_owned(), "ada".to_owned())]);
        for line in ["shelly-host run --config other.yaml --agent ", "shelly-host run --config=other.yaml --agent "] {
            assert_eq!(names(of(line).agents()), ["bob", "crew"], "{line}");
        }
        // An unknown key does not hide the names, a file that is no YAML has none.
        write("shelly.yaml", "colour: red\nagents: [{name: ada}]\n");
        assert_eq!(names(of("shelly-host run ").agents()), ["ada"]);
        write("shelly.yaml", "agents: [");
        assert!(of("shelly-host run ").agents().is_empty());
    }

    #[test]
    fn mcp_server_is_described_without_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        for (server, about) in [
            ("{name: s, url: 'https://me:pass@mcp.example/key-in-path/mcp?token=t'}", "mcp.example"),
            ("{name: s, command: npx, args: [--token, t]}", "npx"),
            ("{name: s, url: 'https://${HOST}/mcp'}", ""),
        ] {
            fs::write(folder.path().join("shelly.yaml"), format!("mcp_servers: [{server}]\n")).unwrap();
            let names = NamesInReach::new(&words("shelly-host mcp login "), folder.path(), PersonPlaces::default());
            assert_eq!(names.mcp_servers(), [("s".to_owned(), about.to_owned())], "{server}");
        }
    }

    #[test]
    fn plugin_ids_are_read_from_manifests() {
        let folder = tempfile::tempdir().unwrap();
        for (id, kind) in [("echo", "tool"), ("oracle", "provider")] {
            let place = folder.path().join("mine").join(id);
            fs::create_dir_all(&place).unwrap();
            let manifest =
                format!("id = \"{id}\"\nkinds = [\"{kind}\"]\ncomponent = \"c.wasm\"\ndescription = \"Is {id}\"\n");
            fs::write(place.join("plugin.toml"), manifest).unwrap();
        }
        let names_there =
            NamesInReach::new(&words("shelly-host run --plugins mine "), folder.path(), PersonPlaces::default());
        let ids = names_there.plugin_ids();
        assert!(
            ids.contains(&("echo".into(), "Is echo".into())),
            "its component is not there, and was not read: {ids:?}"
        );
        let models = names(names_there.models_and_plugins());
        assert!(models.contains(&"oracle".to_owned()) && !models.contains(&"echo".to_owned()), "{models:?}");
    }

    #[test]
    fn option_values_end_at_the_escape() {
        let of = |line: &str| values_of(&words(line), "--plugins");
        assert_eq!(of("p run --plugins a --plugins=b --pluginsx c -- --plugins d"), ["a", "b"].map(PathBuf::from));
        assert_eq!(of("p run --plugins"), [] as [PathBuf; 0]);
    }
}
