use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;

use super::{given_text::argument_text, named_plugin::named_package};
use crate::{
    app::{App, GRANT_OPTION, LonePlugin},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        ask,
        config_path::{read_config_silently, read_over_user_config},
        host_environment::{compiling, environment, plugin_dirs},
        render::{CliOutputFormat, warn},
        secrets, trust,
    },
    config::{Config, ConfigErrors, PluginUse},
    error::Report,
    limits,
    plugin::{ComponentCompiler, Plugin, PluginDirs, PluginPackage},
};

/// The options that give a plugin something outside of any agent.
#[derive(Args, Clone)]
pub struct TrialGrantArgs {
    /// Grant something to the plugin; repeatable.
    ///
    /// The value is YAML or JSON with the keys of an entry under `plugins` of an agent, such as 'http: [https://example.com]'
    /// or '{kv: run, clock: true, limits: {time: 2s}}'. Several are joined. Without it nothing is granted. Key-value stores are
    /// in memory, and no file is changed unless a folder is granted for writing.
    #[arg(long = "grant", value_name = "YAML")]
    grants: Vec<String>,
    /// The plugin's params, as a mapping in YAML or JSON; `@FILE` reads a file.
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// The folder below which relative paths of --grant are (default: the current folder).
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The options of the commands that run a plugin outside of any agent.
#[derive(Args)]
pub struct TrialArgs {
    #[command(flatten)]
    given: TrialGrantArgs,
    /// The config whose models, programs, credentials and limits count, and in which an id is looked up.
    ///
    /// Without it, an id is looked up as by `plugin inspect`, and the project's config is used for nothing else unless the plugin
    /// lies in the project, or --grant or --model names something of the config: then you are asked first to trust the project.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders in which the id is looked up; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
    #[arg(long)]
    trust: bool,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

/// A plugin that is loaded for a trial, and the app that it may use.
pub struct LoadedTrial {
    pub app: App,
    pub plugin: Arc<Plugin>,
    pub warnings: Vec<String>,
}

impl TrialArgs {
    /// Returns the options for a plugin that is named by its path: it is looked up in no directory and needs no consent.
    pub(super) fn of_path(given: &TrialGrantArgs, config: Option<&PathBuf>, output: CliOutputFormat) -> Self {
        Self { given: given.clone(), config: config.cloned(), plugins: Vec::new(), trust: false, output }
    }

    /// Opens the plugin of this path or id.
    pub(super) async fn open(
        &self,
        plugin: &Path,
        compiler: &Arc<ComponentCompiler>,
    ) -> Result<Arc<PluginPackage>, Report> {
        named_package(plugin, self.config.as_ref(), &self.plugins, compiler).await
    }

    /// Loads the plugin with what the options grant it. `plugin` is the path or id by which the person has named it, and `model`
    /// the model that it may ask.
    pub(super) async fn load(
        &self,
        plugin: &Path,
        package: &Arc<PluginPackage>,
        compiler: &Arc<ComponentCompiler>,
        model: Option<&str>,
    ) -> Result<LoadedTrial, Report> {
        let mut uses = PluginUse::from_fragments(&self.given.grants, GRANT_OPTION)?;
        if let Some(params) = &self.given.params {
            let text = argument_text(params, "the params", limits::TRIAL_INPUT_BYTES)?;
            uses.add_params(&text, params.strip_prefix('@').unwrap_or("--params"))?;
        }
        let app = self.app(plugin, package, &uses, model).await?.with_compiler(compiler);
        // Without a folder: the current one.
        let folder = std::path::absolute(self.given.dir.as_deref().unwrap_or(Path::new("."))).unwrap_or_default();
        let LonePlugin { plugin, warnings } = app.load_alone(package, &uses, &folder).await?;
        secrets::hide(app.secrets());
        warnings.iter().for_each(|warning| warn(warning));
        Ok(LoadedTrial { app, plugin, warnings })
    }

    /// Returns the app whose config the plugin may use: the named one, or that of the project if the person trusts it, and
    /// otherwise the person's own.
    async fn app(
        &self,
        plugin: &Path,
        package: &PluginPackage,
        uses: &PluginUse,
        model: Option<&str>,
    ) -> Result<App, Report> {
        let app = |config: Config| {
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            App::new(config, plugin_dirs(&self.plugins), compiling(), environment(), broker)
        };
        if self.config.is_some() {
            return app(read_config_silently(self.config.as_ref())?);
        }
        if !plugin.exists() {
            let found = read_config_silently(None)?;
            let names_entries = !uses.programs.is_empty() || !uses.credentials.is_empty() || !uses.models.is_empty();
            if self.is_of_project(package, &found) || names_entries || model.is_some() {
                let app = app(found)?;
                let standing = app.standing(&trust::store(), false)?;
                trust::admitted(&standing, self.trust, ask::is_attended()).await?;
                return Ok(app);
            }
        }
        app(read_over_user_config(None).map_err(ConfigErrors::first)?)
    }

    /// Returns `true` unless the plugin comes with the host, or lies in a directory of the person.
    fn is_of_project(&self, package: &PluginPackage, found: &Config) -> bool {
        let PluginDirs { named, shipped, standard, .. } = plugin_dirs(&self.plugins);
        let own = [named, shipped.directories, standard, found.user.plugin_dirs.clone()].concat();
        package.location.path().is_some() && !package.location.lies_in(&own)
    }
}

/// Returns the compiler of a trial.
pub(super) fn trial_compiler() -> Arc<ComponentCompiler> {
    Arc::new(ComponentCompiler::from(compiling()))
}
