//! The entry of an agent package in a lock file.

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};
use shelly_core::digest::Sha256Digest;

use crate::{
    agent_package::{AgentPackageFiles, is_of_plugin, is_package_id, is_package_path, plugin_file},
    oci::OciReference,
    package_error::PackageError,
    package_lock::LockedPluginPackage,
    package_source::PackageSource,
    plugin_package_files::{PluginPackageFiles, checksums},
};

/// An installed agent package, as a lock file names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedAgentPackage {
    /// The id of the package.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The digest of the package: of the list of its files and their digests.
    pub digest: Sha256Digest,
    /// The source; a path is relative to the folder of the lock file.
    pub source: String,
    /// The digest of the artifact's manifest, if the source is a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Sha256Digest>,
    /// The name in the config of the model that its agents use, chosen by the person; `None`: the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The signature of the list of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The name of the signing key under `plugin_signatures` in the config when the package was installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The names of its agents and teams.
    pub runners: Vec<String>,
    /// The digests of all files by their paths, those of contained plugins included.
    pub files: BTreeMap<String, Sha256Digest>,
}

impl LockedAgentPackage {
    /// Creates the entry of a package from its source, and from the names of the agents and teams that it brings.
    pub fn of(source: &str, package: &AgentPackageFiles, runners: Vec<String>) -> Self {
        let manifest = package.manifest();
        Self {
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            source: source.to_owned(),
            artifact: None,
            digest: package.digest(),
            signed_by: None,
            signature: None,
            model: None,
            runners,
            files: package.digests(),
        }
    }

    /// Returns the source of exactly these files: an artifact by its digest, because a tag can move to another artifact.
    ///
    /// # Errors
    ///
    /// [`PackageError::Source`] if the entry names no source.
    pub fn exact_source(&self) -> Result<PackageSource, PackageError> {
        let at_digest = |reference: OciReference| match self.artifact {
            Some(digest) => reference.at(digest),
            None => reference,
        };
        Ok(match PackageSource::parse_agent(&self.source)? {
            PackageSource::Oci(reference) => PackageSource::Oci(at_digest(reference)),
            source => source,
        })
    }

    /// Returns the digests of the texts by their paths: of all files but those of contained plugins.
    pub fn texts(&self) -> impl Iterator<Item = (&str, Sha256Digest)> {
        self.files.iter().filter(|(path, _)| !is_of_plugin(path)).map(|(path, digest)| (path.as_str(), *digest))
    }

    /// Returns the digests of the files of a contained plugin by their names, without its signature; `None` if it contains no
    /// plugin of this id.
    pub fn contained_plugin(&self, id: &str) -> Option<BTreeMap<String, Sha256Digest>> {
        let files = self.files.iter().filter_map(|(path, digest)| Some((plugin_file(path)?, *digest)));
        let files = files.filter(|((of, name), _)| *of == id && *name != PluginPackageFiles::SIGNATURE_FILE);
        let files: BTreeMap<_, _> = files.map(|((_, name), digest)| (name.to_owned(), digest)).collect();
        (!files.is_empty()).then_some(files)
    }

    /// Returns `true` if the package contains exactly this plugin.
    pub fn contains(&self, plugin: &LockedPluginPackage) -> bool {
        self.contained_plugin(&plugin.id).is_some_and(|files| files == plugin.files)
    }

    /// Returns the mistake in an entry that was edited by hand or by another program; `None` if there is none.
    pub(crate) fn mistake(&self) -> Option<String> {
        let id = self.id.escape_debug();
        if !is_package_id(&self.id) {
            return Some(format!("`{id}` is not an id; use 1 to 64 of a-z, 0-9 and -"));
        }
        // A question of trust shows it as a part of a line.
        if Version::parse(&self.version).is_err() {
            return Some(format!("the version of the agent package `{id}` is not in the form 1.2.3"));
        }
        if let Some(path) = self.files.keys().find(|path| !is_package_path(path)) {
            return Some(format!(
                "the agent package `{id}` has a file `{}`, which cannot be in one",
                path.escape_debug()
            ));
        }
        (Sha256Digest::of(checksums(&self.files)) != self.digest)
            .then(|| format!("the digest of the agent package `{id}` is not that of its files"))
    }
}
