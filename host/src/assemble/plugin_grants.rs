//! The grants of an agent's plugins, and the ceilings of an agent.

use std::path::Path;

use super::program_toolbox::of_toolboxes;
use crate::{
    capability::{Ceiling, CeilingBound, FileAccess, Grant, PromptableCapability},
    config::{AgentConfig, Config, PluginUse, RemoteAgentConfig, RunnerConfig, RunnerSection, ToolboxUse},
    plugin::{self, FolderMount},
};

/// Returns the grant and the folder mounts of a plugin, with resolved paths. If the plugin may ask for folders or servers,
/// the person's stored approvals for this project are included.
pub(crate) fn given(uses: &PluginUse, config: &Config) -> (Grant, Vec<FolderMount>) {
    let Config { approved, root, .. } = config;
    let (mut grant, mut mounts) = given_below(uses, root);
    if uses.ask.contains(&PromptableCapability::Files) {
        for folder in &approved.folders {
            let mount = FolderMount { path: plugin::resolved(folder), name: folder.to_string_lossy().into_owned() };
            grant.files = grant.files.join(&[(mount.path.clone(), FileAccess::Read)].into_iter().collect());
            mounts.push(mount);
        }
    }
    if uses.ask.contains(&PromptableCapability::Http) {
        grant.http = grant.http.join(&approved.servers);
    }
    (grant, mounts)
}

/// Returns the grant and the folder mounts of a plugin, whose relative paths are below `root`.
pub(super) fn given_below(uses: &PluginUse, root: &Path) -> (Grant, Vec<FolderMount>) {
    let resolve = |path: &Path| plugin::resolved(&root.join(path));
    let mounts = uses.files.iter().map(|file| FolderMount { path: resolve(&file.path), name: file.shown() });
    (uses.grant(resolve), mounts.collect())
}

/// Returns the ceiling of all plugins of an agent.
pub(crate) fn own_ceiling(agent: &AgentConfig, root: &Path) -> Ceiling {
    let Some(grant) = &agent.ceiling else { return Ceiling::default() };
    let grant = Some(grant.grant(|path| plugin::resolved(&root.join(path))));
    Ceiling::of(format!("{}.use", agent.place()), CeilingBound { grant, ..CeilingBound::default() })
}

/// Returns the ceiling of what an agent may pass on: the one in its config, or all that the agents that it may start use.
pub(crate) fn delegable(agent: &AgentConfig, config: &Config) -> Ceiling {
    let (delegable, root) = (&agent.delegable, &config.root);
    let agents = delegable.agents.as_ref().map(|agents| agents.iter().cloned().collect());
    let (grant, openable) = match &delegable.grant {
        // An explicit grant is complete.
        Some(grant) => (Some(grant.grant(|path| plugin::resolved(&root.join(path)))), Grant::default()),
        // Each member of a team uses its own grants.
        None if agent.list == RunnerSection::Teams => (None, Grant::default()),
        None => {
            let named = |other: &RunnerConfig<'_>| {
                let name = &other.own().name;
                // The agent itself counts too: an agent that it starts may start it in turn.
                *name == agent.name || delegable.agents.as_ref().is_none_or(|all| all.contains(name))
            };
            let all = config.runners().filter(named).flat_map(|who| config.needed_by(who));
            let (all, openable) = all.fold((Grant::default(), Grant::default()), |(all, openable), other| {
                let (used, may_be_opened) = used(other.own(), config);
                (all.join(&used), openable.join(&may_be_opened))
            });
            (Some(all), openable)
        }
    };
    let bound = CeilingBound { grant, openable, agents, budget: delegable.budget };
    Ceiling::of(format!("{}.delegable.grant", agent.place()), bound)
}

/// Returns the union of all grants of an agent's plugins, servers and APIs and of its other host, and the capabilities that a person may grant
/// plugins at run time.
fn used(agent: &AgentConfig, config: &Config) -> (Grant, Grant) {
    let uses = agent.all_plugins().map(|(_, _, uses)| given(uses, config).0);
    let servers = agent.toolboxes.iter().filter_map(ToolboxUse::server).map(|uses| uses.name.clone());
    let all = Grant { mcp: servers.collect(), programs: of_toolboxes(agent), ..Grant::default() };
    let ceiling = own_ceiling(agent, &config.root);
    let apis = agent.openapi.iter().map(|uses| config.api_grant(uses));
    let remote = agent.remote.iter().map(RemoteAgentConfig::grant);
    let asked = agent.all_plugins().flat_map(|(_, _, uses)| uses.ask.iter().copied()).collect();
    (
        ceiling.narrow(&uses.chain(apis).chain(remote).fold(all, |all, one| all.join(&one))),
        ceiling.narrow_opened(&PromptableCapability::most(&asked)),
    )
}
