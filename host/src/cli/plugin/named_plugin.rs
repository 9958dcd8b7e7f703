//! The plugins that a command names: those of the config's directories, and one by its path or id.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    app::locked_plugins,
    cli::{
        config_path::read_config,
        host_environment::{compiling, plugin_dirs},
    },
    config::{Config, nearest},
    error::{ErrorKind, Report},
    plugin::{CompileStep, ComponentCompiler, PluginCatalog, PluginDirs, PluginError, PluginPackage},
};

/// Returns the catalog of plugins to list.
pub(super) fn catalog(config: Option<&PathBuf>, plugins: &[PathBuf]) -> Result<PluginCatalog, Report> {
    catalog_of(&read_config(config)?, plugins)
}

/// Returns the catalog of plugins to list for a config.
pub fn catalog_of(config: &Config, plugins: &[PathBuf]) -> Result<PluginCatalog, Report> {
    let PluginDirs { named, shipped, standard, installed, .. } = plugin_dirs(plugins);
    let directories = config.plugin_directories(&named);
    let personal_dirs = config.personal_plugin_directories(&standard);
    let catalog = PluginCatalog::scan(&directories, &Arc::new(compiling().into()))?;
    let catalog = catalog.with_locked(locked_plugins(config, installed.as_deref())?);
    let mut catalog = catalog.with_shipped(shipped, personal_dirs.clone());
    // Without a named directory it has the plugins that a config can name by their id alone.
    catalog.add_locked(|locked| !locked.is_personal);
    if directories.is_empty() {
        catalog.add_all(&[config.root.join(".shelly/plugins")]);
    }
    catalog.add_locked(|locked| locked.is_personal);
    if directories.is_empty() {
        catalog.add_all(&personal_dirs);
    }
    Ok(catalog)
}

/// Returns the plugin at this path, or the one with this id in the catalog.
pub(super) async fn named_package(
    path: &Path,
    config: Option<&PathBuf>,
    plugins: &[PathBuf],
    compiler: &Arc<ComponentCompiler>,
) -> Result<Arc<PluginPackage>, Report> {
    if !path.exists() {
        let (mut catalog, id) = (catalog(config, plugins)?, path.to_string_lossy());
        catalog.set_compiler(compiler);
        catalog.open([&*id], CompileStep::Compile).await;
        return match catalog.get(&id) {
            Some(listed) => listed.map(Arc::clone).map_err(PluginError::report),
            None => {
                let message = format!("there is no file, folder or plugin `{}`", path.display());
                let known: Vec<_> = catalog.iter().map(|(id, _)| id).collect();
                let near = nearest(&id, &known).map(|near| format!("did you mean `{near}`? Otherwise "));
                Err(Report::new(ErrorKind::Usage, message).hint(format!(
                    "{}name a plugin's folder, a component file, or an id from shelly-host plugin list; --plugins adds a directory \
                     of plugins",
                    near.unwrap_or_default()
                )))
            }
        };
    }
    if path.is_dir() && !path.join("plugin.toml").exists() {
        return Err(Report::new(ErrorKind::Usage, format!("there is no plugin.toml in {}", path.display()))
            .hint("name a plugin's folder; for a directory of plugins use shelly-host plugin list --plugins"));
    }
    let package = PluginPackage::open(path, compiler, CompileStep::Compile).await;
    package.map(Arc::new).map_err(|error| error.report())
}
