//! The key `sessions`: recording runs.

use schemars::JsonSchema;
use serde::Deserialize;

/// Settings for recording runs as sessions.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// `true` if runs are recorded unless the command line says otherwise; `None`: they are.
    pub record: Option<bool>,
    /// Bytes of one session; 0: the default.
    pub max_bytes: u64,
    /// Bytes of all sessions; 0: the default.
    pub max_total_bytes: u64,
}

impl SessionsConfig {
    /// Returns `true` if runs are recorded unless the command line says otherwise.
    pub fn is_recording(&self) -> bool {
        self.record.unwrap_or(true)
    }

    /// Returns these settings, completed by those of `all`.
    pub(super) fn over(&self, all: &Self) -> Self {
        Self {
            record: self.record.or(all.record),
            max_bytes: if self.max_bytes == 0 { all.max_bytes } else { self.max_bytes },
            max_total_bytes: if self.max_total_bytes == 0 { all.max_total_bytes } else { self.max_total_bytes },
        }
    }
}
