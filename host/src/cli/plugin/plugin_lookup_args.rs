use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;

use super::named_plugin::named_package;
use crate::{
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        ask,
        config_path::{read_config_silently, read_over_user_config},
        host_environment::{compiling, environment, plugin_dirs},
        trust,
    },
    config::{Config, ConfigErrors},
    error::Report,
    plugin::{ComponentCompiler, PluginDirs, PluginPackage},
};

/// The options with which a plugin outside of any agent is found, and the config that it may use.
#[derive(Args)]
pub struct PluginLookupArgs {
    /// The config whose models, programs, credentials and limits count, and in which an id is looked up.
    ///
    /// Without it, an id is looked up as by `plugin inspect`, and the project's config is used for nothing else unless the plugin
    /// lies in the project, or a grant or --model names something of the config: then you are asked first to trust the project.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders in which the id is looked up; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
    #[arg(long)]
    trust: bool,
}

impl PluginLookupArgs {
    /// Returns the options for a plugin that is named by its path: it is looked up in no directory and needs no consent.
    pub(super) fn of_path(config: Option<&PathBuf>) -> Self {
        Self { config: config.cloned(), plugins: Vec::new(), trust: false }
    }

    /// Returns `true` if the person has named a config.
    pub(super) fn has_config(&self) -> bool {
        self.config.is_some()
    }

    /// Opens the plugin of this path or id.
    pub(super) async fn open(
        &self,
        plugin: &Path,
        compiler: &Arc<ComponentCompiler>,
    ) -> Result<Arc<PluginPackage>, Report> {
        named_package(plugin, self.config.as_ref(), &self.plugins, compiler).await
    }

    /// Returns the app whose config the plugin may use: the named one, or that of the project if the person trusts it, and
    /// otherwise the person's own. `plugin` is the path or id by which the person has named the plugin. `names_entries` is
    /// `true` if its grants name entries of a config.
    pub(super) async fn app(&self, plugin: &Path, package: &PluginPackage, names_entries: bool) -> Result<App, Report> {
        let app = |config: Config| {
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            App::new(config, plugin_dirs(&self.plugins), compiling(), environment(), broker)
        };
        if self.config.is_some() {
            return app(read_config_silently(self.config.as_ref())?);
        }
        if !plugin.exists() {
            let found = read_config_silently(None)?;
            if self.is_of_project(package, &found) || names_entries {
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
        let PluginDirs { named, shipped, standard, installed, .. } = plugin_dirs(&self.plugins);
        let installed = installed.map(|folder| folder.join("sha256")).into_iter().collect();
        let own = [named, shipped.directories, standard, installed, found.user.plugin_dirs.clone()].concat();
        package.location.path().is_some() && !package.location.lies_in(&own)
    }
}
