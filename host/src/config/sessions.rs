//! The key `sessions`: recording runs.

use schemars::JsonSchema;
use serde::Deserialize;

/// Settings for recording runs as sessions.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// `true` if runs are recorded unless the command line says otherwise.
    pub record: bool,
    /// Bytes of one session; 0: the default.
    pub max_bytes: u64,
    /// Bytes of all sessions; 0: the default.
    pub max_total_bytes: u64,
}

impl Default for SessionsConfig {
    fn default() -> Self {
        Self { record: true, max_bytes: 0, max_total_bytes: 0 }
    }
}
