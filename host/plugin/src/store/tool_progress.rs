use std::time::Instant;

/// The progress reports of a tool call, limited in their rate.
pub struct ToolProgressThrottle {
    /// The id of the tool call.
    pub call: String,
    /// The time of the last event.
    pub last_sent: Option<Instant>,
    /// The newest report, if it has not been emitted yet.
    pub waiting: Option<(f64, Option<f64>, Option<String>)>,
}
