use std::time::Duration;

/// The time and memory of the first call of a plugin, in which it is instantiated and describes its tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginStart {
    /// Wall time of the call.
    pub duration: Duration,
    /// Processor time of the call.
    pub cpu: Duration,
    /// The largest linear memory, in bytes.
    pub memory: usize,
}
