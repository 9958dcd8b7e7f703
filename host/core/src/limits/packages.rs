//! Limits of installing plugins: lock files, stores, registries, signatures and indexes.

use std::time::Duration;

use super::{COMPONENT_BYTES, PLUGINS_PER_DIRECTORY};

/// The maximum bytes of a lock file. The entry of a plugin with the most tools and the longest descriptions has
/// 1 MB, a usual one 2 KB.
pub const LOCK_FILE_BYTES: u64 = 16 << 20;
/// The maximum number of plugins in one lock file: as many as one plugin directory may hold.
pub const LOCKED_PLUGINS: usize = PLUGINS_PER_DIRECTORY;
/// The maximum characters of the name of a file in an installed plugin: every file system takes names of this length.
pub const PACKAGE_FILE_NAME_CHARS: usize = 128;
/// The maximum bytes of the source of a plugin, as a person writes it. Addresses that people type have a tenth.
pub const PACKAGE_SOURCE_BYTES: usize = 2 << 10;
/// The maximum characters of a changed text that are shown before an update, from where it differs on: two fit on a few lines.
pub const PACKAGE_CHANGE_CHARS: usize = 180;
/// The maximum bytes of a signature of a plugin. Those of minisign have about 300.
pub const PLUGIN_SIGNATURE_BYTES: u64 = 4 << 10;
/// The maximum bytes of an index of plugins: 40,000 entries of 200.
pub const PACKAGE_INDEX_BYTES: u64 = 8 << 20;
/// The maximum number of plugins that a search shows: more than a person reads.
pub const PACKAGE_SEARCH_RESULTS: usize = 50;

// ---- agent packages

/// The maximum number of agent packages in one lock file. Every start reads the texts of all of them.
pub const LOCKED_AGENT_PACKAGES: usize = 64;
/// The maximum number of files of an agent package: thirty plugins of four files, and as many texts.
pub const AGENT_PACKAGE_FILES: usize = 256;
/// The maximum bytes of all files of an agent package together. They are held in memory while the package is installed; the
/// largest known component has a tenth.
pub const AGENT_PACKAGE_BYTES: u64 = COMPONENT_BYTES;
/// The maximum bytes of a text file of an agent package, such as a script that a skill names. A `SKILL.md` may have a quarter.
pub const AGENT_PACKAGE_TEXT_BYTES: u64 = 256 << 10;
/// The maximum number of names in the path of a file in an agent package. Skills use four.
pub const AGENT_PACKAGE_PATH_NAMES: usize = 8;
/// The maximum number of agents and teams that an agent package brings: more than a person reads before a yes.
pub const AGENT_PACKAGE_RUNNERS: usize = 64;

// ---- registries

/// The maximum bytes of the manifest of an artifact: as many as registries accept.
pub const REGISTRY_MANIFEST_BYTES: usize = 4 << 20;
/// The maximum bytes of the config of an artifact. The largest set of recorded tools has a quarter.
pub const REGISTRY_CONFIG_BYTES: usize = 2 << 20;
/// The maximum bytes of an answer of a registry that is neither a manifest nor a file: a token has 4 KB.
pub const REGISTRY_ANSWER_BYTES: usize = 64 << 10;
/// The maximum number of redirects of one request. Registries redirect once, to where they keep their files.
pub const REGISTRY_REDIRECTS: usize = 5;
/// The time for one request to a registry: the largest component over a line of 3 Mbit/s.
pub const REGISTRY_TIME: Duration = Duration::from_secs(15 * 60);
/// The maximum bytes of a file with logins at registries. One login has a few hundred.
pub const REGISTRY_LOGINS_BYTES: u64 = 1 << 20;
/// The maximum bytes of the name of a repository in a registry: as many as registries accept.
pub const REPOSITORY_NAME_BYTES: usize = 255;
/// The maximum bytes of the tag of an artifact: as many as registries accept.
pub const REGISTRY_TAG_BYTES: usize = 128;
/// The maximum bytes of one page of the tags of a repository: a thousand of the longest.
pub const REGISTRY_TAGS_BYTES: usize = 256 << 10;
/// The maximum number of pages of the tags of a repository. Registries give a hundred to a thousand tags a page.
pub const REGISTRY_TAG_PAGES: usize = 16;
