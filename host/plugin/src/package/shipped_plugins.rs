//! Plugins that come with the host, and their recognition in any directory.

use std::path::{Path, PathBuf};

use super::manifest::PluginManifest;
use crate::component::read_bounded;
use shelly_core::{digest::Sha256Digest, files::resolved, limits};

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

/// Returns `true` if a plugin equals the plugin of its id in one of these directories: the same bytes of the component,
/// and a manifest with the same content.
pub(super) fn is_copy(manifest: &PluginManifest, digest: Sha256Digest, directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| {
        let folder = directory.join(&manifest.id);
        let says_the_same = || PluginManifest::read(&folder).is_ok_and(|original| original == *manifest);
        let component = || read_bounded(&folder.join(&manifest.component), limits::COMPONENT_BYTES);
        says_the_same() && component().is_ok_and(|bytes| Sha256Digest::of(&bytes) == digest)
    })
}

/// Returns a hint on how to get the plugins that come with the host, which are looked up in `directories`.
pub fn how_to_install(directories: &[PathBuf]) -> String {
    let installed = directories.iter().find(|directory| directory.ends_with(INSTALLED));
    let copy = installed.map(|directory| format!(", or copy that folder to {}", resolved(directory).display()));
    format!(
        "build them with `cargo plugins` in a checkout of shelly-host, then name its target/plugins with --plugins{}",
        copy.unwrap_or_default()
    )
}

/// The folder of the plugins in a binary package, relative to the parent of the program's folder.
pub const INSTALLED: &str = "lib/shelly-host/plugins";

/// Returns `true` if the parent folder of a plugin is one of these directories.
pub fn lies_in(place: &Path, directories: &[PathBuf]) -> bool {
    let parent = place.parent().and_then(|parent| parent.canonicalize().ok());
    parent
        .is_some_and(|parent| directories.iter().any(|directory| directory.canonicalize().is_ok_and(|it| it == parent)))
}
