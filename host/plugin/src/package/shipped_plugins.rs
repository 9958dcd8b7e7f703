//! Plugins that come with the host, and their recognition in any directory.

use std::path::PathBuf;

use super::{
    catalog::plugins_in, catalog_entry::CatalogEntry, embedded_plugin::EmbeddedPlugin, plugin_location::PluginLocation,
};
use crate::contract::MANIFEST_FILE;
use shelly_core::files::resolved;

/// The ids of all plugins that come with the host.
pub const SHIPPED_PLUGINS: [&str; 41] = [
    "cache",
    "calculator",
    "compact",
    "compare",
    "convert",
    "count-text",
    "date-time",
    "encode",
    "fallback",
    "fetch",
    "filesystem",
    "ids",
    "input-guardrail",
    "json-query",
    "loop-detect",
    "observation-mask",
    "offline-model",
    "offload",
    "ollama",
    "output-format",
    "output-guardrail",
    "progress",
    "rate-limit",
    "read-files",
    "redact",
    "redact-requests",
    "redact-results",
    "reflection",
    "retry",
    "router",
    "scripted-model",
    "search",
    "sliding-window",
    "stall-detect",
    "state-machine",
    "tables",
    "time-budget",
    "token-budget",
    "tool-policy",
    "tool-scope",
    "trim-tool-results",
];

/// The plugins that come with the host: those that were built into the program, and the directories that may contain them.
/// An id is looked up in the program first.
#[derive(Debug, Clone, Default)]
pub struct ShippedPlugins {
    /// The plugins in the program; none in a development build.
    pub embedded: &'static [EmbeddedPlugin],
    /// The directories beside the program, which need not exist.
    pub directories: Vec<PathBuf>,
    /// The reason why none is in the program, if that is so and was not meant to be.
    pub why_not_embedded: Option<&'static str>,
}

impl ShippedPlugins {
    /// Returns the shipped plugin of this id, or `None` if it is in neither.
    pub(super) fn find(&self, id: &str) -> Option<PluginLocation> {
        let in_program = self.embedded.iter().find(|plugin| plugin.id == id).map(PluginLocation::Program);
        in_program.or_else(|| {
            let mut folders = self.directories.iter().map(|directory| directory.join(id));
            folders.find(|folder| folder.join(MANIFEST_FILE).is_file()).map(PluginLocation::Folder)
        })
    }

    /// Returns `true` if the shipped plugin of this id is there.
    pub fn has(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    /// Returns the ids of the shipped plugins that are there.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> {
        SHIPPED_PLUGINS.into_iter().filter(|id| self.has(id))
    }

    /// Returns the locations of all shipped plugins that are there; an id may be there more than once.
    pub(super) fn all(&self) -> impl Iterator<Item = PluginLocation> {
        let in_directories = self.directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten();
        let in_directories = in_directories.map(|path| PluginLocation::at(&path));
        self.embedded.iter().map(PluginLocation::Program).chain(in_directories)
    }

    /// Returns `true` if this is the location of a shipped plugin.
    pub(super) fn contains(&self, location: &PluginLocation) -> bool {
        matches!(location, PluginLocation::Program(_)) || location.really_lies_in(&self.directories)
    }

    /// Returns `true` if a plugin equals a shipped one: a manifest with the same content, and the same bytes of the
    /// component. No component is read unless the manifests are equal.
    pub(super) fn has_copy_of(&self, plugin: &CatalogEntry) -> bool {
        let Some(manifest) = plugin.written_manifest() else { return false };
        let in_directories = self.directories.iter().map(|directory| directory.join(&manifest.id));
        let in_program = self.embedded.iter().filter(|plugin| plugin.id == manifest.id).map(PluginLocation::Program);
        in_program.chain(in_directories.map(PluginLocation::Folder)).any(|location| {
            let has_same_component = || {
                let original = location.read(Some(manifest)).ok()?;
                Some(plugin.sealed()?.digest == original.digest)
            };
            let original = location.read_manifest().ok().and_then(|(_, original)| original);
            original.as_ref() == Some(manifest) && has_same_component() == Some(true)
        })
    }

    /// Returns the folder in which a binary package has the plugins, which need not exist.
    pub fn package_folder(&self) -> Option<PathBuf> {
        self.directories
            .iter()
            .find(|directory| directory.ends_with(PACKAGED_FOLDER))
            .map(|directory| resolved(directory))
    }

    /// Returns a hint on how to get the plugins that come with the host.
    pub fn how_to_install(&self) -> String {
        let copy = self.package_folder().map(|folder| format!(", or copy that folder to {}", folder.display()));
        let why = self.why_not_embedded.map(|why| format!("{why}; ")).unwrap_or_default();
        format!(
            "{why}build them with `cargo plugins` in a checkout of shelly-host, then name its target/plugins with --plugins{}",
            copy.unwrap_or_default()
        )
    }
}

/// The folder of the shipped plugins in a binary package, relative to the parent of the program's folder.
pub const PACKAGED_FOLDER: &str = "lib/shelly-host/plugins";
