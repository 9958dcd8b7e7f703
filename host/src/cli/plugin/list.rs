//! `shelly-host plugin list`.

use std::path::PathBuf;

use serde_json::json;

use super::{inspect::summary, named_plugin::catalog};
use crate::{
    capability::Grant,
    cli::{
        command_runtime::runtime,
        render::{self, CliOutputFormat, RunOutputFormat, json_line, name, print, size},
    },
    error::{ErrorKind, Report},
    plugin::{CatalogEntry, CompileStep, PluginError},
};

/// Lists the plugins. Returns an exit code that is not 0 if one of them cannot be used.
pub(super) fn list(config: Option<&PathBuf>, plugins: &[PathBuf], output: CliOutputFormat) -> Result<u8, Report> {
    let catalog = catalog(config, plugins)?;
    if catalog.iter().next().is_none() {
        return Err(Report::new(ErrorKind::Usage, "there is no plugin directory")
            .hint("name a plugin directory with --plugins, or under `plugin_dirs` in the config"));
    }
    runtime()?.block_on(catalog.open(catalog.iter().map(|(id, _)| id), CompileStep::Validate));
    match output {
        CliOutputFormat::Json => {
            let row = |(id, plugin): (&str, &CatalogEntry)| match plugin.package() {
                Ok(package) => summary(package),
                Err(error) => json!({ "id": id, "error": PluginError::report(error) }),
            };
            print(&json_line(&catalog.iter().map(row).collect::<Vec<_>>()))?;
        }
        CliOutputFormat::Text => {
            let mut rows = vec![["PLUGIN", "KINDS", "SIZE", "WANTS", "ABOUT"].map(str::to_owned)];
            rows.extend(catalog.iter().map(|(id, plugin)| match plugin.package() {
                Ok(package) => {
                    let manifest = &package.manifest;
                    let kinds: Vec<_> = manifest.kinds.iter().map(|kind| kind.name()).collect();
                    // Imports that a language runtime needs anyway are no request of the plugin.
                    let wanted = Grant::default().missing(&manifest.wants).into_iter();
                    let wanted = wanted.filter(|_| !manifest.wants_are_optional).map(|missing| missing.capability);
                    let wants: Vec<_> = wanted.chain(manifest.wasi.then(|| "wasi (powerless)".into())).collect();
                    let (kinds, wants, about) = (kinds.join(", "), wants.join(", "), name(&manifest.description));
                    [id.into(), kinds, size(package.size), if wants.is_empty() { "-".into() } else { wants }, about]
                }
                Err(_) => [name(id), "unusable".into(), String::new(), String::new(), String::new()],
            }));
            let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            let (plugin, kinds, size, wants) = (width(0), width(1), width(2), width(3));
            let rows = rows.iter().map(|[id, of_kinds, of_size, wanted, about]| {
                let row = format!("{id:plugin$}  {of_kinds:kinds$}  {of_size:>size$}  {wanted:wants$}  {about}");
                row.trim_end().to_owned()
            });
            print(&rows.collect::<Vec<_>>().join("\n"))?;
        }
    }
    let mut code = 0;
    for (_, plugin) in catalog.iter() {
        if let Err(error) = plugin.package() {
            code = render::failed(&error.report(), RunOutputFormat::Text);
        }
    }
    Ok(code)
}
