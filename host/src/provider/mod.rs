//! Models over HTTP: native completers. Wire formats are private to each.

mod adapter;
mod anthropic;
mod arguments;
mod assembly;
mod batch;
mod discovery;
mod gemini;
#[cfg(test)]
mod heard;
mod incoming;
mod lent;
mod listing;
mod media;
mod names;
mod openai;
mod printed;
mod responses;
mod schema;
mod served;
mod text;
mod think;
mod vendor;
mod wire;

pub use adapter::{AdapterConfig, ModelAdapter};
pub use anthropic::Anthropic;
pub use batch::{BatchProtocol, BatchResultCollector, HttpBatchEntry, HttpBatchOutcome, HttpBatches};
pub use discovery::{DiscoveredModel, discover, key_variables, key_variables_in_words, local_servers_in_words};
pub use gemini::Gemini;
pub use incoming::{IncomingReply, ReplySource};
pub use listing::ListedModel;
pub use names::{ToolNameRule, ToolNames};
pub use openai::{ChatCompletions, MaxTokensField};
pub use responses::ResponsesApi;
pub use served::{ProbedModel, ServedWindow, WindowProbe};
pub use vendor::{Vendor, VendorPreset, WireApi, WireOptions};
pub use wire::{HttpModel, WireProtocol};

pub(crate) use crate::net::sse;
