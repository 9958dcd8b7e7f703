//! Models behind HTTP APIs: each is a [`Completer`](shelly_core::model::Completer), whatever its vendor.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `vendor` | presets of vendors and servers |
//! | `adapter` | the settings of a model, and its requests; what all wire formats share |
//! | `wire` | the trait of a wire format, and the completer over any of them |
//! | `anthropic`, `openai`, `responses`, `gemini` | the wire formats: requests, replies, batches |
//! | `incoming_reply`, `assembly` | a reply as it arrives, and the message that is assembled from it |
//! | `text`, `borrowed_text`, `media` | texts and attachments in the form that wire formats use |
//! | `arguments`, `tool_names`, `schema` | tools in the form that a vendor accepts |
//! | `think_tags`, `printed_calls` | thoughts and tool calls that a server left in the text |
//! | `batch` | requests that are submitted together |
//! | `discovery`, `listing`, `served_window` | which models there are, and their context windows |
//!
//! # What it must not name
//!
//! No HTTP library: requests go through [`HttpClient`](shelly_net::HttpClient), which bounds them. No environment: keys are
//! given, or looked up by a function that the caller passes. Each wire format is
//! private to its module.
//!
//! # A model
//!
//! ```no_run
//! use shelly_core::{agent::Agent, chat::{Chat, Message}, event::RunCx};
//! use shelly_net::HttpClient;
//! use shelly_provider::{AdapterConfig, Vendor, WireOptions};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = AdapterConfig::new("http://localhost:11434/v1", "qwen3");
//! let model = Vendor::Ollama.completer(HttpClient::new()?, config, WireOptions::default())?;
//! let agent = Agent::new("ada", "Be brief.", model);
//! let answer = agent.run(&RunCx::new("ada"), &Chat::new(), vec![Message::user("What is two and two?")]).await?;
//! # drop(answer);
//! # Ok(()) }
//! ```

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
pub use discovery::{
    DiscoveredModel, LocalModelServer, SilentServer, VendorAddress, discover, key_variables, key_variables_in_words,
    local_servers, local_servers_in_words, vendor_keys,
};
pub use gemini::Gemini;
pub use incoming_reply::{IncomingReply, ReplyReader, ReplySource};
pub use listing::ListedModel;
pub use openai::{ChatCompletions, MaxTokensField};
pub use responses::ResponsesApi;
pub use served_window::{ProbedModel, ServedWindow, WindowProbe};
pub use tool_names::{ToolNameRule, ToolNames};
pub use vendor::{Vendor, VendorPreset, WireApi, WireOptions};
pub use wire::{HttpModel, WireProtocol};
