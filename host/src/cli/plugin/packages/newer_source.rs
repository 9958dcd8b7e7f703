//! The sources of other versions of installed plugins.

use super::package_fetch::PackageFetcher;
use crate::{
    digest::Sha256Digest,
    error::Report,
    packages::{LockedPluginPackage, OciReference, OciVersion, PackageError, PackagePlace, PackageSource, newer_tag},
};

impl PackageFetcher {
    /// Returns where an installed plugin has another version than the installed one; `None` if there is none. A tag that is a
    /// version leads to the newest release; another tag, to what it names now.
    pub async fn newer_source(
        &self,
        locked: &LockedPluginPackage,
        place: &PackagePlace,
    ) -> Result<Option<PackageSource>, Report> {
        let report = |error: PackageError| error.report();
        match PackageSource::parse(&locked.source).map_err(report)?.of_lock_in(place.lock_folder()) {
            PackageSource::Oci(reference) => self.newer_artifact(locked.artifact, reference).await.map_err(report),
            source => {
                let is_other = self.fetch(&source).await?.files.digest() != locked.digest;
                Ok(is_other.then_some(source))
            }
        }
    }

    /// Returns the artifact that takes the place of this one, whose manifest has the digest `installed`.
    pub(super) async fn newer_artifact(
        &self,
        installed: Option<Sha256Digest>,
        reference: OciReference,
    ) -> Result<Option<PackageSource>, PackageError> {
        // Who names a digest wants nothing else.
        let OciVersion::Tag(tag) = &reference.version else { return Ok(None) };
        let tags = self.registries().tags(&reference).await?;
        if let Some(newer) = newer_tag(tag, tags.iter().map(String::as_str)) {
            let version = OciVersion::Tag(newer.to_owned());
            return Ok(Some(PackageSource::Oci(OciReference { version, ..reference })));
        }
        let now = self.registries().resolve(&reference).await?;
        Ok((Some(now) != installed).then_some(PackageSource::Oci(reference)))
    }
}
