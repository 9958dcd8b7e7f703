//! A plugin as an artifact of a registry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::oci_manifest::{
    COMPONENT_TYPE, CONFIG_TYPE, CREATED, MANIFEST_TYPE, OciDescriptor, OciManifest, TITLE_ANNOTATION,
    VERSION_ANNOTATION, WasmConfig, WasmInterfaces,
};
use crate::plugin_abilities::LockedTool;

/// The annotation with the text of the `plugin.toml`. A layer of its own would keep other tools from pulling the component:
/// they expect exactly one.
const MANIFEST_ANNOTATION: &str = "io.shelly-host.plugin.manifest";
/// The annotation with the text of the WIT file.
const WIT_ANNOTATION: &str = "io.shelly-host.plugin.wit";
/// The annotation with the signature.
const SIGNATURE_ANNOTATION: &str = "io.shelly-host.plugin.signature";

/// A plugin as an artifact of a registry.
#[derive(Debug, Clone, Default)]
pub struct PluginPackageArtifact {
    /// The id of the plugin.
    pub title: String,
    /// The version of the plugin.
    pub version: String,
    /// The component.
    pub component: Vec<u8>,
    /// The text of the `plugin.toml`.
    pub manifest: Option<String>,
    /// The text of the WIT file that documents the component.
    pub wit: Option<String>,
    /// The signature of whoever has published it.
    pub signature: Option<String>,
    /// The interfaces that the component imports, for other tools.
    pub imports: Vec<String>,
    /// The interfaces that the component exports, for other tools.
    pub exports: Vec<String>,
    /// The tools that the plugin listed when it was published. Nothing verifies that they are those of this component.
    pub tools: Option<Vec<RecordedTool>>,
}

/// A tool as it was recorded when its plugin was published.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordedTool {
    /// The name.
    pub name: String,
    /// The description for a model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of the arguments.
    pub schema: Box<RawValue>,
}

impl RecordedTool {
    /// Returns what a lock file keeps of the tool.
    pub fn locked(&self) -> LockedTool {
        LockedTool::of(&self.name, &self.description, self.schema.get())
    }
}

/// The bytes of an artifact, as a registry takes them.
pub(super) struct EncodedArtifact {
    pub config: Vec<u8>,
    pub manifest: Vec<u8>,
    pub config_descriptor: OciDescriptor,
    pub component_descriptor: OciDescriptor,
}

impl PluginPackageArtifact {
    /// Writes the config and the manifest. The same artifact always has the same bytes.
    pub(super) fn encode(&self) -> Result<EncodedArtifact, serde_json::Error> {
        let component_descriptor = OciDescriptor::of(COMPONENT_TYPE, &self.component);
        let config = serde_json::to_vec(&WasmConfig {
            created: CREATED.to_owned(),
            architecture: "wasm".to_owned(),
            os: "wasip2".to_owned(),
            layer_digests: vec![component_descriptor.digest.clone()],
            component: Some(WasmInterfaces { exports: self.exports.clone(), imports: self.imports.clone() }),
            tools: self.tools.clone(),
        })?;
        let config_descriptor = OciDescriptor::of(CONFIG_TYPE, &config);
        let text = |name: &str, text: Option<&String>| text.map(|text| (name.to_owned(), text.clone()));
        let annotations = [
            text(TITLE_ANNOTATION, Some(&self.title)),
            text(VERSION_ANNOTATION, Some(&self.version)),
            text(MANIFEST_ANNOTATION, self.manifest.as_ref()),
            text(WIT_ANNOTATION, self.wit.as_ref()),
            text(SIGNATURE_ANNOTATION, self.signature.as_ref()),
        ];
        let manifest = serde_json::to_vec(&OciManifest {
            schema_version: 2,
            media_type: Some(MANIFEST_TYPE.to_owned()),
            config: config_descriptor.clone(),
            layers: vec![component_descriptor.clone()],
            annotations: annotations.into_iter().flatten().filter(|(_, text)| !text.is_empty()).collect(),
        })?;
        Ok(EncodedArtifact { config, manifest, config_descriptor, component_descriptor })
    }

    /// Creates the artifact from the annotations of its manifest, its config and its component.
    pub(super) fn decode(
        mut annotations: BTreeMap<String, String>,
        config: Option<WasmConfig>,
        component: Vec<u8>,
    ) -> Self {
        let mut text = |name: &str| annotations.remove(name);
        let (interfaces, tools) = config.map_or((None, None), |config| (config.component, config.tools));
        let WasmInterfaces { exports, imports } = interfaces.unwrap_or_default();
        Self {
            title: text(TITLE_ANNOTATION).unwrap_or_default(),
            version: text(VERSION_ANNOTATION).unwrap_or_default(),
            component,
            manifest: text(MANIFEST_ANNOTATION),
            wit: text(WIT_ANNOTATION),
            signature: text(SIGNATURE_ANNOTATION),
            imports,
            exports,
            tools,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn artifact_has_the_layout_of_other_component_tools() {
        let tool = RecordedTool {
            name: "roll".into(),
            description: "Rolls.".into(),
            schema: RawValue::from_string("{ \"type\": \"object\" }".into()).unwrap(),
        };
        let artifact = PluginPackageArtifact {
            title: "dice".into(),
            component: b"code".to_vec(),
            manifest: Some("id = \"dice\"".into()),
            imports: vec!["shelly:plugin/log@0.1.0".into()],
            tools: Some(vec![tool]),
            ..PluginPackageArtifact::default()
        };
        let encoded = artifact.encode().unwrap();
        let manifest: Value = serde_json::from_slice(&encoded.manifest).unwrap();
        assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
        assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 1, "other tools expect exactly one");
        assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
        let annotations =
            json!({"io.shelly-host.plugin.manifest": "id = \"dice\"", "org.opencontainers.image.title": "dice"});
        assert_eq!(manifest["annotations"], annotations);
        let config: Value = serde_json::from_slice(&encoded.config).unwrap();
        assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
        assert_eq!(config["layerDigests"][0], manifest["layers"][0]["digest"]);
        assert_eq!(config["component"]["imports"], json!(["shelly:plugin/log@0.1.0"]));
        assert_eq!(artifact.encode().unwrap().manifest, encoded.manifest);

        let parsed: OciManifest = serde_json::from_slice(&encoded.manifest).unwrap();
        let config = serde_json::from_slice(&encoded.config).unwrap();
        let read = PluginPackageArtifact::decode(parsed.annotations, Some(config), b"code".to_vec());
        assert_eq!((read.manifest, read.wit, read.signature), (artifact.manifest, None, None));
        let (read, written) = (read.tools.unwrap(), artifact.tools.unwrap());
        assert_eq!(read[0].locked(), written[0].locked(), "the text of the schema is kept");
    }
}
