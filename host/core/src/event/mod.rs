//! The events of a run, as they happen: one closed enum and one bounded stream.

#[expect(clippy::module_inception, reason = "the type that the room is named after")]
mod event;
mod import_calls;
mod nondeterministic_inputs;
mod run_caller;
mod run_cx;
mod run_extensions;
mod sink;

pub use event::{AnsweredBy, Event, LogLevel, ModelWait, NO_ORIGIN};
pub use import_calls::ImportCalls;
pub use nondeterministic_inputs::NondeterministicInputs;
pub use run_caller::{RunCaller, RunCallerState};
pub use run_cx::RunCx;
pub use run_extensions::RunExtensions;
pub use sink::{EventSink, EventStream};
