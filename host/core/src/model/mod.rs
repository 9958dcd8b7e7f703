//! Models from the agent's point of view: completion of conversations, with usage and cost.

mod batch;
mod batched_completer;
mod completer;
mod config_parsers;
mod delta_sink;
mod middleware;
mod pricing;
mod rate_limit;
mod scripted_completer;
mod tracked_completer;
mod usage;
mod window;

pub use batch::{BatchConfig, BatchId, BatchResults, BatchState, BatchSubmitter};
pub use batched_completer::BatchedCompleter;
pub use completer::{Completer, Completion, CompletionRequest, ModelInfo, ToolChoice, shorter};
pub use delta_sink::{DeltaSeenFlag, DeltaSink, DeltaTarget, ShownReply};
pub use middleware::{ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict};
pub use pricing::{Price, PriceListError, PriceTable};
pub use rate_limit::{ProviderRateLimiter, RateLimitConfig, RateLimitedCompleter};
pub use scripted_completer::ScriptedCompleter;
pub use tracked_completer::TrackedCompleter;
pub use usage::{Ledger, UsageTally, UsageTracker};
pub use window::ContextWindow;

pub use crate::chat::{ReplyDelta, StopReason, Usage};
