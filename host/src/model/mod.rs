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
pub use batched::Batched;
pub use completer::{Completer, Completion, CompletionRequest, ModelInfo, ToolChoice, shorter};
pub use middleware::{AfterRequest, BeforeRequest, ModelMiddleware, Sending};
pub use pricing::{Price, PriceListError, PriceTable};
pub use rate_limit::{RateLimit, RateLimitConfig, RateLimited};
pub use scripted::ScriptedCompleter;
pub use sink::{DeltaSink, DeltaTarget, Seen, ShownReply};
pub use tracked::Tracked;
pub use usage::{Ledger, Tally, UsageTracker};
pub use window::ContextWindow;

pub use crate::chat::{Delta, StopReason, Usage};
