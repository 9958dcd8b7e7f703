//! `shelly-host plugin list --outdated`.

use std::path::PathBuf;

use serde_json::json;

use super::{package_fetch::PackageFetcher, place_args::project_and_person};
use crate::{
    cli::{
        command_runtime::runtime,
        render::{CliOutputFormat, json_line, name, print},
    },
    error::Report,
    packages::LockedPluginPackage,
};

/// Lists the installed plugins of which there is another version, with the source of it.
pub fn list_outdated(config: Option<&PathBuf>, output: CliOutputFormat) -> Result<u8, Report> {
    let (_, project, person) = project_and_person(config)?;
    let fetcher = PackageFetcher::new()?;
    let outdated = runtime()?.block_on(async {
        let mut outdated = Vec::new();
        for place in [project].iter().chain(&person) {
            let lock = place.read_lock().map_err(|error| error.report())?;
            // Those of an agent package change with it.
            for locked in lock.iter().filter(|locked| locked.agent.is_none()) {
                if let Some(source) = fetcher.newer_source(locked, place).await? {
                    outdated.push((locked.clone(), source.to_string()));
                }
            }
        }
        Ok::<_, Report>(outdated)
    })?;
    match output {
        CliOutputFormat::Json => {
            let rows = outdated.iter().map(|(locked, source)| {
                json!({ "id": locked.id, "version": locked.version, "source": locked.source, "newer": source })
            });
            print(&json_line(&rows.collect::<Vec<_>>()))?;
        }
        CliOutputFormat::Text if outdated.is_empty() => print("every installed plugin is up to date")?,
        CliOutputFormat::Text => {
            let lines: Vec<_> = outdated.iter().map(|(locked, source)| row(locked, source)).collect();
            print(&lines.join("\n"))?;
        }
    }
    Ok(0)
}

fn row(locked: &LockedPluginPackage, source: &str) -> String {
    let version = if locked.version.is_empty() { "-".to_owned() } else { name(&locked.version) };
    format!("{}  {version}  another version is at {}", locked.id, name(source))
}
