//! Plugins and agent packages in OCI registries: the part of the distribution protocol that pulls and pushes one artifact. Plugins
//! have the layout that `wkg` and wassette use for components.

mod agent_package_artifact;
mod auth_challenge;
mod oci_artifact;
mod oci_manifest;
mod oci_reference;
mod registry_client;
mod registry_logins;

pub use agent_package_artifact::AgentPackageArtifact;
pub use oci_artifact::{OciArtifact, RecordedTool};
pub use oci_reference::{OciReference, OciVersion};
pub use registry_client::RegistryClient;
pub use registry_logins::RegistryLogins;
