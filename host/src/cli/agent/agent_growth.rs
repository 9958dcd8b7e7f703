//! Changes that another version of an agent package brings.

use std::collections::BTreeMap;

use super::agent_candidate::{AgentCandidate, AgentPackageInspector};
use crate::{
    change::text_difference,
    cli::{
        plugin::packages::{named, plugin_changes},
        render::{escaped, name, size},
    },
    config::AgentPackageConfig,
    packages::{AbilityChange, AgentPackageFiles, LockedAgentPackage, LockedPluginPackage},
    trust::TrustFacts,
};

/// Texts for people. No agent is told what they say.
const FOR_PEOPLE: [&str; 3] = [AgentPackageFiles::MANIFEST_FILE, "README.md", "LICENSE"];

/// The version of an agent package that is installed, as far as the store still has it.
pub(super) struct InstalledVersion {
    texts: BTreeMap<String, String>,
    reach: TrustFacts,
    plugins: Vec<LockedPluginPackage>,
    signature: Option<String>,
}

impl InstalledVersion {
    /// Reads what is installed. What is missing or damaged counts as if it had not been there, so that all of it is asked about.
    pub fn read(inspector: &AgentPackageInspector<'_>, locked: &LockedAgentPackage) -> Self {
        let texts = inspector.place.store.read_agent(locked).ok().flatten().unwrap_or_default();
        let config = texts.get(AgentPackageFiles::CONFIG_FILE);
        let config = config.and_then(|text| AgentPackageConfig::parse(text, AgentPackageFiles::CONFIG_FILE).ok());
        let reach = config.and_then(|config| inspector.reach(&config, locked).ok()).unwrap_or_default();
        let plugins = inspector.lock.iter().filter(|plugin| locked.contains(plugin)).cloned().collect();
        Self { texts, reach, plugins, signature: locked.signature.clone() }
    }

    /// Returns the differences of a candidate: what its agents reach and are told, and what its plugins can do.
    pub fn changes_to(&self, candidate: &AgentCandidate) -> Vec<AbilityChange> {
        let grown = |line: String| AbilityChange { line, is_growth: true };
        let gone = |line: String| AbilityChange { line, is_growth: false };
        let mut changes: Vec<_> =
            candidate.reach.without(&self.reach).lines().map(|line| grown(format!("+ {line}"))).collect();
        changes.extend(self.reach.without(&candidate.reach).lines().map(|line| gone(format!("- {line}"))));
        for plugin in candidate.plugins() {
            let Some(before) = self.plugins.iter().find(|before| before.id == plugin.id) else {
                changes.push(grown(format!("+ plugin {}", named(plugin))));
                continue;
            };
            let of_plugin = plugin_changes(before, plugin).into_iter();
            changes.extend(of_plugin.map(|AbilityChange { line, is_growth }| AbilityChange {
                line: format!("plugin `{}`: {line}", plugin.id),
                is_growth,
            }));
            if before.digest != plugin.digest {
                // Tools that nobody has recorded may say anything.
                let is_growth = plugin.abilities.tools.is_none();
                let line = format!("~ plugin {} → {}", named(before), named(plugin));
                changes.push(AbilityChange { line, is_growth });
            }
        }
        let is_kept = |id: &str| candidate.locked.contained_plugin(id).is_some();
        let removed = self.plugins.iter().filter(|before| !is_kept(&before.id));
        changes.extend(removed.map(|before| gone(format!("- plugin {}", named(before)))));
        let texts = candidate.files.texts();
        for (path, text) in texts.iter().filter(|(path, _)| !FOR_PEOPLE.contains(path)) {
            match self.texts.get(*path) {
                Some(before) if before == text => {}
                Some(_) => changes.push(grown(format!("~ text {path}"))),
                None => changes.push(grown(format!("+ text {path}"))),
            }
        }
        let removed = self.texts.keys().filter(|path| !texts.contains_key(path.as_str()));
        changes.extend(removed.map(|path| gone(format!("- text {path}"))));
        changes.extend(AbilityChange::of_signature(self.signature.as_deref(), candidate.locked.signature.as_deref()));
        changes
    }

    /// Returns what changes with a candidate for people: a line for each difference, then the changed texts line by line.
    pub fn shown_changes(&self, before: &LockedAgentPackage, candidate: &AgentCandidate) -> Vec<String> {
        let now = &candidate.locked;
        let mut lines =
            vec![format!("the agent package `{}`: {} → {}", now.id, name(&before.version), name(&now.version))];
        if before.source != now.source {
            lines.push(format!("  ~ source {} → {}", name(&before.source), name(&now.source)));
        }
        if before.version == now.version {
            lines.push("  ~ the same version with other files".into());
        }
        lines.push(format!("  size {}", size(candidate.files.size())));
        let changes = self.changes_to(candidate);
        if changes.is_empty() {
            lines
                .push("  nothing changes in what its agents reach and are told, and in what its plugins can do".into());
        }
        lines.extend(changes.iter().map(|change| format!("  {}", escaped(&change.line))));
        let texts = candidate.files.texts();
        let is_other = |path: &&&str| self.texts.get(**path).map(String::as_str) != texts.get(**path).copied();
        for path in texts.keys().filter(|path| !FOR_PEOPLE.contains(path)).filter(is_other) {
            let text = texts.get(path).copied().unwrap_or_default();
            let difference = text_difference(path, self.texts.get(*path).map(String::as_str), text);
            lines.push(escaped(difference.trim_end()));
        }
        lines
    }
}
