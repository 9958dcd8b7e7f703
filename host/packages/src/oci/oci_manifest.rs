//! The JSON of an artifact: its manifest and its config.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shelly_core::digest::Sha256Digest;

use super::plugin_package_artifact::RecordedTool;

/// The type of a manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The type of the config of a component.
pub const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// The type of a layer that is a component.
pub const COMPONENT_TYPE: &str = "application/wasm";
/// The types under which other tools have published components.
pub const OTHER_COMPONENT_TYPES: [&str; 2] =
    ["application/vnd.wasm.content.layer.v1+wasm", "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm"];
/// The type of the config of an agent package.
pub const AGENT_CONFIG_TYPE: &str = "application/vnd.shelly-host.agent.config.v1+json";
/// The type of a layer that is a text of an agent package.
pub const AGENT_TEXT_TYPE: &str = "application/vnd.shelly-host.agent.file.v1";
/// The annotation with the name, as OCI names it: of an artifact, or of the file that a layer is.
pub const TITLE_ANNOTATION: &str = "org.opencontainers.image.title";
/// The annotation with the version, as OCI names it.
pub const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";
/// The date in the config of each artifact: the same plugin always gives the same artifact.
pub const CREATED: &str = "1970-01-01T00:00:00Z";

/// The manifest of an artifact. Unknown keys of other tools are ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OciManifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub config: OciDescriptor,
    #[serde(default)]
    pub layers: Vec<OciDescriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A file of an artifact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OciDescriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl OciDescriptor {
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        let digest = Sha256Digest::of(bytes).to_string();
        let annotations = BTreeMap::new();
        Self { media_type: media_type.to_owned(), digest, size: bytes.len() as u64, annotations }
    }
}

/// The config of a component.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmConfig {
    pub created: String,
    pub architecture: String,
    pub os: String,
    #[serde(default)]
    pub layer_digests: Vec<String>,
    #[serde(default)]
    pub component: Option<WasmInterfaces>,
    /// The tools that the plugin listed when it was published.
    #[serde(default, rename = "shellyTools", skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<RecordedTool>>,
}

/// The interfaces of a component.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WasmInterfaces {
    #[serde(default)]
    pub exports: Vec<String>,
    #[serde(default)]
    pub imports: Vec<String>,
}
