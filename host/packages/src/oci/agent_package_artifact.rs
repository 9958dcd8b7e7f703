//! An agent package as an artifact of a registry: each of its files is a layer that is named after its path.

use std::collections::BTreeMap;

use serde::Serialize;

use super::oci_manifest::{
    AGENT_CONFIG_TYPE, AGENT_TEXT_TYPE, COMPONENT_TYPE, MANIFEST_TYPE, OciDescriptor, OciManifest, TITLE_ANNOTATION,
    VERSION_ANNOTATION,
};
use crate::agent_package::AgentPackageFiles;

/// The annotation with the signature of the list of the files.
const SIGNATURE_ANNOTATION: &str = "io.shelly-host.agent.signature";

/// An agent package as an artifact of a registry.
#[derive(Debug, Clone)]
pub struct AgentPackageArtifact {
    /// The files.
    pub files: AgentPackageFiles,
    /// The signature of whoever has published it.
    pub signature: Option<String>,
}

/// The config of the artifact. It says nothing that the files do not say.
#[derive(Serialize)]
struct AgentPackageSummary<'a> {
    id: &'a str,
    version: &'a str,
    description: &'a str,
}

/// The bytes of the artifact of an agent package, as a registry takes them.
pub(super) struct EncodedAgentPackage<'a> {
    pub manifest: Vec<u8>,
    pub config: (OciDescriptor, Vec<u8>),
    /// The files of the package.
    pub layers: Vec<(OciDescriptor, &'a [u8])>,
}

impl AgentPackageArtifact {
    /// Writes the config and the manifest. The same package always has the same bytes.
    pub(super) fn encode(&self) -> Result<EncodedAgentPackage<'_>, serde_json::Error> {
        let about = self.files.manifest();
        let summary = AgentPackageSummary { id: &about.id, version: &about.version, description: &about.description };
        let config = serde_json::to_vec(&summary)?;
        let config_descriptor = OciDescriptor::of(AGENT_CONFIG_TYPE, &config);
        let layers: Vec<_> = self.files.iter().map(|(path, bytes)| (layer_of(path, bytes), bytes)).collect();
        let annotations = [
            (TITLE_ANNOTATION, Some(&about.id)),
            (VERSION_ANNOTATION, Some(&about.version)),
            (SIGNATURE_ANNOTATION, self.signature.as_ref()),
        ];
        let annotations = annotations.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.clone())));
        let manifest = serde_json::to_vec(&OciManifest {
            schema_version: 2,
            media_type: Some(MANIFEST_TYPE.to_owned()),
            config: config_descriptor.clone(),
            layers: layers.iter().map(|(descriptor, _)| descriptor.clone()).collect(),
            annotations: annotations.collect(),
        })?;
        Ok(EncodedAgentPackage { manifest, config: (config_descriptor, config), layers })
    }

    /// Returns the signature in the annotations of a manifest.
    pub(super) fn signature_in(annotations: &BTreeMap<String, String>) -> Option<String> {
        annotations.get(SIGNATURE_ANNOTATION).cloned()
    }
}

/// Describes the layer of a file.
fn layer_of(path: &str, bytes: &[u8]) -> OciDescriptor {
    let kind = if path.ends_with(".wasm") { COMPONENT_TYPE } else { AGENT_TEXT_TYPE };
    let annotations = BTreeMap::from([(TITLE_ANNOTATION.to_owned(), path.to_owned())]);
    OciDescriptor { annotations, ..OciDescriptor::of(kind, bytes) }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn artifact_has_a_layer_for_each_file() {
        let text = b"id = \"a\"\nversion = \"1.0.0\"\nfiles = [\"agents.yaml\", \"plugins/p/p.wasm\"]\n";
        let mut files = AgentPackageFiles::new("here", text.to_vec()).unwrap();
        files.add("agents.yaml", b"agents: []".to_vec()).unwrap();
        files.add("plugins/p/p.wasm", b"code".to_vec()).unwrap();
        let artifact = AgentPackageArtifact { files, signature: Some("signed".into()) };
        let encoded = artifact.encode().unwrap();
        let manifest: Value = serde_json::from_slice(&encoded.manifest).unwrap();
        assert_eq!(manifest["config"]["mediaType"], AGENT_CONFIG_TYPE);
        let layers: Vec<_> = manifest["layers"].as_array().unwrap().iter().collect();
        let titles: Vec<_> = layers.iter().map(|layer| layer["annotations"][TITLE_ANNOTATION].clone()).collect();
        assert_eq!(titles, ["agent.toml", "agents.yaml", "plugins/p/p.wasm"]);
        assert_eq!(layers[2]["mediaType"], "application/wasm");
        assert_eq!(manifest["annotations"][VERSION_ANNOTATION], "1.0.0");
        assert_eq!(encoded.layers.len(), 3);
        assert_eq!(artifact.encode().unwrap().manifest, encoded.manifest);
        let parsed: OciManifest = serde_json::from_slice(&encoded.manifest).unwrap();
        assert_eq!(AgentPackageArtifact::signature_in(&parsed.annotations).as_deref(), Some("signed"));
    }
}
