//! Limits of telemetry: what waits to be exported, and for how long.

use std::time::Duration;

/// The maximum number of spans, and of log records, that wait to be exported; further ones are dropped and counted. The
/// usual default of OpenTelemetry.
pub const TELEMETRY_QUEUE: usize = 2_048;
/// The maximum bytes of the spans, and of the log records, that wait: with the content of conversations few of them are
/// large.
pub const TELEMETRY_QUEUE_BYTES: usize = 16 << 20;
/// The maximum number of spans or log records in one request: collectors refuse requests of more than a few MiB.
pub const TELEMETRY_BATCH: usize = 512;
/// The bytes of spans or log records from which a request gets no further one: a quarter of the 16 MiB that collectors
/// accept by default, since JSON is larger.
pub const TELEMETRY_BATCH_BYTES: usize = 4 << 20;
/// The longest time that spans and log records wait for others before they are exported.
pub const TELEMETRY_BATCH_PAUSE: Duration = Duration::from_secs(5);
/// The time between two exports of metrics.
pub const TELEMETRY_METRICS_PAUSE: Duration = Duration::from_secs(60);
/// The default time limit of one export, all of its attempts included.
pub const TELEMETRY_EXPORT_TIME: Duration = Duration::from_secs(10);
/// The largest time limit of one export that can be set, in seconds: what waits longer is better dropped.
pub const TELEMETRY_EXPORT_SECONDS_CEILING: u64 = 60;
/// The number of further attempts of an export.
pub const TELEMETRY_RETRIES: usize = 3;
/// The longest time that the end of the program waits for the last exports.
pub const TELEMETRY_FLUSH_TIME: Duration = Duration::from_secs(3);
/// The maximum number of runs of one sink, and of tool calls of one run, whose spans are open at once; the spans of
/// further ones are dropped and counted.
pub const TELEMETRY_OPEN_SPANS: usize = 1_024;
/// The maximum characters of a name that a model or its vendor has chosen, in an attribute: a tool, a reason to stop.
pub const TELEMETRY_NAME_CHARS: usize = 100;
/// The maximum characters of a text in an attribute or a log record.
pub const TELEMETRY_TEXT_CHARS: usize = 2_048;
/// The maximum bytes of the messages in one attribute; further messages are left out.
pub const TELEMETRY_CONTENT_BYTES: usize = 64 << 10;
/// The maximum number of events on one span; further ones are dropped. The usual default of OpenTelemetry.
pub const TELEMETRY_SPAN_EVENTS: usize = 128;
/// The maximum number of series of one metric; further ones share one series. The usual default of OpenTelemetry.
pub const TELEMETRY_SERIES: usize = 2_000;
/// The maximum bytes that are read of a response of a collector: it has counts and a message.
pub const TELEMETRY_RESPONSE_BYTES: usize = 64 << 10;
/// The maximum bytes of an environment variable that lists headers or attributes of the resource.
pub const TELEMETRY_VARIABLE_BYTES: usize = 16 << 10;
/// The maximum number of headers, and of attributes of the resource, that a variable lists.
pub const TELEMETRY_VARIABLE_ENTRIES: usize = 64;
/// The maximum bytes of a `traceparent` from another host: version 00 has 55, and later versions may add parts.
pub const TRACEPARENT_BYTES: usize = 256;
/// The maximum bytes of a `tracestate` from another host, which the W3C Trace Context asks hosts to pass on.
pub const TRACESTATE_BYTES: usize = 512;
/// The maximum number of destinations that are told of spans.
pub const TELEMETRY_DESTINATIONS: usize = 64;
