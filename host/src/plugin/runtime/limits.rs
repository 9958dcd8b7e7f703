use std::time::Duration;

use crate::limits;

/// What the calls of one plugin of one agent may take. The defaults stand in [`crate::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time of instantiating at load, and of `specs`.
    pub probe_time: Duration,
    /// Wall time of a tool call.
    pub tool_time: Duration,
    /// Wall time of a pure step: an effect's `eval`, a middleware's `before` or `after`.
    pub step_time: Duration,
    /// Wall time of a completion.
    pub completion_time: Duration,
    /// Time on the processor of one call, in its own code and in that of functions that it imports. A call is stopped at
    /// the end of the slice of [`limits::EPOCH_TICK`] in which it passes this.
    pub cpu: Duration,
    /// Bytes of linear memory of one instance, all its memories together; never more than
    /// [`limits::PLUGIN_MEMORY_CEILING`].
    pub memory_bytes: usize,
    /// Elements of all tables of one instance together; never more than [`limits::PLUGIN_TABLE_ELEMENTS_CEILING`].
    pub table_elements: usize,
    /// Core instances in one instance; never more than [`limits::PLUGIN_CORE_INSTANCES_CEILING`].
    pub instances: usize,
    /// Bytes of texts and lists that one call is handed. What it reads of files is not counted.
    pub input_bytes: usize,
    /// Bytes of texts and lists that one call hands over. What it writes to files is not counted.
    pub output_bytes: usize,
    /// Log entries of one call; the others are dropped.
    pub log_entries: u32,
    /// Bytes of all log entries of one call; those beyond it are dropped.
    pub log_bytes: usize,
    /// Calls of imported functions a second, of all calls together; a call that makes more is slowed down.
    pub host_calls_per_second: u32,
    /// Calls under way at once; others wait. A guest does one thing at a time, so this also bounds the calls of imported
    /// functions that are in flight.
    pub concurrency: u32,
    /// Bytes of the state that a pure step may keep; never more than [`limits::STATE_BYTES`].
    pub state_bytes: usize,
    /// HTTP requests in a minute, redirects counted.
    pub http_requests_per_minute: u32,
    /// HTTP requests and open responses at once.
    pub http_concurrency: u32,
    /// Bytes of the body of an HTTP request.
    pub http_request_bytes: u64,
    /// Bytes of the body of the response to one, decoded.
    pub http_response_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            probe_time: limits::PROBE_TIME,
            tool_time: limits::TOOL_TIME,
            step_time: limits::STEP_TIME,
            completion_time: limits::COMPLETION_TIME,
            cpu: limits::PLUGIN_CPU_TIME,
            memory_bytes: limits::PLUGIN_MEMORY_BYTES,
            table_elements: limits::PLUGIN_TABLE_ELEMENTS,
            instances: limits::PLUGIN_CORE_INSTANCES,
            input_bytes: limits::PLUGIN_INPUT_BYTES,
            output_bytes: limits::PLUGIN_OUTPUT_BYTES,
            log_entries: limits::LOG_ENTRIES,
            log_bytes: limits::LOG_BYTES,
            host_calls_per_second: limits::HOST_CALLS_PER_SECOND,
            concurrency: limits::PLUGIN_CONCURRENCY,
            state_bytes: limits::STATE_BYTES,
            http_requests_per_minute: limits::EGRESS_REQUESTS_PER_MINUTE,
            http_concurrency: limits::EGRESS_CONCURRENCY,
            http_request_bytes: limits::EGRESS_REQUEST_BYTES,
            http_response_bytes: limits::EGRESS_RESPONSE_BYTES,
        }
    }
}

impl Limits {
    /// The same, none of them more than there is room for, or so little that nothing would go on.
    pub(in crate::plugin) fn within_ceilings(self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.min(limits::PLUGIN_MEMORY_CEILING),
            table_elements: self.table_elements.min(limits::PLUGIN_TABLE_ELEMENTS_CEILING),
            instances: self.instances.min(limits::PLUGIN_CORE_INSTANCES_CEILING),
            state_bytes: self.state_bytes.min(limits::STATE_BYTES),
            // With none nothing would ever be called.
            concurrency: self.concurrency.clamp(1, limits::PLUGIN_CALLS),
            host_calls_per_second: self.host_calls_per_second.max(1),
            http_requests_per_minute: self.http_requests_per_minute.min(limits::EGRESS_REQUESTS_PER_MINUTE_CEILING),
            http_concurrency: self.http_concurrency.min(limits::EGRESS_CONCURRENCY_CEILING),
            http_request_bytes: self.http_request_bytes.min(limits::EGRESS_REQUEST_BYTES_CEILING),
            http_response_bytes: self.http_response_bytes.min(limits::EGRESS_RESPONSE_BYTES_CEILING),
            ..self
        }
    }
}
