//! The entry of an agent package in a lock file.

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};
use shelly_core::digest::Sha256Digest;

use crate::{
    agent_package::{AgentPackageFiles, is_of_plugin, is_package_id, is_package_path, plugin_file},
    oci::OciReference,
    package_error::PackageError,
    package_files::{PackageFiles, checksums},
    package_lock::LockedPackage,
    package_source::PackageSource,
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
    /// The model of the config that its agents use, as the person has chosen; `None`: the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The signature of the list of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The name of the key of that signature, as a rule of the config named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The names of the agents and teams that it brings.
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

    /// Returns where exactly this package can be got from again: an artifact by its digest, since its tag may be given to another.
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

    /// Returns the digests of the texts by their paths: of what is kept with the package.
    pub fn texts(&self) -> impl Iterator<Item = (&str, Sha256Digest)> {
        self.files.iter().filter(|(path, _)| !is_of_plugin(path)).map(|(path, digest)| (path.as_str(), *digest))
    }

    /// Returns the digests of the files of a contained plugin by their names, without its signature; `None` if it contains no
    /// plugin of this id.
    pub fn contained_plugin(&self, id: &str) -> Option<BTreeMap<String, Sha256Digest>> {
        let files = self.files.iter().filter_map(|(path, digest)| Some((plugin_file(path)?, *digest)));
        let files = files.filter(|((of, name), _)| *of == id && *name != PackageFiles::SIGNATURE_FILE);
        let files: BTreeMap<_, _> = files.map(|((_, name), digest)| (name.to_owned(), digest)).collect();
        (!files.is_empty()).then_some(files)
    }

    /// Returns `true` if the package contains exactly this plugin.
    pub fn contains(&self, plugin: &LockedPackage) -> bool {
        self.contained_plugin(&plugin.id).is_some_and(|files| files == plugin.files)
    }

    /// Returns the mistake of an entry that a person or another program has changed.
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
