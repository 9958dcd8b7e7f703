//! The key `context`: files that go into system prompts.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits;

/// Limits on the files that go into system prompts.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Bytes that are read of one rules file of another program (CLAUDE.md and the like), at most 16 MiB; 0: the default.
    #[serde(default)]
    #[schemars(range(max = limits::CONTEXT_FILE_CEILING))]
    pub max_external_file_size: u64,
}

impl ContextConfig {
    /// Returns these limits, completed by those of `all`.
    pub(super) fn over(&self, all: &Self) -> Self {
        let size = self.max_external_file_size;
        Self { max_external_file_size: if size == 0 { all.max_external_file_size } else { size } }
    }
}
