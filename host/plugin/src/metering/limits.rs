use std::time::Duration;

use shelly_core::limits;

/// The limits of the calls of one plugin of one agent. The defaults are in [`shelly_core::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time of the probe at load: instantiation and `specs`.
    pub probe_time: Duration,
    /// Wall time of a tool call.
    pub tool_time: Duration,
    /// Wall time of a pure step: an effect's `eval`, a middleware's `before` or `after`.
    pub step_time: Duration,
    /// Wall time of a completion.
    pub completion_time: Duration,
    /// Processor time of one call, in its own code and in imported functions. A call is stopped at the end of the slice
    /// of [`limits::EPOCH_TICK`] in which it exceeds this.
    pub cpu: Duration,
    /// Bytes of linear memory of one instance, all its memories together; capped at [`limits::PLUGIN_MEMORY_CEILING`].
    pub memory_bytes: usize,
    /// Elements of all tables of one instance together; capped at [`limits::PLUGIN_TABLE_ELEMENTS_CEILING`].
    pub table_elements: usize,
    /// Core instances in one instance; capped at [`limits::PLUGIN_CORE_INSTANCES_CEILING`].
    pub instances: usize,
    /// Bytes of strings and lists passed to one call. Bytes read from files are not counted.
    pub input_bytes: usize,
    /// Bytes of strings and lists returned by one call. Bytes written to files are not counted.
    pub output_bytes: usize,
    /// Log entries of one call; the others are dropped.
    pub log_entries: u32,
    /// Bytes of all log entries of one call; entries beyond it are dropped.
    pub log_bytes: usize,
    /// Calls of imported functions per second, over all calls together; a call that makes more is slowed down.
    pub host_calls_per_second: u32,
    /// Concurrent calls; others wait. A guest does one thing at a time, so this also bounds the calls of imported
    /// functions that are in flight.
    pub concurrency: u32,
    /// Bytes of the state that a pure step may keep; capped at [`limits::STATE_BYTES`].
    pub state_bytes: usize,
    /// HTTP requests per minute, redirects included.
    pub http_requests_per_minute: u32,
    /// Concurrent HTTP requests and open responses.
    pub http_concurrency: u32,
    /// Bytes of the body of one HTTP request.
    pub http_request_bytes: u64,
    /// Bytes of the body of one HTTP response, decoded.
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
    /// Returns these limits clamped: to the ceilings, and to at least what a call needs to make progress.
    pub(crate) fn within_ceilings(self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.min(limits::PLUGIN_MEMORY_CEILING),
            table_elements: self.table_elements.min(limits::PLUGIN_TABLE_ELEMENTS_CEILING),
            instances: self.instances.min(limits::PLUGIN_CORE_INSTANCES_CEILING),
            state_bytes: self.state_bytes.min(limits::STATE_BYTES),
            // With 0 nothing would ever be called.
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
