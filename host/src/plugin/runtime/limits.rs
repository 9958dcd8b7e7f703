use std::time::Duration;

use crate::limits;

/// What one call of a plugin may take. The defaults stand in [`crate::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory of one instance, all its memories together; never more than
    /// [`limits::PLUGIN_MEMORY_CEILING`].
    pub memory: usize,
    /// Wall time of instantiating at load, and of `specs`.
    pub probe_time: Duration,
    /// Wall time of a tool call.
    pub tool_time: Duration,
    /// Wall time of a pure step: an effect's `eval`, a middleware's `before` or `after`.
    pub step_time: Duration,
    /// Wall time of a completion.
    pub completion_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: limits::PLUGIN_MEMORY_BYTES,
            probe_time: limits::PROBE_TIME,
            tool_time: limits::TOOL_TIME,
            step_time: limits::STEP_TIME,
            completion_time: limits::COMPLETION_TIME,
        }
    }
}
