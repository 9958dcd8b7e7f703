//! The command `trace`: what the runs of a session did.

mod comparison_text;
mod opener;
mod summary;
mod trace_args;
mod trace_output;

pub use trace_args::TraceArgs;
