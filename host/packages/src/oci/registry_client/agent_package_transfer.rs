//! Pulls and pushes agent packages.

use shelly_core::{digest::Sha256Digest, limits};

use super::{RegistryAction, RegistryClient};
use crate::{
    agent_package::{AgentPackageFiles, max_file_bytes},
    oci::{
        AgentPackageArtifact, OciReference,
        oci_manifest::{AGENT_CONFIG_TYPE, OciDescriptor, TITLE_ANNOTATION},
    },
    package_error::PackageError,
};

impl RegistryClient {
    /// Gets an agent package: the digest of its manifest, and its files. Each file has the digest that the manifest names.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the registry does not give it, or gives something else.
    pub async fn pull_agent(
        &self,
        reference: &OciReference,
    ) -> Result<(Sha256Digest, AgentPackageArtifact), PackageError> {
        let task = self.task(reference, RegistryAction::Pull)?;
        let (digest, manifest) = task.manifest().await?;
        if manifest.config.media_type != AGENT_CONFIG_TYPE {
            return Err(task.wrong("it is not an agent package; `shelly-host plugin install` installs a plugin"));
        }
        if manifest.layers.len() > limits::AGENT_PACKAGE_FILES {
            return Err(task.wrong(&format!("it has more than {} files", limits::AGENT_PACKAGE_FILES)));
        }
        let mut total = 0_u64;
        for layer in &manifest.layers {
            total = total.saturating_add(layer.size);
        }
        if total > limits::AGENT_PACKAGE_BYTES {
            return Err(PackageError::TooLarge { of: reference.to_string(), most: limits::AGENT_PACKAGE_BYTES });
        }
        let is_manifest = |layer: &&OciDescriptor| path_of(layer) == AgentPackageFiles::MANIFEST_FILE;
        let first = manifest.layers.iter().find(is_manifest);
        let first = first.ok_or_else(|| task.wrong(&format!("it has no {}", AgentPackageFiles::MANIFEST_FILE)))?;
        let text = task.blob(first, limits::MANIFEST_BYTES).await?;
        let mut files = AgentPackageFiles::new(&reference.to_string(), text)?;
        // What the package does not name is not fetched.
        for path in files.manifest().files.clone() {
            let layer = manifest.layers.iter().find(|layer| path_of(layer) == path);
            let layer = layer.ok_or_else(|| task.wrong(&format!("it lacks its file {path}")))?;
            files.add(&path, task.blob(layer, max_file_bytes(&path)).await?)?;
        }
        let signature = AgentPackageArtifact::signature_in(&manifest.annotations);
        Ok((digest, AgentPackageArtifact { files, signature }))
    }

    /// Publishes an agent package. Returns the digest of its manifest.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the registry does not take it.
    pub async fn push_agent(
        &self,
        reference: &OciReference,
        artifact: &AgentPackageArtifact,
    ) -> Result<Sha256Digest, PackageError> {
        let task = self.task(reference, RegistryAction::Push)?;
        let encoded = artifact.encode().map_err(|error| task.wrong(&error.to_string()))?;
        let (descriptor, config) = &encoded.config;
        let layers = encoded.layers.iter().map(|(descriptor, bytes)| (descriptor, *bytes));
        task.publish(&encoded.manifest, (descriptor, config.as_slice()), layers).await
    }
}

/// Returns the path of the file that a layer is; empty if it has none.
fn path_of(layer: &OciDescriptor) -> &str {
    layer.annotations.get(TITLE_ANNOTATION).map_or("", String::as_str)
}
