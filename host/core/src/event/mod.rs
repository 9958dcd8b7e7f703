//! The events of a run, as they happen: one closed enum and one bounded stream.

#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod event;
mod event_queue;
mod event_words;
mod file_difference;
mod import_calls;
mod new_id;
mod nondeterministic_inputs;
mod request_tokens;
mod run_caller;
mod run_cx;
mod run_extensions;
mod run_spans;
mod sink;
mod span_context;
mod stream_event;
mod stream_line;

pub use event::{AGENT_ORIGIN, AnsweredBy, Event, LogLevel, ModelWait, NO_ORIGIN};
pub use event_words::{
    CalledFunction, EffectEditKind, FileChangeKind, MiddlewareAction, PluginCallOutcome, PluginRequestOutcome,
    QuestionDecision,
};
pub use file_difference::FileDifference;
pub use import_calls::ImportCalls;
pub use new_id::new_id;
pub use nondeterministic_inputs::NondeterministicInputs;
pub use request_tokens::RequestTokens;
pub use run_caller::{RunCaller, RunCallerState};
pub use run_cx::RunCx;
pub use run_extensions::RunExtensions;
pub use run_spans::{RunSpans, SpanDestination, StepSpan};
pub use sink::{EventSink, EventStream};
pub use span_context::{PropagatedSpan, SpanContext, TRACEPARENT, TRACESTATE};
pub use stream_event::{StreamEvent, serialize_time};
pub use stream_line::{EVENT_STREAM_VERSION, StreamLine, StreamStart};
