//! Gets the files of an agent package from where it comes from.

use std::path::Path;

use url::Url;

use super::package_fetch::{PackageFetcher, beside};
use crate::{
    digest::Sha256Digest,
    error::Report,
    files::folder_of,
    limits,
    packages::{
        AgentPackageArtifact, AgentPackageFiles, LockedAgentPackage, PackageError, PackagePlace, PackageSource,
        PluginPackageFiles,
    },
};

/// The files of an agent package, as they came.
pub struct FetchedAgentPackage {
    /// The files.
    pub files: AgentPackageFiles,
    /// The digest of the manifest in a registry.
    pub artifact: Option<Sha256Digest>,
    /// The signature of the list of the files. It has not been verified.
    pub signature: Option<String>,
}

impl PackageFetcher {
    /// Gets an agent package.
    pub async fn fetch_agent(&self, source: &PackageSource) -> Result<FetchedAgentPackage, Report> {
        match source {
            PackageSource::Path(path) => {
                let folder = package_folder(path);
                let files = AgentPackageFiles::read(folder).map_err(|error| error.report())?;
                let signature = PluginPackageFiles::read_signature(folder).map_err(|error| error.report())?;
                Ok(FetchedAgentPackage { files, artifact: None, signature })
            }
            PackageSource::Url(url) => {
                let (files, signature) = (self.agent_files_from(url).await?, self.signature_from(url).await?);
                Ok(FetchedAgentPackage { files, artifact: None, signature })
            }
            PackageSource::Oci(reference) => {
                let pulled = self.registries().pull_agent(reference).await;
                let (digest, AgentPackageArtifact { files, signature }) = pulled.map_err(|error| error.report())?;
                Ok(FetchedAgentPackage { files, artifact: Some(digest), signature })
            }
        }
    }

    /// Gets a manifest and the files that it names.
    async fn agent_files_from(&self, url: &Url) -> Result<AgentPackageFiles, Report> {
        let report = |error: PackageError| error.report();
        let manifest = self.file(url, limits::MANIFEST_BYTES).await?;
        let mut files = AgentPackageFiles::new(url.as_str(), manifest).map_err(report)?;
        for path in files.manifest().files.clone() {
            let bytes = self.file(&beside(url, &path), files.room_for(&path)).await?;
            files.add(&path, bytes).map_err(report)?;
        }
        Ok(files)
    }

    /// Returns where an installed agent package has another version than the installed one; `None` if there is none.
    pub async fn newer_agent_source(
        &self,
        locked: &LockedAgentPackage,
        place: &PackagePlace,
    ) -> Result<Option<PackageSource>, Report> {
        let report = |error: PackageError| error.report();
        match PackageSource::parse_agent(&locked.source).map_err(report)?.of_lock_in(place.lock_folder()) {
            PackageSource::Oci(reference) => self.newer_artifact(locked.artifact, reference).await.map_err(report),
            source => {
                let is_other = self.fetch_agent(&source).await?.files.digest() != locked.digest;
                Ok(is_other.then_some(source))
            }
        }
    }
}

/// Returns the folder of an agent package that a person names by it or by its manifest.
pub fn package_folder(path: &Path) -> &Path {
    let is_manifest = path.file_name().is_some_and(|name| name == AgentPackageFiles::MANIFEST_FILE) && path.is_file();
    if is_manifest { folder_of(path) } else { path }
}
