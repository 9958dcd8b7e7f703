//! The comparison of the requirement for an import with a manifest and a grant.

use super::manifest::PluginManifest;
use crate::contract::{ImportRequirement, has_chat};
use shelly_core::capability::{Grant, RequestedCapabilities};

impl ImportRequirement {
    /// Returns `true` if the manifest asks for it.
    pub fn is_asked_for_by(self, manifest: &PluginManifest) -> bool {
        let RequestedCapabilities { files, clock, random, chat, kv, http, programs, .. } = &manifest.wants;
        if manifest.wasi && self.is_in_base() {
            return true;
        }
        match self {
            Self::Nothing => true,
            Self::Kind(kind) => manifest.kinds.contains(&kind),
            Self::Chat => *chat || has_chat(&manifest.kinds),
            Self::Clock => *clock,
            Self::Random => *random,
            Self::Files => files.is_some(),
            Self::Kv => *kv,
            Self::Http => !http.is_empty(),
            Self::Programs => *programs,
            // Files and HTTP use types of the clocks.
            Self::Streams | Self::WasiClock => files.is_some() || !http.is_empty(),
            Self::WasiRandom | Self::WasiBase => false,
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
            Self::Nothing | Self::Kind(_) => true,
            Self::Chat => granted.chat || has_chat(&manifest.kinds),
            Self::Clock => granted.clock,
            Self::Random => granted.random,
            Self::WasiClock => manifest.wasi && granted.clock,
            Self::WasiRandom => manifest.wasi && granted.random,
            Self::WasiBase => false,
            Self::Files => !granted.files.is_empty(),
            Self::Kv => !granted.kv.is_empty(),
            Self::Http => !granted.http.is_empty(),
            Self::Programs => !granted.programs.is_empty(),
            Self::Streams => !granted.files.is_empty() || !granted.http.is_empty(),
        }
    }
}
