//! Completers for models behind HTTP APIs. Each API's wire format is private to its submodule.

mod adapter;
mod anthropic;
mod arguments;
mod assembly;
mod batch;
mod borrowed_text;
#[cfg(test)]
mod delta_recorder;
mod discovery;
#[doc(hidden)]
pub mod fuzz;
mod gemini;
mod incoming_reply;
mod listing;
mod media;
mod openai;
mod printed_calls;
mod responses;
mod schema;
mod served_window;
mod text;
mod think_tags;
mod tool_names;
mod vendor;
mod wire;

pub use adapter::{AdapterConfig, ModelAdapter};
pub use anthropic::Anthropic;
pub use batch::{BatchProtocol, BatchResultCollector, HttpBatchEntry, HttpBatchOutcome, HttpBatches};
pub use discovery::{DiscoveredModel, discover, key_variables, key_variables_in_words, local_servers_in_words};
pub use gemini::Gemini;
pub use incoming_reply::{IncomingReply, ReplySource};
pub use listing::ListedModel;
pub use openai::{ChatCompletions, MaxTokensField};
pub use responses::ResponsesApi;
pub use served_window::{ProbedModel, ServedWindow, WindowProbe};
pub use tool_names::{ToolNameRule, ToolNames};
pub use vendor::{Vendor, VendorPreset, WireApi, WireOptions};
pub use wire::{HttpModel, WireProtocol};
