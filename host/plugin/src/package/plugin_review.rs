//! A plugin as a reviewer sees it: its component beside what its manifest requests.

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;

use super::{manifest::PluginManifest, plugin_package::PluginPackage};
use crate::{
    component::Anatomy,
    contract::{ContractVersion, ImportRequirement, ImportedInterface, has_chat, need_of_import, of_contract},
    error::PluginError,
};
use shelly_core::{
    capability::{Capability, Power},
    digest::Sha256Digest,
};

/// A plugin whose component is valid. Its manifest and its component need not agree.
#[derive(Debug)]
pub struct PluginReview {
    /// The manifest, or the one that follows from a component without a manifest.
    pub manifest: PluginManifest,
    /// The exports and imports of the component.
    pub anatomy: Anatomy,
    /// Size of the component in bytes.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: Sha256Digest,
    /// The plugin to be loaded, or the first reason why it cannot be used.
    pub package: Result<Arc<PluginPackage>, PluginError>,
}

/// An import of a component, for a reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReviewedImport {
    /// The name of the interface in the component.
    pub name: String,
    /// The use of the interface in a few words; `None` if this host does not provide it.
    pub meaning: Option<&'static str>,
    /// The line of `[wants]` that would request it, if the manifest does not.
    pub missing: Option<&'static str>,
}

impl From<&Arc<PluginPackage>> for PluginReview {
    fn from(package: &Arc<PluginPackage>) -> Self {
        let PluginPackage { manifest, anatomy, size, digest, .. } = &**package;
        Self {
            manifest: manifest.clone(),
            anatomy: anatomy.clone(),
            size: *size,
            digest: *digest,
            package: Ok(Arc::clone(package)),
        }
    }
}

impl PluginReview {
    /// Returns the imports, each with its meaning and with what the manifest lacks for it.
    pub fn imports(&self) -> Vec<ReviewedImport> {
        let import = |name: &String| {
            // What comes with a kind cannot be requested.
            let is_missing = |need: &ImportRequirement| {
                !matches!(need, ImportRequirement::Kind(_)) && !need.is_asked_for_by(&self.manifest)
            };
            let missing = need_of_import(name).filter(is_missing);
            ReviewedImport {
                name: name.clone(),
                meaning: ImportedInterface::of_import(name).map(ImportedInterface::meaning),
                missing: missing.map(ImportRequirement::manifest_line),
            }
        };
        self.anatomy.imports.iter().map(import).collect()
    }

    /// Returns the names under `[wants]` that the plugin has no use for: the component imports nothing that needs them. The
    /// models and powers that it wants have no imports of their own, and `wasi` needs no grant.
    pub fn idle_wants(&self) -> Vec<&'static str> {
        let manifest = &self.manifest;
        if manifest.wants_are_optional {
            // They were derived from the imports.
            return Vec::new();
        }
        let needs: Vec<_> = self.anatomy.imports.iter().filter_map(|import| need_of_import(import)).collect();
        let granted = |capability| needs.contains(&ImportRequirement::Granted(capability));
        let wanted = manifest.wants.grant();
        // A tool that proposes changes of files names them and need not read them.
        let proposes = wanted.powers.contains(&Power::ProposeFiles);
        let used = [
            (Capability::Files, granted(Capability::Files) || proposes),
            (Capability::Clock, granted(Capability::Clock) || needs.contains(&ImportRequirement::WasiClock)),
            (Capability::Random, granted(Capability::Random) || needs.contains(&ImportRequirement::WasiRandom)),
            (Capability::Chat, needs.contains(&ImportRequirement::Chat) || has_chat(&manifest.kinds)),
            (Capability::Kv, granted(Capability::Kv)),
            (Capability::Http, granted(Capability::Http)),
            // The host adds them to requests.
            (Capability::Credentials, granted(Capability::Http)),
            (Capability::Programs, granted(Capability::Programs)),
        ];
        let idle = used.into_iter().filter(|(capability, is_used)| wanted.has(*capability) && !is_used);
        idle.map(|(capability, _)| capability.name()).collect()
    }

    /// Returns the versions of the contract that the component was built for; none if it does not use the contract.
    pub fn contract_versions(&self) -> BTreeSet<&str> {
        let names = self.anatomy.exports.iter().chain(&self.anatomy.imports);
        names.filter_map(|name| of_contract(name)).map(|(_, version)| version).collect()
    }

    /// Returns the versions of the contract among them that this host does not have. Only the last number differs: a
    /// component of another series is refused before.
    pub fn other_contract_versions(&self) -> Vec<&str> {
        let is_served = |number: &&str| ContractVersion::ALL.into_iter().any(|version| version.number() == *number);
        self.contract_versions().into_iter().filter(|number| !is_served(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::compile::ComponentCompiler;

    /// Reviews a tool that imports these interfaces of the contract, with this under `[wants]`.
    async fn review(imports: &[&str], wants: &str) -> PluginReview {
        let import = |name: &&str| format!("(import \"shelly:plugin/{name}@0.1.0\" (instance))");
        let text = format!(
            "(component {} (instance $t) (export \"shelly:plugin/tool@0.1.2\" (instance $t)))",
            imports.iter().map(import).collect::<String>()
        );
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("c.wasm"), wat::parse_str(text).unwrap()).unwrap();
        let manifest = format!("id = \"a\"\ncomponent = \"c.wasm\"\nkinds = [\"tool\"]\n[wants]\n{wants}\n");
        fs::write(folder.path().join("plugin.toml"), manifest).unwrap();
        PluginReview::open(folder.path(), &ComponentCompiler::in_process()).await.unwrap()
    }

    #[tokio::test]
    async fn wants_are_compared_with_imports() {
        let both = review(&["log", "kv", "http"], "clock = true\nkv = \"run\"\nwasi = \"powerless\"").await;
        let missing: Vec<_> = both.imports().into_iter().map(|import| (import.meaning, import.missing)).collect();
        let expected = [
            (Some("writes to the log"), None),
            (Some("keeps values in a store"), None),
            (Some("sends HTTP requests"), Some("http = true")),
        ];
        assert_eq!(missing, expected);
        assert_eq!(both.idle_wants(), ["clock"]);
        assert!(matches!(&both.package, Err(PluginError::NotAskedFor { .. })), "{:?}", both.package);
        let fine = review(&["clock"], "clock = true").await;
        assert!(fine.idle_wants().is_empty() && fine.package.is_ok(), "{:?}", fine.package);
        assert_eq!(fine.contract_versions().into_iter().collect::<Vec<_>>(), ["0.1.0", "0.1.2"]);
        assert_eq!(fine.other_contract_versions(), ["0.1.2"]);
    }
}
