//! The comparison of the requirement for an import with a manifest and a grant.

use super::manifest::PluginManifest;
use crate::contract::ImportRequirement;
use shelly_core::capability::Grant;

impl ImportRequirement {
    /// Returns `true` if the manifest asks for it.
    pub fn is_asked_for_by(self, manifest: &PluginManifest) -> bool {
        if manifest.wasi && self.is_in_base() {
            return true;
        }
        let wanted = manifest.wants.grant();
        match self {
            // Files and HTTP use types of the clocks.
            Self::WasiClock => Self::Streams.is_given_to(&manifest.kinds, &wanted),
            need => need.is_given_to(&manifest.kinds, &wanted),
        }
    }

    /// Returns `true` if a plugin has the interface because of its kind, without a grant.
    pub fn comes_with_kind(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        self.is_given_by(&Grant { chat: false, ..granted.clone() }, manifest) && self == Self::Chat
    }

    /// Returns `true` if a plugin with this grant can import it.
    pub fn is_linked_with(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        manifest.wasi && self.is_in_base() || self == Self::WasiClock || self.is_given_by(granted, manifest)
    }

    /// Returns `true` if a plugin with this grant reaches something through it.
    pub fn is_given_by(self, granted: &Grant, manifest: &PluginManifest) -> bool {
        match self {
            Self::Kind(_) => true,
            Self::WasiClock => manifest.wasi && granted.clock,
            Self::WasiRandom => manifest.wasi && granted.random,
            need => need.is_given_to(&manifest.kinds, granted),
        }
    }
}
