use crate::bindings::types;
use shelly_core::event::RunCx;

/// Returns the context of a run as a guest sees it.
pub fn run_context(cx: &RunCx) -> types::RunContext {
    types::RunContext { run: cx.run.to_string(), agent: cx.agent.to_string(), depth: cx.depth }
}
