//! Plugins and agent packages in OCI registries: the part of the distribution protocol that pulls and pushes one artifact. Plugins
//! have the layout that `wkg` and wassette use for components.

mod agent_package_artifact;
mod auth_challenge;
mod oci_manifest;
mod oci_reference;
mod plugin_package_artifact;
mod registry_client;
mod registry_logins;

pub use agent_package_artifact::AgentPackageArtifact;
pub use oci_reference::{OciReference, OciVersion};
pub use plugin_package_artifact::{PluginPackageArtifact, RecordedTool};
pub use registry_client::RegistryClient;
pub use registry_logins::RegistryLogins;
