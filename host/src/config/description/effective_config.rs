//! The effective config: every key with the value that applies, defaults filled in.

use serde::{Serialize, Serializer};

use super::{ConfigRuntimeInfo, config_description::config_description};
use crate::config::{Config, ConfigSources, OriginatedSetting, effective_setting::EffectiveSetting};

/// The effective config. It serializes with the keys of the file; secrets are masked.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveConfig(EffectiveSetting);

impl EffectiveConfig {
    /// Builds the effective config. `known` has one entry for each provider, agent, toolbox and plugin of `config`.
    pub fn new(config: &Config, known: &ConfigRuntimeInfo) -> Self {
        Self(config_description(config, known).into_setting())
    }

    /// Returns the config as YAML, with comments that name the source of a value.
    pub fn to_yaml(&self) -> String {
        self.0.to_yaml()
    }

    /// Returns what the files set, as [`to_yaml`](Self::to_yaml) shows it, without defaults; `None` if they set nothing.
    pub fn set_to_yaml(&self, sources: &ConfigSources) -> Option<String> {
        sources.set_by_files(&self.0).map(|set| set.to_yaml())
    }

    /// Returns each setting by itself, with the file and line that it comes from.
    pub fn settings(&self, sources: &ConfigSources) -> Vec<OriginatedSetting> {
        sources.settings(&self.0)
    }
}

impl Serialize for EffectiveConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}
