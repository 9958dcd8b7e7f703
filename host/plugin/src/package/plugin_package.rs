use std::path::PathBuf;

use super::{manifest::PluginManifest, plugin_location::PluginLocation};
use crate::{
    component::{Anatomy, ComponentBytes},
    contract::{CHAT_KINDS, ImportRequirement, PluginKind, need_of_import, reads_chat},
    error::PluginError,
    functions::FunctionToolset,
};
use shelly_core::digest::Sha256Digest;

/// A plugin folder whose manifest and component agree and that this host can run.
#[derive(Debug, Clone)]
pub struct PluginPackage {
    /// The manifest of the plugin.
    pub manifest: PluginManifest,
    /// The exports and imports of the component.
    pub anatomy: Anatomy,
    /// The tools that the exported functions become, for kind `functions`.
    pub offer: FunctionToolset,
    /// The location of the plugin.
    pub location: PluginLocation,
    /// Size of the component in bytes.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: Sha256Digest,
}

impl PluginPackage {
    /// Creates the package of a component that was inspected, if it and the manifest agree.
    pub(super) fn checked(
        manifest: PluginManifest,
        anatomy: Anatomy,
        location: &PluginLocation,
        component: &ComponentBytes,
    ) -> Result<Self, PluginError> {
        let is_lone = location.is_lone_component();
        check(&manifest, &anatomy, is_lone)?;
        let id = || manifest.id.clone();
        let offer = FunctionToolset::new(&anatomy.exported, &manifest.functions)
            .map_err(|message| PluginError::Functions { id: id(), message, is_lone })?;
        if let Some(why) = offer.why_nothing().filter(|_| manifest.kinds.contains(&PluginKind::Functions)) {
            return Err(PluginError::NoFunction { id: id(), why });
        }
        let (size, digest) = (component.bytes.len() as u64, component.digest);
        Ok(Self { manifest, anatomy, offer, location: location.clone(), size, digest })
    }

    /// Returns the path of the component, as errors name it.
    pub(crate) fn component_path(&self) -> PathBuf {
        self.location.component_path(Some(&self.manifest))
    }

    /// Returns the digest in the form that is stored and compared: `sha256:` and the hexadecimal digits.
    pub fn named_digest(&self) -> String {
        self.digest.to_string()
    }

    /// Reads the component's bytes again and checks that they are those that were checked before.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, PluginError> {
        let component = self.location.read(Some(&self.manifest))?;
        match component.digest == self.digest {
            true => Ok(component.bytes),
            false => Err(PluginError::Changed { path: self.component_path() }),
        }
    }
}

/// Checks that manifest and component agree and that this host provides every import.
fn check(manifest: &PluginManifest, anatomy: &Anatomy, is_lone: bool) -> Result<(), PluginError> {
    let id = || manifest.id.clone();
    if manifest.kinds != anatomy.kinds {
        let list = |kinds: &[PluginKind]| kinds.iter().map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", ");
        let (declared, exported) = (list(&manifest.kinds), list(&anatomy.kinds));
        return Err(PluginError::KindsDiffer { id: id(), declared, exported });
    }
    // The first mismatch is reported, and some imports explain more than others.
    let mut imports: Vec<_> = anatomy.imports.iter().collect();
    imports.sort_by_key(|import| need_of_import(import).map(ImportRequirement::says_little));
    for import in imports {
        match need_of_import(import) {
            None => return Err(PluginError::ImportUnsupported { id: id(), import: import.clone() }),
            Some(ImportRequirement::Kind(kind)) if !manifest.kinds.contains(&kind) => {
                return Err(PluginError::OfAnotherKind {
                    id: id(),
                    import: import.clone(),
                    kinds: vec![kind],
                    is_lone,
                });
            }
            Some(ImportRequirement::Chat) if !reads_chat(&manifest.kinds) => {
                let kinds = CHAT_KINDS.to_vec();
                return Err(PluginError::OfAnotherKind { id: id(), import: import.clone(), kinds, is_lone });
            }
            Some(need) if !need.is_asked_for_by(manifest) => {
                let (import, line) = (import.clone(), need.manifest_line());
                return Err(PluginError::NotAskedFor { id: id(), import, line, is_lone });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
