use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;

use super::{given_text::argument_text, plugin_lookup_args::PluginLookupArgs};
use crate::{
    app::{App, GRANT_OPTION, LonePlugin},
    cli::{
        host_environment::compiling,
        render::{CliOutputFormat, warn},
        secrets,
    },
    config::PluginUse,
    error::Report,
    limits,
    plugin::{ComponentCompiler, Plugin, PluginPackage},
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
    #[command(flatten)]
    lookup: PluginLookupArgs,
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
        Self { given: given.clone(), lookup: PluginLookupArgs::of_path(config), output }
    }

    /// Opens the plugin of this path or id.
    pub(super) async fn open(
        &self,
        plugin: &Path,
        compiler: &Arc<ComponentCompiler>,
    ) -> Result<Arc<PluginPackage>, Report> {
        self.lookup.open(plugin, compiler).await
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
        let names_entries = !uses.programs.is_empty() || !uses.credentials.is_empty() || !uses.models.is_empty();
        let app = self.lookup.app(plugin, package, names_entries || model.is_some()).await?.with_compiler(compiler);
        // Without a folder: the current one.
        let folder = std::path::absolute(self.given.dir.as_deref().unwrap_or(Path::new("."))).unwrap_or_default();
        let LonePlugin { plugin, warnings } = app.load_alone(package, &uses, &folder).await?;
        secrets::hide(app.secrets());
        warnings.iter().for_each(|warning| warn(warning));
        Ok(LoadedTrial { app, plugin, warnings })
    }
}

/// Returns the compiler of a trial.
pub(super) fn trial_compiler() -> Arc<ComponentCompiler> {
    Arc::new(ComponentCompiler::from(compiling()))
}
