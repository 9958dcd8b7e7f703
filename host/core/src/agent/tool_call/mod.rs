//! Tool calls of a run: in order, within the budget, through the middleware around calls, recorded.

mod call_schedule;
mod counted_call;
mod read_result_tool;
mod tool_calls;
mod tool_middleware_chain;

pub(crate) use read_result_tool::read_result;
pub(crate) use tool_calls::run_calls;
pub(crate) use tool_middleware_chain::call_through;
