//! Gets everything that a lock file names and the store lacks: plugins and agent packages.

use super::{agent_fetch::FetchedAgentPackage, package_candidate::named, package_fetch::PackageFetcher};
use crate::{
    cli::render::{name, print},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    packages::{LockedAgentPackage, LockedPluginPackage, PackageError, PackageLock, PackagePlace},
};

/// Gets everything that a lock file names and the store does not have. `command` is `plugin` or `agent`, and `place_options` are
/// its options.
pub async fn restore(place: &PackagePlace, command: &str, place_options: &str) -> Result<u8, Report> {
    let lock = place.read_lock().map_err(|error| error.report())?;
    if lock.is_empty() {
        let message = format!("{} names no {command}", name(&place.lock_file().display().to_string()));
        let hint = format!("name one: shelly-host {command} install SOURCE{place_options}");
        return Err(Report::new(ErrorKind::Usage, message).hint(hint));
    }
    let fetcher = PackageFetcher::new()?;
    let mut lines = Vec::new();
    let line = |is_there: bool, named: &str| format!("{}    {named}", if is_there { "in store " } else { "installed" });
    for locked in lock.agents() {
        let is_there = has_agent(place, &lock, locked);
        if !is_there {
            fetch_locked_agent(place, &lock, locked, &fetcher).await?;
        }
        lines.push(line(is_there, &format!("the agent package `{}` {}", locked.id, name(&locked.version))));
    }
    // Those of an agent package have come with it.
    for locked in lock.iter().filter(|locked| locked.agent.is_none()) {
        let is_there = has_plugin(place, locked);
        if !is_there {
            fetch_locked(place, locked, &fetcher).await?;
        }
        lines.push(line(is_there, &named(locked)));
    }
    print(&lines.join("\n"))?;
    Ok(0)
}

/// Returns `true` if a plugin is in the store as it is locked. A damaged copy is replaced like a missing one.
fn has_plugin(place: &PackagePlace, locked: &LockedPluginPackage) -> bool {
    matches!(place.store.read(locked), Ok(Some(_)))
}

fn has_agent(place: &PackagePlace, lock: &PackageLock, locked: &LockedAgentPackage) -> bool {
    let mut plugins = lock.iter().filter(|plugin| plugin.agent.as_ref() == Some(&locked.id));
    matches!(place.store.read_agent(locked), Ok(Some(_))) && plugins.all(|plugin| has_plugin(place, plugin))
}

/// Gets a plugin that a lock file names from where it came from. Any other plugin is refused.
async fn fetch_locked(
    place: &PackagePlace,
    locked: &LockedPluginPackage,
    fetcher: &PackageFetcher,
) -> Result<(), Report> {
    let source = locked.exact_source().map_err(|error| error.report())?;
    let fetched = fetcher.fetch(&source.of_lock_in(place.lock_folder())).await?;
    let found = fetched.files.digest();
    if found != locked.digest {
        return Err(is_another(
            place,
            ("plugin", locked.source.as_str(), named(locked).as_str()),
            (found, locked.digest),
        ));
    }
    let staged = place.store.stage(&fetched.files).map_err(|error| error.report())?;
    staged.install().map(drop).map_err(|error| error.report())
}

/// Does the same for an agent package, with the plugins that it contains.
async fn fetch_locked_agent(
    place: &PackagePlace,
    lock: &PackageLock,
    locked: &LockedAgentPackage,
    fetcher: &PackageFetcher,
) -> Result<(), Report> {
    let report = |error: PackageError| error.report();
    let source = locked.exact_source().map_err(report)?;
    let FetchedAgentPackage { files, .. } = fetcher.fetch_agent(&source.of_lock_in(place.lock_folder())).await?;
    let found = files.digest();
    if found != locked.digest {
        let shown = format!("`{}` {}", locked.id, name(&locked.version));
        return Err(is_another(place, ("agent", locked.source.as_str(), shown.as_str()), (found, locked.digest)));
    }
    place.store.stage_agent(&files).and_then(|staged| staged.install()).map_err(report)?;
    for plugin in files.plugins().map_err(report)? {
        let digest = plugin.files.digest();
        if lock.get(&plugin.id).is_some_and(|locked| locked.digest == digest) {
            place.store.stage(&plugin.files).and_then(|staged| staged.install()).map_err(report)?;
        }
    }
    Ok(())
}

/// Reports that a source has something else than is locked. `command` is `plugin` or `agent`.
fn is_another(
    place: &PackagePlace,
    (command, source, named): (&str, &str, &str),
    (found, locked): (Sha256Digest, Sha256Digest),
) -> Report {
    let (source, lock) = (name(source), name(&place.lock_file().display().to_string()));
    Report::new(ErrorKind::Plugin, format!("{source} has another {command} than {lock} names"))
        .cause(format!("the files of {named} have the digest {found}, locked is {locked}"))
        .hint(format!(
            "`shelly-host {command} install {source}` shows what the other {command} changes, and takes it if you agree"
        ))
}
