//! Traces: what the runs of a session did, for people who look at them afterwards, and for other programs.
//!
//! [`TraceLines`] gives the events of a session as the lines of the stream of events. [`TraceAssembler`] puts them together
//! into runs, requests and calls, of which [`Trace`] is the overview. The other modules write them in the formats of other
//! programs. Everything is read piece by piece: a session may be far larger than memory.
//!
//! A trace is for looking only: what it says of events is not verified, and no run continues from it.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `error` | the reason for which a trace cannot be written |
//! | `line_members`, `journal_events`, `lines` | the events as lines: those that were recorded, and those that follow from the journal |
//! | `trace_event` | lines read back |
//! | `spans`, `assembler` | runs, requests and calls, each from its beginning to its end |
//! | `trace`, `comparison` | the overview of a session, and two of them side by side |
//! | `chat_json`, `otlp`, `inspect`, `inspect_pool` | the formats of OpenTelemetry and Inspect |
//! | `page` | the page for a browser |
//!
//! # What it must not name
//!
//! No terminal, no config and no network: it reads a [`SessionStore`](shelly_session::SessionStore) and writes to what it is
//! given.

mod assembler;
mod chat_json;
mod comparison;
mod error;
mod inspect;
mod inspect_pool;
mod journal_events;
mod line_members;
mod lines;
mod otlp;
mod page;
mod spans;
mod trace;
mod trace_event;

pub use assembler::TraceAssembler;
pub use comparison::{ComparedStep, StepMatch, TraceComparison};
pub use error::TraceError;
pub use inspect::write_inspect;
pub use lines::TraceLines;
pub use otlp::write_otlp;
pub use page::write_page;
pub use spans::{CallSpan, RequestSpan, RunEnd, RunSpan, TracePart};
pub use trace::{Trace, TraceRun, TraceStep, TraceStepKind, TraceTotals};
pub use trace_event::{TraceEvent, TraceEventKind};

#[cfg(test)]
mod tests;
