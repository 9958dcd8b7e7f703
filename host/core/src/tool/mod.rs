//! Tools that a model can call, whether built in or from a plugin.

mod call_start;
mod concurrency;
mod described;
mod dispatch;
#[cfg(test)]
mod finished_event_tests;
mod function;
mod lookalike;
mod middleware;
mod model_orders;
mod need;
mod output;
mod result_cut;
mod result_size;
mod schema;
#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod tool;
mod tool_call_id;
mod tool_name_conflict;
mod tool_review;
mod tool_source;
mod toolbox;
mod wrapped_tool;

pub use call_start::CallStartHook;
pub use concurrency::{ConcurrencyDomain, ToolConcurrency};
pub use described::{check_seen, described};
pub use dispatch::DispatchOutcome;
pub use function::{FnTool, function, spec};
pub use lookalike::looks_like;
pub use middleware::{ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget};
pub use need::ToolNeed;
pub use output::{ChangeProposalPart, CompletionStatus, RunControl, TaskCompletion, TaskHandoff, ToolOutput};
pub(crate) use result_cut::kept;
pub(crate) use result_size::{beginning, result_bytes};
pub use schema::{ENFORCED_KEYWORDS, InputSchema};
pub use tool::{Tool, ToolCx};
pub use tool_call_id::ToolCallId;
pub use tool_name_conflict::ToolNameConflict;
pub use tool_review::{ToolRemark, review_tool};
pub use tool_source::ToolSource;
pub(crate) use toolbox::READ_RESULT;
pub use toolbox::ToolBox;
pub use wrapped_tool::WrappedTool;
