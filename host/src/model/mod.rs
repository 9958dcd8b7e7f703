//! What a model is to the agent: something that completes a conversation, and what it uses and costs.

mod batch;
mod batched;
mod completer;
mod middleware;
mod pricing;
mod rate_limit;
mod scripted;
mod setting;
mod sink;
mod tracked;
mod usage;
mod window;

pub use batch::{BatchConfig, BatchId, BatchResults, BatchState, BatchSubmitter};
pub use batched::BatchedCompleter;
pub use completer::{Completer, Completion, CompletionRequest, ModelInfo, ToolChoice, shorter};
pub use middleware::{ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict};
pub use pricing::{Price, PriceListError, PriceTable};
pub use rate_limit::{ProviderRateLimiter, RateLimitConfig, RateLimitedCompleter};
pub use scripted::ScriptedCompleter;
pub use sink::{DeltaSeenFlag, DeltaSink, DeltaTarget, ShownReply};
pub use tracked::TrackedCompleter;
pub use usage::{Ledger, UsageTally, UsageTracker};
pub use window::ContextWindow;

pub use crate::chat::{ReplyDelta, StopReason, Usage};
