//! OpenTelemetry for `shelly-host`: traces, metrics and log records of runs, exported over OTLP/HTTP.
//!
//! Everything is made of the [events](shelly_core::event) of runs, which are read in the background: a run never waits
//! for telemetry. Queues are bounded, what does not fit is dropped and counted, and [`Telemetry::finish`] says how much
//! that was. Messages, arguments and results are exported only if the settings say so, and never a credential that the
//! host knows.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `conventions` | the names of spans, attributes and metrics, at one version of the semantic conventions |
//! | `otel_variables`, `trace_context`, `span_propagation`, `otlp_target`, `telemetry_settings` | settings of a config and of the environment |
//! | `attribute`, `span_draft`, `metric_set`, `message_content` | data in the form of the protocol |
//! | `sink_trace` | the identities of spans, and which of them other hosts are told |
//! | `observed_run`, `recorded` | the facts that events lack, and what events become |
//! | `run_event`, `open_run`, `run_recorder` | from events to spans, log records and measurements |
//! | `export_queue`, `exporter` | the queues, and the requests |
//! | `telemetry` | the tasks in the background |
//!
//! # What it must not name
//!
//! The messages of the protocol are those of `opentelemetry-proto`, which no other crate names. The crate names no HTTP
//! client of its own: requests go through [`shelly_net::HttpClient`]. It reads no environment: variables are given to it.

mod attribute;
mod conventions;
mod export_queue;
mod exporter;
mod message_content;
mod metric_set;
mod observed_run;
mod open_run;
mod otel_variables;
mod otlp_target;
mod recorded;
mod run_event;
mod run_recorder;
mod sink_trace;
mod span_draft;
mod span_propagation;
mod telemetry;
mod telemetry_settings;
mod trace_context;

pub use conventions::SEMANTIC_CONVENTIONS;
pub use exporter::TelemetryLosses;
pub use message_content::Redactor;
pub use observed_run::{ModelDirectory, ModelFacts, ObservedRun};
pub use otlp_target::{OtlpProtocol, OtlpTarget, UnknownOtlpProtocol};
pub use span_propagation::SpanPropagation;
pub use telemetry::Telemetry;
pub use telemetry_settings::{ConfiguredTelemetry, TelemetrySettings};
pub use trace_context::TraceSampler;
