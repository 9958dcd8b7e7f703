use crate::{config::LimitsConfig, plugin::Limits};

/// Returns the limits of a plugin's calls from its config.
pub(crate) fn plugin_limits(config: &LimitsConfig) -> Limits {
    let default = Limits::default();
    let count = |says: Option<u64>, default| says.map_or(default, |says| u32::try_from(says).unwrap_or(u32::MAX));
    let size = |says: Option<u64>, default| says.map_or(default, as_size);
    Limits {
        probe_time: default.probe_time,
        tool_time: config.time.unwrap_or(default.tool_time),
        step_time: config.time.unwrap_or(default.step_time),
        completion_time: config.time.unwrap_or(default.completion_time),
        cpu: config.cpu.unwrap_or(default.cpu),
        memory_bytes: size(config.memory_bytes, default.memory_bytes),
        table_elements: size(config.table_elements, default.table_elements),
        instances: size(config.instances, default.instances),
        input_bytes: size(config.input_bytes, default.input_bytes),
        output_bytes: size(config.output_bytes, default.output_bytes),
        log_entries: count(config.log_entries, default.log_entries),
        log_bytes: size(config.log_bytes, default.log_bytes),
        host_calls_per_second: count(config.host_calls_per_second, default.host_calls_per_second),
        concurrency: count(config.concurrency, default.concurrency),
        state_bytes: size(config.state_bytes, default.state_bytes),
        http_requests_per_minute: count(config.http_requests_per_minute, default.http_requests_per_minute),
        http_concurrency: count(config.http_concurrency, default.http_concurrency),
        http_request_bytes: config.http_request_bytes.unwrap_or(default.http_request_bytes),
        http_response_bytes: config.http_response_bytes.unwrap_or(default.http_response_bytes),
    }
}

pub(crate) fn as_size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
